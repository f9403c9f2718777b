package rollup_test

import (
	"strings"
	"testing"
	"time"

	"github.com/firestore-tally/tally/rollup"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

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

// A counter that is at zero and has shards is not orphaned.
func TestAuditKeepsCountersAtZero(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.increment(0)
		w.rollUpElsewhere()
		time.Sleep(2 * time.Hour)
		w.wantAudit(w.patient(), rollup.Report{Counters: 1, Unchanged: 1})
		w.wantTotal(0)
	})
}

// A write to the roll-up between the audit's look and its removal keeps the roll-up.
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
