package events

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/firestore-tally/tally/rollup/internal/roll"
)

// startProbing starts the counter's prober, unless it runs. The mutex is held.
func (c *Coalescer) startProbing(s *counterState) {
	if !s.probing {
		s.probing = true
		go c.probe(s)
	}
}

// probe looks at the counter's roll-up whenever that is due, and at first at once. It ends when a
// look is due and no event waits for it. It works for all events of the counter, and outlives their
// requests.
func (c *Coalescer) probe(s *counterState) {
	for {
		oldest := c.closeOpen(s)
		if oldest == nil {
			return
		}

		next, err := c.rollUp(oldest.values, s, oldest.anchor)
		if err != nil {
			next = c.handleFailure(oldest.values, s, oldest.anchor, err)
		}
		time.Sleep(time.Until(next))
	}
}

// closeOpen closes the open generation, and returns the generation that has waited longest, or an
// alarm if no event waits. It returns nil if none of either is left. Then the prober ends. After a
// failure it leaves the open generation open: docs/design/rules.md#anchor-held.
func (c *Coalescer) closeOpen(s *counterState) (oldest *generation) {
	c.mu.Lock()
	defer c.mu.Unlock()

	if s.open != nil && (s.failures == 0 || len(s.closed) == 0) {
		s.closed = append(s.closed, s.open)
		s.open = nil
	}

	switch {
	case len(s.closed) > 0:
		return s.closed[0]
	case len(s.alarms) > 0 && !s.long.summing:
		return s.alarms[0]
	default:
		s.probing = false
		c.forget(s)
		return nil
	}
}

// rollUp takes one snapshot of the counter. If it is this instance's turn and an event waits, it
// rolls the counter up. It returns when to look next, by the local clock.
func (c *Coalescer) rollUp(ctx context.Context, s *counterState, oldest string) (next time.Time, err error) {
	looking, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()

	l, err := c.roller.Look(looking, s.counter, oldest)
	if err != nil {
		return next, err
	}

	if l.Missing() {
		c.awaitDocument(ctx, s, &l)
	}
	p, err := c.observe(s, &l)
	if err != nil {
		return next, err
	}

	if p.sums && (l.Long || c.worthClaim(&l)) {
		age, another := c.claim(looking, &l)
		if another {
			p = c.planClaimed(s, &l, age)
		}
	}
	if p.sums && l.Long {
		c.sumApart(ctx, s, l)
		p.sums = false
	}
	next = l.Received.Add(p.wait)
	if !p.deferTo.IsZero() {
		return next, c.makeAlarm(ctx, s, &l, p.deferTo, p.alarmsStay)
	}
	if !p.sums {
		return next, nil
	}

	wait, err := c.sumAndWrite(ctx, s, &l, c.options.Timeout)
	return l.Received.Add(wait), err
}

// sumAndWrite rolls the counter up, and returns how long after the look's answer to look again. The
// timeout is for the look and its sum together.
func (c *Coalescer) sumAndWrite(ctx context.Context, s *counterState, l *roll.Look, timeout time.Duration) (wait time.Duration, err error) {
	summing, cancel := context.WithTimeout(ctx, timeout-time.Since(l.Began))
	defer cancel()
	err = c.roller.Sum(summing, l)
	if err != nil {
		c.noteLong(s, l)
		return 0, err
	}
	c.makeWindowAlarm(ctx, s, l)

	c.mu.Lock()
	p := c.pace(s, l)
	c.mu.Unlock()
	err = c.roller.Write(ctx, l, p, &s.contention)
	if err != nil {
		return 0, err
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	c.recordRollUp(s, l)
	return c.waitAfter(s, l, p), nil
}

// sumApart sums and writes what the look has seen, while the prober goes on. The prober sums
// nothing until that has ended.
func (c *Coalescer) sumApart(ctx context.Context, s *counterState, l roll.Look) {
	c.roller.LogOnce(ctx, slog.LevelInfo, "sums take long; events are deferred", l.Counter, l.EventID, nil,
		"took", l.RollUp.Tally.Took, "num_shards", l.RollUp.Tally.NumShards)
	c.mu.Lock()
	s.long.summing = true
	c.mu.Unlock()

	go func() {
		_, err := c.sumAndWrite(ctx, s, &l, c.longTimeout())
		if err != nil {
			c.handleLongFailure(ctx, s, &l, err)
		}

		c.mu.Lock()
		defer c.mu.Unlock()
		s.long.summing = false
		c.startProbing(s)
	}()
}

// handleLongFailure has the counter rest after a long sum that failed. What waits is deferred to
// the end of the rest.
func (c *Coalescer) handleLongFailure(ctx context.Context, s *counterState, l *roll.Look, err error) {
	switch {
	case errors.Is(err, roll.ErrUnkept):
		c.markUnkept(ctx, s, l.EventID, err)
		return
	case errors.Is(err, roll.ErrConflict):
		c.options.Logger.DebugContext(ctx, "roll-up failed; looking again", "counter", s.counter.RollUp, "event_id", l.EventID, "error", err)
		return
	}

	c.mu.Lock()
	s.long.rest.start(firstRest, longestRest, c.serverNow())
	s.long.until = s.long.rest.until.Add(longKnownFor)
	c.mu.Unlock()
	c.options.Logger.Log(ctx, slog.LevelWarn, "long sum failed; its counter rests", "counter", s.counter.RollUp, "event_id", l.EventID,
		"took", l.Took, "error", err)
}
