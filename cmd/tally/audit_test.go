//go:build unix

package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup/route"
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
	const routes = route.Default + "; posts/{post}/counters/{name}/shards/{shard} -> posts/{post}/rollups/{name} : count"
	for _, step := range []struct {
		args   []string
		want   string // standard output
		status int
		logs   []string
	}{
		{[]string{"audit", "--grace", "1ms", "--verbose"},
			`3 counters of 5 not right (drift 1, missing 1, orphaned 1).

counters   5
rolled up  0
unchanged  2
removed    0
differing  3
failed     0

drift      1
lapsed     0
late       0
missing    1  new, or a document without room for totals: --repair tells
orphaned   1
rerouted   0
outdated   0
malformed  0
unkept     0
foreign    0

billed  27 reads: $0.0000 at list price in us-central1
`, 1, []string{"drift: ", `counter=rollups/drifted differs="count 6 → 7"`, "orphaned: ", "missing: ", "--repair repairs them"}},
		{[]string{"audit", "--grace", "1ms"},
			"3 counters of 5 not right (drift 1, missing 1, orphaned 1).\nbilled 27 reads: $0.0000 at list price in us-central1\n", 1,
			[]string{"\nrollups/drifted: drift: no event of a change came in time; ", "; differs: count 6 → 7"}},
		{[]string{"audit", "--grace", "0", "--json", "--repair", "--routes", routes},
			`{"counters":6,"rolled_up":4,"unchanged":1,"removed":1,"differing":0,"paced":0,"failed":0,"unkept":0,"drift":0,"lapsed":0,"late":0,"missing":2,"orphaned":1,"rerouted":0,"outdated":0,"malformed":1,"complete":true,` +
				`"overlapped":false,"cursor":"at the beginning","dry_run":false,"billed":{"reads":36,"writes":4,"deletes":1},"dollars":T,"seconds":T}` + "\n", 0, nil},
		{[]string{"audit", "--json", "--routes", routes},
			`{"counters":5,"rolled_up":0,"unchanged":5,"removed":0,"differing":0,"paced":0,"failed":0,"unkept":0,"drift":0,"lapsed":0,"late":0,"missing":0,"orphaned":0,"rerouted":0,"outdated":0,"malformed":1,"complete":true,` +
				`"overlapped":false,"cursor":"at the beginning","dry_run":true,"billed":{"reads":24,"writes":0,"deletes":0},"dollars":T,"seconds":T}` + "\n", 0, nil},
		{[]string{"audit", "--repair", "--routes", "posts/{post}/likes/{user} -> posts/{post} : count() where at > now - 24h as trending : existing"}, "", 1,
			[]string{"nothing was changed: TALLY_ROUTES: route ", "a total with a window needs a queue (TALLY_QUEUE)"}},
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

// What a removed route left in the app's documents goes by --prune: its total while another route
// has the template, and tally too when the last one went. The rest stays, and so do the documents.
func TestAuditRemovesRoutes(t *testing.T) {
	const hearts = "posts/{post}/hearts/{user} -> posts/{post} : count() as hearts : existing"
	const likes = "posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing"
	parsed(t, "posts/{post}/likes/{user} -> posts/{post} : count() as hearts, count() as likes : existing") // while a total is renamed
	c := newConsole(t)
	t.Setenv("TALLY_ROUTES", hearts+"; "+likes+"; pages/{page}/shards/{shard} -> page_totals/{page} : views")
	for path, fields := range map[string]map[string]any{
		"posts/7": {"title": "x"}, "posts/8": {}, "posts/9": {"title": "y", "hearts": "the app's"},
		"posts/7/hearts/ann": {}, "posts/7/likes/ann": {}, "posts/8/hearts/ann": {}, "pages/1/shards/0": {"views": 3},
	} {
		c.set(path, fields)
	}
	want := func(path string, want map[string]any) {
		t.Helper()
		doc, err := c.client.Doc(path).Get(t.Context())
		got := doc.Data()
		delete(got, document.TallyField)
		if d := cmp.Diff(want, got); d != "" || err != nil && status.Code(err) != codes.NotFound {
			t.Errorf("%s: %v (-want +got):\n%s", path, err, d)
		}
	}
	c.tell([]step{{args: "audit --repair --grace 0 --json | .rolled_up", want: "3"}})
	c.set("posts/9", map[string]any{"title": "y", "hearts": "the app's"}) // without tally, so not Tally's
	want("posts/7", map[string]any{"title": "x", "hearts": int64(1), "likes": int64(1)})

	// Another route has the template.
	t.Setenv("TALLY_ROUTES", likes)
	if status, _, logs := c.run("audit", "--repair", "--grace", "0", "--removed", hearts); status != 1 || !strings.Contains(logs, "--removed is for --prune") {
		t.Errorf("status %d: %s", status, logs)
	}
	if status, _, logs := c.run("audit", "--prune", "--removed", hearts); status != 1 || !strings.Contains(logs, "--removed: posts/{post} belongs to a running route, "+likes) {
		t.Errorf("status %d: %s", status, logs)
	}
	for _, post := range []string{"7", "8"} {
		c.rollUpBy(likes, "posts/"+post+"/likes/ann") // as the functions do, by their new routes
	}
	c.tell([]step{{args: "audit --repair --prune --grace 0 --json | .outdated", want: "2"}})
	want("posts/7", map[string]any{"title": "x", "likes": int64(1)})
	want("posts/8", map[string]any{"likes": int64(0)})

	// The last one goes, and that of roll-ups of Tally's own.
	t.Setenv("TALLY_ROUTES", route.Default)
	c.set("posts/7", map[string]any{document.TallyField: map[string]any{"former": []any{"hearts", "likes"}}, "hearts": 4})
	kept := document.Tally{AsOf: time.Now(), Totals: []string{"likes"}, Before: map[string]value.Value{"likes": value.Int(40)}}
	c.set("posts/5", map[string]any{"likes": 3, document.TallyField: kept.Encode()})
	removed := []string{"audit", "--grace", "0", "--prune", "--json", "--removed", likes + "; pages/{page}/shards/{shard} -> page_totals/{page} : views"}
	many := c.client.BulkWriter(t.Context()) // more than a page, with documents of others among them
	for i := range 310 /* more than it reads at once */ {
		fields := map[string]any{"title": i}
		if i%10 == 0 {
			fields[document.TallyField] = document.Tally{AsOf: time.Now(), Totals: []string{"likes"}}.Encode()
		}
		if _, err := many.Set(c.client.Doc(fmt.Sprintf("posts/many-%d", i)), fields); err != nil {
			t.Fatal(err)
		}
	}
	many.End()
	if status, out, logs := c.run(removed...); status != 1 || at(t, []byte(out), ".outdated") != "35" || at(t, []byte(out), ".differing") != "35" {
		t.Errorf("status %d: %s%s", status, out, logs)
	}
	want("posts/8", map[string]any{"likes": int64(0)})
	for _, times := range []string{"35", "0"} {
		if status, out, logs := c.run(append(removed, "--repair")...); status != 0 || at(t, []byte(out), ".removed") != times {
			t.Errorf("status %d, want %s removed: %s%s", status, times, out, logs)
		}
	}
	want("posts/5", map[string]any{"likes": int64(40)}) // what it was before there were routes
	want("posts/7", map[string]any{"title": "x"})
	want("posts/8", map[string]any{})
	want("posts/9", map[string]any{"title": "y", "hearts": "the app's"})
	want("page_totals/1", nil)
	want("pages/1/shards/0", map[string]any{"views": int64(3)})
}

// What somebody else wrote where totals belong has a row each, with an example.
func TestAuditOfOthersTotals(t *testing.T) {
	t.Setenv("TALLY_ROUTES", "posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing")
	c := newConsole(t)
	c.set("posts/7", map[string]any{"likes": []string{"ann"}})
	c.set("posts/7/likes/ann", map[string]any{})
	c.set("posts/8", map[string]any{"likes": 1234})
	c.set("posts/9", map[string]any{"likes": 0})
	for _, args := range []string{"audit", "audit --verbose"} {
		status, out, logs := c.run(strings.Fields(args)...)
		for _, want := range []string{" (missing 1, unwritten 1); 1 counter without some of the totals, whose fields hold values of the app's.\n", "unwritten     1  such as posts/8: likes is 1234, which no roll-up wrote\n",
			"foreign kind  1  such as posts/7: likes is an array; give the total another name by \"as\", or clear the field\n"} {
			if status != 1 || !strings.Contains(out, want) {
				t.Errorf("tally %s: status %d, no %q in\n%s%s", args, status, want, out, logs)
			}
		}
	}
	c.tell([]step{
		{args: "audit --json | .unwritten", want: "1", status: 1},
		{args: "audit --json | .foreign_kind", want: "1", status: 1},
		{args: "audit --json | .unwritten_example", want: `"posts/8: likes is 1234"`, status: 1},
		{args: "audit --json | .foreign_kind_example", want: `"posts/7: likes is an array"`, status: 1},
	})
}

// A document without room for its totals looks like a new counter until somebody tries to write it.
// An audit that writes nothing says both, and one that repairs tells which it is.
func TestAuditOfFullDocument(t *testing.T) {
	t.Setenv("TALLY_ROUTES", "posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing")
	c := newConsole(t)
	const most = 1 << 20 // bytes of a document: https://firebase.google.com/docs/firestore/quotas#collections_documents_and_fields
	c.set("posts/full", map[string]any{"text": strings.Repeat("x", most-100)})
	c.set("posts/full/likes/ann", map[string]any{})

	status, out, logs := c.run("audit", "--grace", "0", "--verbose")
	if status != 1 || !strings.Contains(out, "\nmissing    1  new, or a document without room for totals: --repair tells\n") || !strings.Contains(out, "\nunkept     0\n") {
		t.Errorf("status %d: %s%s", status, out, logs)
	}
	status, out, logs = c.run("audit", "--grace", "0", "--repair", "--verbose")
	if status != 1 || !strings.HasPrefix(out, "1 counter unkept: not rolled up until someone fixes the cause.\n") || !strings.Contains(out, "\nmissing    0\n") || !strings.Contains(out, "\nunkept     1\n") || !strings.Contains(logs, "counter=posts/full") {
		t.Errorf("--repair: status %d: %s%s", status, out, logs)
	}

	c.set("posts/full", map[string]any{"text": "short"})
	status, out, logs = c.run("audit", "--grace", "0", "--repair")
	if status != 0 || !strings.HasPrefix(out, "The only counter is right; brought up to date or removed: 1 (missing 1).\nbilled ") {
		t.Errorf("with room again: status %d: %s%s", status, out, logs)
	}
}

// Assumed routes may differ from the deployed ones. By the default route, a counter of another
// route has a roll-up and no shards, and a repair would set its total to 0.
func TestAuditAssumesRoutes(t *testing.T) {
	const r = "pages/{page}/shards/{shard} -> rollups/{page} : count"
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
	status, _, stderr := repair("--routes", r)
	if status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	first(stderr, "routes, by --routes: "+r)
	wantTotal(7)

	// Named, but not those that made the roll-up.
	status, stdout, stderr := repair("--routes", route.Default)
	if status != 1 || !strings.HasPrefix(stdout, "1 counter of 1 left alone.\n") || !strings.Contains(stderr, "left alone") {
		t.Errorf("other routes: status %d, %s%s; want one that differs, and is left alone", status, stdout, stderr)
	}
	wantTotal(7)

	t.Setenv("TALLY_ROUTES", r)
	c.set("pages/p/shards/0", map[string]any{"count": 8})
	if status, _, stderr = repair(); status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	first(stderr, "routes, by TALLY_ROUTES: "+r)
	wantTotal(8)
}

// References to another database, as a clone or an import leaves them, make no event, and no total
// has their documents. tally audit counts them, in each collection of a route, and names one.
func TestAuditCountsForeignReferences(t *testing.T) {
	const comments = "comments/{comment} by ref(author) -> users/{author} : count() as comments : existing"
	const messages = "rooms/{room}/messages/{message} by ref(to) as user -> rooms/{room}/members/{user} : count() as messages : existing"
	t.Setenv("TALLY_ROUTES", comments+"\n"+messages)
	c := newConsole(t)
	own, _, _ := strings.Cut(c.client.Doc("users/ann").Path, "/users/")
	refer := func(path, field, to string) {
		c.set(path, map[string]any{field: &firestore.DocumentRef{Path: to, ID: "ann"}})
	}
	for i, database := range []string{
		"projects/a/databases/(default)/documents", "projects/zz/databases/(default)/documents",
		strings.Replace(own, "(default)", "restored", 1), own,
	} {
		refer(fmt.Sprintf("comments/%d", i), "author", database+"/users/ann")
		refer(fmt.Sprintf("rooms/%d/messages/1", i), "to", fmt.Sprintf("%s/rooms/%d/members/ann", database, i))
	}
	refer("comments/people", "author", own+"/people/ann") // of this database, and of no counter
	refer("archive/1/messages/1", "to", "projects/a/databases/(default)/documents/rooms/1/members/ann")
	c.set("comments/text", map[string]any{"author": "ann"})

	wantForeign(t, c,
		"left out: 3 documents of "+comments+", such as comments/0, because author refers to a document of another database, as after a clone or an import; let your server write the reference again\n",
		"left out: 3 documents of "+messages+", such as rooms/0/messages/1, because to refers to a document of another database",
	)
	status, out, logs := c.run("audit", "--json")
	if want := `"documents":3,"example":"rooms/0/messages/1"}],`; status != 0 || !strings.Contains(out, want) {
		t.Errorf("status %d: %s%s; want %s", status, out, logs, want)
	}
}

// wantForeign checks that an audit counts six references to other databases, and what it says of
// them.
func wantForeign(t *testing.T, c *console, lines ...string) {
	t.Helper()
	status, out, logs := c.run("audit", "--verbose")
	if status != 0 || !strings.Contains(out, "\nforeign    6\n") {
		t.Errorf("status %d: %s%s", status, out, logs)
	}
	for _, want := range lines {
		if !strings.Contains(logs, want) {
			t.Errorf("got %s; want %s", logs, want)
		}
	}
}

// So are those of routes across parents, at any depth.
func TestAuditCountsForeignReferencesAcross(t *testing.T) {
	const reviews = "posts/{post}/reviews/{review} by ref(author) -> users/{author} : count() as reviews : existing"
	const sales = "shops/{shop}/days/{day}/sales/{sale} by ref(buyer) -> shops/{shop}/buyers/{buyer} : count() as sales : existing"
	t.Setenv("TALLY_ROUTES", reviews+"\n"+sales)
	c := newConsole(t)
	own, _, _ := strings.Cut(c.client.Doc("users/ann").Path, "/users/")
	for _, foreign := range []bool{true, false} {
		to := func(path string) *firestore.DocumentRef {
			in := own
			if foreign {
				in = "projects/zz/databases/(default)/documents"
			}
			return &firestore.DocumentRef{Path: in + "/" + path, ID: "ann"}
		}
		for _, path := range []string{"posts/1/reviews/a", "posts/2/reviews/a", "posts/2/reviews/a/reviews/b", "pages/1/reviews/a"} {
			c.set(fmt.Sprint(path, foreign), map[string]any{"author": to("users/ann")})
		}
		for _, path := range []string{"shops/1/days/1/sales/a", "shops/1/days/2/x/y/sales/a", "shops/2/days/1/sales/a", "shops/2/nights/1/sales/a"} {
			c.set(fmt.Sprint(path, foreign), map[string]any{"buyer": to("shops/1/buyers/ann")})
		}
	}

	wantForeign(t, c,
		"left out: 3 documents of "+reviews+", such as posts/1/reviews/atrue, because author refers to a document of another database",
		"left out: 3 documents of "+sales+", such as shops/1/days/1/sales/atrue, because buyer refers to a document of another database",
	)
}
