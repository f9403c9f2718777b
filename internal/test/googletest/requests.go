package googletest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
)

// A Request is one that came over REST.
type Request struct {
	Verb   string
	At     string // host and path
	Query  string // encoded, with its names in order
	Header http.Header
	Body   any // decoded JSON; nil: there was none, or it was no JSON
	Raw    []byte
}

// Requests returns the requests that came over REST since the last call of Requests.
func (g *Google) Requests() []Request {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := g.requests
	g.requests = nil
	return all
}

// remembered keeps each request before h answers it.
func (g *Google) remembered(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(raw))

		host, _, _ := strings.Cut(r.Host, ":")
		request := Request{Verb: r.Method, At: host + r.URL.Path, Query: r.URL.Query().Encode(), Header: r.Header, Raw: raw}
		_ = json.Unmarshal(raw, &request.Body)
		g.mu.Lock()
		g.requests = append(g.requests, request)
		g.mu.Unlock()
		h.ServeHTTP(w, r)
	})
}
