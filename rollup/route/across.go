package route

import "slices"

// A template may leave out a capture of the pattern, because a key takes its place:
//
//	posts/{post}/comments/{comment} by author -> users/{author} : count() as comments : existing
//
// Such a route goes across parents. Its sources are all documents of collections comments at any
// depth below posts, also those of posts/1/comments/2/comments/3. So one query finds the documents
// of a counter: that of the collection group, with a range of the documents' names. Such a query
// has room for no other range.

// deep returns the index of the capture that is Deep; -1 if there is none.
func (p Path) deep() int { return slices.IndexFunc(p, func(s Segment) bool { return s.Deep }) }

// stretched returns the pattern of the paths with n segments that p matches. It reports false if p
// matches none.
func (p Path) stretched(n int) (Path, bool) {
	more := n - len(p)
	if more == 0 {
		return p, true
	}
	deep := p.deep()
	if deep < 0 || more < 0 || more%2 != 0 {
		return nil, false
	}

	ids := slices.Repeat(Path{{Capture: true, Deep: true}}, more)
	return slices.Insert(slices.Clone(p), deep, ids...), true
}

// Shallow returns the pattern of the paths of p that have no more segments than p.
func (p Path) Shallow() Path {
	shallow := slices.Clone(p)
	for i := range shallow {
		shallow[i].Deep = false
	}
	return shallow
}

// Overlap reports whether a and b could name the same document. Each two segments must be equal, or
// one of them a capture.
func Overlap(a, b Path) bool {
	n := max(len(a), len(b))
	if a.deep() >= 0 && b.deep() >= 0 { // of a path so long, no segment has a name in both
		n = len(a) + len(b)
	}

	a, fitsA := a.stretched(n)
	b, fitsB := b.stretched(n)
	both := func(s, t Segment) bool { return s.Capture || t.Capture || s.Name == t.Name }
	return fitsA && fitsB && slices.EqualFunc(a, b, both)
}

// Contains reports whether the pattern p matches all paths that another pattern matches.
func (p Path) Contains(other Path) bool {
	p, fits := p.stretched(len(other))
	contains := func(s, t Segment) bool { return s.Deep || s.Capture && !t.Deep || !t.Capture && s.Name == t.Name }
	return fits && slices.EqualFunc(p, other, contains)
}

// AmongThoseOf reports whether a trigger for the documents of another route has the events of all
// documents of r, too: both have the same pattern, or the other goes across parents.
func (r *Route) AmongThoseOf(other *Route) bool {
	return r.pattern.Same(other.pattern) || other.Across() && other.pattern.Contains(r.pattern)
}

// Triggering returns live routes that have the events of all live routes, each document's once.
func (rs Routes) Triggering() Routes {
	live := rs.Live()
	var all Routes
	for i, r := range live {
		isShared := func(by *Route) bool { return r.AmongThoseOf(by) && !by.AmongThoseOf(r) }
		isSame := func(before *Route) bool { return r.pattern.Same(before.pattern) }
		if !slices.ContainsFunc(live, isShared) && !slices.ContainsFunc(live[:i], isSame) {
			all = append(all, r)
		}
	}
	return all
}

// Across reports whether the route goes across parents: its documents are at any depth.
func (r *Route) Across() bool { return r.across > 0 }

// Below returns the pattern of the collections below which the documents are, at any depth. It is
// empty unless the route goes across parents.
func (r *Route) Below() Path { return slices.Clone(r.pattern[:r.across]) }

// Group returns where the documents of a counter are if the route goes across parents: in all
// collections of an id, at any depth below the collection at a path. If the route has keys, other
// counters' documents are there, too. Group reports false for any other route.
func (r *Route) Group(c Counter) (below, id string, across bool) {
	if !r.Across() {
		return "", "", false
	}
	below, _ = r.template.translate(c.RollUp, r.pattern[:r.across])
	return below, r.pattern.CollectionID(), true
}

// between stands for the ids between the ends of a path, in a text for people.
const between = "**"

// checkAcross checks that a route can leave out of its template the capture at an index of the
// pattern, which is the first that it leaves out.
func (text source) checkAcross(n routeNode, at int, keys []Key, used []string) error {
	isUsed := func(s segmentNode) bool { return s.Capture && slices.Contains(used, s.String()) }
	pattern := pathOf(n.pattern)
	if keys == nil || slices.ContainsFunc(n.pattern[at:], isUsed) {
		return text.mistake(n.pattern[at].at, "capture that the template lacks", pattern[at], pattern, keys)
	}

	below, last := pattern[:at+1], pattern[len(pattern)-2:]
	if len(below)+len(last) < len(pattern) {
		return text.mistake(n.pattern[at].at, "route across two parents", pattern[at], pattern[:at], last)
	}
	if pattern[at-1].Name == last[0].Name {
		return text.mistake(n.pattern[at].at, "route across parents of its own collection", pattern[at], below)
	}

	for i, k := range keys {
		if k.Function.OfTime() {
			return text.mistake(n.by[i].at, "day across parents", pattern[at], last, keys)
		}
	}
	return nil
}

// leaveOut finds the capture that the template leaves out, if there is one.
func (r *Route) leaveOut() {
	for i, s := range r.pattern[:len(r.pattern)-1] {
		if s.Capture && !slices.Contains(r.template, s) {
			r.across, r.pattern[i].Deep = i, true
		}
	}
}

// checkBest checks that a route can have the total if it goes across parents. A maximum would go
// through the best values of documents elsewhere, too.
func (text source) checkBest(n totalNode, t Total, r *Route) error {
	if !r.Across() || !t.Aggregate.best() {
		return nil
	}
	return text.mistake(n.at, "best value across parents", t.Aggregate, r.pattern[r.across], r.pattern[r.across+1:])
}

// checkRange checks that a route can have the condition if it goes across parents.
func (text source) checkRange(n conditionNode, c Condition, r *Route) error {
	if !r.Across() || !c.Operator.Range() {
		return nil
	}
	return text.mistake(n.operator.From, "range across parents", r.pattern[r.across], r.pattern[r.across+1:])
}
