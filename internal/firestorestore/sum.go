package firestorestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/firestore-tally/tally/rollup"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A snapshot is a read-only transaction.
type snapshot struct {
	store       *Store
	counter     rollup.Counter
	transaction []byte
	readTime    time.Time
	rollUp      rollup.RollUp

	suspects []string           // fields that Sum found malformed shards of, without their names
	named    []rollup.Malformed // those that Sum came across
}

func (v *snapshot) ReadTime() time.Time   { return v.readTime }
func (v *snapshot) RollUp() rollup.RollUp { return v.rollUp }

// maxUnindexed is how many shards are read one by one for want of an index, unless the route says so:
// what costs 2 reads by an aggregation must not cost 200,000.
const maxUnindexed = 1000

// Sum implements rollup.Snapshot.
func (v *snapshot) Sum(ctx context.Context) (rollup.Totals, error) {
	route := v.counter.Route
	if route.Documents {
		return v.sumDocuments(ctx, math.MaxInt)
	}
	totals, err := v.aggregate(ctx)
	if status.Code(err) == codes.FailedPrecondition {
		totals, documentsErr := v.sumDocuments(ctx, maxUnindexed)
		if documentsErr != nil {
			return totals, documentsErr
		}
		if _, said := v.store.unindexed.LoadOrStore(route, true); !said { // most likely it was the index that the query lacked
			v.store.logger.WarnContext(ctx, "no index for the aggregation query; reading each shard instead, which bills one read a shard. "+
				"If the field is exempt from indexing on purpose, add \": documents\" to its route", "route", route.String(), "error", err)
		}
		return totals, nil
	}
	if err != nil {
		return rollup.Totals{}, fmt.Errorf("firestore: summing %s: %w", v.counter.Shards, err)
	}
	return totals, nil
}

// aggregate sums by aggregation queries, one for each field and all at once: a query over two fields
// leaves out the shards that lack either.
func (v *snapshot) aggregate(ctx context.Context) (rollup.Totals, error) {
	fields := v.counter.Route.Fields
	totals := rollup.Totals{Sums: make(map[string]rollup.Number, len(fields))}
	answers := make([]answer, len(fields))
	asking, all := errgroup.WithContext(ctx)
	for i, field := range fields {
		asking.Go(func() (err error) {
			answers[i], err = v.sumField(all, field)
			return err
		})
	}
	if err := asking.Wait(); err != nil {
		return rollup.Totals{}, err
	}
	v.suspects = nil
	for i, field := range fields {
		a := answers[i]
		totals.Sums[field] = a.sum
		totals.NumShards = max(totals.NumShards, a.count)
		totals.Malformed += a.malformed
		if a.malformed > 0 {
			v.suspects = append(v.suspects, field)
		}
	}
	return totals, nil
}

// An answer is what an aggregation query answers for one field.
type answer struct {
	sum       rollup.Number
	average   rollup.Number
	averaged  bool  // there was a number
	count     int64 // documents that have the field, of any type
	malformed int64 // of these, those whose value is no finite number
}

// sumField sums a field over the shards where it is a finite number. SUM and AVG leave other types
// out, so their quotient is how many numbers there were. Where that is not COUNT, or a sum of 0 hides
// it, a second query takes exactly the finite numbers.
func (v *snapshot) sumField(ctx context.Context, field string) (answer, error) {
	a, err := v.ask(ctx, field, nil)
	if err != nil || a.count == 0 || a.allFinite() {
		return a, err
	}
	path := &firestorepb.StructuredQuery_FieldReference{FieldPath: fieldPath(field)}
	finite, err := v.ask(ctx, field, &firestorepb.StructuredQuery_Filter{FilterType: &firestorepb.StructuredQuery_Filter_CompositeFilter{
		CompositeFilter: &firestorepb.StructuredQuery_CompositeFilter{Op: firestorepb.StructuredQuery_CompositeFilter_AND, Filters: []*firestorepb.StructuredQuery_Filter{
			fieldFilter(path, firestorepb.StructuredQuery_FieldFilter_GREATER_THAN, math.Inf(-1)),
			fieldFilter(path, firestorepb.StructuredQuery_FieldFilter_LESS_THAN, math.Inf(1)),
		}},
	}})
	if err != nil {
		return a, err
	}
	switch sum := finite.sum.Float(); { // of finite numbers, but perhaps beyond the largest double
	case math.IsNaN(sum):
		return a, fmt.Errorf("the sum of %s goes beyond the largest double, both ways", field)
	case math.IsInf(sum, 0):
		finite.sum = rollup.Double(math.Copysign(math.MaxFloat64, sum))
	}
	return answer{sum: finite.sum, count: a.count, malformed: a.count - finite.count}, nil
}

// allFinite reports whether the answer shows that all values were finite numbers.
func (a answer) allFinite() bool {
	if !a.averaged || !a.sum.Finite() || a.sum.Float() == 0 || a.average.Float() == 0 {
		return false
	}
	return math.Round(a.sum.Float()/a.average.Float()) == float64(a.count)
}

func fieldFilter(path *firestorepb.StructuredQuery_FieldReference, op firestorepb.StructuredQuery_FieldFilter_Operator, value float64) *firestorepb.StructuredQuery_Filter {
	return &firestorepb.StructuredQuery_Filter{FilterType: &firestorepb.StructuredQuery_Filter_FieldFilter{
		FieldFilter: &firestorepb.StructuredQuery_FieldFilter{Field: path, Op: op, Value: &firestorepb.Value{ValueType: &firestorepb.Value_DoubleValue{DoubleValue: value}}},
	}}
}

// ask runs one aggregation query.
func (v *snapshot) ask(ctx context.Context, field string, where *firestorepb.StructuredQuery_Filter) (answer, error) {
	parent, collection := v.store.database+"/documents", v.counter.Shards
	if i := strings.LastIndexByte(collection, '/'); i >= 0 {
		parent, collection = parent+"/"+collection[:i], collection[i+1:]
	}
	query := &firestorepb.StructuredQuery{From: []*firestorepb.StructuredQuery_CollectionSelector{{CollectionId: collection}}, Where: where}
	path := &firestorepb.StructuredQuery_FieldReference{FieldPath: fieldPath(field)}
	stream, err := v.store.api.RunAggregationQuery(v.store.routed(ctx), &firestorepb.RunAggregationQueryRequest{
		Parent:              parent,
		ConsistencySelector: &firestorepb.RunAggregationQueryRequest_Transaction{Transaction: v.transaction},
		QueryType: &firestorepb.RunAggregationQueryRequest_StructuredAggregationQuery{StructuredAggregationQuery: &firestorepb.StructuredAggregationQuery{
			QueryType: &firestorepb.StructuredAggregationQuery_StructuredQuery{StructuredQuery: query},
			Aggregations: []*firestorepb.StructuredAggregationQuery_Aggregation{
				{Alias: "sum", Operator: &firestorepb.StructuredAggregationQuery_Aggregation_Sum_{Sum: &firestorepb.StructuredAggregationQuery_Aggregation_Sum{Field: path}}},
				{Alias: "average", Operator: &firestorepb.StructuredAggregationQuery_Aggregation_Avg_{Avg: &firestorepb.StructuredAggregationQuery_Aggregation_Avg{Field: path}}},
				{Alias: "count", Operator: &firestorepb.StructuredAggregationQuery_Aggregation_Count_{Count: new(firestorepb.StructuredAggregationQuery_Aggregation_Count)}},
			},
		}},
	})
	if err != nil {
		return answer{}, err
	}
	var result map[string]any
	for {
		switch message, err := stream.Recv(); {
		case errors.Is(err, io.EOF):
			return answerOf(result)
		case err != nil:
			return answer{}, err
		case message.Result != nil:
			result = decodeFields(message.Result.AggregateFields)
		}
	}
}

func answerOf(result map[string]any) (a answer, err error) {
	var summed, counted bool
	a.sum, summed = rollup.NumberOf(result["sum"])
	a.average, a.averaged = rollup.NumberOf(result["average"]) // the average of no numbers is null
	a.count, counted = result["count"].(int64)
	if !summed || !counted {
		return answer{}, fmt.Errorf("the aggregation answered %v", result)
	}
	return a, nil
}

// read reads the shards that a query finds, as of the snapshot's instant.
func (v *snapshot) read(ctx context.Context, query firestore.Query) ([]rollup.Shard, error) {
	documents, err := query.WithReadOptions(firestore.ReadTime(v.readTime)).Documents(ctx).GetAll()
	shards := make([]rollup.Shard, len(documents))
	for i, d := range documents {
		shards[i] = rollup.Shard{Path: Path(d.Ref), Fields: d.Data()}
	}
	return shards, err
}

// sumDocuments sums by reading every shard, if they are not more than limit.
func (v *snapshot) sumDocuments(ctx context.Context, limit int) (rollup.Totals, error) {
	var fields []firestore.FieldPath
	for _, field := range v.counter.Route.Fields {
		fields = append(fields, firestore.FieldPath{field})
	}
	query := v.store.client.Collection(v.counter.Shards).SelectPaths(fields...)
	if limit < math.MaxInt {
		query = query.Limit(limit + 1)
	}
	shards, err := v.read(ctx, query)
	if err != nil {
		return rollup.Totals{}, fmt.Errorf("firestore: reading %s: %w", v.counter.Shards, err)
	}
	if len(shards) > limit {
		return rollup.Totals{}, fmt.Errorf("firestore: %s holds more than %d shards and no index of %s; index it, or add \": documents\" to its route to have each read, which bills one read a shard",
			v.counter.Shards, limit, strings.Join(v.counter.Route.Fields, ", "))
	}
	totals, malformed := rollup.SumShards(v.counter.Route, shards)
	v.named = malformed
	return totals, nil
}

// Malformed implements rollup.Snapshot. In Firestore's order of values, whatever is no finite number
// lies at or behind infinity, or at or before minus infinity: two queries find it
// (https://firebase.google.com/docs/firestore/manage-data/data-types#value_type_ordering).
func (v *snapshot) Malformed(ctx context.Context, most int) ([]rollup.Malformed, error) {
	named := v.named[:min(len(v.named), most)]
	for _, field := range v.suspects {
		path := firestore.FieldPath{field}
		query := v.store.client.Collection(v.counter.Shards).SelectPaths(path)
		for _, end := range []firestore.Query{
			query.OrderByPath(path, firestore.Asc).StartAt(math.Inf(1)),
			query.OrderByPath(path, firestore.Desc).StartAt(math.Inf(-1)),
		} {
			if len(named) == most {
				return named, nil
			}
			shards, err := v.read(ctx, end.Limit(most-len(named)))
			if err != nil {
				return named, fmt.Errorf("firestore: finding malformed shards of %s: %w", v.counter.Shards, err)
			}
			for _, s := range shards {
				named = append(named, rollup.MalformedShard(s.Path, field, s.Fields[field]))
			}
		}
	}
	return named, nil
}
