package schedule

import (
	"slices"
	"time"

	"github.com/firestore-tally/tally/rollup/route"
)

// routesFoundByShards returns the routes whose counters are found by their shards.
func routesFoundByShards(routes route.Routes) route.Routes {
	return slices.DeleteFunc(slices.Clone(routes), func(r *route.Route) bool { return r.Template.FoundByHomes() })
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

// recordComplete notes that audits have come to the ends of all walks.
func (c *Cursor) recordComplete(at time.Time) {
	if !c.Complete.IsZero() {
		c.Cycle = at.Sub(c.Complete)
	}
	c.RollUps.Ended, c.Shards.Ended, c.Complete = false, false, at
}

// places returns how many walks the routes have.
func places(routes route.Routes) int {
	return len(routes.Templates()) + len(routesFoundByShards(routes))
}

// forRoutes returns the cursor from which to walk the routes. If c belongs to other routes, all
// walks start over.
func (c Cursor) forRoutes(routes route.Routes) Cursor {
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

// A Lap is one go through all walks of a kind. A cycle is a lap of each kind. Reads are what an
// audit costs, so laps have a least length, and their reads are spread over the audits of that
// time.
type Lap struct {
	Began   time.Time // by Firestore's clock; zero: no lap has
	Hurried bool      // it is not spread, because something new or a note made it due
	Remake  bool      // alarms that began before it may be gone: see AuditOptions.Purged
	Ended   bool      // it has come to its end since Cursor.Complete
	Number  int64     // how many laps began before it
}
