package rollup_test

import (
	"go/build"
	"strings"
	"testing"
)

// The engine imports the standard library only, and the names of the documents: it decides, a Store
// acts.
func TestImports(t *testing.T) {
	p, err := build.ImportDir(".", 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range p.Imports {
		if first, _, _ := strings.Cut(path, "/"); strings.Contains(first, ".") && path != "github.com/firestore-tally/tally/internal/document" {
			t.Errorf("imports %s", path)
		}
	}
}
