//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/emulator/emulatortest"
	"github.com/firestore-tally/tally/internal/firestorestore"
	"github.com/firestore-tally/tally/rollup"
	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A console runs commands on a project of its own.
type console struct {
	t       testing.TB
	project string
	client  *firestore.Client
}

func newConsole(t testing.TB) *console {
	t.Helper()
	project := emulatortest.Project(t) // starts the emulator, and names it in the environment
	return &console{t, project, emulatortest.ClientDatabase(t, project, firestore.DefaultDatabaseID)}
}

func (c *console) run(args ...string) (status int, stdout, stderr string) {
	var out, errors bytes.Buffer
	status = run(c.t.Context(), append(args, "--project", c.project), &out, &errors)
	return status, out.String(), errors.String()
}

// set writes a document.
func (c *console) set(path string, fields map[string]any) {
	c.t.Helper()
	if _, err := c.client.Doc(path).Set(c.t.Context(), fields, firestore.MergeAll); err != nil {
		c.t.Fatal(err)
	}
}

// rollUp has the engine roll up the counter of a shard.
func (c *console) rollUp(shard string) {
	c.t.Helper()
	logger := slog.New(slog.DiscardHandler)
	store, err := firestorestore.Open(c.t.Context(), emulatortest.Addr(), c.project, firestore.DefaultDatabaseID, logger)
	if err != nil {
		c.t.Fatal(err)
	}
	defer store.Close()
	coalescer := rollup.NewCoalescer(store, rollup.Options{Cadence: time.Millisecond, Timeout: time.Minute, Logger: logger})
	if _, err := coalescer.Changed(c.t.Context(), c.counter(shard), rollup.Event{ID: "event"}); err != nil {
		c.t.Fatal(err)
	}
}

// oldRollUp writes the roll-up of a shard's counter as it was rolled up hours ago.
func (c *console) oldRollUp(shard string, total, numShards int64) {
	c.t.Helper()
	at := time.Now().Add(-3 * time.Hour)
	counter := c.counter(shard)
	tally := document.Tally{AsOf: at, NumShards: numShards, PacedUntil: at, Routes: counter.Template.Hash(), Totals: []string{"count"}}
	c.set(counter.RollUp, map[string]any{"count": total, document.TallyField: tally.Encode()})
}

// someRoutes are routes of every kind, each template under a root of its own.
const someRoutes = `counters/{counter}/shards/{shard} -> rollups/{counter} : count
posts/{post}/counters/{name}/shards/{shard} -> posts/{post}/rollups/{name} : count
posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing
posts/{post}/views/{shard} -> posts/{post} : n as views, unique : existing
shops/{shop}/ratings/{user} -> shop_totals/{shop} : count() as ratings, stars
pages/{page}/_counter_shards_/{shard} -> page_totals/{page} : visits
shards/{shard} -> site/totals : Cnt`

// counter returns the counter of a shard.
func (c *console) counter(shard string) rollup.Counter {
	c.t.Helper()
	routes, err := rollup.ParseRoutes(someRoutes)
	if err != nil {
		c.t.Fatal(err)
	}
	counter, _, ok := routes.Match(shard)
	if !ok {
		c.t.Fatalf("no route for %s", shard)
	}
	return counter
}

// times are what differs from run to run.
var times = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z|[0-9.]+m?s old|"age_ms":[0-9.]+`)

// A counter's life, as the commands tell it.
func TestCounters(t *testing.T) {
	t.Setenv("TALLY_ROUTES", rollup.DefaultRoute)
	c := newConsole(t)
	for i := range 3 {
		c.set(fmt.Sprintf("posts/7/likes/%d", i), map[string]any{})
	}
	c.set("posts/7", map[string]any{"was": 1<<53 + 1})
	c.tell([]step{
		{args: "create likes --num-shards 3", want: "counters/likes  3 shards\n"},
		{args: "create likes --num-shards 3 --json", want: `{"counter":"counters/likes","num_shards":3}` + "\n"},
		{args: "increment likes --by 5", want: "counters/likes  5  added 5  committed T\n"},
		{args: "increment counters/likes --by -2 --json", want: `{"applied":true,"by":-2,"committed":"T","counter":"counters/likes","total":3}` + "\n"},
		{args: "increment likes --once order-1", want: "counters/likes  4  added 1  committed T\n"},
		{args: "increment likes --once order-1", want: "counters/likes  4  added 1  committed T  before: the token was known\n"},
		{args: "increment likes --once order-1 --json", want: `{"applied":false,"by":1,"committed":"T","counter":"counters/likes","total":4}` + "\n"},
		{args: "get likes", want: "counters/likes  4\nroll-up         none; do Tally's functions run?\n"},
		{args: "get likes --json", want: `{"counter":"counters/likes","frozen":false,"malformed":0,"rollup":null,"totals":{"count":4}}` + "\n"},
		{args: "resize likes 8", want: "counters/likes  8 shards  was 3\n"},
		{args: "resize likes 1 --json", want: `{"counter":"counters/likes","num_shards":1,"was":8}` + "\n"},
		{args: "get likes", want: "counters/likes  4\nroll-up         4  1 shards  as of T  T\n", before: func() { c.rollUp("counters/likes/shards/0") }},
		{args: "get likes --json", want: `{"counter":"counters/likes","frozen":false,"malformed":0,"rollup":{"totals":{"count":4},"num_shards":1,"as_of":"T",T},"totals":{"count":4}}` + "\n"},
		{args: "set likes 9007199254740993 --yes", want: "counters/likes  9007199254740993  was 4  as of T\n"},
		{args: "import likes --check --document posts/7 --from was", want: "counters/likes  9007199254740993\nposts/7 was     9007199254740993\nequal           as of T\n"},
		{args: "set likes 0 --yes --json", want: `{"as_of":"T","counter":"counters/likes","total":0,"was":9007199254740993}` + "\n"},
		{args: "import likes --check --documents posts/7/likes --json", want: `{"as_of":"T","counter":"counters/likes","equal":false,"source":3,"total":0}` + "\n", status: 1},
		{args: "get likes --json | .totals", want: `{"count":0}`},
		{args: "import likes --documents posts/7/likes", want: "counters/likes  3  was 0  as of T\n"},
		{args: "import likes --check --documents posts/7/likes", want: "counters/likes  3\nposts/7/likes   3\nequal           as of T\n"},
		{args: "set likes 0 --yes", want: "counters/likes  0  was 3  as of T\n"},
		{args: "import likes --documents posts/7/likez", want: "counters/likes  0  was 0  as of T\n"},
		{args: "set likes 3", want: "counters/likes  3  was 0  as of T\n"},
		{args: "import likes --documents posts/7/likez --yes", want: "counters/likes  0  was 3  as of T\n"},
		{args: "set likes 2.5", want: "counters/likes  2.5  was 0  as of T\n"},
		{args: "increment likes --by 0.25", want: "counters/likes  2.75  added 0.25  committed T\n"},
		{args: "set likes -5 --yes", want: "counters/likes  -5  was 2.75  as of T\n"},
		{args: "create votes --once-per-user", want: "counters/votes  once per user\n"},
		{args: "create votes --once-per-user --json", want: `{"counter":"counters/votes","once_per_user":true}` + "\n"},
		{args: "set votes 0 --yes", want: "counters/votes  0  was 1  as of T\n", before: func() { c.set("counters/votes/shards/ann", map[string]any{"count": 1}) }},
		{args: "get votes", want: "counters/votes  0\nroll-up         none; do Tally's functions run?\n"},
		{args: "get odd", want: "counters/odd  7  without 2 that are no finite numbers\nroll-up       7  3 shards  as of T  T\n", before: func() {
			for id, count := range map[string]any{"0": 7, "1": math.NaN(), "2": "text"} {
				c.set("counters/odd/shards/"+id, map[string]any{"count": count})
			}
			c.rollUp("counters/odd/shards/0")
		}},
		{args: "get rerouted", want: "counters/rerouted  3\nroll-up            none of the routes' totals  1 shards  as of T  T\n", before: func() {
			c.set("counters/rerouted/shards/0", map[string]any{"count": 3})
			tally := document.Tally{AsOf: time.Now().Add(-time.Second), NumShards: 1, Totals: []string{"views"}, Former: []string{"count"}}
			c.set("rollups/rerouted", map[string]any{"count": 2, "views": 5, document.TallyField: tally.Encode()})
		}},
		{args: "delete likes --yes --routes counters/{counter}/shards/{shard}->rollups/{counter}:count", want: "counters/likes  deleted  1 shards\n"},
		{args: "get likes", want: "counters/likes  0\nroll-up         0  0 shards  as of T  T\n", before: func() { c.rollUp("counters/likes/shards/0") }},
	})
}

// Any path of a counter's is enough: its document, its shards, its roll-up.
func TestCountersByRoute(t *testing.T) {
	t.Setenv("TALLY_ROUTES", someRoutes)
	c := newConsole(t)
	c.set("posts/7", map[string]any{"title": "x", "likes": 40})
	c.set("posts/7/likes/ann", map[string]any{})
	c.set("pages/p", map[string]any{"visits": 40, "title": "x"})
	c.set("pages/p/_counter_shards_/9f1c", map[string]any{"visits": 2})
	c.set("shops/s/ratings/ann", map[string]any{"stars": 5})
	c.set("shops/s/ratings/bob", map[string]any{"stars": 2.5})
	c.tell([]step{
		{args: "increment counters/a --by 2", want: "counters/a  2  added 2  committed T\n", before: func() { c.set("counters/a", map[string]any{}) }},
		{args: "increment counters/a/shards", want: "counters/a  3  added 1  committed T\n"},
		{args: "increment counters/a/shards/0", want: "counters/a  4  added 1  committed T\n"},
		{args: "increment rollups/a", want: "counters/a  5  added 1  committed T\n"},
		{args: "get rollups/a", want: "counters/a  5\nroll-up     none; do Tally's functions run?\n"},
		{args: "get likes --routes posts/{post}/counters/{name}/shards/{shard}->posts/{post}/rollups/{name}:count", want: "", status: 1},
		{args: "set 7/likes 3 --routes posts/{post}/counters/{name}/shards/{shard}->posts/{post}/rollups/{name}:count", want: "posts/7/counters/likes  3  was 0  as of T\n",
			before: func() { c.set("posts/7/counters/likes", map[string]any{}) }},
		{args: "get posts/7/rollups/likes", want: "posts/7/counters/likes  3\nroll-up                 none; do Tally's functions run?\n"},

		// Several sources in a document of the app's own.
		{args: "create posts/7/views --num-shards 2", want: "posts/7  2 shards\n"},
		{args: "increment posts/7/views --total views --by 3", want: "posts/7  3  added 3  committed T\n", before: func() {
			shard, err := c.client.Doc("posts/7/views/1").Get(t.Context())
			if d := cmp.Diff(map[string]any{"n": int64(0), "unique": int64(0)}, shard.Data()); err != nil || d != "" {
				t.Errorf("a new shard: %v (-want +got):\n%s", err, d)
			}
		}},
		{args: "increment posts/7 --total unique --by 2", want: "posts/7  2  added 2  committed T\n"},
		{args: "get posts/7", want: "posts/7  likes 1, unique 2, views 3\nroll-up  none; do Tally's functions run?\n"},
		{args: "get posts/7/likes/ann", want: "posts/7  likes 1, unique 2, views 3\nroll-up  likes 1, unique 2, views 3  3 shards  as of T  T\n",
			before: func() { c.rollUp("posts/7/likes/ann") }},
		{args: "get posts/7 --json | .rollup.totals", want: `{"likes":1,"unique":2,"views":3}`},
		{args: "resize posts/7/views/0 1", want: "posts/7  1 shards  was 2\n"},
		{args: "delete posts/7/views --yes", want: "posts/7  deleted  1 shards\n"},
		{args: "get posts/7 --json | .totals", want: `{"likes":1,"unique":0,"views":0}`},

		// Sources below different documents.
		{args: "get places/a --routes cafes/{cafe}/in/{id}->places/{cafe}:n;bars/{bar}/in/{id}->places/{bar}:m", want: "places/a  m 0, n 1\nroll-up   none; do Tally's functions run?\n",
			before: func() { c.set("cafes/a/in/0", map[string]any{"n": 1}) }},
		{args: "increment bars/a --routes cafes/{cafe}/in/{id}->places/{cafe}:n;bars/{bar}/in/{id}->places/{bar}:m", want: "bars/a  1  added 1  committed T\n",
			before: func() { c.set("bars/a", map[string]any{}) }},

		// A roll-up elsewhere, and a total beside count().
		{args: "get shop_totals/s", want: "shops/s  ratings 2, stars 7.5\nroll-up  none; do Tally's functions run?\n"},

		// Shards with random ids, and a total that something else has counted.
		{args: "carry page_totals/p --document pages/p --from visits", want: "pages/p  added 40  carried in all 40\n"},
		{args: "carry pages/p --document pages/p --from visits --json", want: `{"added":0,"amount":40,"counter":"pages/p"}` + "\n"},
		{args: "resize pages/p 2", want: "pages/p  2 shards  was 10\n"},
		{args: "get pages/p/_counter_shards_/9f1c", want: "pages/p  42\nroll-up  none; do Tally's functions run?\n"},
		{args: "resize pages/p 2 --renumber", want: "pages/p  2 shards  was 2\n"},
		{args: "import pages/p --check --document pages/p --from visits", want: "pages/p         42\npages/p visits  40\nDIFFERENT       as of T\n", status: 1},

		// Shards at the root: no document is above them.
		{args: "create shards --num-shards 3", want: "site/totals  3 shards\n"},
		{args: "increment site/totals", want: "site/totals  1  added 1  committed T\n", before: func() {
			if _, err := c.client.Doc("site/totals").Get(t.Context()); status.Code(err) != codes.NotFound {
				t.Errorf("the roll-up: %v, want that only Tally's functions make it", err)
			}
		}},
		{args: "resize shards 1", want: "site/totals  1 shards\n"},
		{args: "get shards/0", want: "site/totals  1\nroll-up      none; do Tally's functions run?\n"},
		{args: "delete shards --yes", want: "site/totals  deleted  1 shards\n"},
	})
	if _, err := c.client.Doc("pages/p/_counter_shards_/9f1c").Get(t.Context()); status.Code(err) != codes.NotFound {
		t.Errorf("the shard with a random id: %v, want it folded", err)
	}
	for path, want := range map[string]map[string]any{
		"posts/7": {"title": "x"}, // beside what the roll-up has
		"pages/p": {"title": "x", "visits": int64(40), "num_shards": int64(2)},
	} {
		doc, err := c.client.Doc(path).Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := doc.Data()
		if path == "posts/7" {
			for _, field := range []string{"likes", "views", "unique", document.TallyField} {
				delete(got, field)
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", path, d)
		}
	}
}

// A step is a command and what it prints.
type step struct {
	args   string // after " | " a path in the JSON, all that is compared
	want   string // standard output, with T for times
	status int
	before func()
}

func (c *console) tell(steps []step) {
	c.t.Helper()
	for _, s := range steps {
		if s.before != nil {
			s.before()
		}
		args, path, part := strings.Cut(s.args, " | ")
		words := append(strings.Fields(args), "--project", c.project)
		var out, errors bytes.Buffer
		status := run(c.t.Context(), words, &out, &errors)
		got := times.ReplaceAllString(out.String(), "T")
		if part {
			got = at(c.t, out.Bytes(), path)
		}
		if diff := cmp.Diff(s.want, got); status != s.status || diff != "" {
			c.t.Errorf("tally %s: status %d, want %d; %s(-want +got):\n%s", s.args, status, s.status, &errors, diff)
		}
	}
}

// at returns what is at a path such as ".rollup.totals" of a JSON object, as JSON; "null" if nothing
// is.
func at(t testing.TB, printed []byte, path string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(printed, &v); err != nil {
		t.Fatal(err)
	}
	for _, key := range strings.Split(path, ".")[1:] {
		object, _ := v.(map[string]any)
		v = object[key]
	}
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestList(t *testing.T) {
	c := newConsole(t)
	for _, id := range []string{"b", "c", "d"} {
		c.set("counters/"+id+"/shards/0", map[string]any{"count": len(id)})
		c.rollUp("counters/" + id + "/shards/0")
	}
	c.set("counters/e/shards/0", map[string]any{"count": 1}) // no roll-up
	c.set("rollups/d", map[string]any{"count": "text"})
	c.set("posts/7/likes/ann", map[string]any{})
	c.set("posts/7", map[string]any{"likes": "text"}) // no roll-up yet
	c.set("posts/8/likes/ann", map[string]any{})
	c.set("posts/8", map[string]any{})
	c.rollUp("posts/8/likes/ann")
	c.tell([]step{
		{args: "ls --limit 2", want: "COUNTER     count  SHARDS  AS OF\ncounters/b  1      1       T\ncounters/c  1      1       T\n"},
		{args: "ls --limit 2 --json | .after", want: `"counters/c"`},
		{args: "ls --limit 1 --after counters/c", want: "COUNTER     count  SHARDS  AS OF\ncounters/d  -      1       T\n"},
		{args: "ls --limit 2 --after c --json", want: `{"after":"","counters":[{"counter":"counters/d","rollup":{"totals":{},"num_shards":1,"as_of":"T"}}]}` + "\n"},
		{args: "ls --after d", want: "no counters\n"},
		{args: "ls --after posts/7", status: 1},
	})
	if _, _, more := c.run("ls", "--limit", "2"); !strings.HasSuffix(more, "\nmore: --after counters/c\n") {
		t.Errorf("after the first page: %q", more)
	}
	if _, _, more := c.run("ls", "--limit", "3"); strings.Contains(more, "more") {
		t.Errorf("after the only page: %q", more)
	}

	t.Setenv("TALLY_ROUTES", someRoutes)
	c.tell([]step{
		{args: "ls --after rollups/c", want: "COUNTER     count  SHARDS  AS OF\ncounters/d  -      1       T\n" +
			"COUNTER     likes  unique  views  SHARDS  AS OF\nposts/7     -      -       -      -       -\nposts/8     1      0       0      1       T\n"},
		{args: "ls --limit 2 --after counters/c --json", want: `{"after":"posts/7","counters":[{"counter":"counters/d","rollup":{"totals":{},"num_shards":1,"as_of":"T"}},{"counter":"posts/7","rollup":null}]}` + "\n"},
		{args: "ls --limit 2 --after posts/7 --json", want: `{"after":"","counters":[{"counter":"posts/8","rollup":{"totals":{"likes":1,"unique":0,"views":0},"num_shards":1,"as_of":"T"}}]}` + "\n"},
	})

	// Two counters' documents are one: each is listed by its roll-up.
	t.Setenv("TALLY_ROUTES", "posts/{post}/likes/{user} -> post_likes/{post} : count(); posts/{post}/views/{shard} -> post_views/{post} : n")
	c.set("post_likes/8", map[string]any{})
	c.set("post_views/8", map[string]any{})
	c.tell([]step{
		{args: "ls --limit 1", want: "COUNTER       count  SHARDS  AS OF\npost_likes/8  -      -       -\n"},
		{args: "ls --after post_likes/8", want: "COUNTER       n  SHARDS  AS OF\npost_views/8  -  -       -\n"},
	})
}

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

billed  25 reads, 0 writes, 0 deletes: $0.0000 at list price
`, 1, []string{"drift: ", "counter=rollups/drifted rolled_up=map[count:6] shards_hold=map[count:7]", "orphaned: ", "missing: ", "--repair repairs them"}},
		{[]string{"audit", "--grace", "0", "--json", "--repair", "--routes", routes},
			`{"counters":6,"rolled_up":4,"unchanged":1,"removed":1,"differing":0,"failed":0,"drift":0,"missing":2,"orphaned":1,"rerouted":0,"outdated":0,"malformed":1,"complete":true,` +
				`"overlapped":false,"cursor":"at the beginning","dry_run":false,"billed":{"reads":30,"writes":4,"deletes":1},"dollars":T,"seconds":T}` + "\n", 0, nil},
		{[]string{"audit", "--json", "--routes", routes},
			`{"counters":5,"rolled_up":0,"unchanged":5,"removed":0,"differing":0,"failed":0,"drift":0,"missing":0,"orphaned":0,"rerouted":0,"outdated":0,"malformed":1,"complete":true,` +
				`"overlapped":false,"cursor":"at the beginning","dry_run":true,"billed":{"reads":30,"writes":0,"deletes":0},"dollars":T,"seconds":T}` + "\n", 0, nil},
		{[]string{"audit", "--routes", "x"}, "", 1, []string{`TALLY_ROUTES="x"`, "want <source pattern>"}},
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

func TestWatch(t *testing.T) {
	c := newConsole(t)
	c.set("counters/views", map[string]any{})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	reader, writer := io.Pipe()
	var logs bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"watch", "likes", "views", "--json", "--project", c.project}, writer, &logs)
		writer.Close()
	}()
	lines := json.NewDecoder(reader)
	age, seen := regexp.MustCompile(`"age_ms":[0-9.]+`), make(map[string]bool)
	await := func(want string) (line json.RawMessage) {
		t.Helper()
		for {
			line = nil
			if err := lines.Decode(&line); err != nil {
				t.Fatalf("%s was not printed: %v\n%s", want, err, &logs)
			}
			if said := age.ReplaceAllString(string(line), ""); seen[said] {
				t.Errorf("printed again: %s", line)
			} else {
				seen[said] = true
			}
			if times.ReplaceAllString(string(line), "T") == want {
				return line
			}
		}
	}
	await(`{"counter":"counters/likes","rollup":null}`)
	for n := 1; n <= 2; n++ {
		c.set("counters/likes/shards/0", map[string]any{"count": n})
		c.set("rollups/likes", map[string]any{"title": n}) // by the app
		c.rollUp("counters/likes/shards/0")
		await(fmt.Sprintf(`{"counter":"counters/likes","rollup":{"totals":{"count":%d},"num_shards":1,"as_of":"T",T}}`, n))
	}
	c.set("counters/views/shards/0", map[string]any{"count": 7})
	c.rollUp("counters/views/shards/0")
	shows(t, watchCommand(), await(`{"counter":"counters/views","rollup":{"totals":{"count":7},"num_shards":1,"as_of":"T",T}}`))
	_, out, _ := c.run("get", "views", "--json")
	shows(t, getCommand(), []byte(out))
	stop()
	go io.Copy(io.Discard, reader)
	if status := <-ended; status != 0 || !strings.Contains(logs.String(), "no such counter: counters/likes; ") {
		t.Errorf("Ctrl-C: status %d, %s", status, &logs)
	}
}

// What a user can get wrong about counters, and what the error says.
func TestCounterMistakes(t *testing.T) {
	t.Setenv("TALLY_ROUTES", rollup.DefaultRoute)
	c := newConsole(t)
	c.set("counters/likes", map[string]any{"num_shards": 3})
	c.set("counters/visitors/shards/0", map[string]any{"count": 1})
	for _, test := range []struct {
		args string
		want []string
	}{
		{"get lieks", []string{"no such counter: counters/lieks; did you mean counters/likes?"}},
		{"set Visitor 0", []string{"did you mean counters/visitors?"}},
		{"increment quite-another", []string{"no such counter: counters/quite-another; tally create makes it, tally ls lists"}},
		{"resize posts/7/counters/likes 9", []string{"no route serves posts/7/counters/likes; this one would: posts/{post}/counters/{counter}/shards/{shard} -> post_totals/{post}/counters/{counter} : count"}},
		{"get counter/likes", []string{"no route serves counter/likes; the nearest is counters/", "; did you mean counters/likes?"}},
		{"get counters/likes/shard/0", []string{"did you mean counters/likes/shards/0?"}},
		{"get counters/likes/shard", []string{"did you mean counters/likes/shards?"}},
		{"create rolups/likes", []string{"did you mean rollups/likes?"}},
		{"increment likes/shards", []string{"no route serves likes/shards"}},
		{"ls --after a/b", []string{"--after: no route serves a/b"}},
		{"get counters//likes", []string{`"counters//likes" is not a path`}},
		{"get \xff", []string{"is not a path"}},
		{"increment likes --total views", []string{"--total views: counters/likes has count"}},
		{"resize lieks 3", []string{"did you mean"}},
		{"set lieks 3", []string{"did you mean"}},
		{"import lieks --check --documents posts", []string{"did you mean"}},
		{"resize likes many", []string{`"many" is not a number of shards`}},
		{"resize likes 0", []string{"number of shards is 0"}},
		{"create likes --num-shards 4", []string{"it has 3, not 4", "tally resize"}},
		{"create likes --num-shards 3 --once-per-user", []string{"if any flags in the group", "num-shards once-per-user"}},
		{"create visitors --once-per-user", []string{"cannot become once per user", "it has the shard 0"}},
		{"increment likes --by much", []string{"--by much: want an integer"}},
		{"increment likes --by 9223372036854775808", []string{"want an integer within 64 bits"}},
		{"increment likes --by 0.5 --once x", []string{"--once takes integers"}},
		{"increment likes --once a/b", []string{`--once "a/b"`, `"a/b" cannot be the id of a document`}},
		{"increment likes --once=", []string{`--once ""`, "cannot be the id of a document"}},
		{"increment likes --once= --by 0.5", []string{"--once takes integers"}},
		{"increment likes --by NaN", []string{"--by NaN: want an integer"}},
		{"increment likes --by 1e3", []string{"--by 1e3: want an integer", "a decimal with a point"}},
		{"set likes 1e3", []string{`"1e3" is not a total`, "a decimal with a point"}},
		{"set likes lots", []string{`"lots" is not a total`}},
		{"set likes 9223372036854775807", []string{"cannot be set to 9223372036854775807"}},
		{"import likes", []string{"documents", "document"}},
		{"import likes --document posts/7", []string{"from"}},
		{"import likes --document posts --from likes", []string{`--document "posts" is not the path of a document`}},
		{"import likes --documents posts/7", []string{`--documents "posts/7" is not the path of a collection`}},
		{"import visitors --documents posts/7/likez", []string{"posts/7/likez holds no documents", "counters/visitors is 1", "--yes"}},
		{"carry likes", []string{"document"}},
		{"carry likes --document posts/7", []string{"from"}},
		{"carry likes --document posts --from likes", []string{`--document "posts" is not the path of a document`}},
		{"carry likes --document posts/7 --from likes", []string{"there is no document posts/7"}},
		{"resize lieks 3 --renumber", []string{"did you mean"}},
		{"watch posts/7/counters/likes", []string{"no route serves posts/7/counters/likes"}},
		{"ls --limit 0", []string{"--limit 0: want 1 to 300"}},
		{"get likes --timeout -1s", []string{"--timeout -1s: want 0 or more"}},
		{"get likes --shrads 3", []string{"unknown flag", "tally get --help"}},
	} {
		t.Run(test.args, func(t *testing.T) {
			status, out, errors := c.run(strings.Fields(test.args)...)
			for _, want := range test.want {
				if !strings.Contains(errors, want) {
					t.Errorf("got %q, want also %q", errors, want)
				}
			}
			if status != 1 || out != "" {
				t.Errorf("status %d, standard output %q", status, out)
			}
		})
	}
	if _, out, _ := c.run("get", "likes", "--json"); out != `{"counter":"counters/likes","frozen":false,"malformed":0,"rollup":null,"totals":{"count":0}}`+"\n" {
		t.Errorf("a mistake counted: %s", out)
	}
	if _, out, _ := c.run("get", "visitors", "--json"); out != `{"counter":"counters/visitors","frozen":false,"malformed":0,"rollup":null,"totals":{"count":1}}`+"\n" {
		t.Errorf("a mistake counted: %s", out)
	}
}

// What a path does not decide, and what no command does to documents that exist anyway.
func TestSourceMistakes(t *testing.T) {
	t.Setenv("TALLY_ROUTES", someRoutes+"\nposts/{post}/shares/{user} -> post_shares/{post} : count()")
	c := newConsole(t)
	c.set("posts/7", map[string]any{})
	c.set("posts/7/likes/ann", map[string]any{})
	c.set("shops/s/ratings/ann", map[string]any{"stars": 5})
	const likes, ratings = "likes counts documents: add or delete documents of posts/7/likes instead", "ratings counts documents: add or delete documents of shops/s/ratings instead"
	for args, want := range map[string]string{
		"increment posts/7 --total likes":                        likes,
		"increment posts/7/likes":                                likes,
		"set posts/7/likes 0":                                    likes,
		"resize posts/7/likes 3":                                 likes,
		"create posts/7/likes":                                   likes,
		"delete posts/7/likes --yes":                             likes,
		"carry posts/7/likes --document posts/7 --from likes":    likes,
		"import posts/7/likes --documents posts/7/likes":         likes,
		"import posts/7/likes --documents posts/7/likes --check": likes,
		"increment shops/s --total stars":                        ratings,
		"delete shop_totals/s":                                   ratings,
		"increment posts/7":                                      "posts/7 has several totals: name one by --total: likes, views, unique",
		"set posts/7/views 3":                                    "posts/7 has several totals: name one by --total: views, unique",
		"set posts/7/views 3 --total likes":                      "--total likes: posts/7 has views, unique",
		"resize posts/7 3":                                       "posts/7 has several sources: name one, such as posts/7/likes or posts/7/views",
		"get posts/7/shard/3":                                    "no route serves posts/7/shard/3; the nearest is posts/{post}/shares/{user} -> post_shares/{post} : count(); did you mean posts/7/shares/3?",
		"get 7":                                                  `the routes make roll-ups of several kinds, so "7" may be rollups/7 or posts/7 or shop_totals/7 or page_totals/7 or post_shares/7: name a path`,
		"get posts/999999":                                       "no such counter: posts/999999; tally ls lists",
		"get post/7":                                             "did you mean posts/7?",
		"get shops/s --routes " + strings.ReplaceAll(ambiguous, " ", ""): "shops/s has several counters: name the roll-up of one, such as shop_likes/s or shop_views/s",
	} {
		status, out, errors := c.run(strings.Fields(args)...)
		if status != 1 || out != "" || !strings.Contains(errors, want) {
			t.Errorf("tally %s: status %d, %s%s; want %s", args, status, out, errors, want)
		}
	}
	c.tell([]step{
		{args: "get posts/7 --json | .totals", want: `{"likes":1,"unique":0,"views":0}`},
		{args: "get shops/s --json | .totals", want: `{"ratings":1,"stars":5}`},
	})
}

const ambiguous = "shops/{shop}/likes/{user} -> shop_likes/{shop} : count(); shops/{shop}/views/{shard} -> shop_views/{shop} : n"

// shows checks that the path that an example of the command has jq look up is in what it printed.
func shows(t *testing.T, c *cobra.Command, printed []byte) {
	t.Helper()
	path := regexp.MustCompile(`--json \| jq ([.\w]+)`).FindStringSubmatch(c.Example)
	if path == nil {
		t.Fatalf("tally %s: no example with jq", c.Name())
	}
	if at(t, printed, path[1]) == "null" {
		t.Errorf("tally %s: the example's jq %s is not in %s", c.Name(), path[1], printed)
	}
}

// Every command on counters shows examples, which the route serves that they are for, and which role it
// needs.
func TestCounterHelp(t *testing.T) {
	for _, command := range counterCommands() {
		if !strings.Contains(command.Example, "tally "+command.Name()) || !strings.Contains(command.Long, "roles/datastore.") || command.Flags().Lookup("json") == nil {
			t.Errorf("tally %s: want examples, the role and --json", command.Name())
		}
		if !strings.Contains(command.Use, "COUNTER") {
			continue
		}
		for line := range strings.Lines(command.Example) {
			routes := rollup.DefaultRoute
			if named := regexp.MustCompile(`--routes '([^']*)'`).FindStringSubmatch(line); named != nil {
				routes = named[1]
			}
			var served target
			var err error
			if served.config.Routes, err = rollup.ParseRoutes(routes); err != nil {
				t.Errorf("%s: %v", line, err)
			}
			if named := strings.Fields(line)[2]; !strings.HasPrefix(named, "-") {
				if _, err = served.counter(named); err != nil {
					t.Errorf("%s: %v", line, err)
				}
			}
		}
	}
}

func TestNoEmulator(t *testing.T) {
	emulatortest.Addr()
	port := freePorts(t, 1)
	t.Setenv(firestorestore.EmulatorHost, fmt.Sprintf("127.0.0.1:%d", port))
	var out, logs bytes.Buffer
	if status := run(t.Context(), []string{"get", "likes"}, &out, &logs); status != 1 || !strings.Contains(logs.String(), fmt.Sprintf("FIRESTORE_EMULATOR_HOST=127.0.0.1:%d: no Firestore emulator answers there", port)) {
		t.Errorf("status %d: %s", status, &logs)
	}
}

func TestNoCredentials(t *testing.T) {
	emulatortest.Addr()
	t.Setenv(firestorestore.EmulatorHost, "")
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", t.TempDir()+"/none.json")
	for _, args := range [][]string{{"get", "likes", "--project", "demo-none"}, {"get", "likes"}} {
		var out, logs bytes.Buffer
		if status := run(t.Context(), args, &out, &logs); status != 1 || !strings.Contains(logs.String(), "gcloud auth application-default login") {
			t.Errorf("tally %v: status %d: %s", args, status, &logs)
		}
	}
}

// The time limit of a command is without progress.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		patient := target{timeout: time.Minute}
		ctx, stop := patient.patient(t.Context())
		defer stop()
		for range 3 {
			time.Sleep(59 * time.Second)
			patient.report(1, 10)
		}
		if ctx.Err() != nil {
			t.Errorf("given up while it went on: %v", context.Cause(ctx))
		}
		time.Sleep(61 * time.Second)
		if err := context.Cause(ctx); err == nil || err.Error() != "no progress for 1m0s; --timeout gives it longer" {
			t.Errorf("without progress: %v", err)
		}
	})
}

// What Firestore answers on a real project, which the emulator never does.
func TestExplain(t *testing.T) {
	target := target{project: "shop", database: "eu", role: viewer, client: &firestore.Client{}}
	for _, test := range []struct {
		err  error
		want string
	}{
		{status.Error(codes.PermissionDenied, "Missing or insufficient permissions."), "roles/datastore.viewer"},
		{status.Error(codes.NotFound, "The database eu does not exist for project shop"), "gcloud firestore databases list --project=shop"},
		{status.Error(codes.Unauthenticated, "Request had invalid authentication credentials."), "gcloud auth application-default login"},
		{errors.New("something else"), ""},
	} {
		wrapped := fmt.Errorf("shards: reading: %w", test.err)
		got := target.explain(wrapped)
		if !errors.Is(got, test.err) || !strings.Contains(got.Error(), test.want) || (test.want == "") != (got == wrapped) {
			t.Errorf("%v: got %q, want %q", test.err, got, test.want)
		}
	}
	if target.explain(nil) != nil {
		t.Error("no error became one")
	}
}
