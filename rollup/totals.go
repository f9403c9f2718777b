package rollup

import (
	"fmt"
	"maps"
	"math"
)

// A Shard is a shard document as it was read.
type Shard struct {
	Path   string
	Fields map[string]any // values as the Firestore SDK decodes them
}

// SumShards counts and adds up the shards of a route that were read one by one in one snapshot, and
// says which of them it left out of a sum.
func SumShards(r *Route, shards []Shard) (Totals, []string) {
	totals := Totals{Sums: make(map[string]Number, len(r.Totals))}
	var malformed []string
	var most int64
	for _, t := range r.Totals {
		if t.Field == "" {
			most = int64(len(shards))
			totals.Sums[t.Name] = Int(most)
			continue
		}
		var sum Sum
		var have int64
		for _, s := range shards {
			value, ok := s.Fields[t.Field]
			if !ok {
				continue
			}
			have++
			if n, ok := NumberOf(value); !ok || !sum.Add(n) {
				malformed = append(malformed, MalformedShard(s.Path, t.Field, value))
			}
		}
		totals.Sums[t.Name] = sum.Total()
		most = max(most, have)
	}
	totals.Shards = []int64{most}
	totals.Malformed = int64(len(malformed))
	return totals, malformed
}

// Magnitude is what SumShards would tell of a field if all numbers were positive.
func Magnitude(field string, shards []Shard) float64 {
	var sum Sum
	for _, s := range shards {
		n, ok := NumberOf(s.Fields[field])
		if ok {
			sum.Add(Double(math.Abs(n.Float())))
		}
	}
	return sum.Total().Float()
}

// JoinTotals returns the totals of a counter from those of its template's routes, in their order.
func JoinTotals(parts []Totals) Totals {
	all := Totals{Sums: make(map[string]Number)}
	for _, part := range parts {
		maps.Copy(all.Sums, part.Sums)
		all.Shards = append(all.Shards, part.Shards...)
		all.Malformed += part.Malformed
	}
	return all
}

// MalformedShard says why a shard's field, which is no finite number, is left out, such as
// "counters/likes/shards/0: count is a string, not a number".
func MalformedShard(path, field string, value any) string {
	if n, ok := NumberOf(value); ok {
		return fmt.Sprintf("%s: %s is %v", path, field, n)
	}
	return fmt.Sprintf("%s: %s is %s, not a number", path, field, typeName(value))
}

// typeName names the type of a field's value in Firestore's terms.
func typeName(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case []any:
		return "an array"
	case map[string]any:
		return "a map"
	}
	return fmt.Sprintf("a %T", value)
}
