package rollup_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
)

// every is how often the schedule rolls up scheduled, which is likes by another route.
const every = 10 * time.Second

var scheduled = mustCounter(route.Default+" : every "+every.String(), shardsOf(likes))

// Every counter is rolled up once in D until the tick's time is over. The tick lists them once.
func TestKeepGoesRound(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		for name, age := range map[string]time.Duration{"a": time.Hour, "b": 3 * time.Hour, "c": 2 * time.Hour} {
			w.store.Put("rollups/"+name, rolledUp(int64(1), 1, time.Now().Add(-age)))
		}
		names := []string{"a", "b", "c", "new"}
		increment := func() {
			for _, name := range names {
				w.store.Increment("counters/"+name+"/shards/0", "count", 1)
			}
		}
		increment()
		began := time.Now()
		go func() {
			for range 40 {
				time.Sleep(time.Second)
				increment()
			}
		}()
		var pages atomic.Int64
		store := hooked{AuditStore: traced{w.store, w}, page: func(by, *route.Template, string) error { pages.Add(1); return nil }}
		var wrote attempts
		report, err := rollup.Keep(w.t.Context(), wrote.of(store), scheduled.Template.Routes, w.keepOptions(1, began.Add(35*time.Second)))
		if d := cmp.Diff(rollup.KeepReport{Counters: 4, RolledUp: 16}, ageless(report)); d != "" || err != nil {
			t.Errorf("%v: report (-want +got):\n%s", err, d)
		}
		for _, name := range names {
			if gaps := wrote.gaps("rollups/" + name); !slices.Equal(gaps, []time.Duration{every, every, every}) {
				t.Errorf("%s was rolled up with gaps of %v", name, gaps)
			}
		}
		if n := pages.Load(); n != 2 {
			t.Errorf("%d pages were listed, want one of roll-ups and one of all", n)
		}
		if took := time.Since(began).Round(time.Millisecond); took != 30*time.Second {
			t.Errorf("it took %v, want no longer than its last roll-up", took)
		}
	})
}

// Counters beyond a page are kept too, and no more at once than the caller says.
func TestKeepOfManyCounters(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		const n = 350
		for i := range n {
			w.store.Increment(fmt.Sprintf("counters/%d/shards/0", i), "count", int64(i))
		}
		var mu sync.Mutex
		var now, most int
		store := hooked{AuditStore: traced{w.store, w}, view: func(context.Context, route.Counter) error {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			time.Sleep(10 * time.Millisecond)
			mu.Lock()
			now--
			mu.Unlock()
			return nil
		}}
		report, err := w.keep(store, time.Time{}, nil)
		if d := cmp.Diff(rollup.KeepReport{Counters: n, RolledUp: n}, ageless(report)); d != "" || err != nil {
			t.Errorf("%v: report (-want +got):\n%s", err, d)
		}
		if most != 4 {
			t.Errorf("%d counters were in work at once, want 4", most)
		}
		for i := range n {
			if got := w.store.Get(fmt.Sprint("rollups/", i))["count"]; got != int64(i) {
				t.Errorf("rollups/%d holds %v", i, got)
			}
		}
	})
}

// A tick that has more counters than time begins none after its time, and says how many are left of
// the counters that it has found. The call does not fail.
func TestKeepBeginsNoCounterLate(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		for i := range 400 {
			w.store.Increment(fmt.Sprintf("counters/%d/shards/0", i), "count", 1)
		}
		w.duringView = func(int32) { time.Sleep(time.Second) }
		until := time.Now().Add(every)
		report, err := w.keep(traced{w.store, w}, until, nil)
		if late := time.Since(until); late > time.Second || err != nil || report.RolledUp < 36 || report.RolledUp > 44 || report.Left < 100 || report.Left > 250 {
			t.Errorf("%v late: %+v, %v; want four counters a second for %v", late, report, err, every)
		}
	})
}

// Totals that did not change are not written.
func TestKeepLeavesUnchangedTotals(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.increment(3)
		began := time.Now()
		w.wantKeep(began.Add(5*every), rollup.KeepReport{Counters: 1, RolledUp: 1, Unchanged: 5})
		w.called(6, 6, 1)
		if _, asOf := w.rollUp(); asOf.After(began) {
			t.Errorf("as_of moved by %v", asOf.Sub(began))
		}
	})
}

// A +1 and a −1 between two ticks leave the total as it was. Both clients wait for an as_of that
// covers them, so it is written all the same once it is 10 D old, and not more often.
func TestKeepRenewsAsOf(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.increment(3)
		var wrote attempts
		began := time.Now()
		time.AfterFunc(every*3/2, func() { w.increment(1); w.increment(-1) })
		report, err := w.keep(traced{w.store, w}, began.Add(25*every), &wrote)
		if d := cmp.Diff(rollup.KeepReport{Counters: 1, RolledUp: 3, Unchanged: 23}, ageless(report)); d != "" || err != nil {
			t.Errorf("%v: report (-want +got):\n%s", err, d)
		}
		if gaps := wrote.gaps(likes.RollUp); !slices.Equal(gaps, []time.Duration{10 * every, 10 * every}) {
			t.Errorf("rolled up with gaps of %v, want two of 10 D", gaps)
		}
		w.wantTotal(3)
	})
}

// When the sources are deleted the totals go to zeros, and an hour later the roll-up goes. Zeros
// are not written again, or that hour would never be over.
func TestKeepWithoutSources(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.increment(3)
		w.wantKeep(time.Time{}, rollup.KeepReport{Counters: 1, RolledUp: 1})
		w.store.Delete(shardsOf(likes) + "/0")
		time.Sleep(every)
		w.wantKeep(time.Time{}, rollup.KeepReport{Counters: 1, RolledUp: 1})
		_, emptied := w.rollUp()
		if d := cmp.Diff(zeros(emptied), w.store.Get(likes.RollUp), ignorePace); d != "" {
			t.Errorf("roll-up (-want +got):\n%s", d)
		}
		time.Sleep(every)
		w.wantKeep(emptied.Add(time.Hour), rollup.KeepReport{Counters: 1, Unchanged: 360})
		if _, asOf := w.rollUp(); !asOf.Equal(emptied) {
			t.Errorf("zeros were written again, %v later", asOf.Sub(emptied))
		}
		time.Sleep(every)
		w.wantKeep(time.Time{}, rollup.KeepReport{Counters: 1, Removed: 1})
		if got := w.store.Get(likes.RollUp); got != nil {
			t.Errorf("left %v", got)
		}
		w.wantKeep(time.Time{}, rollup.KeepReport{})
	})
}

// Ticks that overlap roll a counter up no more often than one does, and the totals are right.
func TestKeepsOverlap(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.duringView = func(n int32) { time.Sleep(time.Duration(n%7) * 30 * time.Millisecond) }
		var wrote attempts
		var all sync.WaitGroup
		n := int64(0)
		all.Go(func() {
			for range 1200 {
				w.increment(1)
				n++
				time.Sleep(100 * time.Millisecond)
			}
		})
		for i := range 12 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 8 * time.Second)
				report, err := w.keep(traced{w.store, w}, time.Now().Add(25*time.Second), &wrote)
				if err != nil || report.Failed != 0 {
					t.Errorf("tick %d: %+v, %v", i, report, err)
				}
			})
		}
		all.Wait()
		time.Sleep(every)
		if report, err := w.keep(traced{w.store, w}, time.Time{}, &wrote); err != nil {
			t.Errorf("%+v, %v", report, err)
		}
		w.wantTotal(n)
		gaps := wrote.gaps(likes.RollUp)
		for _, gap := range gaps {
			if gap < every {
				t.Errorf("two roll-ups within %v", gap)
			}
		}
		if len(gaps) < 9 {
			t.Errorf("only %d roll-ups in two minutes", len(gaps)+1)
		}
	})
}

// A tick that is cut off ends at once, says which counters it did not keep, and leaves the rest to
// the next.
func TestKeepIsCutOff(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		for i := range 10 {
			w.store.Increment(fmt.Sprintf("counters/%d/shards/0", i), "count", int64(i))
		}
		cut := errors.New("the platform's time is over")
		ctx, cancel := context.WithCancelCause(w.t.Context())
		began := time.Now()
		time.AfterFunc(2500*time.Millisecond, func() { cancel(cut) })
		store := hooked{AuditStore: traced{w.store, w}, view: func(ctx context.Context, _ route.Counter) error {
			timer := time.NewTimer(time.Second)
			defer timer.Stop()
			select {
			case <-timer.C:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}}
		report, err := rollup.Keep(ctx, store, scheduled.Template.Routes, w.keepOptions(2, began.Add(time.Hour)))
		if took := time.Since(began); took != 2500*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		if report.Counters != 6 || report.RolledUp != 4 || report.Failed != 2 || report.Left != 4 || err == nil || !strings.Contains(strings.Join(report.Errors, "\n"), cut.Error()) {
			t.Errorf("got %+v, %v; want 4 rolled up, 2 failed and 4 left", report, err)
		}
		time.Sleep(every)
		w.wantKeep(time.Time{}, rollup.KeepReport{Counters: 10, RolledUp: 6, Unchanged: 4})
		for i := range 10 {
			if got := w.store.Get(fmt.Sprint("rollups/", i))["count"]; got != int64(i) {
				t.Errorf("rollups/%d holds %v", i, got)
			}
		}
	})
}

// A counter that fails is tried again, and does not keep a tick from the others.
func TestKeepGoesOnAfterFailures(t *testing.T) {
	for _, test := range []struct {
		name     string
		failures int
		want     rollup.KeepReport
	}{
		{"four times", 4, rollup.KeepReport{Counters: 3, RolledUp: 3}},
		{"every time", math.MaxInt, rollup.KeepReport{Counters: 3, RolledUp: 2, Failed: 1, Errors: []string{"rollup: rollups/1 not kept: unavailable"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, func(w *world, _ *rollup.Coalescer) {
				for i := range 3 {
					w.store.Increment(fmt.Sprintf("counters/%d/shards/0", i), "count", 1)
				}
				failed := 0
				store := hooked{AuditStore: traced{w.store, w}, view: func(_ context.Context, c route.Counter) error {
					if c.RollUp == "rollups/1" && failed < test.failures {
						failed++
						return errors.New("unavailable")
					}
					return nil
				}}
				report, err := w.keep(store, time.Time{}, nil)
				if d := cmp.Diff(test.want, ageless(report)); d != "" {
					t.Errorf("report (-want +got):\n%s", d)
				}
				if (err != nil) != (test.want.Failed > 0) {
					t.Errorf("error %v", err)
				}
				if failed > 5 {
					t.Errorf("tried %d times", failed)
				}
			})
		})
	}
}

// A report names what went wrong in one order.
func TestKeepReportIsSorted(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		var want rollup.KeepReport
		for i := range 8 {
			w.store.Increment(fmt.Sprintf("counters/%d/shards/0", i), "count", 1)
			w.store.Increment(fmt.Sprintf("counters/full-%d/shards/0", i), "count", 1)
			want.Errors = append(want.Errors, fmt.Sprintf("rollup: rollups/%d not kept: unavailable", i))
			want.UnkeptCounters = append(want.UnkeptCounters, fmt.Sprintf("rollups/full-%d: %v", i, rollup.ErrUnkept))
		}
		want.Counters, want.Failed, want.Unkept = 16, 8, 8

		store := hooked{AuditStore: traced{w.store, w}, view: func(_ context.Context, c route.Counter) error {
			if strings.HasPrefix(c.RollUp, "rollups/full-") {
				return rollup.ErrUnkept
			}
			return errors.New("unavailable")
		}}
		report, _ := w.keep(store, time.Time{}, nil)
		if d := cmp.Diff(want, ageless(report)); d != "" {
			t.Errorf("report (-want +got):\n%s", d)
		}
	})
}

// A write that was refused or lost is tried again, and counted once.
func TestKeepTriesAgain(t *testing.T) {
	for name, lost := range map[string]error{"refused": rollup.ErrConflict, "answer lost": errors.New("answer lost")} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world, _ *rollup.Coalescer) {
				w.aroundWrite = func(n int32, write func() error) error {
					if n == 1 {
						return lost
					}
					return write()
				}
				w.increment(1)
				w.wantKeep(time.Time{}, rollup.KeepReport{Counters: 1, RolledUp: 1})
				w.wantTotal(1)
				w.called(2, 2, 2)
			})
		})
	}
}

// A write to the roll-up between a tick's look and its removal keeps the roll-up.
func TestKeepRemovesWhatItSaw(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.store.Put(likes.RollUp, zeros(time.Now()))
		time.Sleep(2 * time.Hour)
		w.duringView = func(n int32) {
			if n == 1 {
				w.increment(3)
				w.rollUpElsewhere()
			}
		}
		w.wantKeep(time.Time{}, rollup.KeepReport{Counters: 1})
		w.wantTotal(3)
	})
}

// A counter that fails all the time is tried at a low rate, and once it works again no failure is
// left of it.
func TestKeepRecovers(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.increment(1)
		began := time.Now()
		looks := 0
		store := hooked{AuditStore: traced{w.store, w}, view: func(context.Context, route.Counter) error {
			looks++
			if time.Since(began) < time.Minute {
				return errors.New("unavailable")
			}
			return nil
		}}
		report, err := w.keep(store, began.Add(2*time.Minute), nil)
		if report.Failed != 0 || err != nil {
			t.Errorf("%+v, %v", report, err)
		}
		w.wantTotal(1)
		if looks > 140 { // a pause of half a cadence at least
			t.Errorf("%d looks", looks)
		}
	})
}

// A page that cannot be read keeps a tick neither from what it has found nor from the other routes.
func TestKeepGoesOnAfterAPage(t *testing.T) {
	routes, err := route.Parse("a/{a}/b/{b} -> c/{a} : count : every 10s; " + scheduled.Template.Routes[0].String() + "; live/{l}/s/{s} -> live_totals/{l} : count")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		by   by
		want int
	}{{byShards, 251}, {byRollUp, 102}} { // the new one is found by its shards alone
		inWorld(t, func(w *world, _ *rollup.Coalescer) {
			for i := range 250 { // three pages
				w.store.Increment(fmt.Sprintf("a/%03d/b/0", i), "count", 1)
				w.store.Put(fmt.Sprintf("c/%03d", i), rolledUp(int64(0), 1, time.Now()))
			}
			w.store.Increment("a/new/b/0", "count", 1)
			w.store.Increment("live/x/s/0", "count", 1)
			w.increment(7)
			store := hooked{AuditStore: traced{w.store, w}, page: func(by by, r *route.Template, from string) error {
				if r == routes[0].Template && by == test.by && (from != "" || by == byShards) {
					return errors.New("no index")
				}
				return nil
			}}
			report, err := rollup.Keep(w.t.Context(), store, routes, w.keepOptions(4, time.Time{}))
			if report.Counters != test.want || report.Failed != 0 || err == nil || strings.Count(err.Error(), "rollup: finding the ") != 1 {
				t.Errorf("got %+v, %v; want %d counters and one problem", report, err, test.want)
			}
			w.wantTotal(7)
			if got := w.store.Get("live_totals/x"); got != nil {
				t.Errorf("a live route was kept: %v", got)
			}
		})
	}
}

// A write leaves in tally the names of its routes' totals, and as former the names that other
// routes kept, whose fields stay.
func TestFormerTotals(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		old := document.Tally{AsOf: time.Now().Add(-time.Hour), NumShards: 1, Routes: "old", Totals: []string{"count", "views"}, Former: []string{"ratings", "views", "count"}}
		w.store.Put(likes.RollUp, map[string]any{"count": int64(1), "views": int64(2), "ratings": int64(3), "title": "x", "tally": old.Encode()})
		w.increment(5)
		w.wantKeep(time.Time{}, rollup.KeepReport{Counters: 1, RolledUp: 1})
		got := w.store.Get(likes.RollUp)
		tally := document.DecodeTally(got["tally"])
		if !slices.Equal(tally.Totals, []string{"count"}) || !slices.Equal(tally.Former, []string{"ratings", "views"}) || tally.Routes != likes.Template.Hash() {
			t.Errorf("tally %+v", tally)
		}
		delete(got, "tally")
		if d := cmp.Diff(map[string]any{"count": int64(5), "views": int64(2), "ratings": int64(3), "title": "x"}, got); d != "" {
			t.Errorf("document (-want +got):\n%s", d)
		}
	})
}
