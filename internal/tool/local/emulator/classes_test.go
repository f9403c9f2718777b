//go:build unix

package emulator

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The first start makes an archive of the emulator's classes, in place of those of other Javas. It
// and every later start take the classes from it, those of the first requests, too.
func TestClassesAreArchived(t *testing.T) {
	needJava(t)
	dir := t.TempDir()
	t.Setenv("FIREBASE_EMULATORS_PATH", dir)
	writeFileAt(t, filepath.Join(dir, archivePrefix+"old.jsa"), "of another Java")
	loaded := filepath.Join(t.TempDir(), "loaded")
	t.Setenv("JDK_JAVA_OPTIONS", "-Xlog:class+load:file="+loaded+"::filecount=0")

	e := start(t, Options{})
	for _, r := range everyday {
		_, err := call(t.Context(), r.method, e.Addr(), r.path, json.RawMessage(r.body))
		if err != nil {
			t.Error(err)
		}
	}
	text, err := os.ReadFile(loaded)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), mainClass+" source: shared objects file") {
		t.Errorf("%s was read from the jar", mainClass)
	}
	archived := strings.Count(string(text), " source: shared objects file")
	read := strings.Count(string(text), " source: file:") // some of thousands cannot be archived
	if read > archived/20 {
		t.Errorf("%d classes were read from the jar, and %d from the archive, want one in twenty at most", read, archived)
	}

	archive := func() fs.FileInfo {
		t.Helper()
		files, err := os.ReadDir(dir)
		if err != nil || len(files) != 1 {
			t.Fatalf("in the cache: %v, %v, want one archive", files, err)
		}
		info, err := files[0].Info()
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	made := archive()
	option := classes(t.Context(), e.java, e.jar)
	again := archive()
	if want := "-XX:SharedArchiveFile=" + filepath.Join(dir, made.Name()); option != want || !os.SameFile(made, again) {
		t.Errorf("a later start has %s, want %s, as it was made", option, want)
	}
}

// Where no archive can be made, the emulator starts without.
func TestClassesAreNotArchived(t *testing.T) {
	needJava(t)
	t.Setenv("FIREBASE_EMULATORS_PATH", filepath.Join(writeFile(t, "file", ""), "below"))
	start(t, Options{})
}
