package rollup_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

// byShop are routes with a group, and others without.
var byShop = mustRoutes(`
	orders/{order} by shop -> shops/{shop} : count() as orders : existing
	posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing`)

func mustRoutes(text string) route.Routes {
	routes, err := route.Parse(text)
	if err != nil {
		panic(err)
	}
	return routes
}

// left has a document leave a shop and tells the shop's coalescer nothing, a day after its roll-up.
func (w *world) left() {
	w.store.Put("shops/a", map[string]any{})
	w.store.Put("orders/1", map[string]any{"shop": "a"})
	w.store.Put("orders/2", map[string]any{"shop": "a"})
	shop, _ := byShop.Counter("shops/a")
	w.acknowledged(w.deliverOf(hold, w.instance(0), shop, rollup.Event{ID: "orders"})) // an audit would take old notes away
	if w.store.Get("shops/a")["orders"] != int64(2) {
		w.t.Fatalf("the shop has %v orders, want 2", w.store.Get("shops/a")["orders"])
	}
	time.Sleep(24 * time.Hour)
	w.store.Put("orders/1", map[string]any{"shop": "b"})
}

// If an event had no room for its document, the group that the document has left is repaired, and
// that does not count as drift. Without such an event it is.
func TestUntold(t *testing.T) {
	for _, test := range []struct {
		name   string
		note   string        // the path of a document whose event had no room for it; "": there was none
		before time.Duration // the roll-up; 0: after the change
		drift  int
	}{
		{"told", "", 0, 1},
		{"untold", "orders/1", 0, 0},
		{"a note stands for a minute", "orders/9", 59 * time.Second, 0},
		{"an old note", "orders/9", 61 * time.Second, 1},
		{"a document without a group", "posts/1/likes/ann", 0, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, func(w *world, _ *rollup.Coalescer) {
				if test.before > 0 {
					w.note(test.note)
					time.Sleep(test.before)
				}
				w.left()
				if test.before == 0 {
					w.note(test.note)
				}
				report, err := rollup.Audit(w.t.Context(), w.store, byShop, w.patient())
				if err != nil || report.RolledUp != 1 || report.Drift != test.drift {
					t.Errorf("%+v: %v", report, err)
				}
				if told := strings.Contains(w.log.String(), "untold: "); told != (test.drift == 0) {
					t.Errorf("logged:\n%s", &w.log)
				}
				if n := w.store.Get("shops/a")["orders"]; n != int64(1) {
					t.Errorf("the shop has %v orders, want 1", n)
				}
			})
		})
	}
}

// A dry run does not call it drift either.
func TestUntoldInADryRun(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.left()
		w.note("orders/1")
		o := w.patient()
		o.DryRun = true
		report, err := rollup.Audit(w.t.Context(), w.store, byShop, o)
		if err != nil || report.Differing != 1 || report.Drift != 0 || w.store.Get("shops/a")["orders"] != int64(2) {
			t.Errorf("%+v: %v", report, err)
		}
	})
}

// A note that cannot be read hides no drift.
func TestUntoldUnread(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.left()
		w.note("orders/1")
		store := unread{w.store, untoldOf(byShop[0])}
		report, err := rollup.Audit(w.t.Context(), store, byShop, w.patient())
		if err != nil || report.RolledUp != 1 || report.Drift != 1 {
			t.Errorf("%+v: %v; want a drift", report, err)
		}
		if !strings.Contains(w.log.String(), "a note was not read") {
			t.Errorf("logged:\n%s", &w.log)
		}
	})
}

// An unread store cannot read one of its notes.
type unread struct {
	rollup.AuditStore
	note string
}

func (s unread) LoadNote(ctx context.Context, id string) (rollup.Note, error) {
	if id == s.note {
		return rollup.Note{}, errors.New("unavailable")
	}
	return s.AuditStore.LoadNote(ctx, id)
}

// A document that several routes cover is noted for each that has groups, wherever it stands among
// the others.
func TestUntoldOfSeveralRoutes(t *testing.T) {
	routes := mustRoutes(`
		orders/{order} -> totals/orders : count()
		orders/{order} by shop -> shops/{shop} : count() as orders : existing
		orders/{order} by buyer -> users/{buyer} : count() as bought : existing`)
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		store := &savings{AuditStore: w.store}
		source, _ := routes.Source("orders/1")
		if err := rollup.NewNotes(store).Untold(w.t.Context(), source); err != nil {
			t.Error(err)
		}
		if want := []string{untoldOf(routes[1]), untoldOf(routes[2])}; !slices.Equal(store.of, want) {
			t.Errorf("noted %v, want %v", store.of, want)
		}
	})
}

// untoldOf returns the ID of the note for a route's template.
func untoldOf(r *route.Route) string { return "note-left-" + r.Template.Hash() }

// note notes an event without its document.
func (w *world) note(path string) {
	w.t.Helper()
	source, _ := byShop.Source(path)
	if err := rollup.NewNotes(w.store).Untold(w.t.Context(), source); err != nil {
		w.t.Error(err)
	}
}

// Somebody who writes large documents all the time makes one note a minute of each template. A note
// that is skipped has one that is younger than a minute, and that one serves.
func TestUntoldAllTheTime(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		store := &savings{AuditStore: w.store}
		u := rollup.NewNotes(store)
		order, _ := byShop.Source("orders/1")
		began := time.Now()
		for time.Since(began) < 10*time.Minute {
			if err := u.Untold(w.t.Context(), order); err != nil {
				t.Error(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := len(store.of); n != 10 {
			t.Errorf("%d notes in ten minutes, want 10", n)
		}
	})
}

// A note that another instance has made meanwhile will do. One that fails is an error, and is tried
// again at once.
func TestUntoldFails(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		store := &savings{AuditStore: w.store, err: errors.New("unavailable")}
		u := rollup.NewNotes(store)
		order, _ := byShop.Source("orders/1")
		for range 3 {
			if err := u.Untold(w.t.Context(), order); !errors.Is(err, store.err) {
				t.Errorf("got %v, want %v", err, store.err)
			}
		}
		store.err = rollup.ErrConflict
		if err := u.Untold(w.t.Context(), order); err != nil {
			t.Error(err)
		}
		if n := len(store.of); n != 4 {
			t.Errorf("tried %d times, want 4", n)
		}
	})
}

// savings are a store that remembers which notes were saved, and may fail to save them.
type savings struct {
	rollup.AuditStore
	of  []string
	err error
}

func (s *savings) SaveNote(ctx context.Context, n rollup.Note) error {
	s.of = append(s.of, n.ID)
	if s.err != nil {
		return s.err
	}
	return s.AuditStore.SaveNote(ctx, n)
}
