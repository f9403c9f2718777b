package rollup

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/firestore-tally/tally/rollup/route"
)

// counterState is what one instance knows of a counter. It exists while the counter's prober runs,
// and then until rememberedUntil. The Coalescer's mutex guards it.
type counterState struct {
	counter route.Counter
	probing bool

	open   *generation   // absorbs events; nil when none does
	closed []*generation // wait to be covered, oldest first

	wake     time.Time // when the prober is to look next, by the local clock; zero: at once
	own      time.Time // as_of of the last roll-up that this instance wrote
	ownUntil time.Time // how long own is remembered, by the local clock

	seen time.Time // as_of of the roll-up that the last look saw
	draw float64   // a number in [0, 1), drawn anew for each roll-up seen; the back-off depends on it

	claim string // By of this instance's last claim; empty: it has made none

	unkept      time.Duration // how long the last pause was that followed ErrUnkept; 0: the counter is kept
	unkeptUntil time.Time     // when that pause ends, by the local clock

	contention contention // only the prober uses it

	refused  bool  // the last write was refused, and there was no look since
	failures int   // how many looks and writes have failed in a row
	failure  error // the last of them
}

// A generation is a group of events that wait for one snapshot. The first of them, the anchor, is
// not acknowledged until the generation is covered or the counter is unkept. It stands for the
// others, which are acknowledged on arrival.
type generation struct {
	anchor string          // event id
	weak   bool            // the anchor changes no total; see Concern.Unchanged
	commit time.Time       // of the anchor
	values context.Context // the anchor's context, which does not end here; the looks that the anchor waits for have its values
	latest time.Time       // the latest update time that its events' documents carry
	from   time.Time       // covered-from: read time of the first look begun after it closed; zero until then
	done   chan struct{}   // closed when the generation is covered, unkept or failed
	asOf   time.Time       // of the roll-up that covers it; valid after done
	unkept bool            // it ended because the counter is unkept; valid after done
	err    error           // valid after done
}

// release ends every closed generation that a roll-up with this as_of covers. Each closed
// generation must have its covered-from time.
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

// unkeep ends every generation. The counter is then done with their events, although no roll-up
// covers them. After that it pauses, for a cadence the first time, and twice as long each further
// time in a row.
func (s *counterState) unkeep(cadence time.Duration) {
	s.unkept = min(max(2*s.unkept, cadence), longestPause(cadence))
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

// rememberedUntil returns until when the counter is remembered after its prober has ended. That is
// as long as this instance goes first because of its own last roll-up. An unkept counter is
// remembered for as long again as its pause, so that the next pause can be longer.
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

// fail ends the generation g with err, unless it has ended already.
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
