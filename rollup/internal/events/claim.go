package events

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup/internal/roll"
	"github.com/firestore-tally/tally/rollup/route"
)

// claimReads is what a claim costs, in reads. Its write costs as much as three, and two instances
// read it: the one that claims, and one that waits.
const claimReads = 5

// worthClaim reports whether a counter is worth claims. Its sums must bill at least as much as a
// claim, and take so long that several instances would sum for the same roll-up. For quicker sums,
// the back-offs keep the instances apart. If the sums bill so much that the cadence follows from
// that, the back-offs do not suffice: a second sum now and then is more than the bill allows.
func (c *Coalescer) worthClaim(l *roll.Look) bool {
	reads := l.RollUp.Tally.NumShards
	readsEach := slices.ContainsFunc(l.Counter.Template.Routes, func(r *route.Route) bool { return r.Documents })
	if !readsEach {
		reads /= 1000 // an aggregation bills one for so many documents
	}
	billed := c.roller.Cadence(l) > c.roller.RouteCadence(l.Counter.Template)
	return reads >= claimReads && (billed || c.lastSumTook(l) >= c.roller.Step(l.Counter.Template)/10)
}

// claim claims the sum of a slow counter whose turn it is. If another instance has a claim, claim
// reports so, and how old that is. Claims only save costs. An instance that cannot read or write a
// claim sums without one.
func (c *Coalescer) claim(ctx context.Context, l *roll.Look) (age time.Duration, another bool) {
	seen, err := l.Snapshot.Claim(ctx)
	if err != nil {
		c.options.Logger.DebugContext(ctx, "claim not read; summing without", "counter", l.Counter.RollUp, "event_id", l.EventID, "error", err)
		return 0, false
	}

	age = l.ReadTime.Sub(seen.UpdateTime)
	if seen.By != "" && seen.By != c.name && seen.Over.Equal(l.AsOf) && age < c.claimDuration(l) {
		return age, true
	}

	seen.Claim = document.Claim{By: c.name, Over: l.AsOf}
	err = c.store.Claim(ctx, l.Counter, seen)
	if errors.Is(err, roll.ErrConflict) {
		return 0, true
	}
	if err != nil {
		c.options.Logger.DebugContext(ctx, "claim not written; summing without", "counter", l.Counter.RollUp, "event_id", l.EventID, "error", err)
	}
	return 0, false
}

// claimDuration returns how long a claim holds. It is one and a half times as long as the last sum
// took, because not all sums take the same time. An instance that has not written its roll-up by
// then has died, or takes too long.
func (c *Coalescer) claimDuration(l *roll.Look) time.Duration {
	switch {
	case l.Long && !c.takesLong(l.RollUp.Tally.Took): // no roll-up says how long
		return c.longTimeout()
	case l.Long:
		return min(c.lastSumTook(l)*3/2, c.longTimeout())
	default:
		return min(c.lastSumTook(l)*3/2, c.options.Timeout)
	}
}
