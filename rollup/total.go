package rollup

import (
	"fmt"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/internal/document"
)

// An Aggregate is how many documents' values become one total. The names are those of Firestore's
// aggregations and of what apps ask for beside them.
type Aggregate string

// The aggregates. Each sees only values of its kind: finite numbers, or timestamps. Count and Sum of
// nothing are 0, all others null.
const (
	Sum      Aggregate = "sum"
	Count    Aggregate = "count"    // of documents, not of values
	Average  Aggregate = "average"  // the sum by how many numbers there are, a double
	Maximum  Aggregate = "maximum"  // of numbers; an integer stays one
	Minimum  Aggregate = "minimum"  // likewise
	Latest   Aggregate = "latest"   // of timestamps
	Earliest Aggregate = "earliest" // of timestamps
)

// A Total is one value that a route keeps.
type Total struct {
	Aggregate Aggregate
	Field     document.Field // whose values are aggregated; "" of Count
	Where     []Condition    // that the documents meet, in the order of their fields; a field comes once
	Name      string         // of the field in the roll-up
}

// countName is the name of a count() that has no other.
const countName = "count"

// All reports whether the total counts all documents.
func (t Total) All() bool { return t.Aggregate == Count && len(t.Where) == 0 }

// String returns the total as a route spells it.
func (t Total) String() string {
	if t.unnamed() {
		return t.aggregated()
	}
	return t.aggregated() + " as " + Quote(t.Name)
}

// aggregated returns the total as a route spells it, without its name.
func (t Total) aggregated() string {
	spelt := string(t.Aggregate) + "(" + quoteField(t.Field) + ")"
	if t.Aggregate == Sum && len(t.Where) == 0 {
		spelt = quoteField(t.Field)
	}
	if len(t.Where) > 0 {
		spelt += " where " + join(t.Where, " and ")
	}
	return spelt
}

// identity is what tells the total apart from others of its documents, in one form.
func (t Total) identity() string {
	return fmt.Sprintf("%s(%q) where %s as %q", t.Aggregate, t.Field, join(t.Where, " and "), t.Name)
}

// unnamed reports whether the total has the name that it has without "as".
func (t Total) unnamed() bool {
	if t.All() {
		return t.Name == countName
	}
	return t.Aggregate == Sum && len(t.Where) == 0 && t.Field == document.FieldOf(t.Name)
}

// best reports whether the total is of the one document that comes first in an order.
func (a Aggregate) best() bool {
	return slices.Contains([]Aggregate{Maximum, Minimum, Latest, Earliest}, a)
}

// Descending reports whether that order is of the greatest values first.
func (a Aggregate) Descending() bool { return a == Maximum || a == Latest }

// OfTimes reports whether the aggregate is of timestamps.
func (a Aggregate) OfTimes() bool { return a == Latest || a == Earliest }

// A Query is one query that a route makes of its documents, to answer one or more totals.
type Query struct {
	Field document.Field // "": the documents are counted
	Where []Condition    // as in the totals; of a route with By its group comes beside

	// Best says which one document the query finds: Maximum, Minimum, Latest or Earliest. "" is an
	// aggregation, of Sum, Average and Count.
	Best Aggregate

	Totals []Total // that it answers
}

// queries returns what answers the totals, in their order: one query for each different field and
// conditions, and for each Maximum and the like.
func queries(totals []Total) []Query {
	var all []Query
	for _, t := range totals {
		q := Query{Field: t.Field, Where: t.Where}
		if t.Aggregate.best() {
			q.Best = t.Aggregate
		}
		same := func(other Query) bool {
			return other.Field == q.Field && other.Best == q.Best && slices.Equal(other.Where, q.Where)
		}
		i := slices.IndexFunc(all, same)
		if i < 0 {
			i, all = len(all), append(all, q)
		}
		all[i].Totals = append(all[i].Totals, t)
	}
	return all
}

// sortConditions brings conditions into their one order.
func sortConditions(conditions []Condition) {
	slices.SortFunc(conditions, func(a, b Condition) int { return strings.Compare(string(a.Field), string(b.Field)) })
}
