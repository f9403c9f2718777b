package route

import (
	"fmt"
	"strings"

	"github.com/firestore-tally/tally/internal/document"
)

// An Omission says that a document is left out of totals of a route, because of the value in one of
// its fields.
type Omission struct {
	Route  *Route
	Reason string // one of few, so that each reason can be logged once
	Why    string // a sentence without its end, such as "its shop is a number, not a string"
}

// Ungrouped returns why a document belongs to no counter of the route. kind is the kind of the
// field By in value.KindOf's words, "" if the document lacks the field, and text is its string.
// Ungrouped reports false if the document belongs to a counter, or if the route has no groups.
func (r *Route) Ungrouped(kind, text string) (Omission, bool) {
	u := Omission{Route: r, Reason: kind}
	_, grouped := r.Grouped(text)
	invalid := document.CheckID(text)

	switch {
	case r.By == "" || grouped:
		return Omission{}, false
	case kind == "":
		u.Why = fmt.Sprintf("it has no field %s", r.By)
	case kind == "an array":
		u.Why = fmt.Sprintf("its %s is an array, and a document is in one group: let the app write a document for each element, as for posts by tag (docs/recipes.md#posts-by-tag)", r.By)
	case kind == "a reference":
		u.Why = fmt.Sprintf("its %s is a reference, not a string: let it hold the document's id", r.By)
	case kind != "a string":
		u.Why = fmt.Sprintf("its %s is %s, not a string", r.By, kind)
	case text == "":
		u.Reason, u.Why = "empty", fmt.Sprintf("its %s is empty", r.By)
	case invalid != nil && strings.Contains(text, "/"):
		u.Reason, u.Why = "a path", fmt.Sprintf("its %s %v", r.By, invalid)
	case invalid != nil:
		u.Reason, u.Why = "no id", fmt.Sprintf("its %s %v", r.By, invalid)
	default:
		u.Reason, u.Why = "too long", fmt.Sprintf("its %s is longer than 1,499 bytes, which no query takes", r.By)
	}
	return u, true
}

// Ungrouped returns the routes by which the document belongs to no counter. holds returns the kind
// and the text of a field of the document.
func (s Source) Ungrouped(holds func(document.Field) (kind, text string)) []Omission {
	var all []Omission
	for _, c := range s.covers {
		if c.route.By == "" {
			continue
		}
		u, ok := c.route.Ungrouped(holds(c.route.By))
		if ok {
			all = append(all, u)
		}
	}
	return all
}

// Timeless returns why a document is in none of the windows of a field. holds returns the kind of a
// field in value.KindOf's words, "" if the document lacks the field. A field that is missing or
// null may be set later, so it is no omission.
func (r *Route) Timeless(holds func(document.Field) (kind, text string)) []Omission {
	var all []Omission
	for _, w := range r.windows {
		switch kind, _ := holds(w.Field); kind {
		case "", "null", "a timestamp":
		default:
			all = append(all, Omission{
				Route:  r,
				Reason: fmt.Sprintf("%s is %s", w.Field, kind),
				Why:    fmt.Sprintf("its %s is %s, not a timestamp", w.Field, kind),
			})
		}
	}
	return all
}

// Timeless returns why the document is in none of the windows of a field, for each route that
// covers it. holds is as for [Source.Ungrouped].
func (s Source) Timeless(holds func(document.Field) (kind, text string)) []Omission {
	var all []Omission
	for _, c := range s.covers {
		all = append(all, c.route.Timeless(holds)...)
	}
	return all
}
