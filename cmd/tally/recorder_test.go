package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// A recorder is a round-tripper that writes what Google's APIs answer, a line of JSON for each
// call: without tokens, documents and secrets.
type recorder struct {
	base http.RoundTripper
	mu   sync.Mutex
	out  *json.Encoder
}

// RoundTrip implements http.RoundTripper. It records nothing of the request but its address,
// without the query, which may be signed.
func (c *recorder) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := c.base.RoundTrip(r)
	call := map[string]any{"call": r.Method + " " + r.URL.Host + r.URL.EscapedPath()}
	var text []byte
	if err == nil {
		text, err = io.ReadAll(response.Body)
		response.Body.Close()
		response.Body = io.NopCloser(bytes.NewReader(text))
		call["status"] = response.StatusCode
	}

	var answer any = len(text)
	ofDocuments := strings.HasPrefix(r.URL.Host, "firestore.") && strings.Contains(r.URL.Path, "/documents")
	switch {
	case err != nil:
		answer = err.Error()
	case !ofDocuments && json.Valid(text):
		_ = json.Unmarshal(text, &answer)
	}
	call["answer"] = harmless("", answer)

	c.mu.Lock()
	defer c.mu.Unlock()
	return response, errors.Join(err, c.out.Encode(call))
}

// secrets match the names of fields that may hold a secret, or what only the app knows.
var secrets = regexp.MustCompile(`(?i)token|secret|password|credential|authorization|privateKey|uploadUrl|email$|^(headers|body|data|content|labels|attributes|jsonPayload|textPayload|protoPayload|httpRequest|displayName|documentation)$`)

// ownVariables match the variables whose values are Tally's.
var ownVariables = regexp.MustCompile(`^(TALLY_[A-Z_]+|GOOGLE_CLOUD_PROJECT|GOMEMLIMIT|LOG_EXECUTION_ID)$`)

// addresses match what names a person, and queries of addresses.
var addresses = regexp.MustCompile(`[\w.%+'-]+@[\w-]+(\.[\w-]+)+|\?[^\s"]+`)

// harmless returns an answer, the value of a field, without what no one should pass on.
func harmless(field string, v any) any {
	switch v := v.(type) {
	case string:
		return hidden(v)
	case []any:
		all := slices.Clone(v)
		for i := range all {
			all[i] = harmless("", all[i])
		}
		return all
	case map[string]any:
		all := make(map[string]any)
		for name, value := range v {
			hides := secrets.MatchString(name) || field == "environmentVariables" && !ownVariables.MatchString(name)
			if all[name] = harmless(name, value); hides {
				all[name] = "hidden"
			}
		}
		return all
	}
	return v
}

// hidden returns a text without addresses of people and queries.
func hidden(text string) string {
	return addresses.ReplaceAllStringFunc(text, func(found string) string {
		if strings.HasSuffix(found, "gserviceaccount.com") {
			return found
		}
		return "hidden"
	})
}
