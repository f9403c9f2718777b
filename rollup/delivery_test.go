package rollup_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

// A subscription is the way of events to instances as it is documented, which no emulator enforces:
// Pub/Sub pushes within a window, and backs off as a whole; Cloud Run gives each request a slot of
// an instance, and starts another instance when 60 % of all are taken
// (https://docs.cloud.google.com/run/docs/about-instance-autoscaling).
//
// https://docs.cloud.google.com/pubsub/docs/push says of the window that it begins small and grows
// while more than 99 % are acknowledged and the mean latency is below 1 s, and is at most 3,000
// otherwise. It says of the back-off that failures make it 0.1 to 60 s long; that each doubles it
// is the model's.
type subscription struct {
	*cloud
	concurrency int // slots of an instance
	most        int // instances
	changes     *rand.Rand

	mu          sync.Mutex
	random      *rand.Rand
	serving     []*servingInstance
	queue       []*pushed
	outstanding int
	health
}

// health is how a subscription fares.
type health struct {
	window  float64
	latency time.Duration // mean of late
	failed  float64       // share of late
	pause   time.Duration // of the last back-off; 0: none
	resume  time.Time     // when it is over

	failures  int           // in all
	backedOff time.Duration // in all
}

// now returns how the subscription fares, and how many instances serve it.
func (s *subscription) now() (health, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.health, len(s.serving)
}

type servingInstance struct {
	*cloudInstance
	ready time.Time
	taken int
}

// A pushed is an event on its way.
type pushed struct {
	counter *cloudCounter
	event   rollup.Event
	failed  time.Duration // how long it waits for the next delivery
}

const (
	firstWindow     = 10
	boundedWindow   = 3000
	leastPause      = 100 * time.Millisecond
	longestPause    = time.Minute
	late            = 100              // deliveries that count for health
	leastRetry      = 10 * time.Second // of Eventarc, doubled up to 600 s
	longestRetry    = 600 * time.Second
	instanceStarts  = time.Second
	mostInstances   = 100
	startAt         = 0.6 // of the slots
	indexedGroup    = 500 // writes a second
	healthyShare    = 0.99
	healthyLatency  = time.Second
	deliveryLatency = 10 * time.Millisecond
)

func newSubscription(t *testing.T, counters, concurrency int) *subscription {
	s := &subscription{cloud: newCloud(t, 0, counters, 5), concurrency: concurrency, most: mostInstances, health: health{window: firstWindow}}
	s.changes, s.random = rand.New(rand.NewPCG(1, 4)), rand.New(rand.NewPCG(1, 5))
	s.back = 5 * time.Millisecond
	return s
}

// run commits changes at random for a while, at a rate of each counter, whose events are pushed.
func (s *subscription) run(rate float64, d time.Duration) {
	total := rate * float64(len(s.counters))
	for began := time.Now(); time.Since(began) < d; {
		time.Sleep(time.Duration(s.changes.ExpFloat64() / total * float64(time.Second)))
		counter := s.counters[s.changes.IntN(len(s.counters))]
		at := counter.increment(&s.store)
		s.mu.Lock()
		s.queue = append(s.queue, &pushed{counter: counter, event: rollup.Event{ID: fmt.Sprint(s.events.Add(1)), UpdateTime: at}})
		s.push()
		s.mu.Unlock()
	}
}

// push pushes what the window allows. The mutex is held.
func (s *subscription) push() {
	for len(s.queue) > 0 && float64(s.outstanding) < s.window && !time.Now().Before(s.resume) {
		m := s.queue[0]
		s.queue = s.queue[1:]
		s.outstanding++
		to := s.slot()
		if to == nil {
			go s.ended(m, 0, errNoSlot)
			continue
		}
		to.taken++
		go func() {
			began := time.Now()
			time.Sleep(max(deliveryLatency, time.Until(to.ready)))
			_, err := to.changed(m.counter.Counter, m.event)
			s.mu.Lock()
			to.taken--
			s.mu.Unlock()
			s.ended(m, time.Since(began), err)
		}()
	}
}

var errNoSlot = fmt.Errorf("no instance is available")

// slot returns an instance that has a slot, one that is ready if there is any. If many slots are
// taken, it starts another. It returns nil when no slot is free and there may be no further
// instance. The mutex is held.
func (s *subscription) slot() *servingInstance {
	taken := 0
	for _, i := range s.serving {
		taken += i.taken
	}
	if float64(taken) >= startAt*float64(s.concurrency*len(s.serving)) && len(s.serving) < s.most {
		s.serving = append(s.serving, &servingInstance{cloudInstance: s.start(), ready: time.Now().Add(instanceStarts)})
	}

	var ready, free []*servingInstance
	for _, i := range s.serving {
		if i.taken == s.concurrency {
			continue
		}
		free = append(free, i)
		if !time.Now().Before(i.ready) {
			ready = append(ready, i)
		}
	}
	switch {
	case len(ready) > 0:
		return ready[s.random.IntN(len(ready))]
	case len(free) > 0:
		return free[s.random.IntN(len(free))]
	}
	return nil
}

// ended takes the answer to a delivery.
func (s *subscription) ended(m *pushed, took time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outstanding--
	s.latency += (took - s.latency) / late
	s.failed -= s.failed / late
	if err != nil {
		s.failures++
		s.failed += 1.0 / late
		m.failed = max(leastRetry, min(2*m.failed, longestRetry))
		again := m.failed
		go func() {
			time.Sleep(again)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.queue = append(s.queue, m)
			s.push()
		}()
	}
	healthy := s.failed < 1-healthyShare
	switch {
	case healthy:
		s.pause = 0
	case err != nil && !time.Now().Before(s.resume):
		s.pause = max(leastPause, min(2*s.pause, longestPause))
		s.resume = time.Now().Add(s.pause)
		s.backedOff += s.pause
		pause := s.pause
		go func() {
			time.Sleep(pause)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.push()
		}()
	}
	if healthy && s.latency < healthyLatency {
		s.window++ // it doubles with each round
	} else {
		s.window = min(s.window, boundedWindow)
	}
	s.push()
}

// A held event takes a slot and no more. With as many slots as Concurrency says few instances serve
// two thousand active counters. With the platform's default of 80 they multiply, and each of them
// reads every counter that it has events of.
func TestSlots(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}

	const (
		platform = 80
		warm     = 3 * time.Second
		measured = 4 * time.Second
	)
	type cell struct {
		counters, rate int     // of each, a second
		instances      int     // at most, with the slots that are declared
		more           int     // times as many with those of the platform, at least
		reads          float64 // a roll-up, times as many, at least
	}
	grid := []cell{
		{2000, 1, 4, 5, 1.05},
		{300, 10, 4, 10, 3},
	}
	for _, test := range grid {
		t.Run(fmt.Sprintf("%d counters, %d events a second each", test.counters, test.rate), func(t *testing.T) {
			t.Parallel()
			serve := func(concurrency int) (s *subscription) {
				synctest.Test(t, func(t *testing.T) {
					s = newSubscription(t, test.counters, concurrency)
					s.run(float64(test.rate), warm)
					s.forget()
					s.run(float64(test.rate), measured)
					now, instances := s.now()
					t.Logf("%d slots: %d instances, %.1f reads and %.2f refused writes a roll-up, mean latency of a delivery %v, window %.0f",
						concurrency, instances, s.readsPerRollUp(), s.refusedPerRollUp(), now.latency.Round(time.Millisecond), now.window)
					time.Sleep(time.Minute)
					s.exact()
				})
				t.Logf("lag p50 %v, p99 %v, %d deliveries failed", s.lag(0.5), s.lag(0.99), s.failures)
				return s
			}
			few, many := serve(rollup.Concurrency), serve(platform)
			if n := len(few.serving); n > test.instances {
				t.Errorf("%d instances, want at most %d", n, test.instances)
			}
			if p99 := few.lag(0.99); p99 > 1200*time.Millisecond || few.failures > 0 {
				t.Errorf("lag p99 is %v, and %d deliveries failed", p99, few.failures)
			}
			if n, want := len(many.serving), test.more*len(few.serving); n < want {
				t.Errorf("with %d slots there are %d instances, want at least %d", platform, n, want)
			}
			if ratio := many.readsPerRollUp() / few.readsPerRollUp(); ratio < test.reads {
				t.Errorf("with %d slots a roll-up takes %.2f times the reads, want at least %.2f", platform, ratio, test.reads)
			}
		})
	}
}

// Many counters at several changes a second each meet another instance with nearly each event,
// which is then held. With the default cadence the mean latency passes 1 s, and Pub/Sub keeps at
// most 3,000 outstanding, so events wait. Half the cadence keeps the window open. Calls of
// Firestore take 40 to 80 ms here.
func TestPushLatency(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}

	const (
		counters, rate = 1500, 3 // of each, a second
		instances      = 10      // the default of max_instances
		warm           = 6 * time.Second
		measured       = 6 // seconds
	)
	type cell struct {
		cadence time.Duration
		bounded bool // the window
	}
	grid := []cell{{time.Second, true}, {time.Second / 2, false}}
	for _, test := range grid {
		t.Run(test.cadence.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newSubscription(t, counters, rollup.Concurrency)
				s.call, s.most, s.cadence = 40*time.Millisecond, instances, test.cadence
				s.run(rate, warm)

				var slowest time.Duration
				least := math.Inf(1)
				for range measured {
					s.run(rate, time.Second)
					now, _ := s.now()
					slowest, least = max(slowest, now.latency), min(least, now.window)
				}
				t.Logf("mean latency of a delivery at most %v, window at least %.0f", slowest.Round(time.Millisecond), least)
				if bounded := slowest > healthyLatency && least <= boundedWindow; bounded != test.bounded {
					t.Errorf("Pub/Sub bounds what is outstanding: %v, want %v", bounded, test.bounded)
				}
				if !test.bounded && slowest > 4*healthyLatency/5 {
					t.Errorf("the mean latency of a delivery comes to %v, near the bound", slowest)
				}

				time.Sleep(time.Minute)
				s.exact()
				if s.failures > 0 {
					t.Errorf("%d deliveries failed", s.failures)
				}
			})
		})
	}
}

// indexed reports whether firestore.indexes.json leaves a field of a collection group indexed.
func indexed(t *testing.T, group, field string) bool {
	data, err := os.ReadFile("../firestore.indexes.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		FieldOverrides []struct {
			CollectionGroup, FieldPath string
			Indexes                    []any
		}
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	for _, o := range file.FieldOverrides {
		if o.CollectionGroup == group && o.FieldPath == field {
			return len(o.Indexes) > 0
		}
	}
	return true
}

// An index of as_of, which only grows, limits all roll-ups together to some 500 writes a second. So
// tally is exempt, or 1,500 active counters lag behind.
func TestIndexedGroup(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}

	const counters, rate = 1500, 2
	serve := func(limited bool) (s *subscription) {
		synctest.Test(t, func(t *testing.T) {
			s = newSubscription(t, counters, 1000)
			if limited {
				s.group = &rateLimit{rate: indexedGroup}
			}
			s.run(rate, 5*time.Second)
			time.Sleep(20 * time.Minute) // what failed comes again
			s.exact()
		})
		t.Logf("limited: %v; lag p50 %v, p99 %v; %d deliveries failed", limited, s.lag(0.5), s.lag(0.99), s.failures)
		return s
	}
	template := mustCounter(route.Default, shardsOf(likes)).RollUp
	group, _, _ := strings.Cut(template, "/")
	const budget = 2 * time.Second
	if p99 := serve(indexed(t, group, "tally")).lag(0.99); p99 > budget {
		t.Errorf("lag p99 is %v, want at most %v", p99, budget)
	}
	if p99 := serve(true).lag(0.99); p99 <= budget {
		t.Errorf("with an index lag p99 is %v: this test would notice nothing", p99)
	}
}

// One counter that keeps failing makes the subscription back off, which delays the others. They
// stay exact, and the back-off ends when it is healed.
func TestBackOffOfTheSubscription(t *testing.T) {
	const (
		counters = 30
		rate     = 1
		failing  = 3 * time.Minute
	)
	synctest.Test(t, func(t *testing.T) {
		s := newSubscription(t, counters, 1000)
		s.run(rate, 10*time.Second)
		if well, _ := s.now(); well.backedOff > 0 {
			t.Fatalf("it backs off though all is well")
		}
		s.counters[0].failing.Store(true)
		s.run(rate, failing)
		ill, instances := s.now()
		if ill.backedOff < leastPause {
			t.Errorf("nothing made it back off")
		}
		// At each instance one generation fails after the other, and few events with it.
		perHold := float64(ill.failures) / (failing.Seconds() / hold.Seconds()) / float64(instances)
		t.Logf("%d deliveries failed at %d instances, %.1f in the time that one is held; it backed off for %v of %v", ill.failures, instances, perHold, ill.backedOff, failing)
		if perHold > 3 {
			t.Errorf("%.1f deliveries failed at an instance in the time that one is held", perHold)
		}
		if share := ill.backedOff.Seconds() / failing.Seconds(); share > 0.1 {
			t.Errorf("it backed off for %v of %v", ill.backedOff, failing)
		}
		for _, counter := range s.counters[1:] {
			if total, shard := s.store.Get(counter.RollUp)["count"], s.store.Get(counter.shard)["count"]; total.(int64) < shard.(int64)*9/10 {
				t.Errorf("meanwhile %s holds %v of %v", counter.RollUp, total, shard)
			}
		}

		s.counters[0].failing.Store(false)
		time.Sleep(2 * longestRetry) // what failed has come again
		s.forget()
		healed, _ := s.now()
		s.run(rate, 30*time.Second)
		time.Sleep(time.Minute)
		if now, _ := s.now(); now.backedOff != healed.backedOff || now.failures != healed.failures {
			t.Errorf("healed, %d deliveries failed and it backed off for %v", now.failures-healed.failures, now.backedOff-healed.backedOff)
		}
		if p99 := s.lag(0.99); p99 > 1500*time.Millisecond {
			t.Errorf("healed, lag p99 is %v", p99)
		}
		s.exact()
	})
}
