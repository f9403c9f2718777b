package roll

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/firestore-tally/tally/rollup/route"
)

// A Look is one attempt at a roll-up: one snapshot and what was read in it.
type Look struct {
	Counter   route.Counter
	EventID   string    // of the event that has waited longest for this look; empty if none waits
	Began     time.Time // local; the snapshot's instant is not earlier
	Received  time.Time // local; when the roll-up document's state became known here
	Snapshot  Snapshot
	ReadTime  time.Time // the snapshot's instant
	RollUp    RollUp
	Ownerless bool          // the counter's owner is missing: docs/design/rules.md#within
	AsOf      time.Time     // the roll-up's as_of; zero if the roll-up counts as none
	Totals    route.Totals  // valid after sum
	Took      time.Duration // how long the sum took; valid after sum
	Rings     time.Time     // when the alarm rings without which the roll-up must not be written; zero: it needs none; see window.go
	Long      bool          // its sum is likely to be long, as the events say

	AlarmGone bool // the alarm that the roll-up relies on may be gone

	magnitudes map[string]float64 // of the totals that LoadMagnitudes has asked for; see Snapshot.Magnitude
}

// CoveredUntil returns the time up to which the roll-up holds every change. One that other routes
// made covers nothing: docs/design/rules.md#other-routes.
func (l *Look) CoveredUntil() time.Time {
	if l.Rerouted() {
		return time.Time{}
	}
	return l.AsOf
}

// Missing reports whether there may be no roll-up: its document is the app's own and does not
// exist, or there is none yet and the counter's owner does not exist. Then nothing may be written,
// except over totals that somebody has made up.
func (l *Look) Missing() bool {
	if l.Counter.Template.Existing {
		return !l.RollUp.Exists()
	}
	return l.Ownerless && l.RollUp.Tally.AsOf.IsZero() && len(l.RollUp.Unwritten()) == 0
}

// Rerouted reports whether the roll-up was made by other routes.
func (l *Look) Rerouted() bool {
	return !l.AsOf.IsZero() && l.RollUp.Tally.Routes != l.Counter.Template.Hash()
}

// OwnerlessSince returns since when the roll-up that is about to be written has no owner, as far as
// looks have seen; zero: it has one, or needs none. An owner that came back and went between two
// roll-ups counts as missing all the time.
func (l *Look) OwnerlessSince() time.Time {
	if !l.Ownerless {
		return time.Time{}
	}
	since := l.RollUp.Tally.OwnerlessSince
	if since.IsZero() || since.After(l.ReadTime) {
		return l.ReadTime
	}
	return since
}

// Look opens a snapshot of c.
func (r *Roller) Look(ctx context.Context, c route.Counter, eventID string) (Look, error) {
	l := Look{Counter: c, EventID: eventID, Began: time.Now()}
	snapshot, err := r.store.View(ctx, c)
	if err != nil {
		return l, err
	}

	l.Snapshot, l.Received = snapshot, time.Now()
	l.ReadTime, l.RollUp, l.Ownerless = l.Snapshot.ReadTime(), l.Snapshot.RollUp(), l.Snapshot.Ownerless()
	l.AsOf = r.validAsOf(ctx, &l)
	return l, nil
}

// validAsOf returns the roll-up's as_of, or zero if it counts as none:
// docs/design/rules.md#server-times.
func (r *Roller) validAsOf(ctx context.Context, l *Look) time.Time {
	asOf := l.RollUp.Tally.AsOf
	switch {
	case !l.RollUp.Exists(), asOf.IsZero() && l.Counter.Template.Existing: // a document that the app has made has no as_of at first
		return time.Time{}
	case asOf.IsZero():
		r.Options.Logger.WarnContext(ctx, "roll-up document has no timestamp tally.as_of; it counts as not rolled up",
			"counter", l.Counter.RollUp, "event_id", l.EventID)
		return time.Time{}
	case asOf.After(l.ReadTime):
		r.Options.Logger.WarnContext(ctx, "roll-up document's as_of lies in the future; it counts as not rolled up",
			"counter", l.Counter.RollUp, "event_id", l.EventID, "as_of", asOf, "read_time", l.ReadTime)
		return time.Time{}
	}
	return asOf
}

// Sum adds up the sources in the look's snapshot.
func (r *Roller) Sum(ctx context.Context, l *Look) (err error) {
	began := time.Now()
	l.Totals, err = l.Snapshot.Sum(ctx)
	l.Took = time.Since(began)

	if err == nil && len(l.RollUp.Foreign) > 0 {
		r.logForeign(ctx, l)
	}
	if err == nil && l.Totals.Malformed > 0 {
		r.logMalformed(ctx, l)
	}
	return err
}

// maxNamed is how many malformed shards a log line names.
const maxNamed = 5

// logMalformed logs which shards the sum left out, unless that was logged lately.
func (r *Roller) logMalformed(ctx context.Context, l *Look) {
	first := r.Options.Logged.First("malformed", l.Counter.RollUp, nil)
	if !first {
		return
	}

	log := r.Options.Logger.With("counter", l.Counter.RollUp, "event_id", l.EventID, "count", l.Totals.Malformed)
	named, err := l.Snapshot.Malformed(ctx, maxNamed)
	if err != nil { // the sum is valid all the same
		log = log.With("error", err)
	}
	log.WarnContext(ctx, "shards left out of the sum", "shards", named)
}

// logForeign logs which totals of a counter are left out, unless that was logged lately.
func (r *Roller) logForeign(ctx context.Context, l *Look) {
	var fields []string
	for _, name := range slices.Sorted(maps.Keys(l.RollUp.Foreign)) {
		fields = append(fields, fmt.Sprintf("%s is %s", name, l.RollUp.Foreign[name]))
	}
	r.LogOnce(ctx, slog.LevelWarn, "totals left out: their fields hold the app's own values", l.Counter, l.EventID, nil,
		"fields", strings.Join(fields, ", "), "remedy", "give the totals other names by \"as\" in the route, or its captures, or clear the fields")
}
