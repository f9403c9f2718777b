package deploy

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/fstest"
)

// A version survives the label of a function; what a label cannot hold is no known version.
func TestVersionLabel(t *testing.T) {
	for _, test := range []struct{ version, label string }{
		{"v1.2.3", "v1_2_3"},
		{"v1.2.3-rc.1", "v1_2_3-rc_1"},
		{"v0.0.0-20261123062119-0c8d977aaaaa+dirty", "v0_0_0-20261123062119-0c8d977aaaaa__dirty"},
		{"v1.2.3-4-g5f3a2c1-dirty", "v1_2_3-4-g5f3a2c1-dirty"},
		{"", noVersion},
		{"V1", noVersion},
		{"release_1", noVersion}, // another's tag
		{"v1.2.3-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", noVersion},
	} {
		if got := versionValue(test.version); got != test.label {
			t.Errorf("%q: label %q, want %q", test.version, got, test.label)
		}
		want := test.version
		if test.label == noVersion {
			want = ""
		}
		if got, _ := deployed(test.label, "").Built(); got != want {
			t.Errorf("label %q: version %q, want %q", test.label, got, want)
		}
	}
}

// Only a known, newer version of another source is a step back.
func TestReplaces(t *testing.T) {
	for _, test := range []struct{ have, own, hash, want string }{
		{"v1_3_0", "v1.2.0", "other", "v1.3.0"},
		{"v1_10_0", "v1.9.0", "other", "v1.10.0"},
		{"v1_3_0", "v1.3.0-rc.1", "other", "v1.3.0"},
		{"v1_3_0", "v1.2.0", "own", ""},
		{"v1_2_0", "v1.3.0", "other", ""},
		{"v1_3_0", "v1.3.0", "other", ""},
		{noVersion, "v1.2.0", "other", ""},
		{"", "v1.2.0", "other", ""},
		{"v1_3_0", "", "other", ""},
		{"v1_3_0", "5f3a2c1-dirty", "other", ""},
	} {
		u := Upload{Version: test.own, Hash: "own", own: fstest.MapFS{}}
		if got := u.Replaces(deployed(test.have, test.hash)); got != test.want {
			t.Errorf("%s deployed of source %s, own %s: %q, want %q", test.have, test.hash, test.own, got, test.want)
		}
	}
	u := Upload{Version: "v1.2.0", Hash: "own", own: fstest.MapFS{}}
	if got := u.Replaces(newState("p")); got != "" {
		t.Errorf("nothing deployed: %q", got)
	}
	folder := Upload{Version: "v1.3.0-4-g5f3a2c1", Hash: "own", folder: "clone"}
	if got := folder.Replaces(deployed("v1_3_0", "other")); got != "" {
		t.Errorf("a folder with commits behind the tag: %q", got)
	}
}

// deployed returns the state of a project with a function of that version and source.
func deployed(label, hash string) *State {
	s := newState("p")
	s.add(Function, nil, Object{"name": "projects/p/locations/us-central1/functions/" + OnWriteName,
		"labels": map[string]any{"tally": "on-write", versionLabel: label, sourceLabel: hash}})
	return s
}

// The program's source is in a folder that it wrote, the same each time, whatever became of it.
func TestOwnUpload(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("LocalAppData", t.TempDir())
	text := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	files := fstest.MapFS{
		"go.mod": text("module " + module + "\n"), "functions.go": text("package tally\n"), "a/a.go": text("package a\n"),
		".gcloudignore": text("# all of it\n**\n!.\n!/go.mod\n!/*.go\n!/a\n!/a/*.go\n*_test.go\n/source.go\n"),
	}
	u, err := OwnUpload(files, "v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	folder := func() string {
		t.Helper()
		f, err := u.Folder()
		if err != nil {
			t.Fatal(err)
		}
		read, err := ReadUpload(f)
		if err != nil || read.Hash != u.Hash {
			t.Fatalf("%s: %v, %v; want hash %s", f, read, err, u.Hash)
		}
		return f
	}

	first := folder()
	changed := filepath.Join(first, "a", "a.go")
	if err := os.WriteFile(changed, []byte("package b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := folder(); got != first {
		t.Errorf("the second time it is in %s, the first in %s", got, first)
	}
	if err := os.Remove(changed); err != nil {
		t.Fatal(err)
	}
	folder()

	// Many tallies at once write one folder.
	var all sync.WaitGroup
	if err := os.RemoveAll(first); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		all.Go(func() {
			if f, err := u.Folder(); err != nil || f != first {
				t.Errorf("%s, %v", f, err)
			}
		})
	}
	all.Wait()
	folder()
	if left, err := os.ReadDir(filepath.Dir(first)); err != nil || len(left) != 1 {
		t.Errorf("beside it is left: %v, %v", left, err)
	}
}
