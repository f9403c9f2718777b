package firestorestore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/firestore-tally/tally/internal/cloud/billing"
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// A recorder keeps the calls of a connection, and may change what they answer.
type recorder struct {
	answered func(answer any) // unless nil, called with each message of an answer

	mu           sync.Mutex
	calls        map[string]int // by method
	requests     []any
	transactions []string // that began
}

func (r *recorder) dialOptions() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(r.unary), grpc.WithChainStreamInterceptor(r.stream)}
}

func (r *recorder) called(method string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls == nil {
		r.calls = make(map[string]int)
	}
	r.calls[method[strings.LastIndexByte(method, '/')+1:]]++
}

// take returns the calls so far by method, and forgets them.
func (r *recorder) take() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := r.calls
	r.calls, r.requests, r.transactions = nil, nil, nil
	return calls
}

func (r *recorder) unary(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	r.called(method)
	r.mu.Lock()
	r.requests = append(r.requests, req)
	r.mu.Unlock()
	return invoke(ctx, method, req, reply, conn, opts...)
}

func (r *recorder) stream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	r.called(method)
	s, err := open(ctx, desc, conn, method, opts...)
	return recordedStream{s, r}, err
}

type recordedStream struct {
	grpc.ClientStream
	recorder *recorder
}

func (s recordedStream) SendMsg(msg any) error {
	s.recorder.mu.Lock()
	s.recorder.requests = append(s.recorder.requests, msg)
	s.recorder.mu.Unlock()
	return s.ClientStream.SendMsg(msg)
}

func (s recordedStream) RecvMsg(msg any) error {
	err := s.ClientStream.RecvMsg(msg)
	if err == nil && s.recorder.answered != nil {
		s.recorder.answered(msg)
	}
	if answer, ok := msg.(*firestorepb.BatchGetDocumentsResponse); ok && err == nil && len(answer.Transaction) > 0 {
		s.recorder.mu.Lock()
		s.recorder.transactions = append(s.recorder.transactions, string(answer.Transaction))
		s.recorder.mu.Unlock()
	}
	return err
}

// oneTransaction checks that one read-only transaction began, with the read of the roll-up
// document, and that all sums are in it: a read of its own may be served at a time that misses an
// acknowledged event. The emulator does not show that.
func (r *recorder) oneTransaction(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.transactions) != 1 {
		t.Errorf("%d transactions began, want one", len(r.transactions))
		return
	}
	for _, req := range r.requests {
		switch req := req.(type) {
		case *firestorepb.BatchGetDocumentsRequest:
			if o := req.GetNewTransaction().GetReadOnly(); o == nil || o.ConsistencySelector != nil {
				t.Errorf("the roll-up was read in %v, want a new read-only transaction", req.ConsistencySelector)
			}
		case *firestorepb.RunAggregationQueryRequest:
			if string(req.GetTransaction()) != r.transactions[0] {
				t.Errorf("a sum was taken in %v, want the transaction of the roll-up's read", req.ConsistencySelector)
			}
		case *firestorepb.CommitRequest:
			if len(req.Transaction) > 0 {
				t.Error("the write was of a transaction")
			}
		}
	}
}

// The calls of a roll-up: the read that begins the transaction, a sum for each total, and the
// write. A sum of 0 says nothing of text among the shards; so it is asked for once more.
func TestCalls(t *testing.T) {
	for _, test := range []struct {
		name   string
		shards int
		fields string
		put    map[string]any // one more shard
		sums   int
	}{
		{"one shard", 1, "count", nil, 1},
		{"1,000 shards", 1000, "count", nil, 1},
		{"no shards", 0, "count", nil, 1},
		{"a sum of 0", 3, "count", map[string]any{"count": -3}, 2},
		{"a quotient that is not exact", 6, "count", map[string]any{"count": 3}, 1}, // 9 / (9 / 7) is 6.999999999999999
		{"two totals", 3, "count, likes", map[string]any{"likes": 1}, 2},
		{"two totals, one without shards", 3, "count, likes", nil, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			client := dial(t)
			fill(t, client, test.shards)
			if test.put != nil {
				if _, err := client.Doc("counters/likes/shards/more").Set(t.Context(), test.put); err != nil {
					t.Fatal(err)
				}
			}
			var r recorder
			store := open(t, client, r.dialOptions()...)
			c := counter(t, "counters/{c}/shards/{s} -> rollups/{c} : "+test.fields)
			coalescer := rollup.NewCoalescer(store, rollup.Options{Cadence: time.Millisecond, Timeout: time.Minute, Logger: slog.New(slog.DiscardHandler)})
			for _, doing := range []string{"the first roll-up", "the next roll-up"} {
				if _, err := coalescer.HandleEvent(t.Context(), rollup.Event{ID: doing}, route.Concern{Counter: c}); err != nil {
					t.Fatal(err)
				}
				r.oneTransaction(t)
				if d := cmp.Diff(map[string]int{"BatchGetDocuments": 1, "RunAggregationQuery": test.sums, "Commit": 1}, r.take()); d != "" {
					t.Errorf("calls of %s (-want +got):\n%s", doing, d)
				}
			}
			view(t, store, c)
			if d := cmp.Diff(map[string]int{"BatchGetDocuments": 1}, r.take()); d != "" {
				t.Errorf("calls of a look that sums nothing (-want +got):\n%s", d)
			}
		})
	}
}

// What a roll-up of several totals takes: a query for each different field and conditions, one for
// each maximum and the like, and one for each window. One more asks whether there is any document,
// if none met a condition and each total has some. All are in the transaction of the look. The log
// is the table of docs/performance.md.
func TestCallsOfTotals(t *testing.T) {
	const paid = ` where status == "paid"`
	for _, test := range []struct {
		totals  string
		queries int
	}{
		{"sum(amount) as revenue", 1},
		{"sum(amount)" + paid + " as revenue", 1},
		{"maximum(amount) as largest", 1},
		{`count() where status in ["paid", "sent"] as sold`, 1},
		{`sum(amount) where at < timestamp("2026-01-01T00:00:00Z") as old`, 1},
		{`maximum(amount) where at < timestamp("2026-01-01T00:00:00Z") as largest_old`, 1},
		{"count() where placed > now - 24h as lately", 2},
		{`count() where status == "refunded" as refunds`, 2},
		{`count() where status == "refunded" and placed > now - 24h as lately`, 3},
		{`count() as orders, count() where status == "refunded" and placed > now - 24h as lately`, 3},
		{"count() as orders, count() where placed > now - 24h as lately, sum(amount) where placed > now - 24h as revenue", 4},
		{"count() as orders, sum(amount) as revenue, average(amount) as mean", 2},
		{"count() as orders, sum(amount)" + paid + " as revenue, maximum(amount) as largest", 3},
		{"count() as orders, count()" + paid + " as paid, sum(amount)" + paid + " as revenue, average(amount)" + paid + " as mean, maximum(amount) as largest, latest(at) as last", 5},
		{"count() as orders, count()" + paid + " as paid, sum(amount)" + paid + " as revenue, sum(amount) as all, maximum(amount) as largest, latest(at) as last", 6},
	} {
		t.Run(test.totals, func(t *testing.T) {
			t.Parallel()
			client := dial(t)
			bulkCommit(t, client, 1000, func(i int) string { return fmt.Sprintf("orders/%d", i) }, map[string]any{"shop": "a", "status": "paid", "amount": 2, "at": time.Unix(0, 0), "placed": time.Now()})
			bulkCommit(t, client, 1, func(int) string { return "shops/a" }, map[string]any{"name": "x"})
			shops, _ := template(t, "orders/{order} by shop -> shops/{shop} : "+test.totals+" : existing")
			c, _ := shops.Counter("shops/a")

			var r recorder
			meter := billing.NewMeter(nil)
			store := open(t, client, append(meter.DialOptions(), r.dialOptions()...)...)
			coalescer := rollup.NewCoalescer(store, rollup.Options{Cadence: time.Millisecond, Timeout: time.Minute, Alarms: anyAlarm{}, Logger: slog.New(slog.DiscardHandler)})
			if _, err := coalescer.HandleEvent(t.Context(), rollup.Event{ID: "e"}, route.Concern{Counter: c}); err != nil {
				t.Fatal(err)
			}
			r.oneTransaction(t)
			calls, billed := r.take(), meter.Counts()
			if queries := calls["RunAggregationQuery"] + calls["RunQuery"]; queries != test.queries || calls["BatchGetDocuments"] != 1 || calls["Commit"] != 1 {
				t.Errorf("calls %v, want %d queries between one look and one write", calls, test.queries)
			}
			if want := (billing.Counts{Reads: 1 + int64(test.queries), Writes: 1}); billed != want {
				t.Errorf("billed %+v, want %+v", billed, want)
			}
			t.Logf("| `%s` | %d | %d | %d |", test.totals, test.queries+2, billed.Reads, billed.Writes)
		})
	}
}

// A look reads the fields that Tally keeps, not what else the app's document holds.
func TestLookReadsNoOtherFields(t *testing.T) {
	client := dial(t)
	fields := map[string]any{"likes": 3, "tally": map[string]any{"num_shards": 3}, "text": strings.Repeat("x", 500<<10)}
	if _, err := client.Doc("counters/likes").Set(t.Context(), fields); err != nil {
		t.Fatal(err)
	}
	var got []string
	r := recorder{answered: func(answer any) {
		a, _ := answer.(*firestorepb.BatchGetDocumentsResponse)
		got = append(got, slices.Sorted(maps.Keys(a.GetFound().GetFields()))...)
	}}
	view(t, open(t, client, r.dialOptions()...), counter(t, "counters/{c}/shards/{s} -> counters/{c} : likes : existing"))
	if d := cmp.Diff([]string{"likes", "tally"}, got); d != "" {
		t.Errorf("fields read (-want +got):\n%s", d)
	}
}

// Without a transaction, what is summed may be older than the roll-up that was read; without a
// time, its instant is unknown. Both are errors.
func TestHalfAnAnswer(t *testing.T) {
	client := dial(t)
	for name, lose := range map[string]func(*firestorepb.BatchGetDocumentsResponse){
		"no transaction": func(a *firestorepb.BatchGetDocumentsResponse) { a.Transaction = nil },
		"no read time":   func(a *firestorepb.BatchGetDocumentsResponse) { a.ReadTime = nil },
	} {
		r := recorder{answered: func(answer any) {
			if a, ok := answer.(*firestorepb.BatchGetDocumentsResponse); ok {
				lose(a)
			}
		}}
		_, err := open(t, client, r.dialOptions()...).View(t.Context(), counter(t, route.Default))
		if err == nil || !strings.Contains(err.Error(), "without the document or the transaction") {
			t.Errorf("%s: got %v", name, err)
		}
	}

	for name, lose := range map[string]func(*firestorepb.RunAggregationQueryResponse){
		"no transaction": func(a *firestorepb.RunAggregationQueryResponse) { a.Transaction = nil },
		"no read time":   func(a *firestorepb.RunAggregationQueryResponse) { a.ReadTime = nil },
	} {
		r := recorder{answered: func(answer any) {
			if a, ok := answer.(*firestorepb.RunAggregationQueryResponse); ok {
				lose(a)
			}
		}}
		_, err := open(t, client, r.dialOptions()...).Sources(t.Context(), counter(t, route.Default)).Sum(t.Context())
		if err == nil || !strings.Contains(err.Error(), "without the transaction or its instant") {
			t.Errorf("sources, %s: got %v", name, err)
		}
	}
}

// Firestore takes no times finer than a microsecond, and stores none. If a read time is, it is
// truncated, so that as_of is what the document says, and a read at that time is not refused.
func TestReadTimeIsTruncated(t *testing.T) {
	client := dial(t)
	fill(t, client, 3)
	var given []time.Time
	r := recorder{answered: func(answer any) {
		var at *timestamppb.Timestamp
		switch a := answer.(type) {
		case *firestorepb.BatchGetDocumentsResponse:
			at = a.ReadTime
		case *firestorepb.RunQueryResponse:
			at = a.ReadTime
		case *firestorepb.RunAggregationQueryResponse:
			at = a.ReadTime
		}
		if at != nil {
			at.Nanos += 789 - at.Nanos%1000
			given = append(given, at.AsTime())
		}
	}}
	store := open(t, client, r.dialOptions()...)
	s := view(t, store, counter(t, route.Default+" : documents"))
	if want := given[len(given)-1].Truncate(time.Microsecond); !s.ReadTime().Equal(want) {
		t.Errorf("read time %v, want %v", s.ReadTime(), want)
	}
	if totals := sum(t, s); totals.Values["count"] != value.Int(3) {
		t.Errorf("%+v", totals)
	}

	sources := store.Sources(t.Context(), counter(t, route.Default))
	sum(t, sources)
	if want := given[len(given)-1].Truncate(time.Microsecond); !sources.ReadTime().Equal(want) {
		t.Errorf("the sources' read time is %v, want %v", sources.ReadTime(), want)
	}

	likes := counter(t, route.Default).Template.Routes[0]
	missing, err := store.Missing(t.Context(), likes, time.Time{}, "", 10)
	if want := given[len(given)-1].Truncate(time.Microsecond); err != nil || len(missing.Found) != 1 || !missing.ReadTime.Equal(want) {
		t.Errorf("counters without a roll-up: %+v, %v; want the read time %v", missing, err, want)
	}

	coalescer := rollup.NewCoalescer(store, rollup.Options{Cadence: time.Second, Timeout: time.Minute, Logger: slog.New(slog.DiscardHandler)})
	e, err := coalescer.HandleEvent(t.Context(), rollup.Event{ID: "e"}, route.Concern{Counter: counter(t, route.Default)})
	if err != nil {
		t.Fatal(err)
	}
	doc, err := client.Doc("rollups/likes").Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if asOf := document.DecodeTally(doc.Data()["tally"]).AsOf; !asOf.Equal(e.AsOf) || asOf.IsZero() {
		t.Errorf("as_of is %v, and the event was covered as of %v", asOf, e.AsOf)
	}

	given = nil
	page, err := store.RollUps(t.Context(), likes.Template, "", 10)
	if want := given[0].Truncate(time.Microsecond); err != nil || len(page.Found) != 1 || !page.ReadTime.Equal(want) {
		t.Errorf("roll-ups: %+v, %v; want the read time %v", page, err, want)
	}
}

// What lies between the counters costs a page a bounded number of queries, and the walk comes to
// its end all the same.
func TestForeignCollections(t *testing.T) {
	t.Parallel()
	const foreign, limit = 200, 20 // few, because the emulator scans them all for each query
	client := dial(t)
	one := map[string]any{"count": 1}
	bulkCommit(t, client, foreign, func(i int) string { return fmt.Sprintf("counters/%04d/drafts/x/shards/0", i) }, one)
	bulkCommit(t, client, foreign, func(i int) string { return fmt.Sprintf("posts/%04d/rollups/other", i) }, one)
	var wantShards, wantRollUps []string
	for _, id := range []string{"0000", "0038", "0050", "0051", "9999"} {
		wantShards, wantRollUps = append(wantShards, "counters/"+id+"/shards"), append(wantRollUps, "posts/"+id+"/rollups/total")
		bulkCommit(t, client, 1, func(int) string { return "counters/" + id + "/shards/0" }, one)
		bulkCommit(t, client, 1, func(int) string { return "posts/" + id + "/rollups/total" }, one)
	}
	var r recorder
	store := open(t, client, r.dialOptions()...)
	likes := counter(t, "counters/{c}/shards/{s} -> posts/{c}/rollups/total : count").Template.Routes[0]
	for _, test := range []struct {
		page func(from string) (rollup.Page, error)
		path func(route.Counter) string
		want []string
		most int // queries in all
	}{
		{func(from string) (rollup.Page, error) { return store.Counters(t.Context(), likes, from, limit) }, likes.Shards, wantShards, foreign + 20},
		{func(from string) (rollup.Page, error) { return store.RollUps(t.Context(), likes.Template, from, limit) }, func(c route.Counter) string { return c.RollUp }, wantRollUps, foreign + 20},
	} {
		var got []string
		pages, all := 0, 0
		for from, more := "", true; more; pages++ {
			p, err := test.page(from)
			if err != nil || pages > foreign {
				t.Fatalf("page %d: %v", pages, err)
			}
			calls := r.take()
			if queries := calls["RunQuery"]; queries > 2*limit || len(calls) != 1 {
				t.Errorf("a page of %d cost %v", limit, calls)
			}
			all += calls["RunQuery"]
			for _, f := range p.Found {
				got = append(got, test.path(f.Counter))
			}
			from, more = p.Next, p.Next != ""
		}
		if d := cmp.Diff(test.want, got); d != "" {
			t.Errorf("found (-want +got):\n%s", d)
		}
		if pages < foreign/(2*limit) || all > test.most {
			t.Errorf("%d pages of %d queries in all, want more pages, and at most %d queries", pages, all, test.most)
		}
	}
}

// bulkCommit writes documents in commits of many: a BulkWriter begins with 500 documents a second.
func bulkCommit(t testing.TB, client *firestore.Client, n int, path func(i int) string, fields map[string]any) {
	t.Helper()
	bulkEach(t, client, n, path, func(int) map[string]any { return fields })
}

// bulkEach is bulkCommit of documents with fields of their own.
func bulkEach(t testing.TB, client *firestore.Client, n int, path func(i int) string, fields func(i int) map[string]any) {
	t.Helper()
	const together = 500
	for from := 0; from < n; from += together {
		err := client.RunTransaction(t.Context(), func(_ context.Context, tx *firestore.Transaction) error {
			for i := from; i < min(from+together, n); i++ {
				if err := tx.Set(client.Doc(path(i)), fields(i)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// put writes shards of likes.
func put(t *testing.T, client *firestore.Client, name string, values ...any) {
	t.Helper()
	for i, v := range values {
		bulkCommit(t, client, 1, func(int) string { return fmt.Sprintf("counters/likes/shards/%s%d", name, i) }, map[string]any{"count": v})
	}
}

// In a range of another field, malformed values lie anywhere. Five are named of the first hundred
// documents.
func TestMalformedInARange(t *testing.T) {
	t.Parallel()
	client := dial(t)
	bulkEach(t, client, 300, func(i int) string { return fmt.Sprintf("orders/%d", i) }, func(i int) map[string]any {
		amounts := []any{1, 2, "x"}
		return map[string]any{"at": time.Unix(int64(i), 0), "amount": amounts[i%3]}
	})
	all, _ := template(t, `orders/{order} -> totals/all : sum(amount) where at >= timestamp("1970-01-01T00:00:00Z") as revenue`)
	c, _ := all.Counter("totals/all")

	meter := billing.NewMeter(nil)
	s := view(t, open(t, client, meter.DialOptions()...), c)
	if totals := sum(t, s); totals.Malformed != 100 || totals.Values["revenue"] != value.Int(300) {
		t.Errorf("%+v", totals)
	}
	before := meter.Counts().Reads
	named, err := s.Malformed(t.Context(), 5)
	reads := meter.Counts().Reads - before
	if err != nil || len(named) != 5 || named[0] != "orders/2: amount is a string, not a number" || reads != 100 {
		t.Errorf("named %q for %d reads, %v", named, reads, err)
	}
}

// Shards that are not numbers cost a roll-up few reads, however many shards there are, and fewer
// once they are named. They are noticed with a sum of 0 too.
func TestMalformedAtConstantCost(t *testing.T) {
	nan := 0.0
	nan /= nan
	for _, test := range []struct {
		name        string
		shards      int
		texts       int
		values      []any
		sum         value.Value
		first, next int64 // reads
	}{
		{"none", 1000, 0, nil, value.Int(1000), 2, 2},
		{"one text and one NaN", 998, 0, []any{"x", nan}, value.Int(998), 2 + 4, 2 + 1},
		{"many texts", 500, 500, nil, value.Int(500), 2 + 1 + 5, 2 + 1},
		{"a text and a sum of 0", 10, 0, []any{-10, "x"}, value.Int(0), 2 + 4, 2 + 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			client := dial(t)
			one := map[string]any{"count": 1}
			bulkCommit(t, client, test.shards, func(i int) string { return fmt.Sprintf("counters/likes/shards/%d", i) }, one)
			bulkCommit(t, client, test.texts, func(i int) string { return fmt.Sprintf("counters/likes/shards/text%d", i) }, map[string]any{"count": "x"})
			put(t, client, "more", test.values...)
			meter := billing.NewMeter(nil)
			var log bytes.Buffer
			coalescer := rollup.NewCoalescer(open(t, client, meter.DialOptions()...), rollup.Options{Cadence: time.Millisecond, Timeout: time.Minute, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			for i, most := range []int64{test.first, test.next} {
				before := meter.Counts()
				if _, err := coalescer.HandleEvent(t.Context(), rollup.Event{ID: fmt.Sprint("e", i)}, route.Concern{Counter: counter(t, route.Default)}); err != nil {
					t.Fatal(err)
				}
				if reads := meter.Counts().Reads - before.Reads; reads > most {
					t.Errorf("roll-up %d was billed %d reads, want at most %d", i+1, reads, most)
				}
			}
			doc, err := client.Doc("rollups/likes").Get(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			shards := int64(test.shards + test.texts + len(test.values))
			if got := doc.Data(); got["count"] != test.sum.Firestore() || document.DecodeTally(got["tally"]).NumShards != shards {
				t.Errorf("rolled up %v, want %v of %d shards", got, test.sum, shards)
			}
			lines := 0
			if test.name != "none" {
				lines = 1
			}
			if n := strings.Count(log.String(), "left out of the sum"); n != lines {
				t.Errorf("malformed shards were named %d times, want %d:\n%s", n, lines, &log)
			}
		})
	}
}

// One text shard does not stop a counter of 20,000 shards: reading them all took longer than an
// event may be held.
func TestMalformedShardAmongVeryMany(t *testing.T) {
	t.Parallel()
	const n = 20_000
	client := dial(t)
	bulkCommit(t, client, n, func(i int) string { return fmt.Sprintf("counters/likes/shards/%d", i) }, map[string]any{"count": 1})
	put(t, client, "text", "x")
	meter := billing.NewMeter(nil)
	coalescer := rollup.NewCoalescer(open(t, client, meter.DialOptions()...), rollup.Options{
		Cadence: time.Second, Timeout: time.Minute, Logger: slog.New(slog.DiscardHandler),
	})
	if _, err := coalescer.HandleEvent(t.Context(), rollup.Event{ID: "e"}, route.Concern{Counter: counter(t, route.Default)}); err != nil {
		t.Fatal(err)
	}
	if got, most := meter.Counts().Reads, int64(1+21+20+2); got > most {
		t.Errorf("billed %d reads, want at most %d", got, most)
	}
	doc, err := client.Doc("rollups/likes").Get(t.Context())
	if err != nil || doc.Data()["count"] != int64(n) || document.DecodeTally(doc.Data()["tally"]).NumShards != n+1 {
		t.Errorf("rolled up %v, %v", doc.Data(), err)
	}
}

// Without an index up to 1,000 shards are read one by one. More are an error that says what to do,
// and not the bill for each.
func TestMissingIndexOfManyShards(t *testing.T) {
	client := dial(t)
	bulkCommit(t, client, 1000, func(i int) string { return fmt.Sprintf("counters/likes/shards/%d", i) }, map[string]any{"count": 1})
	c := counter(t, route.Default)
	var log bytes.Buffer
	stores := make([]*firestorestore.Store, 2) // one that knows that there is no index, and one that finds out
	for i := range stores {
		var index noIndex
		stores[i] = openLogging(t, client, slog.New(slog.NewTextHandler(&log, nil)), index.dialOption())
	}
	if totals := sum(t, view(t, stores[0], c)); totals.Values["count"] != value.Int(1000) || totals.NumShards() != 1000 {
		t.Errorf("1,000 shards add up to %+v", totals)
	}
	put(t, client, "one more", 1)
	log.Reset()
	for i, store := range stores {
		_, err := view(t, store, c).Sum(t.Context())
		if !errors.Is(err, rollup.ErrUnkept) {
			t.Errorf("store %d, which is to read no more than 1,000 shards: got %v", i, err)
			continue
		}
		for _, want := range []string{"a query of counters/likes/shards lacks its index", "rollups/likes has more than 1000 documents", "create the index shards (count ASC)", `": documents"`} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("store %d: got %v, want it to say %q", i, err, want)
			}
		}
	}
	if log.Len() > 0 {
		t.Errorf("logged %s", &log)
	}
	if totals := sum(t, view(t, stores[1], counter(t, route.Default+" : documents"))); totals.NumShards() != 1001 {
		t.Errorf("read on purpose: %+v", totals)
	}
}

// wire keeps the headers of each call as they go out.
type wire struct {
	mu   sync.Mutex
	sent map[string]metadata.MD // by method, of its last call
}

func (*wire) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (*wire) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (*wire) HandleConn(context.Context, stats.ConnStats)                       {}

func (w *wire) HandleRPC(_ context.Context, s stats.RPCStats) {
	out, ok := s.(*stats.OutHeader)
	if !ok {
		return
	}

	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sent == nil {
		w.sent = make(map[string]metadata.MD)
	}
	w.sent[out.FullMethod[strings.LastIndexByte(out.FullMethod, '/')+1:]] = out.Header
}

// Every call carries the headers by which Firestore routes it, as the SDK's do: its database,
// without which production refuses calls to a named one, and whether it belongs to a transaction.
func TestHeaders(t *testing.T) {
	const database, transaction, params = "google-cloud-resource-prefix", "x-goog-is-transaction", "x-goog-request-params"
	project := emulatortest.Project(t)

	var sdk wire
	client, err := firestorestore.Dial(t.Context(), emulatortest.Addr(t), project, "named", grpc.WithStatsHandler(&sdk))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	err = client.RunTransaction(t.Context(), func(_ context.Context, tx *firestore.Transaction) error {
		if _, err := tx.GetAll([]*firestore.DocumentRef{client.Doc("rollups/likes")}); err != nil {
			return err
		}
		_, err := client.Collection("counters/likes/shards").NewAggregationQuery().WithCount("n").Transaction(tx).Get(t.Context())
		return err
	}, firestore.ReadOnly)
	if err != nil {
		t.Fatal(err)
	}

	var own wire
	store, err := firestorestore.Open(t.Context(), emulatortest.Addr(t), project, "named", slog.New(slog.DiscardHandler), grpc.WithStatsHandler(&own))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	c := counter(t, route.Default)
	sum(t, view(t, store, c))
	if err := store.Write(t.Context(), c, rollup.RollUp{}); err != nil {
		t.Error(err)
	}
	if _, err := store.Counters(t.Context(), c.Template.Routes[0], "", 10); err != nil {
		t.Error(err)
	}

	commit := own.sent["Commit"]
	if err := store.WriteLocked(t.Context(), c, rollup.RollUp{}, document.Tally{}); err != nil {
		t.Error(err)
	}
	own.sent["locked Commit"], own.sent["Commit"] = own.sent["Commit"], commit

	for method, want := range map[string]string{
		"BatchGetDocuments": "true", "RunAggregationQuery": "true", "Commit": "false", "RunQuery": "false", "BeginTransaction": "true", "locked Commit": "true",
	} {
		sent := own.sent[method]
		if d := cmp.Diff([]string{want}, sent.Get(transaction)); d != "" {
			t.Errorf("%s: %s (-want +got):\n%s", method, transaction, d)
		}
		if d := cmp.Diff([]string{"projects/" + project + "/databases/named"}, sent.Get(database)); d != "" {
			t.Errorf("%s: %s (-want +got):\n%s", method, database, d)
		}
		if want != "true" || sdk.sent[method] == nil {
			continue // the SDK makes the call itself, or has made none
		}
		for _, header := range []string{transaction, database} {
			if d := cmp.Diff(sdk.sent[method].Get(header), sent.Get(header)); d != "" {
				t.Errorf("%s: %s (-the SDK's +got):\n%s", method, header, d)
			}
		}
		if got := strings.Join(sent.Get(params), "&"); !strings.Contains(got, "database_id=named") {
			t.Errorf("%s: %s is %q", method, params, got)
		}
	}
}

// anyAlarm is a queue that takes each alarm. Without one, a roll-up with a window leaves a note.
type anyAlarm struct{}

func (anyAlarm) Create(context.Context, rollup.Alarm) error { return nil }
