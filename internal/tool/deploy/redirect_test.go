package deploy

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/oauth2"
	transport "google.golang.org/api/transport/http"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// An API that redirects, to whatever host and by whatever status, does not pass the token on.
func TestRedirectGetsNoToken(t *testing.T) {
	for _, to := range []string{"http://evil.example/x", "https://evil.example/x", "https://run.googleapis.com/other", "/v2/other"} {
		for _, code := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
			requests := 0
			base := roundTripper(func(r *http.Request) (*http.Response, error) {
				requests++
				body := io.NopCloser(strings.NewReader("{}"))
				if requests == 1 {
					return &http.Response{StatusCode: code, Header: http.Header{"Location": {to}}, Body: body, Request: r}, nil
				}
				t.Errorf("%d to %s: sent, with Authorization %q and X-Goog-User-Project %q", code, r.URL, r.Header.Get("Authorization"), r.Header.Get("X-Goog-User-Project"))
				return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: body, Request: r}, nil
			})
			client, _, err := transport.NewClient(t.Context(), signedIn(oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "SECRET"}), nil, base)...)
			if err != nil {
				t.Fatal(err)
			}
			p := &Project{ID: "p", client: client}
			err = p.Call(t.Context(), http.MethodGet, "run.googleapis.com/v2/projects/p", nil, new(any))
			if err == nil || !strings.Contains(err.Error(), "refusing a redirect to") || strings.Contains(err.Error(), "SECRET") {
				t.Errorf("%d to %s: %v", code, to, err)
			}
		}
	}
}
