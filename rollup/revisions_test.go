package rollup_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
)

// Revisions are instances of several revisions of the function, side by side on one roll-up as they
// are for minutes after a change of routes: the old one keeps likes, the new one likes and views,
// and the newest, if there is one, shares too.
type revisions struct {
	*cloud
	old, new   route.Counter
	each       []route.Counter // by revision, the old one first
	instances  int             // of each
	random     *rand.Rand
	deliveries sync.WaitGroup

	mu          sync.Mutex
	rollUps     []revisionRollUp
	longestHeld time.Duration
	acked       []acknowledged // by the new revision
}

type revisionRollUp struct {
	at     time.Time
	routes string
	asOf   time.Time
}

type acknowledged struct {
	at, commit time.Time
	ending     rollup.Ending
}

// revisionFields are the fields that the newest revision keeps.
var revisionFields = []string{"likes", "views", "shares"}

// inRevisions runs f with a number of instances of each of so many revisions. Their pace is checked
// by the cloud.
func inRevisions(t *testing.T, n, instances, burst int, f func(r *revisions)) {
	synctest.Test(t, func(t *testing.T) {
		r := &revisions{cloud: newCloud(t, n*instances, 0, burst), instances: instances, random: rand.New(rand.NewPCG(1, 3))}
		for i := range n {
			route := "counters/{counter}/shards/{shard} -> rollups/{counter} : " + strings.Join(revisionFields[:i+1], ", ")
			r.each = append(r.each, mustCounter(route, "counters/a/shards"))
		}
		r.old, r.new = r.each[0], r.each[1]
		r.back = 5 * time.Millisecond
		r.add(&cloudCounter{Counter: r.each[n-1], shard: shardsOf(r.new) + "/0"})
		r.wrote = func(w rollup.RollUp) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.rollUps = append(r.rollUps, revisionRollUp{r.store.Now(), w.Tally.Routes, w.Tally.AsOf})
		}
		f(r)
	})
}

// all has events come at random for a while, as many to each revision.
func (r *revisions) all(rate float64, d time.Duration) { r.some(len(r.each), rate, d) }

// some has events come at random to the first n revisions. Each gets events of the fields that it
// keeps.
func (r *revisions) some(n int, rate float64, d time.Duration) {
	for began := time.Now(); time.Since(began) < d; {
		time.Sleep(time.Duration(r.random.ExpFloat64() / rate * float64(time.Second)))
		revision := r.random.IntN(n)
		r.event(revision, revisionFields[r.random.IntN(revision+1)])
	}
}

// Revisions.
const (
	isOld = iota
	isNew
)

// event commits a change of a field. Its event comes to an instance of a revision a little later.
func (r *revisions) event(revision int, field string) {
	c := r.each[revision]
	to := r.cloud.instances[revision*r.instances+r.random.IntN(r.instances)]
	commit := r.store.Increment(shardsOf(c)+"/0", field, 1)
	e := rollup.Event{ID: fmt.Sprint(r.events.Add(1)), UpdateTime: commit}
	delay := time.Duration((5 + r.random.ExpFloat64()*15) * float64(time.Millisecond))
	r.deliveries.Go(func() {
		time.Sleep(delay)
		arrived := time.Now()
		ending, err := to.changed(c, e)
		if err != nil {
			r.t.Errorf("an event of the revision that keeps %v was not covered in time: %v", c.Template.Totals(), err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.longestHeld = max(r.longestHeld, time.Since(arrived))
		if revision == isNew {
			r.acked = append(r.acked, acknowledged{r.store.Now(), commit, ending})
		}
	})
}

// by returns the roll-ups of a revision.
func (r *revisions) by(c route.Counter) (of []revisionRollUp) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.rollUps {
		if w.routes == c.Template.Hash() {
			of = append(of, w)
		}
	}
	return of
}

// Every event that the new revision acknowledges is covered by a roll-up of its own: at once when
// it was held, and when it was absorbed, by the time that its anchor may be held for. The old
// revision's as_of covers nothing of it.
func TestRevisionsCoverTheirOwn(t *testing.T) {
	for _, test := range []struct{ instances, burst int }{{1, 1}, {1, 5}, {4, 1}, {4, 5}, {20, 5}} {
		t.Run(fmt.Sprintf("%d instances each, burst %d", test.instances, test.burst), func(t *testing.T) {
			t.Parallel()
			inRevisions(t, 2, test.instances, test.burst, func(r *revisions) {
				for range 10 {
					r.all(20, 5*time.Second)
					r.event(isNew, "views") // the new revision's last for a while: nothing later makes up for it
					for range 40 {
						time.Sleep(100 * time.Millisecond)
						r.event(isOld, "likes")
					}
					time.Sleep(cadence * 2)
				}
				r.deliveries.Wait()
				time.Sleep(time.Minute)
				own := r.by(r.new)
				for _, a := range r.acked {
					by := a.at
					if !a.ending.Held {
						by = by.Add(hold)
					} else if a.ending.AsOf.Before(a.commit) {
						t.Errorf("the change of %v was acknowledged as of %v", a.commit, a.ending.AsOf)
					}
					if !slices.ContainsFunc(own, func(w revisionRollUp) bool { return !w.asOf.Before(a.commit) && !w.at.After(by) }) {
						t.Errorf("the change of %v was acknowledged at %v, and no roll-up of its own revision covered it by %v", a.commit, a.at, by)
					}
				}
				if shard, total := r.store.Get(shardsOf(r.new)+"/0"), r.store.Get(r.new.RollUp); total["views"] != shard["views"] {
					t.Errorf("views are %v, the shards hold %v", total["views"], shard["views"])
				}
			})
		})
	}
}

// No revision is kept from rolling up by the others. They take turns, so that each has a roll-up of
// its own well within the time for which an event may be held, and they do not get in each other's
// way. That no event fails is checked with each event.
func TestRevisionsTakeTurns(t *testing.T) {
	type cell struct {
		revisions, instances, burst int
		rate                        float64 // events a second
		refused                     float64 // a roll-up, at most
	}
	grid := []cell{
		{2, 1, 1, 100, 0.1}, {2, 1, 5, 100, 0.1}, {2, 4, 1, 100, 0.1}, {2, 4, 5, 100, 0.1},
		{2, 20, 5, 20, 0.3}, {2, 20, 5, 100, 0.3}, {2, 20, 1, 1000, 0.3}, {2, 20, 5, 1000, 0.3},
		{2, 100, 5, 20, 0.3}, {2, 100, 5, 100, 0.3}, {2, 100, 5, 1000, 0.3},
		{3, 1, 5, 100, 0.1}, {3, 20, 5, 20, 0.3}, {3, 20, 5, 100, 0.3}, {3, 20, 5, 1000, 0.3}, {3, 100, 5, 1000, 0.3},
	}
	for _, test := range cellsOf(grid, func(c cell) bool { return c.instances == 1 || c.instances == 20 && c.rate == 20 }) {
		t.Run(fmt.Sprintf("%d revisions, %d instances each, burst %d, %v events a second", test.revisions, test.instances, test.burst, test.rate), func(t *testing.T) {
			t.Parallel()
			inRevisions(t, test.revisions, test.instances, test.burst, func(r *revisions) {
				r.some(1, test.rate, 10*cadence)
				r.forget()
				for n := 2; n <= test.revisions; n++ {
					const d = 2 * time.Minute
					joined := r.store.Now()
					r.some(n, test.rate, d)
					r.fair(r.each[:n], joined.Add(5*cadence), joined.Add(d))
				}
				r.deliveries.Wait()
				time.Sleep(time.Minute)

				t.Logf("%.2f refused writes and %.1f reads a roll-up, events held for up to %v", r.refusedPerRollUp(), r.readsPerRollUp(), r.longestHeld.Round(time.Millisecond))
				if most := time.Duration(test.revisions) * 9 * cadence / 4; r.longestHeld > most {
					t.Errorf("an event was held for %v, want at most %v", r.longestHeld, most)
				}
				if n := r.refusedPerRollUp(); n > test.refused {
					t.Errorf("%.2f refused writes a roll-up, want at most %.1f", n, test.refused)
				}
			})
		})
	}
}

// fair checks that none of the revisions was without a roll-up for long between two times.
func (r *revisions) fair(each []route.Counter, from, to time.Time) {
	r.t.Helper()
	for n, c := range each {
		longest, last := time.Duration(0), from
		for _, w := range r.by(c) {
			if w.at.After(from) && w.at.Before(to) {
				longest, last = max(longest, w.at.Sub(last)), w.at
			}
		}
		if most := time.Duration(len(each)) * 7 * cadence / 4; max(longest, to.Sub(last)) > most {
			r.t.Errorf("of %d revisions, number %d had no roll-up for %v, want one in %v", len(each), n+1, longest, most)
		}
	}
}

// The old revision's writes take no total of the new one's away, and an audit after it is gone
// makes all exact without calling anything drift.
func TestRevisionIsGone(t *testing.T) {
	inRevisions(t, 2, 2, 5, func(r *revisions) {
		totals := func() map[string]any {
			fields := r.store.Get(r.new.RollUp)
			delete(fields, document.TallyField)
			return fields
		}
		tally := func() document.Tally {
			return document.DecodeTally(r.store.Get(r.new.RollUp)[document.TallyField])
		}
		check := func(when string, names, former []string, want map[string]any) {
			t.Helper()
			got := tally()
			if d := cmp.Diff(names, got.Totals) + cmp.Diff(former, got.Former) + cmp.Diff(want, totals()); d != "" {
				t.Errorf("%s (-want +got):\n%s", when, d)
			}
		}
		both := []string{"likes", "views"}

		r.event(isOld, "likes")
		time.Sleep(10 * cadence)
		check("before the change of routes", []string{"likes"}, nil, map[string]any{"likes": int64(1)})
		r.event(isNew, "views")
		time.Sleep(10 * cadence)
		check("rolled up by the new revision", both, nil, map[string]any{"likes": int64(1), "views": int64(1)})
		r.event(isOld, "likes")
		time.Sleep(10 * cadence)
		check("and by the old one again", []string{"likes"}, []string{"views"}, map[string]any{"likes": int64(2), "views": int64(1)})
		r.all(10, time.Minute)
		r.deliveries.Wait()
		time.Sleep(10 * cadence)
		r.event(isOld, "likes") // the last word is the old revision's
		time.Sleep(time.Minute)
		r.deliveries.Wait()
		if got := tally().Routes; got != r.old.Template.Hash() {
			t.Fatalf("the last roll-up is by routes %s, want the old ones", got)
		}

		audit := func() rollup.Report {
			report, err := rollup.Audit(context.Background(), &r.store, r.new.Template.Routes, rollup.AuditOptions{
				Options:     rollup.Options{Cadence: cadence, Burst: 5, Timeout: hold / 2, Logger: slog.New(slog.DiscardHandler)},
				Concurrency: 1, Grace: rollup.Grace(cadence, hold),
			})
			if err != nil || !report.Complete {
				t.Fatalf("%+v: %v", report, err)
			}
			return report
		}
		if report := audit(); report.Rerouted != 1 || report.RolledUp != 1 || report.Drift != 0 {
			t.Errorf("the audit found %+v, want one rerouted and no drift", report)
		}
		want := maps.Clone(r.store.Get(shardsOf(r.new) + "/0"))
		check("after the audit", both, nil, want)
		if report := audit(); report.Unchanged != 1 || report.RolledUp != 0 {
			t.Errorf("the next audit did %+v", report)
		}
	})
}

// A total that the routes lost stays, and is named in former until a pruning removes it.
func TestFormerTotalStays(t *testing.T) {
	inRevisions(t, 2, 1, 5, func(r *revisions) {
		r.event(isNew, "views")
		time.Sleep(10 * cadence)
		for range 3 {
			r.event(isOld, "likes")
			time.Sleep(10 * cadence)
			fields := r.store.Get(r.new.RollUp)
			tally := document.DecodeTally(fields[document.TallyField])
			if d := cmp.Diff([]string{"views"}, tally.Former) + cmp.Diff([]string{"likes"}, tally.Totals); d != "" || fields["views"] != int64(1) {
				t.Errorf("views %v (-want +got):\n%s", fields["views"], d)
			}
		}
		r.deliveries.Wait()
		time.Sleep(time.Minute)
	})
}

// A client that may write the app's document makes up turns. However many they are, no event fails,
// and they are gone with the next roll-up, or with their time.
func TestForgedTurns(t *testing.T) {
	for _, n := range []int{1, 4, 5, 3000} {
		inWorld(t, func(w *world, _ *rollup.Coalescer) {
			o := w.options(0.5)
			o.Burst, o.Timeout, o.Hold = 5, hold/2, hold
			c := rollup.NewCoalescer(traced{w.store, w}, o)
			w.store.Put("posts/7", map[string]any{"title": "x"})
			time.Sleep(time.Minute)

			at := w.store.Now().Truncate(time.Microsecond).UTC()
			forged := document.Tally{AsOf: at, Routes: "0000", Totals: []string{"likes"}}
			for i := range n - 1 {
				forged.Turns = append(forged.Turns, w.turn(fmt.Sprint("f", i), -time.Duration(i)*time.Millisecond))
			}
			forged.Turns = append(forged.Turns, w.turn(post7.Template.Hash(), -time.Second)) // ours is the last
			w.store.Put("posts/7", map[string]any{"title": "x", "tally": forged.Encode()})

			const likes = 10
			for i := range likes {
				w.like(fmt.Sprint(i))
				w.acknowledged(w.changed(c, rollup.Event{ID: fmt.Sprint("e", i)}))
				time.Sleep(cadence)
			}
			if got := w.store.Get("posts/7")["likes"]; got != int64(likes) {
				t.Errorf("%d forged turns: %v likes, want %d", n, got, likes)
			}
			if turns := document.DecodeTally(w.store.Get("posts/7")["tally"]).Turns; len(turns) > 5 {
				t.Errorf("%d forged turns: %d are left", n, len(turns))
			}
		})
	}
}
