package events

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/firestore-tally/tally/rollup/internal/roll"
	"github.com/firestore-tally/tally/rollup/route"
)

// handleFailure is called after a failure, and returns when to look next. The call that failed may
// have taken effect all the same.
func (c *Coalescer) handleFailure(ctx context.Context, s *counterState, oldest string, err error) (next time.Time) {
	if errors.Is(err, roll.ErrUnkept) {
		c.markUnkept(ctx, s, oldest, err)
		return time.Now()
	}

	level := slog.LevelWarn
	switch {
	case errors.Is(err, roll.ErrConflict): // another instance was faster, which happens in every cadence
		level = slog.LevelDebug
	case errors.Is(err, errEarly):
		level = slog.LevelError
	default: // Firestore or a queue may refuse for hours; an event that fails says why, too
		first := c.options.Logged.First("failed", s.counter.RollUp, err)
		if !first {
			level = slog.LevelDebug
		}
	}
	c.options.Logger.Log(ctx, level, "roll-up failed; looking again", "counter", s.counter.RollUp, "event_id", oldest, "error", err)

	c.mu.Lock()
	defer c.mu.Unlock()
	s.failures++
	s.failure = err
	s.refused = errors.Is(err, roll.ErrConflict)

	if s.refused {
		return time.Now()
	}
	return time.Now().Add(c.roller.PauseAfter(s.failures-1, s.step)) // no pause follows the first failure: most often the next try succeeds
}

// markUnkept tells and notes that the counter is unkept, and has it pause.
func (c *Coalescer) markUnkept(ctx context.Context, s *counterState, oldest string, err error) {
	c.roller.LogUnkept(ctx, s.counter, oldest, err)
	c.noteUnkept(ctx, s.counter, oldest)

	c.mu.Lock()
	defer c.mu.Unlock()
	s.failures, s.refused = 0, false
	s.markUnkept(c.newest, c.serverNow())
}

// noteUnkept notes for audits that the counter is unkept, before its events are acknowledged. So
// each call of the schedule tries the counter, and none calls the difference drift that the events
// leave behind. The cycle would find it, too, so an error is only logged. Each try of an unkept
// counter notes it; after some pauses that is once a minute.
func (c *Coalescer) noteUnkept(ctx context.Context, counter route.Counter, eventID string) {
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()

	err := c.notes.Unkept(ctx, counter)
	if err != nil {
		c.options.Logger.WarnContext(ctx, "an unkept counter was not noted; an audit may call it drift", "counter", counter.RollUp, "event_id", eventID, "error", err)
	}
}
