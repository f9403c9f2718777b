package value

import "time"

// KindOf names the kind of a value in Firestore's words, such as "a string". v is the value as the
// Firestore SDK decodes it.
func KindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case int64, float64:
		return "a number"
	case time.Time:
		return "a timestamp"
	case map[string]any:
		return "a map"
	case []any:
		return "an array"
	case []byte:
		return "bytes"
	default: // places and references, whose types are the SDK's
		return "of another kind"
	}
}
