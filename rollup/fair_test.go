package rollup_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firestore-tally/tally/internal/test/memstore"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

var fairCounters = flag.Int("sim.counters", 4000, "the most counters that TestTickIsFair keeps, and that TestAtRest audits")

// A crowded database is one of which far more waits to be kept than there is time: by ticks that
// follow one another, each a process of its own, of which some are killed.
type crowded struct {
	memstore.Store
	t        *testing.T
	counters int
	junk     float64 // what part of them is
	keeps    bool    // the junk keeps changing; else it is new all the time, and changes once
	maxReads int64   // of a tick

	reads  atomic.Int64
	visits atomic.Int64

	mu   sync.Mutex
	real map[string]*real // by path of the roll-up
}

// A real counter is one that somebody looks at.
type real struct {
	shard  string
	behind []time.Time // commits that no roll-up covers
	oldest time.Duration
}

const (
	perSecond = 160 // visits: about what the deployed third of a processor makes
	slots     = 32
	aTick     = time.Minute
)

func (w *crowded) options() rollup.KeepOptions {
	return rollup.KeepOptions{
		Options:     rollup.Options{Cadence: cadence, Timeout: hold, Logger: slog.New(slog.DiscardHandler)},
		Concurrency: slots, Until: time.Now().Add(aTick), MaxReads: w.maxReads, Reads: w.readsSince(w.reads.Load()),
	}
}

func (w *crowded) readsSince(before int64) func() int64 {
	return func() int64 { return w.reads.Load() - before }
}

func (w *crowded) View(ctx context.Context, c route.Counter) (rollup.Snapshot, error) {
	w.visits.Add(1)
	w.reads.Add(2)
	if err := wait(ctx, time.Second*slots/perSecond); err != nil {
		return nil, err
	}
	if w.keeps && strings.HasPrefix(c.RollUp, "rollups/junk") {
		w.Increment(shardsOf(c)+"/0", "count", 1)
	}
	return w.Store.View(ctx, c)
}

func (w *crowded) Write(ctx context.Context, c route.Counter, r rollup.RollUp) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.Store.Write(ctx, c, r); err != nil {
		return err
	}
	is := w.real[c.RollUp]
	for is != nil && len(is.behind) > 0 && !is.behind[0].After(r.Tally.AsOf) {
		is.oldest = max(is.oldest, w.Now().Sub(is.behind[0]))
		is.behind = is.behind[1:]
	}
	return nil
}

func (w *crowded) RollUps(ctx context.Context, t *route.Template, from string, limit int) (rollup.Page, error) {
	p, err := w.Store.RollUps(ctx, t, from, limit)
	w.reads.Add(int64(max(1, len(p.Found))))
	return p, cmpErr(err, wait(ctx, 50*time.Millisecond))
}

func (w *crowded) Missing(ctx context.Context, r *route.Route, since time.Time, from string, limit int) (rollup.Page, error) {
	p, err := w.Store.Missing(ctx, r, since, from, limit)
	w.reads.Add(int64(max(1, 2*len(p.Found))))
	return p, cmpErr(err, wait(ctx, 50*time.Millisecond*time.Duration(1+len(p.Found)/16)))
}

func cmpErr(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// wait takes some time.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// change increments a real counter.
func (w *crowded) change(rollUp string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	is := w.real[rollUp]
	is.behind = append(is.behind, w.Increment(is.shard, "count", 1))
}

// add adds a real counter.
func (w *crowded) add(name string) string {
	c := mustCounter(scheduled.Template.Routes[0].String(), "counters/"+name+"/shards")
	w.real[c.RollUp] = &real{shard: shardsOf(c) + "/0"}
	return c.RollUp
}

const hot = "hot"

// run runs ticks for that long, and returns how late changes of the hot counter and of any other
// real counter were rolled up at most.
func (w *crowded) run(long time.Duration) (hottest, slowest time.Duration) {
	w.real = make(map[string]*real)
	junk := int(w.junk * float64(w.counters))
	var names []string
	for n := range max(1, w.counters-junk) - 1 {
		names = append(names, w.add(fmt.Sprintf("r%05d", n*7919%100_000)))
	}
	hotName := w.add(hot)
	for path := range w.real { // a counter that is new in the midst of a tick is found by the next
		w.change(path)
	}
	random := rand.New(rand.NewPCG(1, 2))

	living, end := context.WithTimeout(context.Background(), long)
	defer end()
	var others sync.WaitGroup
	every100ms := func(f func(n int)) {
		others.Go(func() {
			for n := 0; wait(living, 100*time.Millisecond) == nil; n++ {
				f(n)
			}
		})
	}
	every100ms(func(int) { w.change(hotName) })
	if len(names) > 0 {
		every100ms(func(int) { w.change(names[random.IntN(len(names))]) })
	}
	made := 0
	makeJunk := func(until int) {
		for ; made < min(until, junk); made++ {
			w.Increment(fmt.Sprintf("counters/junk%05d/shards/0", made*7907%100_000), "count", 1)
		}
	}
	if w.keeps {
		makeJunk(junk)
	}
	steps := int(long / (100 * time.Millisecond))
	every100ms(func(n int) { makeJunk(junk * (n + 1) / steps) })

	for n := 0; living.Err() == nil; n++ {
		ctx, cancel := context.WithCancel(context.Background())
		if n%4 == 3 {
			time.AfterFunc(aTick*2/3, cancel) // it is killed, and called again at once
		}
		report, err := rollup.Keep(ctx, w, scheduled.Template.Routes, w.options())
		if err != nil && ctx.Err() == nil {
			w.t.Errorf("%+v, %v", report, err)
		}
		cancel()
	}
	others.Wait()

	for path, is := range w.real {
		late := is.oldest
		if len(is.behind) > 0 {
			late = max(late, w.Now().Sub(is.behind[0]))
		}
		if path == hotName {
			hottest = late
		} else {
			slowest = max(slowest, late)
		}
	}
	return hottest, slowest
}

// Whatever there is of junk, a counter's age is at most the counters of its class by their rate. A
// counter that keeps changing is as fresh as its route says, however much junk is new or does not
// change; among junk that keeps changing it waits for its turn. One that changes now and then waits
// for all counters at the rate of the rest.
//
//	go test ./rollup -run TestTickIsFair -v -sim.counters=100000 -timeout=30m
func TestTickIsFair(t *testing.T) {
	t.Parallel()
	for _, counters := range cellsOf([]int{10, 1000, 4000, 100_000}, func(n int) bool { return n == 10 }) {
		if counters > *fairCounters {
			continue
		}
		for _, junk := range []float64{0, 0.5, 0.999} {
			for _, keeps := range []bool{false, true} {
				if junk == 0 && keeps {
					continue
				}
				t.Run(fmt.Sprintf("%d counters, junk %v, keeps changing %v", counters, junk, keeps), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						w := &crowded{t: t, counters: counters, junk: junk, keeps: keeps}
						round := time.Duration(counters) * time.Second / perSecond
						hottest, slowest := w.run(3*round + 5*aTick)
						t.Logf("a round of all takes %v; the hot counter was %v old, any other %v; %d visits", round, hottest, slowest, w.visits.Load())

						// A change waits for the visit that is due, and for one before it that had begun.
						const slack = 2*every + 3*time.Second
						wantHot := slack
						if keeps {
							wantHot += time.Duration(junk*float64(counters)) * time.Second / (perSecond * 3 / 5)
						}
						if hottest > wantHot {
							t.Errorf("the hot counter was %v old, want at most %v", hottest, wantHot)
						}
						if want := slack + 2*round*5; slowest > want {
							t.Errorf("another counter was %v old, want at most %v", slowest, want)
						}
					})
				})
			}
		}
	}
}
