package appfolder

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/firestore-tally/tally/internal/test/firebasetest"
)

// active is what "firebase use" writes for a folder.
func active(t *testing.T, dir, project string) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{"tokens": map[string]any{"expires_at": 1}, "activeProjects": map[string]string{dir: project}})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The project is the one that the Firebase CLI takes.
func TestProject(t *testing.T) {
	const two = `{"projects": {"default": "shop", "staging": "shop-staging"}} // ours`
	for _, test := range []struct {
		name, rc, named, active string
		want                    Project
	}{
		{"an id", two, "other", "staging", Project{"other", "--project"}},
		{"an alias", two, "staging", "default", Project{"shop-staging", "--project: the alias staging in .firebaserc"}},
		{"an id without a .firebaserc", "", "staging", "", Project{"staging", "--project"}},
		{"an active alias", two, "", "staging", Project{"shop-staging", "the Firebase CLI's active project here: the alias staging in .firebaserc"}},
		{"an active id", two, "", "other", Project{"other", "the Firebase CLI's active project here"}},
		{"an active id without a .firebaserc", "", "", "other", Project{"other", "the Firebase CLI's active project here"}},
		{"the only alias", `{"projects": {"staging": "shop-staging"}}`, "", "", Project{"shop-staging", "the only project in .firebaserc"}},
		{"the default", two, "", "", Project{"shop", "the default project in .firebaserc"}},
		{"several without a default", `{"projects": {"a": "shop-a", "b": "shop-b"}}`, "", "", Project{}},
		{"no alias", `{"targets": {}}`, "", "", Project{}},
		{"nothing", "", "", "", Project{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for form, files := range map[string]map[string]string{"without firebase.json": {}, "with firebase.json": {"firebase.json": "{}"}} {
				if test.rc != "" {
					files[".firebaserc"] = test.rc
				}
				dir := write(t, files)
				firebasetest.Store(t, active(t, dir, test.active))
				got, err := nearest(t, dir).Project(test.named)
				if got != test.want || err != nil {
					t.Errorf("%s: %v, %v; want %v", form, got, err, test.want)
				}
			}
		})
	}
}

// The active project is that of the folder of firebase.json, or of the nearest above, as the system
// calls it.
func TestActiveProject(t *testing.T) {
	dir := write(t, map[string]string{"app/firebase.json": "{}", "app/below/x": "", "other/x": ""})
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(filepath.Join(dir, "app"), link); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ noted, from, want string }{
		{"app", "app", "shop"},
		{"app", "app/below", "shop"},
		{".", "app/below", "shop"},
		{"app/below", "app/below", ""},
		{"other", "app", ""},
		{"app", "other", ""},
	} {
		firebasetest.Store(t, active(t, filepath.Join(dir, test.noted), "shop"))
		got, err := nearest(t, filepath.Join(dir, test.from)).Project("")
		if got.ID != test.want || err != nil {
			t.Errorf("noted for %s, from %s: %v, %v; want %q", test.noted, test.from, got, err, test.want)
		}
	}

	firebasetest.Store(t, active(t, filepath.Join(dir, "app"), "shop"))
	got, err := nearest(t, link).Project("")
	if got.ID != "shop" || err != nil {
		t.Errorf("by a link: %v, %v", got, err)
	}
}

// The CLI's file is in the configuration's folder, which the home has if no variable says it. One
// that is broken or missing is an empty one, as for the CLI.
func TestConfigstore(t *testing.T) {
	dir := write(t, map[string]string{"firebase.json": `{"firebase": "old-shop"}`})
	project := func() string {
		t.Helper()
		got, err := nearest(t, dir).Project("")
		if err != nil {
			t.Error(err)
		}
		return got.ID
	}

	for _, text := range []string{"", "{", "[]", `{"activeProjects": 5}`, "{}"} {
		if firebasetest.Store(t, text); project() != "old-shop" {
			t.Errorf("%q: %s", text, project())
		}
	}
	firebasetest.Store(t, active(t, dir, "shop"))
	if got := project(); got != "shop" {
		t.Errorf("XDG_CONFIG_HOME: %s", got)
	}

	home := t.TempDir()
	if err := os.Rename(os.Getenv("XDG_CONFIG_HOME"), filepath.Join(home, ".config")); err != nil {
		t.Fatal(err)
	}
	if got := project(); got != "old-shop" {
		t.Errorf("without the file: %s", got)
	}
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	if got := project(); got != "shop" {
		t.Errorf("HOME: %s", got)
	}
}

// If a file of the app's is broken, the error says where.
func TestBrokenProject(t *testing.T) {
	for text, want := range map[string]string{
		`{`:                            ".firebaserc:1:2: is not JSON: the file ends before its last brace is closed",
		`[]`:                           ".firebaserc:1:1: want keys and values in braces, and found a list in brackets",
		`{"projects": {"default": 5}}`: ".firebaserc:1:26: projects: want text, and found a number",
	} {
		for _, files := range []map[string]string{{}, {"firebase.json": "{}"}} {
			files[".firebaserc"] = text
			for _, named := range []string{"", "staging"} {
				project, err := nearest(t, write(t, files)).Project(named)
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %v, %v; want %s", text, project, err, want)
				}
			}
		}
	}
}
