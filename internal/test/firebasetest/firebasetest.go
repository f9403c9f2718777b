// Package firebasetest stands in for the Firebase CLI.
package firebasetest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Use does what "firebase use" does in the current folder, with a configuration of the test's own.
func Use(t *testing.T, project string) {
	t.Helper()
	dir, err := os.Getwd()
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	Store(t, fmt.Sprintf(`{"activeProjects": {%q: %q}}`, dir, project))
}

// Store has the CLI's file of what it remembers hold a text, in a configuration of the test's own.
func Store(t *testing.T, text string) {
	t.Helper()
	config := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", config)
	file := filepath.Join(config, "configstore", "firebase-tools.json")
	err := os.MkdirAll(filepath.Dir(file), 0o700)
	if err == nil {
		err = os.WriteFile(file, []byte(text), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
