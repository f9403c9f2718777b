package firestorestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// A snapshot is a read-only transaction.
type snapshot struct {
	store       *Store
	counter     rollup.Counter
	opening     sync.Mutex // held until a snapshot of Sources is open; guards the next two till then
	transaction []byte
	readTime    time.Time
	rollUp      rollup.RollUp

	added    map[string]addends // by total, those that Firestore summed
	named    []string           // those malformed that Sum came across
	suspects []suspect          // those that Sum counted, without their names
}

// Addends are the numbers that one aggregation query has summed.
type addends struct {
	collection, field string
	sum               float64
}

// A suspect is a field of a collection's documents of which some are malformed.
type suspect struct{ collection, field string }

func (v *snapshot) ReadTime() time.Time   { return v.readTime }
func (v *snapshot) RollUp() rollup.RollUp { return v.rollUp }

// maxUnindexed is how many shards are read one by one for want of an index, unless the route says
// so: what costs 2 reads by an aggregation must not cost 200,000.
const maxUnindexed = 1000

// Sum implements rollup.Snapshot. It asks for all totals at once.
func (v *snapshot) Sum(ctx context.Context) (rollup.Totals, error) {
	routes := v.counter.Template.Routes
	v.added, v.named, v.suspects = make(map[string]addends), nil, nil
	parts := make([]part, len(routes))
	summing, all := errgroup.WithContext(ctx)
	for i, r := range routes {
		summing.Go(func() (err error) {
			parts[i], err = v.sumRoute(all, r)
			return err
		})
	}
	if err := summing.Wait(); err != nil {
		return rollup.Totals{}, err
	}
	totals := make([]rollup.Totals, len(parts))
	for i, p := range parts {
		totals[i] = p.Totals
		maps.Copy(v.added, p.added)
		v.named, v.suspects = append(v.named, p.named...), append(v.suspects, p.suspects...)
	}
	return rollup.JoinTotals(totals), nil
}

// A part is what one route's shards add up to.
type part struct {
	rollup.Totals
	added    map[string]addends
	named    []string
	suspects []suspect
}

func (v *snapshot) sumRoute(ctx context.Context, r *rollup.Route) (part, error) {
	collection := r.Shards(v.counter)
	if r.Documents {
		return v.sumDocuments(ctx, r, collection, math.MaxInt)
	}
	p, err := v.aggregate(ctx, r, collection)
	if status.Code(err) == codes.FailedPrecondition && len(r.Fields()) > 0 {
		p, documentsErr := v.sumDocuments(ctx, r, collection, maxUnindexed)
		if documentsErr != nil {
			return p, documentsErr
		}
		if _, said := v.store.unindexed.LoadOrStore(r, true); !said { // most likely it was the index that the query lacked
			v.store.logger.WarnContext(ctx, "no index for the aggregation query; reading each shard instead, which bills one read a shard", "remedy", remedy(r), "route", r.String(), "error", err)
		}
		return p, nil
	}
	if err != nil {
		return p, fmt.Errorf("firestore: summing %s: %w", collection, unkept(err))
	}
	return p, nil
}

// aggregate sums by aggregation queries, one for each total and all at once: a query over two
// fields leaves out the shards that lack either.
func (v *snapshot) aggregate(ctx context.Context, r *rollup.Route, collection string) (part, error) {
	shards := v.store.client.Collection(collection).Query
	answers := make([]answer, len(r.Totals))
	asking, all := errgroup.WithContext(ctx)
	for i, t := range r.Totals {
		asking.Go(func() (err error) {
			if t.Field != "" {
				answers[i], err = v.sumField(all, shards, t.Field)
				return err
			}
			answers[i], err = v.ask(all, shards, "")
			answers[i].sum = rollup.Int(answers[i].count)
			return err
		})
	}
	if err := asking.Wait(); err != nil {
		return part{}, err
	}
	p := part{
		Totals: rollup.Totals{Sums: make(map[string]rollup.Number, len(answers)), Shards: []int64{0}},
		added:  make(map[string]addends),
	}
	for i, a := range answers {
		p.Sums[r.Totals[i].Name] = a.sum
		p.added[r.Totals[i].Name] = addends{collection, r.Totals[i].Field, a.sum.Float()}
		p.Shards[0] = max(p.Shards[0], a.count)
		p.Malformed += a.malformed
		if a.malformed > 0 {
			p.suspects = append(p.suspects, suspect{collection, r.Totals[i].Field})
		}
	}
	return p, nil
}

// An answer is what an aggregation query answers for one total.
type answer struct {
	sum       rollup.Number // 0 if only documents are counted
	average   rollup.Number // 0 of no numbers
	count     int64         // documents that have the field, of any type
	malformed int64         // of these, those whose value is no finite number
}

// sumField sums a field over the shards where it is a finite number. SUM and AVG leave other types
// out, so their quotient is how many numbers there were. Where that is not COUNT, or a sum of 0
// hides it, a second query takes exactly the finite numbers.
func (v *snapshot) sumField(ctx context.Context, shards firestore.Query, field string) (answer, error) {
	a, err := v.ask(ctx, shards, field)
	if err != nil || a.count == 0 || a.allFinite() {
		return a, err
	}
	path := firestore.FieldPath{field}
	finite, err := v.ask(ctx, shards.WherePath(path, ">", math.Inf(-1)).WherePath(path, "<", math.Inf(1)), field)
	if err != nil {
		return a, err
	}
	switch sum := finite.sum.Float(); { // of finite numbers, but perhaps beyond the largest double
	case math.IsNaN(sum):
		return a, fmt.Errorf("%w: the sum of %s goes beyond the largest double, both ways", rollup.ErrUnkept, field)
	case math.IsInf(sum, 0):
		finite.sum = rollup.Double(math.Copysign(math.MaxFloat64, sum))
	}
	return answer{sum: finite.sum, count: a.count, malformed: a.count - finite.count}, nil
}

// allFinite reports whether the answer shows that all values were finite numbers.
func (a answer) allFinite() bool {
	if !a.sum.Finite() || a.sum.Float() == 0 || a.average.Float() == 0 {
		return false
	}
	return math.Round(a.sum.Float()/a.average.Float()) == float64(a.count)
}

// ask runs one aggregation query over a field of the shards or, without one, counts them.
func (v *snapshot) ask(ctx context.Context, shards firestore.Query, field string) (answer, error) {
	text, err := shards.Serialize()
	if err != nil {
		return answer{}, err
	}
	var query firestorepb.RunQueryRequest
	if err := proto.Unmarshal(text, &query); err != nil {
		return answer{}, err
	}
	aggregations := []*firestorepb.StructuredAggregationQuery_Aggregation{
		{Alias: "count", Operator: &firestorepb.StructuredAggregationQuery_Aggregation_Count_{Count: new(firestorepb.StructuredAggregationQuery_Aggregation_Count)}},
	}
	if field != "" {
		path := &firestorepb.StructuredQuery_FieldReference{FieldPath: fieldPath(field)}
		aggregations = append(aggregations,
			&firestorepb.StructuredAggregationQuery_Aggregation{Alias: "sum", Operator: &firestorepb.StructuredAggregationQuery_Aggregation_Sum_{Sum: &firestorepb.StructuredAggregationQuery_Aggregation_Sum{Field: path}}},
			&firestorepb.StructuredAggregationQuery_Aggregation{Alias: "average", Operator: &firestorepb.StructuredAggregationQuery_Aggregation_Avg_{Avg: &firestorepb.StructuredAggregationQuery_Aggregation_Avg{Field: path}}})
	}
	result, err := v.run(ctx, &firestorepb.RunAggregationQueryRequest{
		Parent: query.Parent,
		QueryType: &firestorepb.RunAggregationQueryRequest_StructuredAggregationQuery{StructuredAggregationQuery: &firestorepb.StructuredAggregationQuery{
			QueryType:    &firestorepb.StructuredAggregationQuery_StructuredQuery{StructuredQuery: query.GetStructuredQuery()},
			Aggregations: aggregations,
		}},
	})
	if err != nil {
		return answer{}, err
	}
	count, counted := result["count"].(int64)
	sum, summed := rollup.NumberOf(result["sum"])
	if !counted || !summed && field != "" {
		return answer{}, fmt.Errorf("the aggregation answered %v", result)
	}
	average, _ := rollup.NumberOf(result["average"])
	return answer{sum: sum, average: average, count: count}, nil
}

// run runs an aggregation query in the snapshot's transaction. If there is none yet, the query
// begins it, and others wait meanwhile.
func (v *snapshot) run(ctx context.Context, req *firestorepb.RunAggregationQueryRequest) (result map[string]any, err error) {
	v.opening.Lock()
	begins := len(v.transaction) == 0
	if begins {
		defer v.opening.Unlock()
		req.ConsistencySelector = &firestorepb.RunAggregationQueryRequest_NewTransaction{NewTransaction: readOnly()}
	} else {
		v.opening.Unlock()
		req.ConsistencySelector = &firestorepb.RunAggregationQueryRequest_Transaction{Transaction: v.transaction}
	}

	stream, err := v.store.api.RunAggregationQuery(v.store.routed(ctx), req)
	if err != nil {
		return nil, err
	}
	for {
		message, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF) && begins && (v.readTime.IsZero() || len(v.transaction) == 0):
			return nil, errors.New("answered without the transaction or its instant")
		case errors.Is(err, io.EOF):
			return result, nil
		case err != nil:
			return nil, err
		}
		if begins && len(message.Transaction) > 0 {
			v.transaction = message.Transaction
		}
		if begins && message.ReadTime != nil {
			v.readTime = message.ReadTime.AsTime().Truncate(time.Microsecond)
		}
		if message.Result != nil {
			result = decodeFields(message.Result.AggregateFields)
		}
	}
}

// instant returns the snapshot's instant, and opens it first if it is not.
func (v *snapshot) instant(ctx context.Context) (time.Time, error) {
	v.opening.Lock()
	defer v.opening.Unlock()
	if len(v.transaction) == 0 {
		if err := v.store.begin(ctx, v); err != nil {
			return time.Time{}, err
		}
	}
	return v.readTime, nil
}

// read reads the shards that a query finds, as of the snapshot's instant.
func (v *snapshot) read(ctx context.Context, query firestore.Query) ([]rollup.Shard, error) {
	instant, err := v.instant(ctx)
	if err != nil {
		return nil, err
	}
	documents, err := query.WithReadOptions(firestore.ReadTime(instant)).Documents(ctx).GetAll()
	shards := make([]rollup.Shard, len(documents))
	for i, d := range documents {
		shards[i] = rollup.Shard{Path: Path(d.Ref), Fields: d.Data()}
	}
	return shards, err
}

// sumDocuments sums by reading every shard, if they are not more than limit.
func (v *snapshot) sumDocuments(ctx context.Context, r *rollup.Route, collection string, limit int) (part, error) {
	query := v.store.client.Collection(collection).Select(r.Fields()...)
	if limit < math.MaxInt {
		query = query.Limit(limit + 1)
	}
	shards, err := v.read(ctx, query)
	if err != nil {
		return part{}, fmt.Errorf("firestore: reading %s: %w", collection, err)
	}
	if len(shards) > limit {
		return part{}, fmt.Errorf("%w: %s holds more than %d shards and no index of %s; %s",
			rollup.ErrUnkept, collection, limit, strings.Join(r.Fields(), ", "), remedy(r))
	}
	totals, malformed := rollup.SumShards(r, shards)
	return part{Totals: totals, named: malformed}, nil
}

// Claim implements rollup.Snapshot.
func (v *snapshot) Claim(ctx context.Context) (rollup.Claim, error) {
	path := document.ClaimPath(v.counter.RollUp)
	stream, err := v.store.api.BatchGetDocuments(v.store.routed(ctx), &firestorepb.BatchGetDocumentsRequest{
		Database:            v.store.database,
		Documents:           []string{v.store.database + "/documents/" + path},
		ConsistencySelector: &firestorepb.BatchGetDocumentsRequest_Transaction{Transaction: v.transaction},
	})
	if err != nil {
		return rollup.Claim{}, fmt.Errorf("firestore: reading %s: %w", path, err)
	}

	var claim rollup.Claim
	for {
		answer, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return claim, nil
		}
		if err != nil {
			return rollup.Claim{}, fmt.Errorf("firestore: reading %s: %w", path, err)
		}
		if d := answer.GetFound(); d != nil {
			claim = rollup.Claim{Claim: document.DecodeClaim(decodeFields(d.Fields)), UpdateTime: d.UpdateTime.AsTime()}
		}
	}
}

// remedy is what to do about a route that lacks an index. One with count() may not say documents.
func remedy(r *rollup.Route) string {
	if r.Counts() {
		return "index it"
	}
	return "index it, or add \": documents\" to its route to have each shard read, which bills one read a shard"
}

// Magnitude implements rollup.Snapshot. What lies above zero and what lies below make up the sum, so
// one query for the former tells both. Shards that were read one by one were summed exactly.
func (v *snapshot) Magnitude(ctx context.Context, name string) (float64, error) {
	added, ok := v.added[name]
	if !ok {
		return 0, nil
	}

	path := firestore.FieldPath{added.field}
	positive := v.store.client.Collection(added.collection).WherePath(path, ">", 0).WherePath(path, "<", math.Inf(1))
	a, err := v.ask(ctx, positive, added.field)
	if err != nil {
		return 0, fmt.Errorf("firestore: summing what is positive in %s: %w", added.collection, err)
	}
	return min(2*a.sum.Float()-added.sum, math.MaxFloat64), nil
}

// Malformed implements rollup.Snapshot. In Firestore's order of values, whatever is no finite
// number lies at or behind infinity, or at or before minus infinity: two queries find it
// (https://firebase.google.com/docs/firestore/manage-data/data-types#value_type_ordering).
func (v *snapshot) Malformed(ctx context.Context, most int) ([]string, error) {
	named := v.named[:min(len(v.named), most)]
	for _, s := range v.suspects {
		path := firestore.FieldPath{s.field}
		query := v.store.client.Collection(s.collection).SelectPaths(path)
		for _, end := range []firestore.Query{
			query.OrderByPath(path, firestore.Asc).StartAt(math.Inf(1)),
			query.OrderByPath(path, firestore.Desc).StartAt(math.Inf(-1)),
		} {
			if len(named) == most {
				return named, nil
			}
			shards, err := v.read(ctx, end.Limit(most-len(named)))
			if err != nil {
				return named, fmt.Errorf("firestore: finding malformed shards of %s: %w", s.collection, err)
			}
			for _, shard := range shards {
				named = append(named, rollup.MalformedShard(shard.Path, s.field, shard.Fields[s.field]))
			}
		}
	}
	return named, nil
}
