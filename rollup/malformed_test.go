package rollup_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

// However often a counter with malformed shards is visited, it is counted once. It is counted even
// if its first visit failed, or found that another tick had just rolled it up.
func TestKeepCountsMalformedCounters(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.increment(1)
		w.store.Put(shardsOf(likes)+"/1", map[string]any{"count": "x"})
		w.store.Put("counters/b/shards/0", map[string]any{"count": math.NaN()})
		w.store.Put("counters/c/shards/0", map[string]any{"count": int64(1)})
		w.wantKeep(time.Now().Add(3*every+time.Second), rollup.KeepReport{Counters: 3, RolledUp: 3, Unchanged: 9, Malformed: 2})
		time.Sleep(every)
		var failed atomic.Bool
		w.beforeView = func(int32) error {
			if failed.CompareAndSwap(false, true) {
				return errors.New("unavailable")
			}
			return nil
		}
		w.wantKeep(time.Now().Add(3*every+time.Second), rollup.KeepReport{Counters: 3, Unchanged: 12, Malformed: 2})
	})
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.increment(1)
		w.store.Put(shardsOf(likes)+"/1", map[string]any{"count": "x"})
		w.wantKeep(time.Time{}, rollup.KeepReport{Counters: 1, RolledUp: 1, Malformed: 1})
		time.Sleep(every / 2)
		w.wantKeep(time.Now().Add(every), rollup.KeepReport{Counters: 1, Unchanged: 1, Malformed: 1})
	})
}

// At most five malformed shards are named, once in ten minutes for each counter, whether events or
// the schedule sum them.
func TestMalformedShardsAreNamedOnceInAWhile(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		for i := range 20 {
			w.store.Put(fmt.Sprintf("%s/%02d", shardsOf(likes), i), map[string]any{"count": "x"})
		}
		w.store.Put("counters/other/shards/0", map[string]any{"count": nil})
		other, _ := likes.Template.Routes[0].Counter("counters/other/shards")
		events := 0
		change := func(counter route.Counter) {
			t.Helper()
			events++
			if _, err := c.HandleEvent(w.t.Context(), rollup.Event{ID: fmt.Sprint("e", events)}, route.Concern{Counter: counter}); err != nil {
				t.Error(err)
			}
		}
		named := func(want ...string) {
			t.Helper()
			var got []string
			for line := range strings.Lines(w.log.String()) {
				if strings.Contains(line, "left out of the sum") {
					got = append(got, line)
				}
			}
			w.log.Reset()
			if len(got) != len(want) {
				t.Fatalf("%d lines, want %d:\n%s", len(got), len(want), got)
			}
			for i, line := range got {
				if !strings.Contains(line, "level=WARN") || !strings.Contains(line, want[i]) {
					t.Errorf("got %s\nwant %s", line, want[i])
				}
			}
		}
		const five = `counter=rollups/likes event_id=e1 count=20 shards="[counters/likes/shards/00: count is a string, not a number counters/likes/shards/01: count is a string, not a number ` +
			`counters/likes/shards/02: count is a string, not a number counters/likes/shards/03: count is a string, not a number counters/likes/shards/04: count is a string, not a number]"`
		began := time.Now()
		change(likes)
		named(five)
		change(other)
		named(`counter=rollups/other event_id=e2 count=1 shards="[counters/other/shards/0: count is null, not a number]"`)
		for time.Since(began) < 10*time.Minute-10*time.Second {
			change(likes)
			time.Sleep(9 * time.Second)
		}
		named()
		time.Sleep(time.Until(began.Add(10 * time.Minute)))
		change(likes)
		change(likes)
		named(strings.Replace(five, "event_id=e1", fmt.Sprint("event_id=e", events-1), 1))
	})
}

// If the malformed shards cannot be named, the log says how many they are, and why it names none.
// The sum is valid all the same.
func TestMalformedShardsAreNotNamed(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.increment(1)
		w.store.Put(shardsOf(likes)+"/1", map[string]any{"count": "x"})
		c := rollup.NewCoalescer(unnamed{traced{w.store, w}}, w.options(0))
		w.acknowledged(w.deliver(c, "e"))
		w.wantTotal(1)
		if log := w.log.String(); !strings.Contains(log, "counter=rollups/likes event_id=e count=1 error=unavailable shards=[]") {
			t.Errorf("logged:\n%s", log)
		}
	})
}

// unnamed is a store that cannot name malformed shards.
type unnamed struct{ traced }

func (s unnamed) View(ctx context.Context, c route.Counter) (rollup.Snapshot, error) {
	v, err := s.traced.View(ctx, c)
	return unnamedSnapshot{v}, err
}

type unnamedSnapshot struct{ rollup.Snapshot }

func (unnamedSnapshot) Malformed(context.Context, int) ([]string, error) { return nil, errStore }

// However often a tick visits a counter, it says once which shards the sum left out.
func TestKeepNamesMalformedShards(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.store.Put(shardsOf(likes)+"/0", map[string]any{"count": "x"})
		w.wantKeep(time.Now().Add(20*every), rollup.KeepReport{Counters: 1, RolledUp: 3, Unchanged: 18, Malformed: 1})
		if n := strings.Count(w.log.String(), "left out of the sum"); n != 1 {
			t.Errorf("named %d times", n)
		}
	})
}
