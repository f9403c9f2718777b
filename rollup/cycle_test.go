package rollup_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/test/memstore"
	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

// period is how often the schedule calls.
const period = config.SchedulePeriod

// A metered store counts what Firestore would bill.
type metered struct {
	rollup.AuditStore
	reads, writes atomic.Int64
}

func (s *metered) read(n int) { s.reads.Add(int64(max(1, n))) }

func (s *metered) View(ctx context.Context, c route.Counter) (rollup.Snapshot, error) {
	s.read(1)
	v, err := s.AuditStore.View(ctx, c)
	return meteredSnapshot{v, s}, err
}

func (s *metered) Sources(ctx context.Context, c route.Counter) rollup.Snapshot {
	return meteredSnapshot{s.AuditStore.Sources(ctx, c), s}
}

type meteredSnapshot struct {
	rollup.Snapshot
	s *metered
}

func (v meteredSnapshot) Sum(ctx context.Context) (route.Totals, error) {
	v.s.read(1)
	return v.Snapshot.Sum(ctx)
}

func (s *metered) RollUps(ctx context.Context, t *route.Template, from string, limit int) (rollup.Page, error) {
	page, err := s.AuditStore.RollUps(ctx, t, from, limit)
	s.read(int(page.Reads))
	return page, err
}

func (s *metered) Missing(ctx context.Context, r *route.Route, since time.Time, from string, limit int) (rollup.Page, error) {
	page, err := s.AuditStore.Missing(ctx, r, since, from, limit)
	s.read(int(page.Reads))
	return page, err
}

func (s *metered) LoadCursor(ctx context.Context, of rollup.Work) (rollup.Cursor, error) {
	s.read(1)
	return s.AuditStore.LoadCursor(ctx, of)
}

func (s *metered) LoadNote(ctx context.Context, id string) (rollup.Note, error) {
	s.read(1)
	return s.AuditStore.LoadNote(ctx, id)
}

func (s *metered) Notes(ctx context.Context, after string, limit int) ([]rollup.Note, error) {
	notes, err := s.AuditStore.Notes(ctx, after, limit)
	s.read(len(notes))
	return notes, err
}

func (s *metered) SaveCursor(ctx context.Context, of rollup.Work, c rollup.Cursor) (time.Time, error) {
	s.writes.Add(1)
	return s.AuditStore.SaveCursor(ctx, of, c)
}

func (s *metered) SaveNote(ctx context.Context, n rollup.Note) error {
	s.writes.Add(1)
	return s.AuditStore.SaveNote(ctx, n)
}

func (s *metered) DeleteNote(ctx context.Context, n rollup.Note) error {
	s.writes.Add(1)
	return s.AuditStore.DeleteNote(ctx, n)
}

func (s *metered) Write(ctx context.Context, c route.Counter, r rollup.RollUp) error {
	s.writes.Add(1)
	return s.AuditStore.Write(ctx, c, r)
}

// A quiet store has very many counters of one shard, whose roll-ups are right.
type quiet struct {
	memstore.Store
	counters   int
	byTemplate map[*route.Template]int // instead of counters; nil: all templates have as many
}

func (s *quiet) page(t *route.Template, from string, limit int, of func(n int) rollup.FoundCounter) rollup.Page {
	counters := s.counters
	if s.byTemplate != nil {
		counters = s.byTemplate[t]
	}
	first := 0
	_, _ = fmt.Sscan(from, &first)
	p := rollup.Page{ReadTime: s.Now(), Reads: 1}
	for n := first; n < min(first+limit, counters); n++ {
		p.Found = append(p.Found, of(n))
	}
	if first+limit < counters {
		p.Next = fmt.Sprint(first + limit)
	}
	return p
}

func (s *quiet) RollUps(_ context.Context, t *route.Template, from string, limit int) (rollup.Page, error) {
	p := s.page(t, from, limit, func(n int) rollup.FoundCounter {
		c, _ := t.Counter(fmt.Sprintf("%s/%d", t.Segments()[0].Name, n))
		return rollup.FoundCounter{Counter: c, Next: fmt.Sprint(n + 1), RollUp: rollup.RollUp{
			Values:     map[string]value.Value{"count": value.Int(1)},
			Tally:      document.Tally{AsOf: time.Unix(0, 0), NumShards: 1, Routes: t.Hash()},
			UpdateTime: time.Unix(0, 0),
		}}
	})
	p.Reads = int64(max(1, len(p.Found)))
	return p, nil
}

// Missing costs a read for a counter's shard, and one for its roll-up.
func (s *quiet) Missing(_ context.Context, r *route.Route, since time.Time, from string, limit int) (rollup.Page, error) {
	found := 0
	p := s.page(r.Template, from, limit, func(int) rollup.FoundCounter { found++; return rollup.FoundCounter{} })
	p.Found, p.Reads = nil, int64(max(1, 2*found))
	return p, nil
}

func (s *quiet) Sources(context.Context, route.Counter) rollup.Snapshot {
	return quietSnapshot{now: s.Now()}
}

type quietSnapshot struct {
	rollup.Snapshot
	now time.Time
}

func (v quietSnapshot) ReadTime() time.Time { return v.now }
func (v quietSnapshot) Sum(context.Context) (route.Totals, error) {
	return route.Totals{Values: map[string]value.Value{"count": value.Int(1)}, Shards: []int64{1}}, nil
}

// A schedule calls audits period ten minutes, as RollUpOnSchedule does.
type schedule struct {
	*world
	store  *metered
	routes route.Routes
	o      rollup.AuditOptions
	config config.Config
}

// inSchedule runs f in virtual time with a schedule.
func inSchedule(t *testing.T, of rollup.AuditStore, routes string, f func(*schedule)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t}
		s := &schedule{world: w, store: &metered{AuditStore: of}, routes: mustRoutes(routes)}
		s.config.SchedulePeriod = period
		s.o = rollup.AuditOptions{Options: w.options(0), Concurrency: 4, Revision: "1", Database: "d", Every: period}
		s.o.Timeout = hold
		f(s)
	})
}

// A called is what one call of the schedule did.
type called struct {
	rollup.Report
	reads, writes int64
}

// call makes a call, and then waits until the next one is due.
func (s *schedule) call() called {
	s.t.Helper()
	began, reads, writes := time.Now(), s.store.reads.Load(), s.store.writes.Load()
	o := s.o
	o.Cycle = s.config.Takes
	o.MaxReads, o.Reads = 50_000, func() int64 { return s.store.reads.Load() - reads }
	o.Until = began.Add(period - 15*time.Second)
	o.Grace = rollup.FittingGrace(grace, period)
	report, err := rollup.Audit(s.t.Context(), s.store, s.routes, o)
	if err != nil {
		s.t.Error(err)
	}
	c := called{report, s.store.reads.Load() - reads, s.store.writes.Load() - writes}
	time.Sleep(time.Until(began.Add(period)))
	return c
}

// calls makes calls for some time, and returns what they did together.
func (s *schedule) calls(during time.Duration) (sum called) {
	s.t.Helper()
	for began := time.Now(); time.Since(began) < during; {
		sum.add(s.call())
	}
	return sum
}

func (c *called) add(d called) {
	c.reads += d.reads
	c.writes += d.writes
	c.Counters += d.Counters
}

// What audits bill while nothing changes, counted over whole cycles. Those at the beginning are
// left out: they are not spread, because all is new. With -sim.counters=1000000 it counts a million
// counters, too.
func TestAtRest(t *testing.T) {
	type rest struct {
		counters int
		cycle    time.Duration
		cycles   int
		month    int64 // reads at most, in 30 days
	}
	tests := []rest{
		{100, time.Hour, 24, 330_000},
		{1_000, time.Hour, 24, 2_950_000},
		{5_000, 262 * time.Minute, 10, 3_400_000},
		{20_000, 1046 * time.Minute, 3, 3_400_000},
	}
	if n := *fairCounters; n >= 28_000 {
		tests = append(tests, rest{n, 24 * time.Hour, 2, int64(n) * 121})
	}

	for _, test := range tests {
		t.Run(fmt.Sprint(test.counters), func(t *testing.T) {
			inSchedule(t, &quiet{counters: test.counters}, route.Default, func(s *schedule) {
				first := s.call()
				s.settle()

				var sum, most called
				began := time.Now()
				during := time.Duration(test.cycles) * test.cycle.Round(period)
				for time.Since(began) < during {
					c := s.call()
					sum.add(c)
					most.reads = max(most.reads, c.reads)
				}

				month := int64(float64(sum.reads) * float64(30*24*time.Hour) / float64(during))
				t.Logf("the first call bills %d reads; then %v bill %d reads and %d writes, at most %d reads in a call; a month %d reads",
					first.reads, during, sum.reads, sum.writes, most.reads, month)
				if month > test.month || month < test.month*8/10 {
					t.Errorf("a month has %d reads, want nearly %d", month, test.month)
				}
				want := float64(during) / float64(test.cycle) * float64(test.counters)
				if got := float64(sum.Counters); got < 0.75*want || got > 1.1*want {
					t.Errorf("%v counters compared, want %v: each once in %v", got, want, test.cycle)
				}
				calls := float64(test.cycle / period)
				if bound := int64(4*float64(test.counters)/calls*1.5) + 500; most.reads > bound {
					t.Errorf("a call had %d reads, want them spread: at most %d", most.reads, bound)
				}
			})
		})
	}
}

// settle makes calls until no lap is hurried any more.
func (s *schedule) settle() {
	s.t.Helper()
	for {
		s.call()
		c, err := s.AuditStore().LoadCursor(s.t.Context(), rollup.Auditing)
		if err != nil {
			s.t.Fatal(err)
		}
		if !c.RollUps.Hurried && !c.Shards.Hurried {
			return
		}
	}
}

// AuditStore is the store, without its meter.
func (s *schedule) AuditStore() rollup.AuditStore { return s.store.AuditStore }

// A call between two cycles reads the cursor and looks for notes, and writes nothing.
func TestCallBetweenCycles(t *testing.T) {
	inSchedule(t, &quiet{counters: 50}, route.Default, func(s *schedule) {
		s.settle()
		idle := 0
		for range 12 {
			c := s.call()
			if c.Counters == 50 {
				continue
			}
			idle++
			if c.reads != 2 || c.writes != 0 || c.Complete || c.Cursor != "at the beginning" {
				s.t.Errorf("a call between two cycles: %d reads, %d writes: %+v", c.reads, c.writes, c.Report)
			}
		}
		if idle != 10 {
			s.t.Errorf("%d of 12 calls were between two cycles of an hour, want 10", idle)
		}
	})
}

// While the routes, the revision or the database are new, cycles follow each other and are not
// spread, until one has begun ten minutes after. Then they are at rest again.
func TestNewIsAuditedAtOnce(t *testing.T) {
	for name, change := range map[string]func(*schedule){
		"revision": func(s *schedule) { s.o.Revision = "2" },
		"database": func(s *schedule) { s.o.Database = "restored" },
		"routes":   func(s *schedule) { s.routes = mustRoutes(route.Default + ", likes") },
	} {
		t.Run(name, func(t *testing.T) {
			store := &quiet{counters: 2000}
			inSchedule(t, store, route.Default, func(s *schedule) {
				s.settle()
				s.calls(30 * time.Minute)
				change(s)

				var whole []int
				for range 4 {
					whole = append(whole, s.call().Counters)
				}
				if whole[0] < 1000 || whole[1] != 2000 || whole[3] > 1000 {
					t.Errorf("calls compared %v counters of 2,000, want all in the second, and fewer in the fourth", whole)
				}
				if sum := s.calls(2 * time.Hour).Counters; sum > 2*2000 {
					t.Errorf("%d counters compared in the next two hours", sum)
				}
			})
		})
	}
}

// A change whose trigger took nine minutes to start is found by a cycle that begins after that,
// although a cycle takes a day.
func TestNewTriggerStartsLate(t *testing.T) {
	inSchedule(t, new(memstore.Store), route.Default, func(s *schedule) {
		store := s.AuditStore().(*memstore.Store)
		s.config.Audit = config.Cycle(24 * time.Hour)
		for i := range 300 {
			store.Increment(fmt.Sprintf("counters/%d/shards/0", i), "count", 1)
		}
		s.settle()
		s.calls(5 * time.Hour)

		s.o.Revision = "2"
		s.call()
		store.Increment("counters/7/shards/0", "count", 1) // whose event no trigger delivered
		s.calls(2 * period)
		if got := store.Get("rollups/7")["count"]; got != int64(2) {
			s.t.Errorf("20 minutes after a change without a trigger: %v, want 2", got)
		}

		store.Increment("counters/8/shards/0", "count", 1)
		s.calls(5 * time.Hour)
		if got := store.Get("rollups/8")["count"]; got != int64(1) {
			s.t.Error("a cycle of a day is not spread")
		}
		s.calls(43 * time.Hour)
		if got := store.Get("rollups/8")["count"]; got != int64(2) {
			s.t.Errorf("a lost event is still lost two cycles later: %v", got)
		}
	})
}

// The same if the cycle that begins with the change is over before the trigger has started.
func TestNewTriggerStartsAfterACycle(t *testing.T) {
	inSchedule(t, new(memstore.Store), route.Default, func(s *schedule) {
		store := s.AuditStore().(*memstore.Store)
		s.config.Audit = config.Cycle(24 * time.Hour)
		s.fill(store, 30)
		s.calls(5 * time.Hour)

		s.o.Revision = "2"
		if c := s.call(); c.Counters != 30 {
			t.Errorf("the first call of a revision compared %d counters, want all 30", c.Counters)
		}
		lose(store, 7)
		s.calls(2 * period)
		if got := holds(store, 7); got != int64(2) {
			t.Errorf("20 minutes after a change without a trigger: %v, want 2", got)
		}
	})
}

// Deployments that follow each other do not keep a long walk from its end.
func TestManyRevisions(t *testing.T) {
	inSchedule(t, &quiet{counters: 40_000}, route.Default, func(s *schedule) {
		s.settle()
		complete := 0
		for n := range 36 {
			s.o.Revision = fmt.Sprint("r", n)
			if s.call().Complete {
				complete++
			}
		}
		if complete < 5 { // a cycle has 160,000 reads, and a call 50,000
			s.t.Errorf("%d cycles in six hours of deployments, want 5 at least", complete)
		}
	})
}

// Templates take turns: none waits for another's walk to end, whether a cycle is spread or not.
func TestTemplatesShareACycle(t *testing.T) {
	inTwoTemplates(t, 10_000, func(s *schedule, large, small string, seen map[string]int) {
		if s.call(); seen[large] == 0 || seen[small] < 10 {
			t.Errorf("a hurried call found pages %v, want all of %s", seen, small)
		}
		s.config.Audit = config.Cycle(24 * time.Hour)
		s.settle()
		for range 3 {
			clear(seen)
			s.calls(4 * time.Hour)
			if seen[small] < 2 || seen[large] < 28 {
				t.Errorf("pages found in four hours of a day: %v, want a sixth of each template's", seen)
			}
		}
	})
}

// While audits hurry, a template with more counters than a call can compare leaves the others their
// turns.
func TestTemplatesShareACall(t *testing.T) {
	inTwoTemplates(t, 100_000, func(s *schedule, large, small string, seen map[string]int) {
		if c := s.call(); c.Complete || seen[large] == 0 || seen[small] < 10 {
			t.Errorf("%+v: a call found pages %v, want all of %s", c.Report, seen, small)
		}
		clear(seen)
		if c := s.call(); c.Complete || seen[large] == 0 || seen[small] != 0 {
			t.Errorf("%+v: the next call found pages %v, want those of %s only, which has not come to its end", c.Report, seen, large)
		}
	})
}

// inTwoTemplates runs a test in a schedule of two templates, of which one has many counters and one
// has 1,000, and then with the two in the other order. seen counts the pages found of each.
func inTwoTemplates(t *testing.T, counters int, test func(s *schedule, large, small string, seen map[string]int)) {
	routes := mustRoutes("a/{x}/s/{y} -> ra/{x} : count\nb/{x}/s/{y} -> rb/{x} : count")
	for _, order := range []int{0, 1} {
		large, small := routes.Templates()[order].String(), routes.Templates()[1-order].String()
		store := new(quiet)
		inSchedule(t, store, routes.String(), func(s *schedule) {
			store.byTemplate = map[*route.Template]int{}
			for _, t := range s.routes.Templates() {
				store.byTemplate[t] = map[string]int{large: counters, small: 1_000}[t.String()]
			}
			seen := make(map[string]int)
			s.store.AuditStore = hooked{AuditStore: store, page: func(_ by, t *route.Template, _ string) error { seen[t.String()]++; return nil }}

			test(s, large, small, seen)
		})
	}
}

// A page that cannot be read is tried once in a call. Walks that are done start over without it.
func TestFailedPageHoldsUpNoOne(t *testing.T) {
	routes := mustRoutes("a/{x}/s/{y} -> ra/{x} : count\nb/{x}/s/{y} -> rb/{x} : count")
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.store.Increment("a/1/s/0", "count", 1)
		w.store.Increment("b/1/s/0", "count", 1)
		tried := make(map[by]int)
		store := hooked{AuditStore: w.store, page: func(by by, t *route.Template, _ string) error {
			if t != routes[1].Template {
				return nil
			}
			tried[by]++
			time.Sleep(time.Second)
			return errors.New("no index")
		}}

		for call := range 3 {
			clear(tried)
			o := w.auditOptions()
			o.Until = time.Now().Add(time.Minute)
			report, err := rollup.Audit(w.t.Context(), store, routes, o)
			if err == nil || report.Counters != 1 {
				t.Errorf("call %d: %+v, %v; want the counter of the other route compared", call, report, err)
			}
			if tried[byRollUp] != 1 || tried[byShards] != 1 {
				t.Errorf("call %d tried the pages that fail %v times, want each once", call, tried)
			}
			time.Sleep(period)
		}
	})
}

// fill makes counters, and has audits roll them up.
func (s *schedule) fill(store *memstore.Store, counters int) {
	s.t.Helper()
	for i := range counters {
		store.Increment(fmt.Sprintf("counters/%05d/shards/0", i), "count", 1)
	}
	s.settle()
}

// lose commits an increment whose event is lost.
func lose(store *memstore.Store, counter int) {
	store.Increment(fmt.Sprintf("counters/%05d/shards/0", counter), "count", 1)
}

// holds returns the total of a counter.
func holds(store *memstore.Store, counter int) any {
	return store.Get(fmt.Sprintf("rollups/%05d", counter))["count"]
}

// counterOf returns a counter of fill.
func (s *schedule) counterOf(n int) route.Counter {
	c, ok := s.routes.Counter(fmt.Sprintf("rollups/%05d", n))
	if !ok {
		s.t.Fatalf("no route keeps counter %d", n)
	}
	return c
}

// notes returns the IDs of all notes.
func (s *schedule) notes() (ids []string) {
	s.t.Helper()
	notes, err := s.AuditStore().Notes(s.t.Context(), "", 1000)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, n := range notes {
		ids = append(ids, n.ID)
	}
	return ids
}

// The next call looks at the counters that a note names, and at no others. Then the note is gone,
// and nothing of it costs any more.
func TestNamedCounters(t *testing.T) {
	inSchedule(t, new(memstore.Store), route.Default, func(s *schedule) {
		store := s.AuditStore().(*memstore.Store)
		s.config.Audit = config.Cycle(24 * time.Hour)
		s.fill(store, 300)
		notes := rollup.NewNotes(store)
		for _, n := range []int{7, 250} {
			lose(store, n)
			if err := notes.Counter(s.t.Context(), s.counterOf(n)); err != nil {
				t.Fatal(err)
			}
		}
		c := s.call()
		if c.Counters != 2 || c.RolledUp != 2 || holds(store, 7) != int64(2) || holds(store, 250) != int64(2) {
			t.Errorf("the next call: %+v, want both repaired, and nothing else looked at", c.Report)
		}
		if c := s.call(); len(s.notes()) != 0 || c.reads != 2 || c.writes != 0 {
			t.Errorf("the notes %v are left; the next call had %d reads and %d writes", s.notes(), c.reads, c.writes)
		}
	})
}

// A repair by a command takes away the notes of what it has repaired, as a cycle does. A dry run
// leaves them, and a repair leaves those of counters that it leaves, and those that came meanwhile.
func TestRepairTakesNotesAway(t *testing.T) {
	all := []string{"note-all", "note-counters", "note-left-x", "note-unkept-" + document.IDOf("rollups/00001")}
	broken := errors.New("broken")
	for _, test := range []struct {
		name   string
		dryRun bool
		errs   map[string]error // of looks, by roll-up
		noted  bool             // notes come while it is at work
		others bool             // other routes made a roll-up
		want   []string
	}{
		{name: "repaired"},
		{name: "a dry run", dryRun: true, want: all},
		{name: "a named counter fails", errs: map[string]error{"rollups/00000": broken}, want: all[:3]},
		{name: "another counter is unkept", errs: map[string]error{"rollups/00002": rollup.ErrUnkept}, want: []string{all[0], all[2]}},
		{name: "noted meanwhile", noted: true, want: all[:2]},
		{name: "another counter is left to other routes", others: true, want: []string{all[0], all[2]}},
	} {
		t.Run(test.name, func(t *testing.T) {
			inSchedule(t, new(memstore.Store), route.Default, func(s *schedule) {
				store := s.AuditStore().(*memstore.Store)
				s.fill(store, 3)
				notes := rollup.NewNotes(store)
				note := func() {
					err := errors.Join(notes.All(s.t.Context()), notes.Counter(s.t.Context(), s.counterOf(0)))
					if err != nil {
						t.Error(err)
					}
				}
				note()
				unkept := rollup.Note{ID: all[3], Counters: map[string]time.Time{"rollups/00001": time.Now()}}
				err := errors.Join(store.SaveNote(s.t.Context(), rollup.Note{ID: all[2]}), store.SaveNote(s.t.Context(), unkept))
				if err != nil || !slices.Equal(s.notes(), all) {
					t.Fatalf("noted %v: %v", s.notes(), err)
				}
				for n := range 3 {
					lose(store, n)
				}
				if test.others {
					fields := store.Get("rollups/00002")
					fields["tally"].(map[string]any)["routes"] = "others"
					store.Put("rollups/00002", fields)
				}
				time.Sleep(2 * time.Minute)

				var looked atomic.Bool
				look := func(_ context.Context, c route.Counter) error {
					if test.noted && looked.CompareAndSwap(false, true) {
						time.Sleep(time.Second)
						note()
					}
					return test.errs[c.RollUp]
				}
				o := s.o
				o.FromFirst, o.KeepRerouted, o.DryRun = true, true, test.dryRun
				_, _ = rollup.Audit(s.t.Context(), hooked{AuditStore: store, view: look}, s.routes, o) // some fail
				if left := s.notes(); !slices.Equal(left, test.want) {
					t.Errorf("left are %v, want %v", left, test.want)
				}
				if got := holds(store, 1); (got == int64(2)) == test.dryRun {
					t.Errorf("a counter holds %v", got)
				}
			})
		})
	}
}

// A counter that cannot be compared keeps its note, and so does one that was noted again meanwhile.
func TestNamedCountersStay(t *testing.T) {
	inSchedule(t, new(memstore.Store), route.Default, func(s *schedule) {
		store := s.AuditStore().(*memstore.Store)
		s.config.Audit = config.Cycle(24 * time.Hour)
		s.fill(store, 3)
		notes := rollup.NewNotes(store)
		note := func(n int) {
			if err := notes.Counter(s.t.Context(), s.counterOf(n)); err != nil {
				t.Fatal(err)
			}
		}
		for n := range 3 {
			lose(store, n)
			note(n)
		}

		broken := errors.New("broken")
		again := false
		s.store.AuditStore = hooked{AuditStore: store, view: func(_ context.Context, c route.Counter) error {
			switch c.RollUp {
			case "rollups/00000":
				return broken
			case "rollups/00001":
				if !again {
					again = true
					time.Sleep(time.Second)
					note(1)
				}
			}
			return nil
		}}
		began := time.Now()
		_, err := rollup.Audit(s.t.Context(), s.store, s.routes, s.o)
		if !again || err == nil {
			t.Fatalf("noted again: %v; %v", again, err)
		}
		n, err := store.LoadNote(s.t.Context(), "note-counters")
		if named := slices.Sorted(maps.Keys(n.Counters)); err != nil || !slices.Equal(named, []string{"rollups/00000", "rollups/00001"}) {
			t.Errorf("%v: left are %v, want the broken one and the one that was noted again", err, named)
		}

		s.store.AuditStore = store
		time.Sleep(time.Until(began.Add(period)))
		s.call()
		if got := s.notes(); len(got) != 0 || holds(store, 0) != int64(2) {
			t.Errorf("left are %v, and the broken counter holds %v", got, holds(store, 0))
		}
	})
}

// A note names a hundred counters. Then it is about all, and a cycle begins.
func TestManyNamedCounters(t *testing.T) {
	inSchedule(t, new(memstore.Store), route.Default, func(s *schedule) {
		store := s.AuditStore().(*memstore.Store)
		s.config.Audit = config.Cycle(24 * time.Hour)
		s.fill(store, 300)
		s.calls(12 * time.Hour)
		notes := rollup.NewNotes(store)
		for n := range 300 {
			lose(store, n)
			if err := notes.Counter(s.t.Context(), s.counterOf(n)); err != nil {
				t.Fatal(err)
			}
		}
		if n, err := store.LoadNote(s.t.Context(), "note-counters"); err != nil || len(n.Counters) != 100 {
			t.Errorf("%v: a note names %d counters, want 100", err, len(n.Counters))
		}
		if c := s.call(); c.RolledUp != 300 {
			t.Errorf("the next call rolled up %d counters, want all 300", c.RolledUp)
		}
		s.calls(13 * time.Hour) // the note might stand for an event that came after the cycle's begin
		if left := s.notes(); len(left) != 0 {
			t.Errorf("left are %v", left)
		}
	})
}

// A note about all counters begins a cycle, not sooner than half of a cycle after the last one. It
// stays until a cycle has begun and ended since, and is then deleted.
func TestNoteAboutAll(t *testing.T) {
	for _, test := range []struct {
		cycle, after time.Duration // since the last one began
		within       time.Duration
	}{
		{0, 20 * time.Minute, time.Hour},
		{0, 50 * time.Minute, 20 * time.Minute},
		{24 * time.Hour, 13 * time.Hour, period},
		{24 * time.Hour, 2 * time.Hour, 10*time.Hour + period},
	} {
		inSchedule(t, new(memstore.Store), route.Default, func(s *schedule) {
			store := s.AuditStore().(*memstore.Store)
			s.config.Audit = config.Cycle(test.cycle)
			s.fill(store, 300)
			s.calls(test.after)
			lose(store, 0)
			lose(store, 299)
			if err := rollup.NewNotes(store).All(s.t.Context()); err != nil {
				t.Fatal(err)
			}
			s.calls(test.within)
			for _, n := range []int{0, 299} { // before and behind where the walk was cut
				if got := holds(store, n); got != int64(2) {
					t.Errorf("%+v: counter %d holds %v after a note about all, want 2", test, n, got)
				}
			}
			s.calls(25 * time.Hour)
			if left := s.notes(); len(left) != 0 {
				t.Errorf("%+v: left are %v", test, left)
			}
		})
	}
}

// A stranger who leaves notes all day at most doubles what audits read.
func TestNotesAllDay(t *testing.T) {
	for _, counters := range []int{1_000, 5_000} {
		var reads [2]int64
		for i := range reads {
			inSchedule(t, &quiet{counters: counters}, route.Default, func(s *schedule) {
				s.settle()
				s.calls(24 * time.Hour)
				notes := rollup.NewNotes(s.AuditStore())
				var before int64
				for began := time.Now(); time.Since(began) < 72*time.Hour; s.call() {
					if time.Since(began) == 24*time.Hour {
						before = s.store.reads.Load()
					}
					if i == 0 {
						continue
					}
					if err := notes.All(s.t.Context()); err != nil {
						t.Fatal(err)
					}
					source, _ := mustRoutes("orders/{o} by shop -> shops/{shop} : count() : existing").Source("orders/1")
					if err := notes.Untold(s.t.Context(), source); err != nil {
						t.Fatal(err)
					}
				}
				reads[i] = s.store.reads.Load() - before
			})
		}
		t.Logf("%d counters: %d reads in two days, and %d with notes all the time", counters, reads[0], reads[1])
		if float64(reads[1]) > 2.01*float64(reads[0]) { // each call reads the notes themselves, too
			t.Fatalf("%d counters: %d reads in two days, and %d with notes all the time, want twice as many at most", counters, reads[0], reads[1])
		}
	}
}

// Every call tries the counters that are unkept. One that somebody has fixed is kept by the next
// call, and its note is deleted once no instance pauses because of it.
func TestUnkeptIsTried(t *testing.T) {
	inSchedule(t, new(memstore.Store), route.Default, func(s *schedule) {
		store := s.AuditStore().(*memstore.Store)
		s.config.Audit = config.Cycle(24 * time.Hour)
		s.world.store, s.store.AuditStore = store, traced{store, s.world}
		s.fill(store, 300)
		s.increment(1)
		c := s.instance(0)
		s.acknowledged(s.deliver(c, "kept"))
		s.calls(time.Hour)
		fixed := s.refuse()
		s.increment(1)
		s.acknowledged(s.deliver(c, "unkept"))
		s.calls(time.Hour)
		if got := s.notes(); len(got) != 1 || got[0] != unkeptNote {
			t.Errorf("notes %v, want %s", got, unkeptNote)
		}
		fixed()
		if r := s.call(); r.RolledUp != 1 || r.Lapsed != 1 {
			t.Errorf("%+v, want the counter repaired, as lapsed", r.Report)
		}
		s.wantTotal(2)
		if left := s.notes(); len(left) != 0 {
			t.Errorf("left are %v", left)
		}
	})
}

// Very many unkept counters hide neither other notes nor one of them that somebody has fixed.
func TestManyUnkept(t *testing.T) {
	inSchedule(t, new(memstore.Store), route.Default, func(s *schedule) {
		store := s.AuditStore().(*memstore.Store)
		s.config.Audit = config.Cycle(24 * time.Hour)
		s.fill(store, 700)
		notes := rollup.NewNotes(store)
		for n := range 600 {
			rollUp := s.counterOf(n).RollUp
			if err := store.SaveNote(s.t.Context(), rollup.Note{ID: "note-unkept-" + document.IDOf(rollUp), Counters: map[string]time.Time{rollUp: time.Now()}}); err != nil {
				t.Fatal(err)
			}
		}
		far, err := store.LoadNote(s.t.Context(), s.notes()[500]) // behind what two queries read
		if err != nil {
			t.Fatal(err)
		}
		fixed := slices.Collect(maps.Keys(far.Counters))[0]
		unkept := func(c route.Counter) bool { return c.RollUp != fixed && c.RollUp < "rollups/00600" }
		s.store.AuditStore = hooked{AuditStore: store, view: func(_ context.Context, c route.Counter) error {
			if unkept(c) {
				return rollup.ErrUnkept
			}
			return nil
		}}
		store.Increment("counters/"+path.Base(fixed)+"/shards/0", "count", 1)
		lose(store, 650)
		if err := notes.Counter(s.t.Context(), s.counterOf(650)); err != nil {
			t.Fatal(err)
		}
		c := s.call()
		if holds(store, 650) != int64(2) || c.reads > 1000 {
			t.Errorf("a counter that a note names holds %v among unkept ones; the call had %d reads", holds(store, 650), c.reads)
		}
		s.calls(time.Hour)
		if got := store.Get(fixed)["count"]; got != int64(2) || len(s.notes()) != 599 {
			t.Errorf("one that was fixed holds %v; %d notes are left, want 599", got, len(s.notes()))
		}
	})
}

// A dry run compares all counters, also between two cycles.
func TestDryRunBetweenCycles(t *testing.T) {
	inSchedule(t, &quiet{counters: 50}, route.Default, func(s *schedule) {
		s.settle()
		s.calls(20 * time.Minute)
		s.o.DryRun = true
		if c := s.call(); c.Counters != 50 || c.writes != 0 {
			s.t.Errorf("%d writes: %+v, want all compared, and nothing written", c.writes, c.Report)
		}
	})
}

// Notes that come all the time do not keep a cycle from its end that takes longer than half of one.
func TestNotesDuringALongCycle(t *testing.T) {
	inSchedule(t, &quiet{counters: 100_000}, route.Default, func(s *schedule) {
		s.settle()
		s.config.Audit = config.Cycle(time.Hour) // and its reads take eight calls of ten minutes
		complete := 0
		for range 36 {
			if err := rollup.NewNotes(s.AuditStore()).All(s.t.Context()); err != nil {
				t.Fatal(err)
			}
			if s.call().Complete {
				complete++
			}
		}
		if complete < 3 {
			t.Errorf("%d cycles in six hours of notes, want 3 at least", complete)
		}
	})
}

// A note about all counters stays while its cycle is under way: the audit may be killed.
func TestNoteStaysUntilTheEnd(t *testing.T) {
	inSchedule(t, &quiet{counters: 40_000}, route.Default, func(s *schedule) {
		s.settle()
		s.config.Audit = config.Cycle(24 * time.Hour)
		s.calls(14 * time.Hour)
		if err := rollup.NewNotes(s.AuditStore()).All(s.t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		if c := s.call(); c.Complete || len(s.notes()) != 1 {
			t.Errorf("%+v: notes %v; want the cycle under way, and its note there", c.Report, s.notes())
		}
		s.calls(time.Hour)
		if left := s.notes(); len(left) != 0 {
			t.Errorf("left are %v", left)
		}
	})
}

// A note stands for events that come up to a minute later, because an instance does not write it
// again so soon. So another cycle follows one that began within that minute.
func TestNoteStandsForAMinute(t *testing.T) {
	inSchedule(t, new(memstore.Store), route.Default, func(s *schedule) {
		store := s.AuditStore().(*memstore.Store)
		s.fill(store, 30)
		s.calls(2 * time.Hour)
		notes := rollup.NewNotes(store)
		if err := notes.All(s.t.Context()); err != nil {
			t.Fatal(err)
		}
		for {
			time.Sleep(30 * time.Second)
			lose(store, 29)
			if err := notes.All(s.t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second) // the note is older than the lap that the call begins
			if s.call().Counters == 0 {
				continue
			}
			break
		}
		if got := s.notes(); len(got) != 1 {
			t.Errorf("notes %v, want the one that may stand for a later event", got)
		}
	})
}

// While an instance may pause because of a note, the note of a counter that was kept since stays.
// What the instance acknowledges meanwhile is repaired by the next call.
func TestUnkeptNoteOfAPause(t *testing.T) {
	inSchedule(t, new(memstore.Store), route.Default, func(s *schedule) {
		store := s.AuditStore().(*memstore.Store)
		s.config.Audit = config.Cycle(24 * time.Hour)
		s.world.store = store
		s.increment(1)
		s.rollUpElsewhere()
		s.settle()
		s.calls(time.Hour)

		note := rollup.Note{ID: unkeptNote, Counters: map[string]time.Time{likes.RollUp: time.Now()}}
		if err := store.SaveNote(s.t.Context(), note); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		s.call()
		if got := s.notes(); len(got) != 1 {
			t.Errorf("notes %v half a minute later, want the note there", got)
		}
		s.increment(1) // acknowledged in the pause
		s.call()
		s.wantTotal(2)
		if got := s.notes(); len(got) != 0 {
			t.Errorf("notes %v are left", got)
		}
	})
}

// After a purge, a cycle makes each alarm again that a roll-up relies on, although it rings much
// later: also that of a counter that is not due. A queue that does not run begins cycles, too.
func TestPurged(t *testing.T) {
	text := "posts/{post}/visits/{v} -> lately/{post} : count() where at > now - 24h as lately\n" +
		"counters/{counter}/shards/{shard} -> rollups/{counter} : count : cadence 2h"
	inSchedule(t, new(memstore.Store), text, func(s *schedule) {
		store, queue := s.AuditStore().(*memstore.Store), new(alarmed)
		s.config.Audit = config.Cycle(24 * time.Hour)
		s.o.Alarms, s.o.Burst = queue, 1
		store.Increment("counters/c/shards/0", "count", 1)
		s.settle()
		store.Put("posts/a/visits/1", map[string]any{"at": store.Now().Truncate(time.Microsecond)})
		visited, _ := s.routes.Counter("lately/a")
		if err := rollup.NewNotes(store).Counter(s.t.Context(), visited); err != nil {
			t.Fatal(err)
		}
		s.call()
		rings := document.DecodeTally(store.Get("lately/a")["tally"]).Rings
		if rings.Before(store.Now().Add(20 * time.Hour)) {
			s.t.Fatalf("the alarm rings at %v: %v, made %v", rings, store.Get("lately/a"), queue.made)
		}

		s.calls(11 * time.Hour)
		queue.made = nil
		c, _ := s.routes.Counter("rollups/c")
		recent := document.Tally{AsOf: store.Now().Truncate(time.Microsecond), NumShards: 1, PacedUntil: store.Now().Add(2 * time.Hour), Routes: c.Template.Hash(), Totals: []string{"count"}}
		store.Put(c.RollUp, map[string]any{"count": int64(1), "tally": recent.Encode()})
		store.Increment("counters/c/shards/0", "count", 1) // whose alarm is purged
		s.o.Purged = store.Now()
		s.calls(90 * time.Minute)
		var again []string
		for _, a := range queue.made {
			if a.Salt != "" && a.At.After(s.o.Purged) {
				again = append(again, a.RollUp)
			}
		}
		slices.Sort(again)
		if got := slices.Compact(again); !slices.Equal(got, []string{"lately/a", "rollups/c"}) {
			t.Errorf("alarms of %v were made again, want both", got)
		}
		queue.made = nil
		s.calls(48 * time.Hour)
		if n := len(queue.made); n > 2 {
			t.Errorf("%d alarms were made in the next two days: %v", n, queue.made)
		}

		before := s.calls(24 * time.Hour).Counters
		s.o.Stopped = true
		if during := s.calls(24 * time.Hour).Counters; during < before*3/2 {
			t.Errorf("%d counters compared in a day without a queue, and %d with one", during, before)
		}
	})
}

// Alarms of another queue than the one before may be gone, as after a purge: each is made again, in
// one cycle, also if the routes change at the same time or another cycle is under way.
func TestQueueMoved(t *testing.T) {
	text := "posts/{post}/visits/{v} -> lately/{post} : count() where at > now - 20d as lately"
	inSchedule(t, new(memstore.Store), text, func(s *schedule) {
		store, queue := s.AuditStore().(*memstore.Store), new(alarmed)
		s.o.Alarms, s.o.Burst, s.o.Queue = queue, 1, "projects/p/locations/us-central1/queues/tally"
		store.Put("posts/a/visits/1", map[string]any{"at": store.Now().Truncate(time.Microsecond)})
		s.settle()
		s.calls(2 * time.Hour)
		queue.made = nil
		s.calls(24 * time.Hour)
		if len(queue.made) > 0 {
			t.Errorf("alarms %v were made without a reason", queue.made)
		}

		for _, move := range []func(){
			func() {},
			func() { s.o.Revision = "of another region" },
		} {
			queue.made, s.o.Queue = nil, s.o.Queue+"-2"
			move()
			s.calls(3 * time.Hour)
			if len(queue.made) == 0 {
				t.Errorf("no alarm was made in the queue %s", s.o.Queue)
			}
			queue.made = nil
			s.calls(24 * time.Hour)
			if len(queue.made) > 0 {
				t.Errorf("then alarms %v were made", queue.made)
			}
		}
	})
}

// The time of the last purge stays with the queue. So one cycle makes the alarms again, and those
// that follow do not.
func TestPurgedOnce(t *testing.T) {
	text := "posts/{post}/visits/{v} -> lately/{post} : count() where at > now - 20d as lately"
	inSchedule(t, new(memstore.Store), text, func(s *schedule) {
		store, queue := s.AuditStore().(*memstore.Store), new(alarmed)
		s.o.Alarms, s.o.Burst = queue, 1
		store.Put("posts/a/visits/1", map[string]any{"at": store.Now().Truncate(time.Microsecond)})
		s.settle()
		s.calls(2 * time.Hour)

		queue.made, s.o.Purged = nil, store.Now()
		compared := s.calls(24 * time.Hour).Counters
		if len(queue.made) != 1 || compared < 20 {
			t.Errorf("%d cycles in the day after a purge made the alarms %v, want one", compared, queue.made)
		}
	})
}

// Somebody purges the queue before any cycle, or before the first one after the cursor was deleted.
func TestPurgedBeforeTheFirstCycle(t *testing.T) {
	text := "posts/{post}/visits/{v} -> lately/{post} : count() where at > now - 20d as lately"
	inSchedule(t, new(memstore.Store), text, func(s *schedule) {
		store, queue := s.AuditStore().(*memstore.Store), new(alarmed)
		s.o.Alarms = queue
		store.Put("posts/a/visits/1", map[string]any{"at": store.Now().Truncate(time.Microsecond)})
		o := s.o
		o.FromFirst = true // saves no cursor
		_, err := rollup.Audit(s.t.Context(), store, s.routes, o)
		if err != nil || len(queue.made) != 1 {
			t.Fatalf("%v; made %v", err, queue.made)
		}

		time.Sleep(time.Minute)
		queue.made, s.o.Purged = nil, store.Now()
		time.Sleep(time.Minute)
		s.calls(2 * time.Hour)
		if len(queue.made) != 1 {
			t.Errorf("the first cycles made the alarms %v, want one", queue.made)
		}
	})
}
