package events

import (
	"context"
	"time"

	"github.com/firestore-tally/tally/rollup/internal/roll"
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

// canMakeAlarms reports whether alarms can be made for the counter.
func (c *Coalescer) canMakeAlarms(s *counterState, l *roll.Look) bool {
	return c.options.Alarms != nil && s.alarmless.over(l.ReadTime)
}

// makeAlarm makes the alarm that rings at a time. If it stands, the look's generations are deferred
// to it and end, and so do the alarms that wait, unless they stay.
func (c *Coalescer) makeAlarm(ctx context.Context, s *counterState, l *roll.Look, at time.Time, alarmsStay bool) error {
	err := c.createTwice(ctx, s, roll.AlarmOf(s.counter, at))
	if err != nil {
		return err
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	s.failures = 0
	ahead := at.Sub(l.ReadTime) - roll.LeastAhead
	s.knownAlarm = knownAlarm{at, l.Began.Add(min(ahead, knownFor))}

	deferred := func(g *generation) { g.deferred = true }
	s.closed = endCovered(s.closed, l.ReadTime, deferred) // those that closed before the look
	if !alarmsStay {
		s.alarms = endCovered(s.alarms, at.Add(-time.Microsecond), deferred) // those that are earlier
	}
	if s.open != nil && c.knowsAlarm(s, s.open.latestTime) { // what came since the look
		deferred(s.open)
		close(s.open.done)
		s.open = nil
	}
	return nil
}

// createTwice makes an alarm of the counter, and tries once more if that fails. If both tries fail,
// the counter does without alarms for a while.
func (c *Coalescer) createTwice(ctx context.Context, s *counterState, a roll.Alarm) error {
	err := c.roller.CreateAlarm(ctx, a)
	if err == nil {
		return nil
	}

	time.Sleep(secondTry)
	err = c.roller.CreateAlarm(ctx, a)
	if err == nil {
		return nil
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	s.alarmless.start(alarmlessFor, alarmlessFor, c.serverNow())
	return err
}

// knowsAlarm reports whether an alarm is known that stands for an event which comes now, and whose
// latest time is eventTime. That is no longer so once anything says that the alarm may have rung:
// this instance's clocks, a newer look at any counter, or the event itself. The mutex is held.
func (c *Coalescer) knowsAlarm(s *counterState, eventTime time.Time) bool {
	if s.knownAlarm.at.IsZero() {
		return false
	}

	local := time.Now()
	if s.knownAlarm.over(local, local.Round(0)) {
		return false
	}
	latest := roll.Later(c.newest, eventTime)
	return latest.Before(s.knownAlarm.at.Add(-roll.LeastAhead))
}
