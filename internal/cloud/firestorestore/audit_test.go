package firestorestore_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/cloud/billing"
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
)

// bulk writes documents.
func bulk(t testing.TB, client *firestore.Client, n int, path func(i int) string, fields map[string]any) {
	t.Helper()
	writer := client.BulkWriter(t.Context())
	jobs := make([]*firestore.BulkWriterJob, n)
	for i := range n {
		var err error
		if jobs[i], err = writer.Set(client.Doc(path(i)), fields); err != nil {
			t.Fatal(err)
		}
	}
	writer.End()
	for _, job := range jobs {
		if _, err := job.Results(); err != nil {
			t.Fatal(err)
		}
	}
}

// What finding a counter costs: one read, whatever lies next to it.
func TestBilledWalks(t *testing.T) {
	client := dial(t)
	one := map[string]any{"count": 1}
	bulk(t, client, 50, func(i int) string { return fmt.Sprintf("counters/%d/shards/%d", i%5, i) }, one)
	bulk(t, client, 50, func(i int) string { return fmt.Sprintf("counters/%d/drafts/x/shards/%d", i%5, i) }, one) // no shards of the route, before those that are
	bulk(t, client, 50, func(i int) string { return fmt.Sprintf("counters/%d/shards/%d/shards/0", i%5, i) }, one)
	bulk(t, client, 50, func(i int) string { return fmt.Sprintf("counters/%d/zzz/x/shards/%d", i%5, i) }, one)
	bulk(t, client, 50, func(i int) string { return fmt.Sprintf("others/%d/shards/0", i) }, one)
	bulk(t, client, 10, func(i int) string { return fmt.Sprintf("rollups/%d", i) }, one)
	bulk(t, client, 50, func(i int) string { return fmt.Sprintf("others/%d/rollups/0", i) }, one)
	meter := billing.NewMeter(nil)
	store := open(t, client, meter.DialOptions()...)
	route := counter(t, route.Default).Template.Routes[0]
	wantCharged := func(p rollup.Page, before billing.Counts) {
		t.Helper()
		if billed := meter.Counts().Reads - before.Reads; p.Reads != billed {
			t.Errorf("a page says that it was billed %d reads, and was billed %d", p.Reads, billed)
		}
	}

	found, err := store.Counters(t.Context(), route, "", 100)
	// in addition to the counters, one draft of each, and the end
	if want := (billing.Counts{Reads: 5 + 5 + 1}); len(found.Found) != 5 || found.Next != "" || err != nil || meter.Counts() != want {
		t.Errorf("%d counters, %v, were billed %+v, want %+v", len(found.Found), err, meter.Counts(), want)
	}
	wantCharged(found, billing.Counts{})
	before := meter.Counts()
	rollUps, err := store.RollUps(t.Context(), route.Template, "", 100)
	if want := before.Add(billing.Counts{Reads: 10}); len(rollUps.Found) != 10 || rollUps.Next != "" || err != nil || meter.Counts() != want {
		t.Errorf("%d roll-ups, %v, brought %+v to %+v, want %+v", len(rollUps.Found), err, before, meter.Counts(), want)
	}
	wantCharged(rollUps, before)

	// the same with a read of each roll-up
	before = meter.Counts()
	missing, err := store.Missing(t.Context(), route, time.Time{}, "", 100)
	if want := before.Add(billing.Counts{Reads: 5 + 5 + 1 + 5}); len(missing.Found) != 5 || missing.Next != "" || err != nil || meter.Counts() != want {
		t.Errorf("%d counters without a roll-up, %v, brought %+v to %+v, want %+v", len(missing.Found), err, before, meter.Counts(), want)
	}
	wantCharged(missing, before)

	// A page of documents that are not counters, and empty pages.
	for _, text := range []string{"none/{c}/shards/{s} -> others/0/rollups/{c} : count", "none/{c}/shards/{s} -> others/{c}/rollups/1 : count", "none/{s} -> none/all/of/it : count",
		"others/0/shards/{s} -> others/all/of/it : count\nothers/1/shards/{s} -> others/all/of/it : count() as n"} {
		_, routes := template(t, text)
		before = meter.Counts()
		page, err := store.RollUps(t.Context(), routes[0].Template, "", 20)
		if err != nil {
			t.Error(err)
		}
		wantCharged(page, before)
		for _, r := range routes {
			before = meter.Counts()
			page, err = store.Missing(t.Context(), r, time.Time{}, "", 20)
			if err != nil {
				t.Error(err)
			}
			wantCharged(page, before)
		}
	}
}

// However many shards the counters have, finding them bills about one read each.
func TestBilledWalkOfManyCounters(t *testing.T) {
	const counters = 100
	for shards, most := range map[int]int64{1: counters + 1, 2: counters * 12 / 10, 10: counters * 12 / 10} {
		client := dial(t)
		bulk(t, client, counters*shards, func(i int) string { return fmt.Sprintf("counters/%d/shards/%d", i%counters, i) }, map[string]any{"count": 1})
		meter := billing.NewMeter(nil)
		store := open(t, client, meter.DialOptions()...)
		route, found := counter(t, route.Default).Template.Routes[0], 0
		for from, more := "", true; more; {
			page, err := store.Counters(t.Context(), route, from, counters+1)
			if err != nil {
				t.Fatal(err)
			}
			found += len(page.Found)
			from, more = page.Next, page.Next != ""
		}
		if got := meter.Counts(); found != counters || got.Reads > most || got.Writes+got.Deletes > 0 {
			t.Errorf("%d counters of %d shards were billed %+v, want at most %d reads", found, shards, got, most)
		}
	}
}

// A page whose time is over makes one query, and the walk comes to its end all the same.
func TestSlowPages(t *testing.T) {
	client := dial(t)
	bulk(t, client, 20, func(i int) string { return fmt.Sprintf("counters/%d/shards/%d", i%5, i) }, map[string]any{"count": 1})
	bulk(t, client, 3, func(i int) string { return fmt.Sprintf("counters/0/drafts/x/shards/%d", i) }, map[string]any{"count": 1})
	meter := billing.NewMeter(nil)
	store := open(t, client, meter.DialOptions()...)
	found := 0
	for from, more := "", true; more; {
		before := meter.Counts()
		page, err := store.CountersUntil(t.Context(), counter(t, route.Default).Template.Routes[0], from, 100, time.Now().Add(-time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if billed := meter.Counts().Reads - before.Reads; billed != 1 {
			t.Errorf("a page from %q made %d queries, want 1", from, billed)
		}
		found += len(page.Found)
		from, more = page.Next, page.Next != ""
	}
	if found != 5 {
		t.Errorf("%d counters were found, want 5", found)
	}
}

// A page makes queries for half of the time that its context has, and for ten seconds at most.
func TestPageEnd(t *testing.T) {
	now := time.Now()
	for has, want := range map[time.Duration]time.Duration{
		2 * time.Second:  time.Second,
		45 * time.Second: 10 * time.Second,
		0:                0,
	} {
		ctx, cancel := context.WithDeadline(t.Context(), now.Add(has))
		defer cancel()
		if end := firestorestore.PageEnd(ctx, now); !end.Equal(now.Add(want)) {
			t.Errorf("a page that has %v ends after %v, want %v", has, end.Sub(now), want)
		}
	}
	if end := firestorestore.PageEnd(context.Background(), now); !end.Equal(now.Add(10 * time.Second)) {
		t.Errorf("a page without a deadline ends after %v, want 10s", end.Sub(now))
	}
}

// A page of homes whose time is over ends with those that it has looked at, and the next one goes
// on behind them.
func TestPageOfHomesEnds(t *testing.T) {
	client := dial(t)
	bulk(t, client, 20, func(i int) string { return fmt.Sprintf("posts/%02d", i) }, map[string]any{"title": "x"})
	bulk(t, client, 20, func(i int) string { return fmt.Sprintf("likes/%02d", i) }, map[string]any{"post": "13"})
	likes, _ := template(t, "likes/{like} by post -> posts/{post} : count() as likes : existing")
	store := open(t, client)
	from, found := "", []string(nil)
	for pages := 1; ; pages++ {
		page, err := store.RollUpsUntil(t.Context(), likes, from, 100, time.Now().Add(-time.Second))
		if err != nil || page.Next == from {
			t.Fatalf("page %d ends at %q: %v", pages, page.Next, err)
		}
		for _, f := range page.Found {
			found = append(found, f.Counter.RollUp)
		}
		from = page.Next
		if from == "" {
			if pages != 3 || !slices.Equal(found, []string{"posts/13"}) {
				t.Errorf("%d pages found %v", pages, found)
			}
			return
		}
	}
}

// A page that cannot be read says of which route, once.
func TestFailedPageNamesItsRoute(t *testing.T) {
	store, r := open(t, dial(t)), counter(t, route.Default).Template.Routes[0]
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, counters := store.Counters(ctx, r, "", 1)
	_, missing := store.Missing(ctx, r, time.Time{}, "", 1)
	for _, err := range []error{counters, missing} {
		if err == nil || strings.Count(err.Error(), r.String()) != 1 || !strings.HasPrefix(err.Error(), "firestore: finding shards of ") {
			t.Errorf("got %v, want it to name %s", err, r)
		}
	}
}

// Firestore takes no id of more than 1,500 bytes; the emulator does, in a query. Whatever the ids,
// each counter is found once.
func TestPlaceBehindAnID(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	ids := []string{"__id-1__", "__id7__", "__id8__", "__id9223372036854775807__", "a", x(1499), x(1500), x(1499) + "y", x(1497) + "\uD7FF", strings.Repeat("\U0010FFFF", 375)}
	client := dial(t)
	bulk(t, client, 3*len(ids), func(i int) string { return fmt.Sprintf("counters/%s/shards/%d", ids[i/3], i%3) }, map[string]any{"count": 1})
	store := open(t, client)
	for _, limit := range []int{1, 2, 100} {
		var found []string
		for from, more := "", true; more; {
			page, err := store.Counters(t.Context(), counter(t, route.Default).Template.Routes[0], from, limit)
			if err != nil {
				t.Fatal(err)
			}
			for id := range strings.SplitSeq(page.Next, "/") {
				if len(id) > 1500 {
					t.Errorf("the place %q holds an id of %d bytes", page.Next, len(id))
				}
			}
			for _, f := range page.Found {
				found = append(found, strings.TrimPrefix(f.Counter.RollUp, "rollups/"))
			}
			from, more = page.Next, page.Next != ""
		}
		slices.Sort(found)
		if diff := cmp.Diff(ids, found); diff != "" {
			t.Errorf("%d at a time (-want +got):\n%s", limit, diff)
		}
	}
}

// A cursor that somebody else wrote does not stop an audit: it starts over, and its own cursor
// replaces that.
func TestForeignCursor(t *testing.T) {
	client := dial(t)
	store := open(t, client)
	for _, of := range []rollup.Work{rollup.Auditing, rollup.Keeping} {
		if _, err := client.Doc("rollup_audit/"+string(of)).Set(t.Context(), map[string]any{"cursor": map[string]any{"routes": "x", "places": 7}}); err != nil {
			t.Fatal(err)
		}
		c, err := store.LoadCursor(t.Context(), of)
		if err != nil || c.Routes != "" || c.UpdateTime.IsZero() {
			t.Errorf("%s: loaded %+v, %v", of, c, err)
		}
		c.Routes = "mine"
		if _, err := store.SaveCursor(t.Context(), of, c); err != nil {
			t.Error(err)
		}
		if c, err := store.LoadCursor(t.Context(), of); err != nil || c.Routes != "mine" {
			t.Errorf("%s: loaded %+v, %v", of, c, err)
		}
	}
}

// BenchmarkAudit audits up to 10,000 counters, on the emulator, which answers each query the later
// the more there are. The heap must not grow with their number. With a latency, each call takes so
// much longer, as to a database in another place:
//
//	go test ./internal/cloud/firestorestore -run=^$ -bench=Audit$/^1000$ -benchtime=1x
func BenchmarkAudit(b *testing.B) {
	for _, test := range []struct {
		n       int
		foreign int // documents of no counter, next to roll-ups and next to shards
		latency time.Duration
	}{{1000, 0, 0}, {1000, 0, 50 * time.Millisecond}, {1000, 1000, 0}, {10_000, 0, 0}} {
		n := test.n
		b.Run(fmt.Sprintf("%d/foreign=%d/latency=%v", n, test.foreign, test.latency), func(b *testing.B) {
			project := emulatortest.Project(b)
			client := emulatortest.ClientDatabase(b, project, firestore.DefaultDatabaseID)
			bulk(b, client, n, func(i int) string { return fmt.Sprintf("counters/%d/shards/0", i) }, map[string]any{"count": 1})
			bulk(b, client, n, func(i int) string { return fmt.Sprintf("rollups/%d", i) },
				map[string]any{"count": 1, "tally": document.Tally{AsOf: time.Now().Add(-time.Hour), NumShards: 1, Routes: mustRoute(b).Template.Hash(), Totals: []string{"count"}}.Encode()})
			bulk(b, client, test.foreign, func(i int) string { return fmt.Sprintf("counters/%d/drafts/x/shards/0", i) }, map[string]any{"count": 1})
			bulk(b, client, test.foreign, func(i int) string { return fmt.Sprintf("rollups/%d/drafts/x/rollups/0", i) }, map[string]any{"count": 1})
			meter := billing.NewMeter(nil)
			logger := slog.New(slog.DiscardHandler)
			late := grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
				time.Sleep(test.latency)
				return streamer(ctx, desc, conn, method, opts...)
			})
			store := open(b, client, append(meter.DialOptions(), late)...)
			r := mustRoute(b)
			heap := func() float64 {
				var m runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&m)
				return float64(m.HeapAlloc) / 1e6
			}
			before := heap()
			most := before
			for b.Loop() {
				report, err := rollup.Audit(b.Context(), store, route.Routes{r}, rollup.AuditOptions{
					Options:     rollup.Options{Cadence: time.Second, Timeout: time.Hour, Logger: logger},
					Concurrency: 32, Grace: time.Second, FromFirst: true,
					Progress: func(r rollup.Report) {
						if r.Counters%500 == 0 {
							most = max(most, heap())
						}
					},
				})
				if err != nil || report.Unchanged != n || report.Counters != n {
					b.Fatalf("%+v, %v", report, err)
				}
			}
			b.ReportMetric(float64(meter.Counts().Reads)/float64(n*b.N), "reads/counter")
			b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "counters/s")
			b.ReportMetric(before, "MB-before")
			b.ReportMetric(most, "MB-most")
			b.ReportMetric(heap(), "MB-after")
		})
	}
}

func mustRoute(b *testing.B) *route.Route {
	routes, err := route.Parse(route.Default)
	if err != nil {
		b.Fatal(err)
	}
	return routes[0]
}
