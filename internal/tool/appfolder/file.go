package appfolder

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Most bytes of the files of an app that are read whole.
const (
	MaxRules = 256 << 10 // https://firebase.google.com/docs/firestore/quotas#security_rules
	maxJSON  = 1 << 20   // of firebase.json, .firebaserc and firestore.indexes.json
)

// byteOrderMark begins the UTF-8 files of some editors, and of PowerShell. Firestore takes no rules
// with it.
const byteOrderMark = "\ufeff"

// errLink says that a link leads out of its folder.
var errLink = errors.New("is a link out of its folder, which is not followed: put the file itself here")

// ReadRules reads a file of security rules. It refuses anything but a regular file of at most
// MaxRules.
func ReadRules(file string) (string, error) {
	text, err := read(os.Open, file, MaxRules, nil)
	return string(text), err
}

// ReadJSON decodes a JSON file of the Firebase CLI's, as the CLI reads it. It refuses anything but
// a regular file of at most 1 MB. Its error names the file, and the place.
func ReadJSON(file string, into any) error {
	text, err := read(os.Open, file, maxJSON, nil)
	if err != nil {
		return err
	}
	parsed, err := parseJSON(file, text)
	if err != nil {
		return err
	}
	return parsed.decode("", into)
}

// openInFolder opens a file. It follows no link out of the file's folder: somebody else's link
// could lead to any file that the user may read, and errors quote what they cannot read.
func openInFolder(file string) (*os.File, error) {
	folder, err := os.OpenRoot(filepath.Dir(file))
	if err != nil {
		return nil, err
	}
	defer folder.Close()

	f, err := folder.Open(filepath.Base(file))
	if err == nil {
		return f, nil
	}
	info, errLstat := os.Lstat(file)
	if errLstat == nil && info.Mode().Type() == os.ModeSymlink {
		return nil, fmt.Errorf("%s: %w", file, errLink)
	}
	return nil, err
}

// read reads a regular file of at most so many bytes, without a byte order mark at its beginning.
// Anything else, such as a device or a pipe, may have no end. check, unless nil, may refuse the
// file by its owner and mode.
func read(open func(string) (*os.File, error), file string, most int64, check func(os.FileInfo) error) ([]byte, error) {
	info, err := os.Stat(file) // before it is opened: opening a pipe would wait
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: is not a regular file: name one", file)
	}

	f, err := open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()

	if check != nil {
		opened, err := f.Stat() // not info: the name may lead to another file by now
		if err != nil {
			return nil, err
		}
		err = check(opened)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}

	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(text)) > most {
		return nil, fmt.Errorf("%s: has more than %d KB: make it smaller, or name another file", file, most>>10)
	}
	if bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff")) {
		return nil, fmt.Errorf("%s: is text in UTF-16: save it as UTF-8", file)
	}
	return bytes.TrimPrefix(text, []byte(byteOrderMark)), nil
}

// above returns the path of the nearest file of a name, in a folder or above it, whatever its kind,
// so that read refuses a pipe or a device by name; "" if there is none.
func above(dir, name string) string {
	for {
		file := filepath.Join(dir, name)
		info, err := os.Stat(file)
		if err == nil && !info.IsDir() {
			return file
		}

		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}
