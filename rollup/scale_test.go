package rollup_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firestore-tally/tally/internal/memstore"
	"github.com/firestore-tally/tally/rollup"
)

var (
	scaleTime      = flag.Duration("sim.scale", 5*time.Second, "virtual time for which TestScale runs; below a minute at a hundredth of the load")
	scaleInstances = flag.Int("sim.instances", 100, "instances that TestScale runs")
)

// TestScale prints what many instances cost under the loads that docs/scale.md is about.
func TestScale(t *testing.T) {
	share := 100
	if *scaleTime >= time.Minute {
		share = 1
	}
	for _, test := range []struct {
		name           string
		counters, rate int // events a second in all
	}{
		{"one counter", 1, 100_000 / share},
		{"many counters", 200_000 / share, 100_000 / share},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newCloud(t, *scaleInstances, test.counters).run(test.rate, *scaleTime) })
		})
	}
}

// A cloud is many instances and counters without faults, for loads that a simulation is too slow for.
type cloud struct {
	t         *testing.T
	store     memstore.Store
	counters  []*cloudCounter
	byRollUp  map[string]*cloudCounter
	instances []*cloudInstance

	reads, writes, refused, events atomic.Int64
	lags                           [20_000]atomic.Int64 // by milliseconds
}

type cloudCounter struct {
	rollup.Counter
	shard string

	mu     sync.Mutex
	behind []time.Time
}

type cloudInstance struct {
	*cloud
	coalescer *rollup.Coalescer
	held      atomic.Int64
	most      int64 // held at the end of a tick
}

func newCloud(t *testing.T, instances, counters int) *cloud {
	c := &cloud{t: t, byRollUp: make(map[string]*cloudCounter)}
	for n := range counters {
		counter := mustCounter(rollup.DefaultRoute, fmt.Sprintf("counters/%d/shards", n))
		c.counters = append(c.counters, &cloudCounter{Counter: counter, shard: counter.Shards + "/0"})
		c.byRollUp[counter.RollUp] = c.counters[n]
	}
	for range instances {
		i := &cloudInstance{cloud: c}
		i.coalescer = rollup.NewCoalescer(i, rollup.Options{Cadence: cadence, Burst: 5, Timeout: hold / 2, Logger: slog.New(slog.DiscardHandler)})
		c.instances = append(c.instances, i)
	}
	return c
}

// run sends events for a while, spread evenly over the instances and at random over the counters.
func (c *cloud) run(rate int, d time.Duration) {
	const (
		tick  = 10 * time.Millisecond
		delay = 2 // ticks from a commit to its event's arrival
	)
	var feeders sync.WaitGroup
	for n, i := range c.instances {
		feeders.Go(func() {
			time.Sleep(tick * time.Duration(n) / time.Duration(len(c.instances)))
			var coming [delay][]*cloudCounter
			owed := 0.0
			for now := range int(d/tick) + delay {
				for _, counter := range coming[0] {
					i.deliver(counter)
				}
				arrived := coming[0][:0]
				copy(coming[:], coming[1:])
				for owed += float64(rate) / float64(len(c.instances)) * tick.Seconds(); owed >= 1 && now < int(d/tick); owed-- {
					counter := c.counters[rand.IntN(len(c.counters))]
					counter.increment(&c.store)
					arrived = append(arrived, counter)
				}
				coming[delay-1] = arrived
				time.Sleep(tick)
				i.most = max(i.most, i.held.Load())
			}
		})
	}
	feeders.Wait()
	time.Sleep(time.Minute)
	c.report(d)
}

func (c *cloudCounter) increment(s *memstore.Store) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.behind = append(c.behind, s.Increment(c.shard, "count", 1))
}

// deliver delivers an event. One that will be absorbed needs no goroutine.
func (i *cloudInstance) deliver(counter *cloudCounter) {
	id := fmt.Sprint(i.events.Add(1))
	deliver := func() {
		if _, err := i.coalescer.Changed(context.Background(), counter.Counter, rollup.Event{ID: id}); err != nil {
			i.t.Error(err)
		}
	}
	if i.coalescer.Absorbs(counter.Counter) {
		deliver()
		return
	}
	go func() {
		i.held.Add(1)
		deliver()
		i.held.Add(-1)
	}()
}

// wait is the network's and Firestore's time for one request.
func (c *cloud) wait() {
	time.Sleep(10*time.Millisecond + time.Duration(rand.Int64N(int64(10*time.Millisecond))))
}

func (i *cloudInstance) View(ctx context.Context, counter rollup.Counter) (rollup.Snapshot, error) {
	i.wait()
	i.reads.Add(1)
	v, err := i.store.View(ctx, counter)
	return cloudSnapshot{v, i}, err
}

type cloudSnapshot struct {
	rollup.Snapshot
	i *cloudInstance
}

func (v cloudSnapshot) Sum(ctx context.Context) (rollup.Totals, error) {
	v.i.wait()
	v.i.reads.Add(1)
	return v.Snapshot.Sum(ctx)
}

func (i *cloudInstance) Write(ctx context.Context, counter rollup.Counter, r rollup.RollUp) error {
	i.wait()
	if err := i.store.Write(ctx, counter, r); err != nil {
		i.refused.Add(1)
		return err
	}
	i.writes.Add(1)
	c := i.byRollUp[counter.RollUp]
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.behind) > 0 && !c.behind[0].After(r.Tally.AsOf) {
		lag := i.store.Now().Sub(c.behind[0])
		i.lags[min(int(lag.Milliseconds()), len(i.lags)-1)].Add(1)
		c.behind = c.behind[1:]
	}
	return nil
}

func (c *cloud) report(d time.Duration) {
	var most, active, covered int64
	for _, i := range c.instances {
		most = max(most, i.most)
		active += int64(i.coalescer.Active())
	}
	for n := range c.lags {
		covered += c.lags[n].Load()
	}
	percentile := func(p float64) (ms int) {
		left := int64(p * float64(covered))
		for ms = range c.lags {
			if left -= c.lags[ms].Load(); left < 0 {
				break
			}
		}
		return ms
	}
	events := c.events.Load()
	c.t.Logf("%d events in %v on %d counters at %d instances", events, d, len(c.counters), len(c.instances))
	c.t.Logf("per second: %.1f reads, %.1f writes, %.1f writes refused", float64(c.reads.Load())/d.Seconds(), float64(c.writes.Load())/d.Seconds(), float64(c.refused.Load())/d.Seconds())
	c.t.Logf("lag p50 %d ms, p99 %d ms; an instance held at most %d events", percentile(0.5), percentile(0.99), most)
	if covered != events || active != 0 {
		c.t.Errorf("of %d events %d are covered; %d counters are remembered", events, covered, active)
	}
	for _, counter := range c.counters {
		if shard := c.store.Get(counter.shard); shard != nil && c.store.Get(counter.RollUp)["count"] != shard["count"] {
			c.t.Errorf("%s holds %v, its shard %v", counter.RollUp, c.store.Get(counter.RollUp)["count"], shard["count"])
		}
	}
}
