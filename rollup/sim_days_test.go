package rollup_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

// layOutDays draws the routes of a run whose documents name a shop and a day. Tally creates the
// days of shops that exist. A document is in up to two days.
func (s *simulation) layOutDays() {
	s.existing, s.orders, s.shops = false, make(map[string]map[string]any), make(map[string][]presence)
	options := " : within shops/{shop}" + s.drawSlowly()
	routes := 1 + int(s.chance(0.6, "further routes", upTo(1)))
	s.days = dayPairs[s.chance(0.5, "which days", upTo(int64(len(dayPairs)-1)))]

	s.layOutRevisions(routes, options, func(counts, paid string) []string {
		return []string{
			"orders/{order} by shop, day(at" + s.days.zone + ") -> shops/{shop}/days/{day} : count() as " + counts + ", sum(amount) where paid == true as revenue",
			"orders/{order} by from as shop, day(at" + s.days.zone + ") -> shops/{shop}/days/{day} : count() where paid == true as " + paid,
		}
	})
}

// A dayPair is two days that follow each other.
type dayPair struct {
	zone         string // as the second argument of day; "": UTC
	first, later string
	begins       time.Time // the later one
}

// dayPairs are the days of the orders: today, in which a run begins and ends, and tomorrow; a leap
// day; and the ends of years in zones whose clocks are behind and ahead.
var dayPairs = []dayPair{
	{"", "2000-01-01", "2000-01-02", time.Date(2000, 1, 2, 0, 0, 0, 0, time.UTC)},
	{`, "Europe/Berlin"`, "2000-02-28", "2000-02-29", time.Date(2000, 2, 28, 23, 0, 0, 0, time.UTC)},
	{`, "America/New_York"`, "2000-12-31", "2001-01-01", time.Date(2001, 1, 1, 5, 0, 0, 0, time.UTC)},
	{`, "Pacific/Auckland"`, "1999-12-31", "2000-01-01", time.Date(1999, 12, 31, 11, 0, 0, 0, time.UTC)},
}

// times are what orders hold as their times: the end of the first day, the beginning of the later
// one, and what is no time.
func (d dayPair) times() []any {
	return []any{d.begins.Add(-time.Microsecond), d.begins, "noon", nil}
}

// daysOf returns the days of shops.
func (s *simulation) daysOf(shops ...string) (all []*simulatedCounter) {
	for _, shop := range shops {
		all = append(all, s.counterAt("shops/"+shop+"/days/"+s.days.first), s.counterAt("shops/"+shop+"/days/"+s.days.later))
	}
	return all
}

// A presence says whether a document exists from a commit on.
type presence struct {
	commit time.Time
	there  bool
}

// startShops has the app create and delete shops.
func (s *simulation) startShops() {
	if s.shops == nil {
		return
	}
	for _, shop := range []string{"shops/a", "shops/b"} {
		if s.chance(0.2, shop+" comes later", upTo(1)) == 0 {
			s.setShop(shop, true)
		}
		for n := range s.chance(0.7, shop+" changes by the app", upTo(8)) {
			name := fmt.Sprint(shop, " change ", n+1)
			s.actors.Go(func() {
				long := s.chance(0.2, name+" much later", upTo(1)) == 1
				if long {
					time.Sleep(50 * time.Minute)
				}
				time.Sleep(s.chanceOf(1, name+" after", time.Millisecond, 20*time.Minute) + jitter(name))
				deletes := s.chance(0.4, name+" deletes", upTo(1)) == 1
				s.mu.Lock()
				defer s.mu.Unlock()
				s.setShop(shop, !deletes)
			})
		}
	}
}

// startDefacing has somebody write into the fields of days that hold the ids of their paths.
func (s *simulation) startDefacing() {
	if s.shops == nil {
		return
	}
	for _, c := range s.counters {
		for n := range s.chance(0.5, c.RollUp+" is defaced", upTo(3)) {
			name := fmt.Sprint(c.RollUp, " defacing ", n+1)
			s.actors.Go(func() {
				time.Sleep(s.chanceOf(1, name+" after", time.Millisecond, 20*time.Minute) + jitter(name))
				how := s.chance(1, name+" writes", upTo(2))
				s.mu.Lock()
				defer s.mu.Unlock()
				fields := s.store.Get(c.RollUp)
				if fields == nil {
					return
				}
				fields["shop"] = []any{"x", nil, []any{"x"}}[how]
				s.around(c, func() { s.store.Put(c.RollUp, fields) })
				s.tell("somebody writes %v into %s", fields["shop"], c.RollUp)
			})
		}
	}
}

// left returns what the document of a counter holds; nil if that is only a list of the app's.
func (s *simulation) left(c *simulatedCounter) map[string]any {
	fields := s.store.Get(c.RollUp)
	_, isList := fields["shop"].([]any)
	if s.shops != nil && len(fields) == 1 && isList {
		return nil
	}
	return fields
}

// checkLabels checks that a roll-up has the ids of its path in fields, where nothing of the app's
// stands.
func (s *simulation) checkLabels(c *simulatedCounter, when string) {
	fields := s.left(c)
	for name, id := range c.Labels() {
		_, isList := fields[name].([]any)
		if fields != nil && !isList && fields[name] != id {
			s.breach("%s: %s has %v in %s", when, c.RollUp, fields[name], name)
		}
	}
}

// setShop creates, edits or deletes a shop. The mutex is held, or nothing runs yet.
func (s *simulation) setShop(shop string, there bool) {
	var at time.Time
	if there {
		at = s.store.Put(shop, map[string]any{"name": "x"})
	} else {
		at = s.store.Delete(shop)
	}
	was := s.shopAt(shop, at)
	s.tell("the app has %s: %v", shop, there)
	s.shops[shop] = append(s.shops[shop], presence{at, there})
	if was || !there {
		return
	}
	for _, c := range s.counters {
		if c.Owner() == shop {
			c.cameAgain = c.cameAgain || len(c.truth) > 0 || !c.came.IsZero()
			c.came = at
		}
	}
}

// shopAt reports whether a shop existed at an instant. The mutex is held.
func (s *simulation) shopAt(shop string, t time.Time) (there bool) {
	for _, p := range s.shops[shop] {
		if !p.commit.After(t) {
			there = p.there
		}
	}
	return there
}

// shopMissedSince reports whether a shop was missing at any time since t.
func (s *simulation) shopMissedSince(shop string, t time.Time) bool {
	missed := !s.shopAt(shop, t)
	for _, p := range s.shops[shop] {
		missed = missed || p.commit.After(t) && !p.there
	}
	return missed
}

// checkOwner checks that a roll-up that is written has its shop, or says since when it has none.
func (s *simulation) checkOwner(c *simulatedCounter, r rollup.RollUp, creates bool, name string) {
	if s.shops == nil {
		return
	}
	there, since := s.shopAt(c.Owner(), r.Tally.AsOf), r.Tally.OwnerlessSince
	switch {
	case creates && !there:
		s.breach("%s: %s was created without its shop", name, c.RollUp)
	case there != since.IsZero():
		s.breach("%s: %s says that its shop is missing since %s; it existed: %v", name, c.RollUp, s.clock(since), there)
	case !there && s.shopAt(c.Owner(), since):
		s.breach("%s: %s says that its shop is missing since %s, when it existed", name, c.RollUp, s.clock(since))
	}
}

// forsaken reports whether a roll-up may be removed because its shop has been missing for an hour.
func (s *simulation) forsaken(c route.Counter, r rollup.RollUp) bool {
	now, since := s.store.Now(), r.Tally.OwnerlessSince
	return s.shops != nil && !since.IsZero() && now.Sub(since) > time.Hour && s.shopMissedSince(c.Owner(), now.Add(-time.Minute))
}

// lacksShop reports whether a counter's shop is missing now.
func (s *simulation) lacksShop(c *simulatedCounter) bool {
	return s.shops != nil && !s.shopAt(c.Owner(), s.store.Now())
}

// belongs reports whether the document at a path belongs to a counter by a route.
func belongs(r *route.Route, c route.Counter, path string, fields map[string]any) bool {
	like := "orders/1"
	if r.Across() { // all that are below regions count, wherever they are
		like = "regions/1/orders/1"
	}
	is, ok := r.Belongs(like, func(f document.Field) any { held, _ := f.In(fields); return held })
	return ok && is.RollUp == c.RollUp && !strings.HasPrefix(path, "depots/")
}
