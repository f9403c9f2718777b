package rollup

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/firestore-tally/tally/internal/document"
)

// write publishes what the look has summed. It locks the document if that is contended.
func (r *roller) write(ctx context.Context, l *look, p pace, c *contention) error {
	locks := c.locks(l, min(p.cadence, max(r.step(l.counter.Template), l.counter.Template.Every)))
	if locks {
		r.tellOnce(ctx, slog.LevelWarn, "document written too often; locked for its roll-up", l.counter, l.eventID, nil, "as_of", l.asOf)
	}

	// A long sum is worth a lock. The app may well have edited its document meanwhile.
	err := r.publish(ctx, l, p, locks || l.long && l.counter.Template.Existing && l.rollUp.Exists())
	c.note(l, locks, err)
	if err == nil {
		r.logTotals(ctx, "rolled up", l)
	}
	return err
}

// maxWriteAge is the greatest age of a snapshot that may be published. A later write could come
// after the roll-up was removed (removeAfter), and bring an old sum back:
// docs/design/rules.md#sixty-seconds.
const maxWriteAge = 60 * time.Second

// tookAtMost returns how long the roll-up's sum took, but at most as long as any may take.
func (r RollUp) tookAtMost() time.Duration { return min(r.Tally.Took, maxWriteAge) }

// age returns how old the look is: by the monotonic clock, which stands still while a machine is
// suspended, or by the wall clock, whichever says more.
func (l *look) age(monotonic, wall time.Time) time.Duration {
	return max(monotonic.Sub(l.began), wall.Sub(l.began.Round(0)))
}

// publish writes the roll-up, or has it written in a lock, on the precondition of
// docs/design/rules.md#precondition.
func (r *roller) publish(ctx context.Context, l *look, p pace, locks bool) error {
	local := time.Now()
	left := maxWriteAge - l.age(local, local.Round(0))
	if left <= 0 {
		return fmt.Errorf("rollup: the snapshot is older than %v; not written", maxWriteAge)
	}

	ctx, cancel := context.WithTimeout(ctx, min(left, r.options.Timeout))
	defer cancel()

	names, values := l.kept()
	written := RollUp{
		Values: values,
		Tally: document.Tally{
			AsOf:       l.readTime,
			NumShards:  l.totals.NumShards(),
			PacedUntil: p.next(l),
			Routes:     l.counter.Template.Hash(),
			Totals:     names,
			Former:     former(l.rollUp.Tally, l.counter.Template.Totals()),
			Took:       l.took,
			Rings:      l.rings,
			Turns:      r.nextTurns(l),

			OwnerlessSince: l.ownerlessSince(),
		},
		UpdateTime: l.rollUp.UpdateTime,
	}
	if r.prune {
		written.prune(l.rollUp.Tally)
	}

	if locks {
		return r.store.WriteLocked(ctx, l.counter, written, l.rollUp.Tally)
	}
	written, _ = written.Over(l.rollUp) // it leaves out what is of another kind
	return r.store.Write(ctx, l.counter, written)
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

// remove removes the roll-up that the look saw.
func (r *roller) remove(ctx context.Context, l *look) error {
	err := r.store.Remove(ctx, l.counter, l.rollUp)
	if err == nil {
		r.logTotals(ctx, "removed", l)
	}
	return err
}

// logTotals logs what became of a roll-up at level DEBUG. tally dev shows these lines.
func (r *roller) logTotals(ctx context.Context, message string, l *look) {
	r.options.Logger.DebugContext(ctx, message, "counter", l.counter.RollUp, "event_id", l.eventID,
		"totals", l.totals.Values, "num_shards", l.totals.NumShards(), "as_of", l.readTime)
}
