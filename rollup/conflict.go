package rollup

import (
	"fmt"
	"slices"

	"github.com/firestore-tally/tally/internal/document"
)

// ownPaths are the documents that Tally keeps for itself.
var ownPaths = []Path{
	{{Name: document.AuditCollection}, {Name: "id", Capture: true}},
}

// counterFields are the fields that a counter's own document has for clients and rules.
var counterFields = []string{"num_shards", "numShards", "once_per_user", document.FrozenField}

// conflicts returns what makes the routes unsafe together.
func (rs Routes) conflicts() []error {
	var problems []error
	report := func(r *Route, format string, args ...any) {
		problems = append(problems, fmt.Errorf("route %q: "+format, append([]any{r}, args...)...))
	}
	for i, r := range rs {
		for _, other := range rs[:i] {
			if overlap(r.pattern, other.pattern) {
				report(r, "its source and that of route %q could be one document; a document may be a source of one route only, which may have several totals", other)
			}
			if spell(r.template, r.template) != spell(other.template, other.template) && overlap(r.template, other.template) {
				report(r, "its roll-ups and those of route %q could be one document; spell both alike, or give each roll-ups of its own", other)
			}
		}
		for _, other := range rs {
			r.conflict(other, func(format string, args ...any) { report(r, format, args...) })
		}
		for _, own := range ownPaths {
			if overlap(own, r.pattern) {
				report(r, "the source matches %s, which Tally writes itself; every roll-up would trigger another, without end", own)
			}
			if overlap(own, r.template) {
				report(r, "the roll-up %s is where Tally keeps %s; choose another path", r.template, own)
			}
		}
	}
	for _, t := range rs.Templates() {
		seen := make(map[string]*Route)
		for _, r := range t.Routes {
			for _, total := range r.Totals {
				if other := seen[total.Name]; other == r {
					report(r, "the total %q is named twice", total.Name)
				} else if other != nil {
					report(r, "its total %q and that of route %q have one name in one roll-up; name one of them otherwise with \"as\"", total.Name, other)
				}
				seen[total.Name] = r
			}
		}
	}
	return problems
}

// conflict reports what makes r's roll-ups unsafe beside the source of a route, which may be r's
// own.
func (r *Route) conflict(other *Route, report func(format string, args ...any)) {
	if overlap(r.template, other.pattern) {
		report("the roll-up %s matches the source %s; writing it would trigger another roll-up, without end",
			r.template, other.pattern)
	}
	for n := 2; n < len(other.pattern); n += 2 {
		if !r.Template.Existing && overlap(r.template, other.pattern[:n]) {
			report("the roll-up %s is a document above the source %s, and Tally would create and remove it; add the option existing if the app writes it, or choose another path",
				r.template, other.pattern)
		}
	}
	if !overlap(r.template, other.pattern[:len(other.pattern)-2]) {
		return
	}
	for _, t := range r.Totals {
		if slices.Contains(counterFields, t.Name) {
			report("the total %q has the name of a field by which the counter's own document %s tells clients and rules about its shards; name it otherwise with \"as\"",
				t.Name, r.template)
		}
	}
}

// overlap reports whether a and b could name one document: segment by segment equal, or either a
// capture.
func overlap(a, b Path) bool {
	return slices.EqualFunc(a, b, func(s, t Segment) bool { return s.Capture || t.Capture || s.Name == t.Name })
}
