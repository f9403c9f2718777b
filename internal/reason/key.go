package reason

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup/route"
)

// ungrouped says why a document belongs to no counter of a route with keys.
func ungrouped(r *route.Route, d Document) []Reason {
	k, to, misfit := r.Misfit(d.Path, d.held)
	if misfit {
		about, why := d.misfit(k, to)
		return []Reason{{Kind: Ungrouped, Route: r, Field: k.Field, About: about, Why: why}}
	}

	c, ok := d.Counter(r)
	if ok {
		return nil
	}
	return []Reason{{
		Kind: Ungrouped, Route: r, About: "too long",
		Why: fmt.Sprintf("the path of its roll-up would have %d bytes, and Firestore's limit is %d", len(c.RollUp), document.LongestPath),
	}}
}

// misfit says why a key gives no id of a document. to is the template up to the key's capture.
func (d Document) misfit(k route.Key, to route.Path) (about, why string) {
	kind, held := d.Holds(k.Field)
	text, isText := held.(string)
	_, isReference := held.(document.Reference)
	switch {
	case kind == "":
		return kind, fmt.Sprintf("it has no field %s%s", k.Field, d.insteadText(k.Field))
	case kind == "an array":
		return kind, fmt.Sprintf("its %s is an array, and a document is in one group: let the app write a document for each element, as for posts by tag (docs/recipes.md#posts-by-tag)", k.Field)
	case kind != k.Function.Wants():
		return kind, fmt.Sprintf("its %s is %s, not %s%s", k.Field, kind, k.Function.Wants(), otherKey(k, kind))
	case k.Function == route.Reference && !isReference:
		return "another database", fmt.Sprintf("its %s", Foreign(k.Field))
	case k.Function == route.Reference:
		return "another path", fmt.Sprintf("its %s refers to %s, not to %s", k.Field, held, to)
	case k.Function == route.Number:
		return "no integer", fmt.Sprintf("its %s is %v, which is not an integer of 64 bits", k.Field, held)
	case k.Function.OfTime():
		return "out of the years", fmt.Sprintf("its %s is in a %s that is not within the years 1 to 9999", k.Field, k.Function)
	case isText && text == "":
		return "empty", fmt.Sprintf("its %s is empty", k.Field)
	case isText && strings.Contains(text, "/"):
		return "a path", fmt.Sprintf("its %s %v", k.Field, document.CheckID(text))
	case isText && document.CheckID(text) != nil:
		return "no id", fmt.Sprintf("its %s %v", k.Field, document.CheckID(text))
	default:
		return "too long", fmt.Sprintf("its %s is longer than 1,499 bytes, which no query takes", k.Field)
	}
}

// Foreign says of a reference that it leads to another database.
func Foreign(f document.Field) string {
	return fmt.Sprintf("%s refers to a document of another database, as a clone or an import leaves it: let the app write the reference again", f)
}

// otherKey names the key that takes values of a kind, if there is one. Only a timestamp has a day.
func otherKey(k route.Key, kind string) string {
	switch {
	case k.Function.OfTime():
		return ": let the app write a timestamp"
	case kind == "a boolean":
		return fmt.Sprintf(": no key takes a boolean; count() where %s == true is how many documents have it", k.Field)
	}
	for _, f := range []route.Function{route.Text, route.Reference, route.Number, route.Day} {
		if f.Wants() == kind {
			return ": group by " + route.KeyOf(f, k.Field).String()
		}
	}
	return ""
}

// timeless says why a document is in none of the windows of a field. A field that is missing or
// null may be set later.
func timeless(r *route.Route, d Document) (all []Reason) {
	for _, w := range r.Windows() {
		kind, field := d.kind(w.Field), w.Field
		switch kind {
		case "", "null", "a timestamp":
			continue
		}
		if slices.ContainsFunc(all, func(other Reason) bool { return other.Field == field }) {
			continue // windows of several lengths
		}
		all = append(all, Reason{
			Kind: Timeless, Route: r, Field: field,
			About: fmt.Sprintf("%s is %s", field, kind),
			Why:   fmt.Sprintf("its %s is %s, not a timestamp", field, kind),
		})
	}
	return all
}

// namesTime matches a text that names a day, a week or a month, maybe behind something else, such
// as north_2026-11-27.
var namesTime = regexp.MustCompile(`^(?:(.+)[_:.|-])?(\d{4}-(?:W\d\d|\d\d-\d\d|\d\d))$`)

// periods are the functions that give ids of so many bytes: 2026-11, 2026-W48 and 2026-11-27.
var periods = map[int]route.Function{7: route.Month, 8: route.Week, 10: route.Day}

// needlessKeys finds keys that the app writes only to count by them: the document has the time of
// the day that the key names, and another field with the rest of it.
func needlessKeys(r *route.Route, d Document) (all []Reason) {
	for _, k := range r.By {
		text, _ := d.held(k.Field).(string)
		named := namesTime.FindStringSubmatch(text)
		if named == nil {
			continue
		}
		function := periods[len(named[2])]
		at := d.fieldWith(func(v any) bool {
			t, isTime := v.(time.Time)
			return isTime && function.InUTC(t) == named[2]
		})
		rest := d.fieldWith(func(v any) bool { return named[1] != "" && v == named[1] })
		if at == "" || rest == "" && named[1] != "" {
			continue
		}

		keys := fmt.Sprintf("%s(%s)", function, at)
		if rest != "" {
			keys = rest + ", " + keys
		}
		all = append(all, Reason{
			Kind: Needless, Route: r, Field: k.Field, About: string(k.Field),
			Why: fmt.Sprintf("%s says no more than other fields do; by %s needs no such field (docs/migrate.md#from-a-field-that-names-a-day)", k.Field, keys),
		})
	}
	return all
}

// fieldWith returns the first field, as a route spells it, whose value is as wanted; "" if there is
// none.
func (d Document) fieldWith(wanted func(any) bool) string {
	for _, name := range sortedNames(d.Fields) {
		if wanted(d.Fields[name]) {
			return route.Quote(name)
		}
	}
	return ""
}
