package deploy

import (
	"encoding/json"
	"errors"
	flags "flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flags.Bool("update", false, "rewrite the names in source.go")

// The program carries what the functions are built from, all of it and nothing else: a file less
// and the build fails, a file more may be a secret. This test is not in the package that carries:
// that one does not build while a name is wrong.
func TestCarried(t *testing.T) {
	const begin, file = "//go:embed ", "../../../source.go"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	block := regexp.MustCompile("(?m)(^" + begin + ".*\n)+").FindString(text)
	lines := begin + strings.Join(built(t), "\n"+begin) + "\n"
	if *update {
		if err := os.WriteFile(file, []byte(strings.Replace(text, block, lines, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(lines, block); d != "" {
		t.Errorf("go test ./internal/tool/deploy -run TestCarried -update rewrites source.go (-want +got):\n%s", d)
	}
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
		files = append(files, strings.TrimPrefix(name, "github.com/firestore-tally/tally/"))
	}
	slices.Sort(files)
	return files
}
