package rollup_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/test/memstore"
	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
)

// someDay is a time in virtual time's past.
var someDay = time.Date(1999, 12, 31, 8, 0, 0, 0, time.UTC)

// A product is a document of the app's with totals of its reviews.
type product struct {
	*world
	route.Counter
	coalescer *rollup.Coalescer
	sent      int
}

// product returns a product whose total "kept" is of a kind, with a neighbor or without.
func (w *world) product(total, more string) *product {
	routes, err := route.Parse("products/{product}/reviews/{review} -> products/{product} : " + total + " as kept" + more + " : existing")
	if err != nil {
		w.t.Fatal(err)
	}
	c, _ := routes[0].Template.Counter("products/7")
	return &product{world: w, Counter: c, coalescer: w.instance(0)}
}

// review adds a review, and waits until its event is acknowledged.
func (p *product) review() {
	p.sent++
	p.store.Put(fmt.Sprint("products/7/reviews/", p.sent), map[string]any{"stars": int64(p.sent + 3), "at": someDay.Add(time.Duration(p.sent) * time.Hour)})
	p.acknowledged(p.deliverOf(hold, p.coalescer, p.Counter, rollup.Event{ID: fmt.Sprint("review ", p.sent)}))
	time.Sleep(cadence)
}

// fields returns what the product holds, and its tally.
func (p *product) fields() (map[string]any, document.Tally) {
	fields := p.store.Get("products/7")
	return fields, document.DecodeTally(fields[document.TallyField])
}

// right is what the total is by the documents that there are.
func (p *product) right() value.Value {
	v, err := p.store.View(p.t.Context(), p.Counter)
	if err != nil {
		p.t.Fatal(err)
	}
	totals, err := v.Sum(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	return totals.Values["kept"]
}

// audited audits the product as the schedule does, and returns the report.
func (p *product) audited(change func(*rollup.AuditOptions)) rollup.Report {
	p.t.Helper()
	o := p.auditOptions()
	o.Alarms = noAlarms{}
	if change != nil {
		change(&o)
	}
	report, err := rollup.Audit(p.t.Context(), p.store, p.Template.Routes, o)
	if err != nil {
		p.t.Error(err)
	}
	return report
}

// noAlarms takes every alarm, and none rings.
type noAlarms struct{}

func (noAlarms) Create(context.Context, rollup.Alarm) error { return nil }

// The app's own value of a kind that no total can be stays, whatever comes. The total is left out
// of the roll-up, its neighbor is exact, and the log says so once in ten minutes. As soon as the
// field is cleared, the next event or audit keeps the total.
func TestForeignKind(t *testing.T) {
	for _, kept := range memstore.TotalKinds {
		for _, own := range memstore.OwnValues(kept.OfTimes) {
			for _, neighbor := range []string{"", ", count() as others"} {
				for _, byAudit := range []bool{false, true} {
					inWorld(t, func(w *world, _ *rollup.Coalescer) {
						w.testForeignKind(w.product(kept.Total, neighbor), own.Kind, own.Value, neighbor != "", byAudit)
						if t.Failed() {
							t.Logf("%s holds %s, with a neighbor %v, by an audit %v", kept.Total, own.Kind, neighbor != "", byAudit)
						}
					})
				}
			}
		}
	}
}

func (w *world) testForeignKind(p *product, kind string, own any, neighbor, byAudit bool) {
	t := w.t
	w.store.Put("products/7", map[string]any{"kept": own, "title": "x"})
	for n := range 3 {
		p.review()
		fields, tally := p.fields()
		if !reflect.DeepEqual(fields["kept"], own) || fields["title"] != "x" || tally.Covers("kept") || tally.Before != nil {
			t.Fatalf("after %d reviews it holds %v", n+1, fields)
		}
		if neighbor && (fields["others"] != int64(n+1) || !tally.Covers("others")) {
			t.Fatalf("after %d reviews the neighbor is %v", n+1, fields["others"])
		}
	}
	log := w.log.String()
	if strings.Count(log, "totals left out") != 1 || !strings.Contains(log, "products/7") || !strings.Contains(log, "kept is "+kind) || !strings.Contains(log, "clear the fields") {
		t.Fatalf("logged %s", log)
	}

	report := p.audited(nil)
	if report.Unchanged != 1 || report.ForeignKind != 1 || report.ForeignKindExample != "products/7: kept is "+kind || report.Unkept+report.Drift+report.Unwritten > 0 {
		t.Fatalf("the audit says %+v", report)
	}

	fields, _ := p.fields()
	delete(fields, "kept")
	w.store.Put("products/7", fields)
	if byAudit {
		time.Sleep(time.Hour) // no event or alarm is on its way
		report = p.audited(func(o *rollup.AuditOptions) { o.Grace = time.Minute })
		if report.RolledUp != 1 || report.Drift+report.ForeignKind > 0 {
			t.Fatalf("after the field was cleared the audit says %+v", report)
		}
	} else {
		p.review()
	}
	fields, tally := p.fields()
	if fields["kept"] != p.right().Firestore() || !tally.Covers("kept") || neighbor && fields["others"] != int64(p.sent) {
		t.Fatalf("after the field was cleared it holds %v, want %v", fields, p.right())
	}
}

// Null and an empty list, map or text are nothing, for each kind of total: they are written over,
// and nothing is kept of them.
func TestNothingIsWrittenOver(t *testing.T) {
	for _, kept := range memstore.TotalKinds {
		for _, nothing := range memstore.Nothings {
			inWorld(t, func(w *world, _ *rollup.Coalescer) {
				p := w.product(kept.Total, "")
				w.store.Put("products/7", map[string]any{"kept": nothing})
				if report := p.audited(nil); report.RolledUp+report.Differing+report.ForeignKind+report.Unwritten > 0 {
					t.Errorf("%s, %#v: without reviews the audit says %+v", kept.Total, nothing, report)
				}
				p.review()
				if fields, tally := p.fields(); fields["kept"] != p.right().Firestore() || tally.Before != nil {
					t.Errorf("%s, %#v: it holds %v, want %v", kept.Total, nothing, fields, p.right())
				}
			})
		}
	}
}

// A value of another kind that a roll-up's total is replaced by is written over: to Tally, its
// field is a total.
func TestTotalOfAnotherKindIsWrittenOver(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		p := w.product("count()", "")
		w.store.Put("products/7", map[string]any{})
		p.review()
		fields, _ := p.fields()
		fields["kept"] = []any{"ann"}
		w.store.Put("products/7", fields)
		if report := p.audited(nil); report.RolledUp != 1 || report.ForeignKind > 0 {
			t.Errorf("the audit says %+v", report)
		}
		if fields, tally := p.fields(); fields["kept"] != int64(1) || tally.Before != nil {
			t.Errorf("it holds %v", fields)
		}
	})
}

// A write in a lock leaves the app's own value alone, also if that came after the look. It keeps
// the number that it replaces as it is then.
func TestForeignKindInALock(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		p := w.product("count()", ", sum(stars) as stars")
		p.coalescer = rollup.NewCoalescer(traced{w.store, w}, w.options(0))
		w.store.Put("products/7", map[string]any{"stars": int64(1)})
		var last int64
		w.aroundWrite = func(n int32, write func() error) error {
			last = int64(100 + n)
			fields := w.store.Get("products/7")
			fields["edits"], fields["stars"] = int64(n), last
			if n == 4 {
				fields["kept"] = []any{"ann"}
			}
			w.store.Put("products/7", fields)
			return write()
		}
		p.review()
		fields, tally := p.fields()
		if d := cmp.Diff([]any{"ann"}, fields["kept"]); d != "" || fields["stars"] != int64(4) {
			t.Errorf("it holds %v", fields)
		}
		if d := cmp.Diff(fmt.Sprintf("map[stars:%d]", last), fmt.Sprint(tally.Before)); d != "" || w.locks.Load() < 2 {
			t.Errorf("before, with %d locks (-want +got):\n%s", w.locks.Load(), d)
		}
	})
}

// A total that a client has made up is right after one audit, whatever else the client has written,
// with reviews and without.
func TestForgedTotals(t *testing.T) {
	for _, kept := range memstore.TotalKinds {
		forged := []any{int64(1e6), -0.5, int64(math.MaxInt64), math.NaN(), math.Inf(1)}
		if kept.OfTimes {
			forged = []any{someDay.AddDate(100, 0, 0)}
		}
		for reviews := range 2 {
			inWorld(t, func(w *world, _ *rollup.Coalescer) {
				for name, tally := range memstore.ForgedTallies(w.product(kept.Total, "").Template, w.store.Now()) {
					for _, forged := range forged {
						w.testForged(w.product(kept.Total, ""), reviews, forged, tally)
						if t.Failed() {
							t.Fatalf("%s, %d reviews, %v, the tally has %s", kept.Total, reviews, forged, name)
						}
					}
				}
			})
		}
	}
}

func (w *world) testForged(p *product, reviews int, forged any, tally map[string]any) {
	w.store.Put("products/7", map[string]any{})
	for range reviews {
		p.review()
	}
	fields := map[string]any{"title": "x", "kept": forged}
	if tally != nil {
		fields[document.TallyField] = tally
	}
	w.store.Put("products/7", fields)

	report := p.audited(nil)
	fields, _ = p.fields()
	right := p.right()
	if got, _ := value.Of(fields["kept"]); got != right || fields["title"] != "x" || report.RolledUp != 1 || report.Unkept > 0 {
		w.t.Errorf("it holds %v, want %v; the audit says %+v", fields, right, report)
	}
	if report = p.audited(nil); report.RolledUp > 0 || report.Unchanged != 1 {
		w.t.Errorf("the next audit says %+v", report)
	}
}

// Apps create documents whose totals are zeros. Without reviews they agree with each total of
// numbers, and cost nothing.
func TestZerosAgree(t *testing.T) {
	for _, kept := range memstore.TotalKinds {
		for _, zero := range []any{int64(0), 0.0, math.Copysign(0, -1)} {
			if kept.OfTimes {
				continue
			}
			inWorld(t, func(w *world, _ *rollup.Coalescer) {
				p := w.product(kept.Total, "")
				w.store.Put("products/7", map[string]any{"kept": zero})
				if report := p.audited(nil); report.RolledUp+report.Differing+report.Unwritten > 0 {
					t.Errorf("%s: the audit says %+v", kept.Total, report)
				}
				p.review()
				if fields, _ := p.fields(); fields["kept"] != p.right().Firestore() {
					t.Errorf("%s: it holds %v", kept.Total, fields)
				}
			})
		}
	}
}

// An audit says of what it finds what it is: no drift.
func TestUnwrittenIsCounted(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		p := w.product("count()", "")
		w.store.Put("products/7", map[string]any{"kept": int64(1234)})
		dry := p.audited(func(o *rollup.AuditOptions) { o.DryRun = true })
		if dry.Differing != 1 || dry.Unwritten != 1 || dry.UnwrittenExample != "products/7: kept is 1234" || dry.Orphaned+dry.Missing+dry.Drift > 0 {
			t.Errorf("a dry run says %+v", dry)
		}
		left := p.audited(func(o *rollup.AuditOptions) { o.KeepUnwritten = true })
		if fields, _ := p.fields(); left.Differing != 1 || left.Unwritten != 1 || fields["kept"] != int64(1234) {
			t.Errorf("a command that does not know the routes says %+v, and leaves %v", left, fields)
		}
		w.store.Put("products/7/reviews/1", map[string]any{"stars": int64(5)})
		if again := p.audited(func(o *rollup.AuditOptions) { o.DryRun = true }); again.Counters != 1 || again.Unwritten != 1 {
			t.Errorf("a dry run of one with reviews says %+v", again)
		}
		if report := p.audited(nil); report.RolledUp != 1 || report.Unwritten != 1 {
			t.Errorf("an audit says %+v", report)
		}
	})
}

// What a roll-up replaces that no roll-up wrote stays in the tally: after a hundred roll-ups, an
// hour at zero, two revisions with a crash between them, and a total that is renamed.
func TestBefore(t *testing.T) {
	for _, kept := range memstore.TotalKinds {
		var before any = int64(1234)
		if kept.OfTimes {
			before = someDay
		}
		inWorld(t, func(w *world, _ *rollup.Coalescer) {
			var crashes atomic.Bool
			w.aroundWrite = func(_ int32, write func() error) error {
				err := write()
				if crashes.Load() {
					return context.DeadlineExceeded // as if the process had died: the answer is lost
				}
				return err
			}
			p := w.product(kept.Total, "")
			want := map[string]value.Value{}
			want["kept"], _ = value.Of(before)
			wantBefore := func(when string) {
				t.Helper()
				if _, tally := p.fields(); !maps.Equal(tally.Before, want) {
					t.Errorf("%s, %s: before is %v, want %v", kept.Total, when, tally.Before, want)
				}
			}

			w.store.Put("products/7", map[string]any{"kept": before})
			for range 100 {
				p.review()
			}
			wantBefore("after a hundred roll-ups")

			other := w.product(kept.Total, ", count() as others")
			for n := range 4 {
				revision := []*product{p, other}[n%2]
				crashes.Store(true)
				d := w.deliverOf(hold, w.instance(0), revision.Counter, rollup.Event{ID: fmt.Sprint("crash ", n)})
				time.Sleep(3 * cadence)
				crashes.Store(false)
				w.acknowledged(d)
				wantBefore("with two revisions and crashes")
			}

			for n := range p.sent {
				w.store.Delete(fmt.Sprint("products/7/reviews/", n+1))
			}
			p.audited(nil)
			time.Sleep(2 * time.Hour)
			p.audited(nil)
			wantBefore("after an hour at zero")

			renamed := w.product("count() as others, "+kept.Total, "")
			renamed.Counter = mustCounter("products/{product}/reviews/{review} -> products/{product} : count() as others : existing", "products/7/reviews")
			renamed.audited(nil)
			wantBefore("after its route was taken away")
			renamed.audited(func(o *rollup.AuditOptions) { o.Prune = true })
			if fields, tally := p.fields(); fields["kept"] != before || tally.Before != nil || len(tally.Former) > 0 {
				t.Errorf("%s: a prune leaves %v", kept.Total, fields)
			}
		})
	}
}

// A roll-up of Tally's own that keeps what stood before is not removed: neither by an audit nor by
// a tick, nor because its owner is gone.
func TestBeforeIsNotRemoved(t *testing.T) {
	for _, every := range []string{"", " : every 10s"} {
		inWorld(t, func(w *world, _ *rollup.Coalescer) {
			c := mustCounter(route.Default+every, "counters/likes/shards")
			w.store.Put(c.RollUp, map[string]any{"count": int64(1234)})
			for range 5 {
				w.audit(w.auditOptions())
				if got := w.store.Get(c.RollUp)["count"]; got != int64(0) {
					w.t.Errorf("%s: the count is %v", every, got)
				}
				if every != "" {
					_, err := rollup.Keep(w.t.Context(), w.store, c.Template.Routes, rollup.KeepOptions{Options: w.options(0), Concurrency: 1})
					if err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(time.Hour)
			}
			if tally := document.DecodeTally(w.store.Get(c.RollUp)["tally"]); tally.Before["count"] != value.Int(1234) {
				t.Errorf("%s: it holds %v", every, w.store.Get(c.RollUp))
			}
		})
	}
}

// A day that somebody made up is repaired although its shop is missing, and keeps what it held.
func TestForgedDayOfMissingShop(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		c := mustKeyed("orders/{order} by shop, day(at) -> shops/{shop}/days/{day} : count() as orders : within shops/{shop}", "shops/a/days/1999-12-01")
		w.store.Put(c.RollUp, map[string]any{"orders": int64(1234)})
		for range 4 {
			report, err := rollup.Audit(w.t.Context(), w.store, c.Template.Routes, w.auditOptions())
			if err != nil || report.Removed > 0 {
				t.Errorf("%+v, %v", report, err)
			}
			time.Sleep(time.Hour)
		}
		fields := w.store.Get(c.RollUp)
		if fields["orders"] != int64(0) || document.DecodeTally(fields["tally"]).Before["orders"] != value.Int(1234) {
			t.Errorf("it holds %v", fields)
		}
	})
}

// mustKeyed returns the counter of a route at a path.
func mustKeyed(r, rollUp string) route.Counter {
	routes, err := route.Parse(r)
	if err != nil {
		panic(err)
	}
	c, ok := routes[0].Template.Counter(rollUp)
	if !ok {
		panic(rollUp + " is not a roll-up of " + r)
	}
	return c
}

// A made-up total of a home that is found by nothing else is gone after one audit, and so is what
// it added to the level above, once the event of the repair has come.
func TestForgedHome(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		routes, err := route.Parse("likes/{like} by post -> posts/{post} : count() as likes : existing\nposts/{post} by author -> users/{author} : sum(likes) as karma : existing")
		if err != nil {
			t.Fatal(err)
		}
		forged := map[string]any{"author": "ann", "likes": int64(1e6)}
		w.store.Put("users/ann", map[string]any{})
		w.store.Put("posts/honest", map[string]any{"author": "ann"})
		w.store.Put("likes/1", map[string]any{"post": "honest"})
		w.store.Put("posts/forged", forged)
		w.store.Put("posts/list", map[string]any{"author": "ann", "likes": []any{"ann"}})

		for range 2 {
			before := w.store.Get("posts/forged")
			report, err := rollup.Audit(w.t.Context(), w.store, routes, w.auditOptions())
			if err != nil || report.ForeignKind != 1 {
				t.Errorf("%+v, %v", report, err)
			}
			source, _ := routes.Source("posts/forged")
			now := written{"posts/forged", before, w.store.Get("posts/forged")}
			concerns := source.Own(source.Concerned(now), now.Holds)
			w.acknowledged(w.deliverConcerning(hold, c, rollup.Event{ID: "repaired"}, concerns...))
			time.Sleep(time.Hour)
		}
		if got := w.store.Get("posts/forged")["likes"]; got != int64(0) {
			t.Errorf("the forged post has %v likes", got)
		}
		if got := w.store.Get("users/ann")["karma"]; got != int64(1) {
			t.Errorf("karma is %v, want 1", got)
		}
	})
}

// A client that says that its day was rolled up long ago has it compared in the next cycle all the
// same.
func TestForgedOldDay(t *testing.T) {
	store := &oldDays{compared: make(map[string]int)}
	inSchedule(t, store, byDay.String(), func(s *schedule) {
		s.settle()
		store.add(30, 24*time.Hour)
		for i := range store.days {
			store.days[i].RollUp.Tally.AsOf = store.Now().AddDate(0, 0, -100)
		}
		s.calls(2 * time.Hour)
		if len(store.compared) != 30 {
			t.Errorf("%d days were compared, want 30", len(store.compared))
		}
	})
}
