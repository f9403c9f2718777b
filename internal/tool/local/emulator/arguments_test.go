package emulator

import (
	"slices"
	"testing"
)

// The emulator gets the edition of the databases, if that is known.
func TestEditionArgument(t *testing.T) {
	for edition, want := range map[string]bool{"": false, "standard": true, "enterprise": true} {
		got := arguments("-ea", "emulator.jar", 8080, Options{Edition: edition})
		if slices.Contains(got, "--database-edition="+edition) != want {
			t.Errorf("%q: got %v", edition, got)
		}
	}
}
