package rollup_test

import (
	"fmt"
	"time"

	"github.com/firestore-tally/tally/rollup"
)

// slowCadence is what the routes say in runs whose counters the schedule keeps.
const slowCadence = 30 * time.Second

// ticks is how often the schedule comes in such a run, beside once when all is quiet.
const ticks = 20

// schedule calls again and again, each time an instance of its own. Calls overlap, or leave gaps.
func (s *simulation) schedule() {
	for n := range ticks {
		name := fmt.Sprint("tick ", n+1)
		time.Sleep(slowCadence + s.chanceOf(s.weather.slow, name+" late", time.Millisecond, time.Minute) + jitter(name))
		s.actors.Go(func() {
			i := s.newHelper(name)
			_, _ = i.keep(time.Now().Add(slowCadence + s.chanceOf(0.5, name+" overlaps by", time.Second, time.Minute))) // may fail or crash
		})
	}
}

// keep works on all of a run's counters at once: those that wait for a slot at one instant get it
// in any order, and a run could not be replayed.
func (i *instance) keep(until time.Time) (rollup.KeepReport, error) {
	return rollup.Keep(i.ctx, i, i.routes, rollup.KeepOptions{Options: i.options(), Concurrency: 3, Until: until})
}

// keepAll keeps what is left when all is quiet.
func (s *simulation) keepAll() {
	time.Sleep(2 * slowCadence)
	if report, err := s.newHelper("last tick").keep(time.Time{}); err != nil {
		s.breach("the last tick: %+v: %v", report, err)
	}
}
