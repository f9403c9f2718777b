package events

import (
	"errors"
	"fmt"
	"time"

	"github.com/firestore-tally/tally/rollup/internal/roll"
)

// recordRollUp releases what this instance's roll-up covers, and remembers that it wrote the
// roll-up. The mutex is held.
func (c *Coalescer) recordRollUp(s *counterState, l *roll.Look) {
	s.failures, s.unkept, s.handedOn, s.long.rest = 0, pause{}, pause{}, pause{}
	s.release(l.ReadTime, coveredOnceWritten(l))
	s.own = l.ReadTime

	own := min(c.roller.Cadence(l), max(s.step, c.longestHold()))
	s.ownUntil = l.Received.Add(own)
	if len(c.roller.NextTurns(l)) > 0 {
		s.ownUntil = l.Received.Add(roll.TurnCadences * own)
	}
}

// errEarly says that a snapshot is from before the commit of a change whose event has come:
// docs/design/rules.md#belt.
var errEarly = errors.New("rollup: Firestore answered with a snapshot from before the change")

// observe is called when a look has read the roll-up document:
//
//   - it sets the covered-from time of each generation that closed before the look began, unless it
//     is set;
//   - it releases the generations that the roll-up covers;
//   - it returns what to do next.
func (c *Coalescer) observe(s *counterState, l *roll.Look) (plan, error) {
	c.mu.Lock()
	defer c.mu.Unlock()

	if l.ReadTime.After(c.newest) {
		c.newest, c.sent = l.ReadTime, l.Began
	}

	for _, g := range s.closed {
		if g.latestUpdate.After(l.ReadTime) {
			return plan{}, fmt.Errorf("%w: it is of %v, the change of %v", errEarly, l.ReadTime, g.latestUpdate)
		}
	}
	for _, g := range s.closed {
		if g.coveredFrom.IsZero() {
			g.coveredFrom = l.ReadTime
		}
	}

	s.release(l.CoveredUntil(), alarmsCoveredUntil(l))

	if l.Missing() { // this covers and paces like a roll-up: deleting a post deletes its likes, too
		s.release(l.ReadTime, l.ReadTime)
		s.failures, s.unkept, s.refused = 0, pause{}, false
		return plan{wait: s.step}, nil
	}

	if !l.AsOf.Equal(s.seen) {
		s.seen, s.draw, s.failures, s.unkept = l.AsOf, c.options.Random(), 0, pause{}
		s.long.until = time.Time{} // the roll-up says how long its sum took
	} else if s.refused { // the roll-up is still the same, so the write was refused because of a write of the app's
		s.refused = false
		return plan{wait: c.roller.PauseAfter(s.failures, s.step)}, nil
	}
	s.refused = false

	p := c.plan(s, l)
	if !p.sums && p.deferTo.IsZero() {
		s.failures = 0
	}
	return p, nil
}
