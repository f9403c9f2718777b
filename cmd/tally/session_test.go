//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestNoEmulator(t *testing.T) {
	emulatortest.Addr(t)
	port := freePorts(t, 1)
	t.Setenv(firestorestore.EmulatorHost, fmt.Sprintf("127.0.0.1:%d", port))
	var out, logs bytes.Buffer
	if status := run(t.Context(), []string{"get", "likes"}, &out, &logs); status != 1 || !strings.Contains(logs.String(), fmt.Sprintf("FIRESTORE_EMULATOR_HOST=127.0.0.1:%d: no Firestore emulator answers there", port)) {
		t.Errorf("status %d: %s", status, &logs)
	}
}

func TestNoCredentials(t *testing.T) {
	emulatortest.Addr(t)
	t.Setenv(firestorestore.EmulatorHost, "")
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", t.TempDir()+"/none.json")
	for _, args := range [][]string{{"get", "likes", "--project", "demo-none"}, {"get", "likes"}} {
		var out, logs bytes.Buffer
		if status := run(t.Context(), args, &out, &logs); status != 1 || !strings.Contains(logs.String(), "gcloud auth application-default login") {
			t.Errorf("tally %v: status %d: %s", args, status, &logs)
		}
	}
}

// The time limit of a command is without progress.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		patient := dialog{timeout: time.Minute}
		ctx, stop := patient.patient(t.Context())
		defer stop()
		for range 3 {
			time.Sleep(59 * time.Second)
			patient.report(1, 10)
		}
		if ctx.Err() != nil {
			t.Errorf("given up while it went on: %v", context.Cause(ctx))
		}
		time.Sleep(61 * time.Second)
		if err := context.Cause(ctx); err == nil || err.Error() != "no progress for 1m0s; --timeout gives it longer" {
			t.Errorf("without progress: %v", err)
		}
	})
}

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
		got := explain(wrapped, "shop", false)
		if !errors.Is(got, test.err) || !strings.Contains(got.Error(), test.want) || (test.want == "") != (got == wrapped) {
			t.Errorf("%v: got %q, want %q", test.err, got, test.want)
		}
	}
	if explain(nil, "shop", false) != nil {
		t.Error("no error became one")
	}
}
