package growth_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firestore-tally/tally/internal/cloud/growth"
	"github.com/firestore-tally/tally/internal/test/memstore"
	"github.com/firestore-tally/tally/rollup/route"
)

// onItsWay is how long an event takes: by then its shard may have been written again.
const onItsWay = 700 * time.Millisecond

// grown returns how many shards a counter has that began with n, after its shards were written for
// a while. The function next returns which is written next, of how many, and after what time.
func grown(t *testing.T, n int64, while time.Duration, next func(of int64) (shard int64, after time.Duration)) (has int64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		routes, err := route.Parse(route.Default)
		if err != nil {
			t.Fatal(err)
		}
		store := new(memstore.Store)
		store.Put("counters/a", map[string]any{"num_shards": n, "auto_shards": true})
		for i := range n {
			store.Put(fmt.Sprint("counters/a/shards/", i), map[string]any{"count": int64(0)})
		}

		g := growth.New(store, routes, slog.New(slog.DiscardHandler))
		written := make(map[string]time.Time)
		for began := time.Now(); time.Since(began) < while; {
			has = store.Get("counters/a")["num_shards"].(int64)
			shard, after := next(has)
			time.Sleep(after)

			path := fmt.Sprint("counters/a/shards/", shard)
			since := time.Since(written[path])
			written[path] = time.Now()
			store.Increment(path, "count", 1)
			go func() {
				time.Sleep(onItsWay)
				g.HandleWrite(t.Context(), path, since)
			}()
		}
		time.Sleep(onItsWay)
		has = store.Get("counters/a")["num_shards"].(int64)
	})
	return has
}

// One client floods one shard. If there are few shards, it is most of them, and tells little of the
// others.
func TestFloodOfOneShard(t *testing.T) {
	for n, most := range map[int64]int64{1: 10, 2: 2, 3: 3, 10: 10} {
		has := grown(t, n, 5*time.Minute, func(int64) (int64, time.Duration) { return 0, 5 * time.Millisecond })
		if has > most {
			t.Errorf("%d shards have become %d, want at most %d", n, has, most)
		}
	}
}

// A counter that begins with one shard ends with about as many as its increments need.
func TestGrowsFromOneShard(t *testing.T) {
	for rate, want := range map[float64][2]int64{5: {10, 10}, 50: {60, 160}} {
		for seed := range uint64(4) {
			random := rand.New(rand.NewPCG(seed, 1))
			has := grown(t, 1, 20*time.Minute, func(of int64) (int64, time.Duration) {
				return random.Int64N(of), time.Duration(random.ExpFloat64() / rate * float64(time.Second))
			})
			if has < want[0] || has > want[1] {
				t.Errorf("at %v increments a second there are %d shards, want %v", rate, has, want)
			}
		}
	}
}
