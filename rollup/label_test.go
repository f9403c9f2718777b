package rollup_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup"
	"github.com/google/go-cmp/cmp"
)

// wantLabels wants the roll-up of today to hold these besides the total and tally.
func (w *world) wantLabels(when string, want map[string]any) {
	w.t.Helper()
	fields := w.store.Get(today.RollUp)
	maps.DeleteFunc(fields, func(name string, _ any) bool { return name == "orders" || name == "tally" })
	if d := cmp.Diff(want, fields); d != "" {
		w.t.Errorf("%s (-want +got):\n%s", when, d)
	}
}

// labels are the ids of today's path.
var labels = map[string]any{"shop": "a", "day": "2000-01-01"}

// put sets fields of today's roll-up, and takes away those that are nil.
func (w *world) put(set map[string]any) {
	fields := w.store.Get(today.RollUp)
	maps.Copy(fields, set)
	maps.DeleteFunc(fields, func(_ string, v any) bool { return v == nil })
	w.store.Put(today.RollUp, fields)
}

// A day has the ids of its path in fields. An audit puts right whatever somebody made of them, also
// for days that are older than the labels. A removed day leaves nothing.
func TestLabels(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		w.store.Put("shops/a", map[string]any{})
		w.order("1")
		w.ordered(c, "1")
		w.wantLabels("rolled up", labels)

		for _, set := range []map[string]any{{"shop": nil, "day": nil}, {"shop": "b"}, {"day": ""}, {"day": nil, "shop": []any{}}} {
			time.Sleep(time.Hour)
			w.put(set)
			dry := w.patient()
			dry.DryRun = true
			if got, want := w.auditDays(dry), (rollup.Report{Counters: 1, Differing: 1, Outdated: 1}); !cmp.Equal(got, want) {
				t.Errorf("%v, dry: %+v", set, got)
			}
			if got, want := w.auditDays(w.patient()), (rollup.Report{Counters: 1, RolledUp: 1, Outdated: 1}); !cmp.Equal(got, want) {
				t.Errorf("%v: %+v", set, got)
			}
			w.wantLabels("repaired", labels)
		}

		w.put(map[string]any{"shop": "b"})
		w.store.Delete("orders/1")
		w.ordered(c, "deleted")
		w.wantLabels("rolled up again", labels)
		time.Sleep(time.Hour + time.Second)
		if got, want := w.auditDays(w.patient()), (rollup.Report{Counters: 1, Removed: 1}); !cmp.Equal(got, want) || w.store.Get(today.RollUp) != nil {
			t.Errorf("an hour later: %+v, it holds %v", got, w.store.Get(today.RollUp))
		}
	})
}

// What no id can be is the app's: that label alone is left out, also of a lock's write, and stays
// when the day goes.
func TestForeignLabels(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		w.store.Put("shops/a", map[string]any{})
		w.order("1")
		w.ordered(c, "1")
		shop := map[string]any{"shop": []any{"a"}, "day": "2000-01-01"}

		w.put(map[string]any{"shop": shop["shop"], "day": nil})
		if got, want := w.auditDays(w.patient()), (rollup.Report{Counters: 1, RolledUp: 1, Outdated: 1, ForeignKind: 1, ForeignKindExample: today.RollUp + ": shop is an array"}); !cmp.Equal(got, want) {
			t.Errorf("a list: %+v", got)
		}
		w.wantLabels("a list", shop)
		if got, want := w.auditDays(w.patient()), (rollup.Report{Counters: 1, Unchanged: 1, ForeignKind: 1, ForeignKindExample: today.RollUp + ": shop is an array"}); !cmp.Equal(got, want) {
			t.Errorf("again: %+v", got)
		}
		if log := w.log.String(); !strings.Contains(log, "totals left out") || !strings.Contains(log, "shop is an array") {
			t.Errorf("logged %s", log)
		}

		seen := document.DecodeTally(w.store.Get(today.RollUp)["tally"])
		err := w.store.WriteLocked(t.Context(), today, rollup.RollUp{Labels: today.Labels(), Tally: seen}, seen)
		if err == nil {
			t.Error("a write in a lock replaced the list")
		}

		w.store.Delete("orders/1")
		w.ordered(c, "deleted")
		time.Sleep(time.Hour + time.Second)
		w.auditDays(w.patient())
		if d := cmp.Diff(map[string]any{"shop": shop["shop"]}, w.store.Get(today.RollUp)); d != "" {
			t.Errorf("removed (-want +got):\n%s", d)
		}
	})
}

// A document at a day's path that Tally never wrote needs no labels, and an audit leaves it alone.
func TestUnlabeled(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.store.Put("shops/a", map[string]any{})
		w.store.Put(today.RollUp, map[string]any{"title": "x"})
		err := rollup.NewNotes(w.store).Counter(t.Context(), today) // an audit leaves it to the walk of the orders
		if err != nil {
			t.Fatal(err)
		}
		if got, want := w.auditDays(w.patient()), (rollup.Report{Counters: 1, Unchanged: 1}); !cmp.Equal(got, want) {
			t.Errorf("%+v", got)
		}
		w.wantLabels("audited", map[string]any{"title": "x"})
	})
}
