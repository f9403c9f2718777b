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
	own      time.Time // as_of of the last roll-up written here
	ownUntil time.Time // how long own is remembered, by the local clock

	seen time.Time // as_of of the roll-up that the last look saw
	draw float64   // what was drawn for it, in [0, 1)

	claim string // the last claim of this instance, by which it knows it again; empty: none

	unkept      time.Duration // how long the last pause took that ErrUnkept made; 0: the counter is kept
	unkeptUntil time.Time     // how long it lasts, by the local clock

	refused  bool  // the last write was, and no look came since
	failures int   // looks and writes that failed in a row
	failure  error // the last of them
}

// A generation is the events that wait for one snapshot. The first, the anchor, is not acknowledged
// until the generation is covered; it stands for the others, which are acknowledged on arrival.
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

// release ends the wait of every closed generation that a roll-up with this as_of covers. All of
// them know from when on they are covered.
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

// longestUnkept is the longest pause that an unkept counter makes. It costs a look, and a sum or a
// write that fails.
const longestUnkept = time.Minute

// unkeep ends the wait of every generation: the counter is done with their events, although no
// roll-up covers them. It pauses for a cadence, and for twice as long each time in a row.
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

// rememberedUntil is how long the counter is remembered when nothing of it is open or held: while
// its own roll-up gives precedence, and for as long again as it paused, so that the next pause is
// longer.
func (s *counterState) rememberedUntil() time.Time {
	paused := s.unkeptUntil.Add(s.unkept)
	return later(s.ownUntil, paused)
}

// waited is how long before a look the oldest generation was looked for first.
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
