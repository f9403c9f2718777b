//go:build unix

package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/cloud/billing"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup"
	gocmp "github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var postsLikes = flag.Int("posts.likes", 2000, "how many likes are deleted with their post")

// Documents that an app has anyway, counted in a document that it has anyway.
const (
	likesRoute    = "posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing"
	commentsRoute = "posts/{post}/comments/{comment} -> posts/{post} : count() as comments : existing"
	sharesRoute   = "posts/{post}/shares/{user} -> posts/{post} : count() as shares : existing"
	postRoutes    = likesRoute + "\n" + commentsRoute
)

// wrote counts the event of a write that triggers match, and reports whether there is one. A write
// whose precondition does not hold makes none.
func (w *world) wrote(_ *firestore.WriteResult, err error) (bool, error) {
	switch status.Code(err) {
	case codes.OK:
		w.events.Add(1)
		return true, nil
	case codes.AlreadyExists, codes.NotFound, codes.FailedPrecondition:
		return false, nil
	}
	return false, err
}

// quiet waits until all events that were counted are acknowledged.
func (w *world) quiet() {
	w.t.Helper()
	ctx, cancel := context.WithTimeoutCause(w.ctx, 10*time.Minute, errors.New("an event is lost, or the machine is much too slow"))
	defer cancel()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for int64(w.relay.Stats().Events) < w.events.Load() { // the emulator is still posting them
		select {
		case <-poll.C:
		case <-ctx.Done():
			w.t.Fatalf("%d of %d events came: %v", w.relay.Stats().Events, w.events.Load(), context.Cause(ctx))
		}
	}
	if err := w.relay.Wait(ctx); err != nil {
		w.t.Fatal(err)
	}
}

// A change changes one of a number of things, and reports whether that made an event.
type change func(thing int, random *rand.Rand) (bool, error)

// whileKilled changes things without pause, a few at a time, the load moving on, for as long as
// scenario runs, and then waits for the last event. The scenario kills: by turns while a call of
// the process is on its way, so that events are held there, and at any moment.
func (w *world) whileKilled(scenario func(kill func()), change change) {
	w.t.Helper()
	const width = 3
	var first atomic.Int64
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	limiter := rate.NewLimiter(form[rate.Limit](20, 40), 1)
	var load errgroup.Group
	for n := range clients {
		random := rand.New(rand.NewPCG(*seed, uint64(n+1)))
		load.Go(func() error {
			for limiter.Wait(ctx) == nil {
				if _, err := change(int(first.Load())+random.IntN(width), random); err != nil {
					return err
				}
			}
			return nil
		})
	}
	kills := 0
	scenario(func() {
		w.t.Helper()
		p := w.processes[w.random.IntN(len(w.processes))]
		w.pass(time.Duration(w.random.Int64N(int64(2 * cadence))))
		// What is lost of a thing that is left is not made good by later events.
		for left := int(first.Add(1)) - 1; ; {
			changed, err := change(left, w.random)
			if err != nil {
				w.t.Fatal(err)
			}
			if changed {
				break
			}
		}
		w.pass(time.Duration(w.random.Int64N(int64(cadence))))
		if kills++; kills%2 == 0 {
			w.kill(p)
			return
		}
		release := w.caught(p)
		w.kill(p)
		release()
	})
	cancel()
	if err := load.Wait(); err != nil {
		w.t.Fatal(err)
	}
	w.quiet()
}

// times returns a scenario that kills so often.
func times(n int) func(kill func()) {
	return func(kill func()) {
		for range n {
			kill()
		}
	}
}

// things is how many things so many kills have changed at most.
func things(kills int) int { return kills + 3 }

// billed is what the functions processes were billed so far.
func (w *world) billed() (all billing.Counts) {
	for _, p := range w.processes {
		all = all.Add(p.proxy.meter.Counts())
	}
	return all
}

// schedule calls RollUpOnSchedule of a process of its own, which must complete an audit.
func (w *world) schedule(routes string) rollup.Report {
	w.t.Helper()
	p := &process{env: append(w.environ(routes, w.addr), w.alarms...)} // the proxy does not pass on an audit's calls
	p.start(w.ctx, w.t)
	defer p.kill()
	r, err := http.NewRequestWithContext(w.ctx, http.MethodPost, strings.Replace(p.url(), "RollUpOnWrite", "RollUpOnSchedule", 1), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	var answer struct{ Databases map[string]rollup.Report }
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil || res.StatusCode != http.StatusOK {
		w.t.Fatalf("RollUpOnSchedule answered %s, %v\n%s", res.Status, err, p.logs.tail())
	}
	report := answer.Databases[firestore.DefaultDatabaseID]
	if !report.Complete || report.Failed > 0 {
		w.t.Errorf("the audit says %+v", report)
	}
	return report
}

// documents returns all documents of a collection.
func (w *world) documents(path string) []*firestore.DocumentSnapshot {
	w.t.Helper()
	docs, err := w.client.Collection(path).Documents(w.ctx).GetAll()
	if err != nil {
		w.t.Fatal(err)
	}
	return docs
}

// fields returns a document's fields, and what it says of its totals. A missing document has none.
func (w *world) fields(path string) (map[string]any, document.Tally) {
	w.t.Helper()
	d, err := w.client.Doc(path).Get(w.ctx)
	if err != nil && status.Code(err) != codes.NotFound {
		w.t.Fatal(err)
	}
	fields := d.Data()
	tally := document.DecodeTally(fields[document.TallyField])
	delete(fields, document.TallyField)
	return fields, tally
}

// want checks a document's fields except tally.
func (w *world) want(path string, want map[string]any) {
	w.t.Helper()
	got, _ := w.fields(path)
	if d := gocmp.Diff(want, got); d != "" {
		w.t.Errorf("%s (-want +got):\n%s", path, d)
	}
}

// A post is one of an app's posts. Its changes follow each other, so that their effects are known,
// except for the edits of a post that is kept.
type post struct {
	*firestore.DocumentRef
	kept  bool // never deleted
	edits atomic.Int64

	mu     sync.Mutex
	exists bool
	filled bool // something was counted since it came: the events alone make its totals right
}

// title is the app's own field, which nothing may change.
func (p *post) title() string { return "Post " + p.ID }

// create creates the post, perhaps after its likes. Its totals are there from the start, or it
// would not be in a list that is sorted by them.
func (p *post) create(ctx context.Context) error {
	_, err := p.Create(ctx, map[string]any{"title": p.title(), "edits": 0, "likes": 0, "comments": 0})
	if err == nil {
		p.edits.Store(0)
		p.exists, p.filled = true, false
	}
	return err
}

// edit edits the post, one edit at a time.
func (p *post) edit(ctx context.Context) error {
	n := p.edits.Add(1)
	for {
		_, err := p.Update(ctx, []firestore.Update{{Path: "edits", Value: n}})
		switch status.Code(err) {
		case codes.Aborted, codes.Unavailable, codes.Canceled, codes.Unknown: // so the emulator answers when another write is on its way
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		default:
			return err
		}
	}
}

// newPosts returns posts of which every other exists. The first is kept.
func (w *world) newPosts(n int) []*post {
	w.t.Helper()
	posts := make([]*post, n)
	for i := range posts {
		posts[i] = &post{DocumentRef: w.client.Doc(fmt.Sprint("posts/", i)), kept: i == 0}
		if i%2 == 0 {
			if err := posts[i].create(w.ctx); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	return posts
}

// change likes or comments a post, takes that back, edits a comment or the post, or deletes the
// post or creates it.
func (w *world) change(p *post, random *rand.Rand) (counted bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	like := p.Collection("likes").Doc(fmt.Sprint("user", random.IntN(20)))
	comment := p.Collection("comments").Doc(fmt.Sprint(random.IntN(20)))
	text := map[string]any{"text": fmt.Sprint("text ", random.Int())}
	switch n := random.IntN(100); {
	case n < 40:
		counted, err = w.wrote(like.Create(w.ctx, map[string]any{"at": firestore.ServerTimestamp}))
	case n < 55:
		counted, err = w.wrote(like.Delete(w.ctx, firestore.Exists))
	case n < 75:
		counted, err = w.wrote(comment.Create(w.ctx, text))
	case n < 80:
		counted, err = w.wrote(comment.Delete(w.ctx, firestore.Exists))
	case n < 90:
		_, err = w.wrote(comment.Update(w.ctx, []firestore.Update{{Path: "text", Value: "edited"}}))
	case p.kept: // and edited elsewhere
	case !p.exists:
		err = p.create(w.ctx)
	case n < 95:
		err = p.edit(w.ctx)
	default:
		_, err = p.Delete(w.ctx)
		p.exists = false
	}
	p.filled = p.filled || counted
	return counted, err
}

// checkPosts checks the posts; if no event has made a post's totals right yet, it checks only that
// they are there, unless an audit has been. It returns how many those are.
func (w *world) checkPosts(posts []*post, audited bool) (unfilled int) {
	w.t.Helper()
	for _, p := range posts {
		var want map[string]any
		likes, comments := len(w.documents("posts/"+p.ID+"/likes")), len(w.documents("posts/"+p.ID+"/comments"))
		if p.exists {
			want = map[string]any{"title": p.title(), "edits": p.edits.Load(), "likes": int64(likes), "comments": int64(comments)}
		}
		if p.exists && !p.filled && !audited {
			unfilled++
			continue
		}
		w.want("posts/"+p.ID, want)
	}
	return unfilled
}

// Likes and comments are counted in the post: whatever comes first, goes or comes again, and while
// the app edits the post 20 times a second.
func TestPosts(t *testing.T) {
	t.Parallel()
	kills := form(6, 50)
	w := newWorld(t, options{routes: postRoutes, proxies: []func(*proxy){near, near}})
	posts := w.newPosts(things(kills) + 1)
	hot, others := posts[0], posts[1:]
	editing, cancel := context.WithCancel(w.ctx)
	defer cancel()
	var editor errgroup.Group
	editor.Go(func() error {
		limiter := rate.NewLimiter(20, 1)
		for limiter.Wait(editing) == nil {
			if err := hot.edit(w.ctx); err != nil {
				return err
			}
		}
		return nil
	})
	w.whileKilled(func(kill func()) {
		times(kills)(kill)
		for range 3 {
			w.awaitLike(hot)
		}
		cancel()
		if err := editor.Wait(); err != nil {
			t.Fatal(err)
		}
	}, func(thing int, random *rand.Rand) (bool, error) {
		if random.IntN(5) == 0 {
			_, err := w.change(hot, random)
			return false, err
		}
		return w.change(others[thing], random)
	})
	w.wantFailed()
	late := &post{DocumentRef: w.client.Doc("posts/late")}
	posts = append(posts, late)
	for _, source := range []string{"likes", "comments"} {
		if _, err := w.wrote(late.Collection(source).NewDoc().Create(w.ctx, map[string]any{})); err != nil {
			t.Fatal(err)
		}
	}
	w.quiet()
	if err := late.create(w.ctx); err != nil {
		t.Fatal(err)
	}
	unfilled := w.checkPosts(posts, false)
	report := w.schedule(postRoutes)
	if report.Drift > 0 || report.RolledUp > unfilled || report.RolledUp == 0 {
		t.Errorf("no event made the totals of %d posts right, and the audit says %+v", unfilled, report)
	}
	w.checkPosts(posts, true)
	w.checkList(posts)
	w.checkLogs()
	t.Logf("%d posts, %d of them filled in by the audit; %d edits of one; events %+v; billed %+v", len(posts), report.RolledUp, hot.edits.Load(), w.relay.Stats(), w.billed())
}

// awaitLike likes a post and waits until a listener sees that it is counted.
func (w *world) awaitLike(p *post) {
	w.t.Helper()
	result, err := p.Collection("likes").NewDoc().Create(w.ctx, map[string]any{})
	if _, err := w.wrote(result, err); err != nil {
		w.t.Fatal(err)
	}
	p.mu.Lock()
	p.filled = true
	p.mu.Unlock()
	snapshots := p.Snapshots(w.ctx)
	defer snapshots.Stop()
	for {
		d, err := snapshots.Next()
		if err != nil {
			w.t.Fatal(err)
		}
		if tally := document.DecodeTally(d.Data()[document.TallyField]); !tally.AsOf.Before(result.UpdateTime) {
			return
		}
	}
}

// checkList checks that the posts come in order when an app lists them by their likes.
func (w *world) checkList(posts []*post) {
	w.t.Helper()
	type line struct {
		id    string
		likes int64
	}
	var want, got []line
	for _, p := range posts {
		if p.exists {
			want = append(want, line{p.ID, int64(len(w.documents("posts/" + p.ID + "/likes")))})
		}
	}
	slices.SortFunc(want, func(a, b line) int {
		return cmp.Or(cmp.Compare(b.likes, a.likes), cmp.Compare(b.id, a.id)) // Firestore's order of what is equal
	})
	docs, err := w.client.Collection("posts").OrderBy("likes", firestore.Desc).Documents(w.ctx).GetAll()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, d := range docs {
		likes, _ := d.Data()["likes"].(int64)
		got = append(got, line{d.Ref.ID, likes})
	}
	if d := gocmp.Diff(want, got, gocmp.AllowUnexported(line{})); d != "" {
		w.t.Errorf("posts by likes (-want +got):\n%s", d)
	}
}

// Editing a comment costs no call.
func TestEditCostsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{routes: postRoutes, proxies: []func(*proxy){near, near}})
	p := w.newPosts(1)[0]
	comment := p.Collection("comments").Doc("c")
	if _, err := w.wrote(comment.Create(w.ctx, map[string]any{"text": "first"})); err != nil {
		t.Fatal(err)
	}
	// A process knows the server's time from its last look, as exactly as that was quick.
	var unsure time.Duration
	look := func() {
		t.Helper()
		unsure = 0
		for _, process := range w.processes {
			w.relay.SetTargets([]string{process.url()})
			began := time.Now()
			w.awaitLike(p)
			w.quiet()
			unsure = max(unsure, time.Since(began))
		}
		w.setTargets()
	}
	look()
	look()
	// An edit counts here if its event has certainly come before its commit was 5 s old.
	for n, edits := 0, 0; edits < 50; n++ {
		before, began := w.billed(), time.Now()
		if _, err := w.wrote(comment.Set(w.ctx, map[string]any{"text": fmt.Sprint(n)})); err != nil {
			t.Fatal(err)
		}
		w.quiet()
		if time.Since(began)+unsure > 4*time.Second {
			look()
			continue
		}
		edits++
		if now := w.billed(); now != before {
			t.Fatalf("an edit cost %+v, less %+v", now, before)
		}
	}
	before, delivered := w.billed(), w.relay.Stats().Deliveries
	if _, err := w.wrote(comment.Delete(w.ctx, firestore.Exists)); err != nil {
		t.Fatal(err)
	}
	w.quiet()
	// Once more for each time that it is delivered again, because its acknowledgement is lost.
	deliveries := int64(w.relay.Stats().Deliveries - delivered)
	if now := w.billed(); now.Reads < before.Reads+3 || now.Writes < before.Writes+1 || now.Writes > before.Writes+deliveries {
		t.Errorf("a deletion cost %+v, less %+v; want 3 reads and a write", now, before)
	}
	w.want("posts/0", map[string]any{"title": p.title(), "edits": int64(0), "likes": int64(len(w.documents("posts/0/likes"))), "comments": int64(0)})
	w.checkLogs()
}

// A post is deleted with all its likes, as recursive deletes do: each functions process looks at
// most once a cadence, sums nothing and writes nothing.
//
//	go test ./e2e -run RecursiveDelete -posts.likes 100000 -faults.long -v
func TestRecursiveDelete(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{routes: postRoutes, dormant: true, proxies: []func(*proxy){near, near}})
	p := w.newPosts(1)[0]
	const atOnce = 100
	each := func(n int, write func(tx *firestore.Transaction, like *firestore.DocumentRef) error) {
		t.Helper()
		if err := w.client.RunTransaction(w.ctx, func(_ context.Context, tx *firestore.Transaction) error {
			for i := n; i < min(n+atOnce, *postsLikes); i++ {
				if err := write(tx, p.Collection("likes").Doc(fmt.Sprint(i))); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	for n := 0; n < *postsLikes; n += atOnce {
		each(n, func(tx *firestore.Transaction, like *firestore.DocumentRef) error {
			return tx.Create(like, map[string]any{})
		})
	}
	w.triggerAll(postRoutes)
	w.schedule(postRoutes)
	w.want("posts/0", map[string]any{"title": p.title(), "edits": int64(0), "likes": int64(*postsLikes), "comments": int64(0)})

	began := time.Now()
	if _, err := p.Delete(w.ctx); err != nil {
		t.Fatal(err)
	}
	kills := 0
	for n := 0; n < *postsLikes; n += atOnce {
		each(n, func(tx *firestore.Transaction, like *firestore.DocumentRef) error { return tx.Delete(like) })
		w.events.Add(int64(min(atOnce, *postsLikes-n)))
		if kills < 4*n / *postsLikes {
			w.kill(w.processes[kills%len(w.processes)])
			kills++
		}
	}
	w.quiet()
	took := time.Since(began)
	billed := w.billed()
	if most := int64(len(w.processes))*int64(took/cadence+1) + int64(kills); billed.Reads > most || billed.Reads == 0 || billed.Writes > 0 {
		t.Errorf("deleting %d likes took %v and cost %+v; want at most %d reads and no write", *postsLikes, took, billed, most)
	}
	t.Logf("deleting %d likes took %v with %d kills and cost %+v; events %+v", *postsLikes, took.Round(time.Millisecond), kills, billed, w.relay.Stats())
	w.want("posts/0", nil)

	if err := p.create(w.ctx); err != nil {
		t.Fatal(err)
	}
	w.awaitLike(p)
	w.quiet()
	w.want("posts/0", map[string]any{"title": p.title(), "edits": int64(0), "likes": int64(1), "comments": int64(0)})
	w.checkLogs()
}

// Ratings are counted and added up, and an average is a division. A rating that changes counts.
func TestRatings(t *testing.T) {
	t.Parallel()
	const routes = "shops/{shop}/ratings/{user} -> shop_totals/{shop} : count() as ratings, stars"
	kills := form(4, 50)
	w := newWorld(t, options{routes: routes, proxies: []func(*proxy){near, near}})
	w.whileKilled(times(kills), func(shop int, random *rand.Rand) (bool, error) {
		rating := w.client.Doc(fmt.Sprintf("shops/%d/ratings/user%d", shop, random.IntN(20)))
		switch n := random.IntN(10); {
		case n < 7: // a new one, or another opinion
			return w.wrote(rating.Set(w.ctx, map[string]any{"stars": 1 + random.IntN(5), "text": "fine"}))
		case n < 8:
			return w.wrote(rating.Delete(w.ctx, firestore.Exists))
		default:
			_, err := w.wrote(rating.Update(w.ctx, []firestore.Update{{Path: "text", Value: fmt.Sprint("fine ", random.Int())}}))
			return false, err
		}
	})
	w.wantFailed()
	check := func(shop int) {
		t.Helper()
		var ratings, stars int64
		for _, d := range w.documents(fmt.Sprintf("shops/%d/ratings", shop)) {
			ratings++
			stars += d.Data()["stars"].(int64)
		}
		totals := fmt.Sprint("shop_totals/", shop)
		fields, _ := w.fields(totals)
		if len(fields) == 0 && ratings == 0 {
			return // it has no rating yet
		}
		w.want(totals, map[string]any{"ratings": ratings, "stars": stars})
		if got, _ := fields["ratings"].(int64); got > 0 {
			t.Logf("shop %d: %.2f stars of %d ratings", shop, float64(fields["stars"].(int64))/float64(got), got)
		}
	}
	for shop := range things(kills) {
		check(shop)
	}
	for _, rating := range []struct {
		user    string
		stars   int
		average float64
	}{{"ann", 4, 4}, {"bob", 3, 3.5}, {"bob", 5, 4.5}} {
		if _, err := w.wrote(w.client.Doc("shops/new/ratings/"+rating.user).Set(w.ctx, map[string]any{"stars": rating.stars})); err != nil {
			t.Fatal(err)
		}
		w.quiet()
		fields, _ := w.fields("shop_totals/new")
		stars, _ := fields["stars"].(int64)
		ratings, _ := fields["ratings"].(int64)
		if got := float64(stars) / float64(ratings); got != rating.average {
			t.Errorf("after %d stars of %s's, the average is %v of %v, want %v", rating.stars, rating.user, got, fields, rating.average)
		}
	}
	w.checkLogs()
}

// A poll's options are fields: a vote sets one of them, and may move.
func TestPoll(t *testing.T) {
	t.Parallel()
	const routes = "polls/{poll}/votes/{user} -> poll_totals/{poll} : red, green, blue"
	colors := []string{"red", "green", "blue"}
	kills := form(4, 50)
	w := newWorld(t, options{routes: routes, proxies: []func(*proxy){near, near}})
	w.whileKilled(times(kills), func(poll int, random *rand.Rand) (bool, error) {
		vote := w.client.Doc(fmt.Sprintf("polls/%d/votes/user%d", poll, random.IntN(20)))
		switch n := random.IntN(10); {
		case n < 8:
			return w.wrote(vote.Set(w.ctx, map[string]any{colors[random.IntN(len(colors))]: 1}))
		case n < 9:
			return w.wrote(vote.Delete(w.ctx, firestore.Exists))
		default:
			_, err := w.wrote(vote.Update(w.ctx, []firestore.Update{{Path: "seen", Value: random.Int()}}))
			return false, err
		}
	})
	w.wantFailed()
	for poll := range things(kills) {
		want := map[string]any{"red": int64(0), "green": int64(0), "blue": int64(0)}
		votes := w.documents(fmt.Sprintf("polls/%d/votes", poll))
		for _, d := range votes {
			for _, color := range colors {
				if n, ok := d.Data()[color].(int64); ok {
					want[color] = want[color].(int64) + n
				}
			}
		}
		if got, _ := w.fields(fmt.Sprint("poll_totals/", poll)); len(votes) > 0 || len(got) > 0 {
			w.want(fmt.Sprint("poll_totals/", poll), want)
		}
	}
	w.checkLogs()
}

// One source of a roll-up goes and another comes while revisions of both routes serve events. What
// is removed loses its trigger first; what is added gets its own last. An audit ends it, and then
// all is exact.
func TestSourcesChange(t *testing.T) {
	t.Parallel()
	const newRoutes = likesRoute + "\n" + sharesRoute
	kills := form(2, 10) // in each phase
	w := newWorld(t, options{routes: postRoutes, dormant: true, proxies: []func(*proxy){near}})
	const likesTrigger, otherTrigger = "likes", "other"
	w.trigger(likesTrigger, "posts/{post}/likes/{user}")
	w.trigger(otherTrigger, "posts/{post}/comments/{comment}")
	var triggered atomic.Pointer[string] // the other source whose events come
	triggered.Store(new("comments"))
	const all = 5 // phases
	n := things(all * kills)
	create := func(post, source string, random *rand.Rand) (bool, error) {
		doc := w.client.Doc(fmt.Sprintf("posts/%s/%s/%d", post, source, random.IntN(1000)))
		_, err := doc.Create(w.ctx, map[string]any{})
		if source == "likes" || source == *triggered.Load() {
			return w.wrote(nil, err)
		}
		if status.Code(err) == codes.AlreadyExists {
			err = nil
		}
		return false, err
	}
	for i := range n {
		if _, err := w.client.Doc(fmt.Sprint("posts/", i)).Create(w.ctx, map[string]any{"title": "x"}); err != nil {
			t.Fatal(err)
		}
	}
	phase := 0
	load := func(scenario func(kill func())) {
		t.Helper()
		w.whileKilled(scenario, func(thing int, random *rand.Rand) (bool, error) {
			return create(fmt.Sprint(phase*kills+thing), []string{"likes", "comments", "shares"}[random.IntN(3)], random)
		})
		phase++
	}
	sums := func(post string) map[string]any {
		t.Helper()
		sums := make(map[string]any)
		for _, source := range []string{"likes", "comments", "shares"} {
			sums[source] = int64(len(w.documents("posts/" + post + "/" + source)))
		}
		return sums
	}
	quiet := "quiet" // has no likes later than the old revision's last roll-up of it
	if _, err := w.client.Doc("posts/"+quiet).Create(w.ctx, map[string]any{"title": "x"}); err != nil {
		t.Fatal(err)
	}
	if _, err := create(quiet, "likes", w.random); err != nil {
		t.Fatal(err)
	}
	load(times(kills))

	// Removing comments: the trigger, then until its events have ended, then the routes.
	triggered.Store(new(""))
	w.trigger(otherTrigger, "nothing/{id}")
	load(times(kills))

	// Adding shares: the function, and for a while both revisions serve.
	before := w.processes[0]
	after := w.add(near, newRoutes, "")
	rolledUp := make(map[*process]int)
	for _, p := range w.processes {
		rolledUp[p] = len(p.proxy.rollUps())
	}
	load(func(kill func()) {
		times(kills)(kill)
		for _, p := range w.processes { // until each has rolled something up while the other runs
			for len(p.proxy.rollUps()) < rolledUp[p]+5 {
				w.pass(cadence)
			}
		}
	})
	for range 3 {
		if _, err := create(quiet, "shares", w.random); err != nil {
			t.Fatal(err)
		}
	}
	w.processes = []*process{after}
	w.setTargets()
	before.kill()
	load(times(kills))
	if bytes.Contains(before.logs.bytes(), []byte(`"severity":"ERROR"`)) {
		t.Errorf("the old revision logged an error:\n%s", before.logs.tail())
	}

	// Then the schedule's function, which is called below, and the trigger of shares.
	w.trigger(otherTrigger, "posts/{post}/shares/{user}")
	triggered.Store(new("shares"))
	load(times(kills))
	if fields, _ := w.fields("posts/" + quiet); fields["shares"] != nil {
		t.Errorf("no event came for the shares of a quiet post, and it says %v", fields)
	}
	report := w.schedule(newRoutes)
	t.Logf("the audit says %+v", report)
	if report.Rerouted == 0 {
		t.Error("the audit found no roll-up of the old routes")
	}
	for i := range n + 1 {
		id := fmt.Sprint(i)
		if i == n {
			id = quiet
		}
		fields, tally := w.fields("posts/" + id)
		want := sums(id)
		if tally.AsOf.IsZero() {
			if want["likes"] != int64(0) || want["shares"] != int64(0) {
				t.Errorf("post %s was not rolled up: %v, want %v", id, fields, want)
			}
			continue
		}
		if fields["likes"] != want["likes"] || fields["shares"] != want["shares"] || fields["title"] != "x" {
			t.Errorf("post %s says %v, want %v", id, fields, want)
		}
		if d := gocmp.Diff([]string{"likes", "shares"}, tally.Totals); d != "" {
			t.Errorf("post %s keeps (-want +got):\n%s", id, d)
		}
		if _, ok := fields["comments"]; ok != slices.Contains(tally.Former, "comments") {
			t.Errorf("post %s says %v, and that its former totals are %v", id, fields, tally.Former)
		}
	}
	w.checkLogs()
}
