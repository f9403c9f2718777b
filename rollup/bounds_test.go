package rollup_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/test/memstore"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
)

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
		if c, err := w.store.LoadCursor(w.t.Context(), rollup.Auditing); !slices.Equal(c.Places, []rollup.Place{{Done: true}, {Done: true}}) || err != nil {
			t.Errorf("places %+v, %v", c.Places, err)
		}
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
		w.called(2*(4+2*4+2*4), 2*(4+4+3*4+3*4+4), 0)
		if c, err := w.store.LoadCursor(w.t.Context(), rollup.Auditing); !c.UpdateTime.IsZero() || err != nil {
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
		w.store.Delete(shardsOf(likes) + "/2")
		w.wantAudit(w.auditOptions(), rollup.Report{Counters: 1, RolledUp: 1, Malformed: 1}) // one shard is enough
	})
}

// An audit that may not read all leaves the rest to the next, and reports where the next begins.
func TestAuditReadsNoMore(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		const n = 250
		want := w.various(n)
		var sum rollup.Report
		for tick := 1; ; tick++ {
			o := w.patient()
			o.Concurrency = 1
			o.MaxReads = 60
			o.Reads = w.reads()
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
				// Two reads of the 50 that are missing, one of the 50 that are right and three of the others,
				// apart from the last grace's. One more of each that was missing, if the walk of the roll-ups
				// comes to its new roll-up.
				if tick != 12 || report.Cursor != "at the beginning" {
					t.Errorf("complete after %d ticks: %+v", tick, report)
				}
				break
			}
			if !strings.HasPrefix(report.Cursor, "roll-ups of rollups/{counter}, from") ||
				strings.Contains(report.Cursor, "; shards of counters/{counter}/shards/{shard}, from") != (tick < 8) {
				t.Errorf("tick %d: %s", tick, report.Cursor)
			}
			time.Sleep(time.Minute)
		}
		again := sum.Counters - n
		want.Counters, want.Unchanged = n+again, want.Unchanged+again
		if d := cmp.Diff(want, sum); d != "" || again > n/5 {
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
			store := hooked{AuditStore: traced{w.store, w}, page: func(by, *route.Template, string) error {
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

// slowly makes every look take some time.
func (w *world) slowly() { w.duringView = func(int32) { time.Sleep(100 * time.Millisecond) } }

// An audit stops in time, however often that is needed.
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
				if tick < 2 {
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
		if late := time.Since(o.Until); err != nil || late > time.Second || report.Drift != 31 || report.Orphaned != 31 || report.Complete {
			t.Errorf("%v late: %+v, %v", late, report, err)
		}
		if report, err = w.audit(w.patient()); err != nil || !report.Complete || report.Drift != 19 {
			t.Errorf("the next: %+v, %v", report, err)
		}
		w.wantRight(n)
	})
}

// A counter whose sums take long needs a longer grace. If there is no time for it, the difference
// is repaired at once.
func TestAuditHasNoTimeForALongSumsGrace(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.putSlow(0, 40*time.Second)
		w.increment(1)

		o := w.patient()
		o.Until = time.Now().Add(2 * grace)
		report, err := w.audit(o)
		if late := time.Since(o.Until); err != nil || late > 0 || report.Drift != 0 || report.RolledUp != 1 {
			t.Errorf("%v late: %+v, %v", late, report, err)
		}
		w.wantTotal(1)
	})
}

// Sums that time out do not have an audit go on when its time is over.
func TestAuditOfHangingSumsStopsInTime(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.increment(1)
		w.sumTakes = time.Hour

		o := w.patient()
		o.Until = time.Now().Add(time.Second)
		report, err := w.audit(o)
		if late := time.Since(o.Until); err == nil || late > hold || report.Failed != 1 {
			t.Errorf("%v late: %+v, %v", late, report, err)
		}
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

// On other routes an audit starts over.
func TestAuditOfOtherRoutes(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.various(50)
		o := w.auditOptions()
		o.Concurrency = 1
		o.MaxReads = 20
		o.Reads = w.reads()
		if report, err := w.audit(o); report.Complete || err != nil {
			t.Fatalf("%+v, %v", report, err)
		}
		routes, err := route.Parse("a/{a}/b/{b} -> c/{a} : n; " + route.Default)
		if err != nil {
			t.Fatal(err)
		}
		report, err := rollup.Audit(w.t.Context(), traced{w.store, w}, routes, w.auditOptions())
		if !report.Complete || report.Overlapped || report.Counters != 48 || err != nil { // the two that were removed are gone
			t.Errorf("%+v, %v", report, err)
		}
		if c, err := w.store.LoadCursor(w.t.Context(), rollup.Auditing); c.Routes != routes.String() || err != nil {
			t.Errorf("the cursor is %+v, %v; want one of the new routes", c, err)
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

func (c *cutter) View(ctx context.Context, counter route.Counter) (rollup.Snapshot, error) {
	c.call()
	return c.Store.View(ctx, counter)
}

func (c *cutter) Write(ctx context.Context, counter route.Counter, r rollup.RollUp) error {
	c.call()
	return c.Store.Write(ctx, counter, r)
}

func (c *cutter) Remove(ctx context.Context, counter route.Counter, r rollup.RollUp) error {
	c.call()
	return c.Store.Remove(ctx, counter, r)
}

func (c *cutter) Sources(ctx context.Context, counter route.Counter) rollup.Snapshot {
	c.call()
	return c.Store.Sources(ctx, counter)
}

func (c *cutter) Missing(ctx context.Context, r *route.Route, since time.Time, from string, limit int) (rollup.Page, error) {
	c.call()
	return c.Store.Missing(ctx, r, since, from, limit)
}

func (c *cutter) LoadCursor(ctx context.Context, of rollup.Work) (rollup.Cursor, error) {
	c.call()
	return c.Store.LoadCursor(ctx, of)
}

func (c *cutter) SaveCursor(ctx context.Context, of rollup.Work, cursor rollup.Cursor) (time.Time, error) {
	c.call()
	return c.Store.SaveCursor(ctx, of, cursor)
}

// An audit that is killed, whatever it was about to do, leaves nothing undone behind the cursor.
func TestKilledAudits(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}

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
