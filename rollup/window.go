package rollup

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"time"

	"github.com/firestore-tally/tally/rollup/route"
)

// A total with a window, such as the likes of the last 24 hours, changes with time alone: a
// document leaves the window without an event. So an alarm rings when the first document may have
// left, and the roll-up that it makes needs the next alarm, as the links of a chain do.
//
// The invariant: while documents are in a window, a roll-up that others may see has its alarm,
// whose time is in Tally.Rings. docs/design/events.md#windows says how that is kept, and when a
// chain ends.

const (
	// windowParts is into how many parts a window is divided. Documents that leave within one part
	// leave by one roll-up.
	windowParts = 1440

	// longestAhead is how far ahead an alarm is made because of a document that leaves. A document
	// whose time lies in the future may leave much later, or never.
	longestAhead = 2 * route.LongestWindow
)

// errNoAlarms says that there is no queue that could make the alarm of a roll-up.
var errNoAlarms = errors.New("rollup: a total with a window needs alarms, and there is no queue")

// nextLeaves returns when the counter must be rolled up because the first document may have left a
// window. It returns zero if no document leaves. The time is rounded up to a grid, whose step is a
// part of the window or the counter's cadence. Each counter has a phase of its own, so that the
// alarms of many do not ring at once.
func (r *roller) nextLeaves(l *look) time.Time {
	var first time.Time
	for _, leaving := range l.totals.Leaving {
		if leaving.At.Sub(l.readTime) > longestAhead {
			continue
		}
		grid := max(leaving.Window/windowParts, r.cadence(l)).Truncate(time.Microsecond)
		at := onGrid(l.counter.RollUp, grid, later(leaving.At, l.readTime.Add(leastAhead)))
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	if first.IsZero() {
		return first
	}
	return withinReach(l.counter.RollUp, l.readTime, first)
}

// onGrid returns the first time on a counter's grid that is not before a time.
func onGrid(rollUp string, step time.Duration, t time.Time) time.Time {
	h := fnv.New64a()
	_, _ = h.Write([]byte(rollUp))
	phase := time.Duration(h.Sum64() % uint64(step)).Truncate(time.Microsecond)

	past := time.Duration(t.Add(-phase).UnixMicro()) * time.Microsecond % step
	if past == 0 {
		return t
	}
	return t.Add(step - past)
}

// planAlarm decides whether an alarm must be made before the look's roll-up is written, and returns
// its time. It sets l.rings to the time of the alarm that stands already, or to the look's own time
// as long as none does. made is the time of an alarm that this process has made before, or zero.
//
// A roll-up may rely on an alarm whose time is later than the look. Nothing has ended it before
// another roll-up is as of that time, and then this one is not written any more.
func (r *roller) planAlarm(l *look, made time.Time) (next time.Time, needed bool) {
	seen := l.rollUp.Tally.Rings
	if l.asOf.IsZero() || l.rerouted() || l.alarmGone {
		seen = time.Time{}
	}

	next = r.nextLeaves(l)
	l.rings = time.Time{}
	for _, rings := range []time.Time{made, seen} {
		if rings.After(l.readTime) && (next.IsZero() || !rings.After(next)) {
			l.rings = rings
		}
	}

	needed = !next.IsZero() && l.rings.IsZero()
	if needed {
		l.rings = l.readTime
	}
	return next, needed
}

// makeNext makes the alarm that must stand before the look's roll-up is written, and sets l.rings.
func (r *roller) makeNext(ctx context.Context, l *look, next time.Time) error {
	if r.options.Alarms == nil {
		return fmt.Errorf("%w: %s", errNoAlarms, l.counter.RollUp)
	}

	a := Alarm{RollUp: l.counter.RollUp, Routes: l.counter.Template.Hash(), At: next}
	if r.salted {
		a.Salt = rand.Text()
	}
	err := r.createAlarm(ctx, a)
	if err == nil {
		l.rings = next
	}
	return err
}

// chain makes the alarm that must stand before the look's roll-up is written. If two alarms in a
// row cannot be made, the roll-up is written without: its totals are exact as of its time, but what
// leaves later is late. No alarm is done with such a roll-up, and the audit finds it.
func (c *Coalescer) chain(ctx context.Context, s *counterState, l *look) {
	c.mu.Lock()
	next, needed := c.planAlarm(l, s.chained)
	can := c.canMakeAlarms(s, l)
	c.mu.Unlock()
	if !needed {
		return
	}

	if !can {
		c.unchained(ctx, l)
		return
	}
	err := c.tryTwice(s, func() error { return c.makeNext(ctx, l, next) })
	if err != nil {
		c.unchained(ctx, l)
		return
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	s.chained = next
}

// unchained is called before events are acknowledged without the alarm that their counter needs. It
// notes that for the next audit.
func (c *Coalescer) unchained(ctx context.Context, l *look) {
	noting, cancel := context.WithTimeout(ctx, c.options.Timeout/2)
	defer cancel()
	err := c.notes.Counter(noting, l.counter)
	if err != nil {
		c.options.Logger.WarnContext(ctx, "a counter without an alarm was not noted; a cycle of audits finds it", "counter", l.counter.RollUp, "event_id", l.eventID, "error", err)
	}

	c.tellOnce(ctx, slog.LevelWarn, "no alarm could be made; the next event or call of the schedule rolls the counter up", l.counter, l.eventID, nil)
}

// rung returns up to which time the alarms of the counter are done because of the roll-up that the
// look saw. None is if the roll-up needs an alarm and has none.
func (l *look) rung() time.Time {
	rings := l.rollUp.Tally.Rings
	if !rings.IsZero() && !rings.After(l.asOf) {
		return time.Time{}
	}
	return l.covers()
}

// rungWhenWritten is rung of the roll-up that was written after the look.
func (l *look) rungWhenWritten() time.Time {
	if l.rings.Equal(l.readTime) {
		return time.Time{}
	}
	return l.readTime
}

// A leaving says whether time alone explains how a roll-up differs from its shards.
type leaving int

const (
	leftNone   leaving = iota // it does not differ, or not by that
	leftLately                // it is as right as it was when it was rolled up, and its alarm comes
	leftLate                  // its alarm has not come
	leftSooner                // a document leaves, or has left, before the alarm rings: the event that moved its time was lost, or is on its way
)

// leftSince reports whether the roll-up was right when it was written and is wrong because time has
// passed. It also reports so if the totals are right but the alarm is overdue or rings too late,
// because then nothing has them rolled up when the next document leaves.
func (a *audit) leftSince(ctx context.Context, l *look) (leaving, error) {
	if !l.counter.Template.Windowed() || l.asOf.IsZero() || l.rerouted() {
		return leftNone, nil
	}

	agrees := l.agrees()
	then := *l
	then.readTime = l.asOf
	if !agrees {
		var err error
		then.totals, err = l.snapshot.SumAsOf(ctx, l.asOf)
		if err == nil {
			err = a.weigh(ctx, &then)
		}
		if err != nil || !then.agrees() {
			return leftNone, err
		}
	}

	rings := l.rollUp.Tally.Rings
	switch {
	case rings.IsZero() && agrees && a.nextLeaves(l).IsZero():
		return leftNone, nil
	case rings.IsZero() && agrees: // such as a document that was dated far ahead, and has come nearer
		return leftSooner, nil
	case rings.IsZero() || a.overdue(l):
		return leftLate, nil
	case a.ringsTooLate(&then):
		return leftSooner, nil
	case agrees:
		return leftNone, nil
	default:
		return leftLately, nil
	}
}

// overdue reports whether the alarm of the roll-up should have rung by now, or could not be made,
// or may be gone. An alarm may wait for the counter's pace.
func (a *audit) overdue(l *look) bool {
	return l.alarmGone || l.readTime.Sub(l.rollUp.Tally.Rings) > a.cadence(l)+redelivery+sumsTake(l.rollUp)
}

// ringsTooLate reports whether a document leaves before the alarm of the roll-up rings, by more
// than rounding explains. The look is as of the roll-up.
func (a *audit) ringsTooLate(then *look) bool {
	next := a.nextLeaves(then)
	return !next.IsZero() && then.rollUp.Tally.Rings.Sub(next) > a.cadence(then)+redelivery
}
