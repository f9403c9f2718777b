package deploy

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"time"
)

// An Upload is Tally's source, which the functions are built from.
type Upload struct {
	Version string // such as "v1.2.3"; "": none is known
	Hash    string // of the files; deployed functions carry that of their own source

	files fs.FS
}

// NewUpload returns the source of that version, which is all of the files: those that the program
// carries.
func NewUpload(files fs.FS, version string) (*Upload, error) {
	u := &Upload{Version: version, files: files}
	hash := sha256.New()
	err := u.each(func(name string, data []byte) error {
		_, err := fmt.Fprintf(hash, "%s\x00%s", name, data)
		return err
	})
	u.Hash = hex.EncodeToString(hash.Sum(nil))[:16]
	return u, err
}

// each calls do with each file, in the order of their names.
func (u *Upload) each(do func(name string, data []byte) error) error {
	return fs.WalkDir(u.files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(u.files, name)
		if err != nil {
			return err
		}
		return do(name, data)
	})
}

// orUnknown returns a version in words.
func orUnknown(version string) string {
	if version == "" {
		return "of an unknown version"
	}
	return "version " + version
}

// archived is the time of all files in an archive: the first that zip has. So the same files are
// the same archive.
var archived = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// Archive returns the files in zip's format.
func (u *Upload) Archive() ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	err := u.each(func(name string, data []byte) error {
		header := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: archived}
		header.SetMode(0o644)
		file, err := w.CreateHeader(header)
		if err != nil {
			return err
		}
		_, err = file.Write(data)
		return err
	})
	if err != nil {
		return nil, err
	}
	err = w.Close()
	return b.Bytes(), err
}
