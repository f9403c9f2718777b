//go:build unix

package e2e

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"cloud.google.com/go/firestore"
	"github.com/google/go-cmp/cmp"
)

// Replies are comments of one collection, and are counted by the comments that they answer. Some
// comments answer themselves or each other. The processes are killed. In the end all totals are
// exact, and the events of the roll-ups end.
func TestReplies(t *testing.T) {
	t.Parallel()
	const routes = "threads/{thread}/comments/{comment} by parent -> threads/{thread}/comments/{parent} : count() where deleted_at == null as replies, sum(points) as points_of_replies : existing"
	kills := form(4, 50)
	w := newWorld(t, options{routes: routes, proxies: []func(*proxy){near, near}})
	comments := w.client.Collection("threads/t/comments")
	create := func(id, parent string) {
		t.Helper()
		made, err := w.wrote(comments.Doc(id).Create(w.ctx, map[string]any{"parent": parent, "points": 1, "deleted_at": nil}))
		if !made || err != nil {
			t.Fatal(err)
		}
	}
	number := (things(kills) + 3) / 4 * 4
	for n := range number {
		parent := []int{n, n - 1, n + 1, n - 1}[n%4] // itself; the one before; a pair
		create(fmt.Sprint(n), fmt.Sprint(parent))
	}

	w.whileKilled(times(kills), func(n int, random *rand.Rand) (bool, error) {
		reply := comments.Doc(fmt.Sprintf("%d-%d", n, random.IntN(20)))
		switch k := random.IntN(10); {
		case k < 4:
			return w.wrote(reply.Create(w.ctx, map[string]any{"parent": fmt.Sprint(n), "points": random.IntN(100), "deleted_at": nil}))
		case k < 6:
			return w.wrote(reply.Delete(w.ctx, firestore.Exists))
		case k < 8:
			return w.wrote(reply.Update(w.ctx, []firestore.Update{{Path: "parent", Value: fmt.Sprint(n/4*4 + random.IntN(4))}}))
		case k < 9:
			return w.wrote(reply.Update(w.ctx, []firestore.Update{{Path: "points", Value: random.IntN(100)}}))
		default: // changes no total
			_, err := w.wrote(comments.Doc(fmt.Sprint(n)).Update(w.ctx, []firestore.Update{{Path: "text", Value: random.Int()}}))
			return false, err
		}
	})
	// silent waits until the event of each write and of each roll-up is acknowledged. The time that
	// takes is the machine's.
	counted := 0 // roll-ups whose events w.events has
	silent := func() {
		t.Helper()
		for range 20 {
			rollUps := w.rollUps()
			w.events.Add(int64(rollUps - counted))
			counted = rollUps
			w.quiet()
			if w.rollUps() == counted {
				return
			}
		}
		t.Fatalf("roll-ups keep coming: %+v", w.relay.Stats())
	}
	silent()
	if differs := w.repliesDiffer(number); differs != "" {
		t.Errorf("totals (-want +got):\n%s", differs)
	}

	// Each roll-up is one event more. A change makes one roll-up, and one more for each time that
	// its event is delivered again.
	before, rollUps := w.relay.Stats(), w.billed().Writes
	const replies = 10
	for n := range replies {
		create(fmt.Sprint("new-", n), fmt.Sprint("new-", max(0, n-1)))
		silent()
	}
	now := w.relay.Stats()
	rollUps = w.billed().Writes - rollUps
	events, again := int64(now.Events-before.Events), int64(now.Deliveries-before.Deliveries)-int64(now.Events-before.Events)
	if events != replies+rollUps || rollUps < replies || rollUps > replies+again {
		t.Errorf("%d replies made %d events and %d roll-ups, with %d deliveries more", replies, events, rollUps, again)
	}
	w.wantFailed()
	w.checkLogs()
}

// repliesDiffer compares the totals of the comments with the replies that are there.
func (w *world) repliesDiffer(comments int) string {
	w.t.Helper()
	type totals struct{ Replies, Points int64 }
	want, got := make(map[string]totals), make(map[string]totals)
	for n := range comments {
		want[fmt.Sprint(n)] = totals{}
	}
	for _, d := range w.documents("threads/t/comments") {
		if t, is := want[d.Data()["parent"].(string)]; is {
			want[d.Data()["parent"].(string)] = totals{t.Replies + 1, t.Points + total(d, "points")}
		}
	}
	for _, d := range w.documents("threads/t/comments") {
		if _, is := want[d.Ref.ID]; is {
			got[d.Ref.ID] = totals{total(d, "replies"), total(d, "points_of_replies")}
		}
	}
	return cmp.Diff(want, got)
}
