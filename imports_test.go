package tally

import (
	"go/build"
	"slices"
	"strings"
	"testing"
)

// Arrows point down only: each package may import those of this module that are named here, and no
// others. That rollup imports nothing else than the standard library is tested there.
func TestImports(t *testing.T) {
	const module = "github.com/firestore-tally/tally/"
	for path, allowed := range map[string][]string{
		".":                       {"internal/app"},
		"internal/app":            {"internal/billing", "internal/firestorestore", "internal/trigger", "rollup"},
		"internal/trigger":        nil,
		"internal/firestorestore": {"rollup"},
		"internal/memstore":       {"rollup"},
		"internal/billing":        nil,
		"rollup":                  nil,
		"shards":                  nil,
		"deploy":                  {"rollup"},
		"internal/emulator":       nil,
		"internal/eventrelay":     nil,
	} {
		p, err := build.ImportDir(path, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, imported := range p.Imports {
			if name, ok := strings.CutPrefix(imported, module); ok && !slices.Contains(allowed, name) {
				t.Errorf("%s imports %s", path, name)
			}
		}
	}
}
