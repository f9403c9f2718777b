package schedule

import (
	"context"

	"github.com/firestore-tally/tally/rollup/internal/roll"
)

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
func leftSince(ctx context.Context, r *roll.Roller, l *roll.Look) (leaving, error) {
	if !l.Counter.Template.Windowed() || l.AsOf.IsZero() || l.Rerouted() {
		return leftNone, nil
	}

	agrees := l.Agrees()
	then := *l
	then.ReadTime = l.AsOf
	if !agrees {
		var err error
		then.Totals, err = l.Snapshot.SumAsOf(ctx, l.AsOf)
		if err == nil {
			err = r.LoadMagnitudes(ctx, &then)
		}
		if err != nil || !then.Agrees() {
			return leftNone, err
		}
	}

	rings := l.RollUp.Tally.Rings
	switch {
	case rings.IsZero() && agrees && r.NextLeaveTime(l).IsZero():
		return leftNone, nil
	case rings.IsZero() && agrees: // such as a document that was dated far ahead, and has come nearer
		return leftSooner, nil
	case rings.IsZero() || overdue(r, l):
		return leftLate, nil
	case ringsTooLate(r, &then):
		return leftSooner, nil
	case agrees:
		return leftNone, nil
	default:
		return leftLately, nil
	}
}

// overdue reports whether the alarm of the roll-up should have rung by now, or could not be made,
// or may be gone. An alarm may wait for the counter's pace.
func overdue(r *roll.Roller, l *roll.Look) bool {
	return l.AlarmGone || l.ReadTime.Sub(l.RollUp.Tally.Rings) > r.Cadence(l)+redelivery+sumDelay(l.RollUp)
}

// ringsTooLate reports whether a document leaves before the alarm of the roll-up rings, by more
// than rounding explains. The look is as of the roll-up.
func ringsTooLate(r *roll.Roller, then *roll.Look) bool {
	next := r.NextLeaveTime(then)
	return !next.IsZero() && then.RollUp.Tally.Rings.Sub(next) > r.Cadence(then)+redelivery
}
