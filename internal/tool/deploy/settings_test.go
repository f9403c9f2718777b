package deploy

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
)

// options are those of a project with the routes, in databases of two places.
func options(t *testing.T, routes string) Options {
	t.Helper()
	c, err := config.Load(map[string]string{"GOOGLE_CLOUD_PROJECT": "p", "TALLY_ROUTES": routes, "TALLY_DATABASES": "(default),orders"})
	if err != nil {
		t.Fatal(err)
	}
	return Options{Project: "p", Region: "us-central1", Databases: []Database{{"(default)", "nam5"}, {"orders", "europe-west1"}}, Config: c, Billing: ByRequest, MaxInstances: DefaultMaxInstances}
}

func TestTriggerName(t *testing.T) {
	const posts = "posts/{post}/counters/{name}/shards/{shard} -> posts/{post}/rollups/{name} : likes"
	for _, test := range []struct{ database, route, want string }{
		{"(default)", route.Default, "tally-counters-shards-78fea5"},
		// Nothing but which documents are shards makes a difference.
		{"(default)", "counters/{c}/shards/{s} -> totals/x/y/{c} : a, b : documents", "tally-counters-shards-78fea5"},
		{"orders", route.Default, "tally-orders-counters-shards-188118"},
		{"(default)", posts, "tally-posts-counters-shards-d2a08c"},
		{"(default)", "Zähler/{a}/x/{b} -> r/{a} : n", "tally-z-hler-x-bdff08"},
		{"(default)", "数/{a}/表/{b} -> r/{a} : n", "tally-abec8c"},
		{"database-with-a-name-that-is-as-long-as-any-may-be-63-characters", posts, "tally-database-with-a-name-that-is-as-long-as-any-may-be-f4bab9"},
	} {
		routes, err := route.Parse(test.route)
		if err != nil {
			t.Fatal(err)
		}
		got := TriggerName(test.database, routes[0])
		if got != test.want {
			t.Errorf("%s, %s: got %s, want %s", test.database, test.route, got, test.want)
		}
		if len(got) > maxName {
			t.Errorf("%s has %d characters, want at most %d", got, len(got), maxName)
		}
	}
}

// The description exempts the same fields as firestore.indexes.json, and what Tally adds to the
// roll-ups of each route, once for each collection group. A field that is summed in one place is
// indexed.
func TestFields(t *testing.T) {
	data, err := os.ReadFile("../../../firestore.indexes.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ FieldOverrides []FieldConfig }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	routes, err := route.Parse(route.Default + "; a/{a}/s/{s} -> a/{a}/rollups/x : n, m : documents; b/{b}/s/{s} -> x/{b} : n : every 1m")
	if err != nil {
		t.Fatal(err)
	}
	want := append(file.FieldOverrides, FieldConfig{CollectionGroup: "x", Path: "tally", Indexes: []any{}}, FieldConfig{CollectionGroup: "s", Path: "m", Indexes: []any{}})
	if d := cmp.Diff(want, Exempt(routes)); d != "" {
		t.Errorf("(-firestore.indexes.json, x.tally and s.m +description):\n%s", d)
	}
	var indexed []string
	for _, f := range Fields(routes) {
		if f.Indexed {
			indexed = append(indexed, f.CollectionGroup+"."+f.Path)
		}
	}
	if d := cmp.Diff([]string{"s.n", "shards.count"}, indexed); d != "" {
		t.Errorf("indexed (-want +got):\n%s", d)
	}
}

// No event keeps what the schedule keeps. Cron can say the schedule's period, and a job waits for a
// call.
func TestEvery(t *testing.T) {
	d, err := Describe(options(t, route.Default+"; b/{b}/s/{s} -> x/{b} : n : every 1m"), newState("p"), "")
	if err != nil {
		t.Fatal(err)
	}
	if time.Hour%config.SchedulePeriod != 0 || config.OnScheduleTimeout > 30*time.Minute {
		t.Errorf("period %v, timeout %v", config.SchedulePeriod, config.OnScheduleTimeout)
	}
	var triggers []string
	for _, r := range d.Resources {
		if r.Kind() == Trigger {
			triggers = append(triggers, r.Name())
		}
	}
	want := []string{"projects/p/locations/nam5/triggers/tally-counters-shards-78fea5", "projects/p/locations/europe-west1/triggers/tally-orders-counters-shards-188118"}
	if d := cmp.Diff(want, triggers); d != "" {
		t.Errorf("triggers (-want +got):\n%s", d)
	}
}

// A secret is no argument of a process, and in no text that people see. It reaches gcloud by its
// input.
func TestSecrets(t *testing.T) {
	const value = "api-key=s3cret,x=@y"
	o := options(t, route.Default)
	o.Env = map[string]string{"OTEL_EXPORTER_OTLP_HEADERS": value, "OTEL_SERVICE_NAME": "mine"}
	d, err := Describe(o, newState("p"), "")
	if err != nil {
		t.Fatal(err)
	}

	deployed := newState("p")
	for _, name := range []string{OnWriteName, OnScheduleName} {
		variables := map[string]any{"OTEL_EXPORTER_OTLP_HEADERS": "api-key=0ld", "OTEL_SERVICE_NAME": "other"}
		deployed.add(Function, nil, Object{"name": d.in("us-central1", "functions", name), "serviceConfig": map[string]any{"environmentVariables": variables}})
	}
	for _, have := range []*State{newState("p"), deployed} {
		p := d.Mend(have)
		told := p.Script("") + p.Shown(true)
		functions := 0
		for _, s := range p.Steps {
			told += s.String() + (&failure{command: s.Command}).Error()
			if strings.Contains(strings.Join(s.Command.Args, " "), "s3cret") {
				t.Errorf("an argument of %q is the secret", s.Title)
			}
			if s.Of != Function {
				continue
			}
			functions++
			if !strings.Contains(s.Command.Input, "OTEL_EXPORTER_OTLP_HEADERS="+value) || !strings.Contains(s.Command.Input, "OTEL_SERVICE_NAME=mine") {
				t.Errorf("the input of %q is %q", s.Title, s.Command.Input)
			}
		}
		if functions != 2 || strings.Contains(told, "s3cret") || strings.Contains(told, "0ld") || !strings.Contains(told, "OTEL_SERVICE_NAME=mine") {
			t.Errorf("%d functions:\n%s", functions, told)
		}
	}
}

// IAM allows twelve operators in a condition, so more databases have more conditions.
func TestManyDatabases(t *testing.T) {
	for databases, want := range map[int]int{1: 1, 12: 1, 13: 2, 30: 3} {
		o := options(t, route.Default)
		o.Databases = nil
		for i := range databases {
			o.Databases = append(o.Databases, Database{fmt.Sprint("database-", i), "nam5"})
		}
		d, err := Describe(o, newState("p"), "")
		if err != nil {
			t.Fatal(err)
		}

		conditions, operands := 0, 0
		for _, g := range d.Grants {
			if g.Role == "roles/datastore.user" {
				conditions++
				n := strings.Count(g.Condition, "resource.name ==")
				operands += n
				if n > 12 {
					t.Errorf("%d databases: a condition has %d", databases, n)
				}
			}
		}
		if conditions != want || operands != databases {
			t.Errorf("%d databases: %d conditions of %d in all, want %d", databases, conditions, operands, want)
		}
	}
}

// A trigger would take a * in a collection's name for any text.
func TestStarInACollection(t *testing.T) {
	for routes, want := range map[string]string{
		"`a*`/{a}/s/{s} -> r/{a} : n":            "takes the * in a* for any text",
		"a/{a}/`*`/{s} -> r/{a} : n":             "takes the * in * for any text",
		"`a*`/{a}/s/{s} -> r/{a} : n : every 1m": "", // it has no trigger
		"a/{a}/s/{s} -> `r*`/{a} : n":            "",
	} {
		_, err := Describe(options(t, routes), newState("p"), "")
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", routes, err, want)
		}
	}
}

// A plan says that nine databases share a call of RollUpOnSchedule, too short for audits to tell
// drift.
func TestDriftThatNobodyTells(t *testing.T) {
	for limit, want := range map[string]int{"8s": 0, "10s": 1} {
		o := options(t, route.Default)
		var err error
		o.Config, err = config.Load(map[string]string{"GOOGLE_CLOUD_PROJECT": "p", "TALLY_HOLD_LIMIT": limit,
			"TALLY_DATABASES": "data1,data2,data3,data4,data5,data6,data7,data8,data9"})
		if err != nil {
			t.Fatal(err)
		}
		o.AlertEmail = "me@example.com"
		have := newState("p")
		d, err := Describe(o, have, "")
		if err != nil {
			t.Fatal(err)
		}
		p, err := d.Deploy(have, false, false)
		if err != nil || len(p.Notes) != want || want == 1 && !strings.Contains(p.Notes[0], "audits cannot report drift: 9 databases") {
			t.Errorf("hold limit %s: notes %q, %v", limit, p.Notes, err)
		}
	}
}

// TestRuntime: the functions' Go version is that of go.mod.
func TestRuntime(t *testing.T) {
	data, err := os.ReadFile("../../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if want := "\ngo 1." + strings.TrimPrefix(runtime, "go1") + "."; !strings.Contains(string(data), want) {
		t.Errorf("runtime is %s, but go.mod does not say%s", runtime, want)
	}
}

// TestQuote has a shell read back what a command prints.
func TestQuote(t *testing.T) {
	args := []string{"plain", "", "(default)", "--database=(default)", "*/10 * * * *", "it's", `"$HOME"`, "a\nb", "--x='", "counters/{counter} -> r : a, b"}
	c := Command{Args: append([]string{"printf", `%s|`}, args...)}
	for _, script := range []string{c.String(), c.Lines()} {
		out, err := exec.Command("/bin/sh", "-c", script).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if d := cmp.Diff(strings.Join(args, "|")+"|", string(out)); d != "" {
			t.Errorf("%s (-want +got):\n%s", script, d)
		}
	}
	inner := Command{Args: []string{"echo", "a b"}}
	out, err := exec.Command("/bin/sh", "-c", Command{Args: []string{"printf", "%s|", "--uri=" + Placeholder}, Output: &inner}.String()).CombinedOutput()
	if got, want := string(out), "--uri=a b|"; err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

func TestDict(t *testing.T) {
	for _, test := range []struct {
		pairs []string
		want  string
	}{
		{[]string{"a=1", "b=2"}, "a=1,b=2"},
		{[]string{"a=1,2", "b=3"}, "^@^a=1,2@b=3"},
		{[]string{"a=1,2@x", "b=3"}, "^@0@^a=1,2@x@0@b=3"},
		{[]string{"a=1,2@0", "b=3"}, "^@1@^a=1,2@0@1@b=3"},
		{[]string{"b=3", "a=1,2@0"}, "^@1@^b=3@1@a=1,2@0"},
		{[]string{"a=1,2@"}, "^@0@^a=1,2@"},
		{[]string{"a=1,"}, "^@^a=1,"},
		{[]string{"^a=1"}, "^@^^a=1"},
	} {
		if got := dict(test.pairs); got != test.want {
			t.Errorf("%q: got %q, want %q", test.pairs, got, test.want)
		}
	}
}

// TestSourceHash: the hash follows what the functions are built from, and nothing else.
func TestSourceHash(t *testing.T) {
	dir := t.TempDir()
	put := func(name, content string) {
		t.Helper()
		file := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(file), 0o700)
		if err == nil {
			err = os.WriteFile(file, []byte(content), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	put("go.mod", "module "+module+"\n")
	put("go.sum", "")
	put("functions.go", "package tally\nimport _ \""+module+"/a\"\n")
	put("a/a.go", "package a\n")
	put("b/b.go", "package b\n")
	put(".gcloudignore", "# upload\n**\n!.\n!/go.mod\n!/go.sum\n!/*.go\n!/a\n!/a/*.go\n*_test.go\n")
	hash := func() string {
		t.Helper()
		h, err := sourceHash(os.DirFS(dir))
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	before := hash()
	for _, test := range []struct {
		file    string
		changes bool
	}{
		{"functions_test.go", false}, {"b/b.go", false}, {"README.md", false}, {"a/a_test.go", false},
		{"a/a.go", true}, {"a/more.go", true}, {"functions.go", true}, {"go.sum", true},
	} {
		name := "tally"
		if strings.Contains(test.file, "/") {
			name = filepath.Dir(test.file)
		}
		put(test.file, "package "+name+"\n// changed\n")
		after := hash()
		if (after != before) != test.changes {
			t.Errorf("%s changed: hash changes %v, want %v", test.file, after != before, test.changes)
		}
		before = after
	}
	if h, err := sourceHash(os.DirFS("../../..")); err != nil || len(h) != 16 {
		t.Errorf("of this clone: %q, %v", h, err)
	}
}

func TestDiffers(t *testing.T) {
	content := Object{"a": 1, "b": Object{"c": []any{"x", Object{"d": false}}}, "e": ""}
	want := append(leaves("", content, "--file"), Setting{Arg: "--mark=m"})
	for _, test := range []struct{ have, want string }{
		{`{"a": 1, "b": {"c": ["x", {"d": false, "more": 1}]}, "name": "n"}`, ""},
		{`{"a": "1", "b": {"c": ["x", {}]}, "e": ""}`, ""},
		{`{"a": 2, "b": {"c": ["x", {"d": true}]}, "e": "e"}`, "a: 2, want 1; b.c.1.d: true, want false; e: e, want none"},
		{`{"b": {"c": ["x"]}}`, "a: none, want 1; b.c.#: 1, want 2"},
		{`{"a": 1, "b": {"c": "x"}}`, "b.c.#: none, want 2; b.c.0: none, want x"},
	} {
		have, err := decode([]byte(test.have))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range differences(want, have) {
			got = append(got, c.String())
		}
		if got := strings.Join(got, "; "); got != test.want {
			t.Errorf("%s: got %q, want %q", test.have, got, test.want)
		}
	}
	unknown := Change{Setting{Path: "uri", Want: Placeholder}, "https://a"}
	if got, want := unknown.String(), "uri: https://a, want (looked up)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The pages name each role that suffices. tally doctor --explain prints the permissions.
func TestDocumented(t *testing.T) {
	var pages string
	for _, file := range files(t, "../../../docs/*.md") {
		pages += text(t, file)
	}
	for _, a := range Sources {
		if !strings.Contains(pages, "`"+a.role+"`") {
			t.Errorf("no page tells that %v", a)
		}
	}
}

// The functions are near the first database, unless the user or an earlier deployment says where.
func TestRegion(t *testing.T) {
	for _, test := range []struct{ region, location, want string }{
		{"", "nam5", "us-central1"},
		{"", "nam7", "us-central1"},
		{"", "eur3", "europe-west1"},
		{"", "asia-south1", "asia-south1"},
		{"us-east1", "eur3", "us-east1"},
	} {
		o := Options{Region: test.region, Databases: []Database{{Location: test.location}, {Location: "us-west1"}}}
		if got := o.region(); got != test.want {
			t.Errorf("region %q, database in %s: got %s, want %s", test.region, test.location, got, test.want)
		}
	}
}
