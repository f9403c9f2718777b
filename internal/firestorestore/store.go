// Package firestorestore is the rollup.AuditStore and rollup.PendingStore on Cloud Firestore.
//
// It writes this document, and reads it back, at the roll-up path that a route gives:
//
//	<field>     integer or double, one for each of the route's fields: the total
//	num_shards  integer: shard documents counted
//	as_of       timestamp: the read time of the snapshot that was summed
//
// Other fields of the document are left alone, so a template may name a document that the app
// writes too. More fields may be added later; a missing field is read as no total, and as_of of
// another type as no roll-up.
//
// Audits keep their place in the document rollup_audit/cursor, whose fields are theirs alone: see
// cursorDocument. It may be deleted at any time; the next audit then begins with the first counter.
// Pending marks are documents in the collection rollup_pending: see markDocument.
package firestorestore

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/firestore-tally/tally/rollup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A Store is one Firestore database. It may be used by many goroutines at once.
type Store struct {
	client *firestore.Client
	logger *slog.Logger
	now    func() time.Time

	mu        sync.Mutex
	unindexed map[*rollup.Route]time.Time // when an aggregation query of the route last found no index
}

// New returns a Store on the client's database.
func New(client *firestore.Client, logger *slog.Logger) *Store {
	return &Store{client: client, logger: logger, now: time.Now, unindexed: make(map[*rollup.Route]time.Time)}
}

// View implements rollup.Store in a read-only transaction. Firestore fixes its snapshot when the
// transaction begins.
func (s *Store) View(ctx context.Context, c rollup.Counter, f func(rollup.Snapshot) error) error {
	var own error // f's error, to be returned as it is
	err := s.client.RunTransaction(ctx, func(_ context.Context, tx *firestore.Transaction) error {
		documents, err := tx.GetAll([]*firestore.DocumentRef{s.client.Doc(c.RollUp)})
		if err != nil {
			return err
		}
		own = f(&snapshot{
			store:    s,
			tx:       tx,
			counter:  c,
			readTime: documents[0].ReadTime.Truncate(time.Microsecond),
			rollUp:   rollUpOf(c.Route, documents[0]),
		})
		return own
	}, firestore.ReadOnly)
	if own != nil {
		return own
	}
	if err != nil {
		return fmt.Errorf("firestore: reading %s: %w", c.RollUp, err)
	}
	return nil
}

// rollUpOf decodes a roll-up document.
func rollUpOf(route *rollup.Route, d *firestore.DocumentSnapshot) rollup.RollUp {
	if !d.Exists() {
		return rollup.RollUp{}
	}
	fields := d.Data()
	r := rollup.RollUp{UpdateTime: d.UpdateTime}
	r.AsOf, _ = fields[rollup.FieldAsOf].(time.Time)
	r.NumShards, _ = fields[rollup.FieldNumShards].(int64)
	r.Sums = make(map[string]rollup.Number, len(route.Fields))
	for _, field := range route.Fields {
		if n, ok := rollup.NumberOf(fields[field]); ok {
			r.Sums[field] = n
		}
	}
	return r
}

// Write implements rollup.Store.
func (s *Store) Write(ctx context.Context, c rollup.Counter, r rollup.RollUp) error {
	fields := map[string]any{rollup.FieldNumShards: r.NumShards, rollup.FieldAsOf: r.AsOf}
	for field, sum := range r.Sums {
		fields[field] = sum.Value()
	}
	_, err := s.put(ctx, c.RollUp, fields, r.UpdateTime)
	return err
}

// put sets fields of a document and leaves its others as they are, on the precondition that its update
// time is still updateTime, or when that is zero, that it does not exist.
func (s *Store) put(ctx context.Context, path string, fields map[string]any, updateTime time.Time) (time.Time, error) {
	doc := s.client.Doc(path)
	var result *firestore.WriteResult
	var err error
	if updateTime.IsZero() {
		result, err = doc.Create(ctx, fields)
	} else {
		var updates []firestore.Update
		for field, v := range fields {
			updates = append(updates, firestore.Update{FieldPath: firestore.FieldPath{field}, Value: v})
		}
		result, err = doc.Update(ctx, updates, firestore.LastUpdateTime(updateTime))
	}
	if err != nil {
		return time.Time{}, outcome(err, "writing", path)
	}
	return result.UpdateTime, nil
}

// outcome is what the engine makes of the error of a write with a precondition.
func outcome(err error, doing, path string) error {
	switch status.Code(err) {
	case codes.OK:
		return nil
	case codes.FailedPrecondition, codes.AlreadyExists, codes.NotFound, codes.Aborted:
		return fmt.Errorf("%w: %w", rollup.ErrConflict, err)
	default:
		return fmt.Errorf("firestore: %s %s: %w", doing, path, err)
	}
}

// A snapshot is a read-only transaction.
type snapshot struct {
	store    *Store
	tx       *firestore.Transaction
	counter  rollup.Counter
	readTime time.Time
	rollUp   rollup.RollUp
}

func (v *snapshot) ReadTime() time.Time   { return v.readTime }
func (v *snapshot) RollUp() rollup.RollUp { return v.rollUp }

// Sum implements rollup.Snapshot. Aggregation queries name no shard, so when what they answer shows
// that some shard is malformed, or that the field is not indexed, the shards themselves are read in
// the same snapshot. A malformed shard stays unnoticed only beside a sum of exactly 0, of which an
// average says nothing.
func (v *snapshot) Sum(ctx context.Context) (rollup.Totals, []rollup.Malformed, error) {
	route := v.counter.Route
	if route.Read == rollup.Documents || v.store.lacksIndex(route) {
		return v.sumDocuments()
	}
	totals, suspect, err := v.aggregate(ctx)
	switch {
	case status.Code(err) == codes.FailedPrecondition:
		totals, malformed, documentsErr := v.sumDocuments()
		if documentsErr == nil { // so it was the index that the query lacked
			v.store.noteMissingIndex(ctx, route, err)
		}
		return totals, malformed, documentsErr
	case err != nil:
		return rollup.Totals{}, nil, fmt.Errorf("firestore: summing %s: %w", v.counter.Shards, err)
	case suspect:
		return v.sumDocuments()
	}
	return totals, nil, nil
}

// indexRetry is how long a route is read by documents before its index is asked for again: an index may
// be built meanwhile, and one failed query in ten minutes costs nothing.
const indexRetry = 10 * time.Minute

// lacksIndex reports whether an aggregation query of the route failed lately for want of an index.
func (s *Store) lacksIndex(route *rollup.Route) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	failed, ok := s.unindexed[route]
	return ok && s.now().Sub(failed) < indexRetry
}

// noteMissingIndex remembers that an aggregation query found no index, and says so once.
func (s *Store) noteMissingIndex(ctx context.Context, route *rollup.Route, err error) {
	s.mu.Lock()
	_, known := s.unindexed[route]
	s.unindexed[route] = s.now()
	s.mu.Unlock()
	if !known {
		s.logger.WarnContext(ctx, "no index for the aggregation query; reading each shard instead, which bills one read a shard. "+
			"If the field is exempt from indexing on purpose, add \": documents\" to its route", "route", route.String(), "error", err)
	}
}

// aggregate sums by aggregation queries, one for each field, because a query over two fields leaves
// out the shards that lack either. It reports whether some shard's field is not a finite number.
func (v *snapshot) aggregate(ctx context.Context) (totals rollup.Totals, suspect bool, err error) {
	fields := v.counter.Route.Fields
	shards := v.store.client.Collection(v.counter.Shards)
	totals.Sums = make(map[string]rollup.Number, len(fields))
	for _, field := range fields {
		path := firestore.FieldPath{field}
		answer, err := shards.NewAggregationQuery().WithSumPath(path, "sum").WithAvgPath(path, "average").WithCount("count").Transaction(v.tx).Get(ctx)
		if err != nil {
			return rollup.Totals{}, false, err
		}
		sum, summed := numberOf(answer["sum"])
		count, counted := integerOf(answer["count"])
		if !summed || !counted {
			return rollup.Totals{}, false, fmt.Errorf("the aggregation answered %v", answer)
		}
		totals.Sums[field], totals.NumShards = sum, count
		suspect = suspect || !sum.Finite() || !allNumbers(sum, answer["average"], count)
	}
	if len(fields) > 1 {
		answer, err := shards.NewAggregationQuery().WithCount("count").Transaction(v.tx).Get(ctx)
		if err != nil {
			return rollup.Totals{}, false, err
		}
		count, ok := integerOf(answer["count"])
		if !ok {
			return rollup.Totals{}, false, fmt.Errorf("the aggregation answered %v", answer)
		}
		totals.NumShards = count
	}
	return totals, suspect, nil
}

// allNumbers reports whether all of the count values that were summed were numbers, as far as sum
// and average tell: both leave other types out, so their quotient is how many numbers there were.
func allNumbers(sum rollup.Number, average any, count int64) bool {
	mean, ok := numberOf(average)
	if !ok {
		return count == 0 // the average of no numbers is null
	}
	if mean.Float() == 0 {
		return true
	}
	return math.Round(sum.Float()/mean.Float()) == float64(count)
}

// numberOf decodes a number that an aggregation answers.
func numberOf(answer any) (rollup.Number, bool) {
	v, _ := answer.(*firestorepb.Value)
	switch v := v.GetValueType().(type) {
	case *firestorepb.Value_IntegerValue:
		return rollup.Int(v.IntegerValue), true
	case *firestorepb.Value_DoubleValue:
		return rollup.Double(v.DoubleValue), true
	}
	return rollup.Number{}, false
}

// integerOf decodes an integer that an aggregation answers.
func integerOf(answer any) (int64, bool) {
	v, _ := answer.(*firestorepb.Value)
	_, ok := v.GetValueType().(*firestorepb.Value_IntegerValue)
	return v.GetIntegerValue(), ok
}

// sumDocuments sums by reading every shard.
func (v *snapshot) sumDocuments() (rollup.Totals, []rollup.Malformed, error) {
	collection := v.store.client.Collection(v.counter.Shards)
	var fields []firestore.FieldPath
	for _, field := range v.counter.Route.Fields {
		fields = append(fields, firestore.FieldPath{field})
	}
	documents, err := v.tx.Documents(collection.SelectPaths(fields...)).GetAll()
	if err != nil {
		return rollup.Totals{}, nil, fmt.Errorf("firestore: reading %s: %w", v.counter.Shards, err)
	}
	shards := make([]rollup.Shard, len(documents))
	for i, d := range documents {
		shards[i] = rollup.Shard{Path: v.counter.Shards + "/" + d.Ref.ID, Fields: d.Data()}
	}
	totals, malformed := rollup.SumShards(v.counter.Route, shards)
	return totals, malformed, nil
}
