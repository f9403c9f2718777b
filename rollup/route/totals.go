package route

import (
	"fmt"
	"maps"
	"math"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/value"
)

// Totals are what a counter's documents add up to.
type Totals struct {
	Values    map[string]value.Value // one for each of the template's totals, by name
	Shards    []int64                // one for each of the template's routes: how many documents it has; if none of its totals counts all documents, the most that any of its queries saw
	Malformed int64                  // values that are left out of a sum or an average, because they are not finite numbers

	// Some says that there are documents, although Shards does not show them. The documents belong
	// to a route whose totals all have conditions, and meet none of these conditions.
	Some bool

	// Leaving says of each window with documents in it when the first of them leaves.
	Leaving []Leaving
}

// NumShards returns how many documents were counted, over all routes.
func (t Totals) NumShards() int64 {
	var sum int64
	for _, n := range t.Shards {
		sum += n
	}
	return sum
}

// Empty reports whether the counter has no documents. A document that lacks the fields that are
// aggregated does not belong to the counter.
func (t Totals) Empty() bool { return t.NumShards() == 0 && !t.Some }

// A Shard is a source document as it was read.
type Shard struct {
	Path   string
	Fields map[string]any // values as the Firestore SDK decodes them
}

// RouteTotals holds what one route's documents add up to.
type RouteTotals struct {
	Totals
	Malformed []string // as MalformedShard says
}

// Total counts and aggregates the documents that a counter has by the route. The shards must be all
// of them, read in one snapshot, in the order of their paths. Windows are as they are at an
// instant.
func (r *Route) Total(shards []Shard, instant time.Time) RouteTotals {
	t := RouteTotals{Totals: Totals{Values: make(map[string]value.Value, len(r.Totals))}}
	var most int64
	for _, q := range r.queries {
		answer := q.At(instant).answer(shards)
		maps.Copy(t.Values, answer.Values)
		t.Malformed = append(t.Malformed, answer.Malformed...)
		most = max(most, answer.Shards[0])
	}
	if r.CountsAll() {
		most = int64(len(shards))
	}
	t.Shards = []int64{most}
	t.Leaving = r.leaving(shards, instant)
	t.Some = r.Filtered() && most == 0 && len(shards) > 0
	t.Totals.Malformed = int64(len(t.Malformed))
	return t
}

// answer answers a query from documents that were read one by one.
func (q Query) answer(shards []Shard) RouteTotals {
	var seen int64 // documents that meet the conditions and have the field
	var numbers int64
	var sum value.Sum
	var malformed []string
	best := value.Null

	for _, s := range shards {
		if !HoldAll(q.Where, s.Fields) {
			continue
		}
		if q.Field == "" {
			seen++
			continue
		}

		v, ok := q.Field.In(s.Fields)
		if !ok {
			continue
		}
		if q.Best != "" {
			best = q.Best.better(best, v)
			continue
		}

		seen++
		n, ok := value.Number(v)
		added := ok && sum.Add(n)
		if added {
			numbers++
		} else {
			malformed = append(malformed, MalformedShard(s.Path, q.Field, v))
		}
	}

	if !best.IsNull() {
		seen = 1
	}
	values := make(map[string]value.Value)
	for _, total := range q.Totals {
		switch total.Aggregate {
		case Sum:
			values[total.Name] = sum.Total()
		case Count:
			values[total.Name] = value.Int(seen)
		case Average:
			values[total.Name] = AverageOf(sum.Total(), numbers)
		default:
			values[total.Name] = best
		}
	}
	return RouteTotals{Totals: Totals{Values: values, Shards: []int64{seen}}, Malformed: malformed}
}

// AverageOf returns the average of n numbers that add up to sum. It returns null if n is 0.
func AverageOf(sum value.Value, n int64) value.Value {
	if n == 0 {
		return value.Null
	}
	return value.Double(sum.Float64() / float64(n))
}

// Sees makes a Value of v, a field's value as the Firestore SDK decodes it. It reports whether the
// aggregate sees v. Maximum and Minimum see finite numbers, Latest and Earliest timestamps.
func (a Aggregate) Sees(v any) (value.Value, bool) {
	if a.OfTimes() {
		t, ok := v.(time.Time)
		return value.Timestamp(t), ok
	}
	n, ok := value.Number(v)
	return n, ok && n.Finite()
}

// better returns the better of two values. best is the best so far, or null if there is none, and v
// is another.
func (a Aggregate) better(best value.Value, v any) value.Value {
	next, ok := a.Sees(v)
	if !ok {
		return best
	}
	if best.IsNull() {
		return next
	}
	order := value.Compare(next, best)
	if order >= 0 && a.Descending() || order < 0 && !a.Descending() {
		return next
	}
	return best
}

// Magnitude returns what a total of the query would be if all numbers were positive. The total must
// be a sum or an average.
func (q Query) Magnitude(total Total, shards []Shard) float64 {
	var sum value.Sum
	var numbers int64
	for _, s := range shards {
		v, _ := q.Field.In(s.Fields)
		n, ok := value.Number(v)
		if !ok || !HoldAll(q.Where, s.Fields) {
			continue
		}

		added := sum.Add(value.Double(math.Abs(n.Float64())))
		if added {
			numbers++
		}
	}

	if total.Aggregate == Average {
		return AverageOf(sum.Total(), numbers).Float64()
	}
	return sum.Total().Float64()
}

// JoinTotals combines the totals of a template's routes into the totals of a counter. The parts
// must be in the order of the routes.
func JoinTotals(parts []Totals) Totals {
	all := Totals{Values: make(map[string]value.Value)}
	for _, part := range parts {
		maps.Copy(all.Values, part.Values)
		all.Shards = append(all.Shards, part.Shards...)
		all.Malformed += part.Malformed
		all.Some = all.Some || part.Some
		all.Leaving = append(all.Leaving, part.Leaving...)
	}
	return all
}

// MalformedShard says why a shard is left out of a sum, because a field is not a finite number,
// such as "counters/likes/shards/0: count is a string, not a number".
func MalformedShard(path string, field document.Field, v any) string {
	if n, ok := value.Number(v); ok {
		return fmt.Sprintf("%s: %s is %v", path, field, n)
	}
	return fmt.Sprintf("%s: %s is %s, not a number", path, field, value.KindOf(v))
}
