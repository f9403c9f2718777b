package rollup

import "fmt"

// A Shard is a shard document as it was read.
type Shard struct {
	Path   string
	Fields map[string]any // values as the Firestore SDK decodes them
}

// SumShards adds up shards that were read one by one in one snapshot, and says which of them it
// left out of a sum. See Snapshot.Sum for what NumShards counts.
func SumShards(route *Route, shards []Shard) (Totals, []Malformed) {
	totals := Totals{Sums: make(map[string]Number, len(route.Fields)), NumShards: int64(len(shards))}
	var malformed []Malformed
	for _, field := range route.Fields {
		var sum Sum
		var have int64
		for _, s := range shards {
			value, ok := s.Fields[field]
			if !ok {
				continue
			}
			have++
			if n, ok := NumberOf(value); !ok {
				malformed = append(malformed, Malformed{s.Path, field, fmt.Sprintf("is %s, not a number", typeName(value))})
			} else if !sum.Add(n) {
				malformed = append(malformed, Malformed{s.Path, field, "is " + n.String()})
			}
		}
		totals.Sums[field] = sum.Total()
		if len(route.Fields) == 1 {
			totals.NumShards = have
		}
	}
	return totals, malformed
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
