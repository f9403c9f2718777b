package route

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/value"
)

// conditions returns the conditions of a total, sorted. t is the total without them.
func (text source) conditions(n totalNode, t Total, r *Route) ([]Condition, error) {
	var all []Condition
	for _, node := range n.where {
		c, err := text.condition(node)
		if err != nil {
			return nil, err
		}
		err = text.checkTested(node, c, t, r)
		if err != nil {
			return nil, err
		}
		err = text.checkRange(node, c, r)
		if err != nil {
			return nil, err
		}
		err = text.checkTogether(node, c, all)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	sortConditions(all)
	return all, nil
}

// condition returns one condition.
func (text source) condition(n conditionNode) (Condition, error) {
	field, err := text.field(n.field)
	if err != nil {
		return Condition{}, err
	}
	if n.operator.Is(string(In)) {
		list, err := text.list(n.values)
		return Condition{field, In, list}, err
	}

	if n.values[0].isAgo {
		return text.window(n, field)
	}
	v, err := text.value(n.values[0])
	if err != nil {
		return Condition{}, err
	}
	c := Condition{field, Operator(n.operator.Text), canonical(v)}
	if v == nil && c.Operator.Range() {
		return Condition{}, text.mistake(n.values[0].From, "null in a range")
	}
	return c, nil
}

// window returns the condition that makes a window.
func (text source) window(n conditionNode, field document.Field) (Condition, error) {
	length := n.values[0].Token
	ago, ok := ParseAgo(length.Text)
	if !ok {
		return Condition{}, text.mistake(length.From, "unusable window", length.Text, Ago(shortestWindow), Ago(LongestWindow))
	}
	return Condition{field, Operator(n.operator.Text), ago}, nil
}

// list returns the values of a list, in Firestore's order.
func (text source) list(nodes []valueNode) ([]any, error) {
	var values []any
	for i, n := range nodes {
		v, err := text.value(n)
		if err != nil {
			return nil, err
		}

		v = canonical(v)
		switch {
		case v == nil:
			return nil, text.mistake(n.From, "null in a list")
		case slices.Contains(values, v):
			return nil, text.mistake(n.From, "value twice in a list", quoteValue(v))
		case i == maxIn:
			return nil, text.mistake(n.From, "list too long", maxIn)
		}
		values = append(values, v)
	}
	slices.SortFunc(values, ordered)
	return values, nil
}

// ordered compares values of a list in Firestore's order, which puts booleans before numbers,
// numbers before timestamps, and timestamps before texts.
func ordered(a, b any) int {
	kinds := []string{"a boolean", "a number", "a timestamp", "a string"}
	byKind := cmp.Compare(slices.Index(kinds, value.KindOf(a)), slices.Index(kinds, value.KindOf(b)))
	byValue, _ := compare(a, b)
	return cmp.Or(byKind, byValue)
}

// checkTested checks that a total can test the condition's field.
func (text source) checkTested(n conditionNode, c Condition, t Total, r *Route) error {
	if r.isKey(c.Field) {
		return text.mistake(n.field.at, "condition on a key", quoteField(c.Field))
	}
	if r.Time() != "" && c.Operator.Range() {
		return text.mistake(n.operator.From, "range in a day")
	}
	if c.Field != t.Field {
		return nil
	}

	switch c.Operator {
	case Equal:
		return text.mistake(n.field.at, "one value of the total's field", quoteField(c.Field))
	case In:
		return text.mistake(n.field.at, "list of the total's field", quoteField(c.Field))
	}
	if _, sees := t.Aggregate.Sees(c.At(time.Time{}).Value); !sees {
		return text.mistake(n.values[0].From, "value that the total does not see", quoteValue(c.Value), t.Aggregate)
	}
	return nil
}

// kind returns the kind of the condition's value.
func (c Condition) kind() string { return value.KindOf(c.At(time.Time{}).Value) }

// alternatives returns how many values meet a condition that is no range.
func (c Condition) alternatives() int {
	list, _ := c.Value.([]any)
	return max(1, len(list))
}

// checkTogether checks that one total can have the condition and others. Firestore bounds how many
// alternatives the lists of one query make. A range of a second field would bill what lies outside
// of it (https://firebase.google.com/docs/firestore/query-data/multiple-range-fields).
func (text source) checkTogether(n conditionNode, c Condition, others []Condition) error {
	alternatives := c.alternatives()
	for _, other := range others {
		alternatives = min(alternatives*other.alternatives(), maxIn+1)
		ends := c.Operator.lower() && other.Operator.upper() || c.Operator.upper() && other.Operator.lower()
		switch {
		case c.Field == other.Field && !ends:
			return text.mistake(n.field.at, "two conditions on a field", quoteField(c.Field))
		case c.Field == other.Field && c.kind() != other.kind():
			return text.mistake(n.values[0].From, "range of two kinds", quoteValue(other.Value), quoteValue(c.Value))
		case c.Field != other.Field && c.Operator.Range() && other.Operator.Range():
			return text.mistake(n.field.at, "ranges of two fields", quoteField(other.Field), quoteField(c.Field))
		}
	}
	if alternatives > maxIn {
		return text.mistake(n.field.at, "too many alternatives", maxIn)
	}
	return nil
}

// value returns a value with which a condition compares a field. It is a string, an int64, a
// float64, a bool, a time.Time or nil.
func (text source) value(n valueNode) (any, error) {
	if n.Kind == InQuotes {
		s, err := text.unquote(n.Token)
		if err != nil || !n.isTime {
			return s, err
		}
		return text.time(n.Token, s)
	}

	switch n.Text {
	case "true":
		return true, nil
	case "false":
		return false, nil
	case "null":
		return nil, nil
	}
	if !json.Valid([]byte(n.Text)) {
		return nil, text.mistake(n.From, "no value", n.Text)
	}

	if i, err := strconv.ParseInt(n.Text, 10, 64); err == nil {
		return i, nil
	}

	f, err := strconv.ParseFloat(n.Text, 64)
	if err != nil {
		return nil, text.mistake(n.From, "number too large", n.Text)
	}
	if !strings.ContainsAny(n.Text, ".eE") {
		return nil, text.mistake(n.From, "integer too large", n.Text)
	}
	return f, nil
}

// unquote returns the text in quotes.
func (text source) unquote(t Token) (string, error) {
	var s string
	if err := json.Unmarshal([]byte(t.Text), &s); err != nil {
		return "", text.mistake(t.From, "no JSON string", err)
	}
	if strings.ContainsRune(s, utf8.RuneError) { // it stands for bytes that are not UTF-8
		return "", text.mistake(t.From, "text that is not UTF-8")
	}
	if len(s) > LongestGroup {
		return "", text.mistake(t.From, "text too long", len(s), LongestGroup)
	}
	return s, nil
}

// time returns the time that a text says.
func (text source) time(t Token, s string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return at, text.mistake(t.From, "no time")
	}

	at = at.UTC()
	if at.Year() < 1 || at.Year() > 9999 {
		return at, text.mistake(t.From, "year out of range")
	}
	if at.Nanosecond()%1000 != 0 {
		return at, text.mistake(t.From, "time too fine")
	}
	return at, nil
}
