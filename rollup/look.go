package rollup

import (
	"context"
	"time"

	"github.com/firestore-tally/tally/rollup/route"
)

// A look is one attempt at a roll-up: one snapshot and what was read in it.
type look struct {
	counter   route.Counter
	eventID   string    // of the event that has waited longest for this look; empty if none waits
	began     time.Time // local; the snapshot's instant is not earlier
	received  time.Time // local; when the roll-up document's state became known here
	snapshot  Snapshot
	readTime  time.Time // the snapshot's instant
	rollUp    RollUp
	ownerless bool          // the counter's owner is missing; see owner.go
	asOf      time.Time     // the roll-up's as_of; zero if the roll-up counts as none
	totals    route.Totals  // valid after sum
	took      time.Duration // how long the sum took; valid after sum
	rings     time.Time     // when the alarm rings without which the roll-up must not be written; zero: it needs none; see window.go
	long      bool          // its sum is likely to be long; see isLong

	alarmGone bool // the alarm that the roll-up relies on may be gone

	magnitudes map[string]float64 // of the totals that weigh has asked for; see Snapshot.Magnitude
}

// covers returns the time up to which the roll-up holds every change. One that other routes made
// covers nothing: docs/design/rules.md#other-routes.
func (l *look) covers() time.Time {
	if l.rerouted() {
		return time.Time{}
	}
	return l.asOf
}

// missing reports whether there may be no roll-up: its document is the app's own and does not
// exist, or there is none yet and the counter's owner does not exist. Then nothing may be written,
// except over totals that somebody has made up.
func (l *look) missing() bool {
	if l.counter.Template.Existing {
		return !l.rollUp.Exists()
	}
	return l.ownerless && l.rollUp.Tally.AsOf.IsZero() && len(l.rollUp.Unwritten()) == 0
}

// rerouted reports whether the roll-up was made by other routes.
func (l *look) rerouted() bool {
	return !l.asOf.IsZero() && l.rollUp.Tally.Routes != l.counter.Template.Hash()
}

// look opens a snapshot of c.
func (r *roller) look(ctx context.Context, c route.Counter, eventID string) (look, error) {
	l := look{counter: c, eventID: eventID, began: time.Now()}
	snapshot, err := r.store.View(ctx, c)
	if err != nil {
		return l, err
	}

	l.snapshot, l.received = snapshot, time.Now()
	l.readTime, l.rollUp, l.ownerless = l.snapshot.ReadTime(), l.snapshot.RollUp(), l.snapshot.Ownerless()
	l.asOf = r.validAsOf(ctx, &l)
	return l, nil
}

// validAsOf returns the roll-up's as_of, or zero if it counts as none:
// docs/design/rules.md#server-times.
func (r *roller) validAsOf(ctx context.Context, l *look) time.Time {
	asOf := l.rollUp.Tally.AsOf
	switch {
	case !l.rollUp.Exists(), asOf.IsZero() && l.counter.Template.Existing: // a document that the app has made has no as_of at first
		return time.Time{}
	case asOf.IsZero():
		r.options.Logger.WarnContext(ctx, "roll-up document has no timestamp tally.as_of; it counts as not rolled up",
			"counter", l.counter.RollUp, "event_id", l.eventID)
		return time.Time{}
	case asOf.After(l.readTime):
		r.options.Logger.WarnContext(ctx, "roll-up document's as_of lies in the future; it counts as not rolled up",
			"counter", l.counter.RollUp, "event_id", l.eventID, "as_of", asOf, "read_time", l.readTime)
		return time.Time{}
	}
	return asOf
}

// sum adds up the sources in the look's snapshot.
func (r *roller) sum(ctx context.Context, l *look) (err error) {
	began := time.Now()
	l.totals, err = l.snapshot.Sum(ctx)
	l.took = time.Since(began)

	if err == nil && len(l.rollUp.Foreign) > 0 {
		r.tellForeign(ctx, l)
	}
	if err == nil && l.totals.Malformed > 0 {
		r.nameMalformed(ctx, l)
	}
	return err
}

// weigh asks for the magnitudes of totals that seem to differ from the roll-up's. Doubles that
// cancel out can leave a sum that is smaller than its rounding errors, so it may differ each time
// it is computed. weigh asks only if nothing but totals of doubles differs.
func (r *roller) weigh(ctx context.Context, l *look) (err error) {
	otherwise := l.rerouted() || l.rollUp.Tally.NumShards != l.totals.NumShards()
	if otherwise || l.asOf.IsZero() {
		return nil
	}

	var names []string
	for name, sum := range l.totals.Values {
		seen := l.rollUp.Values[name]
		if l.rollUp.isForeign(name) || sameTotal(seen, sum, 0) {
			continue
		}
		if !seen.IsDouble() || !sum.IsDouble() {
			return nil
		}
		names = append(names, name)
	}

	l.magnitudes = make(map[string]float64)
	for _, name := range names {
		l.magnitudes[name], err = l.snapshot.Magnitude(ctx, name)
		if err != nil {
			return err
		}
	}
	return nil
}

// maxNamed is how many malformed shards a log line names.
const maxNamed = 5

// nameMalformed logs which shards the sum left out, unless that was logged lately.
func (r *roller) nameMalformed(ctx context.Context, l *look) {
	first := r.options.Logged.First("malformed", l.counter.RollUp, nil)
	if !first {
		return
	}

	log := r.options.Logger.With("counter", l.counter.RollUp, "event_id", l.eventID, "count", l.totals.Malformed)
	named, err := l.snapshot.Malformed(ctx, maxNamed)
	if err != nil { // the sum is valid all the same
		log = log.With("error", err)
	}
	log.WarnContext(ctx, "shards left out of the sum", "shards", named)
}
