package rollup_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firestore-tally/tally/internal/test/memstore"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

// A groupStore answers as Firestore may answer a lone read of the roll-up: as of the last commit in
// the roll-ups' own group of documents, which need not be later than a shard's commit. The roll-up
// that it reads is the newest; the sum lacks what came since.
type groupStore struct {
	memstore.Store

	mu    sync.Mutex
	right bool            // snapshots are as of now
	last  rollup.Snapshot // as of the group's last commit
}

// commit is a commit in the roll-ups' group.
func (g *groupStore) commit(c route.Counter) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last, _ = g.Store.View(context.Background(), c)
	return g.last.ReadTime()
}

func (g *groupStore) View(ctx context.Context, c route.Counter) (rollup.Snapshot, error) {
	time.Sleep(10 * time.Millisecond)
	g.mu.Lock()
	defer g.mu.Unlock()
	now, err := g.Store.View(ctx, c)
	if err != nil || g.right {
		return now, err
	}
	return groupSnapshot{g.last, now}, nil
}

// A groupSnapshot is a snapshot whose roll-up is from another, later snapshot.
type groupSnapshot struct {
	rollup.Snapshot
	now rollup.Snapshot
}

func (v groupSnapshot) RollUp() rollup.RollUp { return v.now.RollUp() }

func (g *groupStore) Write(ctx context.Context, c route.Counter, r rollup.RollUp) error {
	time.Sleep(10 * time.Millisecond)
	if err := g.Store.Write(ctx, c, r); err != nil {
		return err
	}
	g.commit(c)
	return nil
}

func (g *groupStore) setRight(right bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.right = right
}

// No generation is covered by a snapshot from before a change whose event it holds, whether the
// event is the anchor or was absorbed. Nothing is written from it, and the log says so.
func TestSnapshotFromBeforeTheChange(t *testing.T) {
	for _, test := range []struct {
		name   string
		events func(g *groupStore, deliver func(id string, at time.Time) *delivery) []*delivery
	}{
		{"the anchor's", func(g *groupStore, deliver func(string, time.Time) *delivery) []*delivery {
			return []*delivery{deliver("anchor", g.Increment(shardsOf(likes)+"/0", "count", 1))}
		}},
		{"an absorbed event's", func(g *groupStore, deliver func(string, time.Time) *delivery) []*delivery {
			first := deliver("first", g.commit(likes)) // the counter is rolled up at once; the next waits
			<-first.done
			anchor := deliver("anchor", g.Increment(shardsOf(likes)+"/0", "count", 1))
			g.commit(likes)
			absorbed := deliver("absorbed", g.Increment(shardsOf(likes)+"/0", "count", 1))
			return []*delivery{anchor, absorbed}
		}},
		{"an absorbed event's, delivered before an older one", func(g *groupStore, deliver func(string, time.Time) *delivery) []*delivery {
			first := deliver("first", g.commit(likes))
			<-first.done
			older := g.Increment(shardsOf(likes)+"/0", "count", 1)
			anchor := deliver("anchor", g.commit(likes))
			newer := deliver("newer", g.Increment(shardsOf(likes)+"/0", "count", 1))
			return []*delivery{anchor, newer, deliver("older", older)}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, func(w *world, _ *rollup.Coalescer) {
				g := &groupStore{}
				g.commit(likes)
				c := rollup.NewCoalescer(g, w.options(0))
				time.Sleep(time.Second)
				events := test.events(g, func(id string, at time.Time) *delivery {
					return w.deliverEvent(hold, c, rollup.Event{ID: id, UpdateTime: at})
				})
				written := g.Get(likes.RollUp)
				time.Sleep(5 * cadence)
				synctest.Wait()
				if !events[0].held() {
					t.Errorf("the anchor was acknowledged (%v)", events[0].err)
				}
				if fmt.Sprint(written) != fmt.Sprint(g.Get(likes.RollUp)) {
					t.Errorf("%v was written", g.Get(likes.RollUp))
				}
				if log := w.log.String(); !strings.Contains(log, "level=ERROR") || !strings.Contains(log, "from before the change") || !strings.Contains(log, "event_id=anchor") {
					t.Errorf("the log is\n%s", log)
				}
				g.setRight(true)
				w.acknowledged(events...)
				if got, want := g.Get(likes.RollUp)["count"], g.Get(shardsOf(likes) + "/0")["count"]; got != want {
					t.Errorf("the roll-up holds %v, the shard %v", got, want)
				}
			})
		})
	}
}

// However much else commits in the roll-ups' group, no event is acknowledged by a roll-up as of
// before its change unless another stands for it, and all is covered when snapshots are right
// again.
func TestSnapshotsOfTheGroup(t *testing.T) {
	for _, noise := range []float64{0, 0.2, 1, 10, 100} { // other commits in the group, a second
		t.Run(fmt.Sprintf("%v other commits a second", noise), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { beltUnderNoise(t, noise) })
		})
	}
}

func beltUnderNoise(t *testing.T, noise float64) {
	w := &world{t: t}
	g := &groupStore{}
	g.commit(likes)
	c := rollup.NewCoalescer(g, w.options(0.5))
	random, noises := rand.New(rand.NewPCG(1, 5)), rand.New(rand.NewPCG(1, 6))
	over, quiet := context.WithCancel(t.Context())
	if noise > 0 {
		go func() {
			for sleepUntil(over, time.Now().Add(time.Duration(noises.ExpFloat64()/noise*float64(time.Second)))) {
				g.commit(likes)
			}
		}()
	}
	var (
		deliveries sync.WaitGroup
		mu         sync.Mutex
		held       int
		early      int
	)
	for n := range 300 {
		time.Sleep(time.Duration(random.ExpFloat64() * float64(500*time.Millisecond)))
		at := g.Increment(shardsOf(likes)+"/0", "count", 1)
		deliveries.Go(func() {
			time.Sleep(20 * time.Millisecond)
			for {
				ctx, cancel := context.WithTimeout(t.Context(), hold)
				ending, err := c.HandleEvent(ctx, rollup.Event{ID: fmt.Sprint(n), UpdateTime: at}, route.Concern{Counter: likes})
				cancel()
				if err == nil {
					mu.Lock()
					defer mu.Unlock()
					if ending.Held {
						held++
						if ending.AsOf.Before(at) {
							early++
						}
					}
					return
				}
				time.Sleep(10 * time.Second)
			}
		})
	}
	time.Sleep(time.Minute)
	g.setRight(true)
	quiet()
	deliveries.Wait()
	time.Sleep(time.Minute)
	t.Logf("%d of 300 events were held, %d snapshots were from before a change", held, strings.Count(w.log.String(), "level=ERROR"))
	if early > 0 {
		t.Errorf("%d of %d anchors were acknowledged as of before their change", early, held)
	}
	if total := g.Get(likes.RollUp)["count"]; total != int64(300) {
		t.Errorf("the roll-up holds %v, want 300", total)
	}
	if noise < 100 && !strings.Contains(w.log.String(), "level=ERROR") {
		t.Error("no snapshot was from before a change")
	}
}
