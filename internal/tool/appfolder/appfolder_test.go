package appfolder

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// write writes files into a new folder, of which it returns the path.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func nearest(t *testing.T, dir string) *Folder {
	t.Helper()
	f, err := Find(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFind(t *testing.T) {
	dir := write(t, map[string]string{
		"tally.yaml":      "# all of it\nroutes: |\n  # likes\n  a/{a}/b/{b} -> a/{a} : count() as b\n    : existing\n\n  c/{c}/d/{d} -> e/{c} : f\ncadence: 500ms\ndatabases: [(default), orders]\nregion: us-east1\nbilling: instance\nalerts: me@example.com\nenv:\n  TALLY_BURST: 3\n",
		"firebase.json":   "{\n  // two databases\n  \"firestore\": [" + `{"database": "(default)", "rules": "a.rules", "indexes": "x/i.json"}, {"database": "orders", "rules": "/o.rules"}]}`,
		".firebaserc":     `{"projects": {"default": "shop", "staging": "shop-staging"}}`,
		"web/src/main.js": "",
	})
	f := nearest(t, filepath.Join(dir, "web", "src"))
	want := &Folder{File: filepath.Join(dir, "tally.yaml"), Elsewhere: true, Firebase: filepath.Join(dir, "firebase.json"), Settings: Settings{
		Routes:  "# likes\na/{a}/b/{b} -> a/{a} : count() as b\n  : existing\n\nc/{c}/d/{d} -> e/{c} : f",
		Cadence: "500ms", Databases: []string{"(default)", "orders"}, Region: "us-east1", Billing: "instance", Alerts: Alerts{"me@example.com"}, Env: map[string]string{"TALLY_BURST": "3"},
	}}
	if d := cmp.Diff(want, f, cmpopts.IgnoreUnexported(Folder{})); d != "" {
		t.Errorf("Find (-want +got):\n%s", d)
	}
	if project, err := f.Project(""); project.ID != "shop" || err != nil {
		t.Errorf("Project: %v, %v", project, err)
	}
	variables := map[string]string{
		"TALLY_ROUTES":  "# likes\na/{a}/b/{b} -> a/{a} : count() as b\n  : existing\n\nc/{c}/d/{d} -> e/{c} : f",
		"TALLY_CADENCE": "500ms", "TALLY_DATABASES": "(default),orders", "TALLY_BURST": "3",
	}
	if d := cmp.Diff(variables, f.Variables()); d != "" {
		t.Errorf("Variables (-want +got):\n%s", d)
	}
	for id, want := range map[string]Database{
		"(default)": {ID: "(default)", Rules: filepath.Join(dir, "a.rules"), Indexes: filepath.Join(dir, "x", "i.json")},
		"orders":    {ID: "orders", Rules: "/o.rules"},
		"other":     {ID: "other"},
	} {
		if d, err := f.Database(id); err != nil || d != want {
			t.Errorf("Database(%q) = %+v, %v; want %+v", id, d, err, want)
		}
	}
}

func TestNothingFound(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"an empty folder":          nil,
		"an empty file":            {"tally.yaml": ""},
		"firebase.json of hosting": {"firebase.json": `{"hosting": {}}`},
	} {
		f := nearest(t, write(t, files))
		d, err := f.Database("(default)")
		project, _ := f.Project("")
		if len(f.Variables()) > 0 || project != (Project{}) || d != (Database{ID: "(default)"}) || err != nil {
			t.Errorf("%s: %+v, %+v, %v; want nothing", name, f, d, err)
		}
	}
}

func TestEmulator(t *testing.T) {
	const place = ": emulators."
	for _, test := range []struct {
		file, name string
		want       Address
		err        string
	}{
		{`{"emulators": {"firestore": {"port": 9150}, "singleProjectMode": true}}`, "firestore", Address{"127.0.0.1", 9150}, ""},
		{`{"emulators": {"firestore": {"port": 9150}}}`, "auth", Address{"127.0.0.1", 0}, ""},
		{`{"emulators": {"auth": {"host": "localhost", "port": 9199}}}`, "auth", Address{"127.0.0.1", 9199}, ""},
		{`{"emulators": {"firestore": {"host": "0.0.0.0"}}}`, "firestore", Address{"127.0.0.1", 0}, ""},
		{`{"emulators": {"firestore": {"host": "::1", "port": 1}}}`, "firestore", Address{"::1", 1}, ""},
		{`{"emulators": {"auth": {"host": "a\u001b[2J", "port": 1}}}`, "auth", Address{}, place + "auth.host: \"a\\x1b[2J\" is no host"},
		{`{"emulators": {"firestore": {"host": "127.1.2.3", "port": 1}}}`, "firestore", Address{"127.1.2.3", 1}, ""},
		{`{"hosting": {}}`, "firestore", Address{"127.0.0.1", 0}, ""},
		{`{"emulators": {"firestore": {"port": "9150"}}}`, "firestore", Address{}, place + "firestore.port: want a whole number, and found text"},
		{`{"emulators": {"firestore": {"port": 80.5}}}`, "firestore", Address{}, place + "firestore.port: want a whole number, and found 80.5"},
		{`{"emulators": {"firestore": 8080}}`, "firestore", Address{}, place + "firestore: want keys and values in braces, and found a number"},
		{"{\n  \"emulators\": []\n}", "firestore", Address{}, "firebase.json:2:16: emulators: want keys and values in braces, and found a list in brackets"},
		{"{\n  \"emulators\" []\n}", "firestore", Address{}, "firebase.json:2:15: is not JSON: invalid character '[' after object name"},
		{`{"emulators": {"firestore": {"port": 65536}}}`, "firestore", Address{}, place + "firestore.port: 65536: want a port up to 65535"},
		{`{`, "firestore", Address{}, "firebase.json:1:2: is not JSON: the file ends before its last brace is closed"},
	} {
		f := nearest(t, write(t, map[string]string{"firebase.json": test.file}))
		got, err := f.Emulator(test.name)
		switch {
		case test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)):
			t.Errorf("%s: %v; want %q in it", test.file, err, test.err)
		case test.err == "" && (got != test.want || err != nil || !got.Loopback()):
			t.Errorf("%s: %s: %+v, %v; want %+v", test.file, test.name, got, err, test.want)
		}
	}
}

// A name may mean any machine, whatever it begins with.
func TestEmulatorElsewhere(t *testing.T) {
	for _, host := range []string{"10.0.0.5", "192.0.2.1", "firestore", "localhost.example.com", "127.0.0.1.example.com", "fe80::1%eth0", "169.254.169.254"} {
		f := nearest(t, write(t, map[string]string{"firebase.json": `{"emulators": {"firestore": {"host": "` + host + `"}}}`}))
		at, err := f.Emulator("firestore")
		if err != nil || at.Host != host || at.Loopback() {
			t.Errorf("%s: %v, loopback %t, %v", host, at, at.Loopback(), err)
		}
	}
}

// What cannot be read is named, and a route without a place of its own gets a hint.
func TestMistakes(t *testing.T) {
	for text, files := range map[string]map[string]string{
		`write "routes: |"`: {"tally.yaml": "routes: a/{a} -> b/{a} : c"},
		`tally.yaml:1:1: unknown key "route"; the keys are routes, cadence, `: {"tally.yaml": "route: x"},
	} {
		if _, err := Find(write(t, files), ""); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v: %v; want %q in it", files, err, text)
		}
	}
	for firestore, want := range map[string]string{
		`1`:                    "firebase.json:1:15: firestore: want keys and values in braces, and found a number",
		`{"rules": 5}`:         "firebase.json:1:25: firestore.rules: want text, and found a number",
		`[{"database": []}]`:   "firebase.json:1:29: firestore.database: want text, and found a list in brackets",
		`[{"rules": "a"}]`:     `firebase.json:1:16: firestore.0: names no database, such as "database": "(default)"`,
		`{"rules": "../a"}`:    "firebase.json: ../a is outside of its folder: the Firebase CLI does not take it",
		`{"rules": "a", }`:     "firebase.json:1:28: is not JSON: the Firebase CLI allows no comma before a closing brace or bracket: remove it",
		`[{"a": [1,]}]`:        "firebase.json:1:24: is not JSON: the Firebase CLI allows no comma before",
		"/* no end":            "firebase.json:1:15: is not JSON: ",
		"{'rules': 'a.rules'}": "firebase.json:1:16: is not JSON: ",
	} {
		f := nearest(t, write(t, map[string]string{"firebase.json": `{"firestore": ` + firestore + `}`}))
		if _, err := f.Database("(default)"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("firestore: %s: %v; want %s", firestore, err, want)
		}
	}
}

// Every file of the app is read as the Firebase CLI reads it: with comments, byte order marks and
// the line ends of Windows. Places in errors are those that an editor shows.
func TestFormsOfFiles(t *testing.T) {
	const mark = "\ufeff"
	files := map[string]string{
		"tally.yaml":             "# ours\ncadence: 2s\nregion: us-east1\n",
		"firebase.json":          "{\n  // one\n  \"firestore\": { /* two */ \"rules\": \"a.rules\", \"indexes\": \"a//b.json\" } // three\n}",
		".firebaserc":            "// ours\n{\"projects\": {\"default\": \"shop\"}}",
		"a.rules":                "// ours\nservice cloud.firestore {}\n",
		"firestore.indexes.json": "{\n  // Example:\n  //\n  // \"indexes\": [\n  //   { \"fieldPath\": \"a\" },\n  // ]\n  \"indexes\": [{ \"a\": 1 }, // ours\n  { }],\n  \"fieldOverrides\": []\n}",
	}
	for form, change := range map[string]func(string) string{
		"as it is":             func(s string) string { return s },
		"a mark in the middle": func(s string) string { return strings.Replace(s, "{", "{"+mark, 1) },
		"a byte order mark":    func(s string) string { return mark + s },
		"CR LF":                func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") },
		"both":                 func(s string) string { return mark + strings.ReplaceAll(s, "\n", "\r\n") },
	} {
		t.Run(form, func(t *testing.T) {
			changed := make(map[string]string)
			for name, text := range files {
				changed[name] = change(text)
			}
			dir := write(t, changed)
			f := nearest(t, dir)
			project, err := f.Project("")
			if err != nil || project.ID != "shop" || f.Settings.Cadence != "2s" || f.Settings.Region != "us-east1" {
				t.Errorf("%v, %v; %+v", project, err, f.Settings)
			}
			d, err := f.Database("(default)")
			if want := (Database{ID: "(default)", Rules: filepath.Join(dir, "a.rules"), Indexes: filepath.Join(dir, "a", "b.json")}); err != nil || d != want {
				t.Errorf("%v, %v; want %v", d, err, want)
			}
			rules, err := ReadRules(d.Rules)
			if err != nil || !strings.HasPrefix(rules, "// ours") {
				t.Errorf("rules %q, %v", rules, err)
			}

			var has struct{ Indexes []map[string]int }
			err = ReadJSON(filepath.Join(dir, "firestore.indexes.json"), &has)
			if err != nil || len(has.Indexes) != 2 || has.Indexes[0]["a"] != 1 {
				t.Errorf("indexes %v, %v", has, err)
			}
			var wrong struct {
				Indexes []map[string]string `json:"indexes"`
			}
			err = ReadJSON(filepath.Join(dir, "firestore.indexes.json"), &wrong)
			if err == nil || !strings.Contains(err.Error(), "firestore.indexes.json:7:22: indexes") {
				t.Errorf("a value of another kind: %v; want its place", err)
			}
		})
	}

	for name, text := range map[string]string{"little-endian": "\xff\xfe{\x00}\x00", "big-endian": "\xfe\xff\x00{\x00}"} {
		dir := write(t, map[string]string{"firebase.json": text, "a.rules": text})
		_, ofJSON := nearest(t, dir).Database("(default)")
		_, ofRules := ReadRules(filepath.Join(dir, "a.rules"))
		for _, err := range []error{ofJSON, ofRules} {
			if err == nil || !strings.HasSuffix(err.Error(), ": is text in UTF-16: save it as UTF-8") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
