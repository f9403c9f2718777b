package deploy

import (
	"encoding/json"
	"errors"
	flags "flag"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flags.Bool("update", false, "rewrite the names in source.go and .gcloudignore")

// The program carries what the functions are built from, all of it and nothing else, and
// .gcloudignore, which lists the same. This test is not in the package that carries: that one does
// not build while a name is wrong.
func TestCarried(t *testing.T) {
	built := built(t)
	var carried []string
	for _, name := range append(slices.Clone(built), ".gcloudignore") {
		carried = append(carried, "//go:embed "+name)
	}
	slices.Sort(carried)
	holds(t, "../../../source.go", "//go:embed ", carried)
	holds(t, "../../../.gcloudignore", "!", listing(built))

	listed, err := sourceFiles(os.DirFS("../../.."))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(built, listed); d != "" {
		t.Errorf("(-built from +listed):\n%s", d)
	}
}

// holds checks that a file's lines that begin so are these. With -update it writes them.
func holds(t *testing.T, file, begin string, want []string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	block := regexp.MustCompile("(?m)(^" + regexp.QuoteMeta(begin) + ".*\n)+").FindString(text)
	lines := strings.Join(want, "\n") + "\n"
	if *update {
		text = strings.Replace(text, block, lines, 1)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(lines, block); d != "" {
		t.Errorf("%s: go test ./internal/tool/deploy -run TestCarried -update rewrites it (-want +got):\n%s", file, d)
	}
}

// listing returns the lines of .gcloudignore that have the files uploaded.
func listing(files []string) []string {
	lines := []string{"!."}
	for _, file := range files {
		for i, c := range file {
			if c == '/' {
				lines = append(lines, "!/"+file[:i])
			}
		}
		if path.Ext(file) == ".go" {
			file = path.Join(path.Dir(file), "*.go")
		}
		lines = append(lines, "!/"+file)
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// built returns the names of the files that the functions are built from, sorted: go.mod, go.sum,
// and those of the package at the root, without source.go, and of the packages of this module that
// it imports.
func built(t *testing.T) []string {
	t.Helper()
	root, err := filepath.Abs("../../..")
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
	list.Dir = root
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
