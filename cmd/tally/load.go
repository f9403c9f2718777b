package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/firestore-tally/tally/shards"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
)

// A load increments counters on a stack and watches what becomes of it.
type load struct {
	demo     *demo
	stack    *stack
	counters []*watched
	progress *progressbar.ProgressBar

	mu     sync.Mutex
	failed int // increments of which nobody knows whether they were applied
}

func newLoad(d *demo, s *stack, progress *progressbar.ProgressBar) *load {
	l := &load{demo: d, stack: s, progress: progress}
	for n := range d.counters {
		id := fmt.Sprintf("demo-%d", n+1)
		l.counters = append(l.counters, &watched{id: id, shards: shards.New(s.client, "counters/"+id)})
	}
	return l
}

// run creates the counters, increments them alone and then all together, and waits until the
// roll-ups cover everything.
func (l *load) run(ctx context.Context) (result, error) {
	began := time.Now()
	var quiet []time.Duration
	listening, stop := context.WithCancel(ctx)
	defer stop()
	work, working := errgroup.WithContext(ctx)
	for _, w := range l.counters {
		work.Go(func() error { return w.listen(listening, l.stack.client) })
	}
	work.Go(func() (err error) {
		defer stop()
		for _, w := range l.counters {
			if err := w.shards.Create(working, l.demo.shards); err != nil {
				return err
			}
		}
		l.progress.Describe("lone increments on idle counters")
		if quiet, err = l.quiet(working); err != nil {
			return err
		}
		l.progress.Describe("increments from all clients")
		if err := l.busy(working, l.demo.increments-len(quiet)); err != nil {
			return err
		}
		l.progress.Describe("waiting for the last roll-ups")
		for _, w := range l.counters {
			if err := w.awaitCovered(working); err != nil {
				return err
			}
		}
		return l.stack.relay.Wait(working)
	})
	if err := work.Wait(); err != nil {
		return result{}, err
	}
	return l.result(ctx, quiet, time.Since(began))
}

// quietRounds is how many lone increments each counter gets.
const quietRounds = 3

// quiet increments idle counters, one at a time, and returns the lags.
func (l *load) quiet(ctx context.Context) ([]time.Duration, error) {
	// A counter is idle when it has been forgotten, two cadences after its last roll-up; half a
	// cadence is for slow machines.
	idle := l.stack.config.Cadence * 5 / 2
	for _, w := range l.counters {
		if err := w.awaitCovered(ctx); err != nil {
			return nil, err
		}
	}
	var lags []time.Duration
	for range min(quietRounds, l.demo.increments/len(l.counters)) {
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

// increment increments a counter by 1. An increment that Firestore refused for sure is repeated.
func (l *load) increment(ctx context.Context, w *watched) error {
	for {
		committed, err := w.shards.Increment(ctx, 1)
		switch {
		case err == nil:
			w.incremented(committed)
			_ = l.progress.Add(1)
			return nil
		case errors.Is(err, shards.ErrInDoubt):
			l.mu.Lock()
			defer l.mu.Unlock()
			l.failed++
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
	}
}

// result compares what was acknowledged with what was rolled up.
func (l *load) result(ctx context.Context, quiet []time.Duration, took time.Duration) (result, error) {
	billed, err := l.stack.billed()
	if err != nil {
		return result{}, err
	}
	events := l.stack.relay.Stats()
	r := result{
		Increments:  l.demo.increments,
		Expected:    make(map[string]int64),
		RolledUp:    make(map[string]int64),
		Exact:       true,
		Events:      events.Events,
		Redelivered: events.Redelivered + events.Duplicated,
		RollUps:     billed.Writes,
		Reads:       billed.Reads,
		Seconds:     took.Seconds(),
	}
	lags := slices.Clone(quiet)
	for _, w := range l.counters {
		rollUp, err := w.shards.RollUp(ctx)
		if err != nil {
			return result{}, err
		}
		r.compare(w.id, w.acknowledged, rollUp.Total)
		r.WritesPerSecond = max(r.WritesPerSecond, w.mostWithin(time.Second))
		lags = append(lags, w.takeLags()...)
	}
	r.Lag = lag{P50: percentile(lags, 0.50), P99: percentile(lags, 0.99), Max: percentile(lags, 1)}
	r.QuietLag = quietLag{P50: percentile(quiet, 0.50)}
	return r, nil
}

// compare adds a counter to the result.
func (r *result) compare(id string, acknowledged int64, total shards.Total) {
	n, isInteger := total.Int64()
	r.Expected[id], r.RolledUp[id] = acknowledged, n
	r.Acknowledged += int(acknowledged)
	r.Exact = r.Exact && isInteger && n == acknowledged
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
