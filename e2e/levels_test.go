//go:build unix

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/google/go-cmp/cmp"
)

// Likes make the likes of posts, these the karma of authors, and these the karma of their teams,
// three levels deep. Half of the posts are too large for their events, also for those of Tally's
// own writes. The others move between authors. The processes are killed. In the end all totals are
// exact, and the roll-ups end.
func TestTotalsOfTotals(t *testing.T) {
	t.Parallel()
	const routes = `
		posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing
		posts/{post} by author -> users/{author} : sum(likes) as karma, count() as posts : existing
		users/{user} by team -> teams/{team} : sum(karma) as karma, maximum(karma) as best : existing`
	const authors = 3
	kills := form(4, 50)
	w := newWorld(t, options{routes: routes, queries: true, proxies: []func(*proxy){near, near}})
	create := func(path string, fields map[string]any) {
		t.Helper()
		if _, err := w.client.Doc(path).Create(w.ctx, fields); err != nil {
			t.Fatal(err)
		}
	}
	for author := range authors {
		create(fmt.Sprint("users/", author), map[string]any{"team": fmt.Sprint(author % 2)})
	}
	for team := range 2 {
		create(fmt.Sprint("teams/", team), map[string]any{"name": "x"})
	}
	for post := range things(kills) {
		fields := map[string]any{"author": fmt.Sprint(post % authors)}
		if post%2 == 1 {
			fields["text"] = strings.Repeat("x", 600<<10)
		}
		create(fmt.Sprint("posts/", post), fields)
	}

	w.whileKilled(times(kills), func(n int, random *rand.Rand) (bool, error) {
		post := w.client.Doc(fmt.Sprint("posts/", n))
		like := post.Collection("likes").Doc(fmt.Sprint(random.IntN(20)))
		switch k := random.IntN(10); {
		case k < 6:
			return w.wrote(like.Create(w.ctx, map[string]any{}))
		case k < 9 || n%2 == 1: // the event of a large post could not say which author it has left
			return w.wrote(like.Delete(w.ctx, firestore.Exists))
		default:
			return w.wrote(post.Update(w.ctx, []firestore.Update{{Path: "author", Value: fmt.Sprint(random.IntN(authors))}}))
		}
	})

	deadline, cancel := context.WithTimeout(w.ctx, 5*time.Minute)
	defer cancel()
	differs := w.levelsDiffer()
	for differs != "" && deadline.Err() == nil {
		w.pass(cadence)
		differs = w.levelsDiffer()
	}
	if differs != "" {
		t.Errorf("totals (-want +got):\n%s", differs)
	}
	w.endsQuietly()

	noted := false
	for _, d := range w.documents("rollup_audit") {
		noted = noted || strings.HasPrefix(d.Ref.ID, "note-left-")
	}
	if !noted {
		t.Error("no event of a large post was noted for audits")
	}
	w.wantFailed()
	w.checkLogs()
}

// levelsDiffer compares each total with the documents of the level below.
func (w *world) levelsDiffer() string {
	w.t.Helper()
	want, got := make(map[string]int64), make(map[string]int64)
	for _, post := range w.documents("posts") {
		want["likes of post "+post.Ref.ID] = int64(len(w.documents("posts/" + post.Ref.ID + "/likes")))
		likes := total(post, "likes")
		got["likes of post "+post.Ref.ID] = likes
		author := post.Data()["author"].(string)
		want["karma of user "+author] += likes
		want["posts of user "+author]++
	}
	for _, user := range w.documents("users") {
		karma, team := total(user, "karma"), user.Data()["team"].(string)
		got["karma of user "+user.Ref.ID], got["posts of user "+user.Ref.ID] = karma, total(user, "posts")
		want["karma of user "+user.Ref.ID] += 0
		want["posts of user "+user.Ref.ID] += 0
		want["karma of team "+team] += karma
		want["best of team "+team] = max(want["best of team "+team], karma)
	}
	for _, team := range w.documents("teams") {
		got["karma of team "+team.Ref.ID], got["best of team "+team.Ref.ID] = total(team, "karma"), total(team, "best")
	}
	return cmp.Diff(want, got)
}

// total returns a total of a document; 0 if it has none yet.
func total(d *firestore.DocumentSnapshot, name string) int64 {
	n, _ := d.Data()[name].(int64)
	return n
}

// endsQuietly checks that roll-ups of roll-ups end: some cadences after the last one, no event
// comes.
func (w *world) endsQuietly() {
	w.t.Helper()
	for range 20 {
		before := w.relay.Stats().Events
		w.pass(4 * cadence)
		if err := w.relay.Wait(w.ctx); err != nil {
			w.t.Fatal(err)
		}
		if w.relay.Stats().Events == before {
			return
		}
	}
	w.t.Errorf("events keep coming: %+v", w.relay.Stats())
}
