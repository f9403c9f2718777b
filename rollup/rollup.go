package rollup

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/firestore-tally/tally/internal/document"
)

// Options configure a Coalescer, an audit and what keeps scheduled routes.
type Options struct {
	// Cadence is how much time one roll-up of a counter uses up, by Firestore's clock. It keeps the
	// roll-up document within the rate of writes that Firestore sustains on one document, about one
	// a second. It must be positive.
	Cadence time.Duration

	// Burst is how many roll-ups may follow each other at once after a quiet time, so that in any
	// window w there are at most Burst + w/Cadence. 0 means 1.
	Burst int

	// Timeout bounds each look with its sum, and each write. It must be positive, and well below
	// the time for which an event may be held, so that a call that never answers leaves time for
	// another.
	Timeout time.Duration

	// Hold is how long an event may be held. Zero means as long as its context lasts.
	Hold time.Duration

	// Logger must not be nil.
	Logger *slog.Logger

	// Logged remembers what was logged lately, and is not logged again. Nil means one that nobody
	// shares.
	Logged *Logged

	// Random returns a uniform number in [0, 1), to spread the wake-ups of many instances. It must
	// be safe for concurrent use. Nil means math/rand/v2.
	Random func() float64

	// Wrote, unless nil, is called after each attempt to write a roll-up, with its context. It must
	// be safe for concurrent use, and quick: events wait for it.
	Wrote func(context.Context, Attempt)

	// Calling, unless nil, is called before each call of the Store but those of walks and cursors,
	// with the name "look", "claim", "sum", "write" or "remove". The call has the context that it returns,
	// and its error goes to the function that it returns.
	Calling func(ctx context.Context, name string) (context.Context, func(error))
}

// An Attempt is one attempt to write a roll-up.
type Attempt struct {
	Counter   Counter
	AsOf      time.Time // the snapshot's instant
	Unchanged bool      // the totals are those that the roll-up had: as_of alone is new
	Err       error     // nil: written; ErrConflict: refused; any other: the outcome is unknown, or nothing was sent
}

// A roller looks at counters and writes roll-ups.
type roller struct {
	store Store
	Options
	prune bool // writes take former totals away
}

func newRoller(store Store, o Options) roller {
	if o.Random == nil {
		o.Random = rand.Float64
	}
	if o.Logged == nil {
		o.Logged = NewLogged()
	}
	return roller{store: store, Options: o}
}

// call makes a call of the Store.
func (r *roller) call(ctx context.Context, name string, f func(context.Context) error) error {
	if r.Calling == nil {
		return f(ctx)
	}
	ctx, called := r.Calling(ctx, name)
	err := f(ctx)
	called(err)
	return err
}

// A look is one attempt at a roll-up: one snapshot and what was read in it.
type look struct {
	counter  Counter
	eventID  string    // of the event that has waited longest for it; empty if none has
	began    time.Time // local; not later than the snapshot's instant
	received time.Time // local; when the roll-up document's state became known here
	snapshot Snapshot
	readTime time.Time // the snapshot's instant
	rollUp   RollUp
	asOf     time.Time     // the roll-up's, zero when it counts as none
	totals   Totals        // valid after sum
	took     time.Duration // that the sum took; valid after sum

	magnitudes map[string]float64 // of totals that are doubles, as far as weigh has asked for them
}

// covers is the time up to which the roll-up holds every change. Other routes know nothing of a
// source or a total that these have, so their as_of covers nothing.
func (l *look) covers() time.Time {
	if l.rerouted() {
		return time.Time{}
	}
	return l.asOf
}

// missing reports whether the roll-up would be a document of the app's own that does not exist.
// Then nothing is written, and nothing lacks.
func (l *look) missing() bool { return l.counter.Template.Existing && !l.rollUp.Exists() }

// rerouted reports whether the roll-up was made by other routes.
func (l *look) rerouted() bool {
	return !l.asOf.IsZero() && l.rollUp.Tally.Routes != l.counter.Template.Hash()
}

// turnsKept is for how many cadences a revision keeps its turn that does not roll up any more.
const turnsKept = 10

// turns returns the last roll-up by each of the routes that are at work, the oldest first.
func (r *roller) turns(l *look) []document.Turn {
	if l.asOf.IsZero() {
		return nil
	}
	tally := l.rollUp.Tally
	turns := slices.DeleteFunc(slices.Clone(tally.Turns), func(t document.Turn) bool {
		age := l.asOf.Sub(t.AsOf)
		return age < 0 || age > turnsKept*r.Cadence
	})
	return append(turns, document.Turn{Routes: tally.Routes, AsOf: l.asOf})
}

// nextTurns returns the turns of the other routes once the look's roll-up is written.
func (r *roller) nextTurns(l *look) []document.Turn {
	return slices.DeleteFunc(r.turns(l), func(t document.Turn) bool { return t.Routes == l.counter.Template.Hash() })
}

// look opens a snapshot of c.
func (r *roller) look(ctx context.Context, c Counter, eventID string) (look, error) {
	l := look{counter: c, eventID: eventID, began: time.Now()}
	err := r.call(ctx, "look", func(ctx context.Context) (err error) {
		l.snapshot, err = r.store.View(ctx, c)
		return err
	})
	if err != nil {
		return l, err
	}
	l.received = time.Now()
	l.readTime, l.rollUp = l.snapshot.ReadTime(), l.snapshot.RollUp()
	l.asOf = r.validAsOf(ctx, &l)
	return l, nil
}

// validAsOf returns the roll-up's as_of, or zero when it counts as none, because it is missing, of
// another type, or later than the snapshot. Such a document is overwritten.
func (r *roller) validAsOf(ctx context.Context, l *look) time.Time {
	asOf := l.rollUp.Tally.AsOf
	switch {
	case !l.rollUp.Exists(), asOf.IsZero() && l.counter.Template.Existing: // the app's own begin without
		return time.Time{}
	case asOf.IsZero():
		r.Logger.WarnContext(ctx, "roll-up document has no timestamp tally.as_of; it counts as not rolled up",
			"counter", l.counter.RollUp, "event_id", l.eventID)
		return time.Time{}
	case asOf.After(l.readTime):
		r.Logger.WarnContext(ctx, "roll-up document's as_of lies in the future; it counts as not rolled up",
			"counter", l.counter.RollUp, "event_id", l.eventID, "as_of", asOf, "read_time", l.readTime)
		return time.Time{}
	}
	return asOf
}

// sum adds up the sources in the look's snapshot.
func (r *roller) sum(ctx context.Context, l *look) error {
	began := time.Now()
	err := r.call(ctx, "sum", func(ctx context.Context) (err error) {
		l.totals, err = l.snapshot.Sum(ctx)
		return err
	})
	l.took = time.Since(began)
	if err == nil && l.totals.Malformed > 0 {
		r.nameMalformed(ctx, l)
	}
	return err
}

// weigh asks for the magnitudes of the totals that seem to differ from the roll-up's, if they may be
// all that differs: numbers that cancel out leave a sum that is less than its rounding errors.
func (r *roller) weigh(ctx context.Context, l *look) error {
	otherwise := l.rerouted() || l.rollUp.Tally.NumShards != l.totals.NumShards()
	if otherwise || l.asOf.IsZero() {
		return nil
	}

	var names []string
	for name, sum := range l.totals.Values {
		seen := l.rollUp.Values[name]
		if sameTotal(seen, sum, 0) {
			continue
		}
		if !seen.IsDouble() || !sum.IsDouble() {
			return nil
		}
		names = append(names, name)
	}

	l.magnitudes = make(map[string]float64)
	for _, name := range names {
		err := r.call(ctx, "sum", func(ctx context.Context) (err error) {
			l.magnitudes[name], err = l.snapshot.Magnitude(ctx, name)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// maxNamed is how many malformed shards a log line names.
const maxNamed = 5

// nameMalformed logs which shards the sum left out, unless it was logged lately.
func (r *roller) nameMalformed(ctx context.Context, l *look) {
	if !r.Logged.first("malformed", l.counter.RollUp) {
		return
	}
	log := r.Logger.With("counter", l.counter.RollUp, "event_id", l.eventID, "count", l.totals.Malformed)
	named, err := l.snapshot.Malformed(ctx, maxNamed)
	if err != nil { // the sum is valid all the same
		log = log.With("error", err)
	}
	log.WarnContext(ctx, "shards left out of the sum", "shards", named)
}

// tellUnkept logs why a counter is unkept, unless it was logged lately.
func (r *roller) tellUnkept(ctx context.Context, c Counter, eventID string, err error) {
	if !r.Logged.first("unkept", c.RollUp) {
		return
	}
	r.Logger.ErrorContext(ctx, "counter unkept; no retry can help", "counter", c.RollUp, "event_id", eventID, "error", err)
}

// maxWriteAge is the greatest age of a snapshot that a write may publish. A write that waited
// longer than removeAfter could bring an old sum back on the precondition that no document exists.
const maxWriteAge = 60 * time.Second

// write publishes what the look summed, by the pace, and tells the observer.
func (r *roller) write(ctx context.Context, l *look, p pace) error {
	err := r.publish(ctx, l, p)
	if r.Wrote != nil {
		r.Wrote(ctx, Attempt{Counter: l.counter, Unchanged: l.rollUp.Exists() && l.agrees(), Err: err, AsOf: l.readTime})
	}
	if err == nil {
		r.logTotals(ctx, "rolled up", l)
	}
	return err
}

// logTotals logs what became of a roll-up at level DEBUG. tally dev shows these lines.
func (r *roller) logTotals(ctx context.Context, message string, l *look) {
	r.Logger.DebugContext(ctx, message, "counter", l.counter.RollUp, "event_id", l.eventID,
		"totals", l.totals.Values, "num_shards", l.totals.NumShards(), "as_of", l.readTime)
}

// remove removes the roll-up that the look saw.
func (r *roller) remove(ctx context.Context, store AuditStore, l *look) error {
	err := r.call(ctx, "remove", func(ctx context.Context) error { return store.Remove(ctx, l.counter, l.rollUp) })
	if err == nil {
		r.logTotals(ctx, "removed", l)
	}
	return err
}

func (r *roller) publish(ctx context.Context, l *look, p pace) error {
	left := maxWriteAge - time.Since(l.began)
	if left <= 0 {
		return fmt.Errorf("rollup: the snapshot is older than %v; not written", maxWriteAge)
	}

	ctx, cancel := context.WithTimeout(ctx, min(left, r.Timeout))
	defer cancel()

	names := l.counter.Template.Totals()
	written := RollUp{
		Values: l.totals.Values,
		Tally: document.Tally{
			AsOf: l.readTime, NumShards: l.totals.NumShards(), PacedUntil: p.next(l),
			Routes: l.counter.Template.Hash(), Totals: names, Former: former(l.rollUp.Tally, names), Took: l.took, Turns: r.nextTurns(l),
		},
		UpdateTime: l.rollUp.UpdateTime,
	}
	if r.prune {
		written.Gone, written.Tally.Former = written.Tally.Former, nil
	}

	return r.call(ctx, "write", func(ctx context.Context) error { return r.store.Write(ctx, l.counter, written) })
}

// former returns the names that earlier routes kept. No event's write takes their totals away:
// while a revision that keeps them still runs, they would come and go.
func former(old document.Tally, names []string) []string {
	var gone []string
	for _, name := range slices.Concat(old.Totals, old.Former) {
		if !slices.Contains(names, name) {
			gone = append(gone, name)
		}
	}
	slices.Sort(gone)
	return slices.Compact(gone)
}

// agrees reports whether the roll-up says what the shards add up to, by the same routes. Without
// shards, a document that Tally never wrote is none of its business.
func (l *look) agrees() bool {
	if l.totals.Empty() && l.rollUp.Tally.AsOf.IsZero() {
		return true
	}
	if l.asOf.IsZero() || l.rerouted() || l.rollUp.Tally.NumShards != l.totals.NumShards() {
		return false
	}
	return len(l.differing()) == 0
}

// differing returns the names of the totals that the roll-up lacks, or that the shards do not give.
func (l *look) differing() []string {
	var names []string
	for name, total := range l.totals.Values {
		seen, ok := l.rollUp.Values[name]
		if !ok || !sameTotal(seen, total, l.magnitudes[name]) {
			names = append(names, name)
		}
	}
	return names
}
