package rollup

import (
	"context"
	"crypto/rand"
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
	billed := c.billedCadence(l) > c.routeCadence(l.counter.Template)
	return reads >= claimReads && (billed || c.took(l) >= c.step(l.counter.Template)/10)
}

// claim reports whether this instance is to sum a slow counter now. If so, it has written a claim.
// If not, another instance has a claim, and this one has planned its next look. Claims only save
// costs. An instance that cannot read or write a claim sums without one.
func (c *Coalescer) claim(ctx context.Context, s *counterState, l *look) bool {
	seen, err := l.snapshot.Claim(ctx)
	if err != nil {
		c.options.Logger.DebugContext(ctx, "claim not read; summing without", "counter", l.counter.RollUp, "event_id", l.eventID, "error", err)
		return true
	}
	age := l.readTime.Sub(seen.UpdateTime)

	own := c.ownClaim(s)
	if seen.By != "" && seen.By != own && seen.Over.Equal(l.asOf) && age < c.claimHolds(l) {
		c.waitForClaim(s, l, age)
		return false
	}

	seen.Claim = document.Claim{By: c.newClaim(s), Over: l.asOf}
	err = c.store.Claim(ctx, l.counter, seen)
	if errors.Is(err, ErrConflict) {
		c.waitForClaim(s, l, 0)
		return false
	}
	if err != nil {
		c.options.Logger.DebugContext(ctx, "claim not written; summing without", "counter", l.counter.RollUp, "event_id", l.eventID, "error", err)
	}
	return true
}

// ownClaim returns By of this instance's last claim, which tells it from the claims of others.
func (c *Coalescer) ownClaim(s *counterState) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.claim
}

// newClaim makes By of the next claim, and remembers it.
func (c *Coalescer) newClaim(s *counterState) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.claim = rand.Text()
	return s.claim
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

// waitForClaim plans the next look for the time when the sum that another instance has claimed
// should be done. If that has passed, it plans the look for the end of the claim.
func (c *Coalescer) waitForClaim(s *counterState, l *look, age time.Duration) {
	wait := c.took(l) - age
	if wait <= 0 {
		wait = c.claimHolds(l) - age
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	s.failures = 0
	s.wake = l.received.Add(wait + c.backOff(s))
	if l.long { // whatever waits is deferred until then
		l.deferTo, l.alarmsStay = ahead(l.readTime, max(wait, leastAhead), roundedTo), false
		s.wake = l.received
	}
}
