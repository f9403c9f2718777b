package events

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/firestore-tally/tally/rollup/internal/note"
	"github.com/firestore-tally/tally/rollup/internal/roll"
	"github.com/firestore-tally/tally/rollup/route"
)

// counterState is what one instance knows of a counter. The Coalescer's mutex guards it. A counter
// is in one of these states, and only those named move it:
//
//	┌────────────────────────────────────────────────────────────┐
//	│ unknown                                                    │ ◀────────────────┐
//	└────────────────────────────────────────────────────────────┘                  │
//	                  │ an event (enter) or an alarm (holdAlarm)                    │
//	                  ▼                                                             │
//	┌────────────────────────────────────────────────────────────┐                  │
//	│ probed: the prober sleeps until its look, closes the open  │                  │
//	│ generation, looks, and may sum and write                   │                  │
//	└────────────────────────────────────────────────────────────┘                  │
//	     │ a look is due, and      ▲ an event that must be held, an alarm,          │
//	     ▼ nothing waits           │ or the end of a long sum (sumApart)            │
//	       (closeOpen)             │                                                │
//	┌────────────────────────────────────────────────────────────┐                  │
//	│ remembered: no prober runs                                 │ ─────────────────┘
//	└────────────────────────────────────────────────────────────┘  rememberedUntil is over (forget)
//
// A long sum is begun by the prober, which goes on meanwhile, or ends. Until the sum ends, the
// counter is not forgotten. Each of the following may be so in any state but the first,
// and ends by itself when its time is over:
//
//	alarm known    events are deferred at once     begun by makeAlarm, ended by markUnkept, too
//	alarmless      no alarm is made                begun by createTwice
//	own            this instance goes first        begun by recordRollUp
//	unkept         events are done at once         begun by markUnkept, ended by observe and recordRollUp, too
//	long           events are deferred             begun by noteLong or handleLongFailure, ended by observe, too
//	resting        no long sum begins              begun by handleLongFailure, ended by recordRollUp, too
type counterState struct {
	counter route.Counter
	step    time.Duration // the unit of pauses and back-offs: Roller.Step
	probing bool

	open   *generation   // absorbs events; nil when none does
	closed []*generation // wait to be covered, oldest first
	alarms []*generation // one for each alarm that rings; see Coalescer.HandleAlarm

	knownAlarm  knownAlarm // the alarm that stands for further events
	windowAlarm time.Time  // when the last alarm rings that this instance made because of a window

	unkept    pause // nothing is tried, because the counter is unkept
	alarmless pause // no alarm is made, because two could not be made
	handedOn  pause // until the alarm rings to which one was handed on, because the counter could not be rolled up
	long      long  // what is known of sums that take long, with the rest after one that failed

	own      time.Time // as_of of the last roll-up that this instance wrote
	ownUntil time.Time // how long own is remembered, by the local clock

	seen time.Time // as_of of the roll-up that the last look saw
	draw float64   // a number in [0, 1), drawn again for each roll-up seen; the back-off depends on it

	contention roll.Contention // used by whatever sums the counter, one at a time

	refused  bool  // the last write was refused, and there was no look since
	failures int   // how many looks and writes have failed in a row
	failure  error // the last of them
}

// A generation is a group of events that wait for one snapshot. One of them, the anchor, is not
// acknowledged until the generation is covered or deferred, or the counter is unkept. It stands for
// the others, which are acknowledged on arrival.
type generation struct {
	anchor       string          // event id
	weak         bool            // the anchor changes no total; see Concern.Unchanged
	commit       time.Time       // of the anchor
	values       context.Context // the anchor's context, which does not end here; the looks that the anchor waits for have its values
	latestUpdate time.Time       // the latest update time that its events' documents carry
	latestTime   time.Time       // the latest time of any kind that its events carry
	missing      int             // Alarm.Missing
	coveredFrom  time.Time       // covered-from: read time of the first look begun after it closed; zero until then; of an alarm its time
	done         chan struct{}   // closed when the generation is covered, deferred, unkept or failed
	asOf         time.Time       // of the roll-up that covers it; valid after done
	deferred     bool            // it ended because an alarm stands for it; valid after done
	unkept       bool            // it ended because the counter is unkept; valid after done
	err          error           // valid after done
}

// release ends every closed generation that a roll-up with this as_of covers, and every alarm whose
// time is not later than rung.
func (s *counterState) release(asOf, rung time.Time) {
	covered := func(g *generation) { g.asOf = asOf }
	s.closed = endCovered(s.closed, asOf, covered)
	s.alarms = endCovered(s.alarms, rung, covered)
}

// endCovered ends those of the generations that are covered from a time at or before the time
// given, and returns the others. While a sum runs apart from the prober, there may be some without
// a covered-from time, because their look is under way.
func endCovered(all []*generation, by time.Time, how func(*generation)) []*generation {
	return slices.DeleteFunc(all, func(g *generation) bool {
		if g.coveredFrom.IsZero() || g.coveredFrom.After(by) {
			return false
		}
		how(g)
		close(g.done)
		return true
	})
}

// markUnkept releases every generation, and every alarm due at the time of the newest look. The
// counter is then done with their events, although no roll-up covers them. After that it pauses,
// for a step the first time, and twice as long each further time in a row. server is an upper bound
// on the server's time.
func (s *counterState) markUnkept(now, server time.Time) {
	s.unkept.start(s.step, note.LongestUnkept, server)
	s.knownAlarm = knownAlarm{}

	if s.open != nil {
		s.closed = append(s.closed, s.open)
		s.open = nil
	}
	for _, g := range s.closed {
		g.unkept = true
		close(g.done)
	}
	s.closed = nil
	s.alarms = endCovered(s.alarms, now, func(g *generation) { g.unkept = true })
}

// fail ends the generation g with err, unless it has ended already.
func (s *counterState) fail(g *generation, err error) {
	closed, alarm := slices.Index(s.closed, g), slices.Index(s.alarms, g)
	switch {
	case s.open == g:
		s.open = nil
	case closed >= 0:
		s.closed = slices.Delete(s.closed, closed, closed+1)
	case alarm >= 0:
		s.alarms = slices.Delete(s.alarms, alarm, alarm+1)
	default:
		return
	}

	g.err = err
	close(g.done)
}

// uncovered is the error of an event whose context ended before a roll-up covered it.
func (s *counterState) uncovered(ctx context.Context) error {
	err := context.Cause(ctx)
	if s.failures > 0 {
		err = fmt.Errorf("%w; the last attempt: %w", err, s.failure)
	}
	return fmt.Errorf("rollup: no roll-up of %s covered the event in time: %w", s.counter.RollUp, err)
}

// A knownAlarm stands for all events that come early enough. The zero value knows of none.
type knownAlarm struct {
	at    time.Time // when it rings
	until time.Time // when this instance stops relying on it, by the local clock
}

// over reports whether this instance stops relying on the alarm, by its monotonic clock, which
// stands still while a machine is suspended, and by its wall clock.
func (k knownAlarm) over(monotonic, wall time.Time) bool {
	return !monotonic.Before(k.until) || !wall.Before(k.until.Round(0))
}

// A sum is long if it takes more than a quarter of the time for which an event can be held. Only
// alarms wait for such a sum (docs/design/events.md#long-sums). It runs apart from the prober,
// which goes on looking and deferring.
type long struct {
	until   time.Time // how long this instance remembers that a sum was cut off, by the local clock
	summing bool      // a sum is under way
	rest    pause     // nothing is summed, because a long sum has failed
}
