package tally

import (
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the names of source.go anew")

// The program carries what the functions are built from, all of it and nothing else.
func TestSource(t *testing.T) {
	want := append(built(t), ".gcloudignore")
	slices.Sort(want)
	if *update {
		writeNames(t, want)
		return
	}

	var carried []string
	err := fs.WalkDir(Source, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		carried = append(carried, name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(carried)
	if d := cmp.Diff(want, carried); d != "" {
		t.Errorf("go test . -run TestSource -update writes source.go anew (-built from +carried):\n%s", d)
	}
}

// built returns the names of the files that the functions are built from, sorted: go.mod, go.sum, and
// those of the package at the root, without source.go, and of the packages of this module that it
// imports.
func built(t *testing.T) []string {
	t.Helper()
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	without, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, "source.go"): ""}})
	overlay := filepath.Join(t.TempDir(), "overlay.json")
	if err := errors.Join(err, os.WriteFile(overlay, without, 0o600)); err != nil {
		t.Fatal(err)
	}

	const format = `{{with .Module}}{{if .Main}}{{range $.GoFiles}}{{$.ImportPath}}/{{.}}
{{end}}{{range $.EmbedFiles}}{{$.ImportPath}}/{{.}}
{{end}}{{end}}{{end}}`
	list := exec.CommandContext(t.Context(), "go", "list", "-overlay", overlay, "-deps", "-f", format, ".")
	list.Env = append(list.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	files := []string{"go.mod", "go.sum"}
	for name := range strings.FieldsSeq(string(out)) {
		files = append(files, strings.TrimPrefix(name, module+"/"))
	}
	slices.Sort(files)
	return files
}

// writeNames writes the lines of source.go that name the files.
func writeNames(t *testing.T, files []string) {
	t.Helper()
	var names strings.Builder
	for _, name := range files {
		names.WriteString("//go:embed " + name + "\n")
	}

	text, err := os.ReadFile("source.go")
	if err != nil {
		t.Fatal(err)
	}
	text = regexp.MustCompile(`(?m)(^//go:embed .*\n)+`).ReplaceAllLiteral(text, []byte(names.String()))
	if err := os.WriteFile("source.go", text, 0o600); err != nil {
		t.Fatal(err)
	}
}
