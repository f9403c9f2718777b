package rules

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"

	"google.golang.org/grpc/metadata"
)

// A User makes requests: somebody with an id, or one of the constants.
type User struct {
	ID       string
	Verified bool // the user's email address, which is the id if that is one
}

// Users whom no document names.
var (
	SignedOut = User{}                                  // no user is signed in
	Anybody   = User{ID: "somebody-of-the-rules-trial"} // signed in
	server    = User{ID: "owner"}                       // not bound by rules
)

// String returns who the user is, in words.
func (u User) String() string {
	switch u.ID {
	case SignedOut.ID:
		return "a client that is not signed in"
	case Anybody.ID:
		return "any signed-in user"
	}
	return "user " + u.ID
}

// context returns what a user's requests run in. The emulator takes an unsigned token.
func (u User) context(ctx context.Context) context.Context {
	if u == SignedOut {
		return ctx
	}
	token := server.ID
	if u != server {
		email := u.ID
		if !strings.Contains(email, "@") {
			email += "@users.example"
		}
		payload, _ := json.Marshal(map[string]any{ // texts have no error
			"sub": u.ID, "email": email, "email_verified": u.Verified,
			"firebase": map[string]any{"sign_in_provider": "password"},
		})
		part := base64.RawURLEncoding.EncodeToString
		token = part([]byte(`{"alg":"none"}`)) + "." + part(payload) + "."
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
}
