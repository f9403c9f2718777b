package rollup

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// counterState is what one instance knows of a counter while its prober runs, and for a cadence
// after its last roll-up here. The Coalescer's mutex guards it.
type counterState struct {
	counter Counter
	probing bool

	open   *generation   // absorbs events; nil when none does
	closed []*generation // wait to be covered, oldest first

	wake     time.Time // when the prober is to look next, by the local clock; zero: at once
	own      time.Time // as_of of the last roll-up that this instance wrote
	ownUntil time.Time // how long own is remembered, by the local clock

	seen time.Time // as_of of the roll-up that the last look saw
	draw float64   // a number in [0, 1) that was drawn for that roll-up; the back-off goes by it

	claim string // the text By of this instance's last claim; empty: it has made none

	unkept      time.Duration // how long the last pause took that ErrUnkept made; 0: the counter is kept
	unkeptUntil time.Time     // how long it lasts, by the local clock

	refused  bool  // the last write was refused, and no look came since
	failures int   // looks and writes that failed in a row
	failure  error // the last of them
}

// A generation is a group of events that wait for one snapshot. The first of them, the anchor, is
// not acknowledged until the generation is covered. It stands for the others, which are
// acknowledged on arrival.
type generation struct {
	anchor string          // event id
	weak   bool            // the anchor changes no total; see Event.Unchanged
	commit time.Time       // of the anchor
	values context.Context // the anchor's context without its end, for the looks that the anchor waits for
	latest time.Time       // the latest update time that its events' documents carry
	from   time.Time       // covered-from: read time of the first look begun after it closed; zero until then
	done   chan struct{}   // closed when covered or failed
	asOf   time.Time       // of the roll-up that covers it; valid after done
	unkept bool            // waiting cannot mend what kept it from being rolled up; valid after done
	err    error           // valid after done
}

// release ends the wait of every closed generation that a roll-up with this as_of covers. Each of
// the closed generations must have its covered-from time.
func (s *counterState) release(asOf time.Time) {
	s.closed = slices.DeleteFunc(s.closed, func(g *generation) bool {
		if g.from.After(asOf) {
			return false
		}
		g.asOf = asOf
		close(g.done)
		return true
	})
}

// longestUnkept is the longest pause between two tries of an unkept counter. A try costs a look,
// and a sum or a write that fails.
const longestUnkept = time.Minute

// unkeep ends the wait of every generation: the counter is done with their events, although no
// roll-up covers them. Then the counter pauses, for a cadence the first time, and twice as long
// each further time in a row.
func (s *counterState) unkeep(cadence time.Duration) {
	s.unkept = min(max(2*s.unkept, cadence), max(longestUnkept, cadence))
	s.unkeptUntil = time.Now().Add(s.unkept)

	if s.open != nil {
		s.closed = append(s.closed, s.open)
		s.open = nil
	}
	for _, g := range s.closed {
		g.unkept = true
		close(g.done)
	}
	s.closed = nil
}

// rememberedUntil is how long the counter is remembered when nothing of it is open or held: as long
// as its own roll-up lets this instance go first, and after a pause for the length of the pause
// once more, so that the next pause is longer.
func (s *counterState) rememberedUntil() time.Time {
	paused := s.unkeptUntil.Add(s.unkept)
	return later(s.ownUntil, paused)
}

// waited returns how long the oldest generation has waited since its first look.
func (s *counterState) waited(l *look) time.Duration {
	if len(s.closed) == 0 {
		return 0
	}
	return l.readTime.Sub(s.closed[0].from)
}

// fail ends g with err, unless it has ended already.
func (s *counterState) fail(g *generation, err error) {
	i := slices.Index(s.closed, g)
	switch {
	case s.open == g:
		s.open = nil
	case i >= 0:
		s.closed = slices.Delete(s.closed, i, i+1)
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
