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
	"regexp"
	"strings"
	"testing"
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
	t       *testing.T
	project string
	client  *firestore.Client
}

func newConsole(t *testing.T) *console {
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
	if _, err := c.client.Doc(path).Set(c.t.Context(), fields); err != nil {
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

// counter returns the counter of a shard.
func (c *console) counter(shard string) rollup.Counter {
	c.t.Helper()
	routes, err := rollup.ParseRoutes(rollup.DefaultRoute + "; posts/{post}/counters/{name}/shards/{shard} -> posts/{post}/rollups/{name} : count")
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
	c := newConsole(t)
	for i := range 3 {
		c.set(fmt.Sprintf("posts/7/likes/%d", i), map[string]any{})
	}
	c.set("posts/7", map[string]any{"likes": 1<<53 + 1})
	for _, step := range []struct {
		args   string
		want   string // standard output, with T for times
		status int
		before func()
	}{
		{args: "create likes --num-shards 3", want: "counters/likes  3 shards\n"},
		{args: "create likes --num-shards 3 --json", want: `{"counter":"counters/likes","num_shards":3}` + "\n"},
		{args: "increment likes --by 5", want: "counters/likes  added 5  committed T\n"},
		{args: "increment counters/likes --by -2 --json", want: `{"applied":true,"by":-2,"committed":"T","counter":"counters/likes"}` + "\n"},
		{args: "increment likes --once order-1", want: "counters/likes  added 1  committed T\n"},
		{args: "increment likes --once order-1", want: "counters/likes  added 1  committed T  before: the token was known\n"},
		{args: "increment likes --once order-1 --json", want: `{"applied":false,"by":1,"committed":"T","counter":"counters/likes"}` + "\n"},
		{args: "get likes", want: "counters/likes  4\nroll-up         none; do Tally's functions run?\n"},
		{args: "get likes --json", want: `{"counter":"counters/likes","rollup":null,"total":4}` + "\n"},
		{args: "resize likes 8", want: "counters/likes  8 shards\n"},
		{args: "resize likes 1 --json", want: `{"counter":"counters/likes","num_shards":1}` + "\n"},
		{args: "get likes", want: "counters/likes  4\nroll-up         4  1 shards  as of T  T\n", before: func() { c.rollUp("counters/likes/shards/0") }},
		{args: "get likes --json", want: `{"counter":"counters/likes","rollup":{"total":4,"num_shards":1,"as_of":"T",T},"total":4}` + "\n"},
		{args: "set likes 9007199254740993", want: "counters/likes  9007199254740993  was 4  as of T\n"},
		{args: "verify likes --document posts/7 --from likes", want: "counters/likes  9007199254740993\nposts/7 likes   9007199254740993\nequal           as of T\n"},
		{args: "reset likes --json", want: `{"as_of":"T","counter":"counters/likes","total":0,"was":9007199254740993}` + "\n"},
		{args: "verify likes --documents posts/7/likes --json", want: `{"as_of":"T","counter":"counters/likes","equal":false,"source":3,"total":0}` + "\n", status: 1},
		{args: "import likes --documents posts/7/likes", want: "counters/likes  3  was 0  as of T\n"},
		{args: "set likes 0", want: "counters/likes  0  was 3  as of T\n"},
		{args: "import likes --documents posts/7/likez", want: "counters/likes  0  was 0  as of T\n"},
		{args: "set likes 3", want: "counters/likes  3  was 0  as of T\n"},
		{args: "import likes --documents posts/7/likez --yes", want: "counters/likes  0  was 3  as of T\n"},
		{args: "import likes --documents posts/7/likes", want: "counters/likes  3  was 0  as of T\n"},
		{args: "import posts/7/counters/likes --document posts/7 --from likes --json",
			want: `{"as_of":"T","counter":"posts/7/counters/likes","total":9007199254740993,"was":0}` + "\n"},
		{args: "get posts/7/counters/likes", want: "posts/7/counters/likes  9007199254740993\nroll-up                 unknown; --rollup names it\n"},
		{args: "get posts/7/counters/likes --rollup posts/7/rollups/{counter}",
			want:   "posts/7/counters/likes  9007199254740993\nroll-up                 9007199254740993  1 shards  as of T  T\n",
			before: func() { c.rollUp("posts/7/counters/likes/shards/0") }},
		{args: "set likes 2.5", want: "counters/likes  2.5  was 3  as of T\n"},
		{args: "increment likes --by 0.25", want: "counters/likes  added 0.25  committed T\n"},
		{args: "set likes -- -5", want: "counters/likes  -5  was 2.75  as of T\n"},
		{args: "increment app --shards-in sums/app/parts --field Cnt", want: "counters/app  added 1  committed T\n",
			before: func() { c.set("sums/app/parts/0", map[string]any{"Cnt": 1}) }},
		{args: "get app --shards-in sums/app/parts --field Cnt", want: "counters/app  2\nroll-up       unknown; --rollup names it\n"},
		{args: "create votes --once-per-user", want: "counters/votes  once per user\n"},
		{args: "create votes --once-per-user --json", want: `{"counter":"counters/votes","once_per_user":true}` + "\n"},
		{args: "set votes 0", want: "counters/votes  0  was 1  as of T\n", before: func() {
			c.set("counters/votes/shards/ann", map[string]any{"count": 1})
		}},
		{args: "get votes", want: "counters/votes  0\nroll-up         none; do Tally's functions run?\n"},
		{args: "carry pages/p --shards-in pages/p/parts --field visits --document pages/p --from visits", want: "pages/p  added 40  carried in all 40\n",
			before: func() {
				c.set("pages/p", map[string]any{"visits": 40})
				c.set("pages/p/parts/9f1c", map[string]any{"visits": 2})
			}},
		{args: "carry pages/p --shards-in pages/p/parts --field visits --document pages/p --from visits --json", want: `{"added":0,"amount":40,"counter":"pages/p"}` + "\n"},
		{args: "renumber pages/p 2 --shards-in pages/p/parts --field visits", want: "pages/p  2 shards\n"},
		{args: "get pages/p --shards-in pages/p/parts --field visits", want: "pages/p  42\nroll-up  unknown; --rollup names it\n"},
		{args: "verify pages/p --shards-in pages/p/parts --field visits --document pages/p --from visits",
			want: "pages/p         42\npages/p visits  40\nDIFFERENT       as of T\n", status: 1},
		{args: "delete likes", want: "counters/likes  deleted\n"},
		{args: "get likes", want: "counters/likes  0\nroll-up         0  0 shards: no counter  as of T  T\n", before: func() { c.rollUp("counters/likes/shards/0") }},
	} {
		if step.before != nil {
			step.before()
		}
		words := strings.Fields(step.args)
		if i := strings.Index(step.args, " -- "); i >= 0 { // flags go before
			words = append(append(strings.Fields(step.args[:i]), "--project", c.project), strings.Fields(step.args[i:])...)
			var out, errors bytes.Buffer
			if got := run(t.Context(), words, &out, &errors); got != step.status || times.ReplaceAllString(out.String(), "T") != step.want {
				t.Errorf("tally %s: status %d, %s%s; want %s", step.args, got, &out, &errors, step.want)
			}
			continue
		}
		status, out, errors := c.run(words...)
		if diff := cmp.Diff(step.want, times.ReplaceAllString(out, "T")); status != step.status || diff != "" {
			t.Errorf("tally %s: status %d, want %d; %s(-want +got):\n%s", step.args, status, step.status, errors, diff)
		}
	}
}

func TestList(t *testing.T) {
	c := newConsole(t)
	c.set("counters/a", map[string]any{"num_shards": 1}) // no shards, no roll-up
	for _, id := range []string{"b", "c", "d"} {         // no documents of their own
		c.set("counters/"+id+"/shards/0", map[string]any{"count": len(id)})
		c.rollUp("counters/" + id + "/shards/0")
	}
	c.set("rollups/d", map[string]any{"count": "text"})
	status, out, more := c.run("ls", "--limit", "3")
	_, page, paged := strings.Cut(strings.TrimSpace(more), "more: --page ")
	const first = "COUNTER     TOTAL  SHARDS  AS OF\ncounters/a  -      -       -\ncounters/b  1      1       T\ncounters/c  1      1       T\n"
	if got := times.ReplaceAllString(out, "T"); status != 0 || got != first || !paged {
		t.Fatalf("first page, status %d: %s%s", status, out, more)
	}
	var got struct {
		Counters []listed `json:"counters"`
		Next     *string  `json:"next_page"`
	}
	status, out, more = c.run("ls", "--limit", "3", "--page", page, "--json")
	if err := json.Unmarshal([]byte(out), &got); err != nil || status != 0 || more != "" {
		t.Fatalf("second page, status %d, %v: %s%s", status, err, out, more)
	}
	if len(got.Counters) != 1 || got.Counters[0].Counter != "counters/d" || got.Counters[0].RollUp != nil || got.Next == nil || *got.Next != "" {
		t.Errorf("second page: %s", out)
	}
	if status, out, logs := c.run("ls", "--collection", "posts/7/counters", "--rollup", "posts/7/rollups/{counter}"); status != 0 || out != "COUNTER  TOTAL  SHARDS  AS OF\n" {
		t.Errorf("no counters, status %d: %q%s", status, out, logs)
	}
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
malformed  0

billed  25 reads, 0 writes, 0 deletes: $0.0000 at list price
`, 1, []string{"drift: ", "counter=rollups/drifted rolled_up=map[count:6] shards_hold=map[count:7]", "orphaned: ", "missing: ", "--repair repairs them"}},
		{[]string{"audit", "--grace", "0", "--json", "--repair", "--routes", routes},
			`{"counters":6,"rolled_up":4,"unchanged":1,"removed":1,"differing":0,"failed":0,"drift":0,"missing":2,"orphaned":1,"rerouted":0,"malformed":1,"complete":true,` +
				`"overlapped":false,"cursor":"at the beginning","dry_run":false,"billed":{"reads":30,"writes":4,"deletes":1},"dollars":T,"seconds":T}` + "\n", 0, nil},
		{[]string{"audit", "--json", "--routes", routes},
			`{"counters":5,"rolled_up":0,"unchanged":5,"removed":0,"differing":0,"failed":0,"drift":0,"missing":0,"orphaned":0,"rerouted":0,"malformed":1,"complete":true,` +
				`"overlapped":false,"cursor":"at the beginning","dry_run":true,"billed":{"reads":30,"writes":0,"deletes":0},"dollars":T,"seconds":T}` + "\n", 0, nil},
		{[]string{"audit", "--routes", "x"}, "", 1, []string{`TALLY_ROUTES="x"`, "want <shard path pattern>"}},
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

	status, stdout, stderr := repair()
	if status != 1 || stdout != "" || !strings.Contains(stderr, "--repair") || !strings.Contains(stderr, "--routes '") || !strings.Contains(stderr, "TALLY_ROUTES") {
		t.Errorf("assumed routes: status %d, %s%s; want it refused, and how to name the routes", status, stdout, stderr)
	}
	first(stderr, "routes, assumed: the default route "+rollup.DefaultRoute)
	wantTotal(7)

	status, stdout, stderr = c.run("audit", "--grace", "0") // compares
	if status != 1 || !strings.Contains(stdout, "rerouted   1\n") {
		t.Errorf("a comparison: status %d, %s%s; want one rerouted", status, stdout, stderr)
	}
	first(stderr, "routes, assumed: the default route "+rollup.DefaultRoute)
	wantTotal(7)

	// Named, but not those that made the roll-up.
	status, stdout, stderr = repair("--routes", rollup.DefaultRoute)
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
	await := func(want string) (line json.RawMessage) {
		t.Helper()
		for {
			line = nil
			if err := lines.Decode(&line); err != nil {
				t.Fatalf("%s was not printed: %v\n%s", want, err, &logs)
			}
			if times.ReplaceAllString(string(line), "T") == want {
				return line
			}
		}
	}
	await(`{"counter":"counters/likes","rollup":null}`)
	for n := 1; n <= 2; n++ {
		c.set("counters/likes/shards/0", map[string]any{"count": n})
		c.rollUp("counters/likes/shards/0")
		await(fmt.Sprintf(`{"counter":"counters/likes","rollup":{"total":%d,"num_shards":1,"as_of":"T",T}}`, n))
	}
	c.set("counters/views/shards/0", map[string]any{"count": 7})
	c.rollUp("counters/views/shards/0")
	shows(t, watchCommand(), await(`{"counter":"counters/views","rollup":{"total":7,"num_shards":1,"as_of":"T",T}}`))
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
	c := newConsole(t)
	c.set("counters/likes", map[string]any{"num_shards": 3})
	c.set("counters/visitors/shards/0", map[string]any{"count": 1})
	for _, test := range []struct {
		args string
		want []string
	}{
		{"get lieks", []string{"no such counter: counters/lieks; did you mean counters/likes?"}},
		{"reset Visitor", []string{"did you mean counters/visitors?"}},
		{"increment quite-another", []string{"no such counter: counters/quite-another; tally create makes it, tally ls lists"}},
		{"delete posts/7/counters/likes", []string{"no such counter: posts/7/counters/likes"}},
		{"resize lieks 3", []string{"did you mean"}},
		{"set lieks 3", []string{"did you mean"}},
		{"verify lieks --documents posts", []string{"did you mean"}},
		{"get counters/likes/shards", []string{`"counters/likes/shards" is not the path of a counter`, "counters/likes"}},
		{"create counters/likes/shards", []string{`"counters/likes/shards" is not the path of a document`}},
		{"get", []string{"accepts 1 arg"}},
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
		{"import likes --document posts/7 --from likes", []string{`posts/7 has no field "likes"`}},
		{"import visitors --documents posts/7/likez", []string{"posts/7/likez holds no documents", "counters/visitors is 1", "--yes"}},
		{"carry likes", []string{"document"}},
		{"carry likes --document posts/7", []string{"from"}},
		{"carry likes --document posts --from likes", []string{`--document "posts" is not the path of a document`}},
		{"carry likes --document posts/7 --from likes", []string{`posts/7 has no field "likes"`}},
		{"renumber lieks 3", []string{"did you mean"}},
		{"renumber likes many", []string{`"many" is not a number of shards`}},
		{"get likes --shards-in a/b", []string{`"a/b" is not the path of a collection`}},
		{"watch posts/7/counters/likes", []string{"no roll-up is known", "--rollup"}},
		{"ls --limit 0", []string{"--limit 0: want 1 to 300"}},
		{"ls --collection a/b", []string{`"a/b" is not the path of a collection`}},
		{"ls --rollup rollups", []string{"--rollup", `"rollups" is not the path of a document`}},
		{"ls --page xyz", []string{`--page "xyz"`, "counters"}},
		{"get likes --timeout -1s", []string{"--timeout -1s: want 0 or more"}},
		{"get likes --timeout 1ns", []string{"no end after 1ns", "--timeout"}},
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
	if _, out, _ := c.run("get", "likes", "--json"); out != `{"counter":"counters/likes","rollup":null,"total":0}`+"\n" {
		t.Errorf("a mistake counted: %s", out)
	}
	if _, out, _ := c.run("get", "visitors", "--json"); out != `{"counter":"counters/visitors","rollup":null,"total":1}`+"\n" {
		t.Errorf("a mistake counted: %s", out)
	}
}

// shows checks that the path that an example of the command has jq look up is in what it printed.
func shows(t *testing.T, c *cobra.Command, printed []byte) {
	t.Helper()
	path := regexp.MustCompile(`--json \| jq ([.\w]+)`).FindStringSubmatch(c.Example)
	if path == nil {
		t.Fatalf("tally %s: no example with jq", c.Name())
	}
	var v any
	if err := json.Unmarshal(printed, &v); err != nil {
		t.Fatal(err)
	}
	for _, key := range strings.Split(path[1], ".")[1:] {
		object, _ := v.(map[string]any)
		v = object[key]
	}
	if v == nil {
		t.Errorf("tally %s: the example's jq %s is not in %s", c.Name(), path[1], printed)
	}
}

// Every command on counters shows examples, and which role it needs.
func TestCounterHelp(t *testing.T) {
	for _, command := range counterCommands() {
		if !strings.Contains(command.Example, "tally "+command.Name()) || !strings.Contains(command.Long, "roles/datastore.") || command.Flags().Lookup("json") == nil {
			t.Errorf("tally %s: want examples, the role and --json", command.Name())
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
		{status.Error(codes.DeadlineExceeded, "context deadline exceeded"), "--timeout"},
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
