package deploy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// module is the path of Tally's module.
const module = "github.com/firestore-tally/tally"

// An Upload is a folder of Tally's source, which the functions are built from.
type Upload struct {
	Folder  string // absolute
	Version string // such as "v1.2.3" or "v1.2.3-4-g5f3a2c1-dirty"; "": none is known
	Hash    string // tells whether what is deployed was built from the same
}

// ReadUpload reads what of the folder is uploaded. It is an error if the folder does not hold Tally's
// source.
func ReadUpload(ctx context.Context, folder string) (*Upload, error) {
	hash, err := sourceHash(folder)
	if err != nil {
		return nil, err
	}
	folder, err = filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	return &Upload{Folder: folder, Version: version(ctx, folder), Hash: hash}, nil
}

// String returns the folder, its version and its hash in words.
func (u *Upload) String() string {
	version := "of no known version"
	if u.Version != "" {
		version = "version " + u.Version
	}
	return u.Folder + ", " + version + ", hash " + u.Hash
}

// version returns the version of a folder of Go's module cache, or else what git says of it; "" if
// neither tells one.
func version(ctx context.Context, folder string) string {
	if _, v, ok := strings.Cut(filepath.Base(folder), "@"); ok {
		return v
	}
	if _, err := os.Stat(filepath.Join(folder, ".git")); err != nil {
		return "" // a repository above the folder says nothing of it
	}

	// The folder may be somebody else's, and a monitor of its files could be any program.
	described, err := exec.CommandContext(ctx, "git", "-C", folder, "-c", "core.fsmonitor=false", "describe", "--tags", "--always", "--dirty").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(described))
}

// sourceHash returns a hash of what the functions are built from. A change of a test, a document or
// a command changes nothing in it.
func sourceHash(folder string) (string, error) {
	files, err := sourceFiles(folder)
	if err != nil {
		return "", err
	}

	hash := sha256.New()
	for _, name := range files {
		data, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(hash, "%s\x00%s", name, data)
	}
	return hex.EncodeToString(hash.Sum(nil))[:16], nil
}

// sourceFiles returns the names of the files that the functions are built from, sorted: those that
// the lines of .gcloudignore bring back, tests apart.
func sourceFiles(folder string) ([]string, error) {
	data, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	if errors.Is(err, os.ErrNotExist) || err == nil && !strings.HasPrefix(string(data), "module "+module+"\n") {
		return nil, fmt.Errorf("%s does not hold Tally's source, which the functions are built from; name a folder that does by --source:\n  git clone https://%s", folder, module)
	}
	if err != nil {
		return nil, err
	}
	data, err = os.ReadFile(filepath.Join(folder, ".gcloudignore"))
	if err != nil {
		return nil, err
	}

	root := os.DirFS(folder)
	var files []string
	for line := range strings.Lines(string(data)) {
		pattern, ok := strings.CutPrefix(strings.TrimSpace(line), "!/")
		if !ok {
			continue
		}
		names, err := fs.Glob(root, pattern)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			info, err := fs.Stat(root, name)
			if err != nil {
				return nil, err
			}
			if !info.IsDir() && !strings.HasSuffix(name, "_test.go") {
				files = append(files, name)
			}
		}
	}
	slices.Sort(files)
	return files, nil
}
