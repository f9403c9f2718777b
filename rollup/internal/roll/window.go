package roll

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
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

// NextLeaveTime returns when the counter must be rolled up because the first document may have left
// a window. It returns zero if no document leaves. The time is rounded up to a grid, whose step is
// a part of the window or the counter's cadence. Each counter has a phase of its own, so that the
// alarms of many do not ring at once.
func (r *Roller) NextLeaveTime(l *Look) time.Time {
	var first time.Time
	for _, leaving := range l.Totals.Leaving {
		if leaving.At.Sub(l.ReadTime) > longestAhead {
			continue
		}
		grid := max(leaving.Window/windowParts, r.Cadence(l)).Truncate(time.Microsecond)
		first = Sooner(first, OnGrid(l.Counter.RollUp, grid, Later(leaving.At, l.ReadTime.Add(LeastAhead))))
	}
	if first.IsZero() {
		return first
	}
	return WithinReach(l.Counter.RollUp, l.ReadTime, first)
}

// PlanAlarm decides whether an alarm must be made before the look's roll-up is written, and returns
// its time. It sets l.Rings to the time of the alarm that stands already, or to the look's own time
// as long as none does. made is the time of an alarm that this process has made before, or zero.
//
// A roll-up may rely on an alarm whose time is later than the look. Nothing has ended it before
// another roll-up is as of that time, and then this one is not written any more.
func (r *Roller) PlanAlarm(l *Look, made time.Time) (next time.Time, needed bool) {
	seen := l.RollUp.Tally.Rings
	if l.AsOf.IsZero() || l.Rerouted() || l.AlarmGone {
		seen = time.Time{}
	}

	next = r.NextLeaveTime(l)
	l.Rings = time.Time{}
	for _, rings := range []time.Time{made, seen} {
		if rings.After(l.ReadTime) && (next.IsZero() || !rings.After(next)) {
			l.Rings = rings
		}
	}

	needed = !next.IsZero() && l.Rings.IsZero()
	if needed {
		l.Rings = l.ReadTime
	}
	return next, needed
}

// CreateWindowAlarm makes the alarm that must stand before the look's roll-up is written, and sets
// l.Rings.
func (r *Roller) CreateWindowAlarm(ctx context.Context, l *Look, next time.Time) error {
	if r.Options.Alarms == nil {
		return fmt.Errorf("%w: %s", errNoAlarms, l.Counter.RollUp)
	}

	a := AlarmOf(l.Counter, next)
	if r.Salted {
		a.Salt = rand.Text()
	}
	err := r.CreateAlarm(ctx, a)
	if err == nil {
		l.Rings = next
	}
	return err
}
