package events

import (
	"context"
	"log/slog"
	"time"

	"github.com/firestore-tally/tally/rollup/internal/roll"
)

// makeWindowAlarm makes the alarm that must stand before the look's roll-up is written. If two
// alarms in a row cannot be made, the roll-up is written without: its totals are exact as of its
// time, but what leaves later is late. No alarm is done with such a roll-up, and the audit finds
// it.
func (c *Coalescer) makeWindowAlarm(ctx context.Context, s *counterState, l *roll.Look) {
	c.mu.Lock()
	next, needed := c.roller.PlanAlarm(l, s.windowAlarm)
	can := c.canMakeAlarms(s, l)
	c.mu.Unlock()
	if !needed {
		return
	}

	if !can {
		c.noteMissingAlarm(ctx, l)
		return
	}
	err := c.createTwice(ctx, s, roll.AlarmOf(l.Counter, next))
	if err != nil {
		c.noteMissingAlarm(ctx, l)
		return
	}

	l.Rings = next
	c.mu.Lock()
	defer c.mu.Unlock()
	s.windowAlarm = next
}

// noteMissingAlarm is called before events are acknowledged without the alarm that their counter
// needs. It notes that for the next audit.
func (c *Coalescer) noteMissingAlarm(ctx context.Context, l *roll.Look) {
	noting, cancel := context.WithTimeout(ctx, c.options.Timeout/2)
	defer cancel()
	err := c.notes.Counter(noting, l.Counter)
	if err != nil {
		c.options.Logger.WarnContext(ctx, "a counter without an alarm was not noted; a cycle of audits finds it", "counter", l.Counter.RollUp, "event_id", l.EventID, "error", err)
	}

	c.roller.LogOnce(ctx, slog.LevelWarn, "no alarm could be made; the next event or call of the schedule rolls the counter up", l.Counter, l.EventID, nil)
}

// alarmsCoveredUntil returns the time up to which the roll-up that the look saw makes alarms of the
// counter unnecessary: zero if the roll-up needs an alarm and has none.
func alarmsCoveredUntil(l *roll.Look) time.Time {
	rings := l.RollUp.Tally.Rings
	if !rings.IsZero() && !rings.After(l.AsOf) {
		return time.Time{}
	}
	return l.CoveredUntil()
}

// coveredOnceWritten is like alarmsCoveredUntil, for the roll-up that was written after the look.
func coveredOnceWritten(l *roll.Look) time.Time {
	if l.Rings.Equal(l.ReadTime) {
		return time.Time{}
	}
	return l.ReadTime
}
