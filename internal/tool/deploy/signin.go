package deploy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
	"google.golang.org/api/option"
)

// scope is what the credentials are asked for: all APIs.
const scope = "https://www.googleapis.com/auth/cloud-platform"

// errSignedOut says that there are no credentials.
var errSignedOut = errors.New("there are no application default credentials; gcloud auth application-default login makes some")

// SignIn returns the options with which clients of Google's sign in: by application default
// credentials (https://cloud.google.com/docs/authentication/application-default-credentials).
func SignIn(ctx context.Context) ([]option.ClientOption, error) {
	credentials, err := google.FindDefaultCredentials(ctx, scope)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errSignedOut, err)
	}
	return signedIn(credentials.TokenSource, credentials.JSON, http.DefaultTransport), nil
}

// signedIn returns the options for credentials, whose file is JSON, if they come from one.
func signedIn(tokens oauth2.TokenSource, file []byte, base http.RoundTripper) []option.ClientOption {
	var of struct{ Type string }
	_ = json.Unmarshal(file, &of) // those of a machine have no file
	s := &signer{base: base, tokens: oauth2.ReuseTokenSource(nil, tokens), isUser: strings.HasSuffix(of.Type, "authorized_user")}
	return []option.ClientOption{option.WithHTTPClient(&http.Client{Transport: s})}
}

// A signer signs requests.
type signer struct {
	base   http.RoundTripper
	tokens oauth2.TokenSource
	isUser bool // the credentials are a person's
}

// RoundTrip implements http.RoundTripper. It refuses a request that a redirect asks for: the
// token is for the API alone. Google's APIs do not redirect.
func (s *signer) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Response != nil {
		return nil, fmt.Errorf("refusing a redirect to %s: the request carries a token", r.URL.Host)
	}
	return (&oauth2.Transport{Source: s.tokens, Base: s.base}).RoundTrip(r)
}
