package trial

import (
	"slices"

	"github.com/firestore-tally/tally/rollup/route"
)

// A shape is a kind of counters that a trial looks for among the routes.
type shape struct {
	kind  string
	fits  func(*route.Route) bool
	would string // a route that has the shape
}

// shapes are what a trial works on. It makes one counter of each.
var shapes = []shape{
	{"counter", (*route.Route).Plain, route.Default},
	{"likes", (*route.Route).CountsAll, "posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing"},
}

// find returns the first route that has the shape and makes a counter of the trial's own possible.
// A route with events comes before one that the schedule keeps. nil: there is none.
func (s shape) find(routes route.Routes) *route.Route {
	usable := func(r *route.Route) bool { return s.fits(r) && hasOwn(r) }
	for _, candidates := range []route.Routes{routes.Live(), routes.Scheduled()} {
		i := slices.IndexFunc(candidates, usable)
		if i >= 0 {
			return candidates[i]
		}
	}
	return nil
}

// hasOwn reports whether the path of the route's documents tells counters apart. Then an id of the
// trial's own gives a counter that no one else uses.
func hasOwn(r *route.Route) bool {
	isCapture := func(s route.Segment) bool { return s.Capture }
	return r.By == nil && slices.ContainsFunc(collectionOf(r), isCapture)
}

// collectionOf returns the pattern of the collections of a route's documents.
func collectionOf(r *route.Route) route.Path {
	pattern := r.Pattern()
	return pattern[:len(pattern)-1]
}
