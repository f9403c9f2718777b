package rollup_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/memstore"
	"github.com/firestore-tally/tally/rollup"
)

// BenchmarkAbsorb is one event that finds a generation open: of many counters in turn, from many
// goroutines. The time is that of the wall, over all goroutines' events.
func BenchmarkAbsorb(b *testing.B) {
	for _, counters := range []int{1, 100, 10_000, 100_000} {
		b.Run(fmt.Sprintf("counters=%d", counters), func(b *testing.B) {
			for _, goroutines := range []int{1, 2, 4, 8, 16} {
				b.Run(fmt.Sprintf("goroutines=%d", goroutines), func(b *testing.B) { benchmarkAbsorb(b, counters, goroutines) })
			}
		})
	}
}

func benchmarkAbsorb(b *testing.B, counters, goroutines int) {
	all := make([]rollup.Counter, counters)
	for i := range all {
		all[i] = mustCounter(rollup.DefaultRoute, fmt.Sprintf("counters/%d/shards", i))
	}
	c := openGenerations(b, all)

	ids := make([]string, 1024)
	for i := range ids {
		ids[i] = fmt.Sprintf("96bc57ab-f152-4422-8432-%012d", i)
	}
	ctx := b.Context()
	b.ReportAllocs()
	b.ResetTimer()
	var work sync.WaitGroup
	for g := range goroutines {
		work.Go(func() {
			// 7919 is prime, so that each goroutine comes by every counter, and not in their order.
			for i, n := g, g*counters/goroutines; i < b.N; i, n = i+goroutines, (n+7919)%counters {
				if err := c.Changed(ctx, all[n], ids[i%len(ids)]); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	work.Wait()
	b.StopTimer()
}

// openGenerations returns a coalescer that has a generation open of each counter, until the benchmark
// ends.
func openGenerations(b *testing.B, counters []rollup.Counter) *rollup.Coalescer {
	store := &stuck{entered: make(chan struct{}), release: make(chan struct{})}
	c := rollup.NewCoalescer(store, rollup.Options{Cadence: time.Second, Timeout: time.Hour, Logger: slog.New(slog.DiscardHandler)})
	// The first anchors' generations close as the looks begin. Those anchors are not needed any more.
	// The second ones' stay open.
	var first, second sync.WaitGroup
	ctx, cancelFirst := context.WithCancel(b.Context())
	for _, counter := range counters {
		first.Go(func() { _ = c.Changed(ctx, counter, "first") })
	}
	for range counters {
		<-store.entered
	}
	cancelFirst()
	first.Wait()
	ctx, cancelSecond := context.WithCancel(b.Context())
	for _, counter := range counters {
		second.Go(func() { _ = c.Changed(ctx, counter, "second") })
	}
	for c.Open() < len(counters) {
		runtime.Gosched()
	}
	b.Cleanup(func() {
		cancelSecond()
		second.Wait()
		close(store.release)
		for c.Active() > 0 {
			runtime.Gosched()
		}
	})
	return c
}

// A stuck store's looks begin, and do not end until it is released.
type stuck struct {
	memstore.Store
	entered, release chan struct{}
}

func (s *stuck) View(context.Context, rollup.Counter, func(rollup.Snapshot) error) error {
	s.entered <- struct{}{}
	<-s.release
	return nil
}
