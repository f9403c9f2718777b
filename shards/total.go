package shards

import (
	"context"
	"fmt"
	"math"
	"strconv"

	"cloud.google.com/go/firestore"
)

// A Total is the value of a counter, as Firestore holds it: a 64-bit integer or a double. The zero
// value is the integer 0. Totals can be compared with ==.
type Total struct {
	integer  int64
	double   float64
	isDouble bool
}

// totalOf returns the total that the SDK decoded as v, and false if v is no number.
func totalOf(v any) (Total, bool) {
	switch v := v.(type) {
	case int64:
		return Total{integer: v}, true
	case float64:
		return Total{double: v, isDouble: true}, true
	}
	return Total{}, false
}

// Int64 returns the total as an integer, exact in the whole range of an int64. It returns 0 and
// false if the total is a double: when a shard holds a double, or when the shards' integers add up
// to more than an int64 can hold.
func (t Total) Int64() (n int64, ok bool) {
	return t.integer, !t.isDouble
}

// Float64 returns the total as a double, rounded if it is an integer beyond ±2^53.
func (t Total) Float64() float64 {
	if t.isDouble {
		return t.double
	}
	return float64(t.integer)
}

// plus returns the sum of t and u: an integer if both are and it fits an int64, else a double.
func (t Total) plus(u Total) Total {
	if !t.isDouble && !u.isDouble {
		if sum := t.integer + u.integer; (sum > t.integer) == (u.integer > 0) {
			return Total{integer: sum}
		}
	}
	return Total{double: t.Float64() + u.Float64(), isDouble: true}
}

// maxTotal is the most that this package makes a shard hold: it is still 2^62 increments from the
// bound of int64, at which they saturate, whatever clients add meanwhile.
const maxTotal = 1 << 62

// sum returns the sum of t and u for a shard to hold. It returns ErrOutOfRange if that is an
// integer beyond ±maxTotal, NaN or infinite.
func (t Total) sum(u Total) (Total, error) {
	sum := t.plus(u)
	overflown := sum.isDouble && !t.isDouble && !u.isDouble
	if overflown || !sum.finite() || sum.integer > maxTotal || sum.integer < -maxTotal {
		return Total{}, ErrOutOfRange
	}
	return sum, nil
}

// negative returns the total with the other sign. The smallest integer has none: it stays.
func (t Total) negative() Total {
	return Total{-t.integer, -t.double, t.isDouble}
}

// finite reports whether the total is neither NaN nor infinite.
func (t Total) finite() bool {
	return !math.IsNaN(t.double) && !math.IsInf(t.double, 0)
}

// value is what to write for the total: an int64 or a float64.
func (t Total) value() any {
	if t.isDouble {
		return t.double
	}
	return t.integer
}

// String returns the total in decimal; a double in the shortest form that reads back as the same
// double.
func (t Total) String() string {
	if t.isDouble {
		return strconv.FormatFloat(t.double, 'g', -1, 64)
	}
	return strconv.FormatInt(t.integer, 10)
}

// Get has Firestore add up the shards and returns their sum at one instant, not before the call:
// every increment that returned before is in it. A counter without shards has the total 0.
//
// The sum is an integer as long as all shards hold integers and it fits an int64, else a double.
// Doubles are rounded as they are added. A shard without the field, or with something else than a
// number in it, adds nothing. One shard that is NaN or infinite makes the sum NaN or infinite: the
// total that Tally publishes leaves such a shard out.
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
	if err := result.DataTo(&answer); err != nil {
		return Total{}, err
	}
	total, ok := totalOf(answer[aggregate])
	if !ok {
		// Firestore answers a number for whatever the documents hold.
		return Total{}, fmt.Errorf("answer is %#v, want a number", answer[aggregate])
	}
	return total, nil
}
