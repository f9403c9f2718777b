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
	"github.com/googleapis/gax-go/v2/callctx"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"
	transport "google.golang.org/api/transport/http"
)

// connect returns a state that can read the project, and has read nothing yet.
func connect(ctx context.Context, project string, o []option.ClientOption) (*State, error) {
	s := newState(project)
	client, _, err := transport.NewClient(ctx, o...)
	if err != nil {
		return nil, s.readError(projectsAPI, Project.All(), err)
	}

	s.client = client
	signer, signed := client.Transport.(*signer)
	if signed && signer.isUser {
		s.quota = project
	}
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

// Call calls an API with a body in JSON, and decodes its answer. A GET is tried again for a minute
// while the API is overloaded. Other calls are not: who makes them looks first what they have done.
func (s *State) Call(ctx context.Context, api Source, verb, path, body string, answer any) error {
	address := "https://" + api.name + ".googleapis.com/" + path
	var got []byte
	call := func(ctx context.Context, _ gax.CallSettings) error {
		r, err := http.NewRequestWithContext(ctx, verb, address, strings.NewReader(body))
		if err != nil {
			return err
		}
		r.Header.Set("Content-Type", "application/json")
		if quota := s.quotaProject(); quota != "" {
			r.Header.Set(quotaHeader, quota)
		}
		got, err = s.exchange(r)
		return err
	}

	settings := []gax.CallOption{gax.WithTimeout(time.Minute)}
	if verb == http.MethodGet {
		overloaded := func() gax.Retryer {
			return gax.OnHTTPCodes(gax.Backoff{}, http.StatusServiceUnavailable, http.StatusTooManyRequests)
		}
		settings = append(settings, gax.WithRetry(overloaded))
	}
	err := gax.Invoke(ctx, call, settings...)
	if s.uncounted(err) {
		err = gax.Invoke(ctx, call, settings...)
	}
	s.remember(verb, address, got, err)
	if err != nil {
		return err
	}

	d := json.NewDecoder(bytes.NewReader(got))
	d.UseNumber() // as they are written
	return d.Decode(answer)
}

// exchange sends the request, and returns the answer's body.
func (s *State) exchange(r *http.Request) ([]byte, error) {
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

// quotaHeader names the project that a call is counted for. APIs want it of a person's credentials:
// https://cloud.google.com/docs/quotas/set-quota-project
const quotaHeader = "X-Goog-User-Project"

func (s *State) quotaProject() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.quota
}

// uncounted reports whether a call was refused because the project that it is counted for has no
// Service Usage API. From then on calls are counted for no project, until the API is enabled:
// https://github.com/hashicorp/terraform-provider-google/issues/14173
func (s *State) uncounted(err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.quota == "" || reason(err) != disabled || metadata(err, "service") != servicesAPI.name+".googleapis.com" {
		return false
	}
	s.paused, s.quota = s.quota, ""
	return true
}

// counted has the calls of a client of Google's counted as those of Call.
func (s *State) counted(ctx context.Context) context.Context {
	quota := s.quotaProject()
	if quota == "" {
		return ctx
	}
	return callctx.SetHeaders(ctx, quotaHeader, quota)
}

// unsigned returns a client that sends neither credentials nor the project that calls are counted
// for. Addresses that are signed refuse them: https://github.com/firebase/firebase-tools/issues/6896
func (s *State) unsigned() *http.Client {
	signer, signed := s.client.Transport.(*signer)
	if signed {
		return &http.Client{Transport: signer.base}
	}
	return &http.Client{Transport: s.client.Transport}
}
