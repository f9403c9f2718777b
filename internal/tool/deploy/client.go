package deploy

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/googleapis/gax-go/v2"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"
	transport "google.golang.org/api/transport/http"
)

// connect returns a state that can read the project, and has read nothing yet.
func connect(ctx context.Context, project string, o []option.ClientOption) (*State, error) {
	scopes := option.WithScopes("https://www.googleapis.com/auth/cloud-platform")
	client, _, err := transport.NewClient(ctx, append([]option.ClientOption{scopes}, o...)...)
	if err != nil {
		return nil, ReadError(projectsAPI, project, Project.All(), err)
	}

	s := newState(project)
	s.client = client
	return s, nil
}

// List returns all pages of a List of an API, of the collection at the address. If regions did not
// answer, it returns what the others have, and an error: the resources of those regions are
// missing.
func (s *State) List(ctx context.Context, api Source, address string) (all []Object, err error) {
	collection, query, _ := strings.Cut(address, "?")
	name := path.Base(collection) // of the list in the answer
	if name == "serviceAccounts" {
		name = "accounts"
	}

	var silent []string // ids of regions
	token := ""
	for {
		var page Object
		if err := s.Call(ctx, api, http.MethodGet, collection+"?"+query+token, "", &page); err != nil {
			return all, err
		}

		list, _ := page[name].([]any)
		for _, o := range list {
			all = append(all, o.(map[string]any))
		}
		silent = withSilent(silent, page)

		next := page.Get("nextPageToken")
		if next == "" {
			break
		}
		token = "&pageToken=" + url.QueryEscape(next)
	}

	if len(silent) > 0 {
		return all, &unreachable{silent}
	}
	return all, nil
}

// withSilent adds the ids of the regions that did not answer for a page of a list.
func withSilent(silent []string, page Object) []string {
	for region := range strings.SplitSeq(page.Get("unreachable"), ",") {
		id := locationID(region)
		if region != "" && !slices.Contains(silent, id) {
			silent = append(silent, id)
		}
	}
	return silent
}

// Call calls an API with a body in JSON, and decodes its answer. While the API is overloaded, Call
// tries again, for a minute.
func (s *State) Call(ctx context.Context, api Source, verb, path, body string, answer any) error {
	address := "https://" + api.name + ".googleapis.com/" + path
	var got []byte
	call := func(ctx context.Context, _ gax.CallSettings) error {
		r, err := http.NewRequestWithContext(ctx, verb, address, strings.NewReader(body))
		if err != nil {
			return err
		}

		r.Header.Set("Content-Type", "application/json")
		if api == RulesAPI { // it takes no quota from gcloud's own project; the credentials' own comes first
			r.Header.Set("X-Goog-User-Project", s.Project)
		}
		got, err = s.send(r)
		return err
	}

	overloaded := func() gax.Retryer { return gax.OnHTTPCodes(gax.Backoff{}, http.StatusServiceUnavailable) }
	err := gax.Invoke(ctx, call, gax.WithRetry(overloaded), gax.WithTimeout(time.Minute))
	s.remember(verb, address, got, err)
	if err != nil {
		return err
	}

	d := json.NewDecoder(bytes.NewReader(got))
	d.UseNumber() // as they are spelled
	return d.Decode(answer)
}

// send sends the request, and returns the answer's body.
func (s *State) send(r *http.Request) ([]byte, error) {
	response, err := s.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()

	if err := googleapi.CheckResponse(response); err != nil {
		return nil, err
	}
	return io.ReadAll(response.Body)
}
