package needs_test

import (
	"context"
	"errors"
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

// On a machine with nothing, the list has everything, at once, and how to get it.
func TestNothing(t *testing.T) {
	bin := t.TempDir()
	for _, name := range []string{"JAVA_HOME", "CLOUDSDK_ROOT_DIR", "FIREBASE_EMULATORS_PATH", "FIRESTORE_EMULATOR_BINARY_PATH"} {
		t.Setenv(name, "")
	}
	t.Setenv("HOME", bin)
	t.Setenv("PATH", bin)
	got := needs.Missing(t.Context(), emulator.Find)
	for _, want := range []string{
		"go test ./... runs more than Go, and this machine lacks:\n  Java 21: ",
		"\n  Firestore emulator: no Firestore emulator on this machine\n",
		"\ngo run ./cmd/tally demo downloads it, once. go test -short ./... needs Go alone.\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %q in it", got, want)
		}
	}
}

// What is too old or does not run is missing, and nothing else.
func TestSome(t *testing.T) {
	for want, java := range map[string]error{"": nil, "Java 21: it is Java 8": errors.New("it is Java 8")} {
		got := needs.Missing(t.Context(), func(context.Context) (_, jar error) { return java, nil })
		if !strings.Contains(got, want) || strings.Contains(got, "Firestore emulator") || (got == "") != (want == "") {
			t.Errorf("got\n%s\nwant %q alone", got, want)
		}
	}
}
