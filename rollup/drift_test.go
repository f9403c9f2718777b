package rollup_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
)

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
					if _, err := c.HandleEvent(w.t.Context(), rollup.Event{ID: fmt.Sprint("e", n)}, route.Concern{Counter: likes}); err != nil {
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

// For a difference that is younger than the counter's cadence an alarm may stand. For an older one
// none does.
func TestDeferredIsNoDrift(t *testing.T) {
	for name, test := range map[string]struct {
		age  time.Duration // of the roll-up
		want rollup.Report
	}{
		"younger": {time.Minute, rollup.Report{Counters: 1, Differing: 1, Paced: 1}},
		"older":   {11 * time.Minute, rollup.Report{Counters: 1, RolledUp: 1, Drift: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world, _ *rollup.Coalescer) {
				w.increment(1)
				w.rollUpElsewhere()
				time.Sleep(test.age)
				w.increment(1)
				o := w.patient()
				o.Cadence, o.Until = 10*time.Minute, time.Now().Add(3*time.Minute)
				w.wantAudit(o, test.want)
			})
		})
	}
}

// The event of a change in a counter with long sums may be deferred, and its sum be under way, when
// the grace of other counters is over.
func TestLongSumIsNoDrift(t *testing.T) {
	for after, want := range map[time.Duration]rollup.Report{
		grace + 89*time.Second: {Counters: 1, Unchanged: 1},
		grace + 91*time.Second: {Counters: 1, RolledUp: 1, Drift: 1},
	} {
		inWorld(t, func(w *world, _ *rollup.Coalescer) {
			w.putSlow(0, 30*time.Second)
			time.Sleep(time.Hour)
			w.increment(1)
			time.AfterFunc(after, func() {
				if _, asOf := w.rollUp(); w.store.Now().Sub(asOf) > time.Minute {
					w.rollUpElsewhere()
				}
			})
			w.wantAudit(w.patient(), want)
			time.Sleep(time.Minute)
			w.wantTotal(1)
		})
	}

	// Its alarm rings ten minutes after the last roll-up, just before the grace is over.
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.putSlow(0, 30*time.Second)
		w.increment(1)
		time.Sleep(8*time.Minute - 35*time.Second)
		o := w.patient()
		o.Cadence, o.Until = 10*time.Minute, time.Now().Add(5*time.Minute)
		w.wantAudit(o, rollup.Report{Counters: 1, RolledUp: 1})
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

// What is younger than its cadence, and will be until the audit must end, is the trigger's. It
// differs all the same, and the report says so.
func TestAuditLeavesLongCadencesAlone(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.increment(1)
		w.rollUpElsewhere()
		w.increment(1)
		o := w.auditOptions()
		o.Cadence = time.Hour
		o.Until = time.Now().Add(time.Minute)
		w.wantAudit(o, rollup.Report{Counters: 1, Differing: 1, Paced: 1})
		w.wantTotal(1)

		// After its grace it does not count as drift, because an alarm may stand for it.
		o.Grace, o.Until = grace, time.Now().Add(3*grace)
		w.wantAudit(o, rollup.Report{Counters: 1, Differing: 1, Paced: 1})
		w.wantTotal(1)

		// A command without an end does not wait for an hour either.
		o.Until = time.Time{}
		began := time.Now()
		w.wantAudit(o, rollup.Report{Counters: 1, Differing: 1, Paced: 1})
		w.wantTotal(1)
		if took := time.Since(began); took > o.Grace+cadence {
			t.Errorf("the audit took %v", took)
		}

		fields := rolledUp(int64(1), 1, time.Now())
		fields["tally"].(map[string]any)["routes"] = "others"
		w.store.Put(likes.RollUp, fields)
		o.Until = time.Now().Add(time.Minute)
		w.wantAudit(o, rollup.Report{Counters: 1, Differing: 1, Paced: 1, Rerouted: 1})
		w.wantTotal(1)
	})
}

// A roll-up that another instance has written since the first look does not prove that an event was
// lost, even if it is of an older snapshot: the change that it lacks may have come just before that
// look.
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
			if err := w.store.Write(w.t.Context(), likes, rollup.RollUp{Values: totals.Values, Tally: tally, UpdateTime: v.RollUp().UpdateTime}); err != nil {
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

// Doubles that cancel out leave a sum that depends on the order in which they were added up. That
// does not count, unless it is more than rounding explains.
func TestDoublesThatCancelOut(t *testing.T) {
	for _, test := range []struct {
		shards []float64
		held   float64 // by the roll-up
		want   rollup.Report
	}{
		{[]float64{1e16, -1e16, 0.5}, 2.5, rollup.Report{Counters: 1, Unchanged: 1}},
		{[]float64{1e16, -1e16, 0.5}, 1e6, rollup.Report{Counters: 1, RolledUp: 1, Drift: 1}},
		{[]float64{1, -1, 0.5}, 2.5, rollup.Report{Counters: 1, RolledUp: 1, Drift: 1}},
	} {
		inWorld(t, func(w *world, _ *rollup.Coalescer) {
			for i, n := range test.shards {
				w.store.Put(fmt.Sprint(shardsOf(likes), "/", i), map[string]any{"count": n})
			}
			w.store.Put(likes.RollUp, rolledUp(test.held, 3, time.Now().Add(-time.Minute)))
			got, err := rollup.Audit(w.t.Context(), traced{w.store, w}, likes.Template.Routes, w.patient())
			if d := cmp.Diff(test.want, counts(got)); d != "" || err != nil {
				t.Errorf("%v, held %v: %v (-want +got):\n%s", test.shards, test.held, err, d)
			}
		})
	}
}

// A time that somebody has made up, for which the last sum took, does not hide drift.
func TestDriftBehindATimeThatIsMadeUp(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.increment(1)
		fields := rolledUp(int64(1), 1, time.Now())
		fields["tally"].(map[string]any)["took"] = int64(1 << 50) // microseconds
		w.store.Put(likes.RollUp, fields)
		w.increment(1)
		time.Sleep(time.Hour)
		o := w.patient()
		began := time.Now()
		o.Until = began.Add(10 * time.Minute)
		w.wantAudit(o, rollup.Report{Counters: 1, RolledUp: 1, Drift: 1})
		if took := time.Since(began); took > grace+3*time.Minute {
			t.Errorf("the audit took %v", took)
		}
	})
}
