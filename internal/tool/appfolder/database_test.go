package appfolder

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/firestore-tally/tally/internal/test/firebasetest"
	"github.com/google/go-cmp/cmp"
)

// The databases are those that the Firebase CLI takes. Of these the app's is what tally.yaml says,
// or the only one.
func TestDatabases(t *testing.T) {
	const rc = `{"projects": {"default": "shop"}, "targets": {
		"shop": {"firestore": {"main": ["(default)"], "eu": ["europe", "europe2"]}},
		"shop-staging": {"firestore": {"main": ["staging"]}}}}`
	for _, test := range []struct {
		name, firebase string // the value of its key firestore
		project, yaml  string
		want           []string // as id: rules
		ids            []string // of the app
		err            string
	}{
		{name: "the default", firebase: `{"rules": "a"}`, want: []string{"(default): a"}},
		{name: "an empty id", firebase: `{"database": "", "rules": "a"}`, want: []string{"(default): a"}},
		{name: "one with a name", firebase: `{"database": "orders", "rules": "a"}`, want: []string{"orders: a"}, ids: []string{"orders"}},
		{name: "a list of one", firebase: `[{"database": "orders", "rules": "a"}]`, want: []string{"orders: a"}, ids: []string{"orders"}},
		{name: "no default", firebase: `[{"database": "orders"}, {"database": "eu"}]`, want: []string{"orders: ", "eu: "}},
		{name: "tally.yaml says another", firebase: `{"database": "orders"}`, yaml: "databases: [other]", want: []string{"orders: "}, ids: []string{"other"}},
		{name: "a target of none", firebase: `{"target": "main", "rules": "a"}`, want: []string{"(default): a"}},
		{name: "targets", firebase: `[{"target": "main", "rules": "a"}, {"target": "eu", "rules": "b"}]`, want: []string{"(default): a", "europe: b", "europe2: b"}},
		{name: "the target of another project", firebase: `[{"target": "main", "rules": "a"}]`, project: "shop-staging", want: []string{"staging: a"}, ids: []string{"staging"}},
		{name: "a project without targets", firebase: `[{"target": "main", "rules": "a"}]`, project: "demo-tally", want: []string{"(default): a"}},
		{name: "a target that is none", firebase: `[{"target": "us"}]`, err: "firebase.json:1:16: firestore.0: the target us has no database in .firebaserc for project shop: firebase target:apply firestore us DATABASE names one"},
		{name: "an empty list", firebase: `[]`},
		{name: "null", firebase: `null`},
		{name: "doubled", firebase: `{"rules": "old"}, "firestore": {"rules": "a", "database": "orders", "rules": "b"}`, want: []string{"orders: b"}, ids: []string{"orders"}},
		{name: "doubled in a list", firebase: `[{"database": "old", "database": "a"}]`, want: []string{"a: "}, ids: []string{"a"}},
		{name: "nothing of the former", firebase: `{"rules": "old", "database": "old"}, "firestore": {"indexes": "i"}`, want: []string{"(default): "}},
		{name: "another key that is there twice", firebase: `{"rules": "a"}, "hosting": 1, // ours
			"hosting": [2]`, want: []string{"(default): a"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			firebasetest.Store(t, "{}")
			dir := write(t, map[string]string{"firebase.json": `{"firestore": ` + test.firebase + `}`, ".firebaserc": rc, "tally.yaml": test.yaml})
			f := nearest(t, dir)
			f.ProjectID = test.project
			all, err := f.Databases()
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("got %v; want %s", err, test.err)
				}
				return
			}
			var got []string
			for _, d := range all {
				file, _ := filepath.Rel(dir, d.Rules)
				got = append(got, d.ID+": "+file)
			}
			if d := cmp.Diff(test.want, got); d != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, d)
			}
			ids, err := f.DatabaseIDs()
			if d := cmp.Diff(test.ids, ids); d != "" || err != nil || f.Variables()["TALLY_DATABASES"] != strings.Join(test.ids, ",") {
				t.Errorf("ids: %v, %v (-want +got):\n%s", f.Variables(), err, d)
			}
		})
	}
}

// Keys that are there twice do not join: the Firebase CLI takes the last, whole.
func TestDoubledProjects(t *testing.T) {
	firebasetest.Store(t, "{}")
	f := nearest(t, write(t, map[string]string{".firebaserc": `{"projects": {"default": "old", "other": "b"}, "projects": {"staging": "new"}}`}))
	if p, err := f.Project(""); p.ID != "new" || err != nil {
		t.Errorf("%v, %v", p, err)
	}
}

// Keys match exactly, as the Firebase CLI takes them.
func TestInexactKeys(t *testing.T) {
	firebasetest.Store(t, "{}")
	f := nearest(t, write(t, map[string]string{
		"firebase.json": `{"Firestore": 5, "firestore": [{"database": "a", "Database": "b", "ruleſ": 1, "rules": "a.rules", "RULES": "b.rules"}, {"target": "T", "Target": 1}],
			"emulators": {"Firestore": [], "firestore": {"port": 8181, "Port": "x"}}}`,
		".firebaserc": `{"projects": {"default": "shop", "Rules": "other"}, "Projects": [], "targets": {"shop": {"firestore": {"T": ["Firestore"]}, "Firestore": {"T": ["no"]}}}}`,
	}))
	all, err := f.Databases()
	if d := cmp.Diff([]Database{{ID: "a", Rules: filepath.Join(filepath.Dir(f.Firebase), "a.rules")}, {ID: "Firestore", Target: "T"}}, all); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	if p, err := f.Project("Rules"); p.ID != "other" || err != nil {
		t.Errorf("%v, %v", p, err)
	}
	if at, err := f.Emulator("firestore"); at.Port != 8181 || err != nil {
		t.Errorf("%v, %v", at, err)
	}

	f = nearest(t, write(t, map[string]string{"firebase.json": `{"firestore": {"Rules": "a.rules", "Database": "b"}}`}))
	d, err := f.Database("(default)")
	if d.Rules != "" || err != nil {
		t.Errorf("%v, %v", d, err)
	}
}

// An error after a key that is there twice has its place in the file.
func TestPlaceBehindDoubled(t *testing.T) {
	f := nearest(t, write(t, map[string]string{"firebase.json": "{\n \"hosting\": {\n\"a\": 1},\n \"hosting\": 1,\n \"firestore\": 5}"}))
	if _, err := f.Databases(); err == nil || !strings.Contains(err.Error(), "firebase.json:5:15: firestore: want keys") {
		t.Errorf("got %v", err)
	}
}

// Files that configure the Firebase CLI are found below the folder, and others are not taken for
// one.
func TestOtherConfigs(t *testing.T) {
	files := map[string]string{
		"backend/firebase.json":               "{}",
		"packages/api/cloud/firebase.json":    "{}",
		"firebase.staging.json":               `{"firestore": {"rules": "config/firestore.rules"}}`,
		"firebase-prod.json":                  `{"hosting": {}}`,
		"firebase-service-account.json":       `{"type": "service_account"}`,
		"firebase.broken.json":                "{",
		"node_modules/x/firebase.json":        "{}",
		"web/node_modules/x/firebase.json":    "{}",
		".cache/firebase.json":                "{}",
		"a/very/deep/folder/it/firebase.json": "{}",
		"web/firebase.staging.json":           `{"hosting": {}}`,
	}
	want := []string{"backend/firebase.json", "firebase-prod.json", "firebase.staging.json", "packages/api/cloud/firebase.json"}
	got, err := nearest(t, write(t, files)).OtherConfigs()
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		got, err := nearest(t, write(t, map[string]string{name: files[name]})).OtherConfigs()
		if slices.Contains(want, name) != (len(got) == 1) || err != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// tally.yaml has the last word about the edition. Without it, that of the database which Tally
// serves counts, and no other. tally deploy takes Enterprise from tally.yaml alone, and both files
// must agree.
func TestEdition(t *testing.T) {
	const (
		two     = `{"firestore": [{"database": "orders", "edition": "enterprise"}, {"database": "(default)"}]}`
		untried = "database orders is of the Enterprise edition, on which no one has tried Tally yet"
	)
	for _, test := range []struct{ firebase, settings, want, unserved string }{
		{`{"firestore": {}}`, "", "", ""},
		{`{"firestore": {"edition": "standard"}}`, "", "", ""},
		{`{"firestore": {"edition": "enterprise", "database": "orders"}}`, "", "enterprise", untried},
		{`{"firestore": {"edition": "ENTERPRISE", "database": "orders"}}`, "", "enterprise", untried},
		{`{"firestore": {"edition": "enterprise", "database": "orders"}}`, "edition: standard", "standard", untried},
		{`{"firestore": {"edition": "enterprise", "database": "orders"}}`, "edition: enterprise", "enterprise", ""},
		{`{"firestore": {"edition": "standard"}}`, "edition: enterprise", "enterprise", "database (default) is of the standard edition, and tally.yaml says edition: enterprise"},
		{two, "", "", untried},
		{two, "databases: [orders]", "enterprise", untried},
	} {
		f := nearest(t, write(t, map[string]string{"firebase.json": test.firebase, "tally.yaml": test.settings}))
		got, err := f.Edition()
		if got != test.want || err != nil {
			t.Errorf("%s, %q: got %q, %v; want %q", test.firebase, test.settings, got, err, test.want)
		}
		all, err := f.Databases()
		if err != nil {
			t.Fatal(err)
		}
		why := all[0].Unserved()
		if (why == "") != (test.unserved == "") || !strings.Contains(why, test.unserved) {
			t.Errorf("%s, %q: got %q, want %q", test.firebase, test.settings, why, test.unserved)
		}
	}
}
