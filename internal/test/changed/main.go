// Changed says which checks of .ci/run have to run, because something that they depend on changed
// since they last passed:
//
//	go run ./internal/test/changed
//
// prints a line for each: its name, and a hash of all files that it depends on. .ci/passed.txt has
// such a line for each check as it passed; .ci/run writes them, by
//
//	go run ./internal/test/changed -passed FILE
//
// where FILE holds the lines that were printed before the checks ran. A check runs unless a line of
// .ci/passed.txt is its own, so a line that is old, missing or spoiled has no other effect than
// that the check runs. .ci/nightly runs all of them.
package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// passedFile has the lines of the checks that passed.
const passedFile = ".ci/passed.txt"

// A check is a function of .ci/run, or the race detector on a package.
type check struct {
	name string

	// The Go programs that it builds, as go list names them. It depends on all Go files of this
	// module in them, on all that these embed, and on go.mod and go.sum.
	programs []string

	// The files that it reads, and folders of which it may read any file, relative to the root.
	files []string
}

// sharing are the packages whose tests share memory. Those of the others talk to processes.
var sharing = []string{
	"rollup", "shards", "internal/cloud/app", "internal/cloud/firestorestore", "internal/test/emulatortest/shared",
	"internal/tool/dashboard", "internal/tool/load", "internal/tool/local/eventrelay",
	"internal/tool/local/taskqueue", "internal/tool/migration", "internal/tool/trial",
}

// checks returns all checks. Those in a browser and those of the docs run the command tally.
func checks() []check {
	scripts := []string{".ci/run", ".ci/machine"}
	all := []check{
		{
			name: "web_client", programs: []string{"./cmd/tally"}, // eslint reads all JavaScript
			files: append(scripts, "clients", "docs", "examples", "npm", "internal/tool/dashboard", "firebase.json", "firestore.rules", "firestore.indexes.json"),
		},
		{
			name: "dashboard", programs: []string{"./cmd/tally"},
			files: append(scripts, "clients/web/e2e/chromium.mjs", "internal/tool/dashboard", "firebase.json", "firestore.rules", "firestore.indexes.json"),
		},
		{
			name: "snippets", programs: []string{"./cmd/tally", "./docs/test/likes"},
			files: append(scripts, "README.md", "clients/web", "docs", "firebase.json", "firestore.rules", "firestore.indexes.json"),
		},
		{
			name: "release", programs: []string{"./cmd/tally"},
			files: append(scripts, ".ci/release", "CHANGELOG.md", "LICENSE", "clients/web", "npm"),
		},
		{
			name: "docs", programs: []string{"-test", "./cmd/tally"}, // TestDocs reads the pages, and installs the web client
			files: append(scripts, "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE", "clients/web", "cmd/tally", "docs", "npm", "firebase.json", "firestore.rules", "firestore.indexes.json"),
		},
	}
	for _, folder := range sharing {
		all = append(all, check{name: "race/" + folder, files: append(scripts, folder)})
	}
	return all
}

func main() {
	passed := flag.String("passed", "", "a file with lines of checks that passed, to be kept in "+passedFile)
	flag.Parse()

	err := run(checks(), *passed, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "changed:", err)
		os.Exit(1)
	}
}

// run does what the command does in the module's root, the working directory.
func run(checks []check, passed string, out io.Writer) error {
	before, err := readLines(passedFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if passed != "" {
		now, err := readLines(passed)
		if err != nil {
			return err
		}
		return write(checks, before, now)
	}

	for _, c := range checks {
		hash, err := c.hash(".")
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		line := c.name + " " + hash
		if !slices.Contains(before, line) {
			fmt.Fprintln(out, line)
		}
	}
	return nil
}

func readLines(file string) ([]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}

	var lines []string
	for line := range strings.Lines(string(text)) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines, nil
}

// write writes the lines of checks that passed now, in place of those of the same checks before.
// Lines of checks that there are no more go.
func write(checks []check, before, now []string) error {
	lines := make(map[string]string) // by check
	for _, line := range slices.Concat(before, now) {
		name, _, _ := strings.Cut(line, " ")
		lines[name] = line
	}

	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		if slices.ContainsFunc(checks, func(c check) bool { return c.name == name }) {
			text.WriteString(lines[name] + "\n")
		}
	}
	return os.WriteFile(passedFile, []byte(text.String()), 0o644)
}

// hash returns a hash of the names and contents of all that a check depends on, in a module's root.
func (c check) hash(root string) (string, error) {
	files, err := c.dependencies(root)
	if err != nil {
		return "", err
	}

	all := sha256.New()
	for _, file := range files {
		content, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(all, "%s %x\n", file, sha256.Sum256(content))
	}
	return fmt.Sprintf("%x", all.Sum(nil)[:8]), nil
}

// dependencies returns the files that a check depends on, sorted, relative to the root.
func (c check) dependencies(root string) ([]string, error) {
	var files []string
	for _, file := range c.files {
		below, err := filesBelow(root, file)
		if err != nil {
			return nil, err
		}
		files = append(files, below...)
	}

	if len(c.programs) > 0 {
		built, err := filesOf(root, c.programs)
		if err != nil {
			return nil, err
		}
		files = append(files, built...)
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

// made are the folders in which checks make files: what npm, pip and Maven install.
var made = []string{"node_modules", ".venv", "target"}

// filesBelow returns a file, or all files of a folder.
func filesBelow(root, name string) (files []string, err error) {
	err = filepath.WalkDir(filepath.Join(root, name), func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains(made, entry.Name()):
			return fs.SkipDir
		case entry.IsDir():
			return nil
		}
		file, err := filepath.Rel(root, path)
		files = append(files, filepath.ToSlash(file))
		return err
	})
	return files, err
}

// filesOf returns the files of this module of which Go programs are built.
func filesOf(root string, programs []string) ([]string, error) {
	list := exec.Command("go", append([]string{"list", "-deps", "-json"}, programs...)...)
	list.Dir, list.Stderr = root, os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}

	files := []string{"go.mod", "go.sum"}
	packages := json.NewDecoder(bufio.NewReader(bytes.NewReader(out)))
	for {
		var p struct {
			Dir    string
			Module *struct {
				Main bool
				Dir  string
			}
			GoFiles, CgoFiles, OtherFiles, CFiles, HFiles, SFiles, EmbedFiles []string
		}
		err := packages.Decode(&p)
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		if p.Module == nil || !p.Module.Main {
			continue
		}

		for _, name := range slices.Concat(p.GoFiles, p.CgoFiles, p.OtherFiles, p.CFiles, p.HFiles, p.SFiles, p.EmbedFiles) {
			if filepath.IsAbs(name) {
				continue // of the Go command: the main function of a test
			}
			file, err := filepath.Rel(p.Module.Dir, filepath.Join(p.Dir, name))
			if err != nil {
				return nil, err
			}
			files = append(files, filepath.ToSlash(file))
		}
	}
}
