package rollup

import "fmt"

// A Shard is a shard document as it was read.
type Shard struct {
	Path   string
	Fields map[string]any // values as the Firestore SDK decodes them
}

// SumShards adds up shards that were read one by one in one snapshot, and says which of them it left
// out of a sum.
func SumShards(route *Route, shards []Shard) (Totals, []Malformed) {
	totals := Totals{Sums: make(map[string]Number, len(route.Fields))}
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
			if n, ok := NumberOf(value); !ok || !sum.Add(n) {
				malformed = append(malformed, MalformedShard(s.Path, field, value))
			}
		}
		totals.Sums[field] = sum.Total()
		totals.NumShards = max(totals.NumShards, have)
	}
	totals.Malformed = int64(len(malformed))
	return totals, malformed
}

// MalformedShard says why a shard's field, which is no finite number, is left out.
func MalformedShard(path, field string, value any) Malformed {
	if n, ok := NumberOf(value); ok {
		return Malformed{path, field, "is " + n.String()}
	}
	return Malformed{path, field, fmt.Sprintf("is %s, not a number", typeName(value))}
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
