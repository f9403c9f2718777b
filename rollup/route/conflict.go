package route

import (
	"errors"
	"fmt"
	"slices"

	"github.com/firestore-tally/tally/internal/document"
)

// own are the paths of documents that Tally keeps for itself.
var own = []Path{
	{{Name: document.AuditCollection}, {Name: "id", Capture: true}},
	{{Name: document.ClaimsCollection}, {Name: "id", Capture: true}},
}

// problems are the first things that are wrong with routes, and how many more there are.
type problems struct {
	first []error
	more  int
}

// maxProblems is how many problems an error lists. More would only hide the first ones.
const maxProblems = 10

func (p *problems) note(err error) {
	if len(p.first) == maxProblems {
		p.more++
		return
	}
	p.first = append(p.first, err)
}

// add adds a problem of a route. It formats the text only if the error will list it.
func (p *problems) add(r *Route, format string, args ...any) {
	if len(p.first) == maxProblems {
		p.more++
		return
	}
	p.note(fmt.Errorf("route %q: "+format, append([]any{r}, args...)...))
}

// join returns one error for all problems. It returns nil if there are none.
func (p *problems) join() error {
	all := p.first
	if p.more > 0 {
		all = append(all, fmt.Errorf("and %d more", p.more))
	}
	return errors.Join(all...)
}

// conflicts adds a problem for everything that makes the routes unsafe together.
func (rs Routes) conflicts(p *problems) {
	for i, r := range rs {
		for _, other := range rs[:i] {
			if Overlap(r.pattern, other.pattern) {
				r.overlaps(other, p)
			}
			if r.Template.canonical != other.Template.canonical && Overlap(r.template, other.template) {
				p.add(r, "its roll-ups and those of route %q could be one document; spell both alike, or give each its own roll-ups", other)
			}
		}

		r.mustExist(rs, p)
		r.mustBeOwned(rs, p)
		for _, other := range rs {
			r.conflict(other, p)
		}

		for _, path := range own {
			if Overlap(path, r.pattern) {
				p.add(r, "the source matches %s, which Tally writes itself; every roll-up would trigger another, without end", path)
			}
			if Overlap(path, r.template) {
				p.add(r, "the roll-up %s is where Tally keeps %s; choose another path", r.template, path)
			}
		}
	}

	rs.circles(p)

	for _, t := range rs.Templates() {
		seen := make(map[string]*Route)
		for _, r := range t.Routes {
			for _, total := range r.Totals {
				if other := seen[total.Name]; other != nil {
					p.add(r, "its total %q and that of route %q have one name in one roll-up; rename one of them with \"as\"", total.Name, other)
				}
				seen[total.Name] = r
				if slices.Contains(t.Labels(), total.Name) {
					p.add(r, "its total %q has the name of a capture, and the roll-up has the capture's id in a field of that name; rename the total with \"as\"", total.Name)
				}
			}
		}
	}
}

// overlaps adds a problem for everything that makes r and another route unsafe together, if one
// document can be a source of both. Routes with the same pattern share a trigger, or have none, so
// each event comes once. So do routes of which one goes across parents and has all documents of the
// other.
func (r *Route) overlaps(other *Route, p *problems) {
	if !r.AmongThoseOf(other) && !other.AmongThoseOf(r) {
		p.add(r, "its source and that of route %q could be one document; spell both patterns alike, so that they share a trigger, or keep the documents apart", other)
		return
	}

	if r.Template.Every != other.Template.Every {
		p.add(r, "it and route %q have the same source; say the same \"every\" in both", other)
	}
	if r.Template.canonical == other.Template.canonical && r.identity() == other.identity() {
		p.add(r, "it and route %q make one roll-up of one source; put all totals into one of them", other)
	}
}

// mustExist adds a problem if r's roll-ups are documents above sources, and r does not say
// existing. One source is enough to say so: r's own if it is one of them.
func (r *Route) mustExist(rs Routes, p *problems) {
	if r.Template.Existing {
		return
	}
	for _, other := range append(Routes{r}, rs...) {
		for n := 2; n < len(other.pattern); n += 2 {
			if Overlap(r.template, other.pattern[:n]) {
				p.add(r, "the roll-up %s is a document above the source %s, and Tally would create and remove it; add the option existing if the app writes it, or choose another path",
					r.template, other.pattern)
				return
			}
		}
	}
}

// mustBeOwned adds a problem if Tally itself creates and removes the owners of r's counters.
func (r *Route) mustBeOwned(rs Routes, p *problems) {
	for _, other := range rs {
		if r.Template.owner > 0 && !other.Template.Existing && Overlap(r.owner(), other.template) {
			p.add(r, "it makes its roll-ups within %s, which Tally creates and removes itself by route %q; add the option existing there if the app writes it, or choose another document", r.owner(), other)
			return
		}
	}
}

// conflict adds a problem for everything that makes r's roll-ups unsafe together with the sources
// of a route. That route may be r itself.
func (r *Route) conflict(other *Route, p *problems) {
	if !Overlap(r.template, other.pattern[:len(other.pattern)-2]) {
		return
	}

	for _, t := range r.Totals {
		if slices.Contains(document.CounterFields, t.Name) {
			p.add(r, "the total %q has the name of a field by which the counter's own document %s tells clients and rules about its shards; rename it with \"as\"",
				t.Name, r.template)
		}
	}
}
