package doctor

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What deploy describes is what doctor wants.
func TestSound(t *testing.T) {
	names, findings, err := examined(t.Context(), sound(t))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[Verdict]string{}, names); d != "" {
		t.Errorf("(-want +got):\n%s", d)
		for _, f := range findings {
			for _, p := range f.Problems {
				t.Errorf("%s: %s", f.Name, p.Text)
			}
		}
	}
	if got, want := len(findings), len(Checks); got != want {
		t.Errorf("%d findings, want %d", got, want)
	}
}
