package firestorestore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
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
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestMain(m *testing.M) { emulatortest.Main(m) }

// dial opens the default database of a new project.
func dial(t testing.TB, opts ...grpc.DialOption) *firestore.Client {
	t.Helper()
	client, err := firestorestore.Dial(t.Context(), emulatortest.Addr(t), emulatortest.Project(t), firestore.DefaultDatabaseID, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func counter(t *testing.T, r string) route.Counter {
	t.Helper()
	routes, err := route.Parse(r)
	if err != nil {
		t.Fatal(err)
	}
	c, ok := routes[0].Belongs("counters/likes/shards/0", nil)
	if !ok {
		t.Fatalf("%s covers no counters", r)
	}
	return c
}

// fill creates n shards of likes, each with count 1.
func fill(t *testing.T, client *firestore.Client, n int) {
	t.Helper()
	writer := client.BulkWriter(t.Context())
	var jobs []*firestore.BulkWriterJob
	for i := range n {
		job, err := writer.Set(client.Doc(fmt.Sprintf("counters/likes/shards/%d", i)), map[string]any{"count": 1})
		if err != nil {
			t.Fatal(err)
		}
		jobs = append(jobs, job)
	}
	writer.End()
	for _, job := range jobs {
		if _, err := job.Results(); err != nil {
			t.Fatal(err)
		}
	}
}

// What one roll-up costs, counted where it is billed.
func TestBilledOperations(t *testing.T) {
	for _, test := range []struct {
		shards        int
		fields        string
		rollUp, young billing.Counts
	}{
		{1, "count", billing.Counts{Reads: 2, Writes: 1}, billing.Counts{Reads: 1}},
		{1000, "count", billing.Counts{Reads: 2, Writes: 1}, billing.Counts{Reads: 1}},
		{1001, "count", billing.Counts{Reads: 3, Writes: 1}, billing.Counts{Reads: 1}},
		{10, "count, other", billing.Counts{Reads: 3, Writes: 1}, billing.Counts{Reads: 1}}, // one more for the field
		{10, "count : documents", billing.Counts{Reads: 11, Writes: 1}, billing.Counts{Reads: 1}},
	} {
		t.Run(fmt.Sprintf("%d shards/%s", test.shards, test.fields), func(t *testing.T) {
			t.Parallel()
			client := dial(t)
			fill(t, client, test.shards)
			meter := billing.NewMeter(nil)
			store := open(t, client, meter.DialOptions()...)
			coalescer := rollup.NewCoalescer(store, rollup.Options{Cadence: time.Hour, Timeout: time.Minute, Logger: slog.New(slog.DiscardHandler)})
			c := counter(t, "counters/{c}/shards/{s} -> rollups/{c} : "+test.fields)
			if _, err := coalescer.HandleEvent(t.Context(), rollup.Event{ID: "e1"}, route.Concern{Counter: c}); err != nil {
				t.Fatal(err)
			}
			if got := meter.Counts(); got != test.rollUp {
				t.Errorf("a roll-up was billed %+v, want %+v", got, test.rollUp)
			}

			// Another instance finds the roll-up younger than the cadence. It holds its event, and
			// absorbs others.
			before := meter.Counts()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			looked := recorder{answered: func(any) { time.AfterFunc(2*time.Second, cancel) }}
			again := open(t, client, append(meter.DialOptions(), looked.dialOptions()...)...)
			other := rollup.NewCoalescer(again, rollup.Options{Cadence: time.Hour, Timeout: time.Minute, Logger: slog.New(slog.DiscardHandler)})
			_, err := other.HandleEvent(ctx, rollup.Event{ID: "e2"}, route.Concern{Counter: c})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want the end of the test", err)
			}
			want := before.Add(test.young)
			if got := meter.Counts(); got != want {
				t.Errorf("a look at a young roll-up brought %+v to %+v, want %+v", before, got, want)
			}
		})
	}
}

// A total of 0 says nothing of how many shards are numbers; that alone must not cost a read of
// each.
func TestBilledAtZero(t *testing.T) {
	client := dial(t)
	fill(t, client, 20)
	if _, err := client.Doc("counters/likes/shards/0").Set(t.Context(), map[string]any{"count": -19}); err != nil {
		t.Fatal(err)
	}
	meter := billing.NewMeter(nil)
	store := open(t, client, meter.DialOptions()...)
	if totals := sum(t, view(t, store, counter(t, route.Default))); totals.Values["count"] != value.Int(0) {
		t.Errorf("sum is %v, want 0", totals.Values["count"])
	}
	if want := (billing.Counts{Reads: 3}); meter.Counts() != want {
		t.Errorf("billed %+v, want %+v", meter.Counts(), want)
	}
}

// open opens the client's database as a Store that logs nothing.
func open(t testing.TB, client *firestore.Client, opts ...grpc.DialOption) *firestorestore.Store {
	t.Helper()
	return openLogging(t, client, slog.New(slog.DiscardHandler), opts...)
}

func openLogging(t testing.TB, client *firestore.Client, logger *slog.Logger, opts ...grpc.DialOption) *firestorestore.Store {
	t.Helper()
	parts := strings.Split(client.Doc("a/b").Path, "/")
	store, err := firestorestore.Open(t.Context(), emulatortest.Addr(t), parts[1], parts[3], logger, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

// view opens a snapshot of a counter.
func view(t *testing.T, store *firestorestore.Store, c route.Counter) rollup.Snapshot {
	t.Helper()
	s, err := store.View(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func sum(t *testing.T, s rollup.Snapshot) route.Totals {
	t.Helper()
	totals, err := s.Sum(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return totals
}

// noIndex fails aggregation queries as those on a field without an index, and counts them. Other
// calls fail too while broken.
type noIndex struct {
	queries atomic.Int32
	broken  atomic.Bool
}

func (n *noIndex) dialOption() grpc.DialOption {
	return grpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		switch {
		case method == firestorepb.Firestore_RunAggregationQuery_FullMethodName:
			n.queries.Add(1)
		case method != firestorepb.Firestore_RunQuery_FullMethodName || !n.broken.Load():
			return open(ctx, desc, conn, method, opts...)
		}
		return nil, status.Error(codes.FailedPrecondition, "The query requires an index.")
	})
}

// A field without an index: the query fails, the shards are read one by one in the same snapshot,
// and the log says so once. The index is asked for again with each roll-up: it may be built
// meanwhile.
func TestMissingIndex(t *testing.T) {
	client := dial(t)
	fill(t, client, 3)
	var index noIndex
	var log strings.Builder
	store := openLogging(t, client, slog.New(slog.NewTextHandler(&log, nil)), index.dialOption())
	c := counter(t, route.Default)
	for i := range 3 {
		s := view(t, store, c)
		if _, err := client.Doc(fmt.Sprint("counters/likes/shards/later", i)).Set(t.Context(), map[string]any{"count": 1}); err != nil {
			t.Fatal(err)
		}
		n := int64(3 + i) // the write is later than the snapshot
		want := route.Totals{Values: map[string]value.Value{"count": value.Int(n)}, Shards: []int64{n}}
		if d := cmp.Diff(want, sum(t, s), cmp.AllowUnexported(value.Value{})); d != "" {
			t.Errorf("totals (-want +got):\n%s", d)
		}
	}
	if n := strings.Count(log.String(), "no index"); n != 1 || !strings.Contains(log.String(), ": documents") {
		t.Errorf("logged %d times:\n%s", n, &log)
	}
}

// Malformed shards that are read one by one are named, too.
func TestMissingIndexNamesMalformed(t *testing.T) {
	client := dial(t)
	fill(t, client, 3)
	if _, err := client.Doc("counters/likes/shards/text").Set(t.Context(), map[string]any{"count": "x"}); err != nil {
		t.Fatal(err)
	}
	var index noIndex
	s := view(t, open(t, client, index.dialOption()), counter(t, route.Default))
	totals := sum(t, s)
	named, err := s.Malformed(t.Context(), 5)
	if err != nil || totals.Malformed != 1 || len(named) != 1 || !strings.HasPrefix(named[0], "counters/likes/shards/text: count is ") {
		t.Errorf("%+v, named %q: %v", totals, named, err)
	}
}

// count() needs no index, so nothing is read in its stead.
func TestNoIndexOfCount(t *testing.T) {
	client := dial(t)
	fill(t, client, 3)
	var index noIndex
	var log strings.Builder
	store := openLogging(t, client, slog.New(slog.NewTextHandler(&log, nil)), index.dialOption())
	_, err := view(t, store, counter(t, "counters/{c}/shards/{s} -> rollups/{c} : count()")).Sum(t.Context())
	if status.Code(err) != codes.FailedPrecondition || log.Len() > 0 {
		t.Errorf("got %v, logged %s", err, &log)
	}
}

// If the route also has count(), the remedy in the log does not name the option documents, which
// such a route may not have.
func TestMissingIndexWithCount(t *testing.T) {
	client := dial(t)
	fill(t, client, 3)
	exempt := grpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		stream, err := open(ctx, desc, conn, method, opts...)
		return exemptField{stream}, err
	})
	var log strings.Builder
	store := openLogging(t, client, slog.New(slog.NewTextHandler(&log, nil)), exempt)
	_, err := view(t, store, counter(t, "counters/{c}/shards/{s} -> rollups/{c} : count() as n, count")).Sum(t.Context())
	if err != nil || !strings.Contains(log.String(), "create the index shards (count ASC)") || strings.Contains(log.String(), ": documents") {
		t.Errorf("got %v, logged %s", err, &log)
	}
}

// exemptField refuses sums, as of a field that is exempt from indexing.
type exemptField struct{ grpc.ClientStream }

func (s exemptField) SendMsg(m any) error {
	r, ok := m.(*firestorepb.RunAggregationQueryRequest)
	if ok && len(r.GetStructuredAggregationQuery().GetAggregations()) > 1 { // not the count alone
		return status.Error(codes.FailedPrecondition, "The query requires an index.")
	}
	return s.ClientStream.SendMsg(m)
}

// Somebody exempts a group's field from indexing. Then not even the documents of the group can be
// found, however few they are. The counter is unkept, and the error names the index. If the query
// is refused for another reason, it is not.
func TestExemptGroup(t *testing.T) {
	client := dial(t)
	bulkCommit(t, client, 3, func(i int) string { return fmt.Sprint("orders/", i) }, map[string]any{"shop": "a", "amount": 1, "paid": true})
	for refusal, want := range map[string]bool{
		"The query requires an index.": true,
		"The query requires a COLLECTION_ASC index for collection orders and field shop. You can create it here: https://…": true,
		"The Cloud Firestore API is not available for Datastore Mode projects.":                                             false,
	} {
		exempt := grpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			stream, err := open(ctx, desc, conn, method, opts...)
			return exemptShop{stream, refusal}, err
		})
		for _, total := range []string{"count() as n", "sum(amount) as n", "count() where paid == true as n", "maximum(amount) as n"} {
			shops, _ := template(t, "orders/{order} by shop -> shops/{shop} : "+total+" : existing")
			c, _ := shops.Counter("shops/a")
			_, err := view(t, open(t, client, exempt), c).Sum(t.Context())
			if status.Code(err) != codes.FailedPrecondition || errors.Is(err, rollup.ErrUnkept) != want {
				t.Errorf("%s, refused by %q: got %v, want it unkept: %v", total, refusal, err, want)
			}
			if want && !strings.Contains(err.Error(), "the field shop is exempt from indexing; create the index orders (shop ASC)") {
				t.Errorf("%s: got %v, want it to name the index", total, err)
			}
		}
	}
}

// exemptShop refuses queries that test the field shop.
type exemptShop struct {
	grpc.ClientStream
	refusal string
}

func (s exemptShop) SendMsg(m any) error {
	if strings.Contains(fmt.Sprint(m), `field_path:"shop"`) {
		return status.Error(codes.FailedPrecondition, s.refusal)
	}
	return s.ClientStream.SendMsg(m)
}

// A query that fails for another reason than its index fails again when the shards are read.
func TestNotTheIndex(t *testing.T) {
	client := dial(t)
	fill(t, client, 1)
	var index noIndex
	index.broken.Store(true)
	var log strings.Builder
	store := openLogging(t, client, slog.New(slog.NewTextHandler(&log, nil)), index.dialOption())
	for i := range int32(2) {
		_, err := view(t, store, counter(t, route.Default)).Sum(t.Context())
		if err == nil || index.queries.Load() != i+1 || log.Len() > 0 {
			t.Errorf("got %v after %d aggregation queries, want an error after %d and no word of an index: %s", err, index.queries.Load(), i+1, &log)
		}
	}
}

// Firestore's answers to a write, by what the engine makes of them.
func TestWriteErrors(t *testing.T) {
	client := dial(t)
	for code, conflict := range map[codes.Code]bool{
		codes.FailedPrecondition: true, codes.AlreadyExists: true, codes.NotFound: true, codes.Aborted: true,
		codes.DeadlineExceeded: false, codes.PermissionDenied: false, codes.Internal: false, codes.Unknown: false, codes.InvalidArgument: false,
	} {
		fail := grpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			return status.Error(code, "injected")
		})
		store := open(t, client, fail)
		err := store.Write(t.Context(), counter(t, route.Default), rollup.RollUp{})
		if err == nil || errors.Is(err, rollup.ErrConflict) != conflict || status.Code(err) != code {
			t.Errorf("%v: got %v, want a conflict: %v", code, err, conflict)
		}
		if unkept := code == codes.InvalidArgument; errors.Is(err, rollup.ErrUnkept) != unkept {
			t.Errorf("%v: got %v, want it unkept: %v", code, err, unkept)
		}
	}
}

// A document without room for its totals is refused for good, and stays as it is, whatever its path
// is.
func TestFullDocument(t *testing.T) {
	client := dial(t)
	store := open(t, client)
	fill(t, client, 1)
	post := client.Doc("transactions/likes")
	const most = 1 << 20 // bytes of a document: https://firebase.google.com/docs/firestore/quotas#collections_documents_and_fields
	if _, err := post.Set(t.Context(), map[string]any{"text": strings.Repeat("x", most-100)}); err != nil {
		t.Fatal(err)
	}
	c := counter(t, "counters/{c}/shards/{s} -> transactions/{c} : count")
	s := view(t, store, c)
	written := rollup.RollUp{Values: sum(t, s).Values, UpdateTime: s.RollUp().UpdateTime}
	if err := store.Write(t.Context(), c, written); !errors.Is(err, rollup.ErrUnkept) {
		t.Errorf("got %v, want ErrUnkept", err)
	}
	if err := store.WriteLocked(t.Context(), c, written, document.Tally{}); !errors.Is(err, rollup.ErrUnkept) {
		t.Errorf("in a lock: got %v, want ErrUnkept", err)
	}
	doc, err := post.Get(t.Context())
	if err != nil || len(doc.Data()) != 1 {
		t.Errorf("the document holds %d fields, %v", len(doc.Data()), err)
	}
}

// Firestore calls a sum invalid whose transaction has expired. The next look's will not have. The
// emulator keeps transactions, so this one is of a transaction that never was.
func TestUnknownTransaction(t *testing.T) {
	client := dial(t)
	fill(t, client, 1)
	unknown := grpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		stream, err := open(ctx, desc, conn, method, opts...)
		return unknownTransaction{stream}, err
	})
	_, err := view(t, open(t, client, unknown), counter(t, route.Default)).Sum(t.Context())
	if status.Code(err) != codes.InvalidArgument || errors.Is(err, rollup.ErrUnkept) {
		t.Errorf("got %v, want INVALID_ARGUMENT that a new look fixes", err)
	}
}

// unknownTransaction sends aggregation queries in another transaction than theirs.
type unknownTransaction struct{ grpc.ClientStream }

func (s unknownTransaction) SendMsg(m any) error {
	if r, ok := m.(*firestorepb.RunAggregationQueryRequest); ok {
		transaction := r.ConsistencySelector.(*firestorepb.RunAggregationQueryRequest_Transaction)
		for i := range transaction.Transaction[1:] {
			transaction.Transaction[i+1] ^= 0x55
		}
	}
	return s.ClientStream.SendMsg(m)
}

// What production says is told so by its users.
func TestExpiredTransaction(t *testing.T) {
	client := dial(t)
	fill(t, client, 1)
	for message, unkept := range map[string]bool{
		"The referenced transaction has expired or is no longer valid.": false, // https://github.com/googleapis/google-cloud-php/issues/5396
		"Invalid transaction.":                                                    false,
		"The value is too large to be used in a query.":                           true,
		"The document posts/the referenced transaction has expired is too large.": true,
	} {
		fail := grpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			if method == firestorepb.Firestore_RunAggregationQuery_FullMethodName {
				return nil, status.Error(codes.InvalidArgument, message)
			}
			return open(ctx, desc, conn, method, opts...)
		})
		_, err := view(t, open(t, client, fail), counter(t, route.Default)).Sum(t.Context())
		if err == nil || errors.Is(err, rollup.ErrUnkept) != unkept {
			t.Errorf("%s: got %v, want it unkept: %v", message, err, unkept)
		}
	}
}

// Clients' increments neither wait nor fail while a roll-up's snapshot is open.
func TestClientsAreNotBlocked(t *testing.T) {
	client := dial(t)
	fill(t, client, 10)
	snapshot := view(t, open(t, client), counter(t, route.Default))
	if totals := sum(t, snapshot); totals.Values["count"] != value.Int(10) {
		t.Errorf("sum is %v, want 10", totals.Values["count"])
	}
	// The emulator keeps a write waiting for 2 s when a lock is in its way, and then aborts it. The
	// snapshot stays open.
	failed := make(chan error)
	for i := range 20 {
		go func() {
			shard := client.Doc(fmt.Sprintf("counters/likes/shards/%d", i%10))
			_, err := shard.Update(t.Context(), []firestore.Update{{Path: "count", Value: firestore.Increment(1)}})
			failed <- err
		}()
	}
	for range 20 {
		if err := <-failed; err != nil {
			t.Errorf("an increment failed while the snapshot was open: %v", err)
		}
	}
}

func TestNamedDatabase(t *testing.T) {
	client := dial(t)
	project := strings.Split(client.Doc("a/b").Path, "/")[1]
	named, err := firestorestore.Dial(t.Context(), emulatortest.Addr(t), project, "other")
	if err != nil {
		t.Fatal(err)
	}
	defer named.Close()
	fill(t, named, 3)
	for client, want := range map[*firestore.Client]int64{client: 0, named: 3} {
		if totals := sum(t, view(t, open(t, client), counter(t, route.Default))); totals.NumShards() != want {
			t.Errorf("%d shards, want %d", totals.NumShards(), want)
		}
	}
}
