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

// HandleAlarm takes an alarm that rings, and the routes of this instance. It returns nil if the
// alarm is done. An alarm is done
//
//   - when its counter has a roll-up that is as of the alarm's time or later;
//   - when a look at that time or later found the app's own document missing, or its counter turned
//     out to be unkept;
//   - when a later alarm of the counter stands for it.
//
// HandleAlarm returns an error only if it could not even make a later alarm. Then the alarm must
// ring again.
//
// An alarm that other routes have made counts as a change by the routes of this instance. It also
// rings once more, because the instances of those routes may be at work in a while.
func (c *Coalescer) HandleAlarm(ctx context.Context, a roll.Alarm, routes route.Routes) (Ending, error) {
	counter, ok := routes.Counter(a.RollUp)

	again := !a.Last && (!ok || counter.Template.Hash() != a.Routes)
	if again && c.options.Alarms != nil {
		err := c.roller.CreateAlarm(ctx, roll.Alarm{RollUp: a.RollUp, Routes: a.Routes, At: a.At.Add(lastAfter), Last: true})
		if err != nil {
			return Ending{}, err
		}
	}

	var ending Ending
	if ok {
		var err error
		ending, err = c.holdAlarm(ctx, a, counter)
		if err != nil && c.options.Alarms != nil {
			return c.handOn(ctx, a, counter, err)
		}
		if err != nil {
			return ending, err
		}
	}

	if again && c.options.Alarms == nil {
		return ending, c.ringAgain(a)
	}
	return ending, nil
}

// ringAgain returns an error as long as instances of other routes may be at work that wait for the
// alarm. An instance that makes no alarms has only that way to have it ring once more. If it has
// looked at nothing yet, it goes by the local clock.
func (c *Coalescer) ringAgain(a roll.Alarm) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.serverNow()
	if now.IsZero() {
		now = time.Now()
	}
	if now.Before(a.At.Add(lastAfter)) {
		return fmt.Errorf("rollup: the alarm of %s is of other routes, and there is no queue that could make it ring again", a.RollUp)
	}
	return nil
}

// holdAlarm has an alarm wait for its roll-up.
func (c *Coalescer) holdAlarm(ctx context.Context, a roll.Alarm, counter route.Counter) (Ending, error) {
	c.mu.Lock()
	s := c.state(counter)
	if !s.unkept.over(a.At) && !c.serverNow().Before(a.At) {
		c.mu.Unlock()
		return Ending{Unkept: true}, nil
	}

	g := &generation{
		anchor:      "alarm of " + a.At.Format(time.RFC3339Nano),
		values:      context.WithoutCancel(ctx),
		coveredFrom: a.At,
		missing:     a.Missing,
		done:        make(chan struct{}),
	}
	s.alarms = append(s.alarms, g)
	c.startProbing(s)
	c.mu.Unlock()

	held, cancel := c.withHoldLimit(ctx)
	defer cancel()
	select {
	case <-g.done:
	case <-held.Done():
		c.waitLong(ctx, s, g)
	}
	return c.wait(held, []entry{{s, g}}, Ending{})
}

// handOn makes a later alarm for one whose counter could not be rolled up. A queue slows down if
// alarms fail, and then all counters are late.
func (c *Coalescer) handOn(ctx context.Context, a roll.Alarm, counter route.Counter, failure error) (Ending, error) {
	c.mu.Lock()
	s := c.state(counter)
	s.handedOn.start(firstHandOn, longestHandOn, c.serverNow())
	if !s.probing {
		c.forget(s)
	}
	at := roll.Later(c.serverNow(), a.At).Truncate(roundedTo).Add(roundedTo + s.handedOn.step)
	c.mu.Unlock()

	level := slog.LevelWarn
	if errors.Is(failure, roll.ErrNotMade) {
		level = slog.LevelDebug // the prober has logged it
	}
	c.options.Logger.Log(ctx, level, "alarm handed on; its counter was not rolled up", "counter", a.RollUp, "at", at, "error", failure)
	err := c.roller.CreateAlarm(context.WithoutCancel(ctx), roll.AlarmOf(counter, at))
	if err != nil {
		return Ending{Held: true}, err
	}
	return Ending{Held: true, Deferred: true}, nil
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
