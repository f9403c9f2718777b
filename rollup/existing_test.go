package rollup_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
)

// postRoutes keep two totals in documents of the app's own.
var postRoutes = func() route.Routes {
	routes, err := route.Parse("posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing\nposts/{post}/comments/{comment} -> posts/{post} : count() as comments : existing")
	if err != nil {
		panic(err)
	}
	return routes
}()

// post7 is the counter of posts/7.
var post7, _ = postRoutes[0].Template.Counter("posts/7")

// like has a user like post 7.
func (w *world) like(user string) time.Time {
	return w.store.Put("posts/7/likes/"+user, map[string]any{})
}

// unchanged delivers an event of post 7 that may leave its totals as they were.
func (w *world) unchanged(c *rollup.Coalescer, e rollup.Event, unchanged bool) *delivery {
	return w.deliverConcerning(hold, c, e, route.Concern{Counter: post7, Unchanged: unchanged})
}

// changed delivers an event of post 7.
func (w *world) changed(c *rollup.Coalescer, e rollup.Event) *delivery {
	return w.deliverOf(hold, c, post7, e)
}

// wantPost wants post 7 to hold these fields in addition to the tally.
func (w *world) wantPost(want map[string]any) {
	w.t.Helper()
	got := w.store.Get("posts/7")
	delete(got, document.TallyField)
	if d := cmp.Diff(want, got); d != "" {
		w.t.Errorf("posts/7 (-want +got):\n%s", d)
	}
}

// A change of either source rolls up both, in one look and one write, and leaves the app's fields.
func TestRoutesOfOneTemplate(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		w.store.Put("posts/7", map[string]any{"title": "x"})
		w.like("ann")
		w.store.Put("posts/7/comments/1", map[string]any{"text": "x"})
		w.store.Put("posts/8/likes/ann", map[string]any{})
		w.acknowledged(w.changed(c, rollup.Event{ID: "e"}))
		w.wantPost(map[string]any{"title": "x", "likes": int64(1), "comments": int64(1)})
		w.called(1, 1, 1)
		if tally := document.DecodeTally(w.store.Get("posts/7")["tally"]); tally.NumShards != 2 || tally.Routes != post7.Template.Hash() || len(tally.Totals) != 2 {
			t.Errorf("the tally is %+v", tally)
		}
		w.store.Delete("posts/7/comments/1")
		w.acknowledged(w.changed(c, rollup.Event{ID: "f"}))
		w.wantPost(map[string]any{"title": "x", "likes": int64(1), "comments": int64(0)})
	})
}

// A document of the app's own that is not there covers its events like a roll-up, is looked at once
// a cadence, and is never created. When it comes, the next change fills it in.
func TestMissingDocument(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		var deliveries []*delivery
		const seconds, perSecond = 20, 500
		for i := range seconds * perSecond { // a recursive delete: the post first, then its likes
			w.store.Delete(fmt.Sprint("posts/7/likes/", i))
			deliveries = append(deliveries, w.changed(c, rollup.Event{ID: fmt.Sprint("e", i)}))
			time.Sleep(time.Second / perSecond)
		}
		w.acknowledged(deliveries...)
		if looks, sums, writes := w.looks.Load(), w.sums.Load(), w.writes.Load(); looks > seconds+1 || looks < seconds-1 || sums+writes > 0 {
			t.Errorf("%d looks, %d sums, %d writes in %d s", looks, sums, writes, seconds)
		}
		if post := w.store.Get("posts/7"); post != nil {
			t.Errorf("posts/7 was created: %v", post)
		}
		time.Sleep(cadence)
		w.looks.Store(0)
		w.like("ann")
		w.acknowledged(w.changed(c, rollup.Event{ID: "before the post"}))
		w.called(1, 0, 0)
		w.store.Put("posts/7", map[string]any{"title": "x"})
		w.like("bob")
		w.acknowledged(w.changed(c, rollup.Event{ID: "after it"}))
		w.wantPost(map[string]any{"title": "x", "likes": int64(2), "comments": int64(0)})
		w.store.Delete("posts/7")
		w.like("cyd")
		w.acknowledged(w.changed(c, rollup.Event{ID: "after it went"}))
		w.store.Put("posts/7", map[string]any{"title": "y"})
		w.like("dan")
		w.acknowledged(w.changed(c, rollup.Event{ID: "after it came again"}))
		w.wantPost(map[string]any{"title": "y", "likes": int64(4), "comments": int64(0)})
	})
}

// A document of the app's own begins without a tally. That is nothing to warn of.
func TestExistingBeginsWithoutTally(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		w.store.Put("posts/7", map[string]any{"title": "x"})
		w.like("ann")
		w.acknowledged(w.changed(c, rollup.Event{ID: "e"}))
		w.wantPost(map[string]any{"title": "x", "likes": int64(1), "comments": int64(0)})
		if log := w.log.String(); strings.Contains(log, "WARN") {
			t.Errorf("logged %s", log)
		}
	})
}

// An event that comes while a look is out is not covered by the document's absence in that look.
func TestMissingDocumentCoversWhatCameBefore(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		var late *delivery
		w.duringView = func(n int32) {
			if n == 1 {
				w.store.Put("posts/7", map[string]any{})
				w.like("ann")
				late = w.changed(c, rollup.Event{ID: "late"})
			}
		}
		w.acknowledged(w.changed(c, rollup.Event{ID: "early"}))
		if !late.held() {
			t.Error("acknowledged by a look from before it")
		}
		w.acknowledged(late)
		w.wantPost(map[string]any{"likes": int64(1), "comments": int64(0)})
	})
}

// An app that writes its document all the time does not keep Tally from it.
func TestAppWritesItsDocument(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		w.store.Put("posts/7", map[string]any{"edits": int64(0)})
		end := time.Now().Add(30 * time.Second)
		w.aroundWrite = func(n int32, write func() error) error {
			time.Sleep(15 * time.Millisecond)
			return write()
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for time.Now().Before(end) {
				w.store.Increment("posts/7", "edits", 1)
				time.Sleep(50 * time.Millisecond)
			}
		}()
		var likes int64
		for time.Now().Before(end) {
			w.like(fmt.Sprint(likes))
			likes++
			w.acknowledged(w.changed(c, rollup.Event{ID: fmt.Sprint(likes)}))
		}
		<-done
		w.wantPost(map[string]any{"edits": w.store.Get("posts/7")["edits"], "likes": likes, "comments": int64(0)})
	})
}

// An audit neither misses a post that is not there nor creates or removes one. It fills in one that
// came after its likes, and leaves one that never had any.
func TestAuditOfExisting(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		audit := func(o rollup.AuditOptions, want rollup.Report) {
			t.Helper()
			got, err := rollup.Audit(w.t.Context(), traced{w.store, w}, postRoutes, o)
			if d := cmp.Diff(want, counts(got)); d != "" || err != nil {
				t.Errorf("%v: (-want +got):\n%s", err, d)
			}
		}
		dry := w.auditOptions()
		dry.DryRun = true
		w.like("ann")
		w.store.Put("posts/7/comments/1", map[string]any{})
		w.store.Put("posts/8", map[string]any{"title": "y"})
		audit(dry, rollup.Report{})
		audit(w.auditOptions(), rollup.Report{})
		w.called(0, 0, 0)
		w.store.Put("posts/7", map[string]any{"title": "x"})
		audit(dry, rollup.Report{Counters: 1, Differing: 1, Missing: 1})
		audit(w.auditOptions(), rollup.Report{Counters: 1, RolledUp: 1, Missing: 1})
		w.wantPost(map[string]any{"title": "x", "likes": int64(1), "comments": int64(1)})
		w.store.Delete("posts/7/likes/ann")
		w.store.Delete("posts/7/comments/1")
		w.acknowledged(w.changed(c, rollup.Event{ID: "e"}))
		time.Sleep(2 * time.Hour)
		audit(w.auditOptions(), rollup.Report{Counters: 1, Unchanged: 1})
		w.wantPost(map[string]any{"title": "x", "likes": int64(0), "comments": int64(0)})
		if d := cmp.Diff(map[string]any{"title": "y"}, w.store.Get("posts/8")); d != "" {
			t.Errorf("posts/8 (-want +got):\n%s", d)
		}
		// The app has set back an old copy, without the totals.
		w.store.Put("posts/7", map[string]any{"title": "z"})
		w.like("bob")
		audit(w.auditOptions(), rollup.Report{Counters: 1, RolledUp: 1, Missing: 1})
		w.like("cyd")
		w.beforeView = func(int32) error { w.store.Delete("posts/7"); return nil } // once it was found
		audit(w.auditOptions(), rollup.Report{})
		audit(w.auditOptions(), rollup.Report{})
		if post := w.store.Get("posts/7"); post != nil {
			t.Errorf("posts/7 was created: %v", post)
		}
	})
}

// An audit finds the counters of groups by the documents that hold their totals. It fills in one
// that came after its orders, also in a day, a number or a second key, and looks at no group that
// has no document.
func TestAuditOfHomes(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		routes, err := route.Parse(`
			orders/{order} by shop -> shops/{shop} : count() as orders : existing
			orders/{order} by shop, day(at, "Europe/Berlin") -> shops/{shop}/days/{day} : count() as orders, sum(amount) as revenue : existing
			orders/{order} by number(user) -> users/{user} : count() as orders : existing`)
		if err != nil {
			t.Fatal(err)
		}
		for i, at := range []string{"2026-11-26T22:59:59.999999Z", "2026-11-26T23:00:00Z", "2026-11-27T22:59:59Z"} {
			instant, err := time.Parse(time.RFC3339Nano, at)
			if err != nil {
				t.Fatal(err)
			}
			w.store.Put(fmt.Sprint("orders/", i), map[string]any{"shop": "a", "at": instant, "amount": int64(1) << i, "user": 7.0})
			w.store.Put(fmt.Sprint("orders/junk", i), map[string]any{"shop": fmt.Sprint("junk", i), "at": instant, "user": int64(i)})
		}
		for _, path := range []string{"shops/a", "shops/a/days/2026-11-27", "shops/a/days/2026-11-28", "shops/a/days/today", "shops/b", "shops/b/days/2026-11-27", "users/7", "users/07"} {
			w.store.Put(path, map[string]any{"title": "x"})
		}

		report, err := rollup.Audit(w.t.Context(), traced{w.store, w}, routes, w.auditOptions())
		if d := cmp.Diff(rollup.Report{Counters: 3, RolledUp: 3, Missing: 3}, counts(report)); d != "" || err != nil {
			t.Errorf("%v: (-want +got):\n%s", err, d)
		}
		if looks := w.looks.Load(); looks != 3 {
			t.Errorf("%d looks, want one for each document with sources", looks)
		}
		for path, want := range map[string]map[string]any{
			"shops/a": {"orders": int64(3)}, "shops/a/days/2026-11-27": {"orders": int64(2), "revenue": int64(6)}, "users/7": {"orders": int64(3)},
			"shops/a/days/2026-11-28": {}, "shops/a/days/today": {}, "shops/b": {}, "shops/b/days/2026-11-27": {}, "users/07": {},
		} {
			got := w.store.Get(path)
			delete(got, "tally")
			want["title"] = "x"
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s (-want +got):\n%s", path, d)
			}
		}
	})
}

// An audit makes the roll-up of a counter whose documents are all by its template's second route.
func TestAuditOfTheSecondRoute(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		routes, err := route.Parse("posts/{post}/likes/{user} -> totals/{post} : count() as likes\nposts/{post}/comments/{comment} -> totals/{post} : count() as comments")
		if err != nil {
			t.Fatal(err)
		}
		w.store.Put("posts/7/comments/1", map[string]any{})
		w.store.Put("posts/8/likes/ann", map[string]any{})
		w.store.Put("posts/8/comments/1", map[string]any{})
		for _, dry := range []bool{true, false} {
			o := w.auditOptions()
			o.DryRun = dry
			report, err := rollup.Audit(w.t.Context(), traced{w.store, w}, routes, o)
			if err != nil || report.Counters != 2 || report.Missing != 2 {
				t.Errorf("%+v, %v", report, err)
			}
		}
		if got := w.store.Get("totals/7"); got["comments"] != int64(1) || got["likes"] != int64(0) {
			t.Errorf("totals/7 is %v", got)
		}
	})
}

// A tick keeps what is there, and is not kept busy by what is not.
func TestKeepOfExisting(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		routes, err := route.Parse(postRoutes[0].String() + " : every 10s\n" + postRoutes[1].String() + " : every 10s")
		if err != nil {
			t.Fatal(err)
		}
		keep := func(d time.Duration, want rollup.KeepReport) {
			t.Helper()
			got, err := rollup.Keep(w.t.Context(), traced{w.store, w}, routes, w.keepOptions(2, time.Now().Add(d)))
			if diff := cmp.Diff(want, ageless(got)); diff != "" || err != nil {
				t.Errorf("%v: (-want +got):\n%s", err, diff)
			}
		}
		w.like("ann")
		w.store.Put("posts/8", map[string]any{"title": "y"})
		keep(25*time.Second, rollup.KeepReport{Counters: 1})
		w.called(2, 0, 0) // and again after 20 s more
		w.store.Put("posts/7", map[string]any{"title": "x"})
		keep(25*time.Second, rollup.KeepReport{Counters: 1, RolledUp: 1, Unchanged: 2})
		w.wantPost(map[string]any{"title": "x", "likes": int64(1), "comments": int64(0)})
		if sums, writes := w.sums.Load(), w.writes.Load(); sums != 3 || writes != 1 {
			t.Errorf("%d sums and %d writes in three visits, want 3 and 1", sums, writes)
		}
		w.store.Delete("posts/7/likes/ann")
		time.Sleep(2 * time.Hour)
		keep(time.Second, rollup.KeepReport{Counters: 1, RolledUp: 1})
		time.Sleep(2 * time.Hour)
		keep(time.Second, rollup.KeepReport{Counters: 1, Unchanged: 1})
		w.wantPost(map[string]any{"title": "x", "likes": int64(0), "comments": int64(0)})
	})
}

// Totals of earlier routes stay until an audit prunes them. That leaves all else as it is.
func TestPrune(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		w.store.Put("posts/7", map[string]any{"title": "x"})
		w.like("ann")
		w.acknowledged(w.changed(c, rollup.Event{ID: "e"}))
		fewer, err := route.Parse(postRoutes[0].String())
		if err != nil {
			t.Fatal(err)
		}
		audit := func(o rollup.AuditOptions, want rollup.Report) {
			t.Helper()
			got, err := rollup.Audit(w.t.Context(), traced{w.store, w}, fewer, o)
			if d := cmp.Diff(want, counts(got)); d != "" || err != nil {
				t.Errorf("%v: (-want +got):\n%s", err, d)
			}
			time.Sleep(time.Minute)
		}
		prune, dry := w.patient(), w.patient()
		prune.Prune, dry.Prune, dry.DryRun = true, true, true
		audit(w.patient(), rollup.Report{Counters: 1, RolledUp: 1, Rerouted: 1})
		audit(w.patient(), rollup.Report{Counters: 1, Unchanged: 1})
		audit(dry, rollup.Report{Counters: 1, Differing: 1, Outdated: 1})
		w.wantPost(map[string]any{"title": "x", "likes": int64(1), "comments": int64(0)})
		audit(prune, rollup.Report{Counters: 1, RolledUp: 1, Outdated: 1})
		w.wantPost(map[string]any{"title": "x", "likes": int64(1)})
		if tally := document.DecodeTally(w.store.Get("posts/7")["tally"]); len(tally.Totals) != 1 || len(tally.Former) != 0 {
			t.Errorf("the tally is %+v", tally)
		}
		audit(prune, rollup.Report{Counters: 1, Unchanged: 1})
	})
}

// An app that overwrites its document, without the tally, removes the totals, but not the pace.
func TestAppSetsItsDocument(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		o := w.options(0)
		o.Burst = 5
		c := rollup.NewCoalescer(traced{w.store, w}, o)
		const seconds, perSecond = 20, 10
		var deliveries []*delivery
		for i := range seconds * perSecond {
			w.store.Put("posts/7", map[string]any{"title": i})
			w.like(fmt.Sprint(i))
			deliveries = append(deliveries, w.changed(c, rollup.Event{ID: fmt.Sprint("e", i)}))
			time.Sleep(time.Second / perSecond)
		}
		w.acknowledged(deliveries...)
		if writes := w.writes.Load(); writes < seconds/2 || writes > seconds+2 {
			t.Errorf("%d roll-ups in %d s", writes, seconds)
		}
		w.wantPost(map[string]any{"title": seconds*perSecond - 1, "likes": int64(seconds * perSecond), "comments": int64(0)})
	})
}

// A tick looks at a missing document of a route by its path after D, then after twice as long each
// time, up to a minute.
func TestKeepOfMissingDocument(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		routes := mustRoutes("posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing : every 1s")
		w.store.Put("posts/gone/likes/ann", map[string]any{"x": 1})
		_, err := rollup.Keep(w.t.Context(), traced{w.store, w}, routes, w.keepOptions(4, time.Now().Add(10*time.Minute)))
		if err != nil {
			t.Fatal(err)
		}
		if looks := w.looks.Load(); looks < 12 || looks > 18 {
			t.Errorf("%d looks in ten minutes, want six in the first minute and one in each of the others", looks)
		}
	})
}

// A group whose document is missing is not looked at, as long as a call lasts: anyone who writes
// sources makes up such groups. One that the app makes late is found by the next call, as every new
// counter.
func TestKeepOfMissingGroups(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		routes, err := route.Parse("visits/{visit} by page -> pages/{page} : count() as visits : existing : every 1s")
		if err != nil {
			t.Fatal(err)
		}
		w.store.Put("pages/home", map[string]any{"title": "Home"})
		for _, page := range []string{"home", "junk", "late"} {
			w.store.Put("visits/"+page, map[string]any{"page": page})
		}
		began := time.Now()
		go func() {
			time.Sleep(5 * time.Minute)
			w.store.Put("pages/late", map[string]any{"title": "Late"})
		}()

		var mu sync.Mutex
		looks := make(map[string]int)
		store := hooked{AuditStore: traced{w.store, w}, view: func(_ context.Context, c route.Counter) error {
			mu.Lock()
			defer mu.Unlock()
			looks[c.RollUp]++
			return nil
		}}
		var wrote attempts
		for call := range 2 {
			o := w.keepOptions(4, began.Add(time.Duration(call+1)*10*time.Minute))
			if _, err := rollup.Keep(w.t.Context(), wrote.of(store), routes, o); err != nil {
				t.Fatal(err)
			}
		}

		if n := looks["pages/junk"]; n > 0 {
			t.Errorf("%d looks at a document that never existed", n)
		}
		if n := looks["pages/home"]; n < 1000 {
			t.Errorf("%d looks at one that exists in twenty minutes, want one a second", n)
		}
		late := wrote.asOfs["pages/late"]
		if len(late) == 0 || late[0].Sub(began) > 10*time.Minute+5*time.Second {
			t.Errorf("one that exists after five minutes was rolled up at %v", late)
		}
	})
}
