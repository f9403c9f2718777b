package rollup_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/test/memstore"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
)

// An audit that cannot find the counters of one route goes on with the others.
func TestAuditGoesOnAfterARoute(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		routes, err := route.Parse("a/{a}/b/{b} -> c/{a} : n; " + route.Default)
		if err != nil {
			t.Fatal(err)
		}
		w.increment(3)
		report, err := rollup.Audit(w.t.Context(), failingRoute{w.store, routes[0]}, routes, w.auditOptions())
		if err == nil || strings.Count(err.Error(), "rollup: finding the ") != 1 || report.Complete {
			t.Errorf("%+v, %v", report, err)
		}
		w.wantTotal(3)
	})
}

type failingRoute struct {
	*memstore.Store
	route *route.Route
}

func (s failingRoute) Missing(ctx context.Context, r *route.Route, since time.Time, from string, limit int) (rollup.Page, error) {
	if r == s.route {
		return rollup.Page{}, errors.New("no index")
	}
	return s.Store.Missing(ctx, r, since, from, limit)
}

// A page that cannot be read keeps its walk's place, and the audit is not complete. The other walks
// go on, start over with the next audit, and so on until the page can be read; then the walk goes
// on where it was.
func TestFailedPageKeepsItsPlace(t *testing.T) {
	const n = 250 // for each of three routes; a page holds 100
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		routes, err := route.Parse("a/{a}/b/{b} -> c/{a} : count; " + route.Default + "; x/{x}/y/{y} -> z/{x} : count")
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
		store := hooked{AuditStore: traced{w.store, w}, page: func(_ by, r *route.Template, from string) error {
			if failing && r == routes[1].Template && from != "" {
				return errors.New("no index")
			}
			return nil
		}}
		others := rollup.Report{Counters: 2 * n, Unchanged: 2 * n}
		for tick, want := range []rollup.Report{
			{Counters: 100, Unchanged: 100}, {}, {}, // of the route whose page fails
			{Counters: n - 100 + 9, RolledUp: 9, Unchanged: n - 100, Missing: 9},
		} {
			failing = tick < 3
			report, err := rollup.Audit(w.t.Context(), store, routes, w.auditOptions())
			if (err != nil) != failing || report.Complete == failing {
				t.Errorf("tick %d: %+v, %v", tick, report, err)
			}
			if failing && (strings.Count(err.Error(), "rollup: finding the ") != 2 || !strings.HasPrefix(report.Cursor, "roll-ups of rollups/") || !strings.Contains(report.Cursor, "; shards of counters/")) {
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
}

// A route that is not walked to its end goes on before the walks that are done start over.
func TestFailedPageAndTooLittleTime(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		routes, err := route.Parse("a/{a}/b/{b} -> c/{a} : count; " + route.Default)
		if err != nil {
			t.Fatal(err)
		}
		want := w.various(50)
		store := hooked{AuditStore: traced{w.store, w}, page: func(_ by, r *route.Template, _ string) error {
			if r == routes[0].Template {
				return errors.New("no index")
			}
			return nil
		}}
		var sum rollup.Report
		for range 4 {
			o := w.auditOptions()
			o.Concurrency = 1
			o.MaxReads = 30
			o.Reads = w.reads()
			report, err := rollup.Audit(w.t.Context(), store, routes, o)
			if err == nil || report.Complete {
				t.Errorf("%+v, %v", report, err)
			}
			sum.Counters += report.Counters
			sum.RolledUp += report.RolledUp
		}
		if sum.Counters < want.Counters || sum.RolledUp != want.RolledUp { // new roll-ups may be compared, too
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
		store := hooked{AuditStore: w.store, page: func(by, *route.Template, string) error {
			if failing {
				return errors.New("no index")
			}
			return nil
		}, view: func(context.Context, route.Counter) error { time.Sleep(time.Second); return nil }}
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

// An audit whose cursor another has saved meanwhile leaves that as it is.
func TestOverlappedAuditLeavesTheCursor(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.various(20)
		var theirs rollup.Cursor
		saves := 0
		store := hooked{AuditStore: traced{w.store, w}, save: func(rollup.Cursor) (err error) {
			saves++
			if theirs.UpdateTime.IsZero() {
				if report, err := w.audit(w.auditOptions()); !report.Complete || err != nil {
					t.Errorf("the other: %+v, %v", report, err)
				}
				theirs, err = w.store.LoadCursor(w.t.Context(), rollup.Auditing)
			}
			return err
		}}
		report, err := rollup.Audit(w.t.Context(), store, likes.Template.Routes, w.auditOptions())
		if !report.Overlapped || err != nil {
			t.Errorf("%+v, %v", report, err)
		}
		if now, err := w.store.LoadCursor(w.t.Context(), rollup.Auditing); err != nil || !now.UpdateTime.Equal(theirs.UpdateTime) || theirs.UpdateTime.IsZero() {
			t.Errorf("the cursor is %+v, %v; want %+v", now, err, theirs)
		}
		if saves != 1 {
			t.Errorf("it tried to save %d times, want once", saves)
		}
	})
}

// An audit whose cursor another has saved leaves the counters to that, too.
func TestOverlappedAuditStops(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		for i := range 350 {
			w.store.Increment(fmt.Sprintf("counters/%03d/shards/0", i), "count", 1)
		}
		w.slowly()
		saves := 0
		store := hooked{AuditStore: traced{w.store, w}, save: func(rollup.Cursor) error { saves++; return rollup.ErrConflict }}
		o := w.auditOptions()
		o.Concurrency = 1
		report, err := rollup.Audit(w.t.Context(), store, likes.Template.Routes, o)
		// A page of a hundred takes ten seconds, and then the cursor is saved.
		if err != nil || !report.Overlapped || report.Complete || report.RolledUp != 100 || saves != 1 {
			t.Errorf("%+v, %v, %d saves; want one page", report, err, saves)
		}
	})
}

// An audit from the first counter neither uses the stored cursor nor changes it, nor makes one.
func TestAuditFromTheFirst(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.various(20)
		o := w.auditOptions()
		o.FromFirst = true
		for _, stored := range []rollup.Cursor{{}, {Routes: route.Default, Places: []rollup.Place{{From: "rollups/9"}}}} {
			if stored.Routes != "" {
				at, err := w.store.SaveCursor(w.t.Context(), rollup.Auditing, stored)
				if err != nil {
					t.Fatal(err)
				}
				stored.UpdateTime = at
			}
			if report, err := w.audit(o); err != nil || !report.Complete || report.Overlapped || report.Counters < 16 {
				t.Errorf("%+v, %v", report, err)
			}
			c, err := w.store.LoadCursor(w.t.Context(), rollup.Auditing)
			c.ReadTime = time.Time{}
			if d := cmp.Diff(stored, c); d != "" || err != nil {
				t.Errorf("%v: cursor (-want +got):\n%s", err, d)
			}
		}
	})
}

// An audit that is cut while it compares the last counters has not come to the end.
func TestCutAuditIsNotComplete(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		for i := range 3 {
			w.store.Increment(fmt.Sprintf("counters/%d/shards/0", i), "count", 1)
		}
		store := hooked{AuditStore: traced{w.store, w}, view: func(ctx context.Context, _ route.Counter) error { return hang(ctx) }}
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
		defer cancel()
		report, err := rollup.Audit(ctx, store, likes.Template.Routes, w.auditOptions())
		if err == nil || report.Complete || report.Failed != 3 {
			t.Errorf("%+v, %v", report, err)
		}
	})
}

// A difference whose second look is cut is not done with.
func TestCutDoubtIsNotDone(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.increment(1)
		w.rollUpElsewhere()
		time.Sleep(time.Hour)
		w.increment(1)
		looks := 0
		store := hooked{AuditStore: traced{w.store, w}, view: func(ctx context.Context, _ route.Counter) error {
			if looks++; looks > 1 {
				return hang(ctx)
			}
			return nil
		}}
		ctx, cancel := context.WithTimeout(w.t.Context(), grace+time.Second)
		defer cancel()
		report, err := rollup.Audit(ctx, store, likes.Template.Routes, w.patient())
		if err == nil || report.Complete || looks != 2 {
			t.Errorf("%+v, %v after %d looks", report, err, looks)
		}
	})
}

// An audit remembers some differences only while their grace lasts. With more it waits.
func TestAuditRemembersSomeDifferences(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		const n, most = 1500, 1000
		for i := range n {
			w.store.Put(fmt.Sprintf("rollups/%04d", i), rolledUp(int64(1), 1, time.Now()))
			w.store.Put(fmt.Sprintf("counters/%04d/shards/0", i), map[string]any{"count": int64(2)})
		}
		time.Sleep(time.Hour)
		waiting := 0
		o := w.patient()
		o.Progress = func(r rollup.Report) { waiting = max(waiting, r.Waiting) }
		w.wantAudit(o, rollup.Report{Counters: n, RolledUp: n, Drift: n})
		if waiting <= most || waiting > most+100 {
			t.Errorf("%d differences waited at once, want %d and a page", waiting, most)
		}
	})
}

// An audit that is killed while a difference waits leaves its walk, of several, before it.
func TestWaitingDifferenceKeepsItsPlace(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		routes, err := route.Parse("a/{a}/s/{s} -> r/{a} : n\n" + route.Default)
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
		c, err := w.store.LoadCursor(w.t.Context(), rollup.Auditing)
		want := []rollup.Place{{Done: true}, {}, {}, {}}
		if d := cmp.Diff(want, c.Places); d != "" || err != nil {
			t.Errorf("%v: places (-want +got):\n%s", err, d)
		}
	})
}

// An audit that is killed while differences of several pages wait leaves its walk before the first
// of them.
func TestWaitingDifferencesOfSeveralPages(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		for i := range 250 {
			w.store.Put(fmt.Sprintf("counters/%03d/shards/0", i), map[string]any{"count": int64(1)})
			w.store.Put(fmt.Sprintf("rollups/%03d", i), rolledUp(int64(1), 1, time.Now()))
		}
		for _, i := range []int{50, 150} {
			w.store.Increment(fmt.Sprintf("counters/%03d/shards/0", i), "count", 1)
		}
		w.duringView = func(n int32) {
			if n == 2 {
				time.Sleep(6 * time.Second) // so that the cursor is saved
			}
		}
		ctx, cancel := context.WithTimeout(w.t.Context(), grace)
		defer cancel()
		_, err := rollup.Audit(ctx, traced{w.store, w}, route.Routes(likes.Template.Routes), w.patient())
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want that its time is over", err)
		}

		c, err := w.store.LoadCursor(w.t.Context(), rollup.Auditing)
		if err != nil || len(c.Places) != 2 || c.Places[0] != (rollup.Place{}) {
			t.Errorf("%v: places %+v, want the first before all counters", err, c.Places)
		}
	})
}

// The cursor holds on the very routes that it was saved for, with a place for each. On others an
// audit starts over.
func TestCursorHoldsOnItsRoutes(t *testing.T) {
	place, done := rollup.Place{From: "rollups/3"}, rollup.Place{Done: true}
	for name, test := range map[string]struct {
		routes string
		places []rollup.Place
		want   int // counters compared, of ten
	}{
		"these":        {route.Default, []rollup.Place{place, done}, 6},
		"others":       {"counters/{c}/shards/{s} -> rollups/{c} : views", []rollup.Place{place, done}, 10},
		"another way":  {route.Default + " : documents", []rollup.Place{place, done}, 10},
		"more":         {route.Default + "\na/{a}/b/{b} -> c/{a} : n", []rollup.Place{place, done, done, done}, 10},
		"no place":     {route.Default, nil, 10},
		"a place more": {route.Default, []rollup.Place{place, done, done}, 10},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world, _ *rollup.Coalescer) {
				for i := range 10 {
					w.store.Increment(fmt.Sprintf("counters/%d/shards/0", i), "count", 1)
					w.store.Put(fmt.Sprintf("rollups/%d", i), rolledUp(int64(1), 1, time.Now()))
				}
				if _, err := w.store.SaveCursor(w.t.Context(), rollup.Auditing, rollup.Cursor{Routes: test.routes, Places: test.places, Tick: time.Now().Add(-time.Minute)}); err != nil {
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

// The next audit goes on with the route that the last has not finished; one that is done waits for
// it.
func TestRoutesTakeTurns(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		routes, err := route.Parse("a/{a}/b/{b} -> c/{a} : count; " + route.Default)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 30 { // of which each takes three reads: the sum as it was found, a look and its sum
			w.store.Increment(fmt.Sprintf("a/%02d/b/0", i), "count", 1)
			w.store.Put(fmt.Sprintf("c/%02d", i), rolledUp(int64(7), 1, time.Now()))
			w.store.Increment(fmt.Sprintf("counters/%02d/shards/0", i), "count", 1)
			w.store.Put(fmt.Sprintf("rollups/%02d", i), rolledUp(int64(7), 1, time.Now()))
		}
		time.Sleep(time.Hour)
		rolledUp := 0
		for tick := 1; tick <= 3; tick++ {
			o := w.auditOptions()
			o.Concurrency = 1
			o.MaxReads = 80 // of which the roll-ups have 60
			o.Reads = w.reads()
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
