package rollup

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"
)

// A sum is long if it takes more than a quarter of the time for which an event can be held. Events
// do not wait for such a sum. They are deferred to an alarm, and only alarms wait for it. It runs
// apart from the prober, which goes on looking and deferring.
type long struct {
	until   time.Time // how long this instance remembers that a sum was cut off, by the local clock
	summing bool      // a sum is under way

	restsUntil time.Time // this instance does not sum until then, by the local clock, because a long sum has failed
	next       time.Time // the alarm to which everything is deferred meanwhile; zero: none was made
}

const (
	// longKnownFor is how long an instance remembers that a sum was cut off. The roll-up does not
	// say so, because none was written.
	longKnownFor = 10 * time.Minute

	// rest is how long an instance does not sum a counter after a long sum has failed. Such a sum
	// may have read for as long as Options.LongTimeout.
	rest = time.Minute
)

// takesLong reports whether a sum that took so long is long.
func (c *Coalescer) takesLong(took time.Duration) bool { return took > c.options.Hold/4 }

// isLong reports whether the counter's next sum is likely to be long, and there are alarms that can
// wait for it. The mutex is held.
func (c *Coalescer) isLong(s *counterState, l *look) bool {
	if s.long.summing {
		return true
	}
	return c.canMakeAlarms(s) && (c.takesLong(l.rollUp.Tally.Took) || time.Now().Before(s.long.until))
}

// noteLong notes that the look's sum was cut off because it is long.
func (c *Coalescer) noteLong(s *counterState, l *look) {
	if c.options.Alarms == nil || !c.takesLong(l.took) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.long.until = time.Now().Add(longKnownFor)
}

// deferLong is deferTo for a counter whose sums are long. An alarm that rings stays, unless the
// counter is due much later or rests.
func (c *Coalescer) deferLong(s *counterState, l *look, due time.Duration) time.Time {
	grid := max(roundedTo, c.took(l)/2) // so that the instances make few alarms while one sums
	switch {
	case time.Now().Before(s.long.restsUntil):
		if s.long.next.Before(l.readTime.Add(leastAhead)) {
			s.long.next = ahead(l.readTime, max(leastAhead, time.Until(s.long.restsUntil)), roundedTo)
		}
		return s.long.next
	case due > c.canBeHeld():
		return l.readTime.Add(due)
	case len(s.closed) == 0:
		return time.Time{}
	default:
		l.alarmsStay = true
		return ahead(l.readTime, leastAhead, grid)
	}
}

// ahead returns a time that is at least so far ahead, rounded up.
func ahead(now time.Time, least, grid time.Duration) time.Time {
	return now.Add(least + grid).Truncate(grid)
}

// ringing reports whether an alarm waits whose time has come. The mutex is held.
func (s *counterState) ringing(now time.Time) bool {
	return slices.ContainsFunc(s.alarms, func(g *generation) bool { return !g.from.After(now) })
}

// sumApart sums and writes what the look has seen, while the prober goes on. The prober sums
// nothing until that has ended.
func (c *Coalescer) sumApart(ctx context.Context, s *counterState, l look) {
	c.tellLong(ctx, &l)
	p := c.pace(s, &l)
	c.mu.Lock()
	s.long.summing = true
	c.mu.Unlock()

	go func() {
		err := c.sumLong(ctx, s, &l, p)
		if err != nil {
			c.failedLong(ctx, s, &l, err)
		}

		c.mu.Lock()
		defer c.mu.Unlock()
		s.long.summing = false
		c.startProbing(s)
	}()
}

// sumLong takes a long sum and writes it.
func (c *Coalescer) sumLong(ctx context.Context, s *counterState, l *look, p pace) error {
	summing, cancel := context.WithTimeout(ctx, c.longTimeout()-time.Since(l.began))
	defer cancel()

	err := c.sum(summing, l)
	if err != nil {
		return err
	}
	c.chain(ctx, s, l)
	err = c.write(ctx, l, p, &s.contention)
	if err != nil {
		return err
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	c.covered(s, l)
	return nil
}

// failedLong has the counter rest after a long sum that failed. What waits is then deferred, the
// longer the more sums have failed in a row.
func (c *Coalescer) failedLong(ctx context.Context, s *counterState, l *look, err error) {
	switch {
	case errors.Is(err, ErrUnkept):
		c.failed(ctx, s, l.eventID, err)
		return
	case errors.Is(err, ErrConflict):
		c.options.Logger.DebugContext(ctx, "roll-up failed; looking again", "counter", s.counter.RollUp, "event_id", l.eventID, "error", err)
		return
	}

	c.mu.Lock()
	delay := s.countHandOn()
	s.long.until = time.Now().Add(longKnownFor)
	s.long.restsUntil = time.Now().Add(rest)
	s.long.next = ahead(l.readTime.Add(time.Since(l.received)), delay, roundedTo)
	c.mu.Unlock()
	c.options.Logger.Log(ctx, slog.LevelWarn, "long sum failed; its counter rests", "counter", s.counter.RollUp, "event_id", l.eventID,
		"took", l.took, "error", err)
}

// longTimeout returns how long a look may take together with a long sum.
func (c *Coalescer) longTimeout() time.Duration {
	return max(c.options.LongTimeout, c.options.Timeout)
}

// waitLong has an alarm wait for a sum that is under way, after it has waited as long as an event
// may.
func (c *Coalescer) waitLong(ctx context.Context, s *counterState, g *generation) {
	c.mu.Lock()
	summing := s.long.summing
	c.mu.Unlock()
	if !summing {
		return
	}

	timer := time.NewTimer(c.longTimeout())
	defer timer.Stop()
	select {
	case <-g.done:
	case <-timer.C:
	case <-ctx.Done():
	}
}
