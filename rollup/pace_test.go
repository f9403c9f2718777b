package rollup_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firestore-tally/tally/rollup"
)

var paceTable = flag.Bool("pace.table", false, "print lags, roll-ups and reads by rate and instances")

// A load is what comes to one counter: events at random times, or pulses after quiet times.
type load struct {
	rate float64 // events a second; 0: pulses
	d    time.Duration
}

const (
	pulseEvents = 200
	pulseQuiet  = 20 * time.Second
)

// serve has instances serve one counter under a load. The result is the same in every run.
func (l load) serve(t *testing.T, instances, burst int) (c *cloud) {
	c = l.serveSlow(t, instances, burst, 0)
	if n := c.notCovered.Load(); n > 0 {
		t.Errorf("%d events were not covered in time", n)
	}
	return c
}

// serveSlow is serve where a sum takes long.
func (l load) serveSlow(t *testing.T, instances, burst int, sumTakes time.Duration) (c *cloud) {
	synctest.Test(t, func(t *testing.T) {
		c = newCloud(t, instances, 1, burst)
		c.back, c.sumTakes = 5*time.Millisecond, sumTakes
		if sumTakes > 0 { // it has been rolled up before: how long the first sum takes is unknown
			c.send(rand.New(rand.NewPCG(1, 1)), c.counters[0])
			time.Sleep(time.Minute)
			c.forget()
		}
		random := rand.New(rand.NewPCG(1, 2))
		for began, n := time.Now(), 1; time.Since(began) < l.d; n++ {
			switch {
			case l.rate > 0:
				time.Sleep(time.Duration(random.ExpFloat64() / l.rate * float64(time.Second)))
			case n%pulseEvents == 1:
				time.Sleep(pulseQuiet)
			default:
				time.Sleep(1500 * time.Microsecond)
			}
			c.send(random, c.counters[0])
		}
		time.Sleep(time.Minute)
		c.exact()
	})
	return c
}

// send commits a change, whose event comes to any instance a little later.
func (c *cloud) send(random *rand.Rand, counter *cloudCounter) {
	at := counter.increment(&c.store)
	i := c.instances[random.IntN(len(c.instances))]
	delay := time.Duration((5 + random.ExpFloat64()*15) * float64(time.Millisecond))
	e := rollup.Event{ID: fmt.Sprint(c.events.Add(1)), UpdateTime: at}
	go func() {
		time.Sleep(delay)
		if _, err := i.changed(counter.Counter, e); err != nil {
			c.notCovered.Add(1)
		}
	}()
}

// busyPerSecond is for how long instances hold anything, all together.
func (c *cloud) busyPerSecond(d time.Duration) float64 {
	var busy time.Duration
	for _, i := range c.instances {
		busy += i.busy
	}
	return busy.Seconds() / d.Seconds()
}

// TestPace holds a burst of 5 to its budgets under one load, most of them relative to no burst.
// That no more roll-ups than the pace allows are written in any window is checked with each write.
func TestPace(t *testing.T) {
	for _, test := range []struct {
		instances int
		load      load
		mean, p99 float64       // at most, as a share of what they are with a burst of 1
		atMost    time.Duration // p99
		reads     float64       // a roll-up, at most
		refused   float64       // a roll-up, at most
	}{
		{1, load{0.5, 10 * time.Minute}, 0.33, 0.2, 200 * time.Millisecond, 2.05, 0},
		{1, load{2, 5 * time.Minute}, 1, 1, 1050 * time.Millisecond, 2.05, 0},
		{10, load{0.5, 10 * time.Minute}, 0.33, 0.33, 400 * time.Millisecond, 2.3, 0.05},
		{10, load{20, time.Minute}, 1.05, 1.05, 1100 * time.Millisecond, 12, 0.3},
		{100, load{0.5, 10 * time.Minute}, 0.33, 0.33, 400 * time.Millisecond, 2.4, 0.05},
		{100, load{1, 5 * time.Minute}, 0.5, 0.95, 1100 * time.Millisecond, 3, 0.1},
		{100, load{1000, 20 * time.Second}, 1.05, 1.05, 1100 * time.Millisecond, 110, 3},
		{1, load{0, 2 * time.Minute}, 0.4, 0.9, 950 * time.Millisecond, 2.05, 0},
		{100, load{0, 2 * time.Minute}, 0.2, 0.2, 200 * time.Millisecond, 70, 8},
	} {
		name := fmt.Sprintf("%v events a second, %d instances", test.load.rate, test.instances)
		if test.load.rate == 0 {
			name = fmt.Sprintf("pulses, %d instances", test.instances)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one, five := test.load.serve(t, test.instances, 1), test.load.serve(t, test.instances, 5)
			for _, budget := range []struct {
				what      string
				got, most float64
			}{
				{"mean lag, against that with a burst of 1", five.lagMean().Seconds() / one.lagMean().Seconds(), test.mean},
				{"lag p99, against that with a burst of 1", five.lag(0.99).Seconds() / one.lag(0.99).Seconds(), test.p99},
				{"lag p99 in seconds", five.lag(0.99).Seconds(), test.atMost.Seconds()},
				{"reads a roll-up", five.readsPerRollUp(), test.reads},
				{"refused writes a roll-up", five.refusedPerRollUp(), test.refused},
			} {
				t.Logf("%-45s %.3f", budget.what, budget.got)
				if budget.got > budget.most {
					t.Errorf("%s: %.3f, want at most %.3f", budget.what, budget.got, budget.most)
				}
			}
		})
	}
	if *paceTable {
		printPace(t)
	}
}

// printPace prints a table: each cell without a burst and with one of 5.
func printPace(t *testing.T) {
	fmt.Println("| events/s | instances | lag mean, ms | lag p50, ms | lag p99, ms | roll-ups/s | reads a roll-up | refused a roll-up | seconds held a second |")
	fmt.Println("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	for _, rate := range []float64{0.2, 0.5, 1, 2, 5, 20, 100, 1000, 0} {
		for _, instances := range []int{1, 10, 100} {
			l := load{rate, time.Minute}
			name := "pulses"
			if rate == 0 {
				l.d = 20 * pulseQuiet
			} else {
				name = fmt.Sprint(rate)
				l.d = max(l.d, min(50*time.Minute, time.Duration(3000/rate*float64(time.Second))))
			}
			one, five := l.serve(t, instances, 1), l.serve(t, instances, 5)
			fmt.Printf("| %s | %d |", name, instances)
			for _, cell := range []struct {
				format string
				of     func(*cloud) any
			}{
				{"%.0f", func(c *cloud) any { return c.lagMean().Seconds() * 1000 }},
				{"%d", func(c *cloud) any { return c.lag(0.5).Milliseconds() }},
				{"%d", func(c *cloud) any { return c.lag(0.99).Milliseconds() }},
				{"%.2f", func(c *cloud) any { return float64(c.writes.Load()) / l.d.Seconds() }},
				{"%.1f", func(c *cloud) any { return c.readsPerRollUp() }},
				{"%.2f", func(c *cloud) any { return c.refusedPerRollUp() }},
				{"%.2f", func(c *cloud) any { return c.busyPerSecond(l.d) }},
			} {
				fmt.Printf(" "+cell.format+" → "+cell.format+" |", cell.of(one), cell.of(five))
			}
			fmt.Println()
		}
	}
}
