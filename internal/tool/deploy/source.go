package deploy

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// module is the path of Tally's module.
const module = "github.com/firestore-tally/tally"

// An Upload is Tally's source, which the functions are built from.
type Upload struct {
	Version string // such as "v1.2.3"; "": none is known
	Hash    string // of the files; deployed functions carry that of their own source

	files fs.FS
}

// NewUpload returns the source in files, of that version: it is what the program carries. files
// must have a .gcloudignore, which says which of them the functions are built from.
func NewUpload(files fs.FS, version string) (*Upload, error) {
	hash, err := sourceHash(files)
	if err != nil {
		return nil, err
	}
	return &Upload{Version: version, Hash: hash, files: files}, nil
}

// String says in words which source it is: its version and hash.
func (u *Upload) String() string {
	return "this tally's own, " + orUnknown(u.Version) + ", hash " + u.Hash
}

// orUnknown returns a version in words.
func orUnknown(version string) string {
	if version == "" {
		return "of an unknown version"
	}
	return "version " + version
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

// errNoSource says that the files are not Tally's source.
var errNoSource = errors.New("the files are not Tally's source")

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

// archived is the time of all files in an archive: the first that zip has. So the same files are
// the same archive.
var archived = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// Archive returns the files that the functions are built from, in zip's format.
func (u *Upload) Archive() ([]byte, error) {
	files, err := sourceFiles(u.files)
	if err != nil {
		return nil, err
	}

	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, name := range files {
		data, err := fs.ReadFile(u.files, name)
		if err != nil {
			return nil, err
		}
		header := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: archived}
		header.SetMode(0o644)
		file, err := w.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := file.Write(data); err != nil {
			return nil, err
		}
	}
	err = w.Close()
	return b.Bytes(), err
}
