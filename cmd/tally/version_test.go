package main

import (
	"bytes"
	"encoding/json"
	"runtime"
	"testing"
)

// tally version --json has what the line says, each by its name, and completion has a script for
// each shell that the page names.
func TestVersionAsJSON(t *testing.T) {
	var out, logs bytes.Buffer
	status := run(t.Context(), []string{"version", "--json"}, &out, &logs)
	var said map[string]string
	err := json.Unmarshal(out.Bytes(), &said)
	if status != 0 || err != nil || said["version"] == "" || said["go"] != runtime.Version() || len(said) != 2 {
		t.Errorf("exit status %d, %v: %s%s", status, err, &out, &logs)
	}

	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		out.Reset()
		status := run(t.Context(), []string{"completion", shell}, &out, &logs)
		if status != 0 || out.Len() == 0 {
			t.Errorf("completion %s: exit status %d: %s", shell, status, &logs)
		}
	}
}
