package rollup_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/test/memstore"
	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
)

// byDay has Tally create the days of shops.
var byDay = mustRoutes("orders/{order} by shop, day(at) -> shops/{shop}/days/{day} : count() as orders : within shops/{shop}")

// today is the counter of shop a's first day in virtual time.
var today, _ = byDay.Counter("shops/a/days/2000-01-01")

// order has the shop a an order today.
func (w *world) order(id string) {
	w.store.Put("orders/"+id, map[string]any{"shop": "a", "at": time.Date(2000, 1, 1, 12, 0, 0, 0, time.UTC)})
}

// ordered delivers the event of an order of today, which must be acknowledged.
func (w *world) ordered(c *rollup.Coalescer, id string) {
	w.t.Helper()
	w.acknowledged(w.deliverOf(hold, c, today, rollup.Event{ID: id}))
}

// wantDay wants the roll-up of today to have as many orders; -1: no roll-up.
func (w *world) wantDay(when string, orders int64) {
	w.t.Helper()
	fields := w.store.Get(today.RollUp)
	if orders < 0 && fields != nil || orders >= 0 && fields["orders"] != orders {
		w.t.Errorf("%s: %s is %v, want %d orders (-1: none)", when, today.RollUp, fields, orders)
	}
}

// ownerlessSince is since when today's roll-up says that the shop has been missing.
func (w *world) ownerlessSince() time.Time {
	return document.DecodeTally(w.store.Get(today.RollUp)["tally"]).OwnerlessSince
}

// auditDays audits the days.
func (w *world) auditDays(o rollup.AuditOptions) rollup.Report {
	w.t.Helper()
	r, err := rollup.Audit(w.t.Context(), traced{w.store, w}, byDay, o)
	if err != nil {
		w.t.Errorf("%+v: %v", r, err)
	}
	return counts(r)
}

// A day is created with its first order if its shop exists. When it has been empty for an hour, an
// audit removes it, and the next order creates it again.
func TestDaysComeAndGo(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		w.order("1")
		w.ordered(c, "no shop")
		w.wantDay("without the shop", -1)
		if got := w.auditDays(w.patient()); !cmp.Equal(got, rollup.Report{}) {
			t.Errorf("without the shop: %+v", got)
		}
		w.wantDay("audited without the shop", -1)

		w.store.Put("shops/a", map[string]any{"name": "x"})
		time.Sleep(time.Minute)
		w.ordered(c, "of the shop")
		w.wantDay("with the shop", 1)

		w.store.Delete("orders/1")
		w.ordered(c, "deleted")
		w.wantDay("without orders", 0)
		time.Sleep(time.Hour + time.Second)
		if got, want := w.auditDays(w.patient()), (rollup.Report{Counters: 1, Removed: 1}); !cmp.Equal(got, want) {
			t.Errorf("an hour later: %+v", got)
		}
		w.wantDay("removed", -1)

		w.order("2")
		w.ordered(c, "again")
		w.wantDay("with another order", 1)
	})
}

// A day whose event was lost is found by its orders, if its shop exists.
func TestDayWithoutAnEvent(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.order("1")
		w.store.Put("shops/a", map[string]any{"name": "x"})
		if got, want := w.auditDays(w.patient()), (rollup.Report{Counters: 1, RolledUp: 1, Missing: 1}); !cmp.Equal(got, want) {
			t.Errorf("%+v", got)
		}
		w.wantDay("found", 1)
	})
}

// A day whose shop is gone goes on counting, and says since when. An audit removes it when the shop
// has been missing for an hour, whatever it holds. A shop that comes back in time keeps its days,
// and one that comes back later has them again.
func TestOwnerIsGone(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		one := rollup.Report{Counters: 1, Unchanged: 1}
		w.store.Put("shops/a", map[string]any{"name": "x"})
		w.order("1")
		w.ordered(c, "1")
		time.Sleep(5 * time.Hour)

		w.store.Delete("shops/a")
		gone := time.Now()
		if got, want := w.auditDays(w.patient()), (rollup.Report{Counters: 1, RolledUp: 1}); !cmp.Equal(got, want) {
			t.Errorf("the shop has gone: %+v", got)
		}
		if since := w.ownerlessSince(); since.Sub(gone).Abs() > time.Second {
			t.Errorf("the day says that the shop has been missing since %v, want %v", since, gone)
		}
		if got := w.auditDays(w.patient()); !cmp.Equal(got, one) {
			t.Errorf("audited again: %+v", got)
		}

		time.Sleep(40 * time.Minute)
		w.order("2")
		w.ordered(c, "2")
		w.wantDay("with another order", 2)
		if since := w.ownerlessSince(); since.Sub(gone).Abs() > time.Second {
			t.Errorf("after an order, the day says since %v, want %v", since, gone)
		}
		w.store.Put("shops/a", map[string]any{"name": "x"})
		if got, want := w.auditDays(w.patient()), (rollup.Report{Counters: 1, RolledUp: 1}); !cmp.Equal(got, want) || !w.ownerlessSince().IsZero() {
			t.Errorf("the shop is back: %+v, since %v", got, w.ownerlessSince())
		}

		time.Sleep(40 * time.Minute)
		w.store.Delete("shops/a")
		w.auditDays(w.patient())
		time.Sleep(59 * time.Minute)
		if got := w.auditDays(w.patient()); !cmp.Equal(got, one) {
			t.Errorf("59 minutes after the shop has gone again: %+v", got)
		}

		time.Sleep(2 * time.Minute)
		dry := w.patient()
		dry.DryRun = true
		if got := w.auditDays(dry); !cmp.Equal(got, one) {
			t.Errorf("a dry run: %+v", got)
		}
		w.wantDay("after a dry run", 2)
		if got, want := w.auditDays(w.patient()), (rollup.Report{Counters: 1, Removed: 1}); !cmp.Equal(got, want) {
			t.Errorf("an hour after the shop has gone: %+v", got)
		}
		w.wantDay("an hour after the shop has gone", -1)
		w.order("3")
		w.ordered(c, "3")
		w.wantDay("with an order of no shop", -1)

		w.store.Put("shops/a", map[string]any{"name": "x"})
		if got, want := w.auditDays(w.patient()), (rollup.Report{Counters: 1, RolledUp: 1, Missing: 1}); !cmp.Equal(got, want) {
			t.Errorf("the shop is made again: %+v", got)
		}
		w.wantDay("with the shop made again", 3)
	})
}

// A time in the future, which a client may have written, says nothing of how long a shop has been
// missing.
func TestOwnerlessInTheFuture(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		w.store.Put("shops/a", map[string]any{})
		w.order("1")
		w.ordered(c, "1")
		fields := w.store.Get(today.RollUp)
		tally := document.DecodeTally(fields["tally"])
		tally.OwnerlessSince = time.Now().Add(1000 * time.Hour)
		fields["tally"] = tally.Encode()
		w.store.Put(today.RollUp, fields)
		w.store.Delete("shops/a")

		time.Sleep(time.Minute)
		w.auditDays(w.patient())
		if since := w.ownerlessSince(); since.After(time.Now()) {
			t.Errorf("missing since %v", since)
		}
	})
}

// An order that comes while an audit removes its day is counted, whether the shop is missing and
// comes back, or the day was empty. The order comes before the removal or after it.
func TestRemovalAndAnOrder(t *testing.T) {
	for _, empty := range []bool{false, true} {
		for _, before := range []bool{false, true} {
			t.Run(fmt.Sprintf("empty %v, before %v", empty, before), func(t *testing.T) {
				inWorld(t, func(w *world, c *rollup.Coalescer) {
					w.store.Put("shops/a", map[string]any{})
					w.order("1")
					w.ordered(c, "1")
					if empty {
						w.store.Delete("orders/1")
						w.ordered(c, "deleted")
					} else {
						w.store.Delete("shops/a")
						w.auditDays(w.patient())
					}
					time.Sleep(2 * time.Hour)

					late := w.instance(0.5) // of another machine
					comes := func() {
						w.store.Put("shops/a", map[string]any{})
						w.order("2")
						w.ordered(late, "2")
					}
					store := removing{w.store, func() {
						if before {
							comes()
						}
					}}
					report, err := rollup.Audit(w.t.Context(), store, byDay, w.patient())
					if err != nil {
						t.Errorf("%+v: %v", report, err)
					}
					if !before {
						if report.Removed != 1 {
							t.Errorf("not removed: %+v", report)
						}
						comes()
					}
					want := int64(2)
					if empty {
						want = 1
					}
					w.wantDay("with the order", want)
				})
			})
		}
	}
}

// A removing store calls a function before it removes a roll-up.
type removing struct {
	rollup.AuditStore
	before func()
}

func (s removing) Remove(ctx context.Context, c route.Counter, r rollup.RollUp) error {
	s.before()
	return s.AuditStore.Remove(ctx, c, r)
}

// An oldDays store has days whose roll-ups are right, each of a shop of its own.
type oldDays struct {
	memstore.Store
	days     []rollup.FoundCounter
	mu       sync.Mutex
	compared map[string]int
	since    []time.Duration // how long ago each walk of the orders began
}

// add adds so many days, of a while ago.
func (s *oldDays) add(n int, ago time.Duration) {
	for range n {
		next := len(s.days)
		at := s.Now().Add(-ago)
		c, _ := byDay.Counter(fmt.Sprintf("shops/%d/days/%s", next, at.UTC().Format(time.DateOnly)))
		s.days = append(s.days, rollup.FoundCounter{Counter: c, Next: fmt.Sprint(next + 1), RollUp: rollup.RollUp{
			Values:     map[string]value.Value{"orders": value.Int(0)},
			Labels:     c.Labels(),
			Tally:      document.Tally{AsOf: at, Routes: c.Template.Hash()},
			UpdateTime: time.Unix(0, 0),
		}})
	}
}

func (s *oldDays) RollUps(ctx context.Context, t *route.Template, from string, limit int) (rollup.Page, error) {
	return s.Recent(ctx, t, func(string) time.Time { return time.Time{} }, from, limit)
}

func (s *oldDays) Recent(_ context.Context, t *route.Template, since func(string) time.Time, from string, limit int) (rollup.Page, error) {
	first := 0
	_, _ = fmt.Sscan(from, &first)
	p := rollup.Page{ReadTime: s.Now(), Reads: 1}
	for _, f := range s.days[first:min(first+limit, len(s.days))] {
		collection, id, _ := t.CutTime(f.Counter.RollUp)
		at := since(collection)
		if at.IsZero() || id >= t.TimeID(at) {
			p.Found = append(p.Found, f)
		}
	}
	if first+limit < len(s.days) {
		p.Next = fmt.Sprint(first + limit)
	}
	return p, nil
}

func (s *oldDays) Missing(_ context.Context, _ *route.Route, since time.Time, _ string, _ int) (rollup.Page, error) {
	s.since = append(s.since, time.Since(since))
	return rollup.Page{ReadTime: s.Now(), Reads: 1}, nil
}

func (s *oldDays) Sources(ctx context.Context, c route.Counter) rollup.Snapshot {
	s.mu.Lock()
	s.compared[c.RollUp]++
	s.mu.Unlock()
	return s.Store.Sources(ctx, c)
}

// A day that ended more than 30 days ago is compared in one of 30 cycles, and the walk of the
// orders begins 30 days ago in the others. A note about all has all days compared.
func TestOldDays(t *testing.T) {
	const old, young = 300, 5
	store := &oldDays{compared: make(map[string]int)}
	inSchedule(t, store, byDay.String(), func(s *schedule) {
		s.settle()
		store.add(old, 100*24*time.Hour)
		store.add(young, 24*time.Hour)
		clear(store.compared)
		store.since = nil
		s.calls(32 * time.Hour) // of at least 30 whole cycles, and at most 33
		all := 0
		for n, f := range store.days {
			least, most := 1, 2
			if n >= old {
				least, most = 30, 33
			}
			got := store.compared[f.Counter.RollUp]
			if got < least || got > most {
				t.Errorf("day %d was compared %d times in 32 hours, want %d to %d", n, got, least, most)
			}
			all += got
		}
		if all > old*33/30+33*young+old/10 {
			t.Errorf("%d comparisons in all", all)
		}
		whole := 0
		for _, age := range store.since {
			if age > 100*30*24*time.Hour {
				whole++
			} else if age < 30*24*time.Hour || age > 30*24*time.Hour+2*time.Hour {
				t.Errorf("a walk of the orders began %v ago, want 30 days", age)
			}
		}
		if whole < 1 || whole > 2 || len(store.since) < 30 {
			t.Errorf("%d of %d walks of the orders began with the first day, want one of 30", whole, len(store.since))
		}

		clear(store.compared)
		store.since = nil
		err := rollup.NewNotes(store).All(s.t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.calls(2 * time.Hour)
		if len(store.compared) != old+young || len(store.since) == 0 || store.since[0] < 100*30*24*time.Hour {
			t.Errorf("after a note about all, %d days were compared, and the walks began at %v", len(store.compared), store.since)
		}
	})
}

// Notes about all counters, which somebody may cause all the time, have each cycle compare old
// days, too. They make no more cycles than one an hour, or two of each that would come without
// them.
func TestNotesAllDayOfOldDays(t *testing.T) {
	const old, young, hours = 300, 5, 48
	var compared [2]int
	for i := range compared {
		store := &oldDays{compared: make(map[string]int)}
		inSchedule(t, store, byDay.String(), func(s *schedule) {
			s.settle()
			store.add(old, 100*24*time.Hour)
			store.add(young, 24*time.Hour)
			s.calls(2 * time.Hour)
			clear(store.compared)

			notes := rollup.NewNotes(s.AuditStore())
			for began := time.Now(); time.Since(began) < hours*time.Hour; s.call() {
				if i == 0 {
					continue
				}
				err := notes.All(s.t.Context())
				if err != nil {
					t.Fatal(err)
				}
			}
			for _, n := range store.compared {
				compared[i] += n
			}
		})
	}

	t.Logf("%d old days: %d comparisons in %d hours, and %d with notes all the time", old, compared[0], hours, compared[1])
	least, most := hours*(old/30+young)*9/10, (hours+1)*(old/30+young)*11/10
	if compared[0] < least || compared[0] > most {
		t.Errorf("%d comparisons without notes, want %d to %d", compared[0], least, most)
	}
	if compared[1] < hours*(old+young)*9/10 || compared[1] > (hours+1)*(old+young) {
		t.Errorf("%d comparisons with notes all the time, want about %d", compared[1], hours*(old+young))
	}
}

// A year of days costs audits little: a cycle reads a shop's days of the last 30 days, one older
// day, and the shop. One cycle of 30 reads all of them.
func TestYearOfDays(t *testing.T) {
	const shops, days = 60, 365
	var store memstore.Store
	now := store.Now()
	for shop := range shops {
		store.Put(fmt.Sprintf("shops/%02d", shop), map[string]any{})
		for ago := range days {
			path := fmt.Sprintf("shops/%02d/days/%s", shop, now.AddDate(0, 0, -ago).UTC().Format(time.DateOnly))
			store.Put(path, map[string]any{"tally": document.Tally{AsOf: now.AddDate(0, 0, -ago)}.Encode()})
		}
	}
	reads := func(since func(string) time.Time) (all int64) {
		for from := "-"; from != ""; {
			p, err := store.Recent(t.Context(), byDay[0].Template, since, strings.TrimPrefix(from, "-"), 100)
			if err != nil {
				t.Fatal(err)
			}
			all += p.Reads
			from = p.Next
		}
		return all
	}

	whole := reads(func(string) time.Time { return time.Time{} })
	recent := reads(func(collection string) time.Time {
		if collection == "shops/00/days" || collection == "shops/01/days" { // one of 30
			return time.Time{}
		}
		return now.AddDate(0, 0, -30)
	})
	t.Logf("finding %d days of %d shops takes %d reads, and %d in a cycle that leaves most old ones out", shops*days, shops, whole, recent)
	if whole < shops*days || recent > shops*(31+2+12+2) {
		t.Errorf("%d reads, and %d without old days", whole, recent)
	}
}
