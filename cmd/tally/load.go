package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/firestore-tally/tally/internal/billing"
	"github.com/firestore-tally/tally/internal/eventrelay"
	"github.com/firestore-tally/tally/shards"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
)

// A load increments counters on a stack and watches what becomes of it.
type load struct {
	demo     *demo
	stack    *stack
	counters []*watched
	progress *progress
}

// usage is what a stack was used for until some moment.
type usage struct {
	events eventrelay.Stats
	billed billing.Counts
}

func newLoad(d *demo, s *stack, progress *progress) *load {
	l := &load{demo: d, stack: s, progress: progress}
	for n := range d.counters {
		id := fmt.Sprintf("demo-%0*d", len(strconv.Itoa(d.counters)), n+1) // of one length, to be sorted
		l.counters = append(l.counters, &watched{id: id, shards: shards.New(s.clients[0], "counters/"+id)})
	}
	return l
}

// run creates the counters, increments them alone and then all together, and waits until the
// roll-ups cover everything.
func (l *load) run(ctx context.Context) (result, error) {
	var (
		quiet  []time.Duration
		before usage     // the counters are created by then
		began  time.Time // the load
	)
	listening, stop := context.WithCancel(ctx)
	defer stop()
	work, working := errgroup.WithContext(ctx)
	var starting sync.WaitGroup
	for _, w := range l.counters {
		starting.Add(1)
		work.Go(func() error { return w.listen(listening, l.stack.clients[0], sync.OnceFunc(starting.Done)) })
	}
	work.Go(func() (err error) {
		defer stop()
		starting.Wait() // the emulator tells a listener nothing of a commit that falls into its beginning
		for _, w := range l.counters {
			if err := w.shards.Create(working, l.demo.shards); err != nil {
				return err
			}
		}
		if err := l.settle(working); err != nil {
			return err
		}
		if before, err = l.usage(); err != nil {
			return err
		}
		for _, w := range l.counters {
			w.forgetRollUps()
		}
		l.progress.describe("lone increments on idle counters")
		if quiet, err = l.quiet(working); err != nil {
			return err
		}
		l.progress.describe("increments from all clients")
		began = time.Now()
		if err := l.busy(working, l.demo.load()); err != nil {
			return err
		}
		l.progress.describe("waiting for the last roll-ups")
		return l.settle(working)
	})
	if err := work.Wait(); err != nil {
		return result{}, err
	}
	return l.result(ctx, before, quiet, began)
}

// settle waits until the roll-ups cover every increment and every event is acknowledged.
func (l *load) settle(ctx context.Context) error {
	for _, w := range l.counters {
		if err := w.awaitCovered(ctx); err != nil {
			return err
		}
	}
	return l.stack.relay.Wait(ctx)
}

func (l *load) usage() (usage, error) {
	billed, err := l.stack.billed()
	return usage{l.stack.relay.Stats(), billed}, err
}

// maxQuietRounds is how many lone increments each counter gets, if there are enough.
const maxQuietRounds = 3

// idleAfter is how long after its last roll-up a counter is idle: it has been forgotten after two
// cadences; half a cadence is for slow machines.
func idleAfter(cadence time.Duration) time.Duration { return cadence * 5 / 2 }

// quiet increments idle counters, one at a time, and returns the lags.
func (l *load) quiet(ctx context.Context) ([]time.Duration, error) {
	idle := idleAfter(l.stack.config.Cadence)
	var lags []time.Duration
	for range l.demo.quietRounds() {
		for _, w := range l.counters {
			if err := sleep(ctx, time.Until(w.lastRollUp().Add(idle))); err != nil {
				return nil, err
			}
			if err := l.increment(ctx, w); err != nil {
				return nil, err
			}
			if err := w.awaitCovered(ctx); err != nil {
				return nil, err
			}
			lags = append(lags, w.takeLags()...)
		}
	}
	return lags, nil
}

// busy makes n increments at the demo's rate.
func (l *load) busy(ctx context.Context, n int) error {
	limiter := rate.NewLimiter(rate.Limit(l.demo.rate), 1)
	turns := make(chan int)
	clients, ctx := errgroup.WithContext(ctx)
	clients.Go(func() error {
		defer close(turns)
		for turn := range n {
			if l.demo.kill && turn == n/2 {
				killed := l.stack.instance(0)
				killed.kill()
				fmt.Fprintf(l.demo.stack.logs, "tally: killed functions process %d; starting another\n", killed.cmd.Process.Pid)
				clients.Go(func() error { return l.stack.startInstance(ctx, 0) })
			}
			if err := limiter.Wait(ctx); err != nil {
				return err
			}
			select {
			case turns <- turn:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	})
	for range l.demo.clients {
		clients.Go(func() error {
			for turn := range turns {
				if err := l.increment(ctx, l.counters[turn%len(l.counters)]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return clients.Wait()
}

// retryPause is the time between an increment that Firestore refused and the next try.
const retryPause = 200 * time.Millisecond

// increment increments a counter by 1. An increment that Firestore refused for sure is repeated.
func (l *load) increment(ctx context.Context, w *watched) error {
	for {
		committed, err := w.shards.Increment(ctx, 1)
		switch {
		case err == nil:
			w.incremented(committed)
			l.progress.add()
			return nil
		case errors.Is(err, shards.ErrInDoubt):
			w.doubted()
			l.progress.add()
			return nil
		}
		if ctx.Err() == nil {
			w.wasRefused(err)
		}
		if err := sleep(ctx, retryPause); err != nil {
			return err
		}
	}
}

// missing says what a load that is not done waits for.
func (l *load) missing() string {
	var all []string
	acknowledged := 0
	for _, w := range l.counters {
		n, what := w.missing()
		acknowledged += n
		if what != "" {
			all = append(all, what)
		}
	}
	events := l.stack.relay.Stats()
	all = append(all, fmt.Sprintf("%d of %d increments and %d of %d events are acknowledged", acknowledged, l.demo.increments, events.Acknowledged, events.Events))
	return strings.Join(all, "; ")
}

// result compares what was acknowledged with what was rolled up.
func (l *load) result(ctx context.Context, before usage, quiet []time.Duration, began time.Time) (result, error) {
	now, err := l.usage()
	if err != nil {
		return result{}, err
	}
	r := result{
		Increments:  l.demo.increments,
		Expected:    make(map[string]int64),
		RolledUp:    make(map[string]int64),
		Exact:       true,
		Events:      now.events.Events - before.events.Events,
		Redelivered: now.events.Redelivered + now.events.Duplicated - before.events.Redelivered - before.events.Duplicated,
		RollUps:     now.billed.Writes - before.billed.Writes,
		Reads:       now.billed.Reads - before.billed.Reads,
		wrong:       make(map[string]bool),
	}
	lags := slices.Clone(quiet)
	var last time.Time
	for _, w := range l.counters {
		rollUp, err := w.shards.RollUp(ctx)
		if err != nil {
			return result{}, err
		}
		r.compare(w.id, w.acknowledged, w.inDoubt, rollUp.Total)
		r.Seen += len(w.updates)
		r.WritesPerSecond = max(r.WritesPerSecond, w.mostWithin(time.Second))
		lags = append(lags, w.takeLags()...)
		if w.seen.After(last) {
			last = w.seen
		}
	}
	r.Seconds = max(0, last.Sub(began).Seconds()) // without a load, the last roll-up was before it
	r.Lag = lag{P50: percentile(lags, 0.50), P99: percentile(lags, 0.99), Max: percentile(lags, 1)}
	if len(quiet) > 0 {
		r.QuietLag = &quietLag{P50: percentile(quiet, 0.50)}
	}
	return r, nil
}

// compare adds a counter to the result. Each increment in doubt may be in the total or not.
func (r *result) compare(id string, acknowledged, inDoubt int64, total shards.Total) {
	n, isInteger := total.Int64()
	r.Expected[id], r.RolledUp[id] = acknowledged, n
	r.Acknowledged += int(acknowledged)
	r.InDoubt += inDoubt
	if !isInteger || n < acknowledged || n > acknowledged+inDoubt {
		r.Exact = false
		r.wrong[id] = true
	}
}

// percentile returns, in milliseconds, the least lag that at least the share p of all are not
// above. It is 0 without any.
func percentile(lags []time.Duration, p float64) float64 {
	if len(lags) == 0 {
		return 0
	}
	lags = slices.Sorted(slices.Values(lags))
	i := int(float64(len(lags))*p+0.999999) - 1
	return float64(lags[min(max(i, 0), len(lags)-1)].Microseconds()) / 1000
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func sortedKeys(m map[string]int64) []string { return slices.Sorted(maps.Keys(m)) }
