package shards

import (
	"fmt"
	"strings"
	"testing"

	"github.com/firestore-tally/tally/internal/test/emulatortest"
)

// Each method that takes several commits says how far it is after each, and ends at its end.
func TestProgress(t *testing.T) {
	var got []string
	c := New(emulatortest.Client(t), "counters/c", Progress(func(done, total int) { got = append(got, fmt.Sprintf("%d/%d", done, total)) }))
	const n = 600
	for _, step := range []struct {
		method string
		call   func() error
		want   string
	}{
		{"Create", func() error { return c.Create(t.Context(), n) }, "499/600 600/600"},
		{"Create again", func() error { return c.Create(t.Context(), n) }, "499/600 600/600"},
		{"Resize up", func() error { return c.Resize(t.Context(), n+2) }, "602/602"},
		{"Resize down", func() error { return c.Resize(t.Context(), n) }, ""},
		{"Set", func() error { _, err := c.Set(t.Context(), 5); return err }, "1/1"},
		{"Delete", func() error { _, _, err := c.Delete(t.Context()); return err }, "499/602 602/602"},
	} {
		got = nil
		if err := step.call(); err != nil || strings.Join(got, " ") != step.want {
			t.Errorf("%s: %v, %v; want %s", step.method, got, err, step.want)
		}
	}
}
