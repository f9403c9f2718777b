package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../../.."

// put writes files, by name, into the working directory.
func put(t *testing.T, files map[string]string) {
	t.Helper()
	for name, content := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// A check's hash changes with all that it depends on, and with nothing else.
func TestHash(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("GOFLAGS", "-mod=mod")
	put(t, map[string]string{
		"go.mod":              "module example.com/a\n\ngo 1.26\n",
		"go.sum":              "",
		"cmd/a/main.go":       "package main\n\nimport (\n\t_ \"embed\"\n\t\"example.com/a/lib\"\n)\n\n//go:embed help/*\nvar help string\n\nfunc main() { lib.Do(help) }\n",
		"cmd/a/help/text":     "help",
		"cmd/a/main_test.go":  "package main\n",
		"lib/lib.go":          "package lib\n\nfunc Do(string) {}\n",
		"other/other.go":      "package other\n",
		"page/page.js":        "",
		"page/page/more.js":   "",
		"page/target/made.js": "",
		"README.md":           "",
	})
	built := check{name: "built", programs: []string{"./cmd/a"}, files: []string{"page", "README.md"}}
	tested := check{name: "tested", programs: []string{"-test", "./cmd/a"}}

	hashes := func() (both [2]string) {
		t.Helper()
		for i, c := range []check{built, tested} {
			var err error
			if both[i], err = c.hash("."); err != nil {
				t.Fatal(err)
			}
		}
		return both
	}
	for _, test := range []struct {
		file, content string
		changes       [2]bool
	}{
		{"lib/lib.go", "package lib\n\nfunc Do(string) { print() }\n", [2]bool{true, true}},
		{"lib/more.go", "package lib\n", [2]bool{true, true}},
		{"cmd/a/help/text", "more help", [2]bool{true, true}},
		{"cmd/a/help/another", "help", [2]bool{true, true}},
		{"go.sum", "\n", [2]bool{true, true}},
		{"cmd/a/main_test.go", "package main\n\nfunc more() {}\n", [2]bool{false, true}},
		{"page/page/more.js", "more()", [2]bool{true, false}},
		{"page/new.js", "", [2]bool{true, false}},
		{"README.md", "# A\n", [2]bool{true, false}},
		{"page/target/made.js", "made()", [2]bool{false, false}},
		{"other/other.go", "package other // is not built\n", [2]bool{false, false}},
		{"lib/lib_test.go", "package lib\n", [2]bool{false, false}},
	} {
		before := hashes()
		put(t, map[string]string{test.file: test.content})
		after := hashes()
		for i := range before {
			if changed := before[i] != after[i]; changed != test.changes[i] {
				t.Errorf("%s: the hash changed: %v, want %v", test.file, changed, test.changes[i])
			}
		}
	}
}

// A check runs unless it passed exactly so. Lines that say something else do no harm.
func TestRun(t *testing.T) {
	t.Chdir(t.TempDir())
	some := []check{{name: "a", files: []string{"a"}}, {name: "b", files: []string{"b"}}, {name: "race/c", files: []string{"c"}}}
	put(t, map[string]string{"a": "", "b": "", "c/c.go": ""})
	toRun := func() []string {
		t.Helper()
		var out strings.Builder
		if err := run(some, "", &out); err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSpace(out.String()), "\n")
	}
	passes := func(lines []string) {
		t.Helper()
		put(t, map[string]string{"changed": strings.Join(lines, "\n") + "\n"})
		if err := run(some, "changed", nil); err != nil {
			t.Fatal(err)
		}
	}

	all := toRun() // there is no file
	put(t, map[string]string{passedFile: "<<<<<<< HEAD\n\na\nb 0123456789abcdef\nno-such-check 1\n"})
	if again := toRun(); len(all) != 3 || !slices.Equal(all, again) {
		t.Errorf("run %q, then %q, want all", all, again)
	}
	passes(all[1:])
	if left := toRun(); !slices.Equal(left, all[:1]) {
		t.Errorf("run again: %q, want %q", left, all[:1])
	}
	passes(all[:1])
	passed, err := readLines(passedFile)
	if err != nil || !slices.Equal(passed, all) {
		t.Errorf("%s has %q (%v), want %q", passedFile, passed, err, all)
	}

	// A file that changed while the check ran.
	put(t, map[string]string{"a": "changed"})
	if left := toRun(); len(left) != 1 || left[0] == all[0] || !strings.HasPrefix(left[0], "a ") {
		t.Errorf("a changed: run again: %q", left)
	}
	passes(all[:1])
	if left := toRun(); len(left) != 1 {
		t.Errorf("what passed was another a: run again: %q, want a", left)
	}
}

// Each check is one of .ci/machine, and depends on what is there.
func TestChecks(t *testing.T) {
	machine, err := os.ReadFile(filepath.Join(root, ".ci/machine"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range checks() {
		if !strings.HasPrefix(c.name, "race/") && !strings.Contains(string(machine), "\n"+c.name+"() {") {
			t.Errorf("%s is no function of .ci/machine", c.name)
		}
		for _, file := range c.files {
			if _, err := os.Stat(filepath.Join(root, file)); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	}
}

// relative matches a path in JavaScript that is relative to its file.
var relative = regexp.MustCompile("['\"`](\\.\\.?/[^'\"`$]*)")

// What JavaScript in a check's folders imports or names belongs to the check.
func TestJavaScript(t *testing.T) {
	for _, c := range checks() {
		if strings.HasPrefix(c.name, "race/") {
			continue // Go alone
		}
		c.programs = nil
		files, err := c.dependencies(root)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if extension := filepath.Ext(file); extension != ".js" && extension != ".mjs" && extension != ".ts" {
				continue
			}
			content, err := os.ReadFile(filepath.Join(root, file))
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range relative.FindAllSubmatch(content, -1) {
				named := filepath.Join(filepath.Dir(file), string(found[1]))
				info, err := os.Stat(filepath.Join(root, named))
				if err != nil || info.IsDir() {
					continue // no file of this repository, or the root
				}
				if !slices.Contains(files, filepath.ToSlash(named)) {
					t.Errorf("%s: %s names %s, which is none of its files", c.name, file, named)
				}
			}
		}
	}
}
