package apps

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/tool/local/eventrelay"
	"github.com/firestore-tally/tally/shards"
)

// A migratedPage is a document of the extension, and what it has counted.
type migratedPage struct {
	doc           *firestore.DocumentRef
	rollUp        string
	visits, likes atomic.Int64
}

// increment increments visits by 1 and likes by 2, until told so by an answer.
func (p *migratedPage) increment(t *testing.T, shard string) {
	c := &writers{t: t}
	c.increment(p.doc.Collection("_counter_shards_").Doc(shard))
	p.visits.Add(c.counted.Load())
	p.likes.Add(2 * c.counted.Load())
}

// randomShard is the id of the shard of a client of the extension.
func randomShard(n int) string { return fmt.Sprintf("%08x-7f3a-4d4e-9c1b-2f6e0a9d5c11", n*0x1234567) }

// A trigger adds 1 to posts/p for each document posts/p/likes/{user}, and then, in its next
// version, to a shard. Some events reach the old version late, and some events come twice.
func TestMigrateTriggerThatIncrements(t *testing.T) {
	t.Parallel()
	w := newMigration(t)
	post := w.client.Doc("posts/p")
	w.set("posts/p", map[string]any{"likes": 0})
	likes := shards.New(w.client, "posts/p", shards.Field("likes"), shards.RollUpAt("post_totals/p"))
	documents := shards.CountOf(post.Collection("likes").Query)

	oldVersion := func(string) error {
		_, err := post.Update(t.Context(), []firestore.Update{{Path: "likes", Value: firestore.Increment(1)}})
		return err
	}
	newVersion := func(event string) error {
		_, _, err := likes.IncrementOnce(t.Context(), event, 1)
		return err
	}
	n := 0
	like := func(many int, version func(event string) error) {
		var all sync.WaitGroup
		for range many {
			n++
			all.Go(func() {
				user := fmt.Sprint("user", n)
				_, err := post.Collection("likes").Doc(user).Create(t.Context(), map[string]any{})
				if err == nil {
					err = version("event-of-" + user)
				}
				if err != nil {
					t.Error(err)
				}
			})
			all.Wait()
		}
	}
	carry := func() {
		if _, err := likes.Carry(t.Context(), post, "likes"); err != nil {
			t.Fatal(err)
		}
	}
	like(20, oldVersion)
	like(10, newVersion)
	carry()
	like(3, oldVersion) // late
	like(10, newVersion)
	carry()
	carry()
	if err := newVersion("event-of-user40"); err != nil { // again
		t.Fatal(err)
	}
	v, err := likes.Verify(t.Context(), documents)
	if err != nil || !v.Equal() || v.Counter.String() != "43" {
		t.Errorf("verified %+v (%v), want 43 likes", v, err)
	}
	commit, err := likes.Increment(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := waitRollUp(t, likes, commit); err != nil || r.Total.String() != "44" {
		t.Errorf("roll-up %v (%v), want 44", r.Total, err)
	}
}

// A trigger has counted documents, some twice. Counting them puts the total right.
func TestMigrateTriggerToCount(t *testing.T) {
	t.Parallel()
	w := newDatabase(t, emulatortest.Project(t), "(default)", migratedToCount, eventrelay.Faults{}, "posts/{post}/likes/{user}")
	w.set("posts/p", map[string]any{"likes": 9, "title": "a post"})
	for user := range 7 {
		w.set(fmt.Sprint("posts/p/likes/user", user), map[string]any{})
	}
	w.wantRollUp("posts/p", map[string]any{"likes": int64(7), "title": "a post", "num_shards": int64(7)})
}

// waitRollUp returns the first roll-up as of the time or later.
func waitRollUp(t *testing.T, c *shards.Counter, at time.Time) (shards.RollUp, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), emulatortest.Eventually())
	defer cancel()
	again := time.NewTicker(askAgain)
	defer again.Stop()
	for ; ; <-again.C {
		r, err := c.RollUp(ctx)
		if err == nil && !r.AsOf.Before(at) || ctx.Err() != nil {
			return r, err
		}
	}
}

// A trigger that sums the shards itself, into a document of its own, works next to Tally: both read
// the same shards, and either can be switched off.
func TestMigrateTriggerThatSums(t *testing.T) {
	t.Parallel()
	w := newMigration(t)
	likes := shards.New(w.client, "counters/likes")
	trigger := func() {
		total, err := likes.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n, _ := total.Int64()
		// Not by w, which would wait for a roll-up that covers it: it is not a shard.
		if _, err := w.client.Doc("totals/likes").Set(t.Context(), map[string]any{"count": n}); err != nil {
			t.Fatal(err)
		}
	}
	w.set("counters/likes/shards/0", map[string]any{"count": 41}) // before Tally's first event
	w.set("counters/likes/shards/1", map[string]any{"count": 1})
	w.wantRollUp("rollups/likes", count(int64(42), 2))
	trigger()
	w.wantRollUp("rollups/likes", count(int64(42), 2))
	v, err := likes.Verify(t.Context(), shards.FieldOf(w.client.Doc("totals/likes"), "count"))
	if err != nil || !v.Equal() {
		t.Errorf("verified %+v (%v), want equal", v, err)
	}
	w.set("counters/likes/shards/1", map[string]any{"count": 2}) // the trigger missed it
	w.wantRollUp("rollups/likes", count(int64(43), 2))
	v, err = likes.Verify(t.Context(), shards.FieldOf(w.client.Doc("totals/likes"), "count"))
	if err != nil || v.Equal() {
		t.Errorf("verified %+v (%v), want different", v, err)
	}
}
