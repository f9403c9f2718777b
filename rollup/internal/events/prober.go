package events

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/firestore-tally/tally/rollup/internal/roll"
	"github.com/firestore-tally/tally/rollup/route"
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
		oldest := c.close(s)
		if oldest == nil {
			return
		}

		next, err := c.rollUp(oldest.values, s, oldest.anchor)
		if err != nil {
			next = c.failed(oldest.values, s, oldest.anchor, err)
		}
		time.Sleep(time.Until(next))
	}
}

// close closes the open generation, and returns the generation that has waited longest, or an alarm
// if no event waits. It returns nil if none of either is left. Then the prober ends. After a
// failure it leaves the open generation open: docs/design/rules.md#anchor-held.
func (c *Coalescer) close(s *counterState) (oldest *generation) {
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

// forget has a counter without a prober dropped, as soon as it need not be remembered any more.
func (c *Coalescer) forget(s *counterState) {
	time.AfterFunc(time.Until(s.rememberedUntil()), func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !s.probing && !s.long.summing && c.counters[s.counter.RollUp] == s && !time.Now().Before(s.rememberedUntil()) {
			delete(c.counters, s.counter.RollUp)
		}
	})
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

	if p.sums && (l.Long || c.slow(&l)) {
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
		return next, c.makeAlarm(ctx, s, &l, p)
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
	c.chain(ctx, s, l)

	c.mu.Lock()
	p := c.pace(s, l)
	c.mu.Unlock()
	err = c.roller.Write(ctx, l, p, &s.contention)
	if err != nil {
		return 0, err
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	c.covered(s, l)
	return c.waitAfter(s, l, p), nil
}

// covered releases what this instance's roll-up covers, and remembers that it wrote the roll-up.
// The mutex is held.
func (c *Coalescer) covered(s *counterState, l *roll.Look) {
	s.failures, s.unkept, s.handedOn, s.long.rest = 0, pause{}, pause{}, pause{}
	s.release(l.ReadTime, rungWhenWritten(l))
	s.own = l.ReadTime

	own := min(c.roller.Cadence(l), max(c.roller.Step(s.counter.Template), c.canBeHeld()))
	s.ownUntil = l.Received.Add(own)
	if len(c.roller.NextTurns(l)) > 0 {
		s.ownUntil = l.Received.Add(roll.TurnsKept * own)
	}
}

// errEarly says that a snapshot is from before the commit of a change whose event has come:
// docs/design/rules.md#belt.
var errEarly = errors.New("rollup: Firestore answered with a snapshot from before the change")

// observe is called when a look has read the roll-up document:
//
//   - it sets the covered-from time of each generation that closed before the look began, unless it
//     is set;
//   - it releases the generations that the roll-up covers;
//   - it returns what to do next.
func (c *Coalescer) observe(s *counterState, l *roll.Look) (plan, error) {
	c.mu.Lock()
	defer c.mu.Unlock()

	if l.ReadTime.After(c.newest) {
		c.newest, c.sent = l.ReadTime, l.Began
	}

	for _, g := range s.closed {
		if g.latest.After(l.ReadTime) {
			return plan{}, fmt.Errorf("%w: it is of %v, the change of %v", errEarly, l.ReadTime, g.latest)
		}
	}
	for _, g := range s.closed {
		if g.from.IsZero() {
			g.from = l.ReadTime
		}
	}

	s.release(l.Covers(), rung(l))

	if l.Missing() { // this covers and paces like a roll-up: deleting a post deletes its likes, too
		s.release(l.ReadTime, l.ReadTime)
		s.failures, s.unkept, s.refused = 0, pause{}, false
		return plan{wait: c.roller.Step(s.counter.Template)}, nil
	}

	if !l.AsOf.Equal(s.seen) {
		s.seen, s.draw, s.failures, s.unkept = l.AsOf, c.options.Random(), 0, pause{}
		s.long.until = time.Time{} // the roll-up says how long its sum took
	} else if s.refused { // the roll-up is still the same, so the write was refused because of a write of the app's
		s.refused = false
		return plan{wait: c.roller.PauseAfter(s.failures, c.roller.Step(s.counter.Template))}, nil
	}
	s.refused = false

	p := c.plan(s, l)
	if !p.sums && p.deferTo.IsZero() {
		s.failures = 0
	}
	return p, nil
}

// failed is called after a failure, and returns when to look next. The call that failed may have
// taken effect all the same.
func (c *Coalescer) failed(ctx context.Context, s *counterState, oldest string, err error) (next time.Time) {
	if errors.Is(err, roll.ErrUnkept) {
		c.unkeep(ctx, s, oldest, err)
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
	return time.Now().Add(c.roller.PauseAfter(s.failures-1, c.roller.Step(s.counter.Template))) // no pause follows the first failure: most often the next try succeeds
}

// unkeep tells and notes that the counter is unkept, and has it pause.
func (c *Coalescer) unkeep(ctx context.Context, s *counterState, oldest string, err error) {
	c.roller.TellUnkept(ctx, s.counter, oldest, err)
	c.noteUnkept(ctx, s.counter, oldest)

	c.mu.Lock()
	defer c.mu.Unlock()
	s.failures, s.refused = 0, false
	s.unkeep(c.roller.Step(s.counter.Template), c.newest, c.now())
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
