package schedule

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/firestore-tally/tally/rollup/internal/roll"
	"github.com/firestore-tally/tally/rollup/route"
)

// An examiner compares counters with their shards, and repairs those that differ.
type examiner struct {
	roll.Roller
	o     *AuditOptions
	store Store
}

// maxTries is how often one counter is tried. A try is lost to a failure, or to another writer.
// Such a writer has most often covered the counter by the next try.
const maxTries = 5

// errBusy says that the pace did not allow another roll-up at any of the tries.
var errBusy = errors.New("others had rolled it up each time it was looked at")

// compare compares the roll-up with its shards, and makes it cover everything that was committed
// before the comparison's first look. It returns what it did, and its last look.
func (a *examiner) compare(ctx context.Context, f FoundCounter, k *comparison) (action, roll.Look, error) {
	ctx, cancel := a.untilEnd(ctx)
	defer cancel()

	l, right := a.asFound(ctx, f, k)
	if right {
		return actionLeave, l, nil
	}

	for try := 1; ; try++ {
		did, l, due, err := a.try(ctx, f.Counter, k)
		if err == nil {
			return did, l, nil
		}
		if errors.Is(err, roll.ErrUnkept) { // another try would end alike
			return actionLeave, l, fmt.Errorf("%s: %w", f.Counter.RollUp, err)
		}
		if try == maxTries {
			return actionLeave, l, fmt.Errorf("rollup: %s not audited: %w", f.Counter.RollUp, err)
		}

		stopped := sleep(ctx, max(due, a.PauseAfter(try-1, a.Step(f.Template))))
		if stopped != nil {
			err = stopped
		}
		if ctx.Err() != nil { // a pause of zero may end before sleep notices
			return actionLeave, l, fmt.Errorf("rollup: %s not audited: %w", f.Counter.RollUp, err)
		}
	}
}

// untilEnd returns ctx, limited to when the audit must be done with its counters. That is later
// than Until by most of a call's time-out. The rest is left to save the cursor and to answer.
func (a *examiner) untilEnd(ctx context.Context) (context.Context, context.CancelFunc) {
	if a.o.Until.IsZero() {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, a.o.Until.Add(a.Options.Timeout*9/10))
}

// asFound reports whether the roll-up is right as the walk found it. It sums the shards and does
// not read the roll-up again, which saves a read. Where there are windows, it would save none: a
// snapshot must be opened before its windows are known. If it reports false, for whatever reason,
// the caller tries the counter in full.
func (a *examiner) asFound(ctx context.Context, f FoundCounter, k *comparison) (l roll.Look, right bool) {
	if f.RollUp.Tally.AsOf.IsZero() || k.graceOver || f.Template.Windowed() {
		return l, false
	}

	ctx, cancel := context.WithTimeout(ctx, a.Options.Timeout)
	defer cancel()

	l = roll.Look{
		Counter:   f.Counter,
		RollUp:    f.RollUp,
		Ownerless: f.Ownerless,
		AsOf:      f.RollUp.Tally.AsOf,
		Snapshot:  a.store.Sources(ctx, f.Counter),
	}
	err := a.Sum(ctx, &l)
	if err != nil {
		return l, false
	}

	l.ReadTime = l.Snapshot.ReadTime()
	return l, k.agreesAsFound(&l)
}

// try takes one look, and does what the look asks for. After an error the counter may be tried
// again when the time due has passed.
func (a *examiner) try(ctx context.Context, c route.Counter, k *comparison) (did action, l roll.Look, due time.Duration, err error) {
	looking, cancel := context.WithTimeout(ctx, a.Options.Timeout)
	defer cancel()

	did, l, err = a.lookAndDecide(looking, c, k)
	if err != nil {
		return did, l, 0, err
	}
	if did == actionRemove {
		return did, l, 0, a.Remove(looking, &l)
	}
	if did != actionRepair {
		return did, l, 0, nil
	}

	p := a.SchedulePace(&l)
	if p.Due(&l) <= 0 {
		return did, l, 0, a.repair(ctx, &l, p, k)
	}

	// Most likely the trigger is about to roll up the same change.
	due = p.Due(&l) + a.Cadence(&l)/10
	k.paced = due > a.timeToWait()
	if !k.paced {
		return did, l, due, errBusy
	}
	if l.AlarmGone && a.Options.Alarms != nil {
		err = a.CreateDueAlarm(looking, &l, p)
	}
	return actionTell, l, 0, err
}

// lookAndDecide takes one look, sums the shards if the comparison needs that, and returns what the
// look asks for.
func (a *examiner) lookAndDecide(looking context.Context, c route.Counter, k *comparison) (asks action, l roll.Look, err error) {
	l, err = a.Look(looking, c, "")
	if err != nil {
		return asks, l, err
	}

	if l.Missing() {
		return actionSkip, l, nil
	}
	l.AlarmGone = k.remake
	if !k.needsSum(&l) {
		return actionLeave, l, nil
	}
	k.remember(&l)

	err = a.Sum(looking, &l)
	if err != nil {
		return asks, l, err
	}
	err = a.LoadMagnitudes(looking, &l)
	if err != nil {
		return asks, l, err
	}

	k.leaving, err = leftSince(looking, &a.Roller, &l)
	if err != nil {
		return asks, l, err
	}
	return k.decide(&l), l, nil
}

// longestWait is how long an audit without Until waits for the pace of a counter, each time it
// tries it. A counter whose cadence is longer is left, or a few of them would hold up all others.
const longestWait = 10 * time.Second

// timeToWait returns how long the audit may wait now for the pace of a counter.
func (a *examiner) timeToWait() time.Duration {
	if a.o.Until.IsZero() {
		return longestWait
	}
	return time.Until(a.o.Until)
}

// repair writes the look's roll-up, after the alarm that it needs.
func (a *examiner) repair(ctx context.Context, l *roll.Look, p roll.Pace, k *comparison) error {
	next, needed := a.PlanAlarm(l, time.Time{})
	if needed {
		err := a.CreateWindowAlarm(ctx, l, next)
		if err != nil {
			return err
		}
	}
	return a.Write(ctx, l, p, &k.contention)
}
