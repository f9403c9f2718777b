package deploy

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"cloud.google.com/go/firestore/apiv1/admin/adminpb"
	"github.com/firestore-tally/tally/internal/test/googletest"
	"github.com/firestore-tally/tally/rollup/route"
)

// newEnterprise returns a project as newProject does, whose databases are of the Enterprise
// edition.
func newEnterprise(t *testing.T) *testProject {
	t.Helper()
	d := newProject(t)
	for _, id := range []string{"(default)", "orders"} {
		googletest.Change(d.google, "projects/my-project/databases/"+id, func(d *adminpb.Database) {
			d.DatabaseEdition = adminpb.Database_ENTERPRISE
			d.FirestoreDataAccessMode = adminpb.Database_DATA_ACCESS_MODE_ENABLED
			d.RealtimeUpdatesMode = adminpb.RealtimeUpdatesMode_REALTIME_UPDATES_MODE_ENABLED
		})
	}
	d.options.Config.Edition = route.Enterprise
	return d
}

// On Enterprise all indexes are made first, also those of one field and of names. No field is
// exempt, and documents expire. The functions and the triggers come only once each index is ready,
// and a second run finds nothing to do.
func TestDeployEnterprise(t *testing.T) {
	d := newEnterprise(t)
	d.google.Builds = 5
	needs := len(d.options.Config.Routes.Indexes(route.Enterprise)) * len(d.options.Databases)
	before := func() (functions, triggers int) {
		return len(d.google.Names("functions")), len(d.google.Names("triggers"))
	}

	wanted := d.read()
	if indexes, fields := len(wanted.OfKind("index")), wanted.OfKind("field"); indexes != needs || len(fields) > 0 {
		t.Errorf("%d indexes, want %d; fields with settings of their own: %v", indexes, needs, fields)
	}
	if len(wanted.OfKind("time to live")) != len(d.options.Databases) {
		t.Errorf("documents expire by %v", wanted.OfKind("time to live"))
	}
	for _, f := range wanted.OfKind("function") {
		if edition := f.Want["serviceConfig"].(map[string]any)["environmentVariables"].(map[string]any)["TALLY_EDITION"]; edition != "enterprise" {
			t.Errorf("%v has the edition %v", f, edition)
		}
	}

	plan, err := wanted.Plan(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range plan.Steps {
		if s.Of != "API" && s.Of != "index" {
			t.Errorf("before the indexes are ready: %s", s.Title)
		}
	}
	if len(plan.Awaited) != needs {
		t.Errorf("the plan awaits %v, want all %d indexes", plan.Awaited, needs)
	}

	d.deploy()
	for _, name := range d.google.Names("indexes") {
		if x := d.google.Get(name).(*adminpb.Index); x.State != adminpb.Index_READY {
			t.Errorf("%s is %v", name, x.State)
		}
	}
	if functions, triggers := before(); functions != 2 || triggers == 0 {
		t.Errorf("there are %d functions and %d triggers", functions, triggers)
	}

	again, err := d.read().Plan(t.Context(), false)
	if err != nil || len(again.Steps) > 0 {
		t.Errorf("a second run: %v", err)
		for _, s := range again.Steps {
			t.Errorf("%s: %v", s.Title, s.Lines())
		}
	}
}

// Only a database that is as tally.yaml says is served.
func TestLocateEdition(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*adminpb.Database)
		on     route.Edition
		want   string // "": it is served
	}{
		{"Standard", func(*adminpb.Database) {}, route.Standard, ""},
		{"Enterprise, as tally.yaml says", func(d *adminpb.Database) { d.DatabaseEdition = adminpb.Database_ENTERPRISE }, route.Enterprise, ""},
		{
			"Enterprise, unsaid", func(d *adminpb.Database) { d.DatabaseEdition = adminpb.Database_ENTERPRISE }, route.Standard,
			"database (default) is of the Enterprise edition, on which no one has tried Tally yet (docs/limits.md#not-tried-yet); the line \"edition: enterprise\" in tally.yaml serves it all the same",
		},
		{
			"Standard, said to be Enterprise", func(*adminpb.Database) {}, route.Enterprise,
			"database (default) is of the Standard edition, and tally.yaml says edition: enterprise; remove that line, or name other databases: all must be of one edition",
		},
		{
			"without Firestore's API", func(d *adminpb.Database) {
				d.DatabaseEdition, d.FirestoreDataAccessMode = adminpb.Database_ENTERPRISE, adminpb.Database_DATA_ACCESS_MODE_DISABLED
			}, route.Enterprise,
			"database (default) refuses Firestore's API: its firestoreDataAccessMode is DATA_ACCESS_MODE_DISABLED; enable Firestore data access for it:\n  https://console.cloud.google.com/firestore/databases/%28default%29?project=my-project",
		},
		{
			"without updates", func(d *adminpb.Database) {
				d.DatabaseEdition, d.RealtimeUpdatesMode = adminpb.Database_ENTERPRISE, adminpb.RealtimeUpdatesMode_REALTIME_UPDATES_MODE_DISABLED
			}, route.Enterprise,
			"database (default) sends no updates, which listeners to totals wait for: its realtimeUpdatesMode is REALTIME_UPDATES_MODE_DISABLED; enable realtime updates for it:\n  https://console.cloud.google.com/firestore/databases/%28default%29?project=my-project",
		},
	} {
		g := googletest.Start(t, "my-project")
		googletest.Change(g, "projects/my-project/databases/(default)", test.change)
		p, err := Open(t.Context(), "my-project", g.REST()...)
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.Locate([]string{"(default)"}, test.on)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

// An index of Enterprise serves a query only if it is as the query wants it.
func TestIndexKeyOfEnterprise(t *testing.T) {
	want := IndexName("g", route.Index{Fields: []route.IndexField{{Field: "shop"}, {Field: "at"}}}, route.Enterprise)
	names := IndexName("g", route.Index{Group: true, Fields: []route.IndexField{{Field: route.DocumentName}}}, route.Enterprise)
	for text, key := range map[string]string{
		`"queryScope": "COLLECTION", "fields": [shop, at]`:                                       want,
		`"queryScope": "COLLECTION", "fields": [shop, at, __name__], "density": "DENSE"`:         want,
		`"queryScope": "COLLECTION_GROUP", "fields": [__name__], "density": "SPARSE_ANY"`:        names,
		`"queryScope": "COLLECTION", "fields": [at, shop]`:                                       "",
		`"queryScope": "COLLECTION", "fields": [shop]`:                                           "",
		`"queryScope": "COLLECTION_GROUP", "fields": [shop, at]`:                                 "",
		`"queryScope": "COLLECTION", "fields": [shop, at], "apiScope": "MONGODB_COMPATIBLE_API"`: "",
	} {
		for _, field := range []string{"shop", "at", "__name__"} {
			for _, end := range []string{"]", ","} {
				text = strings.ReplaceAll(text, field+end, `{"fieldPath": "`+field+`", "order": "ASCENDING"}`+end)
			}
		}
		var o Object
		if err := json.Unmarshal([]byte(`{"name": "g/indexes/7", `+text+`}`), &o); err != nil {
			t.Fatal(err)
		}
		got := IndexKey(o, route.Enterprise)
		if !slices.Contains([]string{want, names}, got) {
			got = "" // of other queries
		}
		if got != key {
			t.Errorf("%s serves %q, want %q", text, got, key)
		}
	}
}
