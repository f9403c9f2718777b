package schedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/firestore-tally/tally/rollup/internal/roll"
	"github.com/firestore-tally/tally/rollup/route"
)

// examine compares a counter with its shards, acts on that, and counts the outcome in the report.
func (a *audit) examine(ctx context.Context, d *doubt) {
	gone := d.walk >= 0 && d.Template.Existing && !d.RollUp.Exists()
	if gone {
		return
	}

	did, l, err := a.compare(ctx, d.FoundCounter, &d.comparison)
	if did == actionSkip {
		return
	}

	d.comparison.deferred = l.ReadTime.Sub(l.AsOf) < a.Cadence(&l)+redelivery+sumsTake(l.RollUp) // by then an alarm has rung
	differs := err == nil && (did == actionRepair || did == actionTell)
	if differs && d.comparison.difference(&l) == differenceDrift {
		d.comparison.untold = a.untold(ctx, d.Counter, l.AsOf)
		d.comparison.unkept = a.wasUnkept(ctx, d.Counter, l.AsOf)
	}

	a.mu.Lock()
	defer a.mu.Unlock()
	d.left = err != nil || did == actionWait || did == actionTell
	switch {
	case errors.Is(err, roll.ErrUnkept):
		a.report.Unkept++
		a.report.UnkeptCounters = appendError(a.report.UnkeptCounters, err)
		a.TellUnkept(ctx, d.Counter, "", err)
	case err != nil:
		a.report.Failed++
		a.report.Errors = appendError(a.report.Errors, err)
		a.Options.Logger.ErrorContext(ctx, "counter not audited", "counter", d.Counter.RollUp, "error", err)
		a.countAudited(&l)
	case did == actionWait:
		a.lookAgain(ctx, d)
	default:
		a.countAction(ctx, did, &d.comparison, &l)
		a.countAudited(&l)
	}
	a.progress()
}

// countAction counts what was done to a counter. The mutex is held.
func (a *audit) countAction(ctx context.Context, did action, k *comparison, l *roll.Look) {
	switch did {
	case actionRepair:
		a.report.RolledUp++
		a.noteDifference(ctx, k, l)
	case actionTell:
		a.report.Differing++
		if k.paced {
			a.report.Paced++
		}
		a.noteDifference(ctx, k, l)
	case actionRemove:
		a.report.Removed++
	default:
		a.report.Unchanged++
	}
}

// countAudited counts a counter that the audit is done with. The mutex is held.
func (a *audit) countAudited(l *roll.Look) {
	a.report.Counters++
	if l.Totals.Malformed > 0 {
		a.report.Malformed++
	}
	counted := l.RollUp.Tally.AsOf.IsZero() && !l.Counter.Template.FoundByHomes() // when the walk of the roll-ups left it out
	if len(l.RollUp.Foreign) > 0 && !counted {
		a.report.countForeign(1, l.RollUp.ForeignExample(l.Counter.RollUp))
	}
}

// errBusy says that the pace did not allow another roll-up at any of the tries.
var errBusy = errors.New("others had rolled it up each time it was looked at")

// compare compares the roll-up with its shards, and makes it cover everything that was committed
// before the comparison's first look. It returns what it did, and its last look.
func (a *audit) compare(ctx context.Context, f FoundCounter, k *comparison) (action, roll.Look, error) {
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
func (a *audit) untilEnd(ctx context.Context) (context.Context, context.CancelFunc) {
	if a.o.Until.IsZero() {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, a.o.Until.Add(a.Options.Timeout*9/10))
}

// asFound reports whether the roll-up is right as the walk found it. It sums the shards and does
// not read the roll-up again, which saves a read. Where there are windows, it would save none: a
// snapshot must be opened before its windows are known. If it reports false, for whatever reason,
// the caller tries the counter in full.
func (a *audit) asFound(ctx context.Context, f FoundCounter, k *comparison) (l roll.Look, right bool) {
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
func (a *audit) try(ctx context.Context, c route.Counter, k *comparison) (did action, l roll.Look, due time.Duration, err error) {
	looking, cancel := context.WithTimeout(ctx, a.Options.Timeout)
	defer cancel()

	did, l, err = a.study(looking, c, k)
	if err != nil {
		return did, l, 0, err
	}
	if did == actionRemove {
		return did, l, 0, a.Remove(looking, &l)
	}
	if did != actionRepair {
		return did, l, 0, nil
	}

	p := a.PaceOf(&l)
	if p.Due(&l) <= 0 {
		return did, l, 0, a.repair(ctx, &l, p, k)
	}

	// Most likely the trigger is about to roll up the same change.
	due = p.Due(&l) + a.Cadence(&l)/10
	k.paced = due > a.mayWait()
	if !k.paced {
		return did, l, due, errBusy
	}
	if l.AlarmGone && a.Options.Alarms != nil {
		err = a.CreateDue(looking, &l, p)
	}
	return actionTell, l, 0, err
}

// study takes one look, sums the shards if the comparison needs that, and returns what the look
// asks for.
func (a *audit) study(looking context.Context, c route.Counter, k *comparison) (asks action, l roll.Look, err error) {
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
	err = a.Weigh(looking, &l)
	if err != nil {
		return asks, l, err
	}

	k.leaving, err = a.leftSince(looking, &l)
	if err != nil {
		return asks, l, err
	}
	return k.decide(&l), l, nil
}

// longestWait is how long an audit without Until waits for the pace of a counter, each time it
// tries it. A counter whose cadence is longer is left, or a few of them would hold up all others.
const longestWait = 10 * time.Second

// mayWait returns how long the audit may wait now for the pace of a counter.
func (a *audit) mayWait() time.Duration {
	if a.o.Until.IsZero() {
		return longestWait
	}
	return time.Until(a.o.Until)
}

// repair writes the look's roll-up, after the alarm that it needs.
func (a *audit) repair(ctx context.Context, l *roll.Look, p roll.Pace, k *comparison) error {
	next, needed := a.PlanAlarm(l, time.Time{})
	if needed {
		err := a.MakeNext(ctx, l, next)
		if err != nil {
			return err
		}
	}
	return a.Write(ctx, l, p, &k.contention)
}

// noteDifference logs how a counter differs, and counts it under the kind of its difference. The
// mutex is held.
func (a *audit) noteDifference(ctx context.Context, k *comparison, l *roll.Look) {
	log := a.Options.Logger.With("counter", l.Counter.RollUp, "differs", explain(l),
		"num_shards", l.Totals.NumShards(), "as_of", l.AsOf, "read_time", l.ReadTime)

	unwritten := l.RollUp.UnwrittenExample(l.Counter.RollUp)
	if unwritten != "" {
		a.report.Unwritten++
		a.report.UnwrittenExample = cmp.Or(a.report.UnwrittenExample, unwritten)
	}

	switch k.difference(l) {
	case differenceUnwritten:
		log.WarnContext(ctx, "unwritten: no roll-up wrote the totals that the document holds")
	case differenceOrphaned:
		a.report.Orphaned++
		log.WarnContext(ctx, "orphaned: the roll-up of a counter without shards is not zeros")
	case differenceMissing:
		a.report.Missing++
		log.InfoContext(ctx, "missing: a counter without a roll-up")
	case differenceRerouted:
		a.report.Rerouted++
		log.InfoContext(ctx, "rerouted: the roll-up was made by other routes", "totals", l.RollUp.Tally.Totals)
	case differenceOutdated:
		a.report.Outdated++
		log.InfoContext(ctx, "outdated: the roll-up holds totals of earlier routes", "former", l.RollUp.Tally.Former)
	case differenceUntold:
		log.InfoContext(ctx, "untold: events came that did not tell which counter their document had left")
	case differenceLapsed:
		a.report.Lapsed++
		log.InfoContext(ctx, "lapsed: changes came while the counter was unkept")
	case differenceLate:
		a.report.Late++
		log.WarnContext(ctx, "left late: no alarm had the counter rolled up when documents left a window", "rings", l.RollUp.Tally.Rings)
	case differenceUnmarked:
		log.InfoContext(ctx, "the roll-up says since when the document that it is within has been missing", "ownerless_since", l.OwnerlessSince())
	case differenceSooner:
		log.InfoContext(ctx, "sooner: a document leaves before the alarm rings", "rings", l.RollUp.Tally.Rings, "leaves", a.NextLeaves(l))
	case differenceDrift:
		a.report.Drift++
		log.ErrorContext(ctx, "drift: no event of a change came in time")
	case differenceRecent:
		log.InfoContext(ctx, "recent: a change whose event may be on its way")
	}
}

// explain says of each total that differs what the roll-up holds and what the shards give, such as
// "likes 3 → 4, last null → 2026-01-02T03:04:05Z".
func explain(l *roll.Look) string {
	var texts []string
	for _, name := range slices.Sorted(slices.Values(l.Differing())) {
		held := "none"
		if seen, ok := l.RollUp.Values[name]; ok {
			held = seen.String()
		}
		texts = append(texts, fmt.Sprintf("%s %s → %v", name, held, l.Totals.Values[name]))
	}

	held, counted := l.RollUp.Tally.NumShards, l.Totals.NumShards()
	if held != counted {
		texts = append(texts, fmt.Sprintf("tally.num_shards %d → %d", held, counted))
	}

	return strings.Join(texts, ", ")
}
