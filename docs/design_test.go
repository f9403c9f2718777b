package docs_test

import (
	"flag"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/value"
)

var update = flag.Bool("update", false, "draw the pictures of figures")

var inCode = regexp.MustCompile("`([^`]+)`")

// goFiles returns the Go files below a folder.
func goFiles(t *testing.T, root string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(file string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && (e.Name() == "node_modules" || e.Name() == ".git"): // in a work tree, .git is a file
			return filepath.SkipDir
		case strings.HasSuffix(file, ".go"):
			files = append(files, file)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// The table of a roll-up document's parts names the parts that are written.
func TestParts(t *testing.T) {
	row := regexp.MustCompile("(?m)^\\| (`[^|]+) \\|")
	written := slices.Sorted(maps.Keys(document.Tally{Rings: time.Unix(1, 0), OwnerlessSince: time.Unix(1, 0), Before: map[string]value.Value{"likes": value.Int(1)}, Totals: []string{"likes"}}.Encode()))
	_, table, _ := strings.Cut(read(t, "clients.md"), "| in `tally` |")
	table, _, _ = strings.Cut(table, "\n\n")
	var named []string
	for _, cell := range row.FindAllStringSubmatch(table, -1) {
		for _, part := range inCode.FindAllStringSubmatch(cell[1], -1) {
			named = append(named, part[1])
		}
	}
	slices.Sort(named)
	if !slices.Equal(named, written) {
		t.Errorf("clients.md: the table of what is in tally names %v, want %v", named, written)
	}
}

// The code cites pages and headings of the design that are there.
func TestCitations(t *testing.T) {
	citation := regexp.MustCompile(`docs/(design/[\w-]+\.md)(?:#([\w-]+))?`)
	found := 0
	for _, file := range goFiles(t, "..") {
		for _, c := range citation.FindAllStringSubmatch(read(t, file), -1) {
			found++
			if _, err := os.Stat(c[1]); err != nil {
				t.Errorf("%s cites %s, which is not there", file, c[0])
			} else if c[2] != "" && !anchors(t, c[1])[c[2]] {
				t.Errorf("%s cites %s, which has no such heading", file, c[0])
			}
		}
	}
	if found == 0 {
		t.Error("no file cites a page of the design")
	}
}

// The documentation of each of the engine's packages names its files.
func TestFiles(t *testing.T) {
	for _, folder := range []string{"roll", "events", "schedule"} {
		doc := read(t, "../rollup/internal/"+folder+"/doc.go")
		var named []string
		for _, file := range regexp.MustCompile(`(?m)^//\t(\w+\.go) `).FindAllStringSubmatch(doc, -1) {
			named = append(named, file[1])
		}
		var want []string
		for _, file := range glob(t, "../rollup/internal/"+folder+"/*.go") {
			if name := filepath.Base(file); name != "doc.go" && !strings.HasSuffix(name, "_test.go") {
				want = append(want, name)
			}
		}
		slices.Sort(named)
		if !slices.Equal(named, want) {
			t.Errorf("the doc.go of %s names the files %v, want %v", folder, named, want)
		}
	}
}
