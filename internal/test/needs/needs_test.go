package needs_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/firestore-tally/tally/internal/test/needs"
	"github.com/firestore-tally/tally/internal/tool/local/emulator"
)

// The machine has what the tests run. Each test that misses something says the same.
func TestMachine(t *testing.T) {
	if testing.Short() {
		t.Skip("-short goes without all of it")
	}
	if missing := needs.Missing(t.Context(), emulator.Find); missing != "" {
		t.Error("\n" + missing)
	}
}

// On a machine with nothing, the list has everything, at once, and how to install it.
func TestNothing(t *testing.T) {
	bin := t.TempDir()
	for _, name := range []string{"JAVA_HOME", "CLOUDSDK_ROOT_DIR", "FIREBASE_EMULATORS_PATH", "FIRESTORE_EMULATOR_BINARY_PATH"} {
		t.Setenv(name, "")
	}
	t.Setenv("HOME", bin)
	t.Setenv("PATH", bin)
	got := needs.Missing(t.Context(), emulator.Find)
	for _, want := range []string{
		"go test ./... runs more than Go, and this machine lacks:\n  Java 21: ", "\n    to install it: sudo apt-get install openjdk-21-jdk-headless, ",
		"\n  Firestore emulator: no Firestore emulator on this machine\n    to install it: go run ./cmd/tally demo downloads it, once\n",
		"\n  Google Cloud CLI: ", "\ngo test -short ./... needs Go alone.\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %q in it", got, want)
		}
	}
}

// What is too old or does not run is missing, and nothing else.
func TestSome(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	old := func(context.Context) (java, jar error) { return errors.New("it is Java 8"), nil }
	well := func(context.Context) (java, jar error) { return nil, nil }
	for _, test := range []struct {
		gcloud string
		find   needs.Emulator
		want   []string // nil: nothing is missing
	}{
		{"printf '1.2\\t3.4\\n'", well, nil},
		{"printf '1.2\\t\\n'", well, []string{"gcloud lacks its components alpha and beta"}},
		{"exit 1", well, []string{filepath.Join(bin, "gcloud") + " does not run: exit status 1"}},
		{"printf '1.2\\t3.4\\n'", old, []string{"Java 21: it is Java 8"}},
	} {
		if err := os.WriteFile(filepath.Join(bin, "gcloud"), []byte("#!/bin/sh\n"+test.gcloud+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		got := needs.Missing(t.Context(), test.find)
		if strings.Count(got, "to install it") != len(test.want) {
			t.Errorf("%s: got\n%s\nwant %q alone", test.gcloud, got, test.want)
		}
		for _, want := range test.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: got\n%s\nwant %q in it", test.gcloud, got, want)
			}
		}
	}
}
