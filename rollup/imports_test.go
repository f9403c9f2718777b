package rollup_test

import (
	"go/build"
	"strings"
	"testing"
)

// The engine imports the standard library only, the language, and what documents hold. It decides,
// and a Store acts.
func TestImports(t *testing.T) {
	p, err := build.ImportDir(".", 0)
	if err != nil {
		t.Fatal(err)
	}
	const module = "github.com/firestore-tally/tally/"
	for _, path := range p.Imports {
		if first, _, _ := strings.Cut(path, "/"); strings.Contains(first, ".") && path != module+"rollup/route" && path != module+"internal/document" && path != module+"internal/value" {
			t.Errorf("imports %s", path)
		}
	}
}
