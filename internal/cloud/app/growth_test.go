package app

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sort"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firestore-tally/tally/internal/cloud/growth"
	"github.com/firestore-tally/tally/internal/tool/local/eventrelay"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const hotCounter = "counters/hot"

// A crowd increments one counter, which several instances keep. Each client reads the number of
// shards once a minute, and picks one at random for each increment.
type crowd struct {
	store
	t       *testing.T
	apps    []*App
	random  *rand.Rand // of increments
	clients []client

	mu      sync.Mutex
	way     *rand.Rand           // of events
	events  int                  // that were sent
	written map[string]time.Time // when each shard was last written
	commits []time.Time          // of all increments by one
	rollUps int                  // that were compared
	wrong   int                  // that did not have all increments up to their as_of, and no other
}

// A client is one that increments.
type client struct {
	n     int64     // of shards
	until time.Time // when to read n again
}

// newCrowd returns a crowd with a counter of ten shards, which may grow.
func newCrowd(t *testing.T, instances, clients int) *crowd {
	t.Helper()
	c := &crowd{store: store{t: t}, t: t, clients: make([]client, clients), written: make(map[string]time.Time)}
	c.random = rand.New(rand.NewPCG(uint64(instances), uint64(clients)))
	c.way = rand.New(rand.NewPCG(uint64(clients), uint64(instances)))
	for range instances {
		var log locked
		a := New(environ(), &log)
		s, err := a.setup() // outside of synctest's bubble: it waits for SIGTERM
		if err != nil {
			t.Fatal(err)
		}
		s.open = func(context.Context, string) (documentStore, error) { return c, nil }
		c.apps = append(c.apps, a)
	}
	return c
}

// run runs f in virtual time, until nothing is left at work.
func (c *crowd) run(f func()) {
	c.t.Helper()
	outer := c.t
	defer func() { c.t = outer }()
	synctest.Test(c.t, func(t *testing.T) {
		c.t = t
		c.Put(hotCounter, map[string]any{"num_shards": int64(10), "auto_shards": true})
		for n := range 10 {
			c.written[shardOf(int64(n))] = c.Put(shardOf(int64(n)), map[string]any{"count": int64(0)})
		}
		time.Sleep(time.Hour)

		f()
		time.Sleep(5 * time.Minute) // probers end
		c.mu.Lock()
		defer c.mu.Unlock()
		if got := c.Get("rollups/hot")["count"]; got != int64(len(c.commits)) || c.wrong > 0 {
			c.t.Errorf("the roll-up has %v after %d increments; %d roll-ups of %d were not exact", got, len(c.commits), c.wrong, c.rollUps)
		}
	})
}

func shardOf(n int64) string { return fmt.Sprintf("%s/shards/%d", hotCounter, n) }

// numShards returns the number that the counter's document tells.
func (c *crowd) numShards() int64 { return c.Get(hotCounter)["num_shards"].(int64) }

// increments increments at random times, so often a second.
func (c *crowd) increments(rate float64, during time.Duration, each func()) {
	for began := time.Now(); time.Since(began) < during; {
		time.Sleep(time.Duration(c.random.ExpFloat64() / rate * float64(time.Second)))
		client := &c.clients[c.random.IntN(len(c.clients))]
		if time.Now().After(client.until) {
			client.n = c.numShards()
			client.until = time.Now().Add(time.Duration((0.5 + 0.5*c.random.Float64()) * float64(time.Minute)))
		}
		c.increment(shardOf(c.random.Int64N(client.n)))
		if each != nil {
			each()
		}
	}
}

// increment adds 1 to a shard, and has its event delivered.
func (c *crowd) increment(shard string) {
	c.mu.Lock()
	before := c.written[shard]
	now := c.Increment(shard, "count", 1)
	c.written[shard] = now
	c.commits = append(c.commits, now)
	c.mu.Unlock()
	c.deliver(shard, before, now)
}

// deliver delivers the event of a write to any instance after a while, and again until it is
// acknowledged.
func (c *crowd) deliver(path string, before, now time.Time) {
	c.mu.Lock()
	c.events++
	e, err := eventrelay.NewEvent(fmt.Sprint("event-", c.events), now, version(path, before), version(path, now))
	app, late := c.apps[c.way.IntN(len(c.apps))], time.Duration(c.way.IntN(200))*time.Millisecond
	c.mu.Unlock()
	if err != nil {
		c.t.Fatal(err)
	}

	go func() {
		time.Sleep(late)
		for {
			answer := httptest.NewRecorder()
			app.OnWrite(answer, request(c.t, e))
			if answer.Code == http.StatusOK {
				return
			}
			time.Sleep(10 * time.Second)
		}
	}()
}

// version returns a shard as it was written at a time; nil if that is zero.
func version(path string, at time.Time) *firestoredata.Document {
	if at.IsZero() {
		return nil
	}
	return &firestoredata.Document{
		Name:       "projects/" + project + "/databases/(default)/documents/" + path,
		Fields:     map[string]*firestoredata.Value{"count": {ValueType: &firestoredata.Value_IntegerValue{IntegerValue: at.UnixNano()}}},
		UpdateTime: timestamppb.New(at),
	}
}

// Write compares each roll-up with the increments that were committed until its as_of.
func (c *crowd) Write(ctx context.Context, counter route.Counter, r rollup.RollUp) error {
	time.Sleep(10 * time.Millisecond)
	err := c.store.Write(ctx, counter, r)
	if err != nil {
		return err
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	count, _ := r.Values["count"].Int64()
	until := sort.Search(len(c.commits), func(i int) bool { return c.commits[i].After(r.Tally.AsOf) })
	c.rollUps++
	if count != int64(until) {
		c.wrong++
	}
	return nil
}

// Look takes a while.
func (c *crowd) Look(ctx context.Context, counter string, shards []string) (growth.Look, error) {
	time.Sleep(10 * time.Millisecond)
	return c.store.Look(ctx, counter, shards)
}

// Raise has the events of the new shards delivered.
func (c *crowd) Raise(ctx context.Context, r growth.Raise) error {
	time.Sleep(200 * time.Millisecond)
	err := c.store.Raise(ctx, r)
	if err != nil {
		return err
	}
	for _, shard := range r.Shards {
		c.mu.Lock()
		now := time.Now()
		c.written[shard.Path] = now
		c.mu.Unlock()
		c.deliver(shard.Path, time.Time{}, now)
	}
	return nil
}

// hottest returns how often the shard that is written most is written in a second, on average.
func (c *crowd) hottest(rate float64) float64 {
	sum := 0.0
	for _, client := range c.clients {
		sum += rate / float64(len(c.clients)) / float64(max(1, client.n))
	}
	return sum
}

// A counter of ten shards that is incremented 300 times a second soon has so many shards that each
// is written less than once a second, and it is exact all the while.
func TestGrows(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}

	rate, during := 300.0, 150*time.Second
	for _, instances := range []int{2, 20} {
		t.Run(fmt.Sprint(instances, " instances"), func(t *testing.T) {
			t.Parallel()
			c := newCrowd(t, instances, 50)
			var raised, relieved time.Duration
			c.run(func() {
				began := time.Now()
				c.increments(rate, during, func() {
					if raised == 0 && c.numShards() > 10 {
						raised = time.Since(began)
					}
					if relieved == 0 && time.Since(began) > time.Second && c.hottest(rate) < 1 {
						relieved = time.Since(began)
					}
				})
			})
			t.Logf("%d instances: %d shards after %v; each is written less than once a second after %v; %d roll-ups, all exact",
				instances, c.numShards(), raised.Round(time.Second), relieved.Round(time.Second), c.rollUps)
			if relieved == 0 || relieved > 2*time.Minute+15*time.Second || c.numShards() > 640 {
				t.Errorf("%d shards; each is written less than once a second after %v, want 135 s at most", c.numShards(), relieved)
			}
		})
	}
}

// At five increments a second ten shards are enough.
func TestGrowsNot(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}

	t.Parallel()
	c := newCrowd(t, 2, 20)
	c.run(func() { c.increments(5, time.Hour, nil) })
	if n := c.numShards(); n != 10 {
		t.Errorf("%d shards, want 10", n)
	}
}

// Somebody who floods one shard of ten raises no number.
func TestGrowsNotByJunk(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}

	t.Parallel()
	c := newCrowd(t, 2, 20)
	c.run(func() {
		began := time.Now()
		var junk sync.WaitGroup
		junk.Go(func() {
			for time.Since(began) < time.Minute {
				c.increment(shardOf(3))
				time.Sleep(3 * time.Millisecond)
			}
		})
		c.increments(5, time.Minute, nil)
		junk.Wait()
	})
	if n := c.numShards(); n != 10 {
		t.Errorf("%d shards, want 10", n)
	}
}

// stuck is a store whose counters cannot grow.
type stuck struct {
	*store
	look func(context.Context) error
}

func (s stuck) Look(ctx context.Context, _ string, _ []string) (growth.Look, error) {
	return growth.Look{}, s.look(ctx)
}

// Only the event of a shard that existed before has anybody look whether the counter needs more.
func TestNewShardsAreNotLookedAt(t *testing.T) {
	w := newWorld(t)
	s, err := w.setup()
	if err != nil {
		t.Fatal(err)
	}
	looks := 0
	s.open = func(context.Context, string) (documentStore, error) {
		return stuck{w.stores["(default)"], func(context.Context) error { looks++; return nil }}, nil
	}
	w.run(func() {
		for i, existed := range []time.Duration{0, time.Second} {
			now := w.stores["(default)"].Put(shardOf(0), map[string]any{"count": int64(7)})
			var before time.Time
			if existed > 0 {
				before = now.Add(-existed)
			}
			e, err := eventrelay.NewEvent(fmt.Sprint("e", i), now, version(shardOf(0), before), version(shardOf(0), now))
			if err != nil {
				t.Fatal(err)
			}
			if status, _ := w.deliver(request(w.t, e)); status != http.StatusOK || looks != i {
				t.Errorf("the event of a shard that existed for %v: status %d, %d looks; want 200 and %d", existed, status, looks, i)
			}
			time.Sleep(time.Minute)
		}
	})
}

// An event is acknowledged although its counter cannot grow, and soon.
func TestGrowthFails(t *testing.T) {
	for name, look := range map[string]func(context.Context) error{
		"fails": func(context.Context) error { return errors.New("no") },
		"hangs": hang,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s, err := w.setup()
			if err != nil {
				t.Fatal(err)
			}
			looks := 0
			s.open = func(context.Context, string) (documentStore, error) {
				return stuck{w.stores["(default)"], func(ctx context.Context) error { looks++; return look(ctx) }}, nil
			}
			w.run(func() {
				now := w.stores["(default)"].Put(shardOf(0), map[string]any{"count": int64(7)})
				e, err := eventrelay.NewEvent("e1", now, version(shardOf(0), now.Add(-time.Millisecond)), version(shardOf(0), now))
				if err != nil {
					t.Fatal(err)
				}
				status, after := w.deliver(request(w.t, e))
				if status != http.StatusOK || after > 3*time.Second || looks != 1 {
					t.Errorf("status %d after %v and %d looks, want 200 after 3 s at most", status, after, looks)
				}
				w.stores["(default)"].wantCount("rollups/hot", 7)
			})
		})
	}
}
