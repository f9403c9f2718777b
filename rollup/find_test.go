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

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/test/memstore"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

// A billed store is billed as Firestore is, and counts the reads that find counters apart.
type billed struct {
	*memstore.Store
	all, find *atomic.Int64
}

func bill(store *memstore.Store) billed {
	return billed{store, new(atomic.Int64), new(atomic.Int64)}
}

func (s billed) page(p rollup.Page, err error) (rollup.Page, error) {
	time.Sleep(50 * time.Millisecond)
	s.all.Add(p.Reads)
	s.find.Add(p.Reads)
	return p, err
}

func (s billed) RollUps(ctx context.Context, t *route.Template, from string, limit int) (rollup.Page, error) {
	return s.page(s.Store.RollUps(ctx, t, from, limit))
}

func (s billed) Missing(ctx context.Context, r *route.Route, since time.Time, from string, limit int) (rollup.Page, error) {
	return s.page(s.Store.Missing(ctx, r, since, from, limit))
}

func (s billed) View(ctx context.Context, c route.Counter) (rollup.Snapshot, error) {
	time.Sleep(20 * time.Millisecond)
	s.all.Add(1)
	v, err := s.Store.View(ctx, c)
	return billedSum{v, s.all}, err
}

type billedSum struct {
	rollup.Snapshot
	reads *atomic.Int64
}

func (v billedSum) Sum(ctx context.Context) (route.Totals, error) {
	v.reads.Add(1)
	return v.Snapshot.Sum(ctx)
}

// options returns the options of a tick that may bill so many reads.
func (s billed) options(w *world, lasts time.Duration, reads int64) rollup.KeepOptions {
	before := s.all.Load()
	o := w.keepOptions(32, time.Now().Add(lasts))
	o.MaxReads, o.Reads = reads, func() int64 { return s.all.Load() - before }
	return o
}

// Finding counters takes a quarter of a tick's reads, however many of the documents that it finds
// are no counters, and goes on to the tick's end.
func TestFindingIsCharged(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		routes := mustRoutes("posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing : every 1s")
		for i := range 20_000 {
			w.store.Put(fmt.Sprintf("posts/m%05d", i), map[string]any{"x": 1})
		}
		for i := range 50 {
			w.store.Put(fmt.Sprintf("posts/a%d", i), map[string]any{"x": 1})
			w.store.Put(fmt.Sprintf("posts/a%d/likes/u", i), map[string]any{"x": 1})
		}
		for tick := range 2 {
			s := bill(w.store)
			const reads = 12_000
			o := s.options(w, time.Minute, reads)
			report, err := rollup.Keep(w.t.Context(), s, routes, o)
			all, find := s.all.Load(), s.find.Load()
			if err != nil || report.Left > 0 || all > reads+100 {
				t.Errorf("tick %d: %+v, %v; %d reads of %d", tick, report, err, all, reads)
			}
			const byRollUps, byShards = reads * 3 / 16, 101
			if most := int64(byRollUps + byShards + 100); find > most || find < byRollUps {
				t.Errorf("tick %d: finding took %d of %d reads, want at most %d, and those", tick, find, all, most)
			}
		}
	})
}

// Routes are found in turn also by ticks that find a page each, because they may bill few reads or
// are short, although somebody makes counters of the first route up. The report names the routes
// that no tick has come to.
func TestEachRouteIsFound(t *testing.T) {
	const junk, real, ticks = 400, 30, 60
	for _, test := range []struct {
		lasts time.Duration
		reads int64
		every string
	}{
		{10 * time.Minute, 1000, "10m"},
		{10 * time.Minute, 200, "10m"},
		{120 * time.Millisecond, 100_000, "1m"},
	} {
		t.Run(fmt.Sprint(test.lasts, " ", test.reads), func(t *testing.T) {
			inWorld(t, func(w *world, _ *rollup.Coalescer) {
				var lines []string
				for n, counters := range []int{junk, real, real, real} {
					lines = append(lines, fmt.Sprintf("c%d/{c}/s/{s} -> r%d/{c} : n : every %s", n, n, test.every))
					for i := range counters {
						w.store.Put(fmt.Sprintf("c%d/%03d/s/0", n, i), map[string]any{"n": int64(1)})
					}
				}
				routes := mustRoutes(strings.Join(lines, "; "))
				kept := func(n int) (kept int) {
					for i := range real {
						if w.store.Get(fmt.Sprintf("r%d/%03d", n, i)) != nil {
							kept++
						}
					}
					return kept
				}

				s := bill(w.store)
				drawn := 0.0
				for tick := range ticks {
					o := s.options(w, test.lasts, test.reads)
					o.Random = func() float64 { _, drawn = math.Modf(drawn + math.Phi); return drawn }
					report, err := rollup.Keep(w.t.Context(), s, routes, o)
					if err != nil {
						t.Fatal(err)
					}
					if read := o.Reads(); read > test.reads*5/4+100 { // a page and the visits that are in work when the last read is used
						t.Errorf("tick %d: %d reads of %d", tick, read, test.reads)
					}
					for n := range 4 {
						name := fmt.Sprintf("shards of c%d/{c}/s/{s}", n)
						if tick == 0 && test.lasts > time.Minute && kept(n) == 0 && !slices.Contains(report.Unfound, name) {
							t.Errorf("the first report names %v, and not %s", report.Unfound, name)
						}
					}
					time.Sleep(time.Until(o.Until))
				}
				for n := range 4 {
					if got := kept(n); got < real {
						t.Errorf("after %d ticks, %d of %d counters of route %d have a roll-up", ticks, got, real, n)
					}
				}
			})
		})
	}
}

// A tick that has nothing to do but to find more waits for its reads until its end.
func TestTickWaitsToFindMore(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		routes := mustRoutes("posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing : every 1h")
		for i := range 5000 {
			w.store.Put(fmt.Sprintf("posts/m%05d", i), map[string]any{"x": 1})
		}
		s := bill(w.store)
		const reads = 12_000
		if report, err := rollup.Keep(w.t.Context(), s, routes, s.options(w, time.Minute, reads)); err != nil {
			t.Errorf("%+v, %v", report, err)
		}
		if find := s.find.Load(); find < reads*3/16 {
			t.Errorf("finding took %d reads, want its part of %d", find, reads)
		}
	})
}

// A counter that is quiet for hours stays as fresh as its route says, however many documents of the
// app's lie about it: a tick begins with the counters that the last one has visited.
func TestQuietCounterAmongForeign(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		routes := mustRoutes("posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing : every 10s")
		for i := range 20_000 {
			w.store.Put(fmt.Sprintf("posts/m%05d", i), map[string]any{"x": 1})
		}
		w.store.Put("posts/z", map[string]any{"x": 1})
		w.store.Put("posts/z/likes/0", map[string]any{"x": 1})
		s := bill(w.store)
		for tick := range 12 {
			began := time.Now()
			if tick%4 == 3 { // an hour later
				began = began.Add(-10 * time.Minute)
				time.AfterFunc(3*time.Minute, func() {
					want := int64(tick + 1)
					for i := range want {
						w.store.Put(fmt.Sprint("posts/z/likes/", i), map[string]any{"x": 1})
					}
					time.Sleep(11 * time.Second)
					if got := w.store.Get("posts/z")["likes"]; got != want {
						t.Errorf("tick %d: %v likes, want %d", tick, got, want)
					}
				})
			}
			report, err := rollup.Keep(w.t.Context(), s, routes, s.options(w, 10*time.Minute, 18_000))
			if err != nil || report.Counters != 1 {
				t.Errorf("tick %d: %+v, %v", tick, report, err)
			}
			time.Sleep(time.Until(began.Add(10 * time.Minute)))
		}
	})
}

// A tick finds counters at the pace of their routes, and not again in each tick: 500 of them with
// "every 24h" cost about three reads a day to find, instead of 216,000. They are visited all the
// same, each once in that time.
func TestFindsAtThePaceOfD(t *testing.T) {
	type cell struct {
		every, lasts time.Duration
		ticks        int
		least, most  int // times that the walks come round
	}
	grid := []cell{
		{24 * time.Hour, 10 * time.Minute, 3 * 144, 3, 3},
		{15 * time.Minute, 10 * time.Minute, 45, 29, 30},
		{10 * time.Second, 10 * time.Minute, 12, 12, 12}, // once a tick
	}
	for _, test := range cellsOf(grid, func(c cell) bool { return c.every > time.Minute }) {
		t.Run(test.every.String(), func(t *testing.T) {
			inWorld(t, func(w *world, _ *rollup.Coalescer) {
				const n = 200
				routes := mustRoutes(route.Default + " : every " + test.every.String())
				for i := range n {
					w.store.Put(fmt.Sprintf("counters/%03d/shards/0", i), map[string]any{"count": int64(1)})
				}
				first, err := rollup.Keep(w.t.Context(), w.store, routes, w.keepOptions(32, time.Time{}))
				if err != nil || first.RolledUp != n {
					t.Fatalf("%+v, %v", first, err)
				}
				if _, err := w.store.SaveCursor(w.t.Context(), rollup.Keeping, emptied(w)); err != nil {
					t.Fatal(err)
				}

				s := bill(w.store)
				changed := make(map[string]time.Time) // when a counter last changed, whose roll-up has not got it yet
				oldest := time.Duration(0)
				for tick := range test.ticks {
					began := time.Now()
					name := fmt.Sprintf("%03d", tick*37%n)
					w.store.Increment("counters/"+name+"/shards/0", "count", 1)
					if changed[name].IsZero() {
						changed[name] = began
					}
					before := s.all.Load()
					report, err := rollup.Keep(w.t.Context(), s, routes, s.options(w, test.lasts, 300_000))
					if err != nil || report.Left > 0 {
						t.Errorf("tick %d: %+v, %v, %d reads", tick, report, err, s.all.Load()-before)
					}
					for name, at := range changed {
						asOf := document.DecodeTally(w.store.Get("rollups/" + name)["tally"]).AsOf
						if asOf.After(at) {
							oldest = max(oldest, asOf.Sub(at))
							delete(changed, name)
						}
					}
					time.Sleep(time.Until(began.Add(test.lasts)))
				}
				for _, at := range changed {
					oldest = max(oldest, time.Since(at))
				}
				if most := test.every*11/10 + test.lasts; oldest > most {
					t.Errorf("a change waited for %v, want at most %v", oldest, most)
				}
				const once = n + 1 + 2*n + 5 // by roll-ups, of which pages end, and by shards
				if got := s.find.Load(); got < int64(test.least*once*9/10) || got > int64(test.most*once*11/10) {
					t.Errorf("finding took %d reads, want %d to %d times %d", got, test.least, test.most, once)
				}
				visits := s.all.Load() - s.find.Load()
				span := time.Duration(test.ticks) * test.lasts
				if most := int64(float64(3*n) * (1 + span.Seconds()/test.every.Seconds())); visits > most {
					t.Errorf("visits took %d reads in %v, want at most %d", visits, span, most)
				}
			})
		})
	}
}

// emptied returns a cursor without anything, to be saved over the stored one.
func emptied(w *world) rollup.Cursor {
	c, err := w.store.LoadCursor(w.t.Context(), rollup.Keeping)
	if err != nil {
		w.t.Fatal(err)
	}
	return rollup.Cursor{UpdateTime: c.UpdateTime}
}

// A walk's beginning that lies in the future, as of another database that was restored, delays
// nothing.
func TestWalkBeganInTheFuture(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.increment(1)
		place := rollup.Place{Done: true, Began: time.Now().Add(24 * time.Hour)}
		c := rollup.Cursor{Routes: route.Routes(scheduled.Template.Routes).String(), Places: []rollup.Place{place, place}}
		if _, err := w.store.SaveCursor(w.t.Context(), rollup.Keeping, c); err != nil {
			t.Fatal(err)
		}
		w.wantKeep(time.Now().Add(time.Second), rollup.KeepReport{Counters: 1, RolledUp: 1})
	})
}

// The walk of the shards has a place of its own. A tick that visits some new counters leaves it
// behind those, and the next goes on from there.
func TestNewCountersAreFoundWhereItStopped(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		const n = 350
		for i := range n {
			w.store.Increment(fmt.Sprintf("counters/%03d/shards/0", i), "count", 1)
		}
		place := func() string {
			c, err := w.store.LoadCursor(w.t.Context(), rollup.Keeping)
			if err != nil || len(c.Places) != 2 {
				t.Fatalf("%+v, %v", c, err)
			}
			return c.Places[1].From
		}
		stopped := ""
		for range 2 {
			var from []string
			seen := visits{takes: second}
			store := seen.of(traced{w.store, w})
			store.page = func(by by, _ *route.Template, at string) error {
				if by == byShards {
					from = append(from, at)
				}
				return nil
			}
			if _, err := w.keep(store, time.Now().Add(100*time.Second), nil); err != nil {
				t.Error(err)
			}
			if from[0] != stopped || place() <= stopped {
				t.Errorf("began at %q and stopped at %q, want the beginning at %q", from[0], place(), stopped)
			}
			stopped = place()
		}
	})
}

// keepsFrom has a call of Keep go on from a counter, and returns from where it found pages by
// roll-ups.
func (w *world) keepsFrom(from string, o rollup.KeepOptions, page func(from string) error) (pages []string, report rollup.KeepReport) {
	w.t.Helper()
	c, err := w.store.LoadCursor(w.t.Context(), rollup.Keeping)
	if err != nil {
		w.t.Fatal(err)
	}
	routes := route.Routes(scheduled.Template.Routes)
	places := []rollup.Place{{From: from, Began: c.ReadTime}, {Done: true, Began: c.ReadTime}}
	_, err = w.store.SaveCursor(w.t.Context(), rollup.Keeping, rollup.Cursor{Routes: routes.String(), Places: places, UpdateTime: c.UpdateTime})
	if err != nil {
		w.t.Fatal(err)
	}
	store := hooked{AuditStore: w.store, page: func(by by, _ *route.Template, at string) error {
		if by != byRollUp {
			return nil
		}
		pages = append(pages, at)
		return page(at)
	}}
	report, err = rollup.Keep(w.t.Context(), store, routes, o)
	if err != nil {
		w.t.Log(err)
	}
	return pages, report
}

// A call without an end that goes on from where the last one stopped comes round to there, and no
// further. A page that cannot be read is left out.
func TestKeepComesRound(t *testing.T) {
	for name, test := range map[string]struct {
		fails string // the page from there on
		want  []string
		found int
	}{
		"well":   {"none", []string{"rollups/149", "rollups/249", "rollups/349", "", "rollups/099"}, 400},
		"failed": {"rollups/249", []string{"rollups/149", "rollups/249", "", "rollups/099"}, 250},
	} {
		inWorld(t, func(w *world, _ *rollup.Coalescer) {
			w.idle(named("", 400)...)
			pages, report := w.keepsFrom("rollups/149", w.keepOptions(4, time.Time{}), func(from string) error {
				if from == test.fails {
					return errors.New("no index")
				}
				return nil
			})
			if !slices.Equal(pages, test.want) || report.Counters != test.found {
				t.Errorf("%s: pages from %q, %d counters; want %q, %d", name, pages, report.Counters, test.want, test.found)
			}
		})
	}
}

// A walk that the last call began begins again once it is due, and not when it has come to its end.
func TestRoundBeginsWhenItIsDue(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.idle(named("", 250)...)
		pages, _ := w.keepsFrom("rollups/149", w.keepOptions(4, time.Now().Add(every)), func(string) error { return nil })
		if !slices.Equal(pages, []string{"rollups/149", "rollups/249"}) {
			t.Errorf("pages from %q within %v", pages, every)
		}
	})
}

// A walk does not come back before the counters are due that were visited late in the last round.
// If a call ended between, they would wait for another round.
func TestWalkComesBackOnceItsCountersAreDue(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		routes := mustRoutes(route.Default + " : every 15m")
		w.increment(1)
		slow := visits{takes: func(string) time.Duration { return 5 * time.Second }}
		store := slow.of(w.store)
		began := time.Now()
		for n, call := range []struct{ begins, ends time.Duration }{{0, time.Minute}, {895 * time.Second, 902 * time.Second}, {912 * time.Second, 25 * time.Minute}} {
			time.Sleep(time.Until(began.Add(call.begins)))
			report, err := rollup.Keep(w.t.Context(), store, routes, w.keepOptions(4, began.Add(call.ends)))
			if want := []int{1, 0, 1}[n]; err != nil || report.RolledUp != want {
				t.Errorf("call %d: %+v, %v; want %d rolled up", n, report, err, want)
			}
			w.increment(1)
		}
	})
}

// Templates take turns, a page each.
func TestTemplatesTakeTurns(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		routes := mustRoutes("a/{a}/s/{s} -> r/{a} : count : every 10s; b/{b}/s/{s} -> q/{b} : count : every 10s")
		for i := range 250 {
			for n, at := range []string{"r/%03d", "q/%03d"} {
				fields := rolledUp(int64(1), 1, time.Now())
				fields["tally"].(map[string]any)["routes"] = routes[n].Template.Hash()
				w.store.Put(fmt.Sprintf(at, i), fields)
			}
		}
		var mu sync.Mutex
		var order []string
		store := hooked{AuditStore: traced{w.store, w}, page: func(by by, t *route.Template, _ string) error {
			mu.Lock()
			defer mu.Unlock()
			if by == byRollUp {
				order = append(order, t.String()[:1])
			}
			return nil
		}}
		if _, err := rollup.Keep(w.t.Context(), store, routes, w.keepOptions(4, time.Now().Add(time.Second))); err != nil {
			t.Error(err)
		}
		if got := strings.Join(order, ""); got != "rqrqrq" {
			t.Errorf("pages came in the order %s", got)
		}
	})
}

// An endless store has roll-ups without end, none of which is due.
type endless struct {
	*memstore.Store
	pages atomic.Int64
}

func (s *endless) RollUps(_ context.Context, t *route.Template, _ string, limit int) (rollup.Page, error) {
	n := s.pages.Add(1)
	p := rollup.Page{ReadTime: s.Now(), Next: "more"}
	if n > 1100 {
		p.Next = ""
	}
	for i := range limit {
		c, _ := t.Counter(fmt.Sprintf("rollups/%d-%d", n, i))
		r := rollup.RollUp{Tally: document.Tally{AsOf: p.ReadTime, NumShards: 1, Routes: t.Hash()}}
		p.Found = append(p.Found, rollup.FoundCounter{Counter: c, RollUp: r, Next: "more"})
	}
	return p, nil
}

// A tick finds no more counters than it has memory for, due or not.
func TestKeepFindsNoMore(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		s := &endless{Store: w.store}
		if _, err := rollup.Keep(w.t.Context(), s, scheduled.Template.Routes, w.keepOptions(4, time.Now().Add(time.Second))); err != nil {
			t.Error(err)
		}
		if n := s.pages.Load(); n != 1000 {
			t.Errorf("%d pages of a hundred were found, want 1000", n)
		}
	})
}

// A roll-up whose as_of lies in the future, whatever wrote it, is rolled up all the same.
func TestKeepOfFutureAsOf(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.increment(3)
		w.store.Put(likes.RollUp, rolledUp(int64(1)<<40, 1, time.Now().AddDate(100, 0, 0)))
		w.wantKeep(time.Now().Add(every*3/2), rollup.KeepReport{Counters: 1, RolledUp: 1, Unchanged: 1})
		w.wantTotal(3)
	})
}

// An unkept counter that had changed does not keep its place among the counters that change.
func TestUnkeptIsNotAmongTheChanged(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.idle("hot")
		for call := range 2 {
			w.store.Increment("counters/hot/shards/0", "count", 1)
			w.aroundWrite = func(_ int32, write func() error) error {
				if call == 1 {
					return rollup.ErrUnkept
				}
				return write()
			}
			if report, err := w.keep(traced{w.store, w}, time.Now().Add(every/2), nil); err != nil || report.Unkept != call {
				t.Errorf("call %d: %+v, %v", call, report, err)
			}
			c, err := w.store.LoadCursor(w.t.Context(), rollup.Keeping)
			if err != nil || len(c.Changed) != 1-call {
				t.Errorf("call %d: changed are %v, %v", call, c.Changed, err)
			}
			time.Sleep(every)
		}
	})
}

// A missing document of a route that says more than a minute is looked for no more often than the
// route says.
func TestKeepOfMissingSeldom(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		routes := mustRoutes("posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing : every 1h")
		w.store.Put("posts/gone/likes/ann", map[string]any{"x": 1})
		if _, err := rollup.Keep(w.t.Context(), traced{w.store, w}, routes, w.keepOptions(4, time.Now().Add(5*time.Hour+time.Minute))); err != nil {
			t.Error(err)
		}
		if looks := w.looks.Load(); looks != 6 {
			t.Errorf("%d looks in five hours, want one each", looks)
		}
	})
}

// A quiet counter that is visited in time is never older than its route says, although its as_of
// is.
func TestAgeOfAQuietCounter(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.increment(1)
		report, err := w.keep(traced{w.store, w}, time.Now().Add(9*every), nil)
		if err != nil || report.RolledUp != 1 || report.Unchanged < 8 || report.GreatestAge > (every+time.Second).Seconds() {
			t.Errorf("%+v, %v; want an age of D", report, err)
		}
	})
}

// A counter without shards that the last call remembers has no age, also once it is found.
func TestAgeOfARememberedCounterAtZero(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.store.Put(likes.RollUp, rolledUp(int64(0), 0, time.Now().Add(-30*time.Minute)))
		c := rollup.Cursor{Routes: route.Routes(scheduled.Template.Routes).String(), Places: make([]rollup.Place, 2), Changed: []string{likes.RollUp}}
		_, err := w.store.SaveCursor(w.t.Context(), rollup.Keeping, c)
		if err != nil {
			t.Fatal(err)
		}
		w.beforeView = func(int32) error { // by then the walk has found it
			time.Sleep(time.Second)
			return errors.New("unavailable")
		}
		report, err := w.keep(traced{w.store, w}, time.Time{}, nil)
		if err == nil || report.Failed != 1 || report.GreatestAge > 0 {
			t.Errorf("%+v, %v; want no age", report, err)
		}
	})
}

// All classes together have no more visits in work than the caller says.
func TestClassesShareTheSlots(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.idle(named("hot", 50)...)
		for _, name := range named("hot", 50) {
			w.store.Increment("counters/"+name+"/shards/0", "count", 1)
		}
		w.wantKeep(time.Time{}, rollup.KeepReport{Counters: 50, RolledUp: 50})
		w.idle(named("idle", 50)...)
		for _, name := range named("new", 50) {
			w.store.Increment("counters/"+name+"/shards/0", "count", 1)
		}
		time.Sleep(every)

		var now, most atomic.Int32
		store := hooked{AuditStore: traced{w.store, w}, view: func(ctx context.Context, _ route.Counter) error {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			return wait(ctx, time.Second)
		}}
		report, err := rollup.Keep(w.t.Context(), store, scheduled.Template.Routes, w.keepOptions(8, time.Now().Add(5*time.Second)))
		if err != nil || report.Counters < 40 || most.Load() != 8 {
			t.Errorf("%+v, %v; %d in work at once, want 8", report, err, most.Load())
		}
	})
}

// A page that is not answered does not hold a tick beyond its end.
func TestFindingEndsWithTheTick(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		began := time.Now()
		store := hanging{traced{w.store, w}, "page", new(atomic.Int32)}
		report, err := w.keep(store, began.Add(hold/2), nil)
		if took := time.Since(began); took > hold/2+time.Millisecond || err != nil {
			t.Errorf("%+v, %v after %v, want the end after %v", report, err, took, hold/2)
		}
	})
}

// A call without a time ends with its reads.
func TestKeepEndsWithItsReads(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.idle(named("idle", 50)...)
		ctx, cancel := context.WithCancel(w.t.Context())
		defer cancel()
		o := w.keepOptions(1, time.Time{})
		reads, asked := w.reads(), 0
		o.MaxReads, o.Reads = 20, func() int64 {
			asked++
			if asked > 10_000 {
				cancel()
			}
			return reads()
		}
		report, err := rollup.Keep(ctx, traced{w.store, w}, scheduled.Template.Routes, o)
		if err != nil || report.Counters != 10 || report.Left != 40 {
			t.Errorf("%+v, %v; want ten visited", report, err)
		}
	})
}

// A visit that failed is tried again after a pause of which half is drawn.
func TestPauseAfterAFailureIsDrawn(t *testing.T) {
	for _, drawn := range []float64{0, 0.5} {
		inWorld(t, func(w *world, _ *rollup.Coalescer) {
			w.idle("a")
			seen := visits{}
			store := seen.of(traced{w.store, w})
			view := store.view
			store.view = func(ctx context.Context, c route.Counter) error {
				return errors.Join(view(ctx, c), errors.New("unavailable"))
			}
			o := w.keepOptions(1, time.Now().Add(time.Second))
			o.Random = func() float64 { return drawn }
			if report, err := rollup.Keep(w.t.Context(), store, scheduled.Template.Routes, o); err == nil || report.Failed != 1 {
				t.Errorf("%+v, %v", report, err)
			}
			want := time.Duration((0.5 + drawn/2) * float64(50*time.Millisecond))
			if got := seen.at["a"][1].Sub(seen.at["a"][0]); got != want {
				t.Errorf("paused for %v, want %v", got, want)
			}
		})
	}
}

// An audit saves its cursor once in five seconds, and at its end.
func TestAuditSavesNowAndThen(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		const n = 3000
		for i := range n {
			w.store.Put(fmt.Sprintf("rollups/%04d", i), rolledUp(int64(1), 1, time.Now()))
		}
		w.duringView = func(int32) { time.Sleep(40 * time.Millisecond) }
		var saved []time.Time
		store := hooked{AuditStore: traced{w.store, w}, save: func(rollup.Cursor) error {
			saved = append(saved, time.Now())
			return nil
		}}
		if report, err := rollup.Audit(w.t.Context(), store, likes.Template.Routes, w.auditOptions()); err != nil || report.RolledUp != n {
			t.Errorf("%+v, %v", report, err)
		}
		for i := range len(saved) - 2 {
			if gap := saved[i+1].Sub(saved[i]); gap < 5*time.Second {
				t.Errorf("saved again after %v", gap)
			}
		}
		if len(saved) < 5 {
			t.Errorf("saved %d times", len(saved))
		}
	})
}

// With few reads, the walks of the roll-ups and the walks of the shards share them, and each kind
// begins again by itself: any number of correct roll-ups does not keep an audit from a counter that
// has none, nor the other way round.
func TestAuditSharesItsReads(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		const n, reads = 2000, 800
		for i := range n {
			w.store.Put(fmt.Sprintf("counters/%04d/shards/0", i), map[string]any{"count": int64(1)})
			w.store.Put(fmt.Sprintf("rollups/%04d", i), rolledUp(int64(1), 1, time.Now()))
		}
		w.store.Put("counters/zz/shards/0", map[string]any{"count": int64(1)})
		time.Sleep(time.Hour)
		s := bill(w.store)
		began := time.Now()
		var cycles []time.Duration
		var complete []int
		compared := 0
		for audit := 1; audit <= 60; audit++ {
			var seen atomic.Int64
			before := s.all.Load()
			o := w.auditOptions()
			// A sum that an audit takes without a look bills a read, too.
			o.MaxReads, o.Reads = reads, func() int64 { return s.all.Load() - before + seen.Load() }
			o.Progress = func(rollup.Report) { seen.Add(1) }
			report, err := rollup.Audit(w.t.Context(), s, likes.Template.Routes, o)
			if err != nil || report.Counters < 200 {
				t.Errorf("audit %d: %+v, %v", audit, report, err)
			}
			compared += report.Counters
			if billed := o.Reads(); billed > reads+300 {
				t.Errorf("audit %d was billed %d reads", audit, billed)
			}
			if got := w.store.Get("rollups/zz"); got == nil && audit > n*2/(reads/4)+1 {
				t.Fatalf("the counter without a roll-up waits since %d audits", audit)
			}
			if report.Complete {
				complete = append(complete, audit)
			}
			cycles = append(cycles, report.Cycle)
			time.Sleep(time.Until(began.Add(time.Duration(audit) * time.Minute)))
		}
		if rounds := compared / n; rounds < 8 { // 600 reads are 300 roll-ups
			t.Errorf("60 audits compared %d roll-ups of %d", compared, n)
		}
		if want := []int{19, 37, 56}; !slices.Equal(complete, want) { // the shards ended then, the roll-ups before
			t.Errorf("complete were the audits %v, want %v", complete, want)
		}
		if last := slices.Max(cycles); last < 18*time.Minute || last > 22*time.Minute {
			t.Errorf("a cycle took %v, want that of the shards, of which an audit has a hundred", last)
		}
	})
}

// The walks of the roll-ups leave time for the walks of the shards.
func TestAuditSharesItsTime(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		for i := range 2000 {
			w.store.Put(fmt.Sprintf("counters/%04d/shards/0", i), map[string]any{"count": int64(1)})
			w.store.Put(fmt.Sprintf("rollups/%04d", i), rolledUp(int64(1), 1, time.Now()))
		}
		w.store.Put("counters/zz/shards/0", map[string]any{"count": int64(1)})
		w.beforeSum = func(int32) error {
			time.Sleep(100 * time.Millisecond)
			return nil
		}
		o := w.auditOptions()
		o.Until = time.Now().Add(10 * time.Second) // for 400 sums
		report, err := w.audit(o)
		if err != nil || report.Unchanged < 290 || report.Unchanged > 310 || report.Missing != 1 || time.Now().After(o.Until) {
			t.Errorf("%+v, %v at %v; want three quarters of the time for the roll-ups", report, err, time.Until(o.Until))
		}
	})
}
