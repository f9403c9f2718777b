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

const (
	// lastAfter is how much later an alarm rings again that other routes have got. By then a
	// deployment is over.
	lastAfter = 10 * time.Minute

	// knownFor is for how long an instance relies on an alarm without a look. The clock of a machine
	// that was suspended stands still, so an instance may not know that the alarm has rung.
	knownFor = time.Minute

	// secondTry is how much later an alarm that could not be made is tried again. A queue that
	// refuses for a moment would refuse a call that follows at once.
	secondTry = time.Second

	// alarmlessFor is for how long a counter does without alarms after two could not be made.
	alarmlessFor = time.Minute

	// roundedTo is to what the times of alarms are rounded that do not follow from the roll-up.
	roundedTo = time.Second

	// An alarm whose roll-up failed is handed on to one that rings firstHandOn later. That doubles
	// with each further failure in a row, up to longestHandOn.
	firstHandOn   = 10 * time.Second
	longestHandOn = 10 * time.Minute
)

// A known alarm stands for all events that come early enough. The zero value knows of none.
type known struct {
	at    time.Time // when it rings
	until time.Time // when this instance stops relying on it, by the local clock
}

// over reports whether this instance stops relying on the alarm, by its monotonic clock, which
// stands still while a machine is suspended, and by its wall clock.
func (k known) over(monotonic, wall time.Time) bool {
	return !monotonic.Before(k.until) || !wall.Before(k.until.Round(0))
}

// canMakeAlarms reports whether alarms can be made for the counter.
func (c *Coalescer) canMakeAlarms(s *counterState, l *roll.Look) bool {
	return c.options.Alarms != nil && s.alarmless.over(l.ReadTime)
}

// makeAlarm makes the alarm to which the plan defers the look's generations, and the alarms that
// wait. They end if it stands.
func (c *Coalescer) makeAlarm(ctx context.Context, s *counterState, l *roll.Look, p plan) error {
	err := c.tryTwice(s, func() error {
		return c.roller.CreateAlarm(ctx, roll.Alarm{RollUp: s.counter.RollUp, Routes: s.counter.Template.Hash(), At: p.deferTo})
	})
	if err != nil {
		return err
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	s.failures = 0
	ahead := p.deferTo.Sub(l.ReadTime) - roll.LeastAhead
	s.known = known{p.deferTo, l.Began.Add(min(ahead, knownFor))}

	deferred := func(g *generation) { g.deferred = true }
	s.closed = end(s.closed, l.ReadTime, deferred) // those that closed before the look
	if !p.alarmsStay {
		s.alarms = end(s.alarms, p.deferTo.Add(-time.Microsecond), deferred) // those that are earlier
	}
	if s.open != nil && c.knowsAlarm(s, s.open.told) { // what came since the look
		deferred(s.open)
		close(s.open.done)
		s.open = nil
	}
	return nil
}

// tryTwice makes an alarm of the counter, and tries once more if that fails. If both tries fail,
// the counter does without alarms for a while.
func (c *Coalescer) tryTwice(s *counterState, create func() error) error {
	err := create()
	if err == nil {
		return nil
	}

	time.Sleep(secondTry)
	err = create()
	if err == nil {
		return nil
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	s.alarmless.begin(alarmlessFor, alarmlessFor, c.now())
	return err
}

// knowsAlarm reports whether an alarm is known that stands for an event which comes now, and
// carries the time told. That is no longer so once anything says that the alarm may have rung: this
// instance's clocks, a newer look at any counter, or the event itself. The mutex is held.
func (c *Coalescer) knowsAlarm(s *counterState, told time.Time) bool {
	if s.known.at.IsZero() {
		return false
	}

	local := time.Now()
	if s.known.over(local, local.Round(0)) {
		return false
	}
	latest := roll.Later(c.newest, told)
	return latest.Before(s.known.at.Add(-roll.LeastAhead))
}

// now returns an upper bound on the server's time. Before the first look it is not
// known, and now returns zero. The mutex is held.
func (c *Coalescer) now() time.Time {
	if c.newest.IsZero() {
		return time.Time{}
	}
	return c.newest.Add(time.Since(c.sent))
}

// Rings takes an alarm that rings, and the routes of this instance. It returns nil if the alarm is
// done. An alarm is done
//
//   - when its counter has a roll-up that is as of the alarm's time or later;
//   - when a look at that time or later found the app's own document missing, or its counter turned
//     out to be unkept;
//   - when a later alarm of the counter stands for it.
//
// Rings returns an error only if it could not even make a later alarm. Then the alarm must ring
// again.
//
// An alarm that other routes have made counts as a change by the routes of this instance. It also
// rings once more, because the instances of those routes may be at work in a while.
func (c *Coalescer) Rings(ctx context.Context, a roll.Alarm, routes route.Routes) (Ending, error) {
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
		ending, err = c.ring(ctx, a, counter)
		if err != nil && c.options.Alarms != nil {
			return c.handOn(ctx, a, counter, err)
		}
		if err != nil {
			return ending, err
		}
	}

	if again && c.options.Alarms == nil {
		return ending, c.ringsAgain(a)
	}
	return ending, nil
}

// ringsAgain returns an error as long as instances of other routes may be at work that wait for the
// alarm. An instance that makes no alarms has only that way to have it ring once more. If it has
// looked at nothing yet, it goes by the local clock.
func (c *Coalescer) ringsAgain(a roll.Alarm) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if now.IsZero() {
		now = time.Now()
	}
	if now.Before(a.At.Add(lastAfter)) {
		return fmt.Errorf("rollup: the alarm of %s is of other routes, and there is no queue that could make it ring again", a.RollUp)
	}
	return nil
}

// ring has an alarm wait for its roll-up.
func (c *Coalescer) ring(ctx context.Context, a roll.Alarm, counter route.Counter) (Ending, error) {
	c.mu.Lock()
	s := c.state(counter)
	if !s.unkept.over(a.At) && !c.now().Before(a.At) {
		c.mu.Unlock()
		return Ending{Unkept: true}, nil
	}

	g := &generation{
		anchor:  "alarm of " + a.At.Format(time.RFC3339Nano),
		values:  context.WithoutCancel(ctx),
		from:    a.At,
		missing: a.Missing,
		done:    make(chan struct{}),
	}
	s.alarms = append(s.alarms, g)
	c.startProbing(s)
	c.mu.Unlock()

	held, cancel := c.holding(ctx)
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
	s.handedOn.begin(firstHandOn, longestHandOn, c.now())
	if !s.probing {
		c.forget(s)
	}
	at := roll.Later(c.now(), a.At).Truncate(roundedTo).Add(roundedTo + s.handedOn.step)
	c.mu.Unlock()

	level := slog.LevelWarn
	if errors.Is(failure, roll.ErrNotMade) {
		level = slog.LevelDebug // the prober has logged it
	}
	c.options.Logger.Log(ctx, level, "alarm handed on; its counter was not rolled up", "counter", a.RollUp, "at", at, "error", failure)
	err := c.roller.CreateAlarm(context.WithoutCancel(ctx), roll.Alarm{RollUp: a.RollUp, Routes: counter.Template.Hash(), At: at})
	if err != nil {
		return Ending{Held: true}, err
	}
	return Ending{Held: true, Deferred: true}, nil
}
