package rollup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// probe looks at the counter's roll-up whenever that is due. It ends when a look is due and no
// event waits for it. It works for all events of the counter, and outlives their requests.
func (c *Coalescer) probe(s *counterState) {
	for {
		time.Sleep(time.Until(s.wake)) // only the prober sets it

		oldest := c.close(s)
		if oldest == nil {
			return
		}

		err := c.rollUp(oldest.values, s, oldest.anchor)
		if err != nil {
			c.failed(oldest.values, s, oldest.anchor, err)
		}
	}
}

// close closes the open generation, and returns the generation that has waited longest, or an alarm
// if no event waits. It returns nil if none of either is left. Then the prober ends. After a
// failure it leaves the open generation open, so that this goes on absorbing events, and only the
// closed ones are tried again. So few events are held, however long the failures last.
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
// rolls the counter up.
func (c *Coalescer) rollUp(ctx context.Context, s *counterState, oldest string) error {
	looking, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()

	l, err := c.look(looking, s.counter, oldest)
	if err != nil {
		return err
	}

	if l.missing() {
		c.awaitDocument(looking, s, &l)
	}
	wanted, err := c.observe(s, &l)
	if err != nil {
		return err
	}

	if wanted && (l.long || c.slow(&l)) {
		wanted = c.claim(looking, s, &l)
	}
	if wanted && l.long {
		c.sumApart(ctx, s, l)
		wanted = false
	}
	if !l.deferTo.IsZero() {
		return c.makeAlarm(ctx, s, &l)
	}
	if !wanted {
		return nil
	}

	err = c.sum(looking, &l)
	if err != nil {
		c.noteLong(s, &l)
		return err
	}

	c.chain(ctx, s, &l)
	p := c.pace(s, &l)
	if err := c.write(ctx, &l, p, &s.contention); err != nil {
		return err
	}
	c.wrote(s, &l, p)
	return nil
}

// wrote is called when this instance has written a roll-up. It releases the generations that the
// roll-up covers, and plans the next look.
func (c *Coalescer) wrote(s *counterState, l *look, p pace) {
	c.mu.Lock()
	defer c.mu.Unlock()

	c.covered(s, l)
	s.failures = 0
	s.wake = l.received.Add(p.dueNext(l))
	if len(c.nextTurns(l)) > 0 {
		s.wake = s.wake.Add(c.turnTakes(s))
	}
	if c.defers(s, l) { // no event may be held until then, so the next event has this instance look at once
		s.wake = l.received
	}
}

// covered releases what this instance's roll-up covers, and remembers that it wrote the roll-up.
// The mutex is held.
func (c *Coalescer) covered(s *counterState, l *look) {
	s.unkept, s.handedOn = 0, 0
	s.release(l.readTime, l.rungWhenWritten())
	s.own = l.readTime

	own := min(c.cadence(l), max(c.step(s.counter.Template), c.canBeHeld()))
	s.ownUntil = l.received.Add(own)
	if len(c.nextTurns(l)) > 0 {
		s.ownUntil = l.received.Add(turnsKept * own)
	}
}

// errEarly says that a snapshot is from before the commit of a change whose event has come. Such a
// snapshot covers nothing.
var errEarly = errors.New("rollup: Firestore answered with a snapshot from before the change")

// observe is called when a look has read the roll-up document:
//
//   - it sets the covered-from time of each generation that closed before the look began, unless it
//     is set;
//   - it releases the generations that the roll-up covers;
//   - it plans the next look, or decides to which alarm those that are left are deferred.
//
// It reports whether to sum now.
func (c *Coalescer) observe(s *counterState, l *look) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()

	if l.readTime.After(c.newest) {
		c.newest, c.sent = l.readTime, l.began
	}

	for _, g := range s.closed {
		if g.latest.After(l.readTime) {
			return false, fmt.Errorf("%w: it is of %v, the change of %v", errEarly, l.readTime, g.latest)
		}
	}
	for _, g := range s.closed {
		if g.from.IsZero() {
			g.from = l.readTime
		}
	}

	s.release(l.covers(), l.rung())

	if l.missing() { // this covers and paces like a roll-up: deleting a post deletes its likes, too
		s.release(l.readTime, l.readTime)
		s.failures, s.unkept, s.refused = 0, 0, false
		s.wake = l.received.Add(c.step(s.counter.Template))
		return false, nil
	}

	if !l.asOf.Equal(s.seen) {
		s.seen, s.draw, s.failures, s.unkept = l.asOf, c.options.Random(), 0, 0
		s.long.until = time.Time{} // the roll-up says how long its sum took
	} else if s.refused { // the roll-up is still the same, so the write was refused because of a write of the app's
		s.refused = false
		s.wake = l.received.Add(c.pause(s.failures, s.counter.Template))
		return false, nil
	}
	s.refused = false

	l.long = c.isLong(s, l)
	if early := c.untilAlarm(s, l); early > 0 {
		s.failures = 0
		s.wake = l.received.Add(early)
		return false, nil
	}

	l.deferTo = c.deferTo(s, l)
	switch {
	case !l.deferTo.IsZero() && !l.alarmsStay:
		s.wake = l.received
		return false, nil
	case l.long && s.long.summing && l.deferTo.IsZero(): // events wait for the sum only if no alarm can be made
		s.wake = l.received.Add(LongestCadence(c.options.Hold))
		return false, nil
	case l.long && (s.long.summing || !s.ringing(l.readTime)):
		s.wake = l.received
		return false, nil
	}

	wait := c.turn(s, l)
	if !s.waits() && c.defers(s, l) { // the next event has this instance look at once; see wrote
		wait = 0
	}
	s.wake = l.received.Add(wait)
	if wait > 0 || !s.waits() {
		s.failures = 0
		return false, nil
	}
	return true, nil
}

// failed plans another look at the counter after a failure. The call that failed may have taken
// effect all the same.
func (c *Coalescer) failed(ctx context.Context, s *counterState, oldest string, err error) {
	if errors.Is(err, ErrUnkept) {
		c.tellUnkept(ctx, s.counter, oldest, err)
		c.noteUnkept(ctx, s.counter, oldest)

		c.mu.Lock()
		defer c.mu.Unlock()
		s.failures, s.refused = 0, false
		s.unkeep(c.step(s.counter.Template), c.newest, c.now())
		return
	}

	again := errors.Is(err, errNotMade) && !c.options.Logged.First("not made", s.counter.RollUp) // a queue may refuse for hours

	level := slog.LevelWarn
	switch {
	case errors.Is(err, ErrConflict): // another instance was faster, which happens in every cadence
		level = slog.LevelDebug
	case again:
		level = slog.LevelDebug
	case errors.Is(err, errEarly):
		level = slog.LevelError
	}
	c.options.Logger.Log(ctx, level, "roll-up failed; looking again", "counter", s.counter.RollUp, "event_id", oldest, "error", err)

	c.mu.Lock()
	defer c.mu.Unlock()
	s.failures++
	s.failure = err
	s.refused = errors.Is(err, ErrConflict)

	s.wake = time.Now()
	if !s.refused {
		s.wake = s.wake.Add(c.pause(s.failures-1, s.counter.Template)) // no pause follows the first failure: most often the next try succeeds
	}
}
