//go:build unix

package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/firestore-tally/tally/internal/doctor"
)

// tally doctor --explain needs no project, and leaves no check out.
func TestDoctorExplains(t *testing.T) {
	t.Setenv("GOOGLE_CLOUD_PROJECT", "")
	var out, logs bytes.Buffer
	if status := run(t.Context(), []string{"doctor", "--explain"}, &out, &logs); status != 0 {
		t.Fatalf("status %d: %s", status, &logs)
	}
	for _, c := range doctor.Checks {
		if !strings.Contains(out.String(), "\n"+c.Name+": ") && !strings.HasPrefix(out.String(), c.Name+": ") {
			t.Errorf("no line explains %s:\n%s", c.Name, &out)
		}
	}
}
