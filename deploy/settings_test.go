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

	"github.com/firestore-tally/tally/rollup"
	"github.com/google/go-cmp/cmp"
)

func TestOnWriteName(t *testing.T) {
	const posts = "posts/{post}/counters/{name}/shards/{shard} -> posts/{post}/rollups/{name} : likes"
	for _, test := range []struct{ database, route, want string }{
		{"(default)", rollup.DefaultRoute, "tally-on-write-counters-shards-78fea5"},
		// Nothing but which documents are shards makes a difference.
		{"(default)", "counters/{c}/shards/{s} -> totals/x/y/{c} : a, b : documents", "tally-on-write-counters-shards-78fea5"},
		{"orders", rollup.DefaultRoute, "tally-on-write-orders-counters-shards-188118"},
		{"(default)", posts, "tally-on-write-posts-counters-shards-d2a08c"},
		{"(default)", "Zähler/{a}/x/{b} -> r/{a} : n", "tally-on-write-z-hler-x-bdff08"},
		{"(default)", "数/{a}/表/{b} -> r/{a} : n", "tally-on-write-abec8c"},
		{"database-with-a-long-name", posts, "tally-on-write-database-with-a-long-name-p-181960"},
	} {
		routes, err := rollup.ParseRoutes(test.route)
		if err != nil {
			t.Fatal(err)
		}
		got := OnWriteName(test.database, routes[0])
		if got != test.want {
			t.Errorf("%s, %s: got %s, want %s", test.database, test.route, got, test.want)
		}
		if len(got) > maxName {
			t.Errorf("%s has %d characters, want at most %d", got, len(got), maxName)
		}
	}
}

// TestFields: the settings exempt the same fields as firestore.indexes.json, and what Tally adds to the
// roll-ups of each route, once for each collection group.
func TestFields(t *testing.T) {
	data, err := os.ReadFile("../firestore.indexes.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ FieldOverrides []FieldOverride }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	routes, err := rollup.ParseRoutes(rollup.DefaultRoute + "; a/{a}/s/{s} -> a/{a}/rollups/x : n; b/{b}/s/{s} -> x/{b} : n : every 1m")
	if err != nil {
		t.Fatal(err)
	}
	var got []FieldOverride
	for _, f := range Fields(routes) {
		got = append(got, f.Override())
	}
	want := append(file.FieldOverrides, FieldOverride{CollectionGroup: "x", FieldPath: "tally", Indexes: []any{}})
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-firestore.indexes.json and x.tally +settings):\n%s", d)
	}
}

// TestEvery: a call of RollUpOnSchedule can go round until the next is due, with 45 s left for what it
// has begun then (see internal/app), and the job waits for it. No event keeps what the schedule keeps.
func TestEvery(t *testing.T) {
	routes, err := rollup.ParseRoutes(rollup.DefaultRoute + "; b/{b}/s/{s} -> x/{b} : n : every 1m")
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Options{Project: "p", Databases: []Database{{"(default)", "nam5"}}, Routes: routes})
	if err != nil {
		t.Fatal(err)
	}
	period, err := time.ParseDuration(s.OnSchedule.Env["TALLY_SCHEDULE_PERIOD"])
	if err != nil || s.Job.Schedule != fmt.Sprintf("*/%d * * * *", period/time.Minute) {
		t.Errorf("the period %v is not that of the schedule %s: %v", period, s.Job.Schedule, err)
	}
	if f := s.OnSchedule; f.Timeout < period+45*time.Second || s.Job.AttemptDeadline < f.Timeout || s.Job.AttemptDeadline > 30*time.Minute {
		t.Errorf("period %v, timeout %v, attempt deadline %v", period, f.Timeout, s.Job.AttemptDeadline)
	}
	if live, every := s.OnWrite[0], s.OnWrite[1]; live.Trigger == nil || every.Trigger != nil {
		t.Errorf("triggers %v and %v, want one of the first only", live.Trigger, every.Trigger)
	}
}

// TestRuntime: the functions' Go version is that of go.mod.
func TestRuntime(t *testing.T) {
	data, err := os.ReadFile("../go.mod")
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
		out, err := exec.Command("sh", "-c", script).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if d := cmp.Diff(strings.Join(args, "|")+"|", string(out)); d != "" {
			t.Errorf("%s (-want +got):\n%s", script, d)
		}
	}
	inner := Command{Args: []string{"echo", "a b"}}
	out, err := exec.Command("sh", "-c", Command{Args: []string{"printf", "%s|", "--uri=" + Placeholder}, Output: &inner}.String()).CombinedOutput()
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
	hash := func() string {
		t.Helper()
		h, err := SourceHash(dir)
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
		{"functions_test.go", false}, {"b/b.go", false}, {"README.md", false}, {"a/a_windows.go", false},
		{"a/a.go", true}, {"a/more.go", true}, {"functions.go", true}, {"go.sum", true},
	} {
		content := "package " + map[bool]string{true: filepath.Dir(test.file), false: "tally"}[strings.Contains(test.file, "/")] + "\n// changed\n"
		put(test.file, content)
		after := hash()
		if (after != before) != test.changes {
			t.Errorf("%s changed: hash changes %v, want %v", test.file, after != before, test.changes)
		}
		before = after
	}
	if h, err := SourceHash(".."); err != nil || len(h) != 16 {
		t.Errorf("of this clone: %q, %v", h, err)
	}
}

func TestCovers(t *testing.T) {
	for _, test := range []struct {
		have, want string
		covers     bool
	}{
		{`{"a": 1, "name": "x"}`, `{"a": 1}`, true},
		{`{"a": 1}`, `{"a": 2}`, false},
		{`{}`, `{"a": 0, "b": "", "c": false, "d": {}, "e": []}`, true},
		{`{}`, `{"a": 1}`, false},
		{`{"a": [{"b": 1, "c": 2}]}`, `{"a": [{"b": 1}]}`, true},
		{`{"a": [{"b": 1}, {"b": 2}]}`, `{"a": [{"b": 1}]}`, false},
		{`{"a": "1"}`, `{"a": 1}`, false},
	} {
		var have, want any
		for text, into := range map[string]*any{test.have: &have, test.want: &want} {
			if err := json.Unmarshal([]byte(text), into); err != nil {
				t.Fatal(err)
			}
		}
		if got := covers(have, want); got != test.covers {
			t.Errorf("%s covers %s: %v, want %v", test.have, test.want, got, test.covers)
		}
	}
}
