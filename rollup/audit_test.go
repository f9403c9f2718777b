package rollup_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/memstore"
	"github.com/firestore-tally/tally/rollup"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// auditOptions are those of an audit that repairs at once.
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
		w.called(100, 50, 0) // a counter that has a roll-up is looked at once more when its shards are found, and not summed
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
		fields  map[string]any
		repair  bool
		missing int
	}{
		"equal":                   {right, false, 0},
		"a rounding step away":    {with("count", 0.75+1e-15), false, 0},
		"another total":           {with("count", 0.7500001), true, 0},
		"an integer":              {with("count", int64(1)), true, 0},
		"total of another type":   {with("count", "0.75"), true, 0},
		"another shard count":     {with("num_shards", int64(3)), true, 0},
		"no as_of":                {with("as_of", nil), true, 1},
		"as_of in the future":     {with("as_of", asOf.AddDate(100, 0, 0)), true, 1},
		"no such document":        {nil, true, 1},
		"a document of the app's": {map[string]any{"title": "x"}, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world, _ *rollup.Coalescer) {
				w.store.Put(shardsOf(likes)+"/0", map[string]any{"count": 0.5})
				w.store.Put(shardsOf(likes)+"/1", map[string]any{"count": 0.25})
				if test.fields != nil {
					w.store.Put(likes.RollUp, test.fields)
				}
				want := rollup.Report{Counters: 1, Unchanged: 1}
				if test.repair {
					want = rollup.Report{Counters: 1, RolledUp: 1, Missing: test.missing}
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
				if _, err := c.Changed(w.t.Context(), likes, rollup.Event{ID: fmt.Sprint("e", i)}); err != nil {
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
		if !errors.Is(err, late) || report.RolledUp != 2 {
			t.Errorf("got %+v and %v, want 2 rolled up and the cause", report, err)
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
		w.called(3, 1, 0)
	})
}

func TestAuditKeepsFirstErrorsAndAllRoutes(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		routes, err := rollup.ParseRoutes("counters/{c}/shards/{s} -> rollups/{c} : count; x/{c}/shards/{s} -> y/{c} : likes, views")
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
		if report.Failed != 22 || // y/1 is found twice
			len(report.Errors) != 10 {
			t.Errorf("%d failed, %d errors", report.Failed, len(report.Errors))
		}
		if n := strings.Count(w.log.String(), "counter not audited"); n != 22 {
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
	inWorld(t, func(w *world, _ *rollup.Coalescer) { // a rounding step of a large double is no difference
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
		w.called(1, 1, 0)
	})
}

const grace = 30 * time.Second

// patient are the options of an audit that leaves a difference to the trigger for a grace.
func (w *world) patient() rollup.AuditOptions {
	o := w.auditOptions()
	o.Grace = grace
	return o
}

// A difference that no event of a shard explains is drift, and repaired; one whose event comes
// within the grace is none.
func TestDrift(t *testing.T) {
	for name, test := range map[string]struct {
		after time.Duration // when the trigger rolls up; 0: never
		want  rollup.Report
		total int64
	}{
		"lost":            {0, rollup.Report{Counters: 1, RolledUp: 1, Drift: 1}, 2},
		"on its way":      {grace - time.Second, rollup.Report{Counters: 1, Unchanged: 1}, 2},
		"on its way soon": {time.Second, rollup.Report{Counters: 1, Unchanged: 1}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world, _ *rollup.Coalescer) {
				w.increment(1)
				w.rollUpElsewhere()
				time.Sleep(24 * time.Hour)
				w.increment(1)
				if test.after > 0 {
					time.AfterFunc(test.after, func() { w.rollUpElsewhere() })
				}
				began := time.Now()
				w.wantAudit(w.patient(), test.want)
				if waited := time.Since(began); waited != grace {
					t.Errorf("it took %v, want the grace", waited)
				}
				w.wantTotal(test.total)
				if n := strings.Count(w.log.String(), "level=ERROR msg=\"drift"); n != test.want.Drift {
					t.Errorf("drift is logged %d times:\n%s", n, &w.log)
				}
				w.wantAudit(w.patient(), rollup.Report{Counters: 1, Unchanged: 1})
			})
		})
	}
}

// A counter that never rests differs whenever it is looked at, and never drifts.
func TestBusyCounterDoesNotDrift(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		busy := time.NewTicker(10 * time.Millisecond)
		stop := time.Now().Add(10 * grace)
		var all sync.WaitGroup
		all.Go(func() {
			for n := 0; time.Now().Before(stop); n++ {
				<-busy.C
				w.increment(1)
				all.Go(func() {
					if _, err := c.Changed(w.t.Context(), likes, rollup.Event{ID: fmt.Sprint("e", n)}); err != nil {
						t.Error(err)
					}
				})
			}
		})
		time.Sleep(10 * cadence)
		for range 5 {
			w.wantAudit(w.patient(), rollup.Report{Counters: 1, Unchanged: 1})
		}
		all.Wait()
		busy.Stop()
	})
}

// Without the time to wait, a difference is repaired at once and not called drift.
func TestAuditWithoutTimeToWait(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.increment(1)
		w.rollUpElsewhere()
		time.Sleep(time.Minute)
		w.increment(1)
		o := w.patient()
		began := time.Now()
		o.Until = began.Add(2*grace - 1)
		w.wantAudit(o, rollup.Report{Counters: 1, RolledUp: 1})
		if !time.Now().Equal(began) {
			t.Errorf("it waited for %v", time.Since(began))
		}
	})
}

// What is younger than its cadence, and will be until the audit must end, is the trigger's.
func TestAuditLeavesLongCadencesAlone(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.increment(1)
		w.rollUpElsewhere()
		w.increment(1)
		o := w.auditOptions()
		o.Cadence = time.Hour
		o.Until = time.Now().Add(time.Minute)
		w.wantAudit(o, rollup.Report{Counters: 1, Unchanged: 1})
		w.wantTotal(1)
	})
}

// ignorePace ignores when a roll-up was paced until.
var ignorePace = cmpopts.IgnoreMapEntries(func(key string, _ any) bool { return key == "paced_until" })

func zeros(asOf time.Time) map[string]any {
	return rolledUp(int64(0), 0, asOf)
}

// A roll-up without shards goes to zeros, and is removed when it has been there for over an hour.
func TestOrphaned(t *testing.T) {
	for name, future := range map[string]time.Duration{"an old roll-up": 0, "as_of in the future": 1000 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world, _ *rollup.Coalescer) {
				w.store.Put(likes.RollUp, rolledUp(int64(9), 2, time.Now().Add(future).Truncate(time.Microsecond)))
				time.Sleep(3 * time.Hour)
				w.wantAudit(w.patient(), rollup.Report{Counters: 1, RolledUp: 1, Orphaned: 1})
				_, emptied := w.rollUp()
				if d := cmp.Diff(zeros(emptied), w.store.Get(likes.RollUp), ignorePace); d != "" {
					t.Errorf("roll-up (-want +got):\n%s", d)
				}
				for _, step := range []struct {
					age  time.Duration // of the zeros
					want rollup.Report
				}{
					{grace, rollup.Report{Counters: 1, Unchanged: 1}},
					{time.Hour, rollup.Report{Counters: 1, Unchanged: 1}},
					{time.Hour + time.Microsecond, rollup.Report{Counters: 1, Removed: 1}},
					{2 * time.Hour, rollup.Report{}},
				} {
					time.Sleep(time.Until(emptied.Add(step.age)))
					w.wantAudit(w.patient(), step.want)
				}
				if got := w.store.Get(likes.RollUp); got != nil {
					t.Errorf("left %v", got)
				}
			})
		})
	}
}

// A counter that is at zero and has shards is no orphan.
func TestAuditKeepsCountersAtZero(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.increment(0)
		w.rollUpElsewhere()
		time.Sleep(2 * time.Hour)
		w.wantAudit(w.patient(), rollup.Report{Counters: 1, Unchanged: 1})
		w.wantTotal(0)
	})
}

// Whoever writes the roll-up between the audit's look and its removal keeps it.
func TestRemovalHasItsPrecondition(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.store.Put(likes.RollUp, zeros(time.Now()))
		time.Sleep(2 * time.Hour)
		w.duringView = func(n int32) {
			if n == 1 {
				w.increment(3)
				w.rollUpElsewhere()
			}
		}
		w.wantAudit(w.patient(), rollup.Report{Counters: 1, Unchanged: 1})
		w.wantTotal(3)
	})
}

// A roll-up in a document of the app's loses Tally's fields only.
func TestRemovalKeepsTheAppsFields(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		fields := zeros(time.Now())
		fields["title"] = "x"
		w.store.Put(likes.RollUp, fields)
		time.Sleep(2 * time.Hour)
		w.wantAudit(w.patient(), rollup.Report{Counters: 1, Removed: 1})
		if d := cmp.Diff(map[string]any{"title": "x"}, w.store.Get(likes.RollUp)); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		if want := "level=DEBUG msg=removed counter=" + likes.RollUp; !strings.Contains(w.log.String(), want) {
			t.Errorf("not logged: %s\n%s", want, &w.log)
		}
		w.wantAudit(w.patient(), rollup.Report{})
	})
}

// various puts counters of every kind into the store, and returns what they are found to be.
func (w *world) various(n int) rollup.Report {
	for i := range n {
		asOf := time.Now().Truncate(time.Microsecond)
		shard, rollUp := fmt.Sprintf("counters/%03d/shards/0", i), fmt.Sprintf("rollups/%03d", i)
		switch i % 5 {
		case 0: // missing
			w.store.Put(shard, map[string]any{"count": int64(i)})
		case 1: // right
			w.store.Put(shard, map[string]any{"count": int64(i)})
			w.store.Put(rollUp, rolledUp(int64(i), 1, asOf))
		case 2: // drifted
			w.store.Put(shard, map[string]any{"count": int64(i)})
			w.store.Put(rollUp, rolledUp(int64(1), 1, asOf))
		case 3: // orphaned
			w.store.Put(rollUp, rolledUp(int64(1), 1, asOf))
		case 4: // to be removed
			w.store.Put(rollUp, zeros(asOf))
		}
	}
	time.Sleep(2 * time.Hour)
	return rollup.Report{Counters: n, RolledUp: n * 3 / 5, Unchanged: n / 5, Removed: n / 5, Drift: n / 5, Missing: n / 5, Orphaned: n / 5}
}

// wantRight wants various's n counters to be as they should.
func (w *world) wantRight(n int) {
	w.t.Helper()
	for i := range n {
		var want any
		switch i % 5 {
		case 0, 1, 2:
			want = int64(i)
		case 3:
			want = int64(0)
		}
		if got := w.store.Get(fmt.Sprintf("rollups/%03d", i))["count"]; got != want {
			w.t.Errorf("rollups/%03d holds %v, want %v", i, got, want)
		}
	}
}

func TestAuditOfAll(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		const n = 250
		want := w.various(n)
		w.wantAudit(w.patient(), want)
		w.wantRight(n)
		w.wantAudit(w.patient(), rollup.Report{Counters: n * 4 / 5, Unchanged: n * 4 / 5})
	})
}

// A dry run says what an audit would find, and changes nothing.
func TestDryRun(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		want := w.various(20)
		want.Differing, want.RolledUp = want.RolledUp, 0
		want.Unchanged, want.Removed = want.Unchanged+want.Removed, 0
		o := w.patient()
		o.DryRun = true
		for range 2 {
			w.wantAudit(o, want)
		}
		w.called(2*(4*4+3*4+2*4), 2*(5*4+2*4), 0)
		if c, err := w.store.LoadCursor(w.t.Context()); !c.UpdateTime.IsZero() || err != nil {
			t.Errorf("it saved a cursor: %+v, %v", c, err)
		}
	})
}

func TestAuditCountsMalformedShards(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.increment(1)
		w.store.Put(shardsOf(likes)+"/1", map[string]any{"count": "x"})
		w.store.Put(shardsOf(likes)+"/2", map[string]any{"count": math.NaN()})
		w.wantAudit(w.patient(), rollup.Report{Counters: 1, RolledUp: 1, Missing: 1, Malformed: 1})
		w.wantAudit(w.patient(), rollup.Report{Counters: 1, Unchanged: 1, Malformed: 1})
		w.store.Put(shardsOf(likes)+"/0", map[string]any{"count": int64(2)})
		w.wantAudit(w.patient(), rollup.Report{Counters: 1, RolledUp: 1, Drift: 1, Malformed: 1}) // looked at twice, counted once
	})
}

// An audit that may not read all leaves the rest to the next, and tells where that begins.
func TestAuditReadsNoMore(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		const n = 250
		want := w.various(n)
		var sum rollup.Report
		for tick := 1; ; tick++ {
			o := w.patient()
			o.Concurrency = 1
			o.MaxReads = 60
			before := w.looks.Load()
			o.Reads = func() int64 { return int64(w.looks.Load() - before) }
			report, err := w.audit(o)
			if err != nil {
				t.Fatal(err)
			}
			sum.Counters += report.Counters
			sum.RolledUp += report.RolledUp
			sum.Unchanged += report.Unchanged
			sum.Removed += report.Removed
			sum.Drift += report.Drift
			sum.Missing += report.Missing
			sum.Orphaned += report.Orphaned
			if (tick > 1) != (report.Since > 0) {
				t.Errorf("tick %d: %+v", tick, report)
			}
			if report.Complete {
				// 200 roll-ups and 150 counters by their shards
				if tick != 6 || report.Cursor != "at the beginning" {
					t.Errorf("complete after %d ticks: %+v", tick, report)
				}
				break
			}
			if found := map[bool]string{true: "roll-ups of ", false: "shards of "}[tick < 4]; !strings.HasPrefix(report.Cursor, found) {
				t.Errorf("tick %d: %s", tick, report.Cursor)
			}
			time.Sleep(time.Minute)
		}
		if d := cmp.Diff(want, sum); d != "" {
			t.Errorf("all ticks together (-want +got):\n%s", d)
		}
		w.wantRight(n)
	})
}

// An audit whose reads suffice for nothing but finding counters compares one of each page.
func TestAuditWithFewReads(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		const n = 10
		w.various(n)
		for tick := 1; ; tick++ {
			if tick > 3*n {
				t.Fatalf("not complete after %d ticks", tick-1)
			}
			var pages atomic.Int64
			store := hooked{AuditStore: traced{w.store, w}, page: func(by, *rollup.Template, string) error {
				pages.Add(1)
				return nil
			}}
			o := w.auditOptions()
			o.Concurrency = 1
			o.MaxReads, o.Reads = 1, pages.Load
			report, err := rollup.Audit(w.t.Context(), store, likes.Template.Routes, o)
			if err != nil {
				t.Fatal(err)
			}
			if report.Complete {
				break
			}
		}
		w.wantRight(n)
	})
}

// A roll-up that is removed takes the totals along that earlier routes kept.
func TestRemovalTakesFormerTotals(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		fields := zeros(time.Now())
		fields["old"] = int64(7)
		fields["tally"].(map[string]any)["former"] = []any{"old"}
		w.store.Put(likes.RollUp, fields)
		time.Sleep(2 * time.Hour)
		w.wantAudit(w.patient(), rollup.Report{Counters: 1, Removed: 1})
		if got := w.store.Get(likes.RollUp); got != nil {
			t.Errorf("left %v", got)
		}
	})
}

// slowly makes every look take some time.
func (w *world) slowly() { w.duringView = func(int32) { time.Sleep(100 * time.Millisecond) } }

// An audit stops in time, so often as need be.
func TestAuditStopsInTime(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		const n, time1 = 250, 3 * time.Second
		w.various(n)
		w.slowly()
		for tick := 1; ; tick++ {
			o := w.patient()
			o.Until = time.Now().Add(time1)
			report, err := w.audit(o)
			if late := time.Since(o.Until); err != nil || late > 200*time.Millisecond {
				t.Errorf("%v late: %v", late, err)
			}
			if report.Complete {
				if tick < 3 {
					t.Errorf("complete after %d ticks", tick)
				}
				break
			}
		}
		w.wantRight(n)
	})
}

// With time to wait, an audit reserves the grace.
func TestAuditReservesTheGrace(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		const n = 250
		w.various(n)
		w.duringView = func(int32) { time.Sleep(time.Second) }
		o := w.patient()
		o.Until = time.Now().Add(2 * grace)
		report, err := w.audit(o)
		// four counters a second for half the time, and half of them differ
		if late := time.Since(o.Until); err != nil || late > time.Second || report.Drift != 30 || report.Orphaned != 30 || report.Complete {
			t.Errorf("%v late: %+v, %v", late, report, err)
		}
		if report, err = w.audit(w.patient()); err != nil || !report.Complete || report.Drift != 20 {
			t.Errorf("the next: %+v, %v", report, err)
		}
		w.wantRight(n)
	})
}

// Audits that overlap do no harm, and one leaves the work to the other.
func TestAuditsOverlap(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		const n = 500
		w.various(n)
		w.slowly()
		var all sync.WaitGroup
		var mu sync.Mutex
		var complete, overlapped int
		for i := range 4 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 3 * time.Second)
				report, err := w.audit(w.patient())
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				if report.Complete && !report.Overlapped {
					complete++
				}
				if report.Overlapped {
					overlapped++
				}
			})
		}
		all.Wait()
		if complete != 1 || overlapped != 3 {
			t.Errorf("%d came to the end, %d stopped", complete, overlapped)
		}
		w.wantRight(n)
	})
}

// On other routes an audit begins anew.
func TestAuditOfOtherRoutes(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.various(50)
		o := w.auditOptions()
		o.Concurrency = 1
		o.MaxReads = 20
		o.Reads = func() int64 { return int64(w.looks.Load()) }
		if report, err := w.audit(o); report.Complete || err != nil {
			t.Fatalf("%+v, %v", report, err)
		}
		routes, err := rollup.ParseRoutes("a/{a}/b/{b} -> c/{a} : n; " + rollup.DefaultRoute)
		if err != nil {
			t.Fatal(err)
		}
		report, err := rollup.Audit(w.t.Context(), traced{w.store, w}, routes, w.auditOptions())
		if !report.Complete || report.Counters != 45 || err != nil { // the five that were removed are gone
			t.Errorf("%+v, %v", report, err)
		}
		w.wantRight(50)
	})
}

// A cutter is a store that ends its context at the n-th call.
type cutter struct {
	*memstore.Store
	n   int32
	at  atomic.Int32
	cut context.CancelFunc
}

func (c *cutter) call() {
	if c.at.Add(1) == c.n {
		c.cut()
	}
	time.Sleep(300 * time.Millisecond)
}

func (c *cutter) View(ctx context.Context, counter rollup.Counter) (rollup.Snapshot, error) {
	c.call()
	return c.Store.View(ctx, counter)
}

func (c *cutter) Write(ctx context.Context, counter rollup.Counter, r rollup.RollUp) error {
	c.call()
	return c.Store.Write(ctx, counter, r)
}

func (c *cutter) Remove(ctx context.Context, counter rollup.Counter, r rollup.RollUp) error {
	c.call()
	return c.Store.Remove(ctx, counter, r)
}

func (c *cutter) Counters(ctx context.Context, r *rollup.Route, from string, limit int) (rollup.Page, error) {
	c.call()
	return c.Store.Counters(ctx, r, from, limit)
}

func (c *cutter) RollUps(ctx context.Context, t *rollup.Template, from string, limit int) (rollup.Page, error) {
	c.call()
	return c.Store.RollUps(ctx, t, from, limit)
}

func (c *cutter) LoadCursor(ctx context.Context) (rollup.Cursor, error) {
	c.call()
	return c.Store.LoadCursor(ctx)
}

func (c *cutter) SaveCursor(ctx context.Context, cursor rollup.Cursor) (time.Time, error) {
	c.call()
	return c.Store.SaveCursor(ctx, cursor)
}

// An audit that is killed at whatever it was about to do leaves nothing undone behind the cursor.
func TestKilledAudits(t *testing.T) {
	const n = 330 // more than a page of roll-ups, and of shards
	resumed := 0
	for step, whole := int32(1), false; !whole; step += 17 {
		inWorld(t, func(w *world, _ *rollup.Coalescer) {
			w.various(n)
			ctx, cancel := context.WithCancel(w.t.Context())
			defer cancel()
			o := w.patient()
			o.Concurrency = 3
			report, err := rollup.Audit(ctx, &cutter{Store: w.store, n: step, cut: cancel}, likes.Template.Routes, o)
			whole = ctx.Err() == nil
			if (err == nil) != whole {
				t.Errorf("killed at call %d: %+v, %v", step, report, err)
			}
			left, err := w.audit(w.patient())
			if err != nil || !left.Complete {
				t.Errorf("after a kill at call %d: %+v, %v", step, left, err)
			}
			if left.Counters < n*4/5 { // from the beginning it finds no fewer

				resumed++
			}
			w.wantRight(n)
		})
		if t.Failed() {
			t.Fatalf("killed at call %d", step)
		}
	}
	if resumed == 0 {
		t.Error("no audit went on where the one before was killed")
	}
}

// An audit that cannot find the counters of one route goes on with the others.
func TestAuditGoesOnAfterARoute(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		routes, err := rollup.ParseRoutes("a/{a}/b/{b} -> c/{a} : n; " + rollup.DefaultRoute)
		if err != nil {
			t.Fatal(err)
		}
		w.increment(3)
		report, err := rollup.Audit(w.t.Context(), failingRoute{w.store, routes[0]}, routes, w.auditOptions())
		if err == nil || strings.Count(err.Error(), "rollup: finding the ") != 2 || report.Complete {
			t.Errorf("%+v, %v", report, err)
		}
		w.wantTotal(3)
	})
}

type failingRoute struct {
	*memstore.Store
	route *rollup.Route
}

func (s failingRoute) Counters(ctx context.Context, r *rollup.Route, from string, limit int) (rollup.Page, error) {
	if r == s.route {
		return rollup.Page{}, errors.New("no index")
	}
	return s.Store.Counters(ctx, r, from, limit)
}

func (s failingRoute) RollUps(ctx context.Context, t *rollup.Template, from string, limit int) (rollup.Page, error) {
	if t == s.route.Template {
		return rollup.Page{}, errors.New("no index")
	}
	return s.Store.RollUps(ctx, t, from, limit)
}

// A page that cannot be read keeps its walk's place, and the audit is not complete. The other walks
// go on, begin anew with the next audit, and so on until the page can be read; then the walk goes
// on where it was.
func TestFailedPageKeepsItsPlace(t *testing.T) {
	const n = 250 // for each of three routes; a page holds 100
	for name, test := range map[string]struct {
		by     by
		first  rollup.Report // what the first audit finds of the route whose page fails
		then   rollup.Report // and those that follow
		last   rollup.Report // what is left to the audit that can read it
		cursor string
	}{
		"roll-ups": {byRollUp, rollup.Report{Counters: 100 + 9, RolledUp: 9, Unchanged: 100, Missing: 9}, rollup.Report{}, rollup.Report{Counters: n - 100 + 9, Unchanged: n - 100 + 9}, "roll-ups of rollups/"},
		"shards":   {byShards, rollup.Report{Counters: n, Unchanged: n}, rollup.Report{Counters: n, Unchanged: n}, rollup.Report{Counters: n + 9, RolledUp: 9, Unchanged: n, Missing: 9}, "shards of counters/"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world, _ *rollup.Coalescer) {
				routes, err := rollup.ParseRoutes("a/{a}/b/{b} -> c/{a} : count; " + rollup.DefaultRoute + "; x/{x}/y/{y} -> z/{x} : count")
				if err != nil {
					t.Fatal(err)
				}
				for i := range n {
					for r, paths := range [][2]string{{"a/%03d/b/0", "c/%03d"}, {"counters/%03d/shards/0", "rollups/%03d"}, {"x/%03d/y/0", "z/%03d"}} {
						w.store.Increment(fmt.Sprintf(paths[0], i), "count", 1)
						fields := rolledUp(int64(1), 1, time.Now())
						fields["tally"].(map[string]any)["routes"] = routes[r].Template.Hash()
						w.store.Put(fmt.Sprintf(paths[1], i), fields)
					}
				}
				for i := range 9 { // behind the first page
					w.store.Increment(fmt.Sprintf("counters/new%d/shards/0", i), "count", 1)
				}
				failing := true
				store := hooked{AuditStore: traced{w.store, w}, page: func(by by, r *rollup.Template, from string) error {
					if failing && r == routes[1].Template && by == test.by && from != "" {
						return errors.New("no index")
					}
					return nil
				}}
				others := rollup.Report{Counters: 2 * n, Unchanged: 2 * n}
				for tick, want := range []rollup.Report{test.first, test.then, test.then, test.last} {
					failing = tick < 3
					report, err := rollup.Audit(w.t.Context(), store, routes, w.auditOptions())
					if (err != nil) != failing || report.Complete == failing {
						t.Errorf("tick %d: %+v, %v", tick, report, err)
					}
					if failing && (strings.Count(err.Error(), "rollup: finding the ") != 1 || !strings.HasPrefix(report.Cursor, test.cursor)) {
						t.Errorf("tick %d: at %s: %v", tick, report.Cursor, err)
					}
					want.Counters += others.Counters
					want.Unchanged += others.Unchanged
					if d := cmp.Diff(want, counts(report)); d != "" {
						t.Errorf("tick %d (-want +got):\n%s", tick, d)
					}
					time.Sleep(time.Minute)
				}
				if report, err := rollup.Audit(w.t.Context(), store, routes, w.auditOptions()); err != nil || report.Counters != 3*n+9 {
					t.Errorf("the next: %+v, %v", report, err)
				}
			})
		})
	}
}

// A route that is not walked to its end goes on before those that are done begin anew.
func TestFailedPageAndTooLittleTime(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		routes, err := rollup.ParseRoutes("a/{a}/b/{b} -> c/{a} : count; " + rollup.DefaultRoute)
		if err != nil {
			t.Fatal(err)
		}
		want := w.various(50)
		store := hooked{AuditStore: traced{w.store, w}, page: func(_ by, r *rollup.Template, _ string) error {
			if r == routes[0].Template {
				return errors.New("no index")
			}
			return nil
		}}
		var sum rollup.Report
		for range 4 {
			o := w.auditOptions()
			o.Concurrency = 1
			o.MaxReads = 20
			before := w.looks.Load()
			o.Reads = func() int64 { return int64(w.looks.Load() - before) }
			report, err := rollup.Audit(w.t.Context(), store, routes, o)
			if err == nil || report.Complete {
				t.Errorf("%+v, %v", report, err)
			}
			sum.Counters += report.Counters
			sum.RolledUp += report.RolledUp
		}
		if sum.Counters != want.Counters || sum.RolledUp != want.RolledUp {
			t.Errorf("four ticks found %+v, want %+v", sum, want)
		}
		w.wantRight(50)
	})
}

// Without a cursor nothing is walked. A cursor that cannot be saved is an error, and the next audit
// walks again what this one has.
func TestFailedCursor(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		broken := errors.New("unavailable")
		w.increment(1)
		store := hooked{AuditStore: traced{w.store, w}, load: func() error { return broken }}
		if report, err := rollup.Audit(w.t.Context(), store, likes.Template.Routes, w.auditOptions()); !errors.Is(err, broken) || report.Complete || report.Counters != 0 {
			t.Errorf("%+v, %v", report, err)
		}
		w.called(0, 0, 0)
		store = hooked{AuditStore: traced{w.store, w}, save: func(rollup.Cursor) error { return broken }}
		if report, err := rollup.Audit(w.t.Context(), store, likes.Template.Routes, w.auditOptions()); !errors.Is(err, broken) || report.RolledUp != 1 {
			t.Errorf("%+v, %v", report, err)
		}
		report, err := w.audit(w.auditOptions())
		if err != nil || report.Unchanged != 1 || report.Since != 0 || report.Cycle != 0 {
			t.Errorf("the next: %+v, %v", report, err)
		}
	})
}

// Cycle is the time between the last two ends of a walk, not between ticks.
func TestCycle(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.increment(1)
		w.rollUpElsewhere()
		const tick = 10 * time.Minute
		failing := false
		store := hooked{AuditStore: w.store, page: func(by by, _ *rollup.Template, _ string) error {
			if failing && by == byShards {
				return errors.New("no index")
			}
			return nil
		}, view: func(context.Context, rollup.Counter) error { time.Sleep(time.Second); return nil }}
		began := time.Now()
		for i, test := range []struct {
			fails bool
			cycle time.Duration
		}{{false, 0}, {false, tick}, {true, tick}, {true, tick}, {false, 3 * tick}, {false, tick}} {
			time.Sleep(time.Until(began.Add(time.Duration(i) * tick)))
			failing = test.fails
			report, err := rollup.Audit(w.t.Context(), store, likes.Template.Routes, w.auditOptions())
			cycle := report.Cycle.Round(10 * time.Second)
			if (err != nil) != failing || report.Complete == failing || cycle != test.cycle {
				t.Errorf("tick %d: cycle %v, want %v: %+v, %v", i, report.Cycle, test.cycle, report, err)
			}
			if i > 0 && report.Since != tick {
				t.Errorf("tick %d: the audit before began %v ago", i, report.Since)
			}
		}
	})
}

// What another has written since the first look is no proof that an event was lost, even if it is
// of an older snapshot: the change that it lacks may have come just before that look.
func TestNoDriftAfterAnothersRollUp(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.increment(1)
		w.rollUpElsewhere()
		time.Sleep(time.Hour)
		w.increment(1)
		v, err := w.store.View(w.t.Context(), likes) // before the audit's first look, and written after it
		if err != nil {
			t.Fatal(err)
		}
		totals, err := v.Sum(w.t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		w.increment(1)
		time.AfterFunc(grace/2, func() {
			tally := v.RollUp().Tally
			tally.AsOf = v.ReadTime()
			if err := w.store.Write(w.t.Context(), likes, rollup.RollUp{Sums: totals.Sums, Tally: tally, UpdateTime: v.RollUp().UpdateTime}); err != nil {
				t.Error(err)
			}
		})
		w.wantAudit(w.patient(), rollup.Report{Counters: 1, RolledUp: 1})
		w.wantTotal(3)
	})
}

// Two audits that find one drift repair it once, and count it once.
func TestOverlappingAuditsCountDriftOnce(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.increment(1)
		w.rollUpElsewhere()
		time.Sleep(time.Hour)
		w.increment(1)
		var all sync.WaitGroup
		var mu sync.Mutex
		var sum rollup.Report
		for i := range 3 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * time.Second)
				report, err := w.audit(w.patient())
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				sum.Drift += report.Drift
				sum.RolledUp += report.RolledUp
				sum.Unchanged += report.Unchanged
			})
		}
		all.Wait()
		if d := cmp.Diff(rollup.Report{RolledUp: 1, Unchanged: 2, Drift: 1}, sum); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		w.wantTotal(2)
	})
}

// An audit whose cursor another has saved meanwhile leaves that as it is.
func TestOverlappedAuditLeavesTheCursor(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.various(20)
		var theirs rollup.Cursor
		store := hooked{AuditStore: traced{w.store, w}, save: func(rollup.Cursor) (err error) {
			if theirs.UpdateTime.IsZero() {
				if report, err := w.audit(w.auditOptions()); !report.Complete || err != nil {
					t.Errorf("the other: %+v, %v", report, err)
				}
				theirs, err = w.store.LoadCursor(w.t.Context())
			}
			return err
		}}
		report, err := rollup.Audit(w.t.Context(), store, likes.Template.Routes, w.auditOptions())
		if !report.Overlapped || err != nil {
			t.Errorf("%+v, %v", report, err)
		}
		if now, err := w.store.LoadCursor(w.t.Context()); err != nil || !now.UpdateTime.Equal(theirs.UpdateTime) || theirs.UpdateTime.IsZero() {
			t.Errorf("the cursor is %+v, %v; want %+v", now, err, theirs)
		}
	})
}

// A roll-up that other routes made is rewritten at once and is not drift, whatever it holds. Its
// pace holds.
func TestRerouted(t *testing.T) {
	for name, test := range map[string]struct {
		total  int64
		shards bool
	}{"the same total": {3, true}, "another total": {4, true}, "no shards": {4, false}, "zeros": {0, false}} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world, _ *rollup.Coalescer) {
				var shards int64
				if test.shards {
					w.increment(3)
					shards = 1
				}
				fields := rolledUp(test.total, shards, time.Now().Add(-time.Hour))
				fields["tally"].(map[string]any)["routes"] = "others"
				w.store.Put(likes.RollUp, fields)

				began := time.Now()
				o := w.patient()
				o.KeepRerouted = true
				left := rollup.Report{Counters: 1, Differing: 1, Rerouted: 1}
				w.wantAudit(o, left)
				o.KeepRerouted, o.DryRun = false, true
				w.wantAudit(o, left)
				if d := cmp.Diff(fields, w.store.Get(likes.RollUp)); d != "" {
					t.Errorf("it was touched (-was +is):\n%s", d)
				}
				w.wantAudit(w.patient(), rollup.Report{Counters: 1, RolledUp: 1, Rerouted: 1})
				if took := time.Since(began); took != 0 {
					t.Errorf("it took %v", took)
				}
				if strings.Contains(w.log.String(), "level=ERROR") || strings.Count(w.log.String(), "rerouted: ") != 3 {
					t.Errorf("logged:\n%s", &w.log)
				}
				w.wantTotal(3 * shards)
				w.wantAudit(w.patient(), rollup.Report{Counters: 1, Unchanged: 1})
			})
		})
	}
}

// An audit that is killed while a difference waits leaves its walk, of several, before it.
func TestWaitingDifferenceKeepsItsPlace(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		routes, err := rollup.ParseRoutes("a/{a}/s/{s} -> r/{a} : n\n" + rollup.DefaultRoute)
		if err != nil {
			t.Fatal(err)
		}
		w.increment(1)
		w.rollUpElsewhere()
		w.increment(1)
		w.duringView = func(n int32) {
			if n == 1 {
				time.Sleep(6 * time.Second) // so that the cursor is saved
			}
		}
		ctx, cancel := context.WithTimeout(w.t.Context(), grace)
		defer cancel()
		if _, err := rollup.Audit(ctx, traced{w.store, w}, routes, w.patient()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want that its time is over", err)
		}
		c, err := w.store.LoadCursor(w.t.Context())
		want := []rollup.Place{{Done: true}, {Done: true}, {}, {}}
		if d := cmp.Diff(want, c.Places); d != "" || err != nil {
			t.Errorf("%v: places (-want +got):\n%s", err, d)
		}
	})
}

// The cursor holds on the very routes that it was saved for, with a place for each. On others an
// audit begins anew.
func TestCursorHoldsOnItsRoutes(t *testing.T) {
	place := rollup.Place{From: "rollups/3"}
	for name, test := range map[string]struct {
		routes string
		places []rollup.Place
		want   int // counters compared, of ten
	}{
		"these":        {rollup.DefaultRoute, []rollup.Place{place, {}}, 6},
		"others":       {"counters/{c}/shards/{s} -> rollups/{c} : views", []rollup.Place{place, {}}, 10},
		"another way":  {rollup.DefaultRoute + " : documents", []rollup.Place{place, {}}, 10},
		"more":         {rollup.DefaultRoute + "\na/{a}/b/{b} -> c/{a} : n", []rollup.Place{place, {}, {Done: true}, {Done: true}}, 10},
		"no place":     {rollup.DefaultRoute, nil, 10},
		"a place more": {rollup.DefaultRoute, []rollup.Place{place, {}, {Done: true}}, 10},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world, _ *rollup.Coalescer) {
				for i := range 10 {
					w.store.Increment(fmt.Sprintf("counters/%d/shards/0", i), "count", 1)
					w.store.Put(fmt.Sprintf("rollups/%d", i), rolledUp(int64(1), 1, time.Now()))
				}
				if _, err := w.store.SaveCursor(w.t.Context(), rollup.Cursor{Routes: test.routes, Places: test.places, Tick: time.Now().Add(-time.Minute)}); err != nil {
					t.Fatal(err)
				}
				report, err := w.audit(w.auditOptions())
				if err != nil || !report.Complete || report.Unchanged != test.want || report.Since != time.Minute {
					t.Errorf("got %+v, %v; want %d compared", report, err, test.want)
				}
			})
		})
	}
}

// hang keeps a call until its context ends.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// A hanging store has the first call of a kind never answer.
type hanging struct {
	rollup.AuditStore
	what  string
	calls *atomic.Int32 // that hung
}

func (s hanging) hangs(ctx context.Context, what string) error {
	if s.what == what && s.calls.Add(1) == 1 {
		return hang(ctx)
	}
	return nil
}

func (s hanging) View(ctx context.Context, c rollup.Counter) (rollup.Snapshot, error) {
	if err := s.hangs(ctx, "look"); err != nil {
		return nil, err
	}
	v, err := s.AuditStore.View(ctx, c)
	return hangingSum{v, s}, err
}

type hangingSum struct {
	rollup.Snapshot
	s hanging
}

func (v hangingSum) Sum(ctx context.Context) (rollup.Totals, error) {
	if err := v.s.hangs(ctx, "sum"); err != nil {
		return rollup.Totals{}, err
	}
	return v.Snapshot.Sum(ctx)
}

func (s hanging) Write(ctx context.Context, c rollup.Counter, r rollup.RollUp) error {
	if err := s.hangs(ctx, "write"); err != nil {
		return err
	}
	return s.AuditStore.Write(ctx, c, r)
}

func (s hanging) RollUps(ctx context.Context, t *rollup.Template, from string, limit int) (rollup.Page, error) {
	if err := s.hangs(ctx, "page"); err != nil {
		return rollup.Page{}, err
	}
	return s.AuditStore.RollUps(ctx, t, from, limit)
}

func (s hanging) LoadCursor(ctx context.Context) (rollup.Cursor, error) {
	if err := s.hangs(ctx, "load"); err != nil {
		return rollup.Cursor{}, err
	}
	return s.AuditStore.LoadCursor(ctx)
}

func (s hanging) SaveCursor(ctx context.Context, c rollup.Cursor) (time.Time, error) {
	if err := s.hangs(ctx, "save"); err != nil {
		return time.Time{}, err
	}
	return s.AuditStore.SaveCursor(ctx, c)
}

// A call that never answers costs an audit and a tick one time-out, not more.
func TestCallsThatHang(t *testing.T) {
	for _, what := range []string{"look", "sum", "write", "page", "load", "save"} {
		for _, who := range []string{"audit", "tick"} {
			if who == "tick" && (what == "load" || what == "save") {
				continue
			}
			t.Run(who+", "+what, func(t *testing.T) {
				inWorld(t, func(w *world, _ *rollup.Coalescer) {
					w.increment(1)
					w.rollUpElsewhere()
					time.Sleep(time.Hour)
					w.increment(1)
					store := hanging{traced{w.store, w}, what, new(atomic.Int32)}
					ctx, cancel := context.WithTimeout(w.t.Context(), time.Hour)
					defer cancel()
					began := time.Now()
					if who == "audit" {
						_, _ = rollup.Audit(ctx, store, likes.Template.Routes, w.auditOptions())
					} else {
						_, _ = rollup.Keep(ctx, store, scheduled.Template.Routes, 1, time.Time{}, w.options(0))
					}
					if took := time.Since(began); took < hold || took > hold+cadence {
						t.Errorf("it took %v, want the time-out of %v", took, hold)
					}
					if what != "load" {
						if _, err := w.audit(w.auditOptions()); err != nil {
							t.Error(err)
						}
						w.wantTotal(2)
					}
				})
			})
		}
	}
}

// Nothing is expected of events of a route that says "every": its differences have no grace. They
// are repaired at the pace of D.
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

// The next audit goes on with the route that the last has not finished; one that is done waits for
// it.
func TestRoutesTakeTurns(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		routes, err := rollup.ParseRoutes("a/{a}/b/{b} -> c/{a} : count; " + rollup.DefaultRoute)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 30 {
			w.store.Increment(fmt.Sprintf("a/%02d/b/0", i), "count", 1)
			w.store.Increment(fmt.Sprintf("counters/%02d/shards/0", i), "count", 1)
		}
		rolledUp := 0
		for tick := 1; tick <= 3; tick++ {
			o := w.auditOptions()
			o.Concurrency = 1
			o.MaxReads = 20
			before := w.looks.Load()
			o.Reads = func() int64 { return int64(w.looks.Load() - before) }
			report, err := rollup.Audit(w.t.Context(), traced{w.store, w}, routes, o)
			rolledUp += report.RolledUp
			if err != nil || report.Complete != (tick == 3) {
				t.Errorf("tick %d: %+v, %v", tick, report, err)
			}
		}
		if rolledUp != 60 {
			t.Errorf("three ticks rolled %d counters up, want all 60", rolledUp)
		}
	})
}

// The grace is longer than an event may be held, come again and be held again: Eventarc delivers
// again after 10 s at least.
func TestGrace(t *testing.T) {
	for _, test := range []struct{ cadence, hold time.Duration }{{time.Second, 8 * time.Second}, {time.Minute, 200 * time.Second}} {
		got, least := rollup.Grace(test.cadence, test.hold), test.cadence+2*test.hold+10*time.Second
		if got <= least || got > least+10*time.Second {
			t.Errorf("grace of %+v is %v, want somewhat more than %v", test, got, least)
		}
	}
}
