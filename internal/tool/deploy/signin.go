package deploy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
	"google.golang.org/api/option"
)

// scopes are what the credentials are asked for: all APIs, and who is signed in.
var scopes = []string{"https://www.googleapis.com/auth/cloud-platform", "https://www.googleapis.com/auth/userinfo.email"}

// errSignedOut says that there are no credentials.
var errSignedOut = errors.New("there are no application default credentials; gcloud auth application-default login makes some")

// SignIn returns the options with which clients of Google's sign in: by application default
// credentials (https://cloud.google.com/docs/authentication/application-default-credentials).
func SignIn(ctx context.Context) ([]option.ClientOption, error) {
	credentials, err := google.FindDefaultCredentials(ctx, scopes...)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errSignedOut, err)
	}
	return signedIn(credentials.TokenSource, credentials.JSON, http.DefaultTransport), nil
}

// signedIn returns the options for credentials, whose file is JSON, if they come from one.
func signedIn(tokens oauth2.TokenSource, file []byte, base http.RoundTripper) []option.ClientOption {
	var of struct{ Type string }
	_ = json.Unmarshal(file, &of) // those of a machine have no file
	s := &signer{base: base, tokens: oauth2.ReuseTokenSource(nil, tokens), isUser: strings.HasSuffix(of.Type, "authorized_user"), file: file}
	return []option.ClientOption{option.WithHTTPClient(&http.Client{Transport: s})}
}

// A signer signs requests.
type signer struct {
	base   http.RoundTripper
	tokens oauth2.TokenSource
	isUser bool   // the credentials are a person's
	file   []byte // that the credentials come from; nil: from none
}

// RoundTrip implements http.RoundTripper. It refuses a request that a redirect asks for: the
// token is for the API alone. Google's APIs do not redirect.
func (s *signer) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Response != nil {
		return nil, fmt.Errorf("refusing a redirect to %s: the request carries a token", r.URL.Host)
	}
	return (&oauth2.Transport{Source: s.tokens, Base: s.base}).RoundTrip(r)
}

// Account returns who is signed in; "" if that cannot be told.
func (p *Project) Account(ctx context.Context) string {
	signer, signed := p.client.Transport.(*signer)
	if signed {
		var of struct {
			ClientEmail   string `json:"client_email"`
			Impersonation string `json:"service_account_impersonation_url"`
		}
		_ = json.Unmarshal(signer.file, &of)
		impersonated, _, _ := strings.Cut(path.Base(of.Impersonation), ":")
		switch {
		case of.ClientEmail != "":
			return of.ClientEmail
		case of.Impersonation != "":
			return impersonated
		}
	}

	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://openidconnect.googleapis.com/v1/userinfo", nil)
	if err != nil {
		return ""
	}
	body, err := send(p.client, r)
	if err != nil {
		return ""
	}
	var who struct{ Email string }
	_ = json.Unmarshal(body, &who)
	return who.Email
}
