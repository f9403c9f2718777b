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

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
)

// auditOptions are the options of an audit that repairs at once.
func (w *world) auditOptions() rollup.AuditOptions {
	return rollup.AuditOptions{Options: w.options(0), Concurrency: 4}
}

func (w *world) audit(o rollup.AuditOptions) (rollup.Report, error) {
	return rollup.Audit(w.t.Context(), traced{w.store, w}, likes.Template.Routes, o)
}

// wantAudit wants an audit to come to the end and to count this.
func (w *world) wantAudit(o rollup.AuditOptions, want rollup.Report) {
	w.t.Helper()
	got, err := w.audit(o)
	if !got.Complete || err != nil {
		w.t.Errorf("%+v: %v", got, err)
	}
	if d := cmp.Diff(want, counts(got)); d != "" {
		w.t.Errorf("report (-want +got):\n%s", d)
	}
}

// counts returns what the report counts of counters.
func counts(r rollup.Report) rollup.Report {
	r.Waiting = 0
	r.Complete, r.Cursor, r.Cycle, r.Since = false, "", 0, 0
	return r
}

func TestAuditRepairsWhatDiffers(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		for i := range 50 {
			w.store.Increment(fmt.Sprintf("counters/%d/shards/0", i), "count", int64(i))
		}
		w.wantAudit(w.auditOptions(), rollup.Report{Counters: 50, RolledUp: 50, Missing: 50})
		w.called(50, 50, 50)
		w.wantAudit(w.auditOptions(), rollup.Report{Counters: 50, Unchanged: 50})
		w.called(0, 50, 0) // its roll-up was found with the counter
		time.Sleep(10 * cadence)
		w.store.Increment("counters/7/shards/1", "count", 1)
		w.wantAudit(w.auditOptions(), rollup.Report{Counters: 50, RolledUp: 1, Unchanged: 49})
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

func TestAuditRepairsEveryDifference(t *testing.T) {
	asOf := time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC) // before virtual time begins
	right := rolledUp(0.75, 2, asOf)
	with := func(field string, v any) map[string]any {
		m := rolledUp(0.75, 2, asOf)
		if field != "count" {
			m["tally"].(map[string]any)[field] = v
		} else {
			m[field] = v
		}
		return m
	}
	for name, test := range map[string]struct {
		fields map[string]any
		repair bool
		kinds  rollup.Report
	}{
		"equal":                   {right, false, rollup.Report{}},
		"a rounding step away":    {with("count", 0.75+1e-15), false, rollup.Report{}},
		"another total":           {with("count", 0.7500001), true, rollup.Report{}},
		"an integer":              {with("count", int64(1)), true, rollup.Report{}},
		"total of another type":   {with("count", "0.75"), true, rollup.Report{}},
		"another shard count":     {with("num_shards", int64(3)), true, rollup.Report{}},
		"no as_of":                {with("as_of", nil), true, rollup.Report{Unwritten: 1, UnwrittenExample: "rollups/likes: count is 0.75"}},
		"as_of in the future":     {with("as_of", asOf.AddDate(100, 0, 0)), true, rollup.Report{Missing: 1}},
		"no such document":        {nil, true, rollup.Report{Missing: 1}},
		"a document of the app's": {map[string]any{"title": "x"}, true, rollup.Report{Missing: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world, _ *rollup.Coalescer) {
				w.store.Put(shardsOf(likes)+"/0", map[string]any{"count": 0.5})
				w.store.Put(shardsOf(likes)+"/1", map[string]any{"count": 0.25})
				if test.fields != nil {
					w.store.Put(likes.RollUp, test.fields)
				}
				want := test.kinds
				want.Counters, want.Unchanged = 1, 1
				if test.repair {
					want.RolledUp, want.Unchanged = 1, 0
				}
				w.wantAudit(w.auditOptions(), want)
				if got, _ := w.rollUp(); test.repair && got != 0.75 {
					t.Errorf("total is %v after the audit", got)
				}
			})
		})
	}
}

// An audit keeps to the cadence, and leaves to the trigger what the trigger does meanwhile.
func TestAuditKeepsToTheCadence(t *testing.T) {
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
			w.wantAudit(w.auditOptions(), want)
			w.wantTotal(2)
			if waited := time.Since(began).Round(time.Millisecond); waited != cadence*110/100 {
				t.Errorf("it took %v, want a tenth more than a cadence, so that the writer goes first", waited)
			}
		})
	}
}

func TestAuditsOverlapWithTheTrigger(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		var all sync.WaitGroup
		for i := range 500 {
			w.increment(1)
			all.Go(func() {
				if _, err := c.HandleEvent(w.t.Context(), rollup.Event{ID: fmt.Sprint("e", i)}, route.Concern{Counter: likes}); err != nil {
					t.Error(err)
				}
			})
			if i%100 == 0 {
				all.Go(func() {
					if report, err := w.audit(w.auditOptions()); err != nil {
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

func TestAuditGoesOnAfterFailures(t *testing.T) {
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
		o := w.auditOptions()
		o.Concurrency = 1
		report, err := w.audit(o)
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

func TestAuditEndsWithItsContext(t *testing.T) {
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
		o := w.auditOptions()
		o.Concurrency = 1
		report, err := rollup.Audit(ctx, traced{w.store, w}, likes.Template.Routes, o)
		if !errors.Is(err, late) || report.RolledUp != 2 || report.Complete || strings.Contains(err.Error(), "cursor") {
			t.Errorf("got %+v and %v, want 2 rolled up and the cause alone", report, err)
		}
	})
}

// Without shards, a document that Tally never wrote stays as it is.
func TestAuditLeavesOtherDocumentsAlone(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.store.Put(shardsOf(likes)+"/0", map[string]any{"other": int64(1)})
		w.wantAudit(w.auditOptions(), rollup.Report{Counters: 1, Unchanged: 1})
		if got := w.store.Get(likes.RollUp); got != nil {
			t.Errorf("created %v", got)
		}
	})
}

func TestAuditTriesAgain(t *testing.T) {
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
				w.wantAudit(w.auditOptions(), rollup.Report{Counters: 1, RolledUp: 1, Missing: 1})
				w.wantTotal(1)
			})
		})
	}
}

// A counter that never rests is the trigger's: the first roll-up as of the audit's first look or
// later is enough.
func TestAuditOfBusyCounter(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.increment(1)
		w.rollUpElsewhere()
		w.duringView = func(int32) { w.increment(1) }
		w.increment(1)
		time.AfterFunc(cadence/2, func() { w.rollUpElsewhere(); w.increment(1) })
		w.wantAudit(w.auditOptions(), rollup.Report{Counters: 1, Unchanged: 1})
		w.called(2, 2, 0)
	})
}

func TestAuditKeepsFirstErrorsAndAllRoutes(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		routes, err := route.Parse("counters/{c}/shards/{s} -> rollups/{c} : count; x/{c}/shards/{s} -> y/{c} : likes, views")
		if err != nil {
			t.Fatal(err)
		}
		w.store.Put("x/1/shards/0", map[string]any{"likes": int64(1), "views": int64(2)})
		w.store.Put("y/1", map[string]any{"likes": int64(1), "views": int64(7), "tally": document.Tally{NumShards: 1, AsOf: time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC), Routes: routes[1].Template.Hash()}.Encode()})
		o := w.auditOptions()
		o.Concurrency = 1
		report, err := rollup.Audit(w.t.Context(), traced{w.store, w}, routes, o)
		if err != nil || report.RolledUp != 1 || w.store.Get("y/1")["views"] != int64(2) {
			t.Errorf("%+v, %v", report, err)
		}
		for i := range 20 {
			w.store.Increment(fmt.Sprintf("counters/%d/shards/0", i), "count", 1)
		}
		w.beforeView = func(int32) error { return errors.New("unavailable") }
		report, _ = rollup.Audit(w.t.Context(), traced{w.store, w}, routes, o)
		if report.Failed != 20 || len(report.Errors) != 10 { // y/1 agrees
			t.Errorf("%d failed, %d errors", report.Failed, len(report.Errors))
		}
		if n := strings.Count(w.log.String(), "counter not audited"); n != 20 {
			t.Errorf("%d lines", n)
		}
	})
}

func TestAuditOfLargeTotals(t *testing.T) {
	for name, test := range map[string]struct{ shard, total any }{
		"an integer one off":  {int64(1<<53 + 1), int64(1 << 53)},
		"a double 1e-10 off":  {1e6, 1e6 + 1e-4},
		"infinite":            {0.5, math.Inf(1)},
		"NaN":                 {0.5, math.NaN()},
		"a double for an int": {int64(3), 3.0},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world, _ *rollup.Coalescer) {
				w.store.Put(shardsOf(likes)+"/0", map[string]any{"count": test.shard})
				w.store.Put(likes.RollUp, rolledUp(test.total, 1, time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)))
				w.wantAudit(w.auditOptions(), rollup.Report{Counters: 1, RolledUp: 1})
			})
		})
	}
	inWorld(t, func(w *world, _ *rollup.Coalescer) { // a rounding step of a large double does not count as a difference
		w.store.Put(shardsOf(likes)+"/0", map[string]any{"count": 1e9 + 0.5})
		w.store.Put(likes.RollUp, rolledUp(math.Nextafter(1e9+0.5, 2e9), 1, time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)))
		w.wantAudit(w.auditOptions(), rollup.Report{Counters: 1, Unchanged: 1})
	})
}

func TestAuditEndsWhileItWaits(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.rollUpElsewhere()
		w.increment(1)
		late := errors.New("late")
		ctx, cancel := context.WithCancelCause(w.t.Context())
		time.AfterFunc(cadence/4, func() { cancel(late) })
		began := time.Now()
		o := w.auditOptions()
		o.Concurrency = 1
		report, err := rollup.Audit(ctx, traced{w.store, w}, likes.Template.Routes, o)
		if !errors.Is(err, late) {
			t.Errorf("got %v, want the cause", err)
		}
		if waited := time.Since(began).Round(time.Millisecond); waited != cadence/4 || report.Failed != 1 || !strings.Contains(fmt.Sprint(report.Errors), "late") {
			t.Errorf("%v %+v", waited, report)
		}
		w.called(1, 2, 0)
	})
}

// A route that says "every" expects no events, so its differences have no grace. They are repaired
// at the pace of D.
func TestAuditOfScheduledRoute(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.increment(1)
		w.wantKeep(time.Time{}, rollup.KeepReport{Counters: 1, RolledUp: 1})
		began := time.Now()
		w.increment(1)
		time.Sleep(every / 2)
		report, err := rollup.Audit(w.t.Context(), traced{w.store, w}, scheduled.Template.Routes, w.patient())
		if d := cmp.Diff(rollup.Report{Counters: 1, RolledUp: 1}, counts(report)); d != "" || err != nil {
			t.Errorf("%v: report (-want +got):\n%s", err, d)
		}
		if took := time.Since(began).Round(time.Millisecond); took != every+cadence/10 {
			t.Errorf("rolled up after %v, want D and a tenth of a cadence", took)
		}
		w.wantTotal(2)
	})
}
