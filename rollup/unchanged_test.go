package rollup_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

// An event that changes no total costs nothing, for five seconds of the server's time after its
// commit.
func TestUnchangedCostsNothing(t *testing.T) {
	for _, skew := range []time.Duration{0, time.Hour, -time.Hour} {
		inWorld(t, func(w *world, c *rollup.Coalescer) {
			w.store.Skew = skew
			w.store.Put("posts/7", map[string]any{})
			edited := func(id string, ago time.Duration) *delivery {
				return w.unchanged(c, rollup.Event{ID: id, UpdateTime: w.store.Now().Add(-ago)}, true)
			}
			w.like("ann")
			w.acknowledged(edited("before any look", 0))
			w.called(1, 1, 1) // the time is not known
			time.Sleep(time.Minute)
			w.like("bob") // whose event is late
			for i := range 100 {
				w.acknowledged(edited(fmt.Sprint("edit ", i), 4*time.Second+time.Duration(i)*time.Millisecond))
				time.Sleep(time.Second)
			}
			w.called(0, 0, 0)
			w.wantPost(map[string]any{"likes": int64(1), "comments": int64(0)})
			if n := active(c); n != 0 {
				t.Errorf("%d counters are remembered", n)
			}
			w.acknowledged(edited("old", 5*time.Second))
			w.called(1, 1, 1)
			w.wantPost(map[string]any{"likes": int64(2), "comments": int64(0)})
			time.Sleep(time.Minute)
			unknown := w.unchanged(c, rollup.Event{ID: "of an unknown time"}, true)
			w.acknowledged(unknown)
			w.called(1, 1, 1)
		})
	}
}

// The documents of a deletion tell when the document was written before. How old the deletion is,
// the event's own time says.
func TestUnchangedByADeletion(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		w.store.Put("posts/7", map[string]any{})
		w.acknowledged(w.changed(c, rollup.Event{ID: "first"}))
		w.called(1, 1, 1)
		time.Sleep(time.Minute)

		written := w.store.Now().Add(-30 * time.Second)
		w.acknowledged(w.unchanged(c, rollup.Event{ID: "young", UpdateTime: written, Time: w.store.Now()}, true))
		w.called(0, 0, 0)
		w.acknowledged(w.unchanged(c, rollup.Event{ID: "old", UpdateTime: written, Time: w.store.Now().Add(-5 * time.Second)}, true))
		w.called(1, 1, 1)
	})
}

// It opens no generation of a counter that is active, and its age counts from before the look that
// tells what time it is.
func TestUnchangedDuringLooks(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		w.store.Put("posts/7", map[string]any{})
		w.duringView = func(n int32) {
			if n == 1 {
				time.Sleep(3 * time.Second)
			}
		}
		w.acknowledged(w.changed(c, rollup.Event{ID: "first"}))
		w.called(1, 1, 1)
		edit := func(id string, ago time.Duration) *delivery {
			return w.unchanged(c, rollup.Event{ID: id, UpdateTime: w.store.Now().Add(-ago)}, true)
		}
		if young := edit("young", 4*time.Second); young.held() {
			t.Error("a young one is held")
		}
		old := edit("old", 6*time.Second)
		if !old.held() {
			t.Error("an old one is acknowledged at once after a slow look")
		}
		w.acknowledged(old)
	})
}

// A slow look's answer that comes after a later one does not make an event seem older than it is.
func TestUnchangedDuringOverlappingLooks(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		w.beforeView = func(n int32) error {
			if n == 1 {
				time.Sleep(4 * time.Second)
			}
			return nil
		}
		w.duringView = func(n int32) {
			if n == 1 {
				time.Sleep(2 * time.Second)
			}
		}
		slow := w.deliver(c, "slow")
		time.Sleep(5 * time.Second)
		w.store.Put("posts/7", map[string]any{})
		w.acknowledged(w.changed(c, rollup.Event{ID: "quick"}))
		w.acknowledged(slow)
		w.looks.Store(0)
		w.acknowledged(w.unchanged(c, rollup.Event{ID: "young", UpdateTime: w.store.Now().Add(-3 * time.Second)}, true))
		if n := w.looks.Load(); n > 0 {
			t.Errorf("%d looks for a young one", n)
		}
	})
}

// No change relies on an event that changes none: another copy of that may be acknowledged at once.
func TestUnchangedIsNoAnchor(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		w.store.Put("posts/7", map[string]any{})
		w.acknowledged(w.changed(c, rollup.Event{ID: "first"}))
		event := func(id string, unchanged bool) *delivery {
			return w.unchanged(c, rollup.Event{ID: id, UpdateTime: w.store.Now().Add(-time.Minute)}, unchanged)
		}
		old, older, anchor := event("old edit", true), event("another", true), event("like", false)
		copied, absorbed, edit := event("like", false), event("another like", false), event("an edit", true)
		for name, want := range map[*delivery]bool{old: true, older: false, anchor: true, copied: true, absorbed: false, edit: false} {
			if name.held() != want {
				t.Errorf("held %v, want %v", name.held(), want)
			}
		}
		w.acknowledged(old, older, anchor, copied, absorbed, edit)
	})
	// An older one, which may be an anchor that was delivered again, relies on none that is
	// younger.
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		edit := func(id string, ago time.Duration) *delivery {
			return w.unchanged(c, rollup.Event{ID: id, UpdateTime: w.store.Now().Add(-ago)}, true)
		}
		w.store.Put("posts/7", map[string]any{})
		w.duringView = func(n int32) {
			if n == 1 {
				young, old, older, second := edit("young", 0), edit("old", time.Minute), edit("older", time.Hour), edit("older", time.Hour)
				if !young.held() || !old.held() || !older.held() || !second.held() {
					t.Errorf("held: young %v, old %v, older %v, its copy %v", young.held(), old.held(), older.held(), second.held())
				}
				if between := edit("between", time.Minute); between.held() {
					t.Error("a younger one is held")
				}
			}
		}
		w.acknowledged(edit("before any look", 0))
	})
	// When the time of either is up, both fail, and nothing is acknowledged on their account.
	for _, first := range []string{"edit", "like"} {
		inWorld(t, func(w *world, c *rollup.Coalescer) {
			w.store.Put("posts/7", map[string]any{})
			w.acknowledged(w.changed(c, rollup.Event{ID: "first"}))
			limits := map[string]time.Duration{"edit": hold, "like": hold}
			limits[first] = cadence / 2
			edit := w.deliverConcerning(limits["edit"], c, rollup.Event{ID: "edit"}, route.Concern{Counter: post7, Unchanged: true})
			like := w.deliverOf(limits["like"], c, post7, rollup.Event{ID: "like"})
			absorbed := w.changed(c, rollup.Event{ID: "absorbed"})
			if absorbed.held() {
				t.Fatal("not absorbed")
			}
			<-edit.done
			<-like.done
			if edit.err == nil || like.err == nil {
				t.Errorf("%s has no time: edit %v, like %v", first, edit.err, like.err)
			}
		})
	}
}
