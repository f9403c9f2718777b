package route_test

import (
	"go/build"
	"strings"
	"testing"
)

// The language imports the standard library only, and what documents hold.
func TestImports(t *testing.T) {
	p, err := build.ImportDir(".", 0)
	if err != nil {
		t.Fatal(err)
	}
	const internal = "github.com/firestore-tally/tally/internal/"
	for _, path := range p.Imports {
		if first, _, _ := strings.Cut(path, "/"); strings.Contains(first, ".") && path != internal+"document" && path != internal+"value" {
			t.Errorf("imports %s", path)
		}
	}
}
