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

// Ungrouped returns why a document belongs to no counter of the route. holds returns the kind of a
// field in value.KindOf's words, "" if the document lacks the field, and its value as [Change] has
// it. Ungrouped reports false if the document at path belongs to a counter, or if the route has no
// keys or does not cover it.
func (r *Route) Ungrouped(path string, holds func(document.Field) (kind string, held any)) (Omission, bool) {
	parts := strings.Split(path, "/")
	if !r.pattern.matches(parts) {
		return Omission{}, false
	}

	ids := make([]string, len(r.template))
	r.template.fill(ids, r.pattern, parts)
	for _, k := range r.By {
		kind, held := holds(k.Field)
		id, ok := k.id(held, ids[:k.at])
		if !ok {
			o := k.omission(kind, held, r.template[:k.at+1])
			o.Route = r
			return o, true
		}
		ids[k.at] = id
	}
	if rollUp := strings.Join(ids, "/"); r.By != nil && len(rollUp) > document.LongestPath {
		return Omission{Route: r, Reason: "too long", Why: fmt.Sprintf("the path of its roll-up would have %d bytes, and Firestore's limit is %d", len(rollUp), document.LongestPath)}, true
	}
	return Omission{}, false
}

// omission says why the key gives no id of a value. to is the template up to the key's capture.
func (k Key) omission(kind string, held any, to Path) Omission {
	o := Omission{Reason: kind}
	text, isText := held.(string)
	_, isReference := held.(document.Reference)
	switch {
	case kind == "":
		o.Why = fmt.Sprintf("it has no field %s", k.Field)
	case kind == "an array":
		o.Why = fmt.Sprintf("its %s is an array, and a document is in one group: let the app write a document for each element, as for posts by tag (docs/recipes.md#posts-by-tag)", k.Field)
	case kind != k.Function.wants():
		o.Why = fmt.Sprintf("its %s is %s, not %s%s", k.Field, kind, k.Function.wants(), k.insteadFor(kind))
	case k.Function == Reference && !isReference:
		o.Reason, o.Why = "another database", fmt.Sprintf("its %s refers to a document of another database, as a clone or an import leaves it: let the app write the reference again", k.Field)
	case k.Function == Reference:
		o.Reason, o.Why = "another path", fmt.Sprintf("its %s refers to %s, not to %s", k.Field, held, to)
	case k.Function == Number:
		o.Reason, o.Why = "no integer", fmt.Sprintf("its %s is %v, which is not an integer of 64 bits", k.Field, held)
	case k.Function.OfTime():
		o.Reason, o.Why = "out of the years", fmt.Sprintf("its %s is in a %s that is not within the years 1 to 9999", k.Field, k.Function)
	case isText && text == "":
		o.Reason, o.Why = "empty", fmt.Sprintf("its %s is empty", k.Field)
	case isText && strings.Contains(text, "/"):
		o.Reason, o.Why = "a path", fmt.Sprintf("its %s %v", k.Field, document.CheckID(text))
	case isText && document.CheckID(text) != nil:
		o.Reason, o.Why = "no id", fmt.Sprintf("its %s %v", k.Field, document.CheckID(text))
	default:
		o.Reason, o.Why = "too long", fmt.Sprintf("its %s is longer than 1,499 bytes, which no query takes", k.Field)
	}
	return o
}

// insteadFor names the key that takes values of a kind, if there is one. Only a timestamp has a
// day.
func (k Key) insteadFor(kind string) string {
	if k.Function.OfTime() {
		return ": let the app write a timestamp"
	}
	for _, f := range []Function{Text, Reference, Number, Day} {
		if f.wants() == kind {
			k.Function, k.zone = f, utc
			return ": group by " + k.unnamed()
		}
	}
	return ""
}

// Ungrouped returns the routes by which the document belongs to no counter. holds is as for
// [Route.Ungrouped].
func (s Source) Ungrouped(holds func(document.Field) (kind string, held any)) []Omission {
	var all []Omission
	for _, r := range s.routes {
		o, ok := r.Ungrouped(s.path, holds)
		if ok {
			all = append(all, o)
		}
	}
	return all
}

// Timeless returns why a document is in none of the windows of a field. holds returns the kind of a
// field in value.KindOf's words, "" if the document lacks the field. A field that is missing or
// null may be set later, so it is no omission.
func (r *Route) Timeless(holds func(document.Field) (kind string, held any)) []Omission {
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
func (s Source) Timeless(holds func(document.Field) (kind string, held any)) []Omission {
	var all []Omission
	for _, r := range s.routes {
		all = append(all, r.Timeless(holds)...)
	}
	return all
}
