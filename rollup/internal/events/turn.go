package events

import (
	"math"
	"slices"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup/internal/roll"
)

// A plan says what an instance does about a counter after a look.
type plan struct {
	sums       bool          // it sums now
	wait       time.Duration // else how long after the look's answer it looks again
	deferTo    time.Time     // when the alarm rings to which whatever waits is deferred; zero: nothing is
	alarmsStay bool          // alarms that ring are not deferred with the events
}

// plan decides when the counter's turn is, by whom, and how this instance waits. The mutex is held.
func (c *Coalescer) plan(s *counterState, l *roll.Look) plan {
	l.Long = c.isLong(s, l)
	early := c.untilAlarm(s, l)
	switch {
	case early > 0:
		return plan{wait: early}
	case l.Long:
		return c.planLong(s, l)
	}

	at := c.deferTime(s, l)
	if !at.IsZero() {
		return plan{deferTo: at}
	}
	return c.planTurn(s, l)
}

// planTurn is plan if whatever waits is not deferred.
func (c *Coalescer) planTurn(s *counterState, l *roll.Look) plan {
	wait := c.turn(s, l)
	switch {
	case s.hasWaiting():
		return plan{sums: wait <= 0, wait: wait}
	case c.defersEvents(s, l): // the next event has this instance look at once; see waitAfter
		return plan{}
	default:
		return plan{wait: wait}
	}
}

// planLong is plan for a counter whose sums are long. Only alarms wait for such a sum, and events
// are deferred. An alarm that rings is deferred, too, if the counter is due much later or rests.
func (c *Coalescer) planLong(s *counterState, l *roll.Look) plan {
	if !c.canMakeAlarms(s, l) { // then events have to wait for the sum that is under way
		return plan{wait: roll.LongestCadence(c.options.Hold)}
	}

	due := c.pace(s, l).Due(l)
	switch {
	case !s.hasWaiting():
		return plan{}
	case !s.long.rest.over(l.ReadTime):
		return plan{deferTo: roundedAhead(l.ReadTime, max(s.long.rest.serverUntil.Sub(l.ReadTime), roll.LeastAhead), roundedTo)}
	case due > c.longestHold():
		return plan{deferTo: roll.WithinReach(l.Counter.RollUp, l.ReadTime, l.ReadTime.Add(due))}
	}

	var p plan
	if !s.long.summing && s.hasDueAlarm(l.ReadTime) {
		p = c.planTurn(s, l)
	}
	if len(s.closed) > 0 {
		grid := max(roundedTo, c.lastSumTook(l)/2) // so that the instances make few alarms while one sums
		p.deferTo, p.alarmsStay = roundedAhead(l.ReadTime, roll.LeastAhead, grid), true
	}
	return p
}

// deferTime returns when the alarm rings to which whatever waits for the look is deferred. It
// returns zero if the counter's turn comes while an event can be held.
func (c *Coalescer) deferTime(s *counterState, l *roll.Look) time.Time {
	if !c.defersEvents(s, l) || !s.hasWaiting() {
		return time.Time{}
	}

	due := c.pace(s, l).Due(l)
	switch {
	case due <= 0 || due <= c.longestHold()-s.waitTime(l):
		return time.Time{}
	case due < roll.LeastAhead: // rounded up, so that instances that look one after the other make one alarm
		return roundedAhead(l.ReadTime, roll.LeastAhead, roundedTo)
	default:
		return roll.WithinReach(l.Counter.RollUp, l.ReadTime, l.ReadTime.Add(due))
	}
}

// planClaimed is plan if another instance has claimed the sum, so long ago. The next look is when
// that sum should be done. If that has passed, it is at the end of the claim.
func (c *Coalescer) planClaimed(s *counterState, l *roll.Look, age time.Duration) plan {
	wait := c.lastSumTook(l) - age
	if wait <= 0 {
		wait = c.claimDuration(l) - age
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	s.failures = 0
	if l.Long { // whatever waits is deferred until then
		return plan{deferTo: roundedAhead(l.ReadTime, max(wait, roll.LeastAhead), roundedTo)}
	}
	return plan{wait: wait + c.backOff(s)}
}

// roundedAhead returns a time that is at least so far ahead, rounded up.
func roundedAhead(now time.Time, least, grid time.Duration) time.Time {
	return now.Add(least + grid).Truncate(grid)
}

// waitAfter returns how long after the look's answer this instance looks again, once it has written
// the look's roll-up.
func (c *Coalescer) waitAfter(s *counterState, l *roll.Look, p roll.Pace) time.Duration {
	switch {
	case c.defersEvents(s, l): // no event may be held until then, so the next event has this instance look at once
		return 0
	case len(c.roller.NextTurns(l)) > 0:
		return p.DueNext(l) + c.turnTakes(s)
	default:
		return p.DueNext(l)
	}
}

// pace returns the pace of what this instance rolls up for events. Where no alarm stands for them,
// the cadence is one through which they can be held.
func (c *Coalescer) pace(s *counterState, l *roll.Look) roll.Pace {
	if c.defersEvents(s, l) {
		return c.roller.LivePace(l)
	}
	return c.roller.HeldPace(l)
}

// defersEvents reports whether alarms stand for events that come early. They do if the counter's
// cadence is longer than events can be held, or if its sums are long.
func (c *Coalescer) defersEvents(s *counterState, l *roll.Look) bool {
	return c.canMakeAlarms(s, l) && (c.roller.Cadence(l) > roll.LongestCadence(c.options.Hold) || l.Long)
}

// longestHold returns for how long an event may be held until its counter is due.
func (c *Coalescer) longestHold() time.Duration { return 3 * roll.LongestCadence(c.options.Hold) }

// followsAlarms reports whether most roll-ups of the counter under load follow an alarm, because it
// is due later than events can be held, or because its sums are long.
func (c *Coalescer) followsAlarms(s *counterState, l *roll.Look) bool {
	return c.defersEvents(s, l) && (c.roller.Cadence(l) > c.longestHold() || l.Long)
}

// isLong reports whether the counter's next sum is likely to be long, and there are alarms that can
// wait for it. The mutex is held.
func (c *Coalescer) isLong(s *counterState, l *roll.Look) bool {
	if s.long.summing {
		return true
	}
	return c.canMakeAlarms(s, l) && (c.takesLong(l.RollUp.Tally.Took) || time.Now().Before(s.long.until))
}

// hasWaiting reports whether an event or an alarm waits for a roll-up. The mutex is held.
func (s *counterState) hasWaiting() bool { return len(s.closed)+len(s.alarms) > 0 }

// waitTime returns how long the oldest generation has waited since its first look.
func (s *counterState) waitTime(l *roll.Look) time.Duration {
	if len(s.closed) == 0 {
		return 0
	}
	return l.ReadTime.Sub(s.closed[0].coveredFrom)
}

// hasDueAlarm reports whether an alarm waits whose time has come. The mutex is held.
func (s *counterState) hasDueAlarm(now time.Time) bool {
	return slices.ContainsFunc(s.alarms, func(g *generation) bool { return !g.coveredFrom.After(now) })
}

// untilAlarm returns how long to wait if nothing waits but alarms that rang early. If that is long,
// it returns a step, because events may come meanwhile. The result is not positive if an alarm is
// due.
func (c *Coalescer) untilAlarm(s *counterState, l *roll.Look) time.Duration {
	if len(s.closed) > 0 || len(s.alarms) == 0 {
		return 0
	}

	first := slices.MinFunc(s.alarms, func(a, b *generation) int { return a.coveredFrom.Compare(b.coveredFrom) })
	return min(first.coveredFrom.Sub(l.ReadTime), s.step)
}

// turn returns how long after the look's answer it is this instance's turn to roll the counter up.
// If that is not positive, its turn is now. The instance that wrote the last roll-up goes first. So
// one of many instances writes again and again, and the others find its roll-up done.
// If most of its roll-ups follow alarms, the instance that an alarm reaches goes first.
func (c *Coalescer) turn(s *counterState, l *roll.Look) time.Duration {
	due := c.pace(s, l).Due(l)
	turns := c.roller.Turns(l)
	switch {
	case len(turns) == 0:
		return due
	case len(turns) > 1 || l.Rerouted():
		return c.turnAmong(s, l, turns, due)
	case l.AsOf.Equal(s.own) && !c.followsAlarms(s, l):
		return due
	case due > 0:
		return due + c.backOff(s)
	default: // there is credit, which all instances see
		return c.backOff(s) - l.ReadTime.Sub(l.AsOf)
	}
}

// turnAmong is turn while several revisions are at work, as after a change of routes. The revision
// whose last roll-up is the oldest goes first. Among its instances, the one that wrote that roll-up
// goes first. Each other revision has its turn after the revisions before it have had time for
// theirs.
//
// If a revision has no roll-up yet, the others do not know of it. So a quarter of its instances try
// before anybody else, and the rest a cadence later.
func (c *Coalescer) turnAmong(s *counterState, l *roll.Look, turns []document.Turn, due time.Duration) time.Duration {
	free := max(due, -l.ReadTime.Sub(l.AsOf)) // when it could be rolled up, which all instances see alike

	ahead := slices.IndexFunc(turns, func(t document.Turn) bool { return t.Routes == l.Counter.Template.Hash() })
	isNew := ahead < 0
	if isNew && (s.draw < 0.25 || s.waitTime(l) > s.step) {
		return free
	}

	wait := free + s.step/20
	if ahead > 0 && wait+c.turnTakes(s) > 0 {
		return wait + c.turnTakes(s) // then look again, to see who has had a turn
	}

	wait += time.Duration(max(ahead, 0)) * c.turnTakes(s)
	if isNew || !turns[ahead].AsOf.Equal(s.own) {
		wait += c.lateBackOff(s, s.draw)
	}
	return wait
}

// turnTakes returns how long the others wait for a revision to take its turn.
func (c *Coalescer) turnTakes(s *counterState) time.Duration { return c.lateBackOff(s, 1) }

// backOff returns how much longer an instance waits than the writer of the last roll-up. It depends
// on the number in [0, 1) that the instance drew.
func (c *Coalescer) backOff(s *counterState) time.Duration {
	step := s.step
	return step/10 + time.Duration(s.draw*float64(min(step/4, time.Second)))
}

// lateBackOff stands for backOff where the writer of the last roll-up often has no event when its
// turn comes. Few instances wait a short time, and most wait a long time. So the first is mostly
// alone, however many there are.
func (c *Coalescer) lateBackOff(s *counterState, draw float64) time.Duration {
	const steepness = 50 // few writes are refused with some 20 to 100 instances
	step := s.step
	spread := min(step*3/4, 3*time.Second)
	late := math.Log1p(steepness*draw) / math.Log1p(steepness)
	return step/10 + time.Duration(late*float64(spread))
}
