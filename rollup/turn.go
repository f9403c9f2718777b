package rollup

import (
	"math"
	"slices"
	"time"

	"github.com/firestore-tally/tally/internal/document"
)

// turn returns how long after the look's answer it is this instance's turn to roll the counter up.
// If that is not positive, its turn is now. The instance that wrote the last roll-up goes first. So
// one of many instances writes again and again, and the others find its roll-up done.
// If most of its roll-ups follow alarms, the instance that an alarm reaches goes first.
func (c *Coalescer) turn(s *counterState, l *look) time.Duration {
	due := c.pace(s, l).due(l)
	turns := c.turns(l)
	switch {
	case len(turns) == 0:
		return due
	case len(turns) > 1 || l.rerouted():
		return c.turnAmong(s, l, turns, due)
	case l.asOf.Equal(s.own) && !c.followsAlarms(s, l):
		return due
	case due > 0:
		return due + c.backOff(s)
	default: // there is credit, which all instances see
		return c.backOff(s) - l.readTime.Sub(l.asOf)
	}
}

// turnAmong is turn while several revisions are at work, as after a change of routes. The revision
// whose last roll-up is the oldest goes first. Among its instances, the one that wrote that roll-up
// goes first. Each other revision has its turn after the revisions before it have had time for
// theirs.
//
// If a revision has no roll-up yet, the others do not know of it. So a quarter of its instances try
// before anybody else, and the rest a cadence later.
func (c *Coalescer) turnAmong(s *counterState, l *look, turns []document.Turn, due time.Duration) time.Duration {
	free := max(due, -l.readTime.Sub(l.asOf)) // when it could be rolled up, which all instances see alike

	ahead := slices.IndexFunc(turns, func(t document.Turn) bool { return t.Routes == l.counter.Template.Hash() })
	isNew := ahead < 0
	if isNew && (s.draw < 0.25 || s.waited(l) > c.step(l.counter.Template)) {
		return free
	}

	wait := free + c.step(l.counter.Template)/20
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

// turnsKept is for how many cadences a revision keeps its turn after its last roll-up.
const turnsKept = 10

// maxTurns is how many revisions may have turns besides the one that rolled up last. Within
// turnsKept cadences there are two or three. Each makes the others wait.
const maxTurns = 4

// turns returns the last roll-up by each of the revisions that are at work, the oldest first. A
// client that may write the document can make up turns. If there are more than there can be
// revisions, none of them counts.
func (r *roller) turns(l *look) []document.Turn {
	if l.asOf.IsZero() {
		return nil
	}

	tally := l.rollUp.Tally
	turns := slices.DeleteFunc(slices.Clone(tally.Turns), func(t document.Turn) bool {
		age := l.asOf.Sub(t.AsOf)
		return age < 0 || age > turnsKept*r.cadence(l)
	})
	if len(turns) > maxTurns {
		turns = nil
	}
	return append(turns, document.Turn{Routes: tally.Routes, AsOf: l.asOf})
}

// nextTurns returns the turns of the other revisions once the look's roll-up is written.
func (r *roller) nextTurns(l *look) []document.Turn {
	return slices.DeleteFunc(r.turns(l), func(t document.Turn) bool { return t.Routes == l.counter.Template.Hash() })
}

// backOff returns how much longer an instance waits than the writer of the last roll-up. It depends
// on the number in [0, 1) that the instance drew.
func (c *Coalescer) backOff(s *counterState) time.Duration {
	step := c.step(s.counter.Template)
	return step/10 + time.Duration(s.draw*float64(min(step/4, time.Second)))
}

// lateBackOff stands for backOff where the writer of the last roll-up often has no event when its
// turn comes. Few instances wait a short time, and most wait a long time. So the first is mostly
// alone, however many there are.
func (c *Coalescer) lateBackOff(s *counterState, draw float64) time.Duration {
	const steepness = 50 // few writes are refused with some 20 to 100 instances
	step := c.step(s.counter.Template)
	spread := min(step*3/4, 3*time.Second)
	late := math.Log1p(steepness*draw) / math.Log1p(steepness)
	return step/10 + time.Duration(late*float64(spread))
}
