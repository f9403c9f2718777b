package firestorestore

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/firestore-tally/tally/rollup"
	"golang.org/x/sync/errgroup"
)

const (
	// queriesAtOnce is how many queries of a walk are on their way at once: enough to hide
	// Firestore's latency.
	queriesAtOnce = 8

	// pageTime is how long a page goes on with queries that follow one another, so that what it has
	// found is not lost to its caller's deadline when queries are slow.
	pageTime = 2 * time.Second
)

// All implements rollup.AuditStore. Roll-ups and shards come in one order, that of their captures.
// So one query finds up to limit roll-ups, and then one query for each of them and for each route,
// several at once, finds the first shard behind the roll-up before. Most often it is one of this
// roll-up's counter; one that comes before belongs to a counter without a roll-up, and the query is
// repeated behind that. A counter bills one read for its roll-up and one for its shards. A stretch
// of counters without roll-ups is walked query by query.
//
// A template that has the captures in another order than its sources is walked by its roll-ups
// first, and then by the shards of each route: see allInTurn.
func (s *Store) All(ctx context.Context, t *rollup.Template, from string, limit int) (rollup.Page, error) {
	if lastCapture(t.Segments()) < 0 { // one counter
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
	rollUps, err := s.RollUps(ctx, t, begin.rollUp, limit)
	if err != nil {
		return rollup.Page{}, err
	}
	more := rollUps.Next != ""
	if more && len(rollUps.Found) == 0 { // documents of other collections alone
		behind := place{rollUp: rollUps.Next}
		for n := range t.Routes {
			behind.shards = append(behind.shards, begin.begin(t, n))
		}
		return rollup.Page{Next: behind.String()}, nil
	}
	gaps := s.gaps(t, begin, rollUps.Found, more)
	if err := s.search(ctx, gaps, limit); err != nil {
		return rollup.Page{}, fmt.Errorf("firestore: finding shards of %s: %w", t, err)
	}

	page := rollup.Page{ReadTime: rollUps.ReadTime}
	last := begin.rollUp
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
			page.Next = g.place(begin, last).String()
			return page, nil
		}
	}
	if more {
		page.Next = rollUps.Found[len(rollUps.Found)-1].Counter.RollUp
	}
	return page, nil
}

// A place is how far All has come: all counters are found up to the one whose roll-up has that
// path, whether it exists or not. The shards of a route may have been looked through further; ""
// says that they have not. A path holds no empty segment, so two slashes part the text of a place.
type place struct {
	rollUp string
	shards []string // by route
}

// begin returns where the shards of the template's n-th route go on.
func (p place) begin(t *rollup.Template, n int) string {
	if p.shards[n] != "" {
		return p.shards[n]
	}
	c, ok := t.Counter(p.rollUp)
	if !ok {
		return ""
	}
	return behindCounter(t.Routes[n], c)
}

func (p place) String() string {
	return strings.TrimRight(p.rollUp+"//"+strings.Join(p.shards, "//"), "/")
}

func parsePlace(t *rollup.Template, text string) place {
	parts := strings.Split(text, "//")
	p := place{rollUp: parts[0], shards: make([]string, len(t.Routes))}
	copy(p.shards, parts[1:])
	return p
}

// behindCounter returns the place behind all shards of a counter.
func behindCounter(r *rollup.Route, c rollup.Counter) string {
	pattern := r.Pattern()
	return behind(pattern[:len(pattern)-1], strings.Split(r.Shards(c), "/"))
}

// A gap is what lies between one roll-up and the next, with that one.
type gap struct {
	rollUp    *rollup.Found // at its end; nil behind the last
	stretches []stretch     // by route
}

// A stretch is the part of a route's shards that lies in a gap.
type stretch struct {
	route    *rollup.Route
	at       string // how far it is looked through
	end      string // "": the last shard
	counters []rollup.Counter
	done     bool
}

// gaps returns the gaps before each of the roll-ups and, unless more follow, behind the last.
func (s *Store) gaps(t *rollup.Template, begin place, rollUps []rollup.Found, more bool) []gap {
	gaps := make([]gap, 0, len(rollUps)+1)
	before := make([]string, len(t.Routes))
	for n := range t.Routes {
		before[n] = begin.begin(t, n)
	}
	for i := range rollUps {
		g := gap{rollUp: &rollUps[i]}
		for n, r := range t.Routes {
			end := behindCounter(r, rollUps[i].Counter)
			g.stretches = append(g.stretches, stretch{route: r, at: before[n], end: end})
			before[n] = end
		}
		gaps = append(gaps, g)
	}
	if more {
		return gaps
	}
	var g gap
	for n, r := range t.Routes {
		g.stretches = append(g.stretches, stretch{route: r, at: before[n]})
	}
	return append(gaps, g)
}

// search looks through all gaps. Each stretch may take one query, and all of them together limit
// more, for pageTime, so that a page ends however many documents lie between.
func (s *Store) search(ctx context.Context, gaps []gap, limit int) error {
	var left atomic.Int64
	left.Store(int64(limit))
	until := time.Now().Add(pageTime)
	searching, ctx := errgroup.WithContext(ctx)
	searching.SetLimit(queriesAtOnce)
	for _, g := range gaps {
		for i := range g.stretches {
			searching.Go(func() error {
				return s.look(ctx, &g.stretches[i], g.rollUp, func() bool { return left.Add(-1) >= 0 && time.Now().Before(until) })
			})
		}
	}
	return searching.Wait()
}

// look looks through a stretch, to the counter of the roll-up at its end, with one query and as many
// more as it may make.
func (s *Store) look(ctx context.Context, in *stretch, rollUp *rollup.Found, again func() bool) error {
	pattern := in.route.Pattern()
	for first := true; ; first = false {
		if in.end != "" && in.at != "" && comparePaths(in.at, in.end) >= 0 {
			in.done = true
			return nil
		}
		if !first && !again() {
			return nil
		}
		docs, err := s.group(pattern, in.at, in.end).Select().Limit(1).Documents(ctx).GetAll()
		if err != nil {
			return err
		}
		if len(docs) == 0 {
			in.done = true
			return nil
		}

		shard := Path(docs[0].Ref)
		c, ok := in.route.Counter(path.Dir(shard))
		if !ok {
			in.at = next(pattern, shard)
			continue
		}
		in.counters = append(in.counters, c)
		in.at = behindCounter(in.route, c)
		if rollUp != nil && c == rollUp.Counter {
			in.done = true
			return nil
		}
	}
}

// done reports whether all of the gap's stretches are looked through.
func (g *gap) done() bool {
	return !slices.ContainsFunc(g.stretches, func(in stretch) bool { return !in.done })
}

// counters returns the counters of the gap, in their order, as far as all stretches show them.
func (g *gap) counters() []rollup.Counter {
	var all []rollup.Counter
	for _, in := range g.stretches {
		all = append(all, in.counters...)
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
		case len(in.counters) == 0:
			return nil
		default:
			seen, _ := slices.BinarySearchFunc(all, in.counters[len(in.counters)-1], byPath)
			all = all[:min(len(all), seen+1)]
		}
	}
	return all
}

// place returns where a walk goes on behind the last counter that was found, in this gap, which is
// not done.
func (g *gap) place(begin place, last string) place {
	p := place{rollUp: last, shards: make([]string, len(g.stretches))}
	if last == begin.rollUp {
		copy(p.shards, begin.shards)
	}
	for n, in := range g.stretches {
		if behindLast := len(in.counters) == 0 || comparePaths(in.counters[len(in.counters)-1].RollUp, last) <= 0; behindLast && !in.done {
			p.shards[n] = in.at
		}
	}
	return p
}

// allInTurn is All for templates whose roll-ups come in another order than their shards. A place is
// what is walked, 0 for the roll-ups or the number of a route, and how far. The shards show counters
// that have roll-ups, too, which are left out at one read each.
func (s *Store) allInTurn(ctx context.Context, t *rollup.Template, from string, limit int) (page rollup.Page, err error) {
	number, at, _ := strings.Cut(from, "//")
	n, _ := strconv.Atoi(number)
	if n == 0 {
		page, err = s.RollUps(ctx, t, at, limit)
		page.Found = slices.DeleteFunc(page.Found, func(f rollup.Found) bool { return f.RollUp.Tally.AsOf.IsZero() })
	} else if page, err = s.Counters(ctx, t.Routes[n-1], at, limit); err == nil {
		page.Found, err = s.withoutRollUp(ctx, page.Found, t.Routes[:n-1])
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

// withoutRollUp returns those of the counters that have no roll-up, and no shards of other routes.
func (s *Store) withoutRollUp(ctx context.Context, found []rollup.Found, others []*rollup.Route) ([]rollup.Found, error) {
	known := make([]bool, len(found))
	reading, ctx := errgroup.WithContext(ctx)
	reading.SetLimit(queriesAtOnce)
	for i, f := range found {
		reading.Go(func() error {
			v, err := s.View(ctx, f.Counter)
			if err != nil {
				return err
			}
			found[i].RollUp = v.RollUp()
			known[i] = !v.RollUp().Tally.AsOf.IsZero()
			for _, r := range others {
				if known[i] {
					return nil
				}
				docs, err := s.client.Collection(r.Shards(f.Counter)).Select().Limit(1).Documents(ctx).GetAll()
				if err != nil {
					return fmt.Errorf("firestore: finding shards of %s: %w", f.Counter.RollUp, err)
				}
				known[i] = len(docs) > 0
			}
			return nil
		})
	}
	if err := reading.Wait(); err != nil {
		return nil, err
	}
	var left []rollup.Found
	for i, f := range found {
		if !known[i] {
			left = append(left, f)
		}
	}
	return left, nil
}
