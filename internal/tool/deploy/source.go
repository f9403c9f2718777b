package deploy

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// module is the path of Tally's module.
const module = "github.com/firestore-tally/tally"

// An Upload is Tally's source, which the functions are built from.
type Upload struct {
	Version string // such as "v1.2.3", or a commit such as "5f3a2c1d0e9b"; "": none is known
	Hash    string // of the files; deployed functions carry that of their own source

	own    fs.FS  // what the program carries; nil: the folder is somebody's
	folder string // absolute; "": none
}

// OwnUpload returns the source that the program itself carries, of that version. files must have a
// .gcloudignore, which says which of them the functions are built from.
func OwnUpload(files fs.FS, version string) (*Upload, error) {
	hash, err := sourceHash(files)
	if err != nil {
		return nil, err
	}
	return &Upload{Version: version, Hash: hash, own: files}, nil
}

// ReadUpload returns the part of the folder that is uploaded. It is an error if the folder does not
// hold Tally's source.
func ReadUpload(folder string) (*Upload, error) {
	hash, err := sourceHash(os.DirFS(folder))
	if errors.Is(err, errNoSource) {
		return nil, fmt.Errorf("%s does not hold Tally's source, which the functions are built from; leave --source out, or name a folder that does:\n  git clone https://%s", folder, module)
	}
	if err != nil {
		return nil, err
	}

	folder, err = filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	return &Upload{Version: version(folder), Hash: hash, folder: folder}, nil
}

// String says in words which source it is, with its version and hash.
func (u *Upload) String() string {
	where := "this tally's own"
	if u.own == nil {
		where = u.folder
	}
	return where + ", " + orUnknown(u.Version) + ", hash " + u.Hash
}

// orUnknown returns a version in words.
func orUnknown(version string) string {
	if version == "" {
		return "of an unknown version"
	}
	return "version " + version
}

// version returns the version of a folder of Go's module cache, or else of the commit that is
// checked out there; "" if neither is known.
func version(folder string) string {
	if _, v, ok := strings.Cut(filepath.Base(folder), "@"); ok {
		return v
	}
	return commitVersion(folder)
}

// sourceHash returns a hash of the files that the functions are built from. It stays the same if a
// test, a document or a command changes.
func sourceHash(root fs.FS) (string, error) {
	files, err := sourceFiles(root)
	if err != nil {
		return "", err
	}

	hash := sha256.New()
	for _, name := range files {
		data, err := fs.ReadFile(root, name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(hash, "%s\x00%s", name, data)
	}
	return hex.EncodeToString(hash.Sum(nil))[:16], nil
}

// errNoSource says that a folder does not hold Tally's source.
var errNoSource = errors.New("no source of Tally's")

// sourceFiles returns the names of the files that the functions are built from, sorted: those that
// the lines of .gcloudignore bring back, and no later line takes away.
func sourceFiles(root fs.FS) ([]string, error) {
	data, err := fs.ReadFile(root, "go.mod")
	if errors.Is(err, fs.ErrNotExist) || err == nil && !strings.HasPrefix(string(data), "module "+module+"\n") {
		return nil, errNoSource
	}
	if err != nil {
		return nil, err
	}

	data, err = fs.ReadFile(root, ".gcloudignore")
	if err != nil {
		return nil, err
	}

	var files []string
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		pattern, back := strings.CutPrefix(line, "!/")
		switch {
		case back:
			files, err = withFiles(files, root, pattern)
		case line != "" && line != "**" && line != "!." && line[0] != '#':
			files = slices.DeleteFunc(files, func(name string) bool { return ignores(line, name) })
		}
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(files)
	return files, nil
}

// withFiles adds the files that match the pattern, and leaves folders out.
func withFiles(files []string, root fs.FS, pattern string) ([]string, error) {
	names, err := fs.Glob(root, pattern)
	if err != nil {
		return nil, err
	}

	for _, name := range names {
		info, err := fs.Stat(root, name)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			files = append(files, name)
		}
	}
	return files, nil
}

// ignores reports whether a line of .gcloudignore takes a file away: by its whole name if the line
// begins with a slash, else by the last part.
func ignores(line, name string) bool {
	pattern, whole := strings.CutPrefix(line, "/")
	if !whole {
		name = path.Base(name)
	}
	matched, err := path.Match(pattern, name)
	return err == nil && matched
}
