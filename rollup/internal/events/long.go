package events

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/firestore-tally/tally/rollup/internal/roll"
)

// A sum is long if it takes more than a quarter of the time for which an event can be held. Only
// alarms wait for such a sum (docs/design/events.md#long-sums). It runs apart from the prober,
// which goes on looking and deferring.
type long struct {
	until   time.Time // how long this instance remembers that a sum was cut off, by the local clock
	summing bool      // a sum is under way
	rest    pause     // nothing is summed, because a long sum has failed
}

const (
	// longKnownFor is how long an instance remembers that a sum was cut off. The roll-up does not
	// say so, because none was written.
	longKnownFor = 10 * time.Minute

	// An instance does not sum a counter for firstRest after a long sum has failed. That doubles
	// with each further failure in a row, up to longestRest. Such a sum may have read for as long as
	// Options.LongTimeout.
	firstRest   = time.Minute
	longestRest = 10 * time.Minute
)

// takesLong reports whether a sum that took so long is long.
func (c *Coalescer) takesLong(took time.Duration) bool { return took > c.options.Hold/4 }

// noteLong notes that the look's sum was cut off because it is long.
func (c *Coalescer) noteLong(s *counterState, l *roll.Look) {
	if c.options.Alarms == nil || !c.takesLong(l.Took) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.long.until = time.Now().Add(longKnownFor)
}

// sumApart sums and writes what the look has seen, while the prober goes on. The prober sums
// nothing until that has ended.
func (c *Coalescer) sumApart(ctx context.Context, s *counterState, l roll.Look) {
	c.roller.TellOnce(ctx, slog.LevelInfo, "sums take long; events are deferred", l.Counter, l.EventID, nil,
		"took", l.RollUp.Tally.Took, "num_shards", l.RollUp.Tally.NumShards)
	c.mu.Lock()
	s.long.summing = true
	c.mu.Unlock()

	go func() {
		_, err := c.sumAndWrite(ctx, s, &l, c.longTimeout())
		if err != nil {
			c.failedLong(ctx, s, &l, err)
		}

		c.mu.Lock()
		defer c.mu.Unlock()
		s.long.summing = false
		c.startProbing(s)
	}()
}

// failedLong has the counter rest after a long sum that failed. What waits is deferred to the end
// of the rest.
func (c *Coalescer) failedLong(ctx context.Context, s *counterState, l *roll.Look, err error) {
	switch {
	case errors.Is(err, roll.ErrUnkept):
		c.unkeep(ctx, s, l.EventID, err)
		return
	case errors.Is(err, roll.ErrConflict):
		c.options.Logger.DebugContext(ctx, "roll-up failed; looking again", "counter", s.counter.RollUp, "event_id", l.EventID, "error", err)
		return
	}

	c.mu.Lock()
	s.long.rest.begin(firstRest, longestRest, c.now())
	s.long.until = s.long.rest.until.Add(longKnownFor)
	c.mu.Unlock()
	c.options.Logger.Log(ctx, slog.LevelWarn, "long sum failed; its counter rests", "counter", s.counter.RollUp, "event_id", l.EventID,
		"took", l.Took, "error", err)
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
