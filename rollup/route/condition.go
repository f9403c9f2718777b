package route

import (
	"cmp"
	"encoding/json"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/value"
)

// A Condition compares a field of a document with a value. It compares as Firestore does: it sees
// only values of the same kind as its own, 2 equals 2.0, a text is ordered by the bytes of its
// UTF-8, and a field equals null only if the document has it and it is null. NaN meets no
// condition.
type Condition struct {
	Field    document.Field
	Operator Operator

	// Value is a string, an int64, a float64, a bool, a time.Time in UTC, or nil. Of a key it may
	// be a document.Reference. It is a float64 only if no int64 equals it. With In, it is a []any
	// of such values, in Firestore's order, of which each comes once. Only Equal compares with nil.
	// It is an Ago if the condition makes a window; then only what At returns may be compared.
	Value any
}

// An Operator is a comparison. Its text is the one that routes and the Firestore SDK have.
type Operator string

// The operators.
const (
	Equal              Operator = "=="
	GreaterThan        Operator = ">"
	GreaterThanOrEqual Operator = ">="
	LessThan           Operator = "<"
	LessThanOrEqual    Operator = "<="
	In                 Operator = "in" // the field equals one of several values
)

// Range reports whether the operator is a bound of a range: one of > >= < <=.
func (o Operator) Range() bool { return o.lower() || o.upper() }

func (o Operator) lower() bool { return o == GreaterThan || o == GreaterThanOrEqual }
func (o Operator) upper() bool { return o == LessThan || o == LessThanOrEqual }

// maxIn is how many values Firestore compares a field with in one query
// (https://firebase.google.com/docs/firestore/query-data/queries#limits_on_or_queries).
const maxIn = 30

// canonical returns the form that equal values share: a double that an integer equals becomes that
// integer.
func canonical(value any) any {
	f, isDouble := value.(float64)
	if !isDouble || math.IsNaN(f) {
		return value
	}
	i, accuracy := big.NewFloat(f).Int64()
	if accuracy != big.Exact {
		return value
	}
	return i
}

// Equal reports whether the conditions are the same.
func (c Condition) Equal(other Condition) bool {
	return c.Field == other.Field && c.Operator == other.Operator && reflect.DeepEqual(c.Value, other.Value)
}

// Holds reports whether a document, whose fields are as the Firestore SDK decodes them, meets the
// condition.
func (c Condition) Holds(fields map[string]any) bool {
	v, ok := c.Field.In(fields)
	return ok && c.meets(v)
}

// meets reports whether a value of the field meets the condition.
func (c Condition) meets(v any) bool {
	if c.Operator == In {
		list, _ := c.Value.([]any)
		return slices.ContainsFunc(list, func(one any) bool { return Equal.holds(v, one) })
	}
	return c.Operator.holds(v, c.Value)
}

// holds reports whether a document's value compares to another as the operator says.
func (o Operator) holds(v, than any) bool {
	order, ok := compare(v, than)
	if !ok {
		return false
	}

	switch o {
	case GreaterThan:
		return order > 0
	case GreaterThanOrEqual:
		return order >= 0
	case LessThan:
		return order < 0
	case LessThanOrEqual:
		return order <= 0
	default:
		return order == 0
	}
}

// compare compares values that a condition may have. It reports false if they are of two kinds, or
// of a kind that conditions do not have, or if one is NaN.
func compare(a, b any) (order int, ok bool) {
	switch a := a.(type) {
	case nil:
		return 0, b == nil
	case string:
		b, ok := b.(string)
		return strings.Compare(a, b), ok
	case document.Reference:
		return 0, a == b
	case bool:
		b, ok := b.(bool)
		return cmp.Compare(rank(a), rank(b)), ok
	}

	x, xOK := value.Of(a)
	y, yOK := value.Of(b)
	ok = xOK && yOK && !y.IsNull() && x.IsNumber() == y.IsNumber() && !isNaN(x) && !isNaN(y)
	if !ok {
		return 0, false
	}
	return value.Compare(x, y), true
}

// rank orders booleans: false comes before true.
func rank(b bool) int {
	if b {
		return 1
	}
	return 0
}

func isNaN(v value.Value) bool { return math.IsNaN(v.Float64()) }

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
func (c Condition) String() string {
	return quoteField(c.Field) + " " + string(c.Operator) + " " + quoteValue(c.Value)
}

// quoteField returns a field as a route spells it. Its names hold no dots.
func quoteField(f document.Field) string {
	names := f.Names()
	for i, name := range names {
		names[i] = Quote(name)
	}
	return strings.Join(names, ".")
}

// quoteValue returns the value of a condition as a route spells it. That is as in JSON, except for
// a time.
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
	case document.Reference:
		return string(Reference) + "(" + quoteValue(string(value)) + ")"
	case time.Time:
		return timestamp + "(" + quoteValue(value.Format(time.RFC3339Nano)) + ")"
	case Ago:
		return now + " - " + value.String()
	case []any:
		texts := make([]string, len(value))
		for i, one := range value {
			texts[i] = quoteValue(one)
		}
		return "[" + strings.Join(texts, ", ") + "]"
	default:
		return "null"
	}
}
