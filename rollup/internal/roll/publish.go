package roll

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/value"
)

// Write publishes what the look has summed. It locks the document if that is contended.
func (r *Roller) Write(ctx context.Context, l *Look, p Pace, c *Contention) error {
	locks := c.mustLock(l, min(p.Cadence, max(r.Step(l.Counter.Template), l.Counter.Template.Every)))
	if locks {
		r.LogOnce(ctx, slog.LevelWarn, "document written too often; locked for its roll-up", l.Counter, l.EventID, nil, "as_of", l.AsOf)
	}

	// A long sum is worth a lock. The app may well have edited its document meanwhile.
	err := r.publish(ctx, l, p, locks || l.Long && l.Counter.Template.Existing && l.RollUp.Exists())
	c.record(l, locks, err)
	if err == nil {
		r.logTotals(ctx, "rolled up", l)
	}
	return err
}

// maxWriteAge is the greatest age of a snapshot that may be published. A later write could come
// after the roll-up was removed (removeAfter), and bring an old sum back:
// docs/design/rules.md#sixty-seconds.
const maxWriteAge = 60 * time.Second

// TookAtMost returns how long the roll-up's sum took, but at most as long as any may take.
func (r RollUp) TookAtMost() time.Duration { return min(r.Tally.Took, maxWriteAge) }

// age returns how old the look is: by the monotonic clock, which stands still while a machine is
// suspended, or by the wall clock, whichever says more.
func (l *Look) age(monotonic, wall time.Time) time.Duration {
	return max(monotonic.Sub(l.Began), wall.Sub(l.Began.Round(0)))
}

// publish writes the roll-up, or has it written in a lock, on the precondition of
// docs/design/rules.md#precondition.
func (r *Roller) publish(ctx context.Context, l *Look, p Pace, locks bool) error {
	local := time.Now()
	left := maxWriteAge - l.age(local, local.Round(0))
	if left <= 0 {
		return fmt.Errorf("rollup: the snapshot is older than %v; not written", maxWriteAge)
	}

	ctx, cancel := context.WithTimeout(ctx, min(left, r.Options.Timeout))
	defer cancel()

	names, values := l.writtenTotals()
	written := RollUp{
		Values: values,
		Labels: l.writtenLabels(),
		Tally: document.Tally{
			AsOf:       l.ReadTime,
			NumShards:  l.Totals.NumShards(),
			PacedUntil: p.next(l),
			Routes:     l.Counter.Template.Hash(),
			Totals:     names,
			Former:     former(l.RollUp.Tally, l.Counter.Template.Totals()),
			Took:       l.Took,
			Rings:      l.Rings,
			Turns:      r.NextTurns(l),

			OwnerlessSince: l.OwnerlessSince(),
		},
		UpdateTime: l.RollUp.UpdateTime,
	}
	if r.Prune {
		written.prune(l.RollUp.Tally)
	}

	if locks {
		return r.store.WriteLocked(ctx, l.Counter, written, l.RollUp.Tally)
	}
	written, _ = written.WrittenOver(l.RollUp) // it leaves out what is of another kind
	return r.store.Write(ctx, l.Counter, written)
}

// former returns the names of totals that earlier routes kept. Events leave those totals in the
// document: docs/design/rules.md#former.
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

// Remove removes the roll-up that the look saw.
func (r *Roller) Remove(ctx context.Context, l *Look) error {
	err := r.store.Remove(ctx, l.Counter, l.RollUp)
	if err == nil {
		r.logTotals(ctx, "removed", l)
	}
	return err
}

// logTotals logs what became of a roll-up at level DEBUG. tally dev shows these lines.
func (r *Roller) logTotals(ctx context.Context, message string, l *Look) {
	r.Options.Logger.DebugContext(ctx, message, "counter", l.Counter.RollUp, "event_id", l.EventID,
		"totals", l.Totals.Values, "num_shards", l.Totals.NumShards(), "as_of", l.ReadTime)
}

// writtenTotals returns the totals that the look's roll-up is written with: those whose fields hold
// nothing of the app's.
func (l *Look) writtenTotals() (names []string, values map[string]value.Value) {
	names, values = l.Counter.Template.Totals(), l.Totals.Values
	if len(l.RollUp.Foreign) == 0 {
		return names, values
	}

	values = maps.Clone(values)
	for name := range l.RollUp.Foreign {
		delete(values, name)
	}
	return slices.DeleteFunc(names, l.RollUp.isForeign), values
}
