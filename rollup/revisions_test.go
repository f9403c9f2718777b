package rollup_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup"
	"github.com/google/go-cmp/cmp"
)

// Revisions are instances of two revisions of the function, side by side on one roll-up as they are
// for minutes after a change of routes: the old one keeps likes, the new one likes and views.
type revisions struct {
	*cloud
	old, new   rollup.Counter
	oldest     int // how many of the instances are of the old revision
	random     *rand.Rand
	deliveries sync.WaitGroup

	mu      sync.Mutex
	rollUps []revisionRollUp
	acked   []acknowledged // by the new revision
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

// inRevisions runs f with a number of instances of each revision. Their pace is checked by the
// cloud.
func inRevisions(t *testing.T, instances, burst int, f func(r *revisions)) {
	const pattern = "counters/{counter}/shards/{shard} -> rollups/{counter} : "
	synctest.Test(t, func(t *testing.T) {
		r := &revisions{
			cloud:  newCloud(t, 2*instances, 0, burst),
			old:    mustCounter(pattern+"likes", "counters/a/shards"),
			new:    mustCounter(pattern+"likes, views", "counters/a/shards"),
			oldest: instances, random: rand.New(rand.NewPCG(1, 3)),
		}
		r.back = 5 * time.Millisecond
		r.add(&cloudCounter{Counter: r.new, shard: shardsOf(r.new) + "/0"})
		r.wrote = func(w rollup.RollUp) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.rollUps = append(r.rollUps, revisionRollUp{r.store.Now(), w.Tally.Routes, w.Tally.AsOf})
		}
		f(r)
	})
}

// both has events come at random for a while, as many to each revision. The old one gets those of
// likes, the new one those of either.
func (r *revisions) both(rate float64, d time.Duration) {
	for began := time.Now(); time.Since(began) < d; {
		time.Sleep(time.Duration(r.random.ExpFloat64() / rate * float64(time.Second)))
		if r.random.IntN(2) == 0 {
			r.event(false, "likes")
		} else {
			r.event(true, []string{"likes", "views"}[r.random.IntN(2)])
		}
	}
}

// event commits a change of a field. Its event comes to an instance of a revision a little later.
func (r *revisions) event(newer bool, field string) {
	c, n := r.old, r.random.IntN(r.oldest)
	if newer {
		c, n = r.new, n+r.oldest
	}
	to := r.instances[n]
	commit := r.store.Increment(shardsOf(c)+"/0", field, 1)
	e := rollup.Event{ID: fmt.Sprint(r.events.Add(1)), UpdateTime: commit}
	delay := time.Duration((5 + r.random.ExpFloat64()*15) * float64(time.Millisecond))
	r.deliveries.Go(func() {
		time.Sleep(delay)
		ending, err := to.changed(c, e)
		if err != nil {
			r.t.Errorf("an event of the revision that keeps %v was not covered in time: %v", c.Template.Totals(), err)
		}
		if newer {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.acked = append(r.acked, acknowledged{r.store.Now(), commit, ending})
		}
	})
}

// by returns the roll-ups of a revision.
func (r *revisions) by(c rollup.Counter) (of []revisionRollUp) {
	for _, w := range r.rollUps {
		if w.routes == c.Template.Hash() {
			of = append(of, w)
		}
	}
	return of
}

// Whatever the new revision acknowledges is covered by a roll-up of its own: at once when it was
// held, and when it was absorbed, by the time that its anchor may be held for. The old revision's
// as_of covers nothing of it.
func TestRevisionsCoverTheirOwn(t *testing.T) {
	for _, test := range []struct{ instances, burst int }{{1, 1}, {1, 5}, {4, 1}, {4, 5}, {20, 5}} {
		t.Run(fmt.Sprintf("%d instances each, burst %d", test.instances, test.burst), func(t *testing.T) {
			t.Parallel()
			inRevisions(t, test.instances, test.burst, func(r *revisions) {
				for range 10 {
					r.both(20, 5*time.Second)
					r.event(true, "views") // the new revision's last for a while: nothing later makes up for it
					for range 40 {
						time.Sleep(100 * time.Millisecond)
						r.event(false, "likes")
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

// Neither revision is kept from rolling up by the other. They take turns, so that each has a
// roll-up of its own well within the time for which an event may be held.
func TestRevisionsTakeTurns(t *testing.T) {
	for _, test := range []struct{ instances, burst int }{{1, 1}, {1, 5}, {4, 1}, {4, 5}, {20, 5}} {
		t.Run(fmt.Sprintf("%d instances each, burst %d", test.instances, test.burst), func(t *testing.T) {
			t.Parallel()
			inRevisions(t, test.instances, test.burst, func(r *revisions) {
				const d = 200 * time.Second
				began := r.store.Now()
				r.both(100, d)
				r.deliveries.Wait()
				time.Sleep(time.Minute)
				for name, c := range map[string]rollup.Counter{"old": r.old, "new": r.new} {
					least, longest, last := 1.0, time.Duration(0), began
					for from := began; from.Before(began.Add(d)); from = from.Add(10 * cadence) {
						own, all := within(r.by(c), from), within(r.rollUps, from)
						least = min(least, float64(own)/float64(all))
					}
					for _, w := range r.by(c) {
						longest, last = max(longest, w.at.Sub(last)), w.at
					}
					t.Logf("%s revision: %d of %d roll-ups, at least %.0f %% of ten cadences', %v between two", name, len(r.by(c)), len(r.rollUps), 100*least, longest)
					if least < 0.3 || longest > 7*cadence/2 {
						t.Errorf("the %s revision is starved", name)
					}
				}
				t.Logf("%.2f refused writes a roll-up", r.refusedPerRollUp())
				if n := r.refusedPerRollUp(); n > float64(test.instances) {
					t.Errorf("%.1f refused writes a roll-up", n)
				}
			})
		})
	}
}

func within(rollUps []revisionRollUp, from time.Time) (n int) {
	for _, w := range rollUps {
		if !w.at.Before(from) && w.at.Before(from.Add(10*cadence)) {
			n++
		}
	}
	return n
}

// The old revision's writes take no total of the new one's away, and an audit after it is gone
// makes all exact without calling anything drift.
func TestRevisionIsGone(t *testing.T) {
	inRevisions(t, 2, 5, func(r *revisions) {
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

		r.event(false, "likes")
		time.Sleep(10 * cadence)
		check("before the change of routes", []string{"likes"}, nil, map[string]any{"likes": int64(1)})
		r.event(true, "views")
		time.Sleep(10 * cadence)
		check("rolled up by the new revision", both, nil, map[string]any{"likes": int64(1), "views": int64(1)})
		r.event(false, "likes")
		time.Sleep(10 * cadence)
		check("and by the old one again", []string{"likes"}, []string{"views"}, map[string]any{"likes": int64(2), "views": int64(1)})
		r.both(10, time.Minute)
		r.event(false, "likes") // the last word is the old revision's
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
	inRevisions(t, 1, 5, func(r *revisions) {
		r.event(true, "views")
		time.Sleep(10 * cadence)
		for range 3 {
			r.event(false, "likes")
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
