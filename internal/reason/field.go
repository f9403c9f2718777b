package reason

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup/route"
)

func sortedNames(fields map[string]any) []string { return slices.Sorted(maps.Keys(fields)) }

// useText says what a route does with a field, in a relative clause without its subject.
func useText(r *route.Route, f document.Field) string {
	for _, t := range r.Totals {
		switch {
		case t.Field != f:
		case t.Aggregate == route.Sum:
			return "sums"
		default:
			return "takes the " + string(t.Aggregate) + " of"
		}
	}
	if slices.ContainsFunc(r.By, func(k route.Key) bool { return k.Field == f }) {
		return "groups by"
	}
	return "asks for"
}

// absentFields finds fields that the route reads and the document lacks. A shard need not have each
// field that its route sums, and a total of Tally's own may come later.
func absentFields(routes route.Routes, r *route.Route, d Document) (all []Reason) {
	for _, f := range r.Reads() {
		isKey := slices.ContainsFunc(r.By, func(k route.Key) bool { return k.Field == f })
		if isKey || d.has(f) || isTotal(routes, d.Path, f) {
			continue
		}

		through := d.notMap(f)
		if through != "" {
			all = append(all, Reason{Kind: Through, Route: r, Field: f, About: string(f), Why: fmt.Sprintf("%s, so it has no %s, which the route %s: %s", through, f, useText(r, f), r)})
			continue
		}
		if r.HasShards() {
			continue
		}
		why := fmt.Sprintf("it has no field %s%s", f, d.insteadText(f))
		all = append(all, Reason{Kind: Absent, Route: r, Field: f, Like: d.similarField(f, r.Reads()), About: string(f), Why: why})
	}
	return all
}

// isTotal reports whether Tally writes the field in the document at a path.
func isTotal(routes route.Routes, path string, f document.Field) bool {
	for _, t := range routes.Templates() {
		_, holds := t.Counter(path)
		if holds && slices.Contains(t.Totals(), f.Names()[0]) {
			return true
		}
	}
	return false
}

// notMap says which part of a field's path is no map; "" if all are maps, as far as they exist.
func (d Document) notMap(f document.Field) string {
	names := f.Names()
	for i := 1; i < len(names); i++ {
		part := document.FieldOf(names[:i]...)
		kind := d.kind(part)
		switch kind {
		case "", "null", "a map":
		case "an array":
			return fmt.Sprintf("its %s is an array, and no path leads through one", part)
		default:
			return fmt.Sprintf("its %s is %s, not a map", part, kind)
		}
	}
	return ""
}

// insteadText says what a document has instead of a field, if that may be what is meant.
func (d Document) insteadText(f document.Field) string {
	through := d.notMap(f)
	if through != "" {
		return ": " + through
	}
	like := d.similarField(f, nil)
	if like != "" {
		return fmt.Sprintf("; did you mean %s?", like)
	}
	return ""
}

// similarField returns the field of a document whose name is most like that of a field which it
// lacks, as a route spells it, except some. It returns "" if none is like it.
func (d Document) similarField(f document.Field, except []document.Field) string {
	names := f.Names()
	above, last := names[:len(names)-1], names[len(names)-1]
	siblings := d.Fields
	if len(above) > 0 {
		siblings, _ = d.held(document.FieldOf(above...)).(map[string]any)
	}

	best := ""
	for _, name := range sortedNames(siblings) {
		taken := slices.Contains(except, document.FieldOf(append(slices.Clone(above), name)...))
		if !taken && Nearly(name, last) && (best == "" || Distance(name, last) < Distance(best, last)) {
			best = name
		}
	}
	if best == "" {
		return ""
	}
	return string(document.FieldOf(append(slices.Clone(above), best)...))
}

// AbsentText says that none of n documents of a route has a field. The reason is about one of them.
func (r Reason) AbsentText(n int) string {
	pattern := r.Route.Pattern()
	collection := pattern.CollectionID()
	has := "no " + string(r.Field)
	if r.Like != "" {
		has = r.Like
	}
	documents := fmt.Sprintf("%d of %[1]d documents have", n)
	if n == 1 {
		documents = "the only document has"
	}
	return fmt.Sprintf("%s hold %s, and the route %s %s: %s no such field: %s", collection, has, useText(r.Route, r.Field), r.Field, documents, r.Route)
}

// conditions finds the conditions of a route that a document does not meet. A document that lacks
// the field is another matter, and so is one whose time is none.
func conditions(r *route.Route, d Document) (all []Reason) {
	for _, t := range r.Totals {
		for _, c := range t.Where {
			reason, unmet := unmet(r, t, c, d)
			same := func(other Reason) bool { return other.Kind == reason.Kind && other.About == reason.About }
			if unmet && !slices.ContainsFunc(all, same) {
				all = append(all, reason)
			}
		}
	}
	return all
}

// unmet says why a document does not meet a condition of a total.
func unmet(r *route.Route, t route.Total, c route.Condition, d Document) (Reason, bool) {
	kind, held := d.Holds(c.Field)
	if kind == "" || c.IsWindow() || c.Holds(d.Fields) {
		return Reason{}, false
	}

	wanted := wantedKind(c)
	if kind != "null" && wanted != "" && kind != wanted {
		return Reason{
			Kind: Mistyped, Route: r, Field: c.Field, About: fmt.Sprintf("%s %s", c, kind),
			Why: fmt.Sprintf("its %s is %s, and %s compares it with %s: %s does not have it", c.Field, kind, c, wanted, t.Name),
		}, true
	}
	return Reason{
		Kind: Unmet, Route: r, Field: c.Field, About: t.Name + " " + c.String(),
		Why: fmt.Sprintf("its %s is %s, and %s takes only documents where %s", c.Field, Shown(held), t.Name, c),
	}, true
}

// wantedKind returns the kind of values that can meet a condition; "" if there are several.
func wantedKind(c route.Condition) string {
	list, isList := c.Value.([]any)
	if !isList {
		list = []any{c.Value}
	}

	wanted := value.KindOf(list[0])
	for _, one := range list[1:] {
		if value.KindOf(one) != wanted {
			return ""
		}
	}
	if wanted == "null" {
		return ""
	}
	return wanted
}

// unseenValues finds fields whose value an aggregate leaves out, because it is of another kind.
func unseenValues(r *route.Route, d Document) (all []Reason) {
	for _, q := range r.Queries() {
		held := d.held(q.Field)
		if q.Field == "" || held == nil {
			continue
		}

		kind, by, want, seen := Unseen, q.Best, "numbers", false
		if q.Best == "" {
			number, isNumber := value.Number(held)
			kind, by, seen = Malformed, q.Totals[0].Aggregate, isNumber && number.Finite()
			want = "finite numbers"
		} else {
			_, seen = q.Best.Sees(held)
		}
		if q.Best.OfTimes() {
			want = "timestamps"
		}
		if !seen {
			aggregated := fmt.Sprintf("%s(%s)", by, q.Field)
			all = append(all, Reason{Kind: kind, Route: r, Field: q.Field, About: aggregated, Why: fmt.Sprintf("%s is %s, and %s sees only %s", q.Field, value.KindOf(held), aggregated, want)})
		}
	}
	return all
}

// Shown returns a value in a sentence.
func Shown(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return fmt.Sprintf("%q", v)
	case map[string]any, []any, []byte:
		return value.KindOf(v)
	default:
		number, ok := value.Of(v)
		if ok {
			return number.String()
		}
		return fmt.Sprint(v)
	}
}

// Nearly reports whether two names are so much alike that one may be meant by the other.
func Nearly(a, b string) bool {
	const unlike = 3 // one character in so many may differ
	a, b = strings.ToLower(a), strings.ToLower(b)
	return a != "" && b != "" && unlike*Distance(a, b) <= max(len(a), len(b))
}

// Distance returns how many characters must be changed, added or taken away to turn from into to.
func Distance(from, to string) int {
	b := []rune(to)
	row := make([]int, len(b)+1) // row[j] is the distance between the part of from that was read and the first j characters of b
	for j := range row {
		row[j] = j
	}

	for i, r := range []rune(from) {
		diagonal := row[0]
		row[0] = i + 1
		for j, s := range b {
			changed := diagonal
			if r != s {
				changed++
			}
			diagonal = row[j+1]
			row[j+1] = min(changed, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}
