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

	// The types are the SDK's, the protocol's and package document's, which this package does not
	// import.
	switch fmt.Sprintf("%T", v) {
	case "*firestore.DocumentRef", "document.Reference", "*firestorepb.Value_ReferenceValue":
		return "a reference"
	case "*latlng.LatLng", "*firestorepb.Value_GeoPointValue":
		return "a place"
	case "*firestorepb.Value_BytesValue":
		return "bytes"
	default:
		return "of another kind"
	}
}

// IsNothing reports whether a value says nothing: null, or an empty text, list or map. v is the
// value as the Firestore SDK decodes it.
func IsNothing(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}
