package docs_test

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/document"
)

var update = flag.Bool("update", false, "draw the pictures of figures")

var inCode = regexp.MustCompile("`([^`]+)`")

// Each rule is guarded by tests that exist: those of its mutations, or those that the page names.
// Each mutation breaks one of the rules.
func TestRules(t *testing.T) {
	const page = "design/rules.md"
	tests := testsIn(t, "..")
	broken := mutated(t, tests)
	known := make(map[string]bool)
	for _, section := range regexp.MustCompile(`(?m)^### `).Split(read(t, page), -1)[1:] {
		name, text, _ := strings.Cut(section, "\n")
		if known[name] {
			t.Errorf("%s has the rule %s twice", page, name)
		}
		known[name] = true

		var guards []string
		_, line, named := strings.Cut(text, "\nGuard: ")
		line, _, _ = strings.Cut(line, "\n")
		for _, guard := range inCode.FindAllStringSubmatch(line, -1) {
			guards = append(guards, guard[1])
		}
		switch {
		case broken[name] != nil && named:
			t.Errorf("%s: the mutations of %s name its guards; take the line out", page, name)
		case broken[name] == nil && len(guards) == 0:
			t.Errorf("%s: nothing guards %s; add a mutation that begins with its name, or a line \"Guard: `TestX`\"", page, name)
		}
		for _, guard := range append(guards, broken[name]...) {
			if !tests[guard] {
				t.Errorf("%s: %s is guarded by %s, which is not there", page, name, guard)
			}
		}
	}
	for name := range broken {
		if !known[name] {
			t.Errorf("a mutation breaks the rule %q, which %s does not have", name, page)
		}
	}
}

// mutated returns the tests that notice the mutations of each rule.
func mutated(t *testing.T, tests map[string]bool) map[string][]string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), "../rollup/mutations_test.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}

	broken := make(map[string][]string)
	ast.Inspect(parsed, func(n ast.Node) bool {
		entry, ok := n.(*ast.CompositeLit)
		if !ok || entry.Type != nil {
			return true
		}
		if len(entry.Elts) != 6 {
			t.Fatalf("a mutation has %d values, want its rule, name, file, old and new text and test", len(entry.Elts))
		}
		name, file, test := literal(t, entry.Elts[0]), literal(t, entry.Elts[2]), literal(t, entry.Elts[5])
		if old := literal(t, entry.Elts[3]); strings.Count(read(t, filepath.Join("../rollup", file)), old) != 1 {
			t.Errorf("a mutation of %s changes this text, which %s does not hold once:\n%s", name, file, old)
		}
		guard := guardOf(file, test)
		if !tests[guard] { // it is the engine's test of what another folder's file does
			guard = test
		}
		if !slices.Contains(broken[name], guard) {
			broken[name] = append(broken[name], guard)
		}
		return true
	})
	return broken
}

// guardOf names a mutation's test, which is in the folder that it says, or else next to the mutated
// file. Both are told as seen from rollup.
func guardOf(file, test string) string {
	folder, name := path.Split(test)
	if folder == "" {
		folder = path.Dir(file)
	}
	folder = path.Join("rollup", folder)
	if folder == "rollup" {
		return name
	}
	return folder + "." + name
}

func literal(t *testing.T, e ast.Expr) string {
	t.Helper()
	value, ok := e.(*ast.BasicLit)
	if !ok {
		t.Fatal("a mutation's values are literals")
	}
	text, err := strconv.Unquote(value.Value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// testsIn returns all tests below a folder, each with its folder unless that is rollup.
func testsIn(t *testing.T, root string) map[string]bool {
	t.Helper()
	found := make(map[string]bool)
	for _, file := range goFiles(t, root) {
		if !strings.HasSuffix(file, "_test.go") {
			continue
		}
		folder, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			t.Fatal(err)
		}
		prefix := filepath.ToSlash(folder) + "."
		if prefix == "rollup." {
			prefix = ""
		}
		for _, test := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(read(t, file), -1) {
			found[prefix+test[1]] = true
		}
	}
	return found
}

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
	written := slices.Sorted(maps.Keys(document.Tally{Rings: time.Unix(1, 0), OwnerlessSince: time.Unix(1, 0)}.Encode()))
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

// The engine's documentation names each of its files.
func TestFiles(t *testing.T) {
	doc := read(t, "../rollup/doc.go")
	_, list, _ := strings.Cut(doc, "// # The files")
	var named []string
	for _, file := range regexp.MustCompile(`(?m)^//\t(\w+\.go) `).FindAllStringSubmatch(list, -1) {
		named = append(named, file[1])
	}
	var want []string
	for _, file := range glob(t, "../rollup/*.go") {
		if name := filepath.Base(file); name != "doc.go" && !strings.HasSuffix(name, "_test.go") {
			want = append(want, name)
		}
	}
	slices.Sort(named)
	if !slices.Equal(named, want) {
		t.Errorf("rollup/doc.go names the files %v, want %v", named, want)
	}
}
