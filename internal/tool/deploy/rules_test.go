package deploy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/firestore-tally/tally/internal/tool/appfolder"
	"github.com/firestore-tally/tally/rollup/route"
)

// A collection that several routes have, and the rules lack, is named once.
func TestCheckRulesNamesOnce(t *testing.T) {
	routes, err := route.Parse("posts/{p}/likes/{u} -> posts/{p} : count() as likes : existing; posts/{p}/views/{v} -> posts/{p} : count() as views : existing")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "firestore.rules")
	if err := os.WriteFile(file, []byte("match /likes/{u} {} match /views/{v} {}"), 0o600); err != nil {
		t.Fatal(err)
	}

	err = CheckRules(appfolder.Database{Rules: file}, routes)
	if err == nil || strings.Count(err.Error(), "no match for ") != 1 || !strings.Contains(err.Error(), "no match for /posts/, of the route posts/{p}/likes/{u} ->") {
		t.Errorf("got %v, want that /posts/ is missing, once", err)
	}
	if err == nil || !strings.HasSuffix(err.Error(), "match /posts/{p} { allow read, write: if false; }") {
		t.Errorf("got %v, want the block that refuses clients", err)
	}
}
