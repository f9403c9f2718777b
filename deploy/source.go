package deploy

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"go/build"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// module is the path of Tally's module.
const module = "github.com/firestore-tally/tally"

// SourceHash returns a hash of what the functions are built from: go.mod, go.sum and the Go files
// of the package at the root of the clone and of the packages of this module that it imports. It
// tells whether what is deployed is this version; a change of a test, a document or a command is
// none.
func SourceHash(clone string) (string, error) {
	files, err := sourceFiles(clone)
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	for _, name := range files {
		f, err := os.Open(filepath.Join(clone, filepath.FromSlash(name)))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(hash, "%s\x00", name)
		_, err = io.Copy(hash, f)
		if err := errors.Join(err, f.Close()); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(hash.Sum(nil))[:16], nil
}

// sourceFiles returns the names of the files that the functions are built from, sorted, with slashes.
func sourceFiles(clone string) ([]string, error) {
	files := []string{"go.mod", "go.sum"}
	data, err := os.ReadFile(filepath.Join(clone, "go.mod"))
	if errors.Is(err, os.ErrNotExist) || err == nil && !strings.HasPrefix(string(data), "module "+module+"\n") {
		return nil, fmt.Errorf("%s is not a clone of Tally, whose functions are deployed from there; go there, or name it by --source:\n  git clone https://%s", clone, module)
	}
	if err != nil {
		return nil, err
	}
	// A build's context is that of the functions, whatever this machine is.
	context := build.Default
	context.GOOS, context.GOARCH, context.CgoEnabled = "linux", "amd64", false
	packages := []string{"."}
	for i := 0; i < len(packages); i++ {
		p, err := context.ImportDir(filepath.Join(clone, packages[i]), 0)
		if err != nil {
			return nil, err
		}
		for _, name := range p.GoFiles {
			files = append(files, filepath.ToSlash(filepath.Join(packages[i], name)))
		}
		for _, imported := range p.Imports {
			if name, ok := strings.CutPrefix(imported, module+"/"); ok && !slices.Contains(packages, name) {
				packages = append(packages, name)
			}
		}
	}
	slices.Sort(files)
	return files, nil
}
