package rollup_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/firestore-tally/tally/rollup"
	"github.com/google/go-cmp/cmp"
)

func (w *world) sweep() (rollup.Report, error) {
	return rollup.Sweep(w.t.Context(), traced{w.store, w}, rollup.Routes{likes.Route}, 4, w.options(0))
}

func (w *world) wantSweep(want rollup.Report) {
	w.t.Helper()
	got, err := w.sweep()
	if d := cmp.Diff(want, got); d != "" || err != nil {
		w.t.Errorf("error %v, report (-want +got):\n%s", err, d)
	}
}

func TestSweepRepairsWhatDiffers(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		for i := range 50 {
			w.store.Increment(fmt.Sprintf("counters/%d/shards/0", i), "count", int64(i))
		}
		w.wantSweep(rollup.Report{Counters: 50, RolledUp: 50})
		w.called(50, 50, 50)
		w.wantSweep(rollup.Report{Counters: 50, Unchanged: 50})
		w.called(50, 50, 0)
		time.Sleep(10 * cadence)
		w.store.Increment("counters/7/shards/1", "count", 1)
		w.wantSweep(rollup.Report{Counters: 50, RolledUp: 1, Unchanged: 49})
		for i := range 50 {
			want := int64(i)
			if i == 7 {
				want++
			}
			if got := w.store.Get(fmt.Sprint("rollups/", i))["count"]; got != want {
				t.Errorf("rollups/%d holds %v, want %d", i, got, want)
			}
		}
	})
}

func TestSweepRepairsEveryDifference(t *testing.T) {
	asOf := time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC) // before virtual time begins
	right := map[string]any{"count": 0.75, "num_shards": int64(2), "as_of": asOf}
	with := func(field string, v any) map[string]any {
		m := map[string]any{"count": right["count"], "num_shards": right["num_shards"], "as_of": asOf}
		m[field] = v
		return m
	}
	for name, test := range map[string]struct {
		fields map[string]any
		repair bool
	}{
		"equal":                   {right, false},
		"a rounding step away":    {with("count", 0.75+1e-15), false},
		"another total":           {with("count", 0.7500001), true},
		"an integer":              {with("count", int64(1)), true},
		"total of another type":   {with("count", "0.75"), true},
		"another shard count":     {with("num_shards", int64(3)), true},
		"no as_of":                {with("as_of", nil), true},
		"as_of in the future":     {with("as_of", asOf.AddDate(100, 0, 0)), true},
		"no such document":        {nil, true},
		"a document of the app's": {map[string]any{"title": "x"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world, _ *rollup.Coalescer) {
				w.store.Put(likes.Shards+"/0", map[string]any{"count": 0.5})
				w.store.Put(likes.Shards+"/1", map[string]any{"count": 0.25})
				if test.fields != nil {
					w.store.Put(likes.RollUp, test.fields)
				}
				want := rollup.Report{Counters: 1, Unchanged: 1}
				if test.repair {
					want = rollup.Report{Counters: 1, RolledUp: 1}
				}
				w.wantSweep(want)
				if got, _ := w.rollUp(); test.repair && got != 0.75 {
					t.Errorf("total is %v after the sweep", got)
				}
			})
		})
	}
}

// A sweep keeps to the cadence, and leaves to the trigger what the trigger does meanwhile.
func TestSweepKeepsToTheCadence(t *testing.T) {
	for _, rolledUp := range []bool{false, true} {
		inWorld(t, func(w *world, _ *rollup.Coalescer) {
			began := time.Now()
			w.increment(1)
			w.rollUpElsewhere()
			w.increment(1)
			if rolledUp {
				time.AfterFunc(cadence/2, func() { w.rollUpElsewhere() })
			}
			want := rollup.Report{Counters: 1, RolledUp: 1}
			if rolledUp {
				want = rollup.Report{Counters: 1, Unchanged: 1}
			}
			w.wantSweep(want)
			w.wantTotal(2)
			if waited := time.Since(began).Round(time.Millisecond); waited != cadence*110/100 {
				t.Errorf("it took %v, want a tenth more than a cadence, so that the writer goes first", waited)
			}
		})
	}
}

func TestSweepsOverlapWithTheTrigger(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		var all sync.WaitGroup
		for i := range 500 {
			w.increment(1)
			all.Go(func() {
				if err := c.Changed(w.t.Context(), likes, fmt.Sprint("e", i)); err != nil {
					t.Error(err)
				}
			})
			if i%100 == 0 {
				all.Go(func() {
					if report, err := w.sweep(); err != nil {
						t.Errorf("%+v: %v", report, err)
					}
				})
			}
			time.Sleep(10 * time.Millisecond)
		}
		all.Wait()
		w.wantTotal(500)
	})
}

func TestSweepGoesOnAfterFailures(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		broken := errors.New("unavailable")
		w.beforeView = func(n int32) error {
			if n <= 5 {
				return broken
			}
			return nil
		}
		for i := range 3 {
			w.store.Increment(fmt.Sprintf("counters/%d/shards/0", i), "count", 1)
		}
		began := time.Now()
		report, err := rollup.Sweep(w.t.Context(), traced{w.store, w}, rollup.Routes{likes.Route}, 1, w.options(0))
		if waited := time.Since(began); waited != 175*time.Millisecond { // none, then half of 50, 100 and 200 ms
			t.Errorf("five failures took %v", waited)
		}
		if report.Failed != 1 || report.RolledUp != 2 || len(report.Errors) != 1 || !strings.Contains(report.Errors[0], "rollups/0") {
			t.Errorf("got %+v, want the first counter failed and two rolled up", report)
		}
		if err == nil || !strings.Contains(err.Error(), "1 of 3 counters failed") {
			t.Errorf("got %v", err)
		}
	})
}

func TestSweepEndsWithItsContext(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		for i := range 10 {
			w.store.Increment(fmt.Sprintf("counters/%d/shards/0", i), "count", 1)
		}
		ctx, cancel := context.WithCancelCause(w.t.Context())
		late := errors.New("late")
		w.duringView = func(n int32) {
			if n == 3 {
				cancel(late)
			}
		}
		report, err := rollup.Sweep(ctx, traced{w.store, w}, rollup.Routes{likes.Route}, 1, w.options(0))
		if !errors.Is(err, late) || report.RolledUp != 2 {
			t.Errorf("got %+v and %v, want 2 rolled up and the cause", report, err)
		}
	})
}

// Without shards, a document that Tally never wrote stays as it is.
func TestSweepLeavesOtherDocumentsAlone(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.store.Put(likes.Shards+"/0", map[string]any{"other": int64(1)})
		w.wantSweep(rollup.Report{Counters: 1, Unchanged: 1})
		if got := w.store.Get(likes.RollUp); got != nil {
			t.Errorf("created %v", got)
		}
	})
}

func TestSweepTriesAgain(t *testing.T) {
	for name, lost := range map[string]error{"conflict": rollup.ErrConflict, "unknown": errors.New("answer lost")} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world, _ *rollup.Coalescer) {
				w.aroundWrite = func(n int32, write func() error) error {
					if n == 1 {
						return lost
					}
					return write()
				}
				w.increment(1)
				w.wantSweep(rollup.Report{Counters: 1, RolledUp: 1})
				w.wantTotal(1)
			})
		})
	}
}

// A counter that never rests is the trigger's: the first roll-up as of the sweep's first look or later is enough.
func TestSweepOfBusyCounter(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.increment(1)
		w.rollUpElsewhere()
		w.duringView = func(int32) { w.increment(1) }
		w.increment(1)
		time.AfterFunc(cadence/2, func() { w.rollUpElsewhere(); w.increment(1) })
		w.wantSweep(rollup.Report{Counters: 1, Unchanged: 1})
		w.called(2, 1, 0)
	})
}

func TestSweepKeepsFirstErrorsAndAllRoutes(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		routes, err := rollup.ParseRoutes("counters/{c}/shards/{s} -> rollups/{c} : count; x/{c}/shards/{s} -> y/{c} : likes, views")
		if err != nil {
			t.Fatal(err)
		}
		w.store.Put("x/1/shards/0", map[string]any{"likes": int64(1), "views": int64(2)})
		w.store.Put("y/1", map[string]any{"likes": int64(1), "views": int64(7), "num_shards": int64(1), "as_of": time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)})
		report, err := rollup.Sweep(w.t.Context(), traced{w.store, w}, routes, 1, w.options(0))
		if err != nil || report.RolledUp != 1 || w.store.Get("y/1")["views"] != int64(2) {
			t.Errorf("%+v, %v", report, err)
		}
		for i := range 20 {
			w.store.Increment(fmt.Sprintf("counters/%d/shards/0", i), "count", 1)
		}
		w.beforeView = func(int32) error { return errors.New("unavailable") }
		report, _ = rollup.Sweep(w.t.Context(), traced{w.store, w}, routes, 1, w.options(0))
		if report.Failed != 21 || len(report.Errors) != 10 {
			t.Errorf("%d failed, %d errors", report.Failed, len(report.Errors))
		}
		if n := strings.Count(w.log.String(), "counter not swept"); n != 21 {
			t.Errorf("%d lines", n)
		}
	})
}

// No shards, a roll-up that Tally wrote: zeros.
func TestSweepOfEmptyCounter(t *testing.T) {
	for name, asOf := range map[string]time.Time{"past": time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC), "future": time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC)} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world, _ *rollup.Coalescer) {
				w.store.Put(likes.Shards+"/0", map[string]any{"other": int64(1)}) // found, but no shard of the route's
				w.store.Put(likes.RollUp, map[string]any{"count": int64(9), "num_shards": int64(2), "as_of": asOf})
				w.wantSweep(rollup.Report{Counters: 1, RolledUp: 1})
				w.wantTotal(0)
			})
		})
	}
}

func TestSweepOfLargeTotals(t *testing.T) {
	for name, test := range map[string]struct{ shard, total any }{
		"an integer one off":  {int64(1<<53 + 1), int64(1 << 53)},
		"a double 1e-10 off":  {1e6, 1e6 + 1e-4},
		"infinite":            {0.5, math.Inf(1)},
		"NaN":                 {0.5, math.NaN()},
		"a double for an int": {int64(3), 3.0},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world, _ *rollup.Coalescer) {
				w.store.Put(likes.Shards+"/0", map[string]any{"count": test.shard})
				w.store.Put(likes.RollUp, map[string]any{"count": test.total, "num_shards": int64(1), "as_of": time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)})
				w.wantSweep(rollup.Report{Counters: 1, RolledUp: 1})
			})
		})
	}
	inWorld(t, func(w *world, _ *rollup.Coalescer) { // a rounding step of a large double is no difference
		w.store.Put(likes.Shards+"/0", map[string]any{"count": 1e9 + 0.5})
		w.store.Put(likes.RollUp, map[string]any{"count": math.Nextafter(1e9+0.5, 2e9), "num_shards": int64(1), "as_of": time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)})
		w.wantSweep(rollup.Report{Counters: 1, Unchanged: 1})
	})
}

func TestSweepEndsWhileItWaits(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.rollUpElsewhere()
		w.increment(1)
		late := errors.New("late")
		ctx, cancel := context.WithCancelCause(w.t.Context())
		time.AfterFunc(cadence/4, func() { cancel(late) })
		began := time.Now()
		report, err := rollup.Sweep(ctx, traced{w.store, w}, rollup.Routes{likes.Route}, 1, w.options(0))
		if !errors.Is(err, late) {
			t.Errorf("got %v, want the cause", err)
		}
		if waited := time.Since(began).Round(time.Millisecond); waited != cadence/4 || report.Failed != 1 || !strings.Contains(fmt.Sprint(report.Errors), "late") {
			t.Errorf("%v %+v", waited, report)
		}
		w.called(1, 1, 0)
	})
}
