package firestorestore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// indexed refuses queries that need a composite index which is not there, as Firestore does and the
// emulator does not.
type indexed struct {
	has func(route.Index) bool

	mu    sync.Mutex
	asked []route.Index // those that queries needed, sorted
}

func (x *indexed) dialOption() grpc.DialOption {
	return grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		stream, err := open(ctx, desc, conn, method, opts...)
		return indexedStream{stream, x}, err
	})
}

type indexedStream struct {
	grpc.ClientStream
	*indexed
}

func (s indexedStream) SendMsg(msg any) error {
	var query *firestorepb.StructuredQuery
	var aggregations []*firestorepb.StructuredAggregationQuery_Aggregation
	switch req := msg.(type) {
	case *firestorepb.RunQueryRequest:
		query = req.GetStructuredQuery()
	case *firestorepb.RunAggregationQueryRequest:
		query = req.GetStructuredAggregationQuery().GetStructuredQuery()
		aggregations = req.GetStructuredAggregationQuery().GetAggregations()
	}
	need, needs := needed(query, aggregations)
	if !needs {
		return s.ClientStream.SendMsg(msg)
	}

	s.mu.Lock()
	if i, known := slices.BinarySearchFunc(s.asked, need, route.Index.Compare); !known {
		s.asked = slices.Insert(s.asked, i, need)
	}
	s.mu.Unlock()
	if s.has(need) {
		return s.ClientStream.SendMsg(msg)
	}
	return status.Error(codes.FailedPrecondition, "The query requires an index.")
}

// needed returns the composite index that a query needs, by Firestore's rules: the fields that must
// be equal, in any order, and then those of ranges, orders and aggregations. It merges indexes of
// single fields for equal ones alone
// (https://firebase.google.com/docs/firestore/query-data/index-overview).
func needed(query *firestorepb.StructuredQuery, aggregations []*firestorepb.StructuredAggregationQuery_Aggregation) (route.Index, bool) {
	var equal []string
	var rest []route.IndexField
	then := func(field string, descending bool) {
		same := func(f route.IndexField) bool { return string(f.Field) == field }
		if field != "" && field != "__name__" && !slices.Contains(equal, field) && !slices.ContainsFunc(rest, same) {
			rest = append(rest, route.IndexField{Field: document.Field(field), Descending: descending})
		}
	}

	filters := query.GetWhere().GetCompositeFilter().GetFilters()
	if filters == nil {
		filters = []*firestorepb.StructuredQuery_Filter{query.GetWhere()}
	}
	var ranges []string
	for _, f := range filters {
		field := f.GetFieldFilter().GetField().GetFieldPath()
		switch {
		case f.GetUnaryFilter() != nil:
			equal = append(equal, f.GetUnaryFilter().GetField().GetFieldPath())
		case f.GetFieldFilter().GetOp() == firestorepb.StructuredQuery_FieldFilter_EQUAL:
			equal = append(equal, field)
		default:
			ranges = append(ranges, field)
		}
	}
	for _, o := range query.GetOrderBy() {
		then(o.GetField().GetFieldPath(), o.Direction == firestorepb.StructuredQuery_DESCENDING)
	}
	for _, field := range ranges {
		then(field, false)
	}
	for _, a := range aggregations {
		then(a.GetSum().GetField().GetFieldPath(), false)
		then(a.GetAvg().GetField().GetFieldPath(), false)
	}
	if len(rest) == 0 || len(equal)+len(rest) == 1 {
		return route.Index{}, false
	}

	slices.Sort(equal)
	need := route.Index{Collection: query.From[0].CollectionId}
	for _, field := range equal {
		need.Fields = append(need.Fields, route.IndexField{Field: document.Field(field)})
	}
	need.Fields = append(need.Fields, rest...)
	return need, true
}

const indexedRoutes = `
	orders/{order} by customer.shop -> shops/{customer.shop} : count() as orders, sum(amount) as revenue, sum(amount) where status == "paid" and open == false as paid,
		average(amount) where status == "paid" as mean, maximum(amount) as most, minimum(amount) where note == null as least, latest(at) as last,
		earliest(` + "`first at`" + `) where open == true as first, count() where open == true and status == "paid" as now : existing
	shops/{shop}/ratings/{rater} -> shops/{shop} : count() as ratings, average(stars) as rating, maximum(stars) as best, sum(stars) where checked == true as checked : existing`

// order returns a document of the routes' first, whose values are not all numbers.
func order(i int) map[string]any {
	values := []any{1.5, -2, 2, "x", -1.5}
	return map[string]any{"customer": map[string]any{"shop": "a"}, "amount": values[i%len(values)], "status": "paid", "open": i%2 == 0, "note": nil, "at": time.Unix(int64(i), 0).UTC()}
}

// The queries of all that a store does need the composite indexes that rollup names, and no others.
func TestIndexes(t *testing.T) {
	t.Parallel()
	_, routes := template(t, indexedRoutes)
	client := dial(t)
	bulkEach(t, client, 20, func(i int) string { return fmt.Sprintf("orders/%d", i) }, order)
	bulkCommit(t, client, 3, func(i int) string { return fmt.Sprintf("shops/a/ratings/%d", i) }, map[string]any{"stars": 0.5, "checked": true})
	bulkCommit(t, client, 1, func(int) string { return "shops/a" }, map[string]any{"name": "x"})

	index := indexed{has: func(x route.Index) bool {
		return slices.ContainsFunc(routes.Indexes(), func(y route.Index) bool { return x.Compare(y) == 0 })
	}}
	var log bytes.Buffer
	store := openLogging(t, client, slog.New(slog.NewTextHandler(&log, nil)), index.dialOption())
	c, _ := routes[0].Template.Counter("shops/a")
	s := view(t, store, c)
	if totals := sum(t, s); totals.Malformed == 0 || totals.Values["rating"] != value.Double(0.5) {
		t.Errorf("%+v", totals)
	}
	if _, err := s.Malformed(t.Context(), 1000); err != nil { // so many that it makes all its queries
		t.Error(err)
	}
	for _, name := range c.Template.Totals() {
		if _, err := s.Magnitude(t.Context(), name); err != nil {
			t.Error(err)
		}
	}
	o := rollup.AuditOptions{Options: rollup.Options{Cadence: time.Second, Timeout: time.Minute, Logger: slog.New(slog.DiscardHandler)}, Concurrency: 1}
	if report, err := rollup.Audit(t.Context(), store, routes, o); err != nil || report.RolledUp != 1 {
		t.Errorf("%+v, %v", report, err)
	}

	spell := func(indexes []route.Index) (texts []string) {
		for _, x := range indexes {
			texts = append(texts, x.String())
		}
		return texts
	}
	if d := cmp.Diff(spell(routes.Indexes()), spell(index.asked)); d != "" {
		t.Errorf("composite indexes (-named +needed):\n%s", d)
	}
	if log.Len() > 0 {
		t.Errorf("logged %s", &log)
	}
}

// Without one of the indexes the counter's documents are read one by one, in the same snapshot, by
// what they have equal. The log says which index it is. Of too many the error says so, and of
// another counter's documents none is read.
func TestEachMissingIndex(t *testing.T) {
	t.Parallel()
	_, routes := template(t, indexedRoutes)
	client := dial(t)
	bulkEach(t, client, 20, func(i int) string { return fmt.Sprintf("orders/%d", i) }, order)
	bulkCommit(t, client, rollup.MaxUnindexed+1, func(i int) string { return fmt.Sprintf("orders/b%d", i) }, map[string]any{"customer": map[string]any{"shop": "b"}, "amount": 1})
	bulkCommit(t, client, rollup.MaxUnindexed+1, func(i int) string { return fmt.Sprintf("shops/b/ratings/%d", i) }, map[string]any{"stars": 1})
	small, _ := routes[0].Template.Counter("shops/a")
	large, _ := routes[0].Template.Counter("shops/b")
	want := sum(t, view(t, open(t, client), small))

	for _, missing := range routes.Indexes() {
		index := indexed{has: func(x route.Index) bool { return x.Compare(missing) != 0 }}
		var log bytes.Buffer
		store := openLogging(t, client, slog.New(slog.NewTextHandler(&log, nil)), index.dialOption())
		_, err := view(t, store, large).Sum(t.Context())
		if !errors.Is(err, rollup.ErrUnkept) || !strings.Contains(err.Error(), "create the index "+missing.String()) || log.Len() > 0 {
			t.Errorf("%v: got %v of many documents, logged %s", missing, err, &log)
		}
		for range 2 {
			if d := cmp.Diff(want, sum(t, view(t, store, small)), cmp.AllowUnexported(value.Value{})); d != "" {
				t.Errorf("without %v (-want +got):\n%s", missing, d)
			}
		}
		said := strings.Count(log.String(), "create the index "+strings.ReplaceAll(missing.String(), `"`, `\"`))
		if missing.Collection == "orders" && said != 1 {
			t.Errorf("%v: logged %d times:\n%s", missing, said, &log)
		}
	}
}
