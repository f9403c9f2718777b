package needs_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/firestore-tally/tally/internal/test/needs"
	"github.com/firestore-tally/tally/internal/tool/local/emulator"
)

var all = flag.Bool("all", false, "list also what .ci/run and .ci/nightly lack, beyond go test ./...")

// The machine has what the tests run. Each test that misses something says the same.
func TestMachine(t *testing.T) {
	if testing.Short() && !*all {
		t.Skip("-short goes without all of it")
	}
	if missing := needs.Missing(t.Context(), emulator.Find, *all); missing != "" {
		t.Error("\n" + missing)
	}
}

// bare is a machine with nothing.
func bare(t *testing.T) (bin string) {
	t.Helper()
	bin = t.TempDir()
	for _, name := range []string{"JAVA_HOME", "CLOUDSDK_ROOT_DIR", "FIREBASE_EMULATORS_PATH", "FIRESTORE_EMULATOR_BINARY_PATH"} {
		t.Setenv(name, "")
	}
	t.Setenv("HOME", bin)
	t.Setenv("PATH", bin)
	t.Setenv("CHROMIUM", filepath.Join(bin, "chromium"))
	return bin
}

// On a machine with nothing, the list has everything, at once, with a command that installs what a
// system has.
func TestNothing(t *testing.T) {
	bare(t)
	got := needs.Missing(t.Context(), emulator.Find, false)
	for _, want := range []string{
		"go test ./... runs more than Go, and this machine lacks:\n  Java 21 ", "\n  Firestore emulator    no Firestore emulator on this machine\n", "\n  Google Cloud CLI ",
		".ci/run and .ci/nightly, for what they run beyond that, also lack:\n  Pub/Sub emulator ", "\n  Java Development Kit  ", "\n  Node.js 20 ", "\n  npm ", "\n  Chromium ", "\n  Maven ", "\n  Python 3 with venv ",
		"\n  Debian, Ubuntu        sudo apt-get install openjdk-21-jdk-headless nodejs npm chromium maven python3-venv\n",
		"\n  macOS                 brew install openjdk@21 node maven python\n",
		"\n  Firestore emulator    go run ./cmd/tally demo downloads it, once\n",
		"\ngo test -short ./... needs Go alone.\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %q in it", got, want)
		}
	}
}

// What only .ci/run lacks keeps go test ./... from nothing. Tools that are too old or do not run
// are missing.
func TestSome(t *testing.T) {
	bin := bare(t)
	script := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	script("gcloud", "printf '1.2\\t3.4\\n'")
	script("node", "echo v18.20.4")
	script("javac", "exit 1")
	well := func(context.Context) (java, jar error) { return nil, nil }
	if got := needs.Missing(t.Context(), well, false); got != "" {
		t.Errorf("go test ./... lacks nothing, and is told:\n%s", got)
	}
	got := needs.Missing(t.Context(), well, true)
	for _, want := range []string{"node is v18.20.4, want v20 or newer", filepath.Join(bin, "javac") + " does not run: exit status 1"} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %q in it", got, want)
		}
	}
	for _, lack := range []string{"go test ./... runs", "Cloud CLI"} {
		if strings.Contains(got, lack) {
			t.Errorf("got\n%s\nwant no %q in it", got, lack)
		}
	}

	script("gcloud", `case "$2" in *pubsub*) ;; *) printf '1.2\t3.4\n' ;; esac`)
	if got := needs.Missing(t.Context(), well, true); !strings.Contains(got, "gcloud lacks its component pubsub-emulator") {
		t.Errorf("got\n%s\nwant the missing component in it", got)
	}

	script("gcloud", "printf '1.2\\t\\n'")
	old := func(context.Context) (java, jar error) { return errors.New("it is Java 8"), nil }
	got = needs.Missing(t.Context(), old, false)
	for _, want := range []string{"\n  Java 21               it is Java 8\n", "gcloud lacks its components alpha and beta", "node is v18"} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %q in it", got, want)
		}
	}
}
