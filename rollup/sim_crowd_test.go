package rollup_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestCrowd holds the instances that serve one counter, without faults, to their budgets.
func TestCrowd(t *testing.T) {
	type crowd struct {
		instances int
		rate      int // events a second
		burst     int
		refused   float64 // at most, in a cadence
	}
	grid := []crowd{
		{1, 100, 1, 0},
		{1, 100, 5, 0},
		{3, 10, 1, 0.2},
		{3, 10, 5, 0.2},
		{10, 1000, 1, 1},
		{10, 100, 5, 1},
		{100, 1000, 1, 1},
		{100, 1000, 5, 1.5},
		// Here the instance that wrote last has no event in every third cadence. Then the others,
		// who wait for it, get in each other's way.
		{100, 100, 1, 3},
		{100, 100, 5, 3},
	}
	for _, test := range cellsOf(grid, func(c crowd) bool { return c.instances == 1 || c.instances == 3 || c.rate < c.instances*10 }) {
		t.Run(fmt.Sprintf("%d instances, %d events a second, burst %d", test.instances, test.rate, test.burst), func(t *testing.T) {
			t.Parallel()
			s := newSimulation(drawnFrom(1))
			s.burst = test.burst
			synctest.Test(t, func(*testing.T) { s.crowd(test.instances, test.rate) })
			s.checkBudgets(t, test.refused)
		})
	}
}

const crowdSeconds = 20

// crowd has the instances serve one counter for a while.
func (s *simulation) crowd(instances, rate int) {
	s.began = time.Now()
	c := s.newCounter("a")
	s.counters = append(s.counters, c)
	for range instances {
		s.instances = append(s.instances, s.newInstance())
	}
	for n := range crowdSeconds * rate {
		s.actors.Go(func() {
			name := fmt.Sprint("event ", n)
			time.Sleep(time.Duration(n)*time.Second/time.Duration(rate) + jitter(name))
			commit := s.commitShard(c, n, int64(n%10), 1, false, 0)
			time.Sleep(s.chanceOf(1, name+" delay", time.Millisecond, 50*time.Millisecond))
			s.deliver(&message{n: n, about: []affected{{simulatedCounter: c}}, commit: commit}, name, s.instances[hash(name)%uint64(instances)], 0)
		})
		if n == rate { // the first cadence, when all look at once, does not count
			s.actors.Go(func() {
				time.Sleep(2 * s.cadence)
				s.mu.Lock()
				defer s.mu.Unlock()
				s.outcome.refused = 0
			})
		}
	}
	s.actors.Wait()
	time.Sleep(time.Hour)
	s.check()
}

func (s *simulation) checkBudgets(t *testing.T, mostRefused float64) {
	for _, broken := range s.outcome.broken {
		t.Error(broken)
	}
	var (
		c        = s.counters[0]
		cadences = float64(c.commits[len(c.commits)-1].Sub(c.commits[0])) / float64(s.cadence)
		looks    int
		most     int
		mean     float64
		burst    = float64(s.burst-1) / crowdSeconds // further roll-ups in a cadence, on average
	)
	for _, i := range s.instances {
		looks += i.looks
		m, held := i.heldEvents()
		most, mean = max(most, m), max(mean, held.Seconds()/cadences/s.cadence.Seconds())
	}
	slices.Sort(c.lags)
	for _, budget := range []struct {
		what      string
		got, most float64
	}{
		{"roll-ups in a cadence", float64(len(c.commits)) / cadences, 1.06 + burst},
		{"refused writes in a cadence", float64(s.outcome.refused) / cadences, mostRefused},
		{"looks of an instance in a cadence", float64(looks) / cadences / float64(len(s.instances)), 1.1 + burst},
		{"lag p50 in cadences", c.lags[len(c.lags)/2].Seconds() / s.cadence.Seconds(), 0.6},
		{"lag p99 in cadences", c.lags[len(c.lags)*99/100].Seconds() / s.cadence.Seconds(), 1.3},
		{"events held by an instance, on average", mean, 2 + burst},
		{"events held by an instance, during a look", float64(most), float64(min(2+s.burst, 4))}, // while there is credit, one more waits for its gap
	} {
		t.Logf("%-45s %.2f", budget.what, budget.got)
		if budget.got > budget.most {
			t.Errorf("%s: %.2f, want at most %.2f", budget.what, budget.got, budget.most)
		}
	}
}

// heldEvents returns the most deliveries that the instance held at once, and how long it held all
// of them together.
func (i *instance) heldEvents() (most int, together time.Duration) {
	type change struct {
		at time.Time
		by int
	}
	var changes []change
	for _, d := range i.deliveries {
		if d.to == i && d.ended.After(d.arrival) {
			changes = append(changes, change{d.arrival, 1}, change{d.ended, -1})
			together += d.ended.Sub(d.arrival)
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(a.at.Compare(b.at), a.by-b.by) })
	held := 0
	for _, c := range changes {
		held += c.by
		most = max(most, held)
	}
	return most, together
}
