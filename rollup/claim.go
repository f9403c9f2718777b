package rollup

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"github.com/firestore-tally/tally/internal/document"
)

// took is how long the last sum took, as far as an event can wait for one.
func (c *Coalescer) took(l *look) time.Duration { return min(l.rollUp.Tally.Took, c.options.Timeout) }

// claimReads is what a claim costs, in reads: a write costs three, and who waits reads the claim.
const claimReads = 5

// slow reports whether sums take so long that several instances would begin one for the same
// roll-up, and bill more than a claim does. Quicker ones are kept apart by the back-offs.
func (c *Coalescer) slow(l *look) bool {
	reads := l.rollUp.Tally.NumShards
	readsEach := slices.ContainsFunc(l.counter.Template.Routes, func(r *Route) bool { return r.Documents })
	if !readsEach {
		reads /= 1000 // an aggregation bills one for so many documents
	}
	return reads >= claimReads && c.took(l) >= c.options.Cadence/10
}

// claim reports whether this instance is to sum a slow counter now. Then it has claimed that;
// otherwise another has, and the next look is planned. Only costs rest on a claim: who cannot read
// or write one sums without.
func (c *Coalescer) claim(ctx context.Context, s *counterState, l *look) bool {
	seen, err := c.readClaim(ctx, l)
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
	err = c.call(ctx, "claim", func(ctx context.Context) error { return c.store.Claim(ctx, l.counter, seen) })
	if errors.Is(err, ErrConflict) {
		c.waitForClaim(s, l, 0)
		return false
	}
	if err != nil {
		c.options.Logger.DebugContext(ctx, "claim not written; summing without", "counter", l.counter.RollUp, "event_id", l.eventID, "error", err)
	}
	return true
}

func (c *Coalescer) readClaim(ctx context.Context, l *look) (claim Claim, err error) {
	err = c.call(ctx, "claim", func(ctx context.Context) (err error) {
		claim, err = l.snapshot.Claim(ctx)
		return err
	})
	return claim, err
}

func (c *Coalescer) ownClaim(s *counterState) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.claim
}

func (c *Coalescer) newClaim(s *counterState) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.claim = rand.Text()
	return s.claim
}

// claimHolds is how long a claim holds: as the last sum and half of it, because sums differ. Who
// has claimed and not written by then has died, or takes too long.
func (c *Coalescer) claimHolds(l *look) time.Duration { return min(c.took(l)*3/2, c.options.Timeout) }

// waitForClaim plans the next look for when the sum that another has claimed should be done, or
// when it should have been, for when the claim is over.
func (c *Coalescer) waitForClaim(s *counterState, l *look, age time.Duration) {
	wait := c.took(l) - age
	if wait <= 0 {
		wait = c.claimHolds(l) - age
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	s.failures = 0
	s.wake = l.received.Add(wait + c.backOff(s.draw))
}
