package route

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/firestore-tally/tally/internal/document"
)

// An Aggregate is a way to make one total of the values of many documents. Some are Firestore's
// aggregations, and have the same names.
type Aggregate string

// The aggregates. Each except Count sees only values of its kind, which are finite numbers or
// timestamps. Without such values Sum is 0, and without documents Count is 0. The others are null
// then.
const (
	Sum      Aggregate = "sum"
	Count    Aggregate = "count"    // of documents, not of values
	Average  Aggregate = "average"  // the sum divided by how many numbers there are, as a double
	Maximum  Aggregate = "maximum"  // of numbers; an integer stays an integer
	Minimum  Aggregate = "minimum"  // likewise
	Latest   Aggregate = "latest"   // of timestamps
	Earliest Aggregate = "earliest" // of timestamps
)

// A Total is one value that a route keeps.
type Total struct {
	Aggregate Aggregate
	Field     document.Field // the field whose values are aggregated; "" for Count
	Where     []Condition    // the conditions that the documents meet, sorted by their fields; a field comes once, or twice as a lower and an upper bound
	Name      string         // the name of the total in the roll-up
}

// countName is the name of a count() without "as".
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
	text := string(t.Aggregate) + "(" + quoteField(t.Field) + ")"
	if t.Aggregate == Sum && len(t.Where) == 0 {
		text = quoteField(t.Field)
	}
	if len(t.Where) > 0 {
		text += " where " + join(t.Where, " and ")
	}
	return text
}

// identity returns a text that tells the total apart from other totals of the same documents.
func (t Total) identity() string {
	return fmt.Sprintf("%s(%q) where %s as %q", t.Aggregate, t.Field, join(t.Where, " and "), t.Name)
}

// unnamed reports whether the route can spell the total without "as", because it would have the
// same name.
func (t Total) unnamed() bool {
	if t.All() {
		return t.Name == countName
	}
	return t.Aggregate == Sum && len(t.Where) == 0 && t.Field == document.FieldOf(t.Name)
}

// best reports whether one document decides the total: the first in the order of the field.
func (a Aggregate) best() bool {
	return slices.Contains([]Aggregate{Maximum, Minimum, Latest, Earliest}, a)
}

// Descending reports whether the greatest values come first in that order.
func (a Aggregate) Descending() bool { return a == Maximum || a == Latest }

// OfTimes reports whether the aggregate is of timestamps.
func (a Aggregate) OfTimes() bool { return a == Latest || a == Earliest }

// A Query is a query for the documents of a route. It answers one or more totals.
type Query struct {
	Field document.Field // the field that is aggregated; "": the documents are counted
	Where []Condition    // the conditions of the totals; a route with keys adds those of a counter

	// Best is Maximum, Minimum, Latest or Earliest if the query finds the one document that decides
	// such a total. It is "" if the query is an aggregation, for Sum, Average and Count.
	Best Aggregate

	Totals []Total // the totals that it answers

	time document.Field // of the route's days, weeks or months; each counter wants a range of it
}

// Ranged returns the field of which the conditions, or those of each counter, want a range. It
// returns "" if they want none.
func (q Query) Ranged() document.Field {
	if q.time != "" {
		return q.time
	}
	for _, c := range q.Where {
		if c.Operator.Range() {
			return c.Field
		}
	}
	return ""
}

// Walks reports whether the query goes through values from the best one on until one is in a range
// of another field.
func (q Query) Walks() bool { return q.Best != "" && q.Ranged() != "" && q.Ranged() != q.Field }

// queries returns the queries that answer the totals of a route, in their order. time is the field
// of the route's days, weeks or months. Totals with the same field and the same conditions share a
// query. Each kind of Best has queries of its own.
func queries(totals []Total, time document.Field) []Query {
	var all []Query
	for _, t := range totals {
		q := Query{Field: t.Field, Where: t.Where, time: time}
		if t.Aggregate.best() {
			q.Best = t.Aggregate
		}
		same := func(other Query) bool {
			return other.Field == q.Field && other.Best == q.Best && slices.EqualFunc(other.Where, q.Where, Condition.Equal)
		}
		i := slices.IndexFunc(all, same)
		if i < 0 {
			i, all = len(all), append(all, q)
		}
		all[i].Totals = append(all[i].Totals, t)
	}
	return all
}

// At returns the query as it is at an instant. Only a window's bound depends on that.
func (q Query) At(instant time.Time) Query {
	q.Where = At(q.Where, instant)
	return q
}

// sortConditions sorts conditions by their fields. A field's lower bound comes before its upper
// one.
func sortConditions(conditions []Condition) {
	slices.SortFunc(conditions, func(a, b Condition) int {
		return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(rank(a.Operator.upper()), rank(b.Operator.upper())))
	})
}
