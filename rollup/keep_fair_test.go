package rollup_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

// idle puts counters into the store that have right roll-ups, which are young enough to stay.
func (w *world) idle(names ...string) {
	for _, name := range names {
		w.store.Put("counters/"+name+"/shards/0", map[string]any{"count": int64(1)})
		w.store.Put("rollups/"+name, rolledUp(int64(1), 1, time.Now().Add(-every)))
	}
}

// named returns names that begin with a prefix.
func named(prefix string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("%s%03d", prefix, i))
	}
	return names
}

// visits notes which counters are looked at, and when, each for that long.
type visits struct {
	mu    sync.Mutex
	order []string
	at    map[string][]time.Time
	takes func(name string) time.Duration
}

func (v *visits) of(store rollup.AuditStore) hooked {
	return hooked{AuditStore: store, view: func(ctx context.Context, c route.Counter) error {
		name := strings.TrimPrefix(c.RollUp, "rollups/")
		v.mu.Lock()
		v.order = append(v.order, name)
		if v.at == nil {
			v.at = make(map[string][]time.Time)
		}
		v.at[name] = append(v.at[name], time.Now())
		v.mu.Unlock()
		if v.takes == nil {
			return nil
		}
		return wait(ctx, v.takes(name))
	}}
}

func second(string) time.Duration { return time.Second }

// round is how often a walk starts over.
const round = every * 11 / 10

// A call begins with the counters that had changed when the last one visited them, before it has
// found any.
func TestKeepBeginsWithWhatChanged(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.idle(named("idle", 250)...)
		w.idle("hot")
		w.wantKeep(time.Time{}, rollup.KeepReport{Counters: 251, Unchanged: 251})
		time.Sleep(every)
		w.store.Increment("counters/hot/shards/0", "count", 1)
		w.wantKeep(time.Time{}, rollup.KeepReport{Counters: 251, RolledUp: 1, Unchanged: 250})
		time.Sleep(every)

		w.store.Increment("counters/hot/shards/0", "count", 1)
		began := time.Now()
		var seen visits
		store := seen.of(traced{w.store, w})
		store.page = func(by, *route.Template, string) error { time.Sleep(hold / 2); return nil }
		if report, err := w.keep(store, began.Add(every), nil); err != nil || report.RolledUp != 1 {
			t.Errorf("%+v, %v", report, err)
		}
		if !seen.at["hot"][0].Equal(began) {
			t.Errorf("visited %v after the beginning", seen.at["hot"][0].Sub(began))
		}
	})
}

// queried is a store whose pages of counters without a roll-up take a query for each counter, as
// Firestore's do. Each takes a while. A page makes none once half of its time is over.
type queried struct {
	traced
	takes time.Duration
}

func (s queried) Missing(ctx context.Context, r *route.Route, since time.Time, from string, limit int) (all rollup.Page, err error) {
	deadline, _ := ctx.Deadline()
	enough := time.Now().Add(time.Until(deadline) / 2)
	all.Next = from
	for range limit {
		err := wait(ctx, s.takes)
		if err != nil {
			return rollup.Page{}, err
		}
		page, err := s.traced.Missing(ctx, r, since, all.Next, 1)
		if err != nil {
			return rollup.Page{}, err
		}

		all.Found = append(all.Found, page.Found...)
		all.Reads += page.Reads
		all.Next, all.ReadTime = page.Next, page.ReadTime
		if all.Next == "" || time.Now().After(enough) {
			break
		}
	}
	return all, nil
}

// A page of counters without a roll-up may take longer than a whole call, because it passes many
// others. Calls that are so short come to the end all the same, one after the other.
func TestShortCallsFindAllCounters(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.idle(named("a", 150)...)
		added := named("b", 20)
		for _, name := range added {
			w.store.Increment("counters/"+name+"/shards/0", "count", 1)
		}

		store := queried{traced{w.store, w}, 100 * time.Millisecond}
		for range 40 { // ten queries each are twice as many as there are counters
			report, err := w.keep(store, time.Now().Add(1500*time.Millisecond), nil)
			if err != nil {
				t.Fatalf("%+v, %v", report, err)
			}
		}

		for _, name := range added {
			if w.store.Get("rollups/"+name) == nil {
				t.Errorf("%s was not found", name)
			}
		}
	})
}

// Calls that cannot visit all go on where the last one stopped, also one that was killed and one
// that visits less than a page: each counter is visited again only after all others, whatever the
// ages of their roll-ups. A visit that finds nothing to write leaves a roll-up as old as it was.
func TestKeepGoesOnWhereItStopped(t *testing.T) {
	const n = 330
	for _, test := range []struct {
		name        string
		lasts       time.Duration
		killed      time.Duration // when; 0: never
		calls       int
		least, most int
	}{
		// Two visits a second.
		{"more than a page", time.Minute, 0, 9, 3, 4},
		{"less than a page", 20 * time.Second, 0, 27, 3, 4},
		// The cursor is as of half a minute, when 60 were visited. So 40 are visited twice in a round.
		{"killed", time.Minute, 50 * time.Second, 9, 1, 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, func(w *world, _ *rollup.Coalescer) {
				names := named("idle", n)
				w.idle(names...)
				for i, name := range names {
					age := every + time.Duration(i*7%n)*100*time.Millisecond
					w.store.Put("rollups/"+name, rolledUp(int64(1), 1, time.Now().Add(-age)))
				}
				o := w.keepOptions(2, time.Time{})
				seen := visits{takes: second}
				for range test.calls {
					time.Sleep(time.Second)
					ctx, kill := context.WithCancel(w.t.Context())
					if test.killed > 0 {
						time.AfterFunc(test.killed, kill)
					}
					o.Until = time.Now().Add(test.lasts)
					_, err := rollup.Keep(ctx, seen.of(traced{w.store, w}), scheduled.Template.Routes, o)
					if (err != nil) != (test.killed > 0) {
						t.Error(err)
					}
					kill()
				}

				least, most := math.MaxInt, 0
				for _, name := range names {
					least, most = min(least, len(seen.at[name])), max(most, len(seen.at[name]))
				}
				if least < test.least || most > test.most {
					t.Errorf("counters were visited %d to %d times, want %d to %d", least, most, test.least, test.most)
				}

				// A call with time for all comes round to the counters before its place.
				time.Sleep(every)
				o.Until = time.Now().Add(every)
				if report, err := rollup.Keep(w.t.Context(), traced{w.store, w}, scheduled.Template.Routes, o); err != nil || report.Counters != n {
					t.Errorf("%+v, %v; want all visited", report, err)
				}
			})
		})
	}
}

// Each class has its share of the visits while all have work.
func TestSharesOfVisits(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.idle(named("hot", 90)...)
		w.wantKeep(time.Time{}, rollup.KeepReport{Counters: 90, Unchanged: 90})
		time.Sleep(every)
		for _, name := range named("hot", 90) {
			w.store.Increment("counters/"+name+"/shards/0", "count", 1)
		}
		w.wantKeep(time.Time{}, rollup.KeepReport{Counters: 90, RolledUp: 90})
		w.idle(named("idle", 90)...)
		time.Sleep(every)
		for _, name := range named("new", 90) {
			w.store.Increment("counters/"+name+"/shards/0", "count", 1)
		}
		seen := visits{takes: second}
		o := w.keepOptions(1, time.Now().Add(110*time.Second))
		report, err := rollup.Keep(w.t.Context(), seen.of(traced{w.store, w}), scheduled.Template.Routes, o)
		if err != nil || report.Left == 0 {
			t.Errorf("%+v, %v", report, err)
		}
		const early = 5 // visits, which may begin before every class has found its counters
		share := make(map[string]int)
		for _, name := range seen.order[early : early+100] {
			share[strings.TrimRight(name, "0123456789")]++
		}
		// A new counter changes with its first visit, and is of that class from then on.
		if share["new"] < 20 || share["idle"] != 20 || share["hot"]+share["new"] != 80 || share["hot"] < 40 {
			t.Errorf("of 100 visits: %v", share)
		}
	})
}

// A counter whose total has changed is in the class of changed counters, and of the rest once a
// visit finds that it has not.
func TestClassOfChangedCounters(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		changed := func() []string {
			c, err := w.store.LoadCursor(w.t.Context(), rollup.Keeping)
			if err != nil {
				t.Fatal(err)
			}
			return slices.Sorted(slices.Values(c.Changed))
		}
		w.idle("a", "b")
		w.store.Increment("counters/new/shards/0", "count", 1)
		w.store.Put("counters/none/shards/0", map[string]any{"other": int64(1)})
		for _, test := range []struct {
			what    string
			change  []string
			sleep   time.Duration
			changed []string
		}{
			{"the first roll-up", nil, round, []string{"rollups/new"}},
			{"a change", []string{"a"}, every / 2, []string{"rollups/a"}},
			{"another, before it is due", []string{"b"}, round, []string{"rollups/a"}},
			{"that, when it is due", nil, round, []string{"rollups/b"}},
			{"none", nil, 11 * every, nil},
			{"a renewal", nil, every, nil},
		} {
			for _, name := range test.change {
				w.store.Increment("counters/"+name+"/shards/0", "count", 1)
			}
			if report, err := w.keep(traced{w.store, w}, time.Now().Add(time.Second), nil); err != nil {
				t.Errorf("%s: %+v, %v", test.what, report, err)
			}
			if got := changed(); !slices.Equal(got, test.changed) {
				t.Errorf("%s: changed are %v, want %v", test.what, got, test.changed)
			}
			time.Sleep(test.sleep)
		}
	})
}

// A counter that had changed, and that another has rolled up just now, stays what it is.
func TestChangedAndNotDue(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		for call := range 2 {
			w.increment(1)
			if call > 0 {
				w.rollUpElsewhere()
			}
			if report, err := w.keep(traced{w.store, w}, time.Now().Add(time.Second), nil); err != nil || report.Counters != 1 || report.RolledUp != 1-call {
				t.Errorf("call %d: %+v, %v", call, report, err)
			}
			c, err := w.store.LoadCursor(w.t.Context(), rollup.Keeping)
			if err != nil || !slices.Equal(c.Changed, []string{likes.RollUp}) {
				t.Errorf("call %d: changed are %v, %v", call, c.Changed, err)
			}
			time.Sleep(round)
		}
	})
}

// Visits that hang take neither the slots nor the turns of another class.
func TestHangingVisitsLeaveSlots(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.idle(append(named("junk", 300), "hot")...)
		w.wantKeep(time.Time{}, rollup.KeepReport{Counters: 301, Unchanged: 301})
		time.Sleep(every)
		w.store.Increment("counters/hot/shards/0", "count", 1)
		w.wantKeep(time.Time{}, rollup.KeepReport{Counters: 301, RolledUp: 1, Unchanged: 300})

		seen := visits{takes: func(name string) time.Duration {
			if name == "hot" {
				w.store.Increment("counters/hot/shards/0", "count", 1)
				return 0
			}
			return time.Hour
		}}
		o := w.keepOptions(32, time.Now().Add(10*every))
		report, err := rollup.Keep(w.t.Context(), seen.of(traced{w.store, w}), scheduled.Template.Routes, o)
		if err == nil || report.Failed == 0 {
			t.Errorf("%+v, %v", report, err)
		}
		for i, at := range seen.at["hot"][1:] {
			if gap := at.Sub(seen.at["hot"][i]); gap > every {
				t.Errorf("visit %d came %v after the one before", i+2, gap)
			}
		}
		if n := len(seen.at["hot"]); n < 10 {
			t.Errorf("%d visits of the hot counter", n)
		}
		if n := len(seen.order); n < 24*(100/8) {
			t.Errorf("%d visits in all, want 24 slots taken all the time: 4 for each other class are spare", n)
		}
	})
}

// A counter that fails each time is tried again soon, and then less and less often, until it is
// visited no more often than others. It does not stay among the counters that had changed.
func TestKeepOfWhatAlwaysFails(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.idle("bad", "good")
		w.wantKeep(time.Time{}, rollup.KeepReport{Counters: 2, Unchanged: 2})
		time.Sleep(every)
		w.store.Increment("counters/bad/shards/0", "count", 1)
		w.wantKeep(time.Time{}, rollup.KeepReport{Counters: 2, RolledUp: 1, Unchanged: 1})
		time.Sleep(every)
		looks := 0
		store := hooked{AuditStore: traced{w.store, w}, view: func(_ context.Context, c route.Counter) error {
			if c.RollUp != "rollups/bad" {
				return nil
			}
			looks++
			return errors.New("unavailable")
		}}
		report, err := w.keep(store, time.Now().Add(100*every), nil)
		if err == nil || report.Failed != 1 || len(report.Errors) != 1 {
			t.Errorf("%+v, %v", report, err)
		}
		// 50, 100, … ms, half of that at random 0, up to D; then one each half D or more
		if looks < 100 || looks > 210 {
			t.Errorf("%d looks in a hundred D", looks)
		}
		if c, err := w.store.LoadCursor(w.t.Context(), rollup.Keeping); err != nil || len(c.Changed) != 0 {
			t.Errorf("changed are %v, %v", c.Changed, err)
		}
	})
}

// The reads are spread over the time, so that there are some to the end, and finding counters takes
// its part of them only.
func TestKeepSpreadsItsReads(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.idle(named("idle", 900)...)
		const most = 1000
		var found atomic.Int64
		began := time.Now()
		var late []float64
		store := hooked{AuditStore: traced{w.store, w}, page: func(by by, _ *route.Template, _ string) error {
			found.Add(100)
			if by == byShards {
				found.Add(100)
			}
			return nil
		}}
		o := w.keepOptions(4, began.Add(100*time.Second))
		visited := w.reads()
		o.MaxReads, o.Reads = most, func() int64 { return visited() + found.Load() }
		var mu sync.Mutex
		store.view = func(context.Context, route.Counter) error {
			mu.Lock()
			defer mu.Unlock()
			passed := time.Since(began).Seconds() / 100
			late = append(late, float64(o.Reads())/most-(0.1+0.9*passed))
			return nil
		}
		report, err := rollup.Keep(w.t.Context(), store, scheduled.Template.Routes, o)
		if err != nil {
			t.Errorf("%+v, %v", report, err)
		}
		if read := o.Reads(); read < most*95/100 || read > most+10 {
			t.Errorf("%d reads, want about %d", read, most)
		}
		if slices.Max(late) > 0.21 { // two pages were found at once
			t.Errorf("the reads were ahead of the time by %v of them", slices.Max(late))
		}
		if n := found.Load(); n > most/4+300 {
			t.Errorf("finding took %d reads, want about a quarter", n)
		}
		if took := time.Since(began); took < 95*time.Second || report.Left == 0 {
			t.Errorf("ended after %v, and left %d", took, report.Left)
		}
	})
}

// The report says how old the oldest roll-up was, by what its route says, and the log when that is
// too old.
func TestGreatestAge(t *testing.T) {
	routes, err := route.Parse(scheduled.Template.Routes[0].String() + "\na/{a}/b/{b} -> c/{a} : count : every 1h")
	if err != nil {
		t.Fatal(err)
	}
	slow, _ := routes[1].Template.Counter("c/slow")
	for name, test := range map[string]struct {
		age  time.Duration // of rollups/old
		late bool
	}{"in time": {19 * every, false}, "late": {21 * every, true}} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world, _ *rollup.Coalescer) {
				w.idle("young")
				w.store.Put("counters/old/shards/0", map[string]any{"count": int64(1)})
				w.store.Put("rollups/old", rolledUp(int64(1), 1, time.Now().Add(-test.age)))
				w.store.Put("rollups/zeros", rolledUp(int64(0), 0, time.Now().Add(-50*time.Minute)))
				w.store.Put(shardsOf(slow)+"/0", map[string]any{"count": int64(1)})
				fields := rolledUp(int64(1), 1, time.Now().Add(-2*time.Hour))
				fields["tally"].(map[string]any)["routes"] = slow.Template.Hash()
				w.store.Put(slow.RollUp, fields)
				began := time.Now()
				report, err := rollup.Keep(w.t.Context(), traced{w.store, w}, routes, w.keepOptions(4, began.Add(25*every)))
				if err != nil || report.Oldest != "rollups/old" || math.Abs(report.GreatestAge-test.age.Seconds()) > 0.001 {
					t.Errorf("%+v, %v; want that of %v", report, err, test.age)
				}
				if got := strings.Contains(w.log.String(), "kept late"); got != test.late {
					t.Errorf("logged that it is late: %v", got)
				}
				w.log.Reset()
				report, err = rollup.Keep(w.t.Context(), traced{w.store, w}, routes, w.keepOptions(4, time.Now().Add(25*every)))
				if err != nil || report.GreatestAge > (11*every).Seconds() || strings.Contains(w.log.String(), "kept late") {
					t.Errorf("the next: %+v, %v", report, err)
				}
			})
		})
	}
}

// A counter that was found and is left counts as much for the age as a visited one.
func TestGreatestAgeOfWhatIsLeft(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.idle(named("idle", 150)...) // more than a page
		w.store.Put("rollups/last", rolledUp(int64(1), 1, time.Now().Add(-5*every)))
		w.store.Put("counters/last/shards/0", map[string]any{"count": int64(1)})
		w.store.Put("rollups/zeros", rolledUp(int64(0), 0, time.Now().Add(-6*every)))
		seen := visits{takes: second}
		store := seen.of(traced{w.store, w})
		report, err := rollup.Keep(w.t.Context(), store, scheduled.Template.Routes, w.keepOptions(1, time.Now().Add(20*time.Second)))
		if err != nil || report.Left < 25 || report.Oldest != "rollups/last" {
			t.Errorf("%+v, %v", report, err)
		}
	})
}

// The cursor of one hot counter is saved once in a call: when its walks have begun again. A call
// that cannot load or save it keeps all the same, and says so; a call whose cursor another has
// saved leaves saving to the other.
func TestKeepsCursor(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		saved := 0
		var loads, saves error
		store := hooked{AuditStore: traced{w.store, w}, load: func() error { return loads }, save: func(rollup.Cursor) error { saved++; return saves },
			view: func(_ context.Context, c route.Counter) error {
				w.store.Increment(shardsOf(c)+"/0", "count", 1)
				return nil
			}}
		w.increment(1)
		keep := func(d time.Duration, want int, fails bool) {
			t.Helper()
			saved = 0
			report, err := w.keep(store, time.Now().Add(d), nil)
			if (err != nil) != fails || report.Failed > 0 || report.RolledUp < int(d/every) {
				t.Errorf("%+v, %v", report, err)
			}
			if saved != want {
				t.Errorf("the cursor was saved %d times in %v, want %d", saved, d, want)
			}
			time.Sleep(every)
		}
		keep(10*time.Minute, 1, false)
		keep(10*time.Minute, 1, false)
		loads = errors.New("unavailable")
		keep(time.Minute, 0, true)
		loads, saves = nil, errors.New("unavailable")
		w.store.Increment("counters/other/shards/0", "count", 1)
		keep(100*time.Second, 4, true)
		saves = rollup.ErrConflict
		w.store.Increment("counters/third/shards/0", "count", 1)
		keep(100*time.Second, 1, false)
	})
}

// The cursor's list of counters that changed has room for some thousands, first the ones that are
// due first.
func TestKeepsCursorHasRoomForSome(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		const n, long = 300, 1000
		for i := range n {
			w.store.Increment(fmt.Sprintf("counters/%03d%s/shards/0", i, strings.Repeat("x", long)), "count", 1)
		}
		seen := visits{takes: func(string) time.Duration { return time.Millisecond }}
		o := w.keepOptions(1, time.Now().Add(time.Second))
		report, err := rollup.Keep(w.t.Context(), seen.of(traced{w.store, w}), scheduled.Template.Routes, o)
		if err != nil || report.RolledUp != n {
			t.Errorf("%+v, %v", report, err)
		}
		c, err := w.store.LoadCursor(w.t.Context(), rollup.Keeping)
		size := 0
		for i, path := range c.Changed {
			if path != "rollups/"+seen.order[i] {
				t.Errorf("%s has the place of %s, which is due sooner", path[:12], seen.order[i][:4])
			}
			size += len(path)
		}
		if err != nil || len(c.Changed) < 190 || size > 200_000 {
			t.Errorf("%d paths of %d bytes, %v", len(c.Changed), size, err)
		}
	})
}

// A page that cannot be read is tried again by the next call, and what lies before it is found all
// the same.
func TestKeepsFailedPageIsTriedAgain(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		names := named("idle", 350)
		w.idle(names...)
		broken := true
		store := hooked{AuditStore: traced{w.store, w}, page: func(by by, _ *route.Template, from string) error {
			if broken && by == byRollUp && from > "rollups/idle1" {
				return errors.New("unavailable")
			}
			return nil
		}}
		for call := range 3 {
			time.Sleep(every)
			broken = call < 2
			report, err := w.keep(store, time.Now().Add(time.Second), nil)
			want := 200
			if !broken {
				want = len(names)
			}
			if report.Counters != want || (err != nil) != broken {
				t.Errorf("call %d: %+v, %v; want %d visited", call, report, err, want)
			}
			c, err := w.store.LoadCursor(w.t.Context(), rollup.Keeping)
			if err != nil || broken && c.Places[0].From != "rollups/idle199" {
				t.Errorf("call %d: places %+v, %v", call, c.Places, err)
			}
		}
	})
}

// A call finds a hundred thousand counters at most by their roll-ups, and the next goes on with the
// others.
//
//	go test ./rollup -run TestKeepHoldsNoMore -sim.counters=100000
func TestKeepHoldsNoMore(t *testing.T) {
	if *fairCounters < 100_000 {
		t.Skip("takes half a minute; -sim.counters=100000 runs it")
	}
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		const n, most = 100_350, 100_000
		asOf := time.Now().Add(-every)
		for i := range n {
			w.store.Put(fmt.Sprintf("rollups/%06d", i), rolledUp(int64(1), 1, asOf))
			w.store.Put(fmt.Sprintf("counters/%06d/shards/0", i), map[string]any{"count": int64(1)})
		}
		visited := make(map[string]bool)
		var mu sync.Mutex
		store := hooked{AuditStore: w.store, view: func(_ context.Context, c route.Counter) error {
			mu.Lock()
			defer mu.Unlock()
			visited[c.RollUp] = true
			return nil
		}}
		first, err := w.keep(store, time.Time{}, nil)
		if err != nil || first.Counters != most {
			t.Errorf("%d visited, %v; want %d", first.Counters, err, most)
		}
		second, err := w.keep(store, time.Time{}, nil)
		if err != nil || second.Counters > n || len(visited) != n {
			t.Errorf("%d visited by the second call, %v, and %d by both; want all %d", second.Counters, err, len(visited), n)
		}
	})
}

// A failure is over with the next visit that goes well: the next one is tried again as soon as the
// first.
func TestKeepForgetsFailures(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.idle("a")
		var failed time.Time
		looks := 0
		store := hooked{AuditStore: traced{w.store, w}, view: func(context.Context, route.Counter) error {
			if looks++; looks%2 == 1 {
				failed = time.Now()
				return errors.New("unavailable")
			}
			if waited := time.Since(failed); waited > 50*time.Millisecond {
				t.Errorf("look %d came %v after the failure", looks, waited)
			}
			return nil
		}}
		if report, err := w.keep(store, time.Now().Add(30*every), nil); err != nil || looks < 58 {
			t.Errorf("%+v, %v after %d looks", report, err, looks)
		}
	})
}
