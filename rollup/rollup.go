package rollup

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"
)

// Options configure a Coalescer and an audit.
type Options struct {
	// Cadence is the least time between the snapshots of two roll-ups of one counter, by Firestore's
	// clock. It keeps the roll-up document within the rate of writes that Firestore sustains on one
	// document, about one a second. It must be positive.
	Cadence time.Duration

	// Timeout bounds each look and each write. It must be positive, and well below the time for which
	// an event may be held, so that a call that never answers leaves time for another.
	Timeout time.Duration

	// Hold is how long an event may be held. Zero means as long as its context lasts.
	Hold time.Duration

	// Logger must not be nil.
	Logger *slog.Logger

	// Random returns a uniform number in [0, 1), to spread the wake-ups of many instances. It must be
	// safe for concurrent use. Nil means math/rand/v2.
	Random func() float64

	// Wrote, unless nil, is called after each attempt to write a roll-up, with the context of the
	// attempt. It must be safe for concurrent use, and quick: events wait for it.
	Wrote func(context.Context, Attempt)
}

// An Attempt is one attempt to write a roll-up.
type Attempt struct {
	Counter   Counter
	AsOf      time.Time // the snapshot's instant
	Unchanged bool      // the totals are those that the roll-up had: as_of alone is new
	Marked    time.Time // when the pending mark was left for which a drain wrote; zero: none
	Err       error     // nil: written; ErrConflict: refused; any other: the outcome is unknown, or nothing was sent
}

// A roller looks at counters and writes roll-ups.
type roller struct {
	store Store
	Options
}

func newRoller(store Store, o Options) roller {
	if o.Random == nil {
		o.Random = rand.Float64
	}
	return roller{store, o}
}

// maxNamed bounds the log line of a counter with malformed shards, which each of its roll-ups writes.
const maxNamed = 5

// A look is one attempt at a roll-up: one snapshot and what was read in it.
type look struct {
	eventID   string    // of the event that has waited longest for it; empty in an audit
	began     time.Time // local; not later than the snapshot's instant
	received  time.Time // local; when the roll-up document's state became known here
	readTime  time.Time // the snapshot's instant
	asOf      time.Time // the roll-up's, zero when it counts as none
	rollUp    RollUp
	summed    bool
	totals    Totals
	malformed int       // shards' fields that the sum leaves out
	marked    time.Time // when the pending mark was left that the look is for; zero: none
}

// look opens a snapshot of c and sums the shards in it if wanted, called once the roll-up is known,
// says so. What it returns beside an error was read all the same.
func (r *roller) look(ctx context.Context, c Counter, eventID string, wanted func(*look) bool) (look, error) {
	l := look{eventID: eventID, began: time.Now()}
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	err := r.store.View(ctx, c, func(snapshot Snapshot) error {
		l.received = time.Now()
		l.readTime = snapshot.ReadTime()
		l.rollUp = snapshot.RollUp()
		l.asOf = r.validAsOf(ctx, c, &l)
		if !wanted(&l) {
			return nil
		}
		totals, malformed, err := snapshot.Sum(ctx)
		if err != nil {
			return err
		}
		if len(malformed) > 0 {
			var named []string
			for _, m := range malformed[:min(len(malformed), maxNamed)] {
				named = append(named, fmt.Sprintf("%s: %s %s", m.Shard, m.Field, m.Reason))
			}
			r.Logger.WarnContext(ctx, "shards left out of the sum", "counter", c.RollUp, "event_id", eventID,
				"count", len(malformed), "shards", named)
		}
		l.summed, l.totals, l.malformed = true, totals, len(malformed)
		return nil
	})
	return l, err
}

// validAsOf returns the roll-up's as_of, or zero when it counts as none: when it is missing, of
// another type, or later than the snapshot, which no roll-up can be. Such a document is overwritten.
func (r *roller) validAsOf(ctx context.Context, c Counter, l *look) time.Time {
	asOf := l.rollUp.AsOf
	switch {
	case !l.rollUp.Exists():
		return time.Time{}
	case asOf.IsZero():
		r.Logger.WarnContext(ctx, "roll-up document has no timestamp as_of; it counts as not rolled up",
			"counter", c.RollUp, "event_id", l.eventID)
		return time.Time{}
	case asOf.After(l.readTime):
		r.Logger.WarnContext(ctx, "roll-up document's as_of lies in the future; it counts as not rolled up",
			"counter", c.RollUp, "event_id", l.eventID, "as_of", asOf, "read_time", l.readTime)
		return time.Time{}
	}
	return asOf
}

// untilDue is how long, from the receipt of the look's answer, until the counter may be rolled up
// again; not positive: now. Only Firestore's times are compared.
func (r *roller) untilDue(l *look) time.Duration {
	if l.asOf.IsZero() {
		return 0
	}
	return r.Cadence - l.readTime.Sub(l.asOf)
}

// maxWriteAge is the greatest age of a snapshot that a write may publish. A roll-up document without
// shards is removed an hour after it went to zeros; a write that waited longer than that could bring
// an old sum back on the precondition that no document exists.
const maxWriteAge = 60 * time.Second

// write publishes what the look summed, and tells the observer.
func (r *roller) write(ctx context.Context, c Counter, l *look) error {
	err := r.publish(ctx, c, l)
	if r.Wrote != nil {
		r.Wrote(ctx, Attempt{Counter: c, Unchanged: l.rollUp.Exists() && agrees(l), Marked: l.marked, Err: err, AsOf: l.readTime})
	}
	return err
}

func (r *roller) publish(ctx context.Context, c Counter, l *look) error {
	left := maxWriteAge - time.Since(l.began)
	if left <= 0 {
		return fmt.Errorf("rollup: the snapshot is older than %v; not written", maxWriteAge)
	}
	ctx, cancel := context.WithTimeout(ctx, min(left, r.Timeout))
	defer cancel()
	return r.store.Write(ctx, c, RollUp{Totals: l.totals, AsOf: l.readTime, UpdateTime: l.rollUp.UpdateTime})
}

// backOff is how much longer than the cadence everybody waits but the writer of the roll-up: the
// writer goes first, so that of many instances one writes again and again and the others find its
// roll-up done.
func (r *roller) backOff() time.Duration {
	spread := min(r.Cadence/4, time.Second)
	return r.Cadence/10 + time.Duration(r.Random()*float64(spread))
}

// firstPause is how long the look after the second failure in a row is delayed, less up to a half of
// it at random; the delay then doubles up to the cadence. The first failure is followed by a look at
// once: most often another instance was faster, and a look tells.
const firstPause = 50 * time.Millisecond

// pause is how long to wait after so many failures in a row.
func (r *roller) pause(failures int) time.Duration {
	if failures < 2 {
		return 0
	}
	delay := min(firstPause<<min(failures-2, 10), r.Cadence)
	return time.Duration((0.5 + r.Random()/2) * float64(delay))
}
