package rollup_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

var largeTable = flag.Bool("sim.large", false, "have TestLargeCounters run each size and rate, and print docs/performance.md's table")

// readsPerSecond is what the sums of one counter may be billed in these runs.
const readsPerSecond = 50

// TestLargeCounters holds counters of many documents to what they may bill, next to a small one.
//
//	go test ./rollup -run TestLargeCounters -sim.large -v
func TestLargeCounters(t *testing.T) {
	type load struct {
		documents int64
		rate      float64 // changes a second
		instances int
		bound     int64 // of reads a second; 0: none
	}
	const bound = readsPerSecond
	loads := []load{{1e3, 10, 2, bound}, {1e5, 1, 20, bound}, {1e5, 10, 20, bound}, {1e6, 10, 2, bound}, {1e6, 10, 20, bound}, {1e7, 1, 20, bound}, {1e7, 10, 20, 0}}
	if *largeTable {
		loads = nil
		for _, documents := range []int64{1e3, 1e4, 1e5, 1e6, 1e7} {
			for _, rate := range []float64{0.1, 1, 10, 200} {
				loads = append(loads, load{documents, rate, 2, bound}, load{documents, rate, 20, bound})
			}
			loads = append(loads, load{documents, 10, 20, 0})
		}
		fmt.Println("| documents | changes/s | instances | bound | reads of sums/s | dollars a day | roll-ups/min | sums a roll-up | looks/s | tasks/min | lag p50 | lag p99 | end of the burst |")
		fmt.Println("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	}
	for _, l := range loads {
		t.Run(fmt.Sprint(l.documents, " documents, ", l.rate, " changes a second, ", l.instances, " instances, bound ", l.bound), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newLarge(t, l.documents, l.instances, l.bound).run(l.rate) })
		})
	}
}

// Sums that take longer than an event can be held fail none, neither of their own counter nor of
// another, and hold none of them.
func TestLongSums(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}

	for _, takes := range []time.Duration{3 * time.Second, 5 * time.Second, 20 * time.Second, 40 * time.Second} {
		for _, rate := range []float64{0.1, 10} {
			for _, instances := range []int{1, 2, 20} {
				t.Run(fmt.Sprint(takes, ", ", rate, " changes a second, ", instances, " instances"), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						w := newLarge(t, 20_000, instances, readsPerSecond)
						w.takesEach = takes / 20_000
						w.run(rate)
					})
				})
			}
		}
	}
}

// sumTakesEach is how long a sum takes for each document: an assumption, 0.2 s for a million.
const sumTakesEach = 200 * time.Nanosecond

// percentile returns a percentile of lags, and sorts them.
func percentile(lags []time.Duration, p float64) time.Duration {
	slices.Sort(lags)
	return lags[int(p*float64(len(lags)-1))].Round(100 * time.Millisecond)
}

// A large world has one counter of many documents, and a small one.
type large struct {
	*cloud
	queue *cloudQueue
	bound int64 // of reads a second; 0: none
}

func newLarge(t *testing.T, documents int64, instances int, bound int64) *large {
	w := &large{cloud: newCloud(t, 0, 2, 5), bound: bound}
	w.documents, w.takesEach = documents, sumTakesEach
	w.queue = &cloudQueue{cloud: w.cloud, names: make(map[rollup.Alarm]bool)}
	for n := range instances {
		w.startAlarmed(n)
	}
	return w
}

// startAlarmed starts an instance that makes alarms.
func (w *large) startAlarmed(n int) {
	i := &cloudInstance{cloud: w.cloud, random: rand.New(rand.NewPCG(1, uint64(n)))}
	i.coalescer = rollup.NewCoalescer(i, rollup.Options{
		Cadence: cadence, Burst: 5, ReadsPerSecond: w.bound, Timeout: hold / 2, LongTimeout: 45 * time.Second, Hold: hold, Alarms: w.queue,
		Logger: slog.New(slog.DiscardHandler), Random: i.float,
	})
	w.instances = append(w.instances, i)
}

// run changes the large counter at a rate for ten minutes or thirty of its cadences, and the small
// one every few seconds.
func (w *large) run(rate float64) {
	reads := w.counters[0].Template.Reads(w.documents)
	own := cadence
	if w.bound > 0 {
		own = max(cadence, time.Duration(reads/float64(w.bound)*float64(time.Second)))
	}
	takes := time.Duration(w.documents) * w.takesEach
	lasts := max(10*time.Minute, 30*own)

	big, small := w.counters[0], w.counters[1]
	var all sync.WaitGroup
	var knownLong atomic.Bool // that the sums of the large counter take long
	send := func(counter *cloudCounter, n int) {
		counter.increment(&w.store)
		long := knownLong.Load()
		all.Go(func() {
			time.Sleep(20 * time.Millisecond)
			began := time.Now()
			e := rollup.Event{ID: fmt.Sprint(w.events.Add(1))}
			if _, err := w.instances[n%len(w.instances)].changed(counter.Counter, e); err != nil {
				w.t.Errorf("an event that came %v after the last roll-up: %v", began.Sub(counter.covered), err)
			}
			held := time.Since(began)
			if counter == small && held > time.Second {
				w.t.Errorf("an event of the small counter was held for %v", held)
			}
			if counter == big && long && held > time.Second {
				w.t.Errorf("an event of the large counter was held for %v", held)
			}
		})
	}
	all.Go(func() {
		for n := range int(lasts / (7 * time.Second)) {
			time.Sleep(7 * time.Second)
			send(small, n)
		}
	})
	send(big, 0) // the first roll-up of a counter: until then no one knows how large it is
	time.Sleep(10*time.Second + 3*takes)
	synctest.Wait()
	knownLong.Store(takes > hold/4)
	big.sums.Store(0)
	big.looks.Store(0)
	first := big.rollUps()

	var last time.Time
	every := time.Duration(float64(time.Second) / rate)
	for n := range int(float64(lasts) / float64(every)) {
		time.Sleep(every)
		last = time.Now()
		send(big, n)
	}
	all.Wait()
	time.Sleep(2*own + 5*takes + time.Minute)
	synctest.Wait()

	rollUps := big.rollUps() - first
	big.mu.Lock() // one more sum may be under way
	end, lags := big.shown.Sub(last), slices.Clone(big.lags)
	big.mu.Unlock()
	sums := float64(big.sums.Load()) / float64(rollUps)
	billed := float64(big.sums.Load()) * reads
	if most := readsPerSecond*lasts.Seconds() + reads; own > cadence && billed > most {
		w.t.Errorf("its sums billed %.0f reads in %v, want at most %.0f", billed, lasts, most)
	}
	if sums > 1.5 {
		w.t.Errorf("%.2f sums a roll-up", sums)
	}
	if end > max(own, takes)+takes+5*time.Second {
		w.t.Errorf("the last change showed after %v; the cadence is %v, and a sum takes %v", end, own, takes)
	}
	if *largeTable {
		seconds := lasts.Seconds()
		fmt.Printf("| %d | %v | %d | %d | %.1f | %.2f | %.1f | %.2f | %.2f | %.1f | %v | %v | %v |\n", w.documents, rate, len(w.instances), w.bound, billed/seconds,
			billed/seconds*24*60*60*0.03/100_000, float64(rollUps)/seconds*60, sums, float64(big.looks.Load())/seconds, float64(w.queue.made.Load())/seconds*60,
			percentile(lags, 0.5), percentile(lags, 0.99), end.Round(100*time.Millisecond))
	}
	time.Sleep(time.Hour)
	w.exact()
}

// A stranger has many counters changed all the time. While the queue keeps up with one alarm of
// each in a cadence, they delay those of another by what it takes for one alarm of each, at most.
// If there are more, alarms come later and later: docs/limits.md says so.
//
// With -sim.large, the stranger has 10,000 counters and a queue of the 500 calls a second that
// Cloud Tasks makes: twice what it can call.
func TestJunkDelaysAlarms(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}

	junk, perSecond := 900, 100
	const lasts = 2 * time.Minute
	most := 10*time.Second + 9*time.Second + 5*time.Second // the cadence, an alarm of each, and what a roll-up takes
	if *largeTable {
		junk, perSecond = 10_000, 500
		most = 10*time.Second + lasts + 20*time.Second
	}
	synctest.Test(t, func(t *testing.T) {
		w := &large{bound: readsPerSecond, cloud: &cloud{t: t, cadence: cadence, burst: 5, call: 10 * time.Millisecond, byRollUp: make(map[string]*cloudCounter)}}
		for n := range junk + 1 {
			counter := mustCounter(route.Default+" : cadence 10s", fmt.Sprintf("counters/%d/shards", n))
			w.add(&cloudCounter{Counter: counter, shard: shardsOf(counter) + "/0"})
		}
		w.queue = &cloudQueue{cloud: w.cloud, names: make(map[rollup.Alarm]bool), dispatch: &rateLimit{rate: float64(perSecond)}}
		for n := range 3 {
			w.startAlarmed(n)
		}

		var all sync.WaitGroup
		send := func(counter *cloudCounter, n int) {
			counter.increment(&w.store)
			all.Go(func() {
				e := rollup.Event{ID: fmt.Sprint(w.events.Add(1))}
				if _, err := w.instances[n%3].changed(counter.Counter, e); err != nil {
					t.Error(err)
				}
			})
		}
		for n, counter := range w.counters[1:] {
			all.Go(func() {
				for began := time.Now(); time.Since(began) < lasts; {
					send(counter, n)
					time.Sleep(4 * time.Second)
				}
			})
		}

		time.Sleep(lasts / 2)
		own := w.counters[0]
		for n := range 20 { // a burst, whose end waits for its alarm
			send(own, n)
			time.Sleep(100 * time.Millisecond)
		}
		last := time.Now()
		all.Wait()
		time.Sleep(time.Hour)

		if late := own.covered.Sub(last); late > most {
			t.Errorf("the last change showed after %v, want at most %v", late, most)
		} else {
			t.Logf("the last change showed after %v, next to %d counters with %d alarms a second", late, junk, perSecond)
		}
		w.exact()
	})
}

// A cloudQueue rings alarms a little late, at any instance.
type cloudQueue struct {
	*cloud
	dispatch *rateLimit // nil: none

	made atomic.Int64 // calls that make alarms

	mu    sync.Mutex
	names map[rollup.Alarm]bool
}

func (q *cloudQueue) Create(_ context.Context, a rollup.Alarm) error {
	time.Sleep(30 * time.Millisecond)
	q.made.Add(1)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.names[a] {
		return nil
	}
	q.names[a] = true

	go func() {
		time.Sleep(a.At.Sub(q.store.Now()) + 50*time.Millisecond)
		if q.dispatch != nil {
			q.dispatch.wait(context.Background())
		}
		to := q.instances[rand.IntN(len(q.instances))]
		counter := q.byRollUp[a.RollUp]
		if _, err := to.coalescer.HandleAlarm(context.Background(), a, route.Routes(counter.Template.Routes)); err != nil {
			q.t.Error(err)
		}
	}()
	return nil
}
