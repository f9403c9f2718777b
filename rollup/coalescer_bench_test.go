package rollup_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/test/memstore"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

// BenchmarkAbsorb is one event that finds a generation open: of many counters in turn, from many
// goroutines. The time is wall time, over all goroutines' events.
func BenchmarkAbsorb(b *testing.B) {
	for _, counters := range []int{1, 100, 10_000, 100_000} {
		b.Run(fmt.Sprintf("counters=%d", counters), func(b *testing.B) {
			all := make([]route.Counter, counters)
			for i := range all {
				all[i] = mustCounter(route.Default, fmt.Sprintf("counters/%d/shards", i))
			}
			c := openGenerations(b, all)
			for _, goroutines := range []int{1, 2, 4, 8, 16} {
				b.Run(fmt.Sprintf("goroutines=%d", goroutines), func(b *testing.B) { benchmarkAbsorb(b, c, all, goroutines) })
			}
		})
	}
}

func benchmarkAbsorb(b *testing.B, c *rollup.Coalescer, counters []route.Counter, goroutines int) {
	ids := make([]string, 1024)
	for i := range ids {
		ids[i] = eventID(i)
	}
	ctx := b.Context()
	b.ReportAllocs()
	b.ResetTimer()
	var work sync.WaitGroup
	for g := range goroutines {
		work.Go(func() {
			// 7919 is prime, so that each goroutine comes by every counter, and not in their order.
			for i, n := g, g*len(counters)/goroutines; i < b.N; i, n = i+goroutines, (n+7919)%len(counters) {
				if _, err := c.HandleEvent(ctx, rollup.Event{ID: ids[i%len(ids)]}, route.Concern{Counter: counters[n]}); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	work.Wait()
}

// eventID returns the id of an event, of the length that Firestore's have.
func eventID(n int) string { return fmt.Sprintf("96bc57ab-f152-4422-8432-%012d", n) }

// openGenerations returns a coalescer that has a generation open of each counter, until the
// benchmark ends.
func openGenerations(b *testing.B, counters []route.Counter) *rollup.Coalescer {
	store := &stuck{entered: make(chan struct{}), release: make(chan struct{})}
	c := rollup.NewCoalescer(store, rollup.Options{Cadence: time.Second, Timeout: time.Hour, Logger: slog.New(slog.DiscardHandler)})
	// The first anchors' generations close as the looks begin. Those anchors are not needed any
	// more. The second ones' stay open.
	releaseFirst := holdAnchors(b, c, counters, 1e6)
	for range counters {
		<-store.entered
	}
	releaseFirst()
	releaseSecond := holdAnchors(b, c, counters, 2e6)
	b.Cleanup(func() {
		releaseSecond()
		close(store.release)
		for active(c) > 0 {
			runtime.Gosched()
		}
	})
	return c
}

// holdAnchors sends an event of each counter and returns when all are held, and how to let them go.
func holdAnchors(b *testing.B, c *rollup.Coalescer, counters []route.Counter, id int) (release func()) {
	ctx, cancel := context.WithCancel(b.Context())
	held := make(chan struct{})
	var all sync.WaitGroup
	for n, counter := range counters {
		all.Go(func() {
			_, _ = c.HandleEvent(anchored{ctx, held}, rollup.Event{ID: eventID(id + n)}, route.Concern{Counter: counter})
		})
	}
	for range counters {
		<-held
	}
	return func() {
		cancel()
		all.Wait()
	}
}

// An anchored event's context tells when it is waited for, which only an anchor's is.
type anchored struct {
	context.Context
	held chan struct{}
}

func (a anchored) Done() <-chan struct{} {
	a.held <- struct{}{}
	return a.Context.Done()
}

// A stuck store's looks begin, and do not end until it is released.
type stuck struct {
	memstore.Store
	entered, release chan struct{}
}

func (s *stuck) View(context.Context, route.Counter) (rollup.Snapshot, error) {
	s.entered <- struct{}{}
	<-s.release
	return nil, errors.New("released")
}
