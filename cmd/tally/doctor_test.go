//go:build unix

package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/firestore-tally/tally/internal/tool/doctor"
)

// tally doctor --list needs no project, and leaves no check out.
func TestDoctorExplains(t *testing.T) {
	t.Setenv("GOOGLE_CLOUD_PROJECT", "")
	var out, logs bytes.Buffer
	if status := run(t.Context(), []string{"doctor", "--list"}, &out, &logs); status != 0 {
		t.Fatalf("status %d: %s", status, &logs)
	}
	for _, c := range doctor.Checks {
		if !strings.Contains(out.String(), "\n"+c.Name+": ") && !strings.HasPrefix(out.String(), c.Name+": ") {
			t.Errorf("no line explains %s:\n%s", c.Name, &out)
		}
	}
}

// Without credentials or a project doctor checks what is local, and says what it did not look at.
func TestDoctorWithoutProject(t *testing.T) {
	const unlooked = "- payment, configuration, databases, as-deployed, deliveries, alarms, indexes, left-out, once-per-user, " +
		"last-tick, drift, late, rules-increments, rules not checked: the project was not read"
	for _, test := range []struct {
		name, yaml, project string
		status              int
		says                []string
	}{
		{"no credentials", "routes: |\n  counters/{counter}/shards/{shard} -> rollups/{counter} : count\n", "my-project", 2, []string{
			"✓ tally-yaml ", "? project ", "there are no application default credentials; gcloud auth application-default login makes some", unlooked, "1 OK, 0 failed, 17 not checked"}},
		{"no project", "", "", 2, []string{"there is no tally.yaml here or above", "name the project by --project or GOOGLE_CLOUD_PROJECT", unlooked}},
		{"a project that is none", "", "My Project", 2, []string{"? project ", "My Project", unlooked}},
		{"a tally.yaml that is wrong", "routes: counters\n", "my-project", 1, []string{"✗ tally-yaml ", "want <source pattern>", "- rules-file, indexes-file not checked: tally.yaml cannot be used", unlooked}},
		{"a tally.yaml that cannot be read", "rutes: counters\n", "my-project", 1, []string{"✗ tally-yaml ", `unknown key "rutes"`, "its settings cannot be read until tally.yaml is fixed", unlooked}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", filepath.Join(t.TempDir(), "none.json"))
			t.Setenv("FIRESTORE_EMULATOR_HOST", "")
			t.Setenv("GOOGLE_CLOUD_PROJECT", test.project)
			t.Chdir(t.TempDir())
			if test.yaml != "" {
				write(t, "tally.yaml", []byte(test.yaml))
			}

			var out, logs bytes.Buffer
			if status := run(t.Context(), []string{"doctor", "--verbose"}, &out, &logs); status != test.status {
				t.Errorf("status %d, want %d: %s", status, test.status, &logs)
			}
			said := strings.Join(strings.Fields(out.String()), " ")
			for _, want := range test.says {
				if !strings.Contains(said, want) {
					t.Errorf("it does not say %q:\n%s", want, &out)
				}
			}
		})
	}
}
