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

// add adds a mistake of a route that does not go together with others.
func (p *problems) add(r *Route, kind string, values ...any) {
	p.note(&Mistake{Kind: kind, Values: values, Route: r})
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
				p.add(r, "roll-ups of two templates that may be one document", other)
			}
		}

		r.mustExist(rs, p)
		r.mustBeOwned(rs, p)
		for _, other := range rs {
			r.conflict(other, p)
		}

		for _, path := range own {
			if Overlap(path, r.pattern) {
				p.add(r, "source among Tally's own documents", path)
			}
			if Overlap(path, r.template) {
				p.add(r, "roll-up among Tally's own documents", r.template, path)
			}
		}
	}

	rs.circles(p)

	for _, t := range rs.Templates() {
		seen := make(map[string]*Route)
		for _, r := range t.Routes {
			for _, total := range r.Totals {
				if other := seen[total.Name]; other != nil {
					p.add(r, "total of two routes", total.Name, other)
				}
				seen[total.Name] = r
				if slices.Contains(t.Labels(), total.Name) {
					p.add(r, "total with the name of a label", total.Name)
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
		p.add(r, "sources of two patterns that may be one document", other)
		return
	}

	if r.Template.Every != other.Template.Every {
		p.add(r, "one source, and two of every", other)
	}
	if r.Template.canonical == other.Template.canonical && r.identity() == other.identity() {
		p.add(r, "one source and one roll-up", other)
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
				p.add(r, "roll-up above a source", r.template, other.pattern)
				return
			}
		}
	}
}

// mustBeOwned adds a problem if Tally itself creates and removes the owners of r's counters.
func (r *Route) mustBeOwned(rs Routes, p *problems) {
	for _, other := range rs {
		if r.Template.owner > 0 && !other.Template.Existing && Overlap(r.owner(), other.template) {
			p.add(r, "owner that Tally creates", r.owner(), other)
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
			p.add(r, "total with the name of a counter's field", t.Name, r.template)
		}
	}
}
