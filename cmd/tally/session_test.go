//go:build unix

package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
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
