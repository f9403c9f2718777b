//go:build unix

package appfolder

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// A tally.yaml above the folder is taken only if no one but the user wrote it. One in the folder,
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

// Files of the Firebase CLI's above the folder are taken on the same condition, when something of
// them is wanted.
func TestFirebaseFilesOfOthers(t *testing.T) {
	dir := write(t, map[string]string{
		"firebase.json": `{"firestore": {"rules": "a.rules"}, "emulators": {"firestore": {"port": 9150}}}`,
		".firebaserc":   `{"projects": {"default": "shop"}}`, "below/x": "",
	})
	below, me := filepath.Join(dir, "below"), os.Getuid()
	for _, test := range []struct {
		what   string
		dir    string
		user   int
		mode   os.FileMode
		reason string // in the errors; "": the files are taken
	}{
		{"mine, above", below, me, 0o664, ""},
		{"somebody's, above", below, me + 1, 0o644, "it belongs to user " + strconv.Itoa(me) + " and not to you"},
		{"everybody's, above", below, me, 0o666, "everybody may write it (chmod o-w"},
		{"somebody's, here", dir, me + 1, 0o644, ""},
		{"everybody's, here", dir, me, 0o666, ""},
	} {
		for _, name := range []string{"firebase.json", ".firebaserc"} {
			if err := os.Chmod(filepath.Join(dir, name), test.mode); err != nil {
				t.Fatal(err)
			}
		}
		f, err := find(test.dir, "", test.user)
		if err != nil {
			t.Fatal(err)
		}

		chosen, errProject := f.Project("")
		project := chosen.ID
		at, errEmulator := f.Emulator("firestore")
		database, errDatabase := f.Database("(default)")
		if test.reason == "" {
			if project != "shop" || at.Port != 9150 || database.Rules != filepath.Join(dir, "a.rules") {
				t.Errorf("%s: %q, %v, %v; %v, %v, %v; want them taken", test.what, project, at, database, errProject, errEmulator, errDatabase)
			}
			continue
		}
		for name, err := range map[string]error{".firebaserc": errProject, "firebase.json": errors.Join(errEmulator, errDatabase)} {
			for _, want := range []string{filepath.Join(dir, name) + ": " + test.reason, "go to its folder, or write a firebase.json of your own here"} {
				if err == nil || strings.Count(err.Error(), want) != strings.Count(err.Error(), "\n")+1 {
					t.Errorf("%s: %v; want %q in each", test.what, err, want)
				}
			}
		}
		if project != "" || at.Port != 0 || database.Rules != "" {
			t.Errorf("%s: %q, %v, %v; want nothing taken", test.what, project, at, database)
		}
	}
}

// A link may lead to any file that the user may read. So one that leads out of its folder is not
// followed, and no error shows what is there.
func TestLinksOutOfTheFolder(t *testing.T) {
	elsewhere := write(t, map[string]string{"secret": "root:$6$secret", "mine.json": `{"projects": {"default": "shop"}}`})
	for _, test := range []struct {
		name, to string
		inside   bool
	}{
		{"tally.yaml", filepath.Join(elsewhere, "secret"), false},
		{"tally.yaml", "../" + filepath.Base(elsewhere) + "/secret", false},
		{"tally.yaml", "real/tally.yaml", true},
		{".firebaserc", filepath.Join(elsewhere, "mine.json"), false},
		{".firebaserc", "real/rc", true},
		{"firebase.json", filepath.Join(elsewhere, "secret"), false},
		{"firebase.json", "real/firebase.json", true},
	} {
		files := map[string]string{
			"tally.yaml": "cadence: 1s", "firebase.json": `{"emulators": {"firestore": {"port": 9150}}}`, ".firebaserc": `{"projects": {"default": "shop"}}`,
			"real/tally.yaml": "cadence: 2s", "real/rc": `{"projects": {"default": "real"}}`, "real/firebase.json": `{"emulators": {"firestore": {"port": 9151}}}`,
		}
		delete(files, test.name)
		dir := write(t, files)
		file := filepath.Join(dir, test.name)
		if err := os.Symlink(test.to, file); err != nil {
			t.Fatal(err)
		}

		said := ""
		for _, named := range []string{"", "tally.yaml"} {
			f, err := Find(dir, named)
			if err == nil {
				chosen, errProject := f.Project("")
				at, errEmulator := f.Emulator("firestore")
				err = errors.Join(errProject, errEmulator)
				said += f.Settings.Cadence + " " + chosen.ID + " " + strconv.Itoa(at.Port) + "\n"
			}
			want := file + ": is a link out of its folder, which is not followed"
			switch {
			case test.inside && err != nil:
				t.Errorf("%s to %s: %v; want it followed", test.name, test.to, err)
			case !test.inside && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "root:")):
				t.Errorf("%s to %s: %v; want %q", test.name, test.to, err, want)
			}
		}
		if test.inside && !strings.Contains(said, "2s shop 9150") && !strings.Contains(said, "1s real 9150") && !strings.Contains(said, "1s shop 9151") {
			t.Errorf("%s to %s: read %q, which is not what the link leads to", test.name, test.to, said)
		}
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
	pipes, jsonPipe := t.TempDir(), t.TempDir()
	below := filepath.Join(pipes, "below")
	err := errors.Join(os.Mkdir(below, 0o700), syscall.Mkfifo(filepath.Join(pipes, FileName), 0o600), syscall.Mkfifo(filepath.Join(jsonPipe, "firebase.json"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	text, err := ReadRules(at("most.rules"))
	if err != nil || len(text) != MaxRules {
		t.Errorf("the largest file of rules: %d bytes, %v", len(text), err)
	}
	rules := func(file string) error { _, err := ReadRules(file); return err }
	settings := func(file string) error { _, err := Find(dir, file); return err }
	nearest := func(dir string) error { _, err := Find(dir, ""); return err }
	firebase := func(dir string) error {
		f, err := Find(dir, "")
		if err == nil {
			_, err = f.Database("(default)")
		}
		return err
	}
	for _, test := range []struct {
		read       func(string) error
		file, want string
	}{
		{rules, at("more.rules"), "more.rules: has more than 256 KB: make it smaller, or name another file"},
		{rules, at("pipe"), "pipe: is not a regular file: name one"},
		{rules, "/dev/zero", "/dev/zero: is not a regular file: name one"},
		{rules, dir, dir + ": is not a regular file: name one"},
		{settings, at("pipe"), "pipe: is not a regular file: name one"},
		{settings, "/dev/zero", "/dev/zero: is not a regular file: name one"},
		{settings, at("more.yaml"), "more.yaml: has more than 32 KB"},
		{nearest, pipes, "tally.yaml: is not a regular file: name one"},
		{nearest, below, "tally.yaml: is not a regular file: name one"},
		{firebase, dir, "firebase.json: has more than 1024 KB"},
		{firebase, jsonPipe, "firebase.json: is not a regular file: name one"},
	} {
		if err := test.read(test.file); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v; want %q in it", test.file, err, test.want)
		}
	}
}
