package events

import (
	"context"
	"slices"
	"time"

	"github.com/firestore-tally/tally/rollup/internal/note"
	"github.com/firestore-tally/tally/rollup/internal/roll"
)

// A look that finds the app's own document missing covers its events. The app may create the
// document later without a further event, so alarms have the counter looked at again:
// docs/design/rules.md#missing-covers.

// missingAfter is how long after a look that found the document missing each of these alarms rings,
// rounded up by half of that at most. They are few, because anybody may write sources of documents
// that never exist.
var missingAfter = []time.Duration{time.Minute, 10 * time.Minute, note.MissingFor}

// awaitDocument makes the next alarm of a counter whose document is missing, before its events are
// acknowledged. The first one follows an event, and the others each other. If one cannot be made,
// the calls of the schedule look for the document as long. Where there is no queue, a cycle of
// audits finds it.
func (c *Coalescer) awaitDocument(ctx context.Context, s *counterState, l *roll.Look) {
	for _, n := range c.missingNext(s, l) {
		after := missingAfter[n-1]
		a := roll.AlarmOf(s.counter, roll.OnGrid(s.counter.RollUp, after/2, l.ReadTime.Add(after)))
		a.Missing = n
		err := c.createTwice(ctx, s, a)
		if err != nil {
			c.noteMissingAlarm(ctx, l)
			return
		}
	}
}

// missingNext returns the numbers of the alarms that must be made after a look, if any can. Many
// alarms may wait for one look. If it made one for each of them, it would take so long that they
// are handed on, and each look would have more of them.
func (c *Coalescer) missingNext(s *counterState, l *roll.Look) (numbers []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.canMakeAlarms(s, l) {
		return nil
	}

	if len(s.closed) > 0 {
		numbers = append(numbers, 1)
	}
	for _, g := range s.alarms {
		next := g.missing + 1
		if !g.coveredFrom.After(l.ReadTime) && next <= len(missingAfter) {
			numbers = append(numbers, next)
		}
	}
	slices.Sort(numbers)
	return slices.Compact(numbers)
}
