package session

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// What Firestore answers on a real project, which the emulator never does.
func TestExplain(t *testing.T) {
	for _, test := range []struct {
		err  error
		want string
	}{
		{status.Error(codes.PermissionDenied, "Missing or insufficient permissions."), "roles/datastore.viewer"},
		{status.Error(codes.NotFound, "The database eu does not exist for project shop"), "gcloud firestore databases list --project=shop"},
		{status.Error(codes.Unauthenticated, "Request had invalid authentication credentials."), "gcloud auth application-default login"},
		{errors.New("something else"), ""},
	} {
		wrapped := fmt.Errorf("shards: reading: %w", test.err)
		got := Explain(wrapped, "shop", false)
		if !errors.Is(got, test.err) || !strings.Contains(got.Error(), test.want) || (test.want == "") != (got == wrapped) {
			t.Errorf("%v: got %q, want %q", test.err, got, test.want)
		}
	}
	if Explain(nil, "shop", false) != nil {
		t.Error("no error became one")
	}
}
