package deploy

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// module is the path of Tally's module.
const module = "github.com/firestore-tally/tally"

// SourceHash returns a hash of what the functions are built from. It tells whether what is deployed
// is this version; a change of a test, a document or a command is none.
func SourceHash(clone string) (string, error) {
	files, err := sourceFiles(clone)
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	for _, name := range files {
		data, err := os.ReadFile(filepath.Join(clone, name))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(hash, "%s\x00%s", name, data)
	}
	return hex.EncodeToString(hash.Sum(nil))[:16], nil
}

// sourceFiles returns the names of the files that the functions are built from, sorted: those that
// the lines of .gcloudignore bring back, tests apart.
func sourceFiles(clone string) ([]string, error) {
	data, err := os.ReadFile(filepath.Join(clone, "go.mod"))
	if errors.Is(err, os.ErrNotExist) || err == nil && !strings.HasPrefix(string(data), "module "+module+"\n") {
		return nil, fmt.Errorf("%s is not a clone of Tally, whose functions are deployed from there; go there, or name it by --source:\n  git clone https://%s", clone, module)
	}
	if err == nil {
		data, err = os.ReadFile(filepath.Join(clone, ".gcloudignore"))
	}
	if err != nil {
		return nil, err
	}
	root := os.DirFS(clone)
	var files []string
	for line := range strings.Lines(string(data)) {
		if pattern, ok := strings.CutPrefix(strings.TrimSpace(line), "!/"); ok && !strings.HasSuffix(pattern, "/") {
			names, err := fs.Glob(root, pattern)
			if err != nil {
				return nil, err
			}
			files = append(files, slices.DeleteFunc(names, func(n string) bool { return strings.HasSuffix(n, "_test.go") })...)
		}
	}
	slices.Sort(files)
	return files, nil
}
