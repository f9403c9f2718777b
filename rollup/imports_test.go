package rollup_test

import (
	"go/build"
	"slices"
	"strings"
	"testing"
)

// The engine imports the standard library only, the language, and what documents hold. It decides,
// and a Store acts. Each of its packages imports no others of them than those below it. So events
// and the schedule do not know each other.
func TestImports(t *testing.T) {
	const module = "github.com/firestore-tally/tally/"
	below := []string{module + "rollup/route", module + "internal/document", module + "internal/value"}
	for _, room := range []struct {
		folder string
		rooms  []string // that it may import
	}{
		{"internal/roll", nil},
		{"internal/note", []string{"roll"}},
		{"internal/events", []string{"note", "roll"}},
		{"internal/schedule", []string{"note", "roll"}},
		{".", []string{"events", "note", "roll", "schedule"}},
	} {
		p, err := build.ImportDir(room.folder, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range p.Imports {
			name, isRoom := strings.CutPrefix(path, module+"rollup/internal/")
			first, _, _ := strings.Cut(path, "/")
			allowed := !strings.Contains(first, ".") || slices.Contains(below, path) || isRoom && slices.Contains(room.rooms, name)
			if !allowed {
				t.Errorf("%s imports %s", room.folder, path)
			}
		}
	}
}
