package shards

import (
	"context"
	"fmt"
	"math"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/value"
)

// A Total is the value of a counter, or another total of a roll-up document, as Firestore holds it:
// a 64-bit integer, a double, a timestamp or null. A sum is a number. The latest of timestamps is a
// timestamp. The maximum of no numbers is null. The zero value is the integer 0. Totals can be
// compared with ==. Their methods are
//
//	Int64() (n int64, ok bool)      the integer, exact in the whole range of an int64; false for other totals
//	Float64() float64               the number as a double, an integer beyond ±2^53 rounded; 0 for other totals
//	Time() (t time.Time, ok bool)   the timestamp, in UTC, to the microsecond; false for other totals
//	IsNull() bool                   whether the total is null
//	String() string                 the number in decimal, the timestamp as RFC 3339 has it, or "null"
//	Firestore() any                 what the SDK takes and gives: an int64, a float64, a time.Time or nil
//
// A sum is a double when a shard holds a double, or when the shards' integers add up to more than
// an int64 can hold.
type Total = value.Value

// maxTotal is the most that this package makes a shard hold. Beyond the bound of int64, increments
// would be lost. From maxTotal, clients can still add 2^62 before they come to it.
const maxTotal = 1 << 62

// plus returns the sum of two numbers, for a shard to hold. It returns ErrOutOfRange if the sum is
// an integer beyond ±maxTotal, NaN or infinite.
func plus(t, u Total) (Total, error) {
	sum := value.Plus(t, u)
	n, isInteger := sum.Int64()
	overflown := !isInteger && !t.IsDouble() && !u.IsDouble()
	if overflown || !sum.Finite() || n > maxTotal || n < -maxTotal {
		return Total{}, ErrOutOfRange
	}
	return sum, nil
}

// smallest is the one integer whose negative is not an int64: no increment brings it to 0.
var smallest = value.Int(math.MinInt64)

// Get has Firestore add up the shards. It returns their sum at one instant, which is not before the
// call. So every increment that returned before is in it. A counter without shards has the total 0.
//
// If all shards hold integers and the sum fits an int64, it is an integer. Otherwise it is a
// double, which is rounded. A shard adds nothing if it lacks the field, or has something other than
// a number in it. One shard that is NaN or infinite makes the sum NaN or infinite. The total that
// Tally publishes leaves such a shard out.
//
// Get bills one read per 1,000 index entries, that is shards, and at least one:
// https://firebase.google.com/docs/firestore/query-data/aggregation-queries#pricing. It needs the
// field to be indexed, as fields are unless exempted; otherwise Firestore answers
// FAILED_PRECONDITION.
func (c *Counter) Get(ctx context.Context) (Total, error) {
	if c.err != nil {
		return Total{}, c.err
	}
	return c.sum(ctx, nil)
}

// sum has Firestore add up the shards, in tx unless that is nil.
func (c *Counter) sum(ctx context.Context, tx *firestore.Transaction) (Total, error) {
	q := c.shards.NewAggregationQuery().WithSumPath(firestore.FieldPath{c.field}, aggregate)
	total, err := aggregated(ctx, q, tx)
	if err != nil {
		return Total{}, fmt.Errorf("shards: sum field %q of %s: %w", c.field, c.shards.Path, err)
	}
	return total, nil
}

// aggregate is the name of the one aggregation in a query.
const aggregate = "total"

// aggregated runs a query of one aggregation, in tx unless that is nil.
func aggregated(ctx context.Context, q *firestore.AggregationQuery, tx *firestore.Transaction) (Total, error) {
	if tx != nil {
		q = q.Transaction(tx)
	}
	result, err := q.Get(ctx)
	if err != nil {
		return Total{}, err
	}

	var answer map[string]any
	err = result.DataTo(&answer)
	if err != nil {
		return Total{}, err
	}
	total, ok := value.Number(answer[aggregate])
	if !ok {
		// Firestore answers a number for whatever the documents hold.
		return Total{}, fmt.Errorf("answer is %#v, want a number", answer[aggregate])
	}
	return total, nil
}
