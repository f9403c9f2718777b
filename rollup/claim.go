package rollup

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup/route"
)

// took returns how long the last sum took, but at most as long as a sum may take.
func (c *Coalescer) took(l *look) time.Duration {
	if l.long {
		return min(l.rollUp.Tally.Took, c.longTimeout())
	}
	return min(l.rollUp.Tally.Took, c.options.Timeout)
}

// claimReads is what a claim costs, in reads. Its write costs as much as three, and two instances
// read it: the one that claims, and one that waits.
const claimReads = 5

// slow reports whether a counter is worth claims. Its sums must bill at least as much as a claim,
// and take so long that several instances would sum for the same roll-up. For quicker sums, the
// back-offs keep the instances apart. If the sums bill so much that the cadence follows from that,
// the back-offs do not suffice: a second sum now and then is more than the bill allows.
func (c *Coalescer) slow(l *look) bool {
	reads := l.rollUp.Tally.NumShards
	readsEach := slices.ContainsFunc(l.counter.Template.Routes, func(r *route.Route) bool { return r.Documents })
	if !readsEach {
		reads /= 1000 // an aggregation bills one for so many documents
	}
	billed := c.cadence(l) > c.routeCadence(l.counter.Template)
	return reads >= claimReads && (billed || c.took(l) >= c.step(l.counter.Template)/10)
}

// claim claims the sum of a slow counter whose turn it is. If another instance has a claim, claim
// reports so, and how old that is. Claims only save costs. An instance that cannot read or write a
// claim sums without one.
func (c *Coalescer) claim(ctx context.Context, l *look) (age time.Duration, another bool) {
	seen, err := l.snapshot.Claim(ctx)
	if err != nil {
		c.options.Logger.DebugContext(ctx, "claim not read; summing without", "counter", l.counter.RollUp, "event_id", l.eventID, "error", err)
		return 0, false
	}

	age = l.readTime.Sub(seen.UpdateTime)
	if seen.By != "" && seen.By != c.name && seen.Over.Equal(l.asOf) && age < c.claimHolds(l) {
		return age, true
	}

	seen.Claim = document.Claim{By: c.name, Over: l.asOf}
	err = c.store.Claim(ctx, l.counter, seen)
	if errors.Is(err, ErrConflict) {
		return 0, true
	}
	if err != nil {
		c.options.Logger.DebugContext(ctx, "claim not written; summing without", "counter", l.counter.RollUp, "event_id", l.eventID, "error", err)
	}
	return 0, false
}

// claimHolds returns how long a claim holds. It is one and a half times as long as the last sum
// took, because not all sums take the same time. An instance that has not written its roll-up by
// then has died, or takes too long.
func (c *Coalescer) claimHolds(l *look) time.Duration {
	switch {
	case l.long && !c.takesLong(l.rollUp.Tally.Took): // no roll-up says how long
		return c.longTimeout()
	case l.long:
		return min(c.took(l)*3/2, c.longTimeout())
	default:
		return min(c.took(l)*3/2, c.options.Timeout)
	}
}
