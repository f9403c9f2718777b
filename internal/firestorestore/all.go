package firestorestore

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/firestore-tally/tally/rollup"
	"golang.org/x/sync/errgroup"
)

const (
	// queriesAtOnce is how many queries of a walk are made at once: enough to hide Firestore's
	// latency.
	queriesAtOnce = 8

	// pageTime is how long a page makes further queries in a gap. If queries are slow, the page
	// ends before its caller's deadline, and what it has found is not lost.
	pageTime = 2 * time.Second

	// slowPage is for how long a page goes on to further gaps. It matters where each query takes
	// seconds: an emulator may go through thousands of documents for one.
	slowPage = 10 * time.Second
)

// All implements rollup.AuditStore. Roll-ups and shards come in the same order, that of their
// captures. So a page is found in two steps:
//
//   - One query finds up to limit roll-ups. A gap ends at each of them, and begins behind the one
//     before. If no more roll-ups follow, there is one gap behind the last.
//   - In each gap, one query for each route finds the first shard. Most often that shard belongs to
//     the roll-up at the gap's end. Otherwise it belongs to a counter without a roll-up, and a
//     further query goes on behind that counter.
//
// So a counter bills one read for its roll-up, and one for its shards.
//
// A route with groups has no such paths. Its query goes by the strings of the group's field, which
// come in the same order: see byValue.
//
// A template may have the captures in another order than its sources. Then All walks the roll-ups
// first, and the shards of each route after them: see allInTurn.
func (s *Store) All(ctx context.Context, t *rollup.Template, from string, limit int) (rollup.Page, error) {
	if lastCapture(t.Segments()) < 0 { // there is one counter, and it is found whether or not it has shards
		c, _ := t.Counter(t.String())
		v, err := s.View(ctx, c)
		if err != nil {
			return rollup.Page{}, err
		}
		return rollup.Page{Found: []rollup.Found{{Counter: c, RollUp: v.RollUp()}}, ReadTime: v.ReadTime()}, nil
	}
	if slices.ContainsFunc(t.Routes, func(r *rollup.Route) bool { return !r.InOrder() }) {
		return s.allInTurn(ctx, t, from, limit)
	}

	begin := parsePlace(t, from)
	lanes := s.lanes(t)

	rollUps, err := s.RollUps(ctx, t, begin.rollUp, limit)
	if err != nil {
		return rollup.Page{}, err
	}
	more := rollUps.Next != ""
	if more && len(rollUps.Found) == 0 { // the query found only documents of other collections
		behind := place{template: t, rollUp: rollUps.Next}
		for n, l := range lanes {
			behind.shards = append(behind.shards, begin.begin(n, l))
		}
		return rollup.Page{Next: behind.String()}, nil
	}

	gaps := gapsBetween(rollUps.Found, more, begin, lanes)
	err = search(ctx, gaps, limit)
	if err != nil {
		return rollup.Page{}, fmt.Errorf("firestore: finding shards of %s: %w", t, err)
	}

	page, done := pageOf(t, gaps, begin.rollUp)
	page.ReadTime = rollUps.ReadTime
	if done && more {
		page.Next = rollUps.Found[len(rollUps.Found)-1].Counter.RollUp
	}
	return page, nil
}

// pageOf returns the counters that a search of the gaps has found, and whether all gaps are done.
// If they are, it leaves page.Next empty. The path last is that of the roll-up at which the page
// begins.
func pageOf(t *rollup.Template, gaps []gap, last string) (page rollup.Page, done bool) {
	for _, g := range gaps {
		for _, c := range g.counters() {
			found := rollup.Found{Counter: c, Next: c.RollUp}
			if g.rollUp != nil && c.RollUp == g.rollUp.Counter.RollUp {
				found.RollUp = g.rollUp.RollUp
			}
			page.Found = append(page.Found, found)
			last = c.RollUp
		}
		if !g.done() {
			page.Next = g.place(t, last).String()
			return page, false
		}
		if g.rollUp != nil {
			last = g.rollUp.Counter.RollUp // a counter's, or of a document that Tally never wrote
		}
	}
	return page, true
}

// A place is how far All has come. It has found all counters up to the one whose roll-up has the
// path rollUp, whether or not that document exists. It may have looked further through the shards
// of a route. If so, shards says how far; otherwise the route's element is "".
type place struct {
	template *rollup.Template
	rollUp   string
	shards   []string // by route, a place in its lane
}

// begin returns the place from which to look through the shards of the template's n-th route. Its
// lane is l.
func (p place) begin(n int, l lane) string {
	if p.shards[n] != "" {
		return p.shards[n]
	}
	c, ok := p.template.Counter(p.rollUp)
	if !ok {
		return ""
	}
	return l.behind(c)
}

// String returns the text of a place, for parsePlace. Its parts are separated by two slashes. No
// part holds two slashes itself: a path has no empty segment, and the string of a group, which may
// hold anything, is escaped.
func (p place) String() string {
	text := p.rollUp
	for n, r := range p.template.Routes {
		at := p.shards[n]
		if r.By != "" {
			at = url.PathEscape(at)
		}
		text += "//" + at
	}
	return strings.TrimRight(text, "/")
}

// parsePlace returns the place whose String is the text.
func parsePlace(t *rollup.Template, text string) place {
	parts := strings.Split(text, "//")
	p := place{template: t, rollUp: parts[0], shards: make([]string, len(t.Routes))}
	copy(p.shards, parts[1:])
	for n, r := range t.Routes {
		if r.By == "" {
			continue
		}
		at, err := url.PathUnescape(p.shards[n])
		if err != nil { // not of String: go on behind the roll-up
			at = ""
		}
		p.shards[n] = at
	}
	return p
}

// A gap reaches from one roll-up, which is not part of it, to the next, which is.
type gap struct {
	rollUp    *rollup.Found // at its end; nil behind the last
	stretches []stretch     // by route
}

// A stretch is the part of a route's shards that lies in a gap.
type stretch struct {
	lane  lane
	at    string // how far it is looked through
	end   string // "": the last shard
	found []foundAt
	done  bool
}

// A foundAt is a counter that a query found, and the place that the query began at.
type foundAt struct {
	rollup.Counter
	from string
}

// behind returns the place from which the stretch must be looked through again for the counters
// behind the roll-up at path last. If the stretch has found such a counter, that is the place at
// which its query began. Otherwise it is as far as the stretch is looked through.
func (in *stretch) behind(last string) string {
	for _, f := range in.found {
		if comparePaths(f.RollUp, last) > 0 {
			return f.from
		}
	}
	return in.at
}

// gapsBetween returns the gap that ends at each of the roll-ups and, unless more roll-ups follow,
// the gap behind the last.
func gapsBetween(rollUps []rollup.Found, more bool, begin place, lanes []lane) []gap {
	gaps := make([]gap, 0, len(rollUps)+1)
	before := make([]string, len(lanes))
	for n, l := range lanes {
		before[n] = begin.begin(n, l)
	}

	for i := range rollUps {
		g := gap{rollUp: &rollUps[i]}
		for n, l := range lanes {
			end := l.behind(rollUps[i].Counter)
			g.stretches = append(g.stretches, stretch{lane: l, at: before[n], end: end})
			if !l.over(before[n], end) { // the walk may have passed end already, if that roll-up is new
				before[n] = end
			}
		}
		gaps = append(gaps, g)
	}
	if more {
		return gaps
	}

	var last gap
	for n, l := range lanes {
		last.stretches = append(last.stretches, stretch{lane: l, at: before[n]})
	}
	return append(gaps, last)
}

// search looks through the gaps, in their order. Each stretch may make one query. All stretches
// together may make limit further queries within pageTime, so a page ends however many documents
// lie in its gaps. After slowPage, search begins no further gap. It always looks through the first,
// so each page gets further.
func search(ctx context.Context, gaps []gap, limit int) error {
	var left atomic.Int64
	left.Store(int64(limit))
	began := time.Now()
	until := began.Add(pageTime)
	again := func() bool { return left.Add(-1) >= 0 && time.Now().Before(until) }

	searching, ctx := errgroup.WithContext(ctx)
	searching.SetLimit(queriesAtOnce)
	for n, g := range gaps {
		if n > 0 && time.Since(began) > slowPage {
			break
		}
		for i := range g.stretches {
			searching.Go(func() error { return g.stretches[i].look(ctx, g.rollUp, again) })
		}
	}
	return searching.Wait()
}

// look looks through a stretch, up to the counter of the roll-up at its end. It makes one query,
// and then further ones while again allows them.
func (in *stretch) look(ctx context.Context, rollUp *rollup.Found, again func() bool) error {
	for {
		err := in.step(ctx, rollUp)
		if err != nil || in.done || !again() {
			return err
		}
	}
}

// step makes the next query of a stretch, unless nothing of it is left.
func (in *stretch) step(ctx context.Context, rollUp *rollup.Found) error {
	if in.lane.over(in.at, in.end) {
		in.done = true
		return nil
	}

	docs, err := in.lane.query(in.at, in.end).Limit(1).Documents(ctx).GetAll()
	if err != nil {
		return err
	}
	if len(docs) == 0 {
		in.done = true
		return nil
	}

	c, ok, behind := in.lane.counter(docs[0])
	if ok {
		in.found = append(in.found, foundAt{c, in.at})
	}
	in.at = behind

	atRollUp := ok && rollUp != nil && c == rollUp.Counter
	in.done = atRollUp || in.lane.over(in.at, in.end)
	return nil
}

// done reports whether all of the gap's stretches are looked through.
func (g *gap) done() bool {
	return !slices.ContainsFunc(g.stretches, func(in stretch) bool { return !in.done })
}

// counters returns the counters of the gap, in their order. It stops where a stretch has not been
// looked through yet, because a counter may lie there.
func (g *gap) counters() []rollup.Counter {
	var all []rollup.Counter
	for _, in := range g.stretches {
		for _, f := range in.found {
			all = append(all, f.Counter)
		}
	}
	if g.done() && g.rollUp != nil && !g.rollUp.RollUp.Tally.AsOf.IsZero() {
		all = append(all, g.rollUp.Counter)
	}
	byPath := func(a, b rollup.Counter) int { return comparePaths(a.RollUp, b.RollUp) }
	slices.SortFunc(all, byPath)
	all = slices.Compact(all)

	for _, in := range g.stretches {
		switch {
		case in.done:
		case len(in.found) == 0:
			return nil
		default:
			seen, _ := slices.BinarySearchFunc(all, in.found[len(in.found)-1].Counter, byPath)
			all = all[:min(len(all), seen+1)]
		}
	}
	return all
}

// place returns where a walk of the template goes on, if the gap is not done. The path last is the
// roll-up of the last counter that was found. Each route goes on behind the documents that belong
// to no counter. If it looked through them again, and two routes each had more of them than fit a
// page, the walk would never get further.
func (g *gap) place(t *rollup.Template, last string) place {
	p := place{template: t, rollUp: last}
	for _, in := range g.stretches {
		p.shards = append(p.shards, in.behind(last))
	}
	return p
}

// allInTurn is All for templates whose roll-ups come in another order than their shards. It walks
// the roll-ups, and then the shards of each route. A place is the number of the walk, 0 for the
// roll-ups and n for the n-th route, and how far that walk has come. The walks of the shards also
// find counters that have roll-ups, and leave them out. That costs a read each.
func (s *Store) allInTurn(ctx context.Context, t *rollup.Template, from string, limit int) (page rollup.Page, err error) {
	number, at, _ := strings.Cut(from, "//")
	n, _ := strconv.Atoi(number)
	if n == 0 {
		page, err = s.withTally(ctx, t, at, limit)
	} else {
		page, err = s.withoutRollUp(ctx, t.Routes[:n], at, limit)
	}
	if err != nil {
		return rollup.Page{}, err
	}

	for i, f := range page.Found {
		page.Found[i].Next = fmt.Sprintf("%d//%s", n, f.Next)
	}
	switch {
	case page.Next != "":
		page.Next = fmt.Sprintf("%d//%s", n, page.Next)
	case n < len(t.Routes):
		page.Next = fmt.Sprintf("%d//", n+1)
	}
	return page, nil
}

// withTally returns a page of the counters whose roll-up has a tally.
func (s *Store) withTally(ctx context.Context, t *rollup.Template, from string, limit int) (rollup.Page, error) {
	page, err := s.RollUps(ctx, t, from, limit)
	page.Found = slices.DeleteFunc(page.Found, func(f rollup.Found) bool { return f.RollUp.Tally.AsOf.IsZero() })
	return page, err
}

// withoutRollUp returns a page of the counters that have shards by the last of the routes. It
// leaves out those that another walk finds: those whose roll-up has a tally, and those that have
// shards by one of the other routes.
func (s *Store) withoutRollUp(ctx context.Context, routes []*rollup.Route, from string, limit int) (rollup.Page, error) {
	last := len(routes) - 1
	page, err := s.Counters(ctx, routes[last], from, limit)
	if err != nil {
		return rollup.Page{}, err
	}

	known := make([]bool, len(page.Found)) // each goroutine writes its own element
	reading, ctx := errgroup.WithContext(ctx)
	reading.SetLimit(queriesAtOnce)
	for i := range page.Found {
		reading.Go(func() (err error) {
			known[i], err = s.isShown(ctx, &page.Found[i], routes[:last])
			return err
		})
	}
	err = reading.Wait()
	if err != nil {
		return rollup.Page{}, err
	}

	var left []rollup.Found
	for i, f := range page.Found {
		if !known[i] {
			left = append(left, f)
		}
	}
	page.Found = left
	return page, nil
}

// isShown reads the roll-up of a counter. It reports whether the roll-up has a tally, or whether
// the counter has shards by one of the routes.
func (s *Store) isShown(ctx context.Context, f *rollup.Found, routes []*rollup.Route) (bool, error) {
	v, err := s.View(ctx, f.Counter)
	if err != nil {
		return false, err
	}
	f.RollUp = v.RollUp()
	if !f.RollUp.Tally.AsOf.IsZero() {
		return true, nil
	}

	for _, r := range routes {
		docs, err := s.client.Collection(r.Shards(f.Counter)).Select().Limit(1).Documents(ctx).GetAll()
		if err != nil {
			return false, fmt.Errorf("firestore: finding shards of %s: %w", f.Counter.RollUp, err)
		}
		if len(docs) > 0 {
			return true, nil
		}
	}
	return false, nil
}
