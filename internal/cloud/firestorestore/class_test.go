package firestorestore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestClass(t *testing.T) {
	for _, test := range []struct {
		err  error
		want string
	}{
		{status.Error(codes.Unavailable, "injected"), "Unavailable"},
		{fmt.Errorf("firestore: writing: %w", status.Error(codes.PermissionDenied, "injected")), "PermissionDenied"},
		{fmt.Errorf("firestore: reading: %w", context.DeadlineExceeded), "DeadlineExceeded"},
		{fmt.Errorf("firestore: reading: %w", context.Canceled), "Canceled"},
		{errors.New("anything else"), "Unknown"},
	} {
		if got := firestorestore.Class(test.err); got != test.want {
			t.Errorf("Class(%v) = %s, want %s", test.err, got, test.want)
		}
	}
}
