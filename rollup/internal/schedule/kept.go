package schedule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/firestore-tally/tally/rollup/internal/roll"
)

// countVisit counts what a visit did, and how old it found the roll-up. The mutex is held.
func (k *keeper) countVisit(e *keptCounter, v *visit) {
	if v.ReadTime.After(k.newest) {
		k.newest, k.newestReceived = v.ReadTime, v.Received
	}
	if v.hasShards() {
		k.noteAge(e, roll.Later(e.rightAt, v.AsOf), v.ReadTime)
	}
	if v.err != nil {
		return
	}

	switch v.action {
	case actionRepair:
		k.report.RolledUp++
	case actionRemove:
		k.report.Removed++
	case actionLeave:
		k.report.Unchanged++
	}
	if v.Totals.Malformed > 0 {
		e.malformed = true
	}

	e.rightAt = time.Time{}
	switch {
	case v.action == actionSkip:
		e.rightAt = v.AsOf
	case v.hasShards():
		e.rightAt = v.ReadTime
	}
}

// noteAge notes in the report how old a roll-up was. The mutex is held.
func (k *keeper) noteAge(e *keptCounter, rightAt, now time.Time) {
	if rightAt.IsZero() {
		return
	}

	age := now.Sub(rightAt)
	late := age.Seconds() / e.Template.Every.Seconds()
	if late > k.greatestLateness {
		k.greatestLateness, k.report.GreatestAge, k.report.Oldest = late, age.Seconds(), e.RollUp
	}
}

// lateAfter bounds the age of a roll-up, as a multiple of its route's "every". If one is older, the
// log says so. A roll-up that is kept in time can be as old as staleAfter says. The time of a visit
// and the pause between two calls come on top.
const lateAfter = 2 * staleAfter

// countKept counts a counter in the report, and if its last visit failed, how.
func (k *keeper) countKept(ctx context.Context, e *keptCounter) {
	if e.visited {
		k.report.Counters++
	}
	if e.malformed {
		k.report.Malformed++
	}

	switch {
	case errors.Is(e.failure, roll.ErrUnkept):
		k.report.Unkept++
		k.report.UnkeptCounters = appendError(k.report.UnkeptCounters, fmt.Errorf("%s: %w", e.RollUp, e.failure))
	case e.failure != nil:
		k.report.Failed++
		k.report.Errors = appendError(k.report.Errors, fmt.Errorf("rollup: %s not kept: %w", e.RollUp, e.failure))
		k.Options.Logger.ErrorContext(ctx, "counter not kept", "counter", e.RollUp, "error", e.failure)
	}
}

// sumUp completes the report.
func (k *keeper) sumUp(ctx context.Context) {
	now := time.Now()
	end := now // a counter that was due later is not late
	if !k.o.Until.IsZero() && k.o.Until.Before(now) {
		end = k.o.Until
	}

	for _, e := range k.known {
		k.countKept(ctx, e)
		if errors.Is(e.failure, roll.ErrUnkept) || e.due.After(end) {
			continue
		}

		if !e.visited || !k.o.Until.IsZero() && e.failure == nil {
			k.report.Left++
		}
		if !k.newestReceived.IsZero() {
			k.noteAge(e, e.rightAt, k.newest.Add(now.Sub(k.newestReceived)))
		}
	}

	for _, f := range k.finders {
		for _, w := range f.walks {
			lately := !w.began.IsZero() && end.Sub(w.began) <= lateAfter*w.template.Every
			if !w.over && !lately {
				k.report.Unfound = append(k.report.Unfound, w.name)
			}
		}
	}

	slices.Sort(k.report.Errors)
	slices.Sort(k.report.UnkeptCounters)
	if k.greatestLateness > lateAfter || len(k.report.Unfound) > 0 {
		k.Options.Logger.WarnContext(ctx, "kept late", "counter", k.report.Oldest, "age_seconds", k.report.GreatestAge,
			"left", k.report.Left, "unfound", k.report.Unfound)
	}
}

// A visit is one visit to a counter: what it saw and did.
type visit struct {
	roll.Look
	err     error
	action  action
	nextDue time.Time // when the counter is due next, by the local clock
}

// hasShards reports whether the counter was summed, and has shards.
func (v *visit) hasShards() bool { return !v.Totals.Empty() }
