//go:build unix

package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// From a terminal, as from the schedule: name what differs, repair it, and find nothing more.
func TestAudit(t *testing.T) {
	c := newConsole(t)
	for _, id := range []string{"right", "drifted", "missing"} {
		c.set("counters/"+id+"/shards/0", map[string]any{"count": 7})
	}
	c.rollUp("counters/right/shards/0")
	c.oldRollUp("counters/drifted/shards/0", 6, 1)
	c.oldRollUp("counters/orphaned/shards/0", 6, 1)
	c.oldRollUp("counters/gone/shards/0", 0, 0)
	c.set("rollups/app", map[string]any{"title": "x"})
	c.set("posts/7/counters/likes/shards/0", map[string]any{"count": "x"})
	const routes = rollup.DefaultRoute + "; posts/{post}/counters/{name}/shards/{shard} -> posts/{post}/rollups/{name} : count"
	for _, step := range []struct {
		args   []string
		want   string // standard output
		status int
		logs   []string
	}{
		{[]string{"audit", "--grace", "1ms"},
			`counters   5
rolled up  0
unchanged  2
removed    0
differing  3
failed     0

drift      1
missing    1
orphaned   1
rerouted   0
outdated   0
malformed  0
unkept     0

billed  26 reads, 0 writes, 0 deletes: $0.0000 at list price
`, 1, []string{"drift: ", `counter=rollups/drifted differs="count 6 → 7"`, "orphaned: ", "missing: ", "--repair repairs them"}},
		{[]string{"audit", "--grace", "0", "--json", "--repair", "--routes", routes},
			`{"counters":6,"rolled_up":4,"unchanged":1,"removed":1,"differing":0,"failed":0,"unkept":0,"drift":0,"missing":2,"orphaned":1,"rerouted":0,"outdated":0,"malformed":1,"complete":true,` +
				`"overlapped":false,"cursor":"at the beginning","dry_run":false,"billed":{"reads":33,"writes":4,"deletes":1},"dollars":T,"seconds":T}` + "\n", 0, nil},
		{[]string{"audit", "--json", "--routes", routes},
			`{"counters":5,"rolled_up":0,"unchanged":5,"removed":0,"differing":0,"failed":0,"unkept":0,"drift":0,"missing":0,"orphaned":0,"rerouted":0,"outdated":0,"malformed":1,"complete":true,` +
				`"overlapped":false,"cursor":"at the beginning","dry_run":true,"billed":{"reads":22,"writes":0,"deletes":0},"dollars":T,"seconds":T}` + "\n", 0, nil},
		{[]string{"audit", "--routes", "x"}, "", 1, []string{"TALLY_ROUTES: want <source pattern>", "\n  x\n   ^\n"}},
		{[]string{"audit", "--concurrency", "0"}, "", 1, []string{"--concurrency 0"}},
		{[]string{"audit", "--field", "x"}, "", 1, []string{"unknown flag: --field"}},
	} {
		status, out, logs := c.run(step.args...)
		out = regexp.MustCompile(`"(dollars|seconds)":[0-9.e-]+`).ReplaceAllString(out, `"$1":T`)
		if d := cmp.Diff(step.want, out); d != "" || status != step.status {
			t.Errorf("tally %v: status %d, want %d; %s(-want +got):\n%s", step.args, status, step.status, logs, d)
		}
		for _, want := range step.logs {
			if !strings.Contains(logs, want) {
				t.Errorf("tally %v: no %q in %s", step.args, want, logs)
			}
		}
	}
	c.set("rollups/right", map[string]any{"count": 8})
	t.Setenv("TALLY_CADENCE", "20m") // no audit has time for a grace
	t.Setenv("TALLY_HOLD_LIMIT", "70m")
	c.tell([]step{
		{args: "audit --timeout 20s --json | .differing", want: "1", status: 1},
		{args: "audit --timeout 20s --repair --json --routes counters/{counter}/shards/{shard}->rollups/{counter}:count | .rolled_up", want: "1"},
	})
	t.Setenv("TALLY_CADENCE", "")
	t.Setenv("TALLY_HOLD_LIMIT", "")
	c.set("rollups/right", map[string]any{"old": 5, document.TallyField: map[string]any{"former": []any{"old"}}})
	c.tell([]step{
		{args: "audit --grace 0 --json | .differing", want: "0"},
		{args: "audit --grace 0 --prune --json | .outdated", want: "1", status: 1},
		{args: "audit --grace 0 --prune --repair --routes counters/{counter}/shards/{shard}->rollups/{counter}:count --json | .outdated", want: "1"},
	})
	if doc, err := c.client.Doc("rollups/right").Get(t.Context()); err != nil || doc.Data()["old"] != nil || doc.Data()["count"] != int64(7) {
		t.Errorf("rollups/right: %v, %v; want the total of earlier routes gone", doc.Data(), err)
	}
	if doc, err := c.client.Doc("rollup_audit/cursor").Get(t.Context()); status.Code(err) != codes.NotFound {
		t.Errorf("the schedule's cursor: %v, %v", doc.Data(), err)
	}
}

// Routes that nobody named are not those of the deployed functions: by the default route a counter of
// another one has a roll-up and no shards, and repairing would set its total to 0.
func TestAuditAssumesRoutes(t *testing.T) {
	const route = "pages/{page}/shards/{shard} -> rollups/{page} : count"
	c := newConsole(t)
	c.set("pages/p/shards/0", map[string]any{"count": 7})
	repair := func(routes ...string) (status int, stdout, stderr string) {
		return c.run(append([]string{"audit", "--repair", "--grace", "0"}, routes...)...)
	}
	wantTotal := func(want int64) {
		t.Helper()
		doc, err := c.client.Doc("rollups/p").Get(t.Context())
		if err != nil || doc.Data()["count"] != want {
			t.Errorf("rollups/p is %v, %v; want the total %d", doc.Data(), err, want)
		}
	}
	first := func(stderr, want string) {
		t.Helper()
		if line, _, _ := strings.Cut(stderr, "\n"); line != want {
			t.Errorf("the first line is %q, want %q", line, want)
		}
	}

	t.Setenv("TALLY_ROUTES", "")
	status, _, stderr := repair("--routes", route)
	if status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	first(stderr, "routes, by --routes: "+route)
	wantTotal(7)

	// Named, but not those that made the roll-up.
	status, stdout, stderr := repair("--routes", rollup.DefaultRoute)
	if status != 1 || !strings.Contains(stdout, "differing  1\n") || !strings.Contains(stderr, "left alone") {
		t.Errorf("other routes: status %d, %s%s; want one that differs, and is left alone", status, stdout, stderr)
	}
	wantTotal(7)

	t.Setenv("TALLY_ROUTES", route)
	c.set("pages/p/shards/0", map[string]any{"count": 8})
	if status, _, stderr = repair(); status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	first(stderr, "routes, by TALLY_ROUTES: "+route)
	wantTotal(8)
}
