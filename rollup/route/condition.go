package route

import (
	"encoding/json"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/firestore-tally/tally/internal/document"
)

// A Condition says that a field of a document equals a value. It compares as Firestore does: 2
// equals 2.0, and a field equals null only if the document has it and it is null. Conditions can be
// compared with ==.
type Condition struct {
	Field document.Field

	// Value is a string, an int64, a float64, a bool or nil. It is a float64 only if no int64 equals
	// it.
	Value any
}

// equals returns the condition that a field equals a value. Equal conditions have the same form: a
// double that an integer equals becomes that integer.
func equals(field document.Field, value any) Condition {
	f, isDouble := value.(float64)
	if isDouble && !math.IsNaN(f) {
		i, accuracy := big.NewFloat(f).Int64()
		if accuracy == big.Exact {
			value = i
		}
	}
	return Condition{field, value}
}

// Holds reports whether a document, whose fields are as the Firestore SDK decodes them, meets the
// condition.
func (c Condition) Holds(fields map[string]any) bool {
	value, ok := c.Field.In(fields)
	if !ok {
		return false
	}
	switch value.(type) {
	case nil, string, bool, int64, float64:
		return equals(c.Field, value) == c // NaN equals nothing
	default:
		return false
	}
}

// HoldAll reports whether a document, whose fields are as the Firestore SDK decodes them, meets all
// of the conditions.
func HoldAll(conditions []Condition, fields map[string]any) bool {
	for _, c := range conditions {
		if !c.Holds(fields) {
			return false
		}
	}
	return true
}

// String returns the condition as a route spells it.
func (c Condition) String() string { return quoteField(c.Field) + " == " + quoteValue(c.Value) }

// quoteField returns a field as a route spells it. Its names hold no dots.
func quoteField(f document.Field) string {
	names := f.Names()
	for i, name := range names {
		names[i] = Quote(name)
	}
	return strings.Join(names, ".")
}

// quoteValue returns the value of a condition as a route spells it, which is as in JSON.
func quoteValue(value any) string {
	switch value := value.(type) {
	case string:
		var text strings.Builder
		encoder := json.NewEncoder(&text)
		encoder.SetEscapeHTML(false)
		_ = encoder.Encode(value) // a string can be encoded, and a Builder written
		return strings.TrimSuffix(text.String(), "\n")
	case int64:
		return strconv.FormatInt(value, 10)
	case float64:
		return strconv.FormatFloat(value, 'g', -1, 64)
	case bool:
		return strconv.FormatBool(value)
	default:
		return "null"
	}
}
