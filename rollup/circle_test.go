package rollup_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/test/memstore"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

const (
	replies = "comments/{comment} by parent -> comments/{parent} : count() as replies, sum(points) where shown == true as points_of_replies : existing"
	karma   = "comments/{comment} by author -> users/{author} : sum(replies) as replies : existing"
	stories = "stories/{story} -> stories/all : count() where shown == true as stories : existing"
)

// A circle is a collection of comments whose totals are those of their replies. Each write of a
// comment, also that of a roll-up, is an event that comes late.
type circle struct {
	*memstore.Store
	w      *world
	routes route.Routes
	late   time.Duration
	untold bool // events come without their documents

	mu        sync.Mutex
	coalescer *rollup.Coalescer
	events    int
	rollUps   int
}

func (w *world) circle(late time.Duration, untold bool) *circle {
	c := &circle{Store: w.store, w: w, routes: mustRoutes(replies + "\n" + karma + "\n" + stories), late: late, untold: untold}
	c.coalescer = rollup.NewCoalescer(c, w.options(0))
	return c
}

// Write implements rollup.Store. Each roll-up is an event.
func (c *circle) Write(ctx context.Context, counter route.Counter, r rollup.RollUp) error {
	before := c.Get(counter.RollUp)
	err := c.Store.Write(ctx, counter, r)
	if err == nil {
		c.mu.Lock()
		c.rollUps++
		c.mu.Unlock()
		c.wrote(written{counter.RollUp, before, c.Get(counter.RollUp)})
	}
	return err
}

// set has the app write fields of a document. It deletes the document if there are none.
func (c *circle) set(path string, fields map[string]any) {
	before := c.Get(path)
	if fields == nil {
		c.Delete(path)
	} else {
		after := make(map[string]any)
		maps.Copy(after, before)
		maps.Copy(after, fields)
		c.Put(path, after)
	}
	c.wrote(written{path, before, c.Get(path)})
}

// wrote sends the event of a write, until it is acknowledged.
func (c *circle) wrote(now written) {
	source, covered := c.routes.Source(now.path)
	if !covered {
		return
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	c.events++
	event := rollup.Event{ID: fmt.Sprint("event ", c.events), UpdateTime: c.Now()}
	go func() {
		time.Sleep(c.late + time.Duration(len(event.ID))*time.Millisecond)
		for try := 1; ; try++ {
			concerns := source.Concerned(now)
			if c.untold {
				concerns = source.Concerned(untold{now, c.Get(now.path)})
			}
			ctx, cancel := context.WithTimeout(context.Background(), hold)
			_, err := c.coalescer.HandleEvent(ctx, event, concerns...)
			cancel()
			if err == nil {
				return
			}
			if try == 100 {
				c.w.t.Errorf("%s fails: %v", event.ID, err)
				return
			}
			time.Sleep(10 * time.Second)
		}
	}()
}

// written returns how many events and roll-ups there were so far.
func (c *circle) written() [2]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return [2]int{c.events, c.rollUps}
}

// isSilent checks that nothing happens for an hour.
func (c *circle) isSilent() {
	c.w.t.Helper()
	before := c.written()
	time.Sleep(time.Hour)
	if after := c.written(); after != before {
		c.w.t.Errorf("events and roll-ups went on from %v to %v in an hour without a change", before, after)
	}
}

func (c *circle) wantReplies(want map[string]int64) {
	c.w.t.Helper()
	for id, n := range want {
		if got := c.Get("comments/" + id)["replies"]; got != n {
			c.w.t.Errorf("%s has %v replies, want %d", id, got, n)
		}
	}
}

// Comments that answer themselves, each other or each other in a ring have right totals, and fall
// silent, however late their events come.
func TestCirclesFallSilent(t *testing.T) {
	for name, parents := range map[string]map[string]string{
		"own parent": {"a": "a"},
		"pair":       {"a": "b", "b": "a"},
		"ring":       {"a": "b", "b": "c", "c": "a"},
		"none":       {"a": "", "b": "gone"},
	} {
		for _, late := range []time.Duration{0, 4 * time.Second, 6 * time.Second, time.Minute, 5 * time.Hour} {
			t.Run(fmt.Sprint(name, " ", late), func(t *testing.T) {
				inWorld(t, func(w *world, _ *rollup.Coalescer) {
					c := w.circle(late, false)
					c.Put("users/ann", map[string]any{})
					for id, parent := range parents {
						c.set("comments/"+id, map[string]any{"parent": parent, "author": "ann", "points": int64(2), "shown": true})
					}
					time.Sleep(4*late + 10*time.Minute)
					c.isSilent()

					for n := range 10 { // edits, which change nothing
						c.set("comments/a", map[string]any{"text": int64(n)})
						time.Sleep(200 * time.Millisecond)
					}
					c.set("comments/a", map[string]any{"points": int64(7)})
					time.Sleep(4*late + 10*time.Minute)
					c.isSilent()

					want := map[string]int64{"gone": 0}
					for _, parent := range parents {
						want[parent]++
					}
					delete(want, "gone")
					delete(want, "")
					c.wantReplies(want)
					if got := c.Get("comments/" + parents["a"])["points_of_replies"]; parents["a"] != "" && got != int64(7) {
						t.Errorf("the replies of %s have %v points, want 7", parents["a"], got)
					}
					if got, n := c.Get("users/ann")["replies"], total(want); n > 0 && got != n {
						t.Errorf("the author has %v replies, want %d", got, n)
					}
					if n := c.written()[1]; n > 40 { // of 3 creations and 11 changes, for a comment and an author each
						t.Errorf("%d roll-ups", n)
					}
				})
			})
		}
	}
}

func total(of map[string]int64) (sum int64) {
	for _, n := range of {
		sum += n
	}
	return sum
}

// A reply moves, and goes. Its parent goes and comes again.
func TestRepliesMoveAndGo(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		c := w.circle(6*time.Second, false)
		for id, parent := range map[string]string{"a": "", "b": "", "c": "a", "d": "a", "e": "b"} {
			c.set("comments/"+id, map[string]any{"parent": parent})
		}
		time.Sleep(10 * time.Minute)
		c.wantReplies(map[string]int64{"a": 2, "b": 1})

		c.set("comments/c", map[string]any{"parent": "b"})
		c.set("comments/d", nil)
		time.Sleep(10 * time.Minute)
		c.wantReplies(map[string]int64{"a": 0, "b": 2})

		c.set("comments/b", nil)
		c.set("comments/e", map[string]any{"text": "x"})
		time.Sleep(10 * time.Minute)
		if got := c.Get("comments/b"); got != nil {
			t.Errorf("a deleted comment came back: %v", got)
		}

		c.set("comments/b", map[string]any{"parent": "e"}) // its replies were there before it
		c.set("comments/f", map[string]any{"parent": "b"})
		time.Sleep(10 * time.Minute)
		c.wantReplies(map[string]int64{"b": 3, "e": 1})
		c.isSilent()
	})
}

// Events that come without their documents are noted by name, and make no roll-ups. The next audit
// has the totals right. No roll-up of it makes another.
func TestCircleWithoutDocuments(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		c := w.circle(6*time.Second, true)
		c.set("comments/a", map[string]any{"parent": "a"})
		c.set("comments/b", map[string]any{"parent": "a"})
		c.set("stories/all", map[string]any{})
		c.set("stories/1", map[string]any{"shown": true})
		time.Sleep(10 * time.Minute)
		if n := c.written()[1]; n > 0 {
			t.Errorf("%d roll-ups by events without their documents", n)
		}

		o := w.patient()
		o.Cycle, o.Every = func(int64) time.Duration { return 24 * time.Hour }, 10*time.Minute
		for range 12 {
			report, err := rollup.Audit(w.t.Context(), c, c.routes, o)
			if err != nil || report.Drift > 0 {
				t.Errorf("%+v: %v", report, err)
			}
			time.Sleep(10 * time.Minute)
		}
		c.wantReplies(map[string]int64{"a": 2})
		c.set("stories/2", map[string]any{"shown": true})
		time.Sleep(time.Minute)
		report, err := rollup.Audit(w.t.Context(), c, c.routes, o)
		if got := c.Get("stories/all")["stories"]; err != nil || report.Drift > 0 || got != int64(2) {
			t.Errorf("%v stories after %+v: %v", got, report, err)
		}
		time.Sleep(10 * time.Minute)
		_, err = rollup.Audit(w.t.Context(), c, c.routes, o)
		if err != nil {
			t.Error(err)
		}

		named := func() int {
			note, err := c.LoadNote(w.t.Context(), document.NotePrefix+"counters")
			if err != nil {
				t.Fatal(err)
			}
			return len(note.Counters)
		}
		if n := named(); n > 0 {
			t.Errorf("the note still names %d counters", n)
		}
		c.set("comments/c", map[string]any{"parent": "b"})
		time.Sleep(time.Minute)
		if n := named(); n != 1 {
			t.Errorf("the note names %d counters, want 1", n)
		}
		for range 3 {
			_, err := rollup.Audit(w.t.Context(), c, c.routes, o)
			if err != nil {
				t.Error(err)
			}
			time.Sleep(10 * time.Minute)
		}
		c.wantReplies(map[string]int64{"a": 2, "b": 1})
		before := c.written()
		time.Sleep(time.Hour)
		if after := c.written(); after != before {
			t.Errorf("events and roll-ups went on from %v to %v", before, after)
		}
	})
}

// mustReplies returns the counter of the replies of a.
func mustReplies(routes route.Routes) route.Counter {
	c, ok := routes.Counter("comments/a")
	if !ok {
		panic("no route makes the totals of comments")
	}
	return c
}

// If such an event cannot be noted, it comes again.
func TestCircleNotNoted(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		routes := mustRoutes(replies)
		source, _ := routes.Source("comments/a")
		store := &notelessStore{Store: w.store}
		c := rollup.NewCoalescer(store, w.options(0))
		now := untold{held: map[string]any{"parent": "b"}}

		_, err := c.HandleEvent(w.t.Context(), rollup.Event{ID: "1"}, source.Concerned(now)...)
		if err == nil || !strings.Contains(err.Error(), "noting that an event came without its documents") {
			t.Errorf("got %v", err)
		}
		store.works = true
		_, err = c.HandleEvent(w.t.Context(), rollup.Event{ID: "1"}, source.Concerned(now)...)
		if err != nil {
			t.Error(err)
		}
	})
}

// A notelessStore fails to save notes.
type notelessStore struct {
	*memstore.Store
	works bool
}

func (s *notelessStore) SaveNote(ctx context.Context, n rollup.Note) error {
	if !s.works {
		return errStore
	}
	return s.Store.SaveNote(ctx, n)
}

// An event that changes nothing may have been the anchor of a generation by earlier routes, which
// read another field. It is done at once by the routes of now, and the audit that follows a change
// of routes covers what it stood for.
func TestAnchorOfRoutesBeforeTheCircle(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		before := mustRoutes("comments/{comment} by parent -> comments/{parent} : count() as replies, sum(points) as points_of_replies : existing")
		after := mustRoutes("comments/{comment} by parent -> comments/{parent} : count() as replies : existing")
		o := w.patient()
		o.Cycle, o.Every = func(int64) time.Duration { return 24 * time.Hour }, 10*time.Minute
		audit := func(routes route.Routes) {
			_, err := rollup.Audit(w.t.Context(), w.store, routes, o)
			if err != nil {
				t.Error(err)
			}
			time.Sleep(10 * time.Minute)
		}
		w.store.Put("comments/a", map[string]any{})
		w.store.Put("comments/b", map[string]any{"parent": "a", "points": int64(1)})
		for range 4 {
			audit(before)
		}
		audit(after) // a cycle begins before the former revision has ended

		former, died := context.WithCancel(w.t.Context())
		defer died()
		old, next := w.instance(0), w.instance(0)
		w.acknowledged(w.deliverOf(hold, old, mustReplies(before), rollup.Event{ID: "first"})) // so that the next one waits for the pace
		source, _ := before.Source("comments/b")
		edit := written{"comments/b", map[string]any{"parent": "a", "points": int64(1)}, map[string]any{"parent": "a", "points": int64(2)}}
		w.store.Put("comments/b", edit.after)
		edited := source.Concerned(edit)
		go func() {
			_, _ = old.HandleEvent(former, rollup.Event{ID: "anchor", UpdateTime: w.store.Now()}, edited...)
		}()
		time.Sleep(time.Millisecond)
		w.store.Put("comments/c", map[string]any{"parent": "a"})
		created := written{"comments/c", nil, map[string]any{"parent": "a"}}
		source, _ = before.Source("comments/c")
		_, err := old.HandleEvent(w.t.Context(), rollup.Event{ID: "absorbed"}, source.Concerned(created)...)
		if err != nil {
			t.Error(err)
		}
		died() // with its instance
		time.Sleep(time.Minute)

		source, _ = after.Source("comments/b")
		_, err = next.HandleEvent(w.t.Context(), rollup.Event{ID: "anchor"}, source.Concerned(edit)...)
		if err != nil || w.store.Get("comments/a")["replies"] != int64(1) {
			t.Errorf("the anchor of earlier routes: %v; %v", err, w.store.Get("comments/a"))
		}
		for range 4 {
			audit(after)
		}
		if got := w.store.Get("comments/a")["replies"]; got != int64(2) {
			t.Errorf("after the audits that follow the change of routes there are %v replies, want 2", got)
		}
	})
}
