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

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/test/memstore"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

var (
	scaleTime      = flag.Duration("sim.scale", 5*time.Second, "virtual time for which TestScale runs; below a minute at a hundredth of the load")
	scaleInstances = flag.Int("sim.instances", 100, "instances that TestScale runs")
)

// TestScale prints what many instances cost under the loads that docs/performance.md is about.
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
			synctest.Test(t, func(t *testing.T) { newCloud(t, *scaleInstances, test.counters, 5).run(test.rate, *scaleTime) })
		})
	}
}

// A cloud is many instances and counters without faults, for loads that a simulation is too slow
// for.
type cloud struct {
	t         *testing.T
	burst     int
	cadence   time.Duration
	call      time.Duration // that any call takes, up to twice as much
	back      time.Duration // that a look's answer takes
	sumTakes  time.Duration // up to a quarter less or more; 0: as any other call
	documents int64         // of the first counter; 0: those that it has
	takesEach time.Duration // how long its sum takes for each of them
	group     *rateLimit    // of the roll-ups' collection group; nil: none
	wrote     func(rollup.RollUp)
	store     memstore.Store
	counters  []*cloudCounter
	byRollUp  map[string]*cloudCounter
	instances []*cloudInstance

	looks, sums, writes, refused, events atomic.Int64
	notCovered                           atomic.Int64 // events that failed
	claims, claimed, claimsRefused       atomic.Int64 // that were read, written and refused

	lags     [20_000]atomic.Int64 // by milliseconds
	lagTotal atomic.Int64         // in nanoseconds
}

type cloudCounter struct {
	route.Counter
	shard   string
	failing atomic.Bool // looks at it fail

	looks, sums atomic.Int64

	mu      sync.Mutex
	behind  []time.Time
	paced   []time.Time     // as_of of its roll-ups
	covered time.Time       // when its last roll-up was written
	shown   time.Time       // when the last roll-up was written that has a change which was not shown before
	lags    []time.Duration // of a counter of many documents
}

// rollUps returns how many roll-ups of the counter were written.
func (c *cloudCounter) rollUps() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.paced)
}

type cloudInstance struct {
	*cloud
	coalescer *rollup.Coalescer

	mu     sync.Mutex
	random *rand.Rand
	held   int           // events
	since  time.Time     // when the first of them came
	busy   time.Duration // for which it held any
	most   int           // held at once
}

func newCloud(t *testing.T, instances, counters, burst int) *cloud {
	c := &cloud{t: t, burst: burst, cadence: cadence, call: 10 * time.Millisecond, byRollUp: make(map[string]*cloudCounter)}
	for n := range counters {
		counter := mustCounter(route.Default, fmt.Sprintf("counters/%d/shards", n))
		c.add(&cloudCounter{Counter: counter, shard: shardsOf(counter) + "/0"})
	}
	for range instances {
		c.start()
	}
	return c
}

func (c *cloud) add(counter *cloudCounter) {
	c.counters = append(c.counters, counter)
	c.byRollUp[counter.RollUp] = counter
}

// start starts an instance.
func (c *cloud) start() *cloudInstance {
	i := &cloudInstance{cloud: c, random: rand.New(rand.NewPCG(1, uint64(len(c.instances))))}
	i.coalescer = rollup.NewCoalescer(i, rollup.Options{
		Cadence: c.cadence, Burst: c.burst, Timeout: hold / 2, Hold: hold, Logger: slog.New(slog.DiscardHandler), Random: i.float,
	})
	c.instances = append(c.instances, i)
	return i
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
			}
		})
	}
	feeders.Wait()
	time.Sleep(time.Minute)
	c.report(d)
}

func (c *cloudCounter) increment(s *memstore.Store) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := s.Increment(c.shard, "count", 1)
	c.behind = append(c.behind, at)
	return at
}

// deliver delivers an event. One that will be absorbed needs no goroutine.
func (i *cloudInstance) deliver(counter *cloudCounter) {
	e := rollup.Event{ID: fmt.Sprint(i.events.Add(1))}
	deliver := func() {
		if _, err := i.changed(counter.Counter, e); err != nil {
			i.t.Error(err)
		}
	}
	if absorbs(i.coalescer, counter.Counter) {
		deliver()
		return
	}
	go deliver()
}

// changed hands an event to the coalescer, and notes how long it is held.
func (i *cloudInstance) changed(counter route.Counter, e rollup.Event) (rollup.Ending, error) {
	i.hold(1)
	defer i.hold(-1)
	return i.coalescer.HandleEvent(context.Background(), e, route.Concern{Counter: counter})
}

func (i *cloudInstance) hold(n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.held == 0 {
		i.since = time.Now()
	}
	i.held += n
	i.most = max(i.most, i.held)
	if i.held == 0 {
		i.busy += time.Since(i.since)
	}
}

func (i *cloudInstance) float() float64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.random.Float64()
}

// wait is the network's and Firestore's time for one request.
func (i *cloudInstance) wait() {
	time.Sleep(i.call + time.Duration(i.float()*float64(i.call)))
}

func (i *cloudInstance) View(ctx context.Context, counter route.Counter) (rollup.Snapshot, error) {
	i.wait()
	i.looks.Add(1)
	i.byRollUp[counter.RollUp].looks.Add(1)
	if i.byRollUp[counter.RollUp].failing.Load() {
		return nil, errStore
	}
	v, err := i.store.View(ctx, counter)
	time.Sleep(i.back)
	return cloudSnapshot{v, i, i.byRollUp[counter.RollUp]}, err
}

type cloudSnapshot struct {
	rollup.Snapshot
	i       *cloudInstance
	counter *cloudCounter
}

func (v cloudSnapshot) Sum(ctx context.Context) (route.Totals, error) {
	if takes := v.i.sumTakes; takes > 0 {
		time.Sleep(time.Duration((0.75 + v.i.float()/2) * float64(takes)))
	} else {
		v.i.wait()
	}
	v.i.sums.Add(1)
	v.counter.sums.Add(1)
	totals, err := v.Snapshot.Sum(ctx)
	if v.i.documents > 0 && v.counter == v.i.counters[0] {
		if !sleepUntil(ctx, time.Now().Add(time.Duration(v.i.documents)*v.i.takesEach)) {
			return totals, context.Cause(ctx)
		}
		totals.Shards = []int64{v.i.documents}
	}
	if v.i.sumTakes > 0 {
		totals.Shards = []int64{20_000}
	}
	return totals, err
}

func (v cloudSnapshot) Claim(ctx context.Context) (rollup.Claim, error) {
	v.i.wait()
	v.i.claims.Add(1)
	return v.Snapshot.Claim(ctx)
}

func (i *cloudInstance) Claim(ctx context.Context, counter route.Counter, claim rollup.Claim) error {
	i.wait()
	if err := i.store.Claim(ctx, counter, claim); err != nil {
		i.claimsRefused.Add(1)
		return err
	}
	i.claimed.Add(1)
	return nil
}

// WriteLocked is not called, because only instances write the roll-ups.
func (i *cloudInstance) WriteLocked(_ context.Context, c route.Counter, _ rollup.RollUp, _ document.Tally) error {
	i.t.Errorf("%s was locked", c.RollUp)
	return rollup.ErrConflict
}

func (i *cloudInstance) Remove(_ context.Context, c route.Counter, _ rollup.RollUp) error {
	i.t.Errorf("%s was removed", c.RollUp)
	return rollup.ErrConflict
}

func (i *cloudInstance) LoadNote(ctx context.Context, id string) (rollup.Note, error) {
	return i.store.LoadNote(ctx, id)
}

func (i *cloudInstance) SaveNote(ctx context.Context, n rollup.Note) error {
	return i.store.SaveNote(ctx, n)
}

func (i *cloudInstance) DeleteNote(ctx context.Context, n rollup.Note) error {
	return i.store.DeleteNote(ctx, n)
}

func (i *cloudInstance) Write(ctx context.Context, counter route.Counter, r rollup.RollUp) error {
	i.wait()
	if i.group != nil {
		i.group.wait(ctx)
	}
	c := i.byRollUp[counter.RollUp]
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := i.store.Write(ctx, counter, r); err != nil {
		i.refused.Add(1)
		return err
	}
	i.writes.Add(1)
	c.paced = append(c.paced, r.Tally.AsOf)
	if n, window, ok := tooMany(c.paced, i.cadence, i.burst); !ok {
		i.t.Errorf("%s was rolled up %d times within %v", c.RollUp, n, window)
	}
	if i.wrote != nil {
		i.wrote(r)
	}
	if r.Tally.Routes != c.Template.Hash() {
		return nil // its as_of covers nothing
	}
	c.covered = time.Now()
	for len(c.behind) > 0 && !c.behind[0].After(r.Tally.AsOf) {
		c.shown = time.Now()
		if i.documents > 0 {
			c.lags = append(c.lags, i.store.Now().Sub(c.behind[0]))
		}
		lag := i.store.Now().Sub(c.behind[0])
		i.lags[min(int(lag.Milliseconds()), len(i.lags)-1)].Add(1)
		i.lagTotal.Add(int64(lag))
		c.behind = c.behind[1:]
	}
	return nil
}

// A rateLimit lets so many requests a second pass, one after another.
type rateLimit struct {
	rate float64
	mu   sync.Mutex
	next time.Time
}

func (l *rateLimit) wait(ctx context.Context) {
	l.mu.Lock()
	if now := time.Now(); l.next.Before(now) {
		l.next = now
	}
	turn := l.next
	l.next = turn.Add(time.Duration(float64(time.Second) / l.rate))
	l.mu.Unlock()
	sleepUntil(ctx, turn)
}

// covered returns how many commits roll-ups have covered since the lags were last forgotten.
func (c *cloud) covered() (n int64) {
	for ms := range c.lags {
		n += c.lags[ms].Load()
	}
	return n
}

// lag returns a percentile of the lags, from a commit to the commit of a roll-up that covers it.
func (c *cloud) lag(p float64) time.Duration {
	left := int64(p * float64(c.covered()))
	ms := 0
	for ms = range c.lags {
		if left -= c.lags[ms].Load(); left < 0 {
			break
		}
	}
	return time.Duration(ms) * time.Millisecond
}

func (c *cloud) lagMean() time.Duration {
	return time.Duration(c.lagTotal.Load() / max(c.covered(), 1))
}

// forget forgets what was counted so far.
func (c *cloud) forget() {
	for ms := range c.lags {
		c.lags[ms].Store(0)
	}
	for _, n := range []*atomic.Int64{&c.lagTotal, &c.looks, &c.sums, &c.writes, &c.refused, &c.claims, &c.claimed, &c.claimsRefused} {
		n.Store(0)
	}
}

func (c *cloud) readsPerRollUp() float64 {
	return float64(c.looks.Load()+c.sums.Load()) / float64(c.writes.Load())
}

func (c *cloud) refusedPerRollUp() float64 {
	return float64(c.refused.Load()) / float64(c.writes.Load())
}

// exact checks that every change is covered, and that nothing is remembered.
func (c *cloud) exact() {
	c.t.Helper()
	synctest.Wait()
	for _, i := range c.instances {
		if n := active(i.coalescer); n != 0 {
			c.t.Errorf("an instance remembers %d counters", n)
		}
	}
	for _, counter := range c.counters {
		if len(counter.behind) > 0 {
			c.t.Errorf("%d changes of %s are not covered", len(counter.behind), counter.RollUp)
		}
		if shard := c.store.Get(counter.shard); shard != nil && c.store.Get(counter.RollUp)["count"] != shard["count"] {
			c.t.Errorf("%s holds %v, its shard %v", counter.RollUp, c.store.Get(counter.RollUp)["count"], shard["count"])
		}
	}
}

func (c *cloud) report(d time.Duration) {
	synctest.Wait()
	most := 0
	for _, i := range c.instances {
		most = max(most, i.most)
	}
	c.t.Logf("%d events in %v on %d counters at %d instances", c.events.Load(), d, len(c.counters), len(c.instances))
	c.t.Logf("per second: %.1f reads, %.1f writes, %.1f writes refused", float64(c.looks.Load()+c.sums.Load())/d.Seconds(),
		float64(c.writes.Load())/d.Seconds(), float64(c.refused.Load())/d.Seconds())
	c.t.Logf("lag p50 %v, p99 %v; an instance held at most %d events", c.lag(0.5), c.lag(0.99), most)
	c.exact()
}
