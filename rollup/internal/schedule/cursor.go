package schedule

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/firestore-tally/tally/rollup/route"
)

// walkPage is how many counters are found at a time, at most. It bounds the memory of an audit.
const walkPage = 100

// A walk goes through the counters of a template by their roll-ups, or through those of a route by
// their shards.
type walk struct {
	template *route.Template
	what     string // what it goes through, for errors
	find     func(ctx context.Context, from string, limit int) (Page, error)
}

// walksOf returns the walks of the roll-ups, one for each template, and the walks of the shards,
// one for each route whose counters are not FoundByHomes. The walks of the roll-ups find the
// counters whose roll-up has a tally or Unwritten totals, and those found by their homes. The walks
// of the shards find the others. So all walks together find each counter once. since says for a
// route how old a day or month may be that the walk of its shards finds; zero: any.
func walksOf(routes route.Routes, store Store, since func(*route.Route) time.Time) (byRollUps, byShards []walk) {
	for _, t := range routes.Templates() {
		find := func(ctx context.Context, from string, limit int) (Page, error) {
			page, err := store.RollUps(ctx, t, from, limit)
			if !t.FoundByHomes() {
				page.Found = slices.DeleteFunc(page.Found, page.isLeftOut)
			}
			return page, err
		}
		byRollUps = append(byRollUps, walk{t, "roll-ups of " + t.String(), find})
	}

	for _, r := range byShardsOf(routes) {
		find := func(ctx context.Context, from string, limit int) (Page, error) {
			page, err := store.Missing(ctx, r, since(r), from, limit)
			page.Found = slices.DeleteFunc(page.Found, func(f FoundCounter) bool { return len(f.RollUp.Unwritten()) > 0 })
			return page, err
		}
		byShards = append(byShards, walk{r.Template, "shards of " + r.Pattern().String(), find})
	}
	return byRollUps, byShards
}

// byShardsOf returns the routes whose counters are found by their shards.
func byShardsOf(routes route.Routes) route.Routes {
	return slices.DeleteFunc(slices.Clone(routes), func(r *route.Route) bool { return r.Template.FoundByHomes() })
}

// page finds the next counters of a walk, up to limit, within a time.
func (w walk) page(ctx context.Context, from string, limit int, within time.Duration) (Page, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	page, err := w.find(ctx, from, limit)
	if err != nil {
		return page, fmt.Errorf("rollup: finding the %s: %w", w.what, err)
	}
	return page, nil
}

// A Place is how far one walk has come. The zero Place is the beginning.
type Place struct {
	From   string // where the store's walk goes on
	Done   bool   // the walk has come to the last counter
	Failed bool   // the page from here on could not be read; the next audit tries again

	// Only Keep uses Began. It is when the walk last began with the first counter, by Firestore's
	// clock; zero: unknown.
	Began time.Time

	// Only audits use these. They are what the walk was billed in this lap so far, and in the last
	// one; 0: unknown.
	Reads int64
	Last  int64
}

// A Cursor says where one audit, or one call of Keep, stopped. The next one reads it from the
// database. Tick and Complete are times of local clocks, and serve estimates only.
type Cursor struct {
	Routes string  // the routes that Places belong to; with others the work starts over
	Places []Place // of the walks of the roll-ups, then of the walks of the shards; see walksOf

	// Only audits use these.
	Revision string        // AuditOptions.Revision
	Database string        // AuditOptions.Database
	Queue    string        // AuditOptions.Queue
	Moved    time.Time     // when an audit last met another queue than the one before, by Firestore's clock
	New      time.Time     // when an audit first met the routes, the revision or the database, by Firestore's clock
	RollUps  Lap           // of the walks of the roll-ups
	Shards   Lap           // of the walks of the shards
	Noted    string        // ID of the note after which the next audit reads those that one query does not find
	Tick     time.Time     // when the audit that saved this began
	Complete time.Time     // when audits last had come to the ends of all walks; zero: never
	Cycle    time.Duration // how long that took since the time before; 0: unknown

	// Only Keep uses these. They are paths of roll-ups, in the order in which their counters are
	// due. Changed has the counters that had changed at their last visit, and Quiet some or all of
	// the unchanged ones.
	Changed []string
	Quiet   []string

	UpdateTime time.Time // when it was saved, as Firestore says; zero: never
	ReadTime   time.Time // when it was loaded, as Firestore says; it is not saved
}

// completed notes that audits have come to the ends of all walks.
func (c *Cursor) completed(at time.Time) {
	if !c.Complete.IsZero() {
		c.Cycle = at.Sub(c.Complete)
	}
	c.RollUps.Ended, c.Shards.Ended, c.Complete = false, false, at
}

// places returns how many walks the routes have.
func places(routes route.Routes) int { return len(routes.Templates()) + len(byShardsOf(routes)) }

// on returns the cursor from which to walk the routes. If c belongs to other routes, all walks
// start over.
func (c Cursor) on(routes route.Routes) Cursor {
	if c.Routes != routes.String() || len(c.Places) != places(routes) {
		return Cursor{
			Routes:     routes.String(),
			Places:     make([]Place, places(routes)),
			Tick:       c.Tick,
			UpdateTime: c.UpdateTime,
			ReadTime:   c.ReadTime,
		}
	}
	c.Places = slices.Clone(c.Places)
	return c
}

// complete reports whether every walk has come to its last counter.
func complete(places []Place) bool {
	return !slices.ContainsFunc(places, func(p Place) bool { return !p.Done })
}

// describe names where the walks of one kind go on. If all of them are done, it returns "".
func describe(walks []walk, places []Place) string {
	i := slices.IndexFunc(places, func(p Place) bool { return !p.Done })
	if i < 0 {
		return ""
	}
	text := walks[i].what
	if from := places[i].From; from != "" {
		text += fmt.Sprintf(", from %q on", from)
	}
	return text
}

// describe names where the walks of both kinds go on.
func (c Cursor) describe(byRollUps, byShards []walk) string {
	rollUps := describe(byRollUps, c.Places[:len(byRollUps)])
	shards := describe(byShards, c.Places[len(byRollUps):])
	switch {
	case rollUps == "" && shards == "":
		return "at the beginning"
	case rollUps == "" || shards == "":
		return rollUps + shards
	default:
		return strings.Join([]string{rollUps, shards}, "; ")
	}
}
