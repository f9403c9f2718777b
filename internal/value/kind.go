package value

import (
	"fmt"
	"time"
)

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
	}

	// The types are the SDK's and package document's, which this package does not import.
	switch fmt.Sprintf("%T", v) {
	case "*firestore.DocumentRef", "document.Reference":
		return "a reference"
	case "*latlng.LatLng":
		return "a place"
	default:
		return "of another kind"
	}
}
