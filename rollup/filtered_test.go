package rollup_test

import (
	"testing"
	"time"

	"github.com/firestore-tally/tally/rollup"
)

// approved counts some of a counter's documents only, in documents of Tally's own.
const approved = "posts/{post}/comments/{comment} -> comments/{post} : count() where approved == true as approved, maximum(stars) where approved == true as best"

// A counter whose totals all have conditions that no document meets has documents all the same. It
// is rolled up at zeros, is not orphaned and is never removed. Without documents it is removed.
func TestAuditOfFilteredTotals(t *testing.T) {
	routes := mustRoutes(approved)
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		audit := func(what string, want rollup.Report) {
			t.Helper()
			report, err := rollup.Audit(w.t.Context(), w.store, routes, w.auditOptions())
			if got := counts(report); err != nil || got.Counters != want.Counters || got.RolledUp != want.RolledUp || got.Removed != want.Removed || got.Orphaned != want.Orphaned {
				t.Errorf("%s: %+v, %v; want %+v", what, got, err, want)
			}
		}

		w.store.Put("posts/7/comments/1", map[string]any{"approved": false})
		audit("new", rollup.Report{Counters: 1, RolledUp: 1})
		if got := w.store.Get("comments/7"); got["approved"] != int64(0) || got["best"] != nil {
			t.Errorf("holds %v", got)
		}
		for range 3 {
			time.Sleep(2 * time.Hour)
			audit("hidden for hours", rollup.Report{Counters: 1})
		}

		w.store.Put("posts/7/comments/1", map[string]any{"approved": true, "stars": int64(4)})
		audit("approved", rollup.Report{Counters: 1, RolledUp: 1})
		w.store.Put("posts/7/comments/1", map[string]any{"approved": false, "stars": int64(4)})
		audit("hidden again", rollup.Report{Counters: 1, RolledUp: 1})
		time.Sleep(2 * time.Hour)
		audit("hidden for hours again", rollup.Report{Counters: 1})

		w.store.Delete("posts/7/comments/1")
		audit("gone", rollup.Report{Counters: 1, Removed: 1})
	})
}

// So it is if another route of the counter, whether before or after, has no documents.
func TestAuditOfFilteredAndNone(t *testing.T) {
	const other = "posts/{post}/likes/{like} -> comments/{post} : count() as likes"
	for _, text := range []string{approved + "\n" + other, other + "\n" + approved} {
		routes := mustRoutes(text)
		inWorld(t, func(w *world, _ *rollup.Coalescer) {
			w.store.Put("posts/7/comments/1", map[string]any{"approved": false})
			for range 3 {
				report, err := rollup.Audit(w.t.Context(), w.store, routes, w.auditOptions())
				if err != nil || report.Removed != 0 || w.store.Get("comments/7")["approved"] != int64(0) {
					t.Errorf("%q: %+v, %v; the roll-up is %v", text, report, err, w.store.Get("comments/7"))
				}
				time.Sleep(2 * time.Hour)
			}
		})
	}
}

// The schedule renews as_of of such a counter, and visits it as any other.
func TestKeepOfFilteredTotals(t *testing.T) {
	const every = 10 * time.Second
	routes := mustRoutes(approved + " : every 10s")
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		keep := func() rollup.KeepReport {
			t.Helper()
			report, err := rollup.Keep(w.t.Context(), w.store, routes, w.keepOptions(1, time.Now().Add(every/2)))
			if err != nil {
				t.Error(err)
			}
			return report
		}
		w.store.Put("posts/7/comments/1", map[string]any{"approved": false})
		if report := keep(); report.RolledUp != 1 {
			t.Errorf("new: %+v", report)
		}
		for range 3 {
			time.Sleep(2 * time.Hour)
			if report := keep(); report.RolledUp != 1 || report.Removed != 0 {
				t.Errorf("hidden for hours: %+v", report)
			}
		}
		w.store.Delete("posts/7/comments/1")
		time.Sleep(2 * time.Hour)
		if report := keep(); report.Removed != 1 {
			t.Errorf("gone: %+v", report)
		}
	})
}

// Both walks find the groups that documents name, and those alone that the app has documents of.
func TestKeepOfGroups(t *testing.T) {
	const every = 10 * time.Second
	routes := mustRoutes("orders/{order} by shop -> shops/{shop} : sum(amount) where paid == true as revenue : existing : every 10s")
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.store.Put("shops/a", map[string]any{"name": "A"})
		w.store.Put("shops/empty", map[string]any{"name": "Empty"})
		for id, shop := range map[string]any{"1": "a", "2": "a", "3": "ghost", "4": "no/id", "5": int64(7), "6": nil} {
			w.store.Put("orders/"+id, map[string]any{"shop": shop, "paid": id == "1", "amount": int64(5)})
		}
		report, err := rollup.Keep(w.t.Context(), w.store, routes, w.keepOptions(2, time.Now().Add(every/2)))
		if err != nil || report.RolledUp != 1 {
			t.Errorf("%+v, %v", report, err)
		}
		if got := w.store.Get("shops/a"); got["revenue"] != int64(5) || got["name"] != "A" {
			t.Errorf("shops/a holds %v", got)
		}
		if w.store.Get("shops/ghost") != nil || w.store.Get("shops/empty")["tally"] != nil {
			t.Error("a shop without a document or without orders has a roll-up")
		}

		w.store.Put("orders/1", map[string]any{"shop": "empty", "paid": true, "amount": int64(5)})
		time.Sleep(every)
		report, err = rollup.Keep(w.t.Context(), w.store, routes, w.keepOptions(2, time.Now().Add(every/2)))
		if err != nil || report.RolledUp != 2 {
			t.Errorf("moved: %+v, %v", report, err)
		}
		if a, b := w.store.Get("shops/a")["revenue"], w.store.Get("shops/empty")["revenue"]; a != int64(0) || b != int64(5) {
			t.Errorf("moved: the shops hold %v and %v, want 0 and 5", a, b)
		}
	})
}
