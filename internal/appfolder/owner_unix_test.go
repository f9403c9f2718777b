//go:build unix

package appfolder

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// A tally.yaml above the folder is taken only if nobody but the user wrote it. One in the folder,
// or one that is named, is what the user means.
func TestSettingsOfOthers(t *testing.T) {
	dir := write(t, map[string]string{"tally.yaml": "cadence: 1s", "below/x": ""})
	file, below := filepath.Join(dir, "tally.yaml"), filepath.Join(dir, "below")
	me := os.Getuid()
	name := "--config " + file
	for _, test := range []struct {
		what  string
		dir   string
		named string
		user  int
		mode  os.FileMode
		want  []string // in the error; none: the file is taken
	}{
		{"mine, above", below, "", me, 0o664, nil},
		{"somebody's, above", below, "", me + 1, 0o644, []string{file + ": it belongs to user " + strconv.Itoa(me) + " and not to you", name}},
		{"everybody's, above", below, "", me, 0o666, []string{file + ": everybody may write it (chmod o-w", name}},
		{"somebody's, here", dir, "", me + 1, 0o644, nil},
		{"everybody's, here", dir, "", me, 0o666, nil},
		{"somebody's, named", below, file, me + 1, 0o644, nil},
		{"somebody's, named from here", below, "../tally.yaml", me + 1, 0o666, nil},
	} {
		if err := os.Chmod(file, test.mode); err != nil {
			t.Fatal(err)
		}
		f, err := find(test.dir, test.named, test.user)
		if test.want == nil {
			if err != nil || f.File != file || f.Elsewhere != (test.dir != dir) || f.Settings.Cadence != "1s" {
				t.Errorf("%s: %+v, %v; want it taken", test.what, f, err)
			}
			continue
		}
		for _, want := range test.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v; want %q in it", test.what, err, want)
			}
		}
	}
	if _, err := Find(below, "none.yaml"); err == nil || !strings.Contains(err.Error(), filepath.Join(below, "none.yaml")) {
		t.Errorf("a file that is not there: %v", err)
	}
}

// What is no regular file, and may have no end, is not opened; what is too large is not read to its
// end.
func TestFilesThatAreNotRead(t *testing.T) {
	dir := write(t, map[string]string{
		"most.rules": strings.Repeat("/", MaxRules), "more.rules": strings.Repeat("/", MaxRules+1),
		"more.yaml": strings.Repeat("#", maxSettings+1), "firebase.json": strings.Repeat(" ", maxJSON+1),
	})
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := syscall.Mkfifo(at("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := ReadRules(at("most.rules"))
	if err != nil || len(text) != MaxRules {
		t.Errorf("the largest file of rules: %d bytes, %v", len(text), err)
	}
	rules := func(file string) error { _, err := ReadRules(file); return err }
	settings := func(file string) error { _, err := Find(dir, file); return err }
	firebase := func(string) error {
		_, err := (&Folder{Firebase: at("firebase.json")}).Database("(default)")
		return err
	}
	for _, test := range []struct {
		read       func(string) error
		file, want string
	}{
		{rules, at("more.rules"), "more.rules: has more than 256 KB: make it smaller, or name another file"},
		{rules, at("pipe"), "pipe: is no regular file: name one"},
		{rules, "/dev/zero", "/dev/zero: is no regular file: name one"},
		{rules, dir, dir + ": is no regular file: name one"},
		{settings, at("pipe"), "pipe: is no regular file: name one"},
		{settings, at("more.yaml"), "more.yaml: has more than 32 KB"},
		{firebase, "", "firebase.json: has more than 1024 KB"},
	} {
		if err := test.read(test.file); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v; want %q in it", test.file, err, test.want)
		}
	}
}
