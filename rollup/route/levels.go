package route

import (
	"fmt"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/internal/document"
)

// A roll-up that Tally writes is a document that changed, like any other. It may be a source of
// further routes, whose totals are then totals of totals:
//
//	posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing
//	posts/{post} by author -> users/{author} : sum(likes) as karma : existing
//
// That ends, unless the roll-ups of some route lead back to its own sources. It ends there, too, if
// the sources are the documents of one collection, whose roll-ups change no field that decides what
// is added up:
//
//	comments/{comment} by parent -> comments/{parent} : count() as replies : existing

// Circular reports whether the route's roll-ups may be its own sources. Each is then an event of
// the route, and must not cause another roll-up: see Concern.
func (r *Route) Circular() bool { return r.circular }

// feeds reports whether a roll-up of the route may be a source of another.
func (r *Route) feeds(other *Route) bool { return Overlap(r.template, other.pattern) }

// Circles says which roll-ups of circular routes are events of their own routes, such as "each
// roll-up of comments/{parent} is one more event of comments/{comment}". It returns "" if there are
// none.
func (rs Routes) Circles() string {
	var all []string
	for _, r := range rs {
		text := fmt.Sprintf("each roll-up of %s is one more event of %s", r.template.quote(), r.pattern.quote())
		if r.Circular() && !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return strings.Join(all, "; ")
}

// circles adds a problem for each circle of routes whose roll-ups are the sources of the next, and
// for each circular route that may not be one.
func (rs Routes) circles(p *problems) {
	for _, r := range rs {
		r.mustFallSilent(rs, p)
	}

	feeds := make([][]int, len(rs)) // the routes that each one feeds
	for i, r := range rs {
		for j, other := range rs {
			if r.feeds(other) && !r.circlesWith(other) {
				feeds[i] = append(feeds[i], j)
			}
		}
	}

	for i, r := range rs {
		circle := circle(feeds, i)
		told := circle == nil || slices.Min(circle) < i
		if !told {
			p.add(r, "circle of routes", rs.through(circle[1:]))
		}
	}
}

// circlesWith reports whether the roll-ups of both routes, which may be one route, are among the
// sources of both.
func (r *Route) circlesWith(other *Route) bool {
	return r.Circular() && other.Circular() && r.pattern.Same(other.pattern)
}

// mustFallSilent adds a problem if the route is circular and one of its roll-ups could cause the
// next. The app's documents must not come and go with their totals. No roll-up may write a field
// that the route reads, not even one by a route with other sources: a sum of doubles differs in its
// last digits each time, and nothing else need have changed.
func (r *Route) mustFallSilent(rs Routes, p *problems) {
	if !r.Circular() {
		return
	}

	for _, f := range r.Reads() {
		writer := rs.writerOf(f, r)
		if writer == nil {
			continue
		}
		p.add(r, "roll-up that triggers itself", quoteField(f), writer)
		return
	}

	if !r.Template.Existing {
		p.add(r, "roll-up among its own sources", r.template, r.pattern)
	}
}

// writerOf returns a route whose roll-ups are sources of r, and write a field of them.
func (rs Routes) writerOf(f document.Field, r *Route) *Route {
	writes := func(w *Route) bool {
		return w.feeds(r) && (w.makes(f) || f.Within(document.TallyField))
	}
	if i := slices.IndexFunc(rs, writes); i >= 0 {
		return rs[i]
	}
	return nil
}

// circle returns the shortest circle that begins with a route. It returns nil if there is none.
func circle(feeds [][]int, first int) []int {
	from := make(map[int]int) // by which route each one was reached
	for reached := []int{first}; len(reached) > 0; reached = reached[1:] {
		for _, next := range feeds[reached[0]] {
			if next == first {
				return trail(from, first, reached[0])
			}
			if _, known := from[next]; !known {
				from[next] = reached[0]
				reached = append(reached, next)
			}
		}
	}
	return nil
}

// trail returns how a route was reached from the first.
func trail(from map[int]int, first, last int) []int {
	steps := []int{last}
	for last != first {
		last = from[last]
		steps = append(steps, last)
	}
	slices.Reverse(steps)
	return steps
}

// through returns the routes that a circle goes through.
func (rs Routes) through(circle []int) []*Route {
	routes := make([]*Route, len(circle))
	for i, n := range circle {
		routes[i] = rs[n]
	}
	return routes
}

// makes reports whether the route's roll-ups write the field, or one that holds it.
func (r *Route) makes(f document.Field) bool {
	names := r.Template.Labels()
	for _, t := range r.Totals {
		names = append(names, t.Name)
	}
	return slices.ContainsFunc(names, func(name string) bool { return f.Within(document.FieldOf(name)) })
}
