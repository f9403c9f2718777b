package schedule

import (
	"hash/fnv"
	"slices"
	"time"

	"github.com/firestore-tally/tally/rollup/internal/note"
	"github.com/firestore-tally/tally/rollup/internal/roll"
	"github.com/firestore-tally/tally/rollup/route"
)

const (
	// newFor is for how long routes, a revision or a database count as new. By then a trigger
	// delivers, and an old revision of the function has ended.
	newFor = 10 * time.Minute

	// leastNoted is the least time between the beginnings of two laps of which the second is due to
	// a note. Anybody may cause notes all the time.
	leastNoted = time.Hour
)

// A cycle says which walks of an audit go on, and when they begin again. It belongs to the
// goroutine that walks.
type cycle struct {
	o       *AuditOptions
	routes  route.Routes
	cursor  Cursor
	changed bool          // the cursor needs to be saved
	takes   time.Duration // how long a cycle takes at least
	noted   time.Time     // when the newest note about all counters was written, by Firestore's clock
}

// isNew reports whether no lap has begun yet that sees all that was changed while the routes, the
// revision or the database were new.
func (c *Cursor) isNew(l *Lap) bool { return l.Began.Before(c.New.Add(newFor)) }

// isHurried reports whether a lap is not spread.
func (c *cycle) isHurried(l *Lap) bool { return c.takes == 0 || l.Hurried || c.cursor.isNew(l) }

// adapt notes whether the routes, the revision, the database or the queue are new. Other routes
// have other walks, so these start over. Otherwise the walks go on, or deployments that follow each
// other would keep a long walk from its end.
func (c *cycle) adapt() {
	last, o := c.cursor, c.o
	known := last.Routes == c.routes.String() && last.Revision == o.Revision && last.Database == o.Database && len(last.Places) == places(c.routes)
	moved := last.Queue != o.Queue && !last.UpdateTime.IsZero()
	c.cursor = last.forRoutes(c.routes)
	c.cursor.Revision, c.cursor.Database, c.cursor.Queue, c.cursor.Moved = o.Revision, o.Database, o.Queue, last.Moved
	if moved {
		c.cursor.Moved = c.cursor.ReadTime
		c.changed = true
	}
	o.Purged = roll.Later(o.Purged, c.cursor.Moved)

	if !known {
		c.cursor.New = c.cursor.ReadTime
		c.changed = true
	}
}

// cycleTakes returns how long a cycle takes at least, going by the reads of the last one.
func (c *cycle) cycleTakes() time.Duration {
	if c.o.Cycle == nil || c.o.DryRun { // a dry run compares all, whatever is due
		return 0
	}

	var reads int64
	for _, p := range c.cursor.Places {
		reads += p.Last
	}
	return c.o.Cycle(reads)
}

// beginLap begins a lap if one is due and all walks have come to their ends. A walk whose page
// could not be read goes on from there. A lap that a note makes due cuts one that is spread. It
// waits for one that is not spread, because notes all the time would keep a long walk from its end.
func (c *cycle) beginLap(l *Lap, places []Place) {
	first := l.Began.IsZero()
	left := slices.ContainsFunc(places, func(p Place) bool { return !p.Done && !p.Failed })
	due, hurried := c.lapIsDue(l)
	cuts := due && hurried && !c.isHurried(l)

	begins := first || cuts || due && !left
	for i, p := range places {
		if begins && !p.Failed && (p.Done || cuts) {
			places[i] = Place{Last: p.Last}
		}
		places[i].Failed = false
	}
	if !begins {
		return
	}

	*l = Lap{
		Began:   c.cursor.ReadTime,
		Hurried: hurried,
		Remake:  c.o.Purged.After(l.Began),
		Ended:   l.Ended,
		Number:  l.Number + 1,
	}
	c.changed = true
}

// lapIsDue reports whether the next lap may begin, and whether it is not spread. A call of the
// schedule comes now and then a little sooner than the one before.
func (c *cycle) lapIsDue(l *Lap) (due, hurried bool) {
	if c.takes == 0 || c.cursor.isNew(l) {
		return true, true
	}

	passed := c.cursor.ReadTime.Sub(l.Began) + c.o.Every/2
	noted := c.noted.After(l.Began.Add(-note.Every)) || c.o.Purged.After(l.Began) || c.o.Stopped
	if noted && passed >= max(leastNoted, c.takes/2) {
		return true, true
	}
	return passed >= c.takes, false
}

// mayContinue reports whether a walk may go on now. Its reads are those of the last lap, spread
// over the lap. The last audit of the lap goes to the end.
func (c *cycle) mayContinue(l *Lap, p Place) bool {
	if p.Done || p.Failed {
		return false
	}
	if c.isHurried(l) {
		return true
	}

	passed := c.cursor.ReadTime.Sub(l.Began) + c.o.Every
	return passed >= c.takes || float64(p.Reads) < passed.Seconds()/c.takes.Seconds()*float64(p.Last)
}

// next returns the walk that goes on, of those whose places are from first on. It is the one that
// is furthest behind. So a template is not left until the others have come to their ends.
func (c *cycle) next(l *Lap, first, walks int) (n int, ok bool) {
	behind := 0.0
	for i := first; i < first+walks; i++ {
		p := c.cursor.Places[i]
		if !c.mayContinue(l, p) {
			continue
		}
		done := float64(p.Reads) / float64(max(p.Last, 1))
		if !ok || done < behind {
			n, behind, ok = i, done, true
		}
	}
	return n, ok
}

const (
	// oldAfter is how long ago a day, week or month ended once it counts as old. Hardly a document of
	// then changes, and such roll-ups become more and more.
	oldAfter = 30 * 24 * time.Hour

	// oldLaps is the number of laps of which one compares the old roll-ups of a collection.
	oldLaps = 30
)

// skipsOld reports whether a lap leaves most old roll-ups alone. A lap that something new or a
// note made due does not: nothing says how old the documents were whose events were lost.
func (c *cycle) skipsOld(l *Lap) bool { return !c.o.FromFirst && !c.o.DryRun && !c.isHurried(l) }

// recent returns since when the walk of a template's roll-ups finds days in a collection; zero:
// all. It returns nil for a walk that finds all. The id says how old a day is, so no client makes
// one older.
func (c *cycle) recent(t *route.Template) func(collection string) time.Time {
	l := &c.cursor.RollUps
	if !t.Timed() || !c.skipsOld(l) {
		return nil
	}

	return func(collection string) time.Time {
		h := fnv.New32a()
		_, _ = h.Write([]byte(collection)) // it never fails
		if int64(h.Sum32()%oldLaps) == l.Number%oldLaps {
			return time.Time{}
		}
		return l.Began.Add(-oldAfter)
	}
}

// since returns how old the days are that the walk of a route's shards finds; zero: any.
func (c *cycle) since(r *route.Route) time.Time {
	l := &c.cursor.Shards
	if r.Time() == "" || !c.skipsOld(l) || l.Number%oldLaps == 0 {
		return time.Time{}
	}
	return l.Began.Add(-oldAfter)
}
