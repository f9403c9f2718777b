package route

import "slices"

// HasShards reports whether the documents of the route are shards, which only increments change.
// Others are the app's own, or roll-ups of other routes.
func (r *Route) HasShards() bool { return r.Plain() && !r.ofRollUps }

// OfRollUps reports whether the documents of the route may be roll-ups of other routes.
func (r *Route) OfRollUps() bool { return r.ofRollUps }

// TellsNumber reports whether Tally.NumShards of a counter tells people something: how many shards
// there are, or how many documents of one route. The sum over documents of several kinds is of no
// use. Where totals see only some of the documents, there are more than NumShards: of 64 votes, 35
// of which say yes, it would be 35.
func (t *Template) TellsNumber() bool {
	if !slices.ContainsFunc(t.Routes, func(r *Route) bool { return !r.HasShards() }) {
		return true
	}

	r := t.Routes[0]
	seesAll := len(r.queries) == 1 && r.queries[0].Best == "" && len(r.queries[0].Where) == 0
	return len(t.Routes) == 1 && (r.CountsAll() || seesAll)
}
