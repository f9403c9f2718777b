package rollup_test

import (
	"fmt"
	"time"

	"github.com/firestore-tally/tally/rollup"
)

// slowCadence is what the routes say in runs whose counters the schedule keeps.
const slowCadence = 30 * time.Second

// ticks is how often the schedule comes in such a run, in addition to once when all is quiet.
const ticks = 20

// schedule calls again and again, each time an instance of its own. Calls overlap, or leave gaps.
func (s *simulation) schedule() {
	for n := range ticks {
		name := fmt.Sprint("tick ", n+1)
		time.Sleep(slowCadence + s.chanceOf(s.weather.slow, name+" late", time.Millisecond, time.Minute) + jitter(name))
		s.actors.Go(func() {
			i := s.newHelper(name)
			o := i.keepOptions(time.Now().Add(slowCadence + s.chanceOf(0.5, name+" overlaps by", time.Second, time.Minute)))
			if little := s.chanceOf(0.3, name+" has only", time.Millisecond, 10*time.Second); little > 0 {
				o.Until = time.Now().Add(little)
			}
			if s.chance(0.3, name+" has one slot", upTo(1)) == 1 {
				o.Concurrency = 1
			}
			if o.MaxReads = s.chance(0.3, name+" has few reads", upTo(30)); o.MaxReads > 0 {
				o.Reads = i.looked
			}
			_, _ = rollup.Keep(i.ctx, i, i.routes, o) // may fail or crash
		})
	}
}

// keepOptions work on all of a run's counters at once, or on one: of two that end at one instant,
// and then wait for a slot, either may be first, and a run could not be replayed.
func (i *instance) keepOptions(until time.Time) rollup.KeepOptions {
	return rollup.KeepOptions{Options: i.options(), Concurrency: 3, Until: until}
}

// looked returns how many reads the instance's looks and their sums took.
func (i *instance) looked() int64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	return 2 * int64(i.looks)
}

// keepAll keeps what is left when all is quiet.
func (s *simulation) keepAll() {
	time.Sleep(2 * slowCadence)
	i := s.newHelper("last tick")
	if report, err := rollup.Keep(i.ctx, i, i.routes, i.keepOptions(time.Time{})); err != nil {
		s.breach("the last tick: %+v: %v", report, err)
	}
}
