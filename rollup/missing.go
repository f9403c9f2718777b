package rollup

import (
	"context"
	"slices"
	"time"
)

// A look that finds the app's own document missing covers its events. The app may create the
// document later without a further event, so alarms have the counter looked at again:
// docs/design/rules.md#missing-covers.

// missingAfter is how long after a look that found the document missing each of these alarms rings.
// They are few, because anybody may write sources of documents that never exist.
var missingAfter = []time.Duration{time.Minute, 10 * time.Minute, time.Hour}

// awaitDocument makes the next alarm of a counter whose document is missing, before its events are
// acknowledged. The first one follows an event, and the others each other. Where there is no queue,
// or if it fails, a cycle of audits finds the document.
func (c *Coalescer) awaitDocument(ctx context.Context, s *counterState, l *look) {
	for _, n := range c.missingNext(s, l) {
		err := c.createAlarm(ctx, Alarm{
			RollUp:  s.counter.RollUp,
			Routes:  s.counter.Template.Hash(),
			At:      l.readTime.Add(missingAfter[n-1]),
			Missing: n,
		})
		if err != nil && c.options.Logged.First("missing", s.counter.RollUp) {
			c.options.Logger.WarnContext(ctx, "no alarm could be made; once the app's document exists, its totals come with the next change or cycle of audits",
				"counter", s.counter.RollUp, "event_id", l.eventID, "error", err)
		}
	}
}

// missingNext returns the numbers of the alarms that must be made after a look, if any can. Many
// alarms may wait for one look. If it made one for each of them, it would take so long that they
// are handed on, and each look would have more of them.
func (c *Coalescer) missingNext(s *counterState, l *look) (numbers []int) {
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
		if !g.from.After(l.readTime) && next <= len(missingAfter) {
			numbers = append(numbers, next)
		}
	}
	slices.Sort(numbers)
	return slices.Compact(numbers)
}
