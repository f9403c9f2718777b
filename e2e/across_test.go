//go:build unix

package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"cloud.google.com/go/firestore"
)

// Comments at any depth below posts are counted by their authors, and move between posts and
// authors. Each post counts its own, too. Comments elsewhere do not count. The processes are
// killed.
func TestAcross(t *testing.T) {
	t.Parallel()
	const routes = `posts/{post}/comments/{comment} by author -> users/{author} : count() as comments, sum(stars) as stars, count() where shown == true as shown : existing
posts/{post}/comments/{comment} -> posts/{post} : count() as comments : existing`
	kills := form(4, 50)
	w := newWorld(t, options{routes: routes, proxies: []func(*proxy){near, near}})
	authors := make([]string, things(kills)+1)
	for i := range authors {
		authors[i] = fmt.Sprint("users/", i)
		for _, path := range []string{authors[i], fmt.Sprint("posts/", i)} {
			_, err := w.client.Doc(path).Create(w.ctx, map[string]any{"name": "x"})
			if err != nil {
				t.Fatal(err)
			}
		}
	}

	w.whileKilled(times(kills), func(i int, random *rand.Rand) (bool, error) {
		parents := []string{
			fmt.Sprintf("posts/%d/comments", i), fmt.Sprintf("posts/%d/comments", i+1),
			fmt.Sprintf("posts/%d/comments/c/comments", i), fmt.Sprintf("posts/%d/x/y/comments", i),
			fmt.Sprintf("pages/%d/comments", i),
		}
		at := func() *firestore.DocumentRef {
			return w.client.Doc(fmt.Sprintf("%s/%d-%d", parents[random.IntN(len(parents))], i, random.IntN(4)))
		}
		wrote := func(of *firestore.DocumentRef, result *firestore.WriteResult, err error) (bool, error) {
			changed, err := w.wrote(result, err)
			if changed && strings.Contains(of.Path, "/pages/") { // it makes no event
				w.events.Add(-1)
				return false, nil
			}
			return changed, err
		}
		set := func(of *firestore.DocumentRef, fields map[string]any) (bool, error) {
			result, err := of.Set(w.ctx, fields)
			return wrote(of, result, err)
		}

		comment := at()
		fields := map[string]any{"author": fmt.Sprint(i + random.IntN(2)), "stars": random.IntN(6), "shown": random.IntN(2) == 0}
		switch n := random.IntN(10); {
		case n < 5: // a new one, or another author's now
			return set(comment, fields)
		case n < 7:
			result, err := comment.Delete(w.ctx, firestore.Exists)
			return wrote(comment, result, err)
		case n < 8: // it moves to another parent
			result, err := comment.Delete(w.ctx, firestore.Exists)
			_, err = wrote(comment, result, err)
			if err != nil {
				return false, err
			}
			return set(at(), fields)
		case n < 9:
			result, err := comment.Update(w.ctx, []firestore.Update{{Path: "stars", Value: random.IntN(6)}})
			return wrote(comment, result, err)
		default:
			result, err := comment.Update(w.ctx, []firestore.Update{{Path: "text", Value: fmt.Sprint(random.Int())}})
			_, err = wrote(comment, result, err)
			return false, err
		}
	})

	comments, err := w.client.CollectionGroup("comments").Documents(w.ctx).GetAll()
	if err != nil {
		t.Fatal(err)
	}
	want := make(map[string]map[string]any)
	for _, author := range authors {
		want[author] = map[string]any{"name": "x", "comments": int64(0), "stars": int64(0), "shown": int64(0)}
	}
	add := func(path, total string, n int64) { want[path][total] = want[path][total].(int64) + n }
	counted := 0
	for _, d := range comments {
		_, path, _ := strings.Cut(d.Ref.Path, "/documents/")
		if !strings.HasPrefix(path, "posts/") {
			continue
		}
		counted++
		author := "users/" + d.Data()["author"].(string)
		add(author, "comments", 1)
		add(author, "stars", d.Data()["stars"].(int64))
		if d.Data()["shown"] == true {
			add(author, "shown", 1)
		}
	}
	if counted == 0 || counted == len(comments) {
		t.Errorf("%d of %d comments count", counted, len(comments))
	}
	for _, author := range slices.Sorted(slices.Values(authors)) {
		_, tally := w.fields(author)
		if tally.AsOf.IsZero() && want[author]["comments"] == int64(0) {
			continue // nothing was written there
		}
		w.want(author, want[author])
	}
	for i := range authors {
		post := fmt.Sprint("posts/", i)
		of := w.documents(post + "/comments")
		_, tally := w.fields(post)
		if !tally.AsOf.IsZero() || len(of) > 0 {
			w.want(post, map[string]any{"name": "x", "comments": int64(len(of))})
		}
	}
	w.wantFailed()
	w.checkLogs()
}
