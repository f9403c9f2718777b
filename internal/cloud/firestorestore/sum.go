package firestorestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// A snapshot is a read-only transaction.
type snapshot struct {
	store       *Store
	counter     route.Counter
	opening     sync.Mutex // guards transaction and readTime until the transaction has begun
	transaction []byte
	readTime    time.Time
	now         time.Time // of windows, in the last sum
	rollUp      rollup.RollUp
	ownerless   bool

	added    map[string]addends // by total, for totals that Firestore summed
	named    []string           // the malformed shards that Sum has read
	suspects []field            // fields whose malformed values Sum has counted, and not read
}

// A field is a field of the documents that a query finds.
type field struct {
	of   firestore.Query
	path document.Field

	// ranged is another field, of which the query takes a range. "" if it takes none.
	ranged document.Field

	equal bool // the query tests the field for equality, so it has no order by it
	names bool // the query takes a range of names: see sources
}

// where returns the same field of fewer documents: those whose value compares to another as the
// operator says.
func (f field) where(operator string, than any) field {
	f.of = f.of.WherePath(f.path.Names(), operator, than)
	return f
}

// orderedBy returns the same field of the same documents, in the order of a range and of the field.
// So all queries take the same index, and leave out documents without the field. On Enterprise,
// only the order does that: a document counts whether or not it has what is summed. A range of
// names comes behind the field, even if that is tested for equality: without that order, Firestore
// would want an index with fields behind names, which it has not.
func (f field) orderedBy() field {
	if f.ranged != "" {
		f.of = f.of.OrderByPath(f.ranged.Names(), firestore.Asc)
	}
	switch {
	case f.path != "" && (!f.equal || f.names):
		f.of = f.of.OrderByPath(f.path.Names(), firestore.Asc)
	case f.names:
		f.of = f.of.OrderBy(firestore.DocumentID, firestore.Asc)
	}
	return f
}

// addends are the numbers that one aggregation query has summed or averaged.
type addends struct {
	field
	aggregate route.Aggregate
	sum       float64
	numbers   int64
}

func (v *snapshot) ReadTime() time.Time   { return v.readTime }
func (v *snapshot) RollUp() rollup.RollUp { return v.rollUp }
func (v *snapshot) Ownerless() bool       { return v.ownerless }

// Sum implements rollup.Snapshot. It asks for all totals at once.
func (v *snapshot) Sum(ctx context.Context) (route.Totals, error) {
	if !v.counter.Template.Windowed() {
		return v.SumAsOf(ctx, time.Time{})
	}
	instant, err := v.instant(ctx)
	if err != nil {
		return route.Totals{}, fmt.Errorf("firestore: reading %s: %w", v.counter.RollUp, err)
	}
	return v.SumAsOf(ctx, instant)
}

// SumAsOf implements rollup.Snapshot. The instant is the time now of windows. Where it is that of
// the snapshot, the bounds of windows are exact: the transaction has begun, and its read time does
// not move.
func (v *snapshot) SumAsOf(ctx context.Context, instant time.Time) (route.Totals, error) {
	v.now = instant
	routes := v.counter.Template.Routes
	parts := make([]part, len(routes))
	summing, all := errgroup.WithContext(ctx)
	for i, r := range routes {
		summing.Go(func() (err error) {
			parts[i], err = v.sumRoute(all, r)
			return err
		})
	}
	err := summing.Wait()
	if err != nil {
		return route.Totals{}, err
	}

	v.added, v.named, v.suspects = make(map[string]addends), nil, nil
	totals := make([]route.Totals, len(parts))
	for i, p := range parts {
		totals[i] = p.Totals
		maps.Copy(v.added, p.added)
		v.named = append(v.named, p.named...)
		v.suspects = append(v.suspects, p.suspects...)
	}
	return route.JoinTotals(totals), nil
}

// A part is what one route's documents add up to.
type part struct {
	route.Totals
	added    map[string]addends
	named    []string
	suspects []field
}

// sumRoute totals a route's documents by queries. If the index of a query is missing, it reads the
// documents one by one, and the log says so once. On Enterprise it reads none, because that would
// take an index, too.
func (v *snapshot) sumRoute(ctx context.Context, r *route.Route) (part, error) {
	if _, some := r.Where(v.counter); !some {
		return part{Totals: r.Total(nil, v.now).Totals}, nil
	}
	if r.Documents {
		return v.sumDocuments(ctx, r)
	}

	p, err := v.aggregate(ctx, r)
	if unindexed, ok := errors.AsType[*unindexedError](err); ok && v.store.edition == route.Standard {
		return v.sumUnindexed(ctx, r, unindexed)
	}
	if err != nil {
		return part{}, fmt.Errorf("firestore: summing %s: %w", r.Shards(v.counter), unkept(err))
	}
	return p, nil
}

// An unindexedError is the error of a query that most likely lacks one of its indexes.
type unindexedError struct {
	indexes []route.Index // that the query needs
	error
}

func (e *unindexedError) Unwrap() error { return e.error }

// documents is the query for the counter's documents of a route, or for the ones that meet
// conditions. It reports false if the counter can have none.
func (v *snapshot) documents(r *route.Route, conditions ...route.Condition) (firestore.Query, bool) {
	return Documents(v.store.client, r, v.counter, route.At(conditions, v.now)...)
}

// Documents returns the query for a counter's documents of a route, or for the ones that meet
// conditions. It reports false if the counter can have none.
func Documents(client *firestore.Client, r *route.Route, c route.Counter, conditions ...route.Condition) (firestore.Query, bool) {
	keys, ok := r.Where(c)
	query := sources(client, r, c)
	for _, c := range append(keys, conditions...) {
		operand := c.Value // of nil the SDK makes IS_NULL
		if ref, is := operand.(document.Reference); is {
			operand = client.Doc(string(ref))
		}
		query = query.WherePath(c.Field.Names(), string(c.Operator), operand)
	}
	return query, ok
}

// sources returns the query for the documents among which the counter's are.
func sources(client *firestore.Client, r *route.Route, c route.Counter) firestore.Query {
	below, id, across := r.Group(c)
	if across {
		return anywhereBelow(client, below, id)
	}
	return client.Collection(r.Shards(c)).Query
}

// anywhereBelow returns the query for the documents of a collection group that are below the
// collection at a path, at any depth. Their names lie in a range. That is no pair of cursors,
// because an order may begin with a field that is summed.
func anywhereBelow(client *firestore.Client, below, id string) firestore.Query {
	return client.CollectionGroup(id).
		Where(firestore.DocumentID, ">=", client.Doc(below+"/"+firstID)).
		Where(firestore.DocumentID, "<", client.Doc(below+"\x00/"+firstID))
}

// aggregate makes a route's queries, all at once. Each field has a query of its own, because a
// query over two fields leaves out the documents that lack either of them.
func (v *snapshot) aggregate(ctx context.Context, r *route.Route) (part, error) {
	queries, windows := r.Queries(), r.Windows()
	answers, leaving := make([]answer, len(queries)), make([][]route.Leaving, len(windows))
	asking, all := errgroup.WithContext(ctx)
	for i, q := range queries {
		asking.Go(func() (err error) {
			answers[i], err = v.answer(all, q, v.field(r, q))
			indexes := r.IndexesOf(q)
			if status.Code(err) == codes.FailedPrecondition && len(indexes) > 0 {
				return &unindexedError{indexes, err}
			}
			return err
		})
	}
	for i, w := range windows {
		asking.Go(func() (err error) {
			leaving[i], err = v.leaving(all, r, w)
			if status.Code(err) == codes.FailedPrecondition {
				return &unindexedError{r.IndexesOfWindow(w), err}
			}
			return err
		})
	}
	err := asking.Wait()
	if err != nil {
		return part{}, err
	}

	p := partOf(queries, answers)
	p.Leaving = slices.Concat(leaving...)
	if p.Shards[0] > 0 || !r.Filtered() {
		return p, nil
	}
	query, _ := v.documents(r)
	some, err := v.readShards(ctx, query.Select().Limit(1))
	p.Some = len(some) > 0
	return p, err
}

// leaving returns when the first document leaves a window. It returns nothing if none is in it.
func (v *snapshot) leaving(ctx context.Context, r *route.Route, w route.Window) ([]route.Leaving, error) {
	path := firestore.FieldPath(w.Field.Names())
	query, _ := v.documents(r, w.Where...)
	first, err := v.readShards(ctx, query.SelectPaths(path).OrderByPath(path, firestore.Asc).Limit(1))
	if err != nil || len(first) == 0 {
		return nil, err
	}

	found, _ := w.Field.In(first[0].Fields)
	at, isTime := found.(time.Time)
	if !isTime {
		return nil, fmt.Errorf("the query for the first %s of a window answered %v", w.Field, found)
	}
	return []route.Leaving{w.Leaves(at)}, nil
}

// field returns the field that a query aggregates, of the documents that it takes.
func (v *snapshot) field(r *route.Route, q route.Query) field {
	documents, _ := v.documents(r, q.Where...)
	f := field{of: documents, path: q.Field, names: r.Across()}
	if q.Ranged() != q.Field {
		f.ranged = q.Ranged()
	}
	f.equal = r.IsEqual(q, q.Field)
	return f
}

// partOf returns what the answers to queries add up to.
func partOf(queries []route.Query, answers []answer) part {
	p := part{
		Totals: route.Totals{Values: make(map[string]value.Value), Shards: []int64{0}},
		added:  make(map[string]addends),
	}
	for i, a := range answers {
		for _, t := range queries[i].Totals {
			p.Values[t.Name] = a.total(t)
			if t.Aggregate == route.Sum || t.Aggregate == route.Average {
				p.added[t.Name] = addends{a.field, t.Aggregate, a.sum.Float64(), a.count - a.malformed}
			}
		}

		p.Shards[0] = max(p.Shards[0], a.count)
		p.Malformed += a.malformed
		if a.malformed > 0 {
			p.suspects = append(p.suspects, a.field)
		}
	}
	return p
}

// answer answers one query.
func (v *snapshot) answer(ctx context.Context, q route.Query, f field) (answer, error) {
	if q.Best != "" {
		return v.extreme(ctx, q.Best, f)
	}
	if q.Field != "" {
		return v.sumField(ctx, f)
	}
	return v.runAggregation(ctx, f.orderedBy())
}

// extreme finds the greatest or least value of a field among the numbers between the infinities, or
// among the timestamps. Firestore's timestamps begin with the year 1. If the query takes a range of
// another field, that follows in the order, in the same direction: Standard would append it itself
// (https://cloud.google.com/firestore/docs/reference/rpc/google.firestore.v1#structuredquery).
func (v *snapshot) extreme(ctx context.Context, best route.Aggregate, f field) (answer, error) {
	ofKind := f.where(">", math.Inf(-1)).where("<", math.Inf(1))
	if best.OfTimes() {
		ofKind = f.where(">=", time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC))
	}
	direction := firestore.Asc
	if best.Descending() {
		direction = firestore.Desc
	}

	query := ofKind.of.SelectPaths(f.path.Names()).OrderByPath(f.path.Names(), direction)
	if f.ranged != "" {
		query = query.OrderByPath(f.ranged.Names(), direction)
	}
	first, err := v.readShards(ctx, query.Limit(1))
	if err != nil || len(first) == 0 {
		return answer{field: f, best: value.Null}, err
	}

	found, _ := f.path.In(first[0].Fields)
	seen, ok := best.Sees(found)
	if !ok {
		return answer{}, fmt.Errorf("the query for the %s %s answered %v", best, f.path, found)
	}
	return answer{field: f, best: seen, count: 1}, nil
}

// An answer is the result of a query.
type answer struct {
	field
	best      value.Value // of a query for one document
	sum       value.Value // 0 if only documents are counted
	average   value.Value // as Firestore says; 0 if there are no numbers
	count     int64       // documents that have the field, with a value of any type
	malformed int64       // of these, those whose value is not a finite number
}

// total returns one of the totals that the answer holds.
func (a answer) total(t route.Total) value.Value {
	switch t.Aggregate {
	case route.Sum:
		return a.sum
	case route.Count:
		return value.Int(a.count)
	case route.Average:
		return route.AverageOf(a.sum, a.count-a.malformed)
	default:
		return a.best
	}
}

// sumField sums a field over the documents where it is a finite number. SUM and AVG leave other
// types out, so SUM divided by AVG is how many numbers there were. If that differs from COUNT, or
// if it is not known because the sum is 0, a second query takes exactly the finite numbers.
func (v *snapshot) sumField(ctx context.Context, f field) (answer, error) {
	f = f.orderedBy()
	a, err := v.runAggregation(ctx, f)
	if err != nil || a.count == 0 || a.allFinite() {
		return a, err
	}

	finite, err := v.runAggregation(ctx, f.where(">", math.Inf(-1)).where("<", math.Inf(1)))
	if err != nil {
		return a, err
	}

	sum := finite.sum.Float64() // of finite numbers, but perhaps beyond the largest double
	switch {
	case math.IsNaN(sum):
		return a, fmt.Errorf("%w: the sum of %s goes beyond the largest double in both directions", rollup.ErrUnkept, f.path)
	case math.IsInf(sum, 0):
		finite.sum = value.Double(math.Copysign(math.MaxFloat64, sum))
	}
	return answer{field: f, sum: finite.sum, count: a.count, malformed: a.count - finite.count}, nil
}

// allFinite reports whether the answer shows that all values were finite numbers.
func (a answer) allFinite() bool {
	if !a.sum.Finite() || a.sum.Float64() == 0 || a.average.Float64() == 0 {
		return false
	}
	return math.Round(a.sum.Float64()/a.average.Float64()) == float64(a.count)
}

// runAggregation runs one aggregation query over a field of documents or, without one, counts them.
func (v *snapshot) runAggregation(ctx context.Context, f field) (answer, error) {
	req, err := aggregationOf(f)
	if err != nil {
		return answer{}, err
	}
	result, err := v.run(ctx, req)
	if err != nil {
		return answer{}, err
	}

	count, counted := result["count"].(int64)
	sum, summed := value.Number(result["sum"])
	if !counted || !summed && f.path != "" {
		return answer{}, fmt.Errorf("the aggregation answered %v", result)
	}
	average, _ := value.Number(result["average"])
	return answer{field: f, sum: sum, average: average, count: count}, nil
}

// aggregationOf returns the aggregation query over a field of documents: COUNT, SUM and AVG, or
// COUNT alone without a field. The SDK makes the part that finds the documents. The rest is made
// here, because the SDK cannot run an aggregation that begins a transaction.
func aggregationOf(f field) (*firestorepb.RunAggregationQueryRequest, error) {
	text, err := f.of.Serialize()
	if err != nil {
		return nil, err
	}
	var documents firestorepb.RunQueryRequest
	err = proto.Unmarshal(text, &documents)
	if err != nil {
		return nil, err
	}

	type aggregation = firestorepb.StructuredAggregationQuery_Aggregation
	count := new(firestorepb.StructuredAggregationQuery_Aggregation_Count)
	aggregations := []*aggregation{
		{Alias: "count", Operator: &firestorepb.StructuredAggregationQuery_Aggregation_Count_{Count: count}},
	}
	if f.path != "" {
		path := &firestorepb.StructuredQuery_FieldReference{FieldPath: string(f.path)}
		sum := &firestorepb.StructuredAggregationQuery_Aggregation_Sum{Field: path}
		average := &firestorepb.StructuredAggregationQuery_Aggregation_Avg{Field: path}
		aggregations = append(aggregations,
			&aggregation{Alias: "sum", Operator: &firestorepb.StructuredAggregationQuery_Aggregation_Sum_{Sum: sum}},
			&aggregation{Alias: "average", Operator: &firestorepb.StructuredAggregationQuery_Aggregation_Avg_{Avg: average}})
	}

	query := &firestorepb.StructuredAggregationQuery{
		QueryType:    &firestorepb.StructuredAggregationQuery_StructuredQuery{StructuredQuery: documents.GetStructuredQuery()},
		Aggregations: aggregations,
	}
	return &firestorepb.RunAggregationQueryRequest{
		Parent:    documents.Parent,
		QueryType: &firestorepb.RunAggregationQueryRequest_StructuredAggregationQuery{StructuredAggregationQuery: query},
	}, nil
}

// run runs an aggregation query in the snapshot's transaction. If the transaction has not begun
// yet, the query begins it, and the other queries wait until it has.
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

// instant returns the snapshot's instant. If the transaction has not begun yet, instant begins it
// by reading the roll-up document.
func (v *snapshot) instant(ctx context.Context) (time.Time, error) {
	v.opening.Lock()
	defer v.opening.Unlock()

	if len(v.transaction) == 0 {
		err := v.store.beginReadOnly(ctx, v)
		if err != nil {
			return time.Time{}, err
		}
	}
	return v.readTime, nil
}

// readShards reads the shards that a query finds, as of the snapshot's instant.
func (v *snapshot) readShards(ctx context.Context, query firestore.Query) ([]route.Shard, error) {
	instant, err := v.instant(ctx)
	if err != nil {
		return nil, err
	}

	documents, err := query.WithReadOptions(firestore.ReadTime(instant)).Documents(ctx).GetAll()
	shards := make([]route.Shard, len(documents))
	for i, d := range documents {
		shards[i] = route.Shard{Path: Path(d.Ref), Fields: d.Data()}
	}
	return shards, err
}

// sumDocuments totals a route's documents by reading each.
func (v *snapshot) sumDocuments(ctx context.Context, r *route.Route) (part, error) {
	shards, err := v.readShards(ctx, v.allDocuments(r))
	if err != nil {
		return part{}, fmt.Errorf("firestore: reading %s: %w", r.Shards(v.counter), err)
	}

	total := r.Total(shards, v.now)
	return part{Totals: total.Totals, named: total.Malformed}, nil
}

// sumUnindexed totals a route's documents by reading each, if they are few. Its query has no
// condition except those of the keys. The indexes that Firestore creates by itself answer it.
func (v *snapshot) sumUnindexed(ctx context.Context, r *route.Route, lacking *unindexedError) (part, error) {
	shards, err := v.readShards(ctx, v.allDocuments(r).Limit(rollup.MaxUnindexed+1))
	if r.By != nil && needsIndex(err) {
		return part{}, fmt.Errorf("%w: %w", rollup.UnindexedKeys(r, v.counter), err)
	}
	if err != nil {
		return part{}, fmt.Errorf("firestore: reading %s: %w", r.Shards(v.counter), err)
	}
	if len(shards) > rollup.MaxUnindexed {
		return part{}, rollup.TooManyUnindexed(r, v.counter, lacking.indexes)
	}

	remedy := r.Remedy(lacking.indexes)
	_, said := v.store.remedies.LoadOrStore(remedy, true)
	if !said {
		v.store.logger.WarnContext(ctx, "no index for a query; reading each document instead, which costs one read a document",
			"remedy", remedy, "route", r.String(), "error", lacking.error)
	}

	total := r.Total(shards, v.now)
	return part{Totals: total.Totals, named: total.Malformed}, nil
}

// needsIndex reports whether Firestore refused a query because an index is missing. It refuses
// others with the same code, such as those to a database in Datastore mode.
func needsIndex(err error) bool {
	return status.Code(err) == codes.FailedPrecondition && strings.HasPrefix(message(err), "The query requires ")
}

// allDocuments is the query for all of the counter's documents of a route. It returns only the
// fields that the totals need.
func (v *snapshot) allDocuments(r *route.Route) firestore.Query {
	var fields []firestore.FieldPath
	for _, f := range r.Reads() {
		fields = append(fields, f.Names())
	}
	query, _ := v.documents(r)
	return query.SelectPaths(fields...)
}

// Claim implements rollup.Snapshot.
func (v *snapshot) Claim(ctx context.Context) (rollup.Claim, error) {
	path := document.ClaimPath(v.counter.RollUp)
	req := &firestorepb.BatchGetDocumentsRequest{
		Documents:           []string{v.store.database + "/documents/" + path},
		ConsistencySelector: &firestorepb.BatchGetDocumentsRequest_Transaction{Transaction: v.transaction},
	}

	var claim rollup.Claim
	err := v.store.batchGet(ctx, req, func(answer *firestorepb.BatchGetDocumentsResponse) {
		d := answer.GetFound()
		if d != nil {
			claim = rollup.Claim{Claim: document.DecodeClaim(decodeFields(d.Fields)), UpdateTime: d.UpdateTime.AsTime()}
		}
	})
	if err != nil {
		return rollup.Claim{}, fmt.Errorf("firestore: reading %s: %w", path, err)
	}
	return claim, nil
}

// Magnitude implements rollup.Snapshot. It asks for the sum of the numbers above zero. The numbers
// below zero make up the rest of the whole sum, so one query is enough for both. It answers 0 for
// documents that were read one by one: they were summed exactly, so their order makes no
// difference.
func (v *snapshot) Magnitude(ctx context.Context, name string) (float64, error) {
	added, ok := v.added[name]
	if !ok {
		return 0, nil
	}

	a, err := v.runAggregation(ctx, added.where(">", 0).where("<", math.Inf(1)))
	if err != nil {
		return 0, fmt.Errorf("firestore: summing the positive numbers of %s: %w", added.path, err)
	}

	magnitude := min(2*a.sum.Float64()-added.sum, math.MaxFloat64)
	if added.aggregate == route.Average && added.numbers > 0 {
		magnitude /= float64(added.numbers)
	}
	return magnitude, nil
}

// Malformed implements rollup.Snapshot. In Firestore's order of values, every value that is not a
// finite number lies at or behind infinity, or at or before minus infinity. So two queries find it
// (https://firebase.google.com/docs/firestore/manage-data/data-types#value_type_ordering). In the
// order of a range of another field, such values lie anywhere. There the query returns the first
// documents, whatever their values are.
func (v *snapshot) Malformed(ctx context.Context, most int) ([]string, error) {
	named := v.named[:min(len(v.named), most)]
	for _, s := range v.suspects {
		path := firestore.FieldPath(s.path.Names())
		selected := s.of.SelectPaths(path)
		queries := []firestore.Query{selected.Limit(maxLooked)}
		if s.ranged == "" {
			ordered := selected // in the one order that the index of SUM has
			if s.equal && !s.names {
				ordered = selected.OrderByPath(path, firestore.Asc)
			}
			queries = []firestore.Query{ordered.StartAt(math.Inf(1)).Limit(most), ordered.EndAt(math.Inf(-1)).Limit(most)}
		}

		for _, query := range queries {
			if len(named) == most {
				return named, nil
			}

			shards, err := v.readShards(ctx, query)
			if err != nil {
				return named, fmt.Errorf("firestore: finding malformed values of %s: %w", s.path, err)
			}
			for _, shard := range shards {
				found, _ := s.path.In(shard.Fields)
				n, isNumber := value.Number(found)
				finite := isNumber && n.Finite()
				if !finite && len(named) < most {
					named = append(named, route.MalformedShard(shard.Path, s.path, found))
				}
			}
		}
	}
	return named, nil
}

// maxLooked is how many documents of a range are looked at for malformed values. It bounds what a
// line of the log bills.
const maxLooked = 100
