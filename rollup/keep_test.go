package rollup_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup"
	"github.com/google/go-cmp/cmp"
)

// every is how often the schedule rolls up scheduled, which is likes by another route.
const every = 10 * time.Second

var scheduled = mustCounter(rollup.DefaultRoute+" : every "+every.String(), shardsOf(likes))

// by is how a walk finds counters.
type by int

const (
	byRollUp by = iota
	byShards
)

// A hooked store has calls fail, or notes them.
type hooked struct {
	rollup.AuditStore
	view func(context.Context, rollup.Counter) error        // before a look
	page func(by by, t *rollup.Template, from string) error // before a page
	load func() error                                       // before the cursor is loaded
	save func(rollup.Cursor) error                          // before it is saved
}

func (s hooked) View(ctx context.Context, c rollup.Counter) (rollup.Snapshot, error) {
	if s.view != nil {
		if err := s.view(ctx, c); err != nil {
			return nil, err
		}
	}
	return s.AuditStore.View(ctx, c)
}

func (s hooked) RollUps(ctx context.Context, t *rollup.Template, from string, limit int) (rollup.Page, error) {
	if s.page != nil {
		if err := s.page(byRollUp, t, from); err != nil {
			return rollup.Page{}, err
		}
	}
	return s.AuditStore.RollUps(ctx, t, from, limit)
}

func (s hooked) Counters(ctx context.Context, r *rollup.Route, from string, limit int) (rollup.Page, error) {
	if s.page != nil {
		if err := s.page(byShards, r.Template, from); err != nil {
			return rollup.Page{}, err
		}
	}
	return s.AuditStore.Counters(ctx, r, from, limit)
}

func (s hooked) LoadCursor(ctx context.Context) (rollup.Cursor, error) {
	if s.load != nil {
		if err := s.load(); err != nil {
			return rollup.Cursor{}, err
		}
	}
	return s.AuditStore.LoadCursor(ctx)
}

func (s hooked) SaveCursor(ctx context.Context, c rollup.Cursor) (time.Time, error) {
	if s.save != nil {
		if err := s.save(c); err != nil {
			return time.Time{}, err
		}
	}
	return s.AuditStore.SaveCursor(ctx, c)
}

// attempts are the writes of roll-ups that went well, by counter.
type attempts struct {
	mu    sync.Mutex
	asOfs map[string][]time.Time
	order []string // roll-ups, in the order of their writes
}

func (a *attempts) note(_ context.Context, attempt rollup.Attempt) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if attempt.Err != nil {
		return
	}
	if a.asOfs == nil {
		a.asOfs = make(map[string][]time.Time)
	}
	a.asOfs[attempt.Counter.RollUp] = append(a.asOfs[attempt.Counter.RollUp], attempt.AsOf)
	a.order = append(a.order, attempt.Counter.RollUp)
}

// gaps are the times between a counter's roll-ups.
func (a *attempts) gaps(rollUp string) []time.Duration {
	asOfs := slices.SortedFunc(slices.Values(a.asOfs[rollUp]), time.Time.Compare)
	var gaps []time.Duration
	for i := range len(asOfs) - 1 {
		gaps = append(gaps, asOfs[i+1].Sub(asOfs[i]).Round(time.Millisecond))
	}
	return gaps
}

// keep is a tick that keeps scheduled until a time.
func (w *world) keep(store rollup.AuditStore, until time.Time, wrote *attempts) (rollup.KeepReport, error) {
	o := w.options(0)
	if wrote != nil {
		o.Wrote = wrote.note
	}
	return rollup.Keep(w.t.Context(), store, scheduled.Template.Routes, 4, until, o)
}

// wantKeep wants a tick to end well and to count this.
func (w *world) wantKeep(until time.Time, want rollup.KeepReport) {
	w.t.Helper()
	got, err := w.keep(traced{w.store, w}, until, nil)
	if d := cmp.Diff(want, got); d != "" || err != nil {
		w.t.Errorf("%v: report (-want +got):\n%s", err, d)
	}
}

// Every counter is rolled up once in D, from the one with the oldest roll-up on, until the tick's
// time is over. The tick lists them once.
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
		pages := 0
		store := hooked{AuditStore: traced{w.store, w}, page: func(by, *rollup.Template, string) error { pages++; return nil }}
		var wrote attempts
		o := w.options(0)
		o.Wrote = wrote.note
		report, err := rollup.Keep(w.t.Context(), store, scheduled.Template.Routes, 1, began.Add(35*time.Second), o)
		if d := cmp.Diff(rollup.KeepReport{Counters: 4, RolledUp: 16}, report); d != "" || err != nil {
			t.Errorf("%v: report (-want +got):\n%s", err, d)
		}
		if first, want := wrote.order[:4], []string{"rollups/new", "rollups/b", "rollups/c", "rollups/a"}; !slices.Equal(first, want) {
			t.Errorf("the first round was %v, want %v", first, want)
		}
		for _, name := range names {
			if gaps := wrote.gaps("rollups/" + name); !slices.Equal(gaps, []time.Duration{every, every, every}) {
				t.Errorf("%s was rolled up with gaps of %v", name, gaps)
			}
		}
		if pages != 2 {
			t.Errorf("%d pages were listed, want one of roll-ups and one of shards", pages)
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
		store := hooked{AuditStore: traced{w.store, w}, view: func(context.Context, rollup.Counter) error {
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
		if d := cmp.Diff(rollup.KeepReport{Counters: n, RolledUp: n}, report); d != "" || err != nil {
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

// A tick that has more counters than time begins none after its time, and says so.
func TestKeepBeginsNoCounterLate(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		for i := range 400 {
			w.store.Increment(fmt.Sprintf("counters/%d/shards/0", i), "count", 1)
		}
		w.duringView = func(int32) { time.Sleep(time.Second) }
		until := time.Now().Add(every)
		report, err := w.keep(traced{w.store, w}, until, nil)
		if late := time.Since(until); late > time.Second || err == nil || !strings.Contains(err.Error(), "there was time for ") || report.RolledUp < 36 || report.RolledUp > 44 {
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
		if d := cmp.Diff(rollup.KeepReport{Counters: 1, RolledUp: 3, Unchanged: 23}, report); d != "" || err != nil {
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
		store := hooked{AuditStore: traced{w.store, w}, view: func(ctx context.Context, _ rollup.Counter) error {
			timer := time.NewTimer(time.Second)
			defer timer.Stop()
			select {
			case <-timer.C:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}}
		report, err := rollup.Keep(ctx, store, scheduled.Template.Routes, 2, began.Add(time.Hour), w.options(0))
		if took := time.Since(began); took != 2500*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		if report.Counters != 10 || report.RolledUp != 4 || report.Failed != 6 || err == nil || !strings.Contains(strings.Join(report.Errors, "\n"), cut.Error()) {
			t.Errorf("got %+v, %v; want 4 rolled up and 6 failed", report, err)
		}
		w.wantKeep(time.Time{}, rollup.KeepReport{Counters: 10, RolledUp: 6})
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
				store := hooked{AuditStore: traced{w.store, w}, view: func(_ context.Context, c rollup.Counter) error {
					if c.RollUp == "rollups/1" && failed < test.failures {
						failed++
						return errors.New("unavailable")
					}
					return nil
				}}
				report, err := w.keep(store, time.Time{}, nil)
				if d := cmp.Diff(test.want, report); d != "" {
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

// Whoever writes the roll-up between a tick's look and its removal keeps it.
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

// A counter that fails all the time is tried at a decent rate, and once it works again no failure
// is left of it.
func TestKeepRecovers(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.increment(1)
		began := time.Now()
		looks := 0
		store := hooked{AuditStore: traced{w.store, w}, view: func(context.Context, rollup.Counter) error {
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
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		routes, err := rollup.ParseRoutes("a/{a}/b/{b} -> c/{a} : count : every 10s; " + scheduled.Template.Routes[0].String() + "; live/{l}/s/{s} -> live_totals/{l} : count")
		if err != nil {
			t.Fatal(err)
		}
		for i := range 250 { // three pages
			w.store.Increment(fmt.Sprintf("a/%03d/b/0", i), "count", 1)
			w.store.Put(fmt.Sprintf("c/%03d", i), rolledUp(int64(0), 1, time.Now()))
		}
		w.store.Increment("a/new/b/0", "count", 1)
		w.store.Increment("live/x/s/0", "count", 1)
		w.increment(7)
		for _, test := range []struct {
			by   by
			want int
		}{{byShards, 251}, {byRollUp, 252}} { // the new one is found by its shards alone
			store := hooked{AuditStore: traced{w.store, w}, page: func(by by, r *rollup.Template, from string) error {
				if r == routes[0].Template && by == test.by && (from != "" || by == byShards) {
					return errors.New("no index")
				}
				return nil
			}}
			report, err := rollup.Keep(w.t.Context(), store, routes, 4, time.Time{}, w.options(0))
			if report.Counters != test.want || report.Failed != 0 || err == nil || strings.Count(err.Error(), "rollup: finding the ") != 1 {
				t.Errorf("got %+v, %v; want %d counters and one problem", report, err, test.want)
			}
			w.wantTotal(7)
		}
		if got := w.store.Get("live_totals/x"); got != nil {
			t.Errorf("a live route was kept: %v", got)
		}
	})
}

// Events that come all the same are rolled up as on a live route and not by D, and the schedule
// keeps to D beside them.
func TestEventsOfScheduledRoute(t *testing.T) {
	for _, burst := range []int{1, 5} {
		t.Run(fmt.Sprint("burst ", burst), func(t *testing.T) {
			inWorld(t, func(w *world, _ *rollup.Coalescer) {
				o := w.options(0)
				o.Burst = burst
				var live, kept attempts
				o.Wrote = live.note
				c := rollup.NewCoalescer(traced{w.store, w}, o)
				w.increment(1)
				began := time.Now()
				var all sync.WaitGroup
				all.Go(func() {
					if report, err := w.keep(traced{w.store, w}, began.Add(6*every), &kept); err != nil {
						t.Errorf("%+v, %v", report, err)
					}
				})
				time.Sleep(every / 2)
				for i := range 200 { // for two D
					committed := w.increment(1)
					all.Go(func() {
						e, err := c.Changed(w.t.Context(), scheduled, rollup.Event{ID: fmt.Sprint("e", i), UpdateTime: committed})
						if waited := time.Since(committed); err != nil || e.Held && e.AsOf.Before(committed) || waited > 27*cadence/10 {
							t.Errorf("event %d ended %+v, %v after %v", i, e, err, waited)
						}
					})
					time.Sleep(100 * time.Millisecond)
				}
				all.Wait()
				w.wantTotal(201)
				if n := len(live.asOfs[likes.RollUp]); n < 18 || n > burst+21 {
					t.Errorf("%d roll-ups of events in 20 s, want one in each cadence and a burst of %d", n, burst)
				}
				for _, gap := range kept.gaps(likes.RollUp) {
					if gap < every {
						t.Errorf("the schedule rolled up twice within %v", gap)
					}
				}
			})
		})
	}
}

// A route goes from live to "every" and back under load, whatever the order of the deployments: old
// and new instances run side by side, events get lost because there is no trigger, and for a while
// neither or both of the trigger and the schedule are at work. After the next tick the total is
// exact.
func TestSwitchingBetweenLiveAndEvery(t *testing.T) {
	orders := [][3]string{
		{"trigger", "functions", "schedule"}, {"trigger", "schedule", "functions"}, {"functions", "trigger", "schedule"},
		{"functions", "schedule", "trigger"}, {"schedule", "trigger", "functions"}, {"schedule", "functions", "trigger"},
	}
	for _, toEvery := range []bool{true, false} {
		for _, order := range orders {
			t.Run(fmt.Sprintf("to every %v: %s", toEvery, strings.Join(order[:], ", ")), func(t *testing.T) {
				inWorld(t, func(w *world, _ *rollup.Coalescer) { w.switchRoutes(toEvery, order) })
			})
		}
	}
}

func (w *world) switchRoutes(toEvery bool, order [3]string) {
	const step, period = 15 * time.Second, 20 * time.Second
	began := time.Now()
	at := make(map[string]time.Time) // when each has changed
	for i, what := range order {
		at[what] = began.Add(step * time.Duration(i+1))
	}
	changed := func(what string, after time.Duration) bool { return !time.Now().Before(at[what].Add(after)) }
	o := w.options(0.5)
	o.Burst = 5
	instances := []*rollup.Coalescer{rollup.NewCoalescer(traced{w.store, w}, o), rollup.NewCoalescer(traced{w.store, w}, o), rollup.NewCoalescer(traced{w.store, w}, o)}
	var all sync.WaitGroup
	const events = 1500
	for i := range events { // 20 a second, until all has changed and longer
		all.Go(func() {
			time.Sleep(time.Duration(i)*50*time.Millisecond + jitter(fmt.Sprint("event ", i)))
			committed := w.increment(1)
			switch { // a trigger that is new takes some seconds to start
			case toEvery && changed("trigger", 0), !toEvery && !changed("trigger", 3*time.Second):
				return
			}
			time.Sleep(time.Duration(i%9) * 20 * time.Millisecond)
			n := i % len(instances)
			counter := likes
			if changed("functions", time.Duration(n)*3*time.Second) == toEvery { // one instance after the other
				counter = scheduled
			}
			if e, err := instances[n].Changed(w.t.Context(), counter, rollup.Event{ID: fmt.Sprint("e", i), UpdateTime: committed}); err != nil || e.Held && e.AsOf.Before(committed) {
				w.t.Errorf("event %d ended %+v, %v", i, e, err)
			}
		})
	}
	tick := func() {
		if changed("schedule", 0) == toEvery {
			if report, err := w.keep(traced{w.store, w}, time.Now().Add(period), nil); err != nil {
				w.t.Errorf("%+v, %v", report, err)
			}
		} else if report, err := w.audit(w.auditOptions()); err != nil {
			w.t.Errorf("%+v, %v", report, err)
		}
	}
	all.Go(func() {
		for range 4 { // the last begins before the last event
			tick()
			time.Sleep(time.Until(began.Add(time.Since(began).Truncate(period) + period)))
		}
	})
	all.Wait()
	tick()
	w.wantTotal(events)
}

// However often a counter with malformed shards is visited, it is counted once. It is counted even
// if its first visit failed, or found that another tick had just rolled it up.
func TestKeepCountsMalformedCounters(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.increment(1)
		w.store.Put(shardsOf(likes)+"/1", map[string]any{"count": "x"})
		w.store.Put("counters/b/shards/0", map[string]any{"count": math.NaN()})
		w.store.Put("counters/c/shards/0", map[string]any{"count": int64(1)})
		w.wantKeep(time.Now().Add(3*every+time.Second), rollup.KeepReport{Counters: 3, RolledUp: 3, Unchanged: 9, Malformed: 2})
		time.Sleep(every)
		w.beforeView = func(int32) error { w.beforeView = nil; return errors.New("unavailable") }
		w.wantKeep(time.Now().Add(3*every+time.Second), rollup.KeepReport{Counters: 3, Unchanged: 12, Malformed: 2})
	})
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.increment(1)
		w.store.Put(shardsOf(likes)+"/1", map[string]any{"count": "x"})
		w.wantKeep(time.Time{}, rollup.KeepReport{Counters: 1, RolledUp: 1, Malformed: 1})
		time.Sleep(every / 2)
		w.wantKeep(time.Now().Add(every), rollup.KeepReport{Counters: 1, Unchanged: 1, Malformed: 1})
	})
}

// At most five malformed shards are named, once in ten minutes for each counter, whoever sums them.
func TestMalformedShardsAreNamedOnceInAWhile(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		for i := range 20 {
			w.store.Put(fmt.Sprintf("%s/%02d", shardsOf(likes), i), map[string]any{"count": "x"})
		}
		w.store.Put("counters/other/shards/0", map[string]any{"count": nil})
		other, _ := likes.Template.Routes[0].Counter("counters/other/shards")
		events := 0
		change := func(counter rollup.Counter) {
			t.Helper()
			events++
			if _, err := c.Changed(w.t.Context(), counter, rollup.Event{ID: fmt.Sprint("e", events)}); err != nil {
				t.Error(err)
			}
		}
		named := func(want ...string) {
			t.Helper()
			var got []string
			for line := range strings.Lines(w.log.String()) {
				if strings.Contains(line, "left out of the sum") {
					got = append(got, line)
				}
			}
			w.log.Reset()
			if len(got) != len(want) {
				t.Fatalf("%d lines, want %d:\n%s", len(got), len(want), got)
			}
			for i, line := range got {
				if !strings.Contains(line, "level=WARN") || !strings.Contains(line, want[i]) {
					t.Errorf("got %s\nwant %s", line, want[i])
				}
			}
		}
		const five = `counter=rollups/likes event_id=e1 count=20 shards="[counters/likes/shards/00: count is a string, not a number counters/likes/shards/01: count is a string, not a number ` +
			`counters/likes/shards/02: count is a string, not a number counters/likes/shards/03: count is a string, not a number counters/likes/shards/04: count is a string, not a number]"`
		began := time.Now()
		change(likes)
		named(five)
		change(other)
		named(`counter=rollups/other event_id=e2 count=1 shards="[counters/other/shards/0: count is null, not a number]"`)
		for time.Since(began) < 10*time.Minute-10*time.Second {
			change(likes)
			time.Sleep(9 * time.Second)
		}
		named()
		time.Sleep(time.Until(began.Add(10 * time.Minute)))
		change(likes)
		change(likes)
		named(strings.Replace(five, "event_id=e1", fmt.Sprint("event_id=e", events-1), 1))
	})
}

// A tick and an audit say once each which shards a counter's sum left out.
func TestKeepNamesMalformedShards(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.store.Put(shardsOf(likes)+"/0", map[string]any{"count": "x"})
		w.wantKeep(time.Now().Add(20*every), rollup.KeepReport{Counters: 1, RolledUp: 3, Unchanged: 18, Malformed: 1})
		if n := strings.Count(w.log.String(), "left out of the sum"); n != 1 {
			t.Errorf("named %d times", n)
		}
	})
}

// What a write leaves in tally: the names of its routes' totals, and as former those that other
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
