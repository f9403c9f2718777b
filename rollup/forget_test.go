package rollup_test

import (
	"slices"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup"
)

// An instance remembers its own roll-up for a cadence, and then it forgets the counter. That the
// cadence begins with the look's answer, not with the write's, changes nothing that can be felt:
// the back-off that a roll-up of one's own spares is over by then.

// A counter is not forgotten while a look at it is out: what comes meanwhile waits for that.
func TestCounterIsRememberedDuringALook(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		c := w.paced(cadence, 5, 0.5)
		w.waits(c, "own")
		w.beforeView = func(int32) error {
			time.Sleep(300 * time.Millisecond)
			return nil
		}
		time.Sleep(cadence - 100*time.Millisecond) // the memory ends during the look
		first := w.deliver(c, "first")
		time.Sleep(150 * time.Millisecond)
		second := w.deliver(c, "second")
		if n := w.looks.Load(); n != 2 {
			t.Errorf("%d looks, want one in addition to the first", n)
		}
		w.acknowledged(first, second)
	})
}

// A younger roll-up of one's own is remembered for its own cadence, although an older one's is
// over.
func TestYoungerRollUpIsRemembered(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		c := w.paced(cadence, 5, 0.5)
		w.waits(c, "own")
		time.Sleep(cadence - 50*time.Millisecond)
		w.waits(c, "younger")
		time.Sleep(100 * time.Millisecond)
		if got := w.waits(c, "event"); got != 0 {
			t.Errorf("it waited %v, as for another's roll-up", got)
		}
	})
}

// What an instance remembered longer, because other revisions were at work, is not taken from the
// counter that it has learned of again since.
func TestForgottenCounterIsKnownAgain(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		c := w.paced(cadence, 5, 0)
		began := time.Now()
		w.putRollUpOf("others", time.Millisecond, cadence)
		w.waits(c, "with others") // remembered for 10 cadences
		time.Sleep(2 * cadence)
		w.putRollUp(time.Minute, -time.Minute)
		w.waits(c, "alone") // remembered for one

		time.Sleep(time.Until(began.Add(10*cadence - 20*time.Millisecond)))
		w.waits(c, "again")
		time.Sleep(40 * time.Millisecond)
		if turns := document.DecodeTally(w.store.Get(likes.RollUp)["tally"]).Turns; len(turns) > 0 {
			t.Fatalf("others are at work: %v", turns)
		}
		if got := w.waits(c, "event"); got != 0 {
			t.Errorf("it waited %v, as for another's roll-up", got)
		}
	})
}

// failing has looks and sums of an instance fail that are listed, and says when it looked.
func failing(w *world, looks, sums []int32) (at func(n int) time.Duration) {
	began := time.Now()
	var times []time.Duration
	listed := func(n int32, all []int32) error {
		if slices.Contains(all, n) {
			return errStore
		}
		return nil
	}
	w.beforeView = func(n int32) error {
		times = append(times, time.Since(began))
		return listed(n, looks)
	}
	w.beforeSum = func(n int32) error { return listed(n, sums) }
	return func(n int) time.Duration { return times[n] - times[n-1] }
}

// The pauses start over after anything that shows that Firestore answers and the counter goes on.
func TestFailuresStartOver(t *testing.T) {
	const ms = time.Millisecond
	t.Run("by a good look that must wait", func(t *testing.T) {
		inWorld(t, func(w *world, _ *rollup.Coalescer) {
			c := w.paced(cadence, 5, 0.5)
			w.putRollUpOf("others", time.Millisecond, cadence, w.turn("third", -3*cadence), w.turn(likes.Template.Hash(), -2*cadence))
			gap := failing(w, []int32{2, 3, 4, 6}, nil) // the 5th finds that it is still the third's turn
			w.acknowledged(w.deliver(c, "event"))
			if got := gap(6); got != 0 {
				t.Errorf("the pause after the next failure is %v", got)
			}
		})
	})
	t.Run("by another's roll-up", func(t *testing.T) {
		inWorld(t, func(w *world, _ *rollup.Coalescer) {
			c := w.paced(cadence, 5, 0)
			w.putRollUp(time.Minute, -time.Minute)
			gap := failing(w, []int32{1, 2, 3}, []int32{1})
			w.acknowledged(w.deliver(c, "event"))
			if got := gap(4); got != 0 {
				t.Errorf("the pause after the sum's failure is %v", got)
			}
		})
	})
	t.Run("by one's own", func(t *testing.T) {
		inWorld(t, func(w *world, _ *rollup.Coalescer) {
			c := w.paced(cadence, 5, 0)
			gap := failing(w, []int32{5}, []int32{1, 2, 3})
			w.acknowledged(w.deliver(c, "event")) // by the 4th look
			w.acknowledged(w.deliver(c, "next"))
			if got := gap(5); got != 0 {
				t.Errorf("the pause after the next failure is %v", got)
			}
		})
	})
	t.Run("by the app's document that is missing", func(t *testing.T) {
		inWorld(t, func(w *world, _ *rollup.Coalescer) {
			c := w.paced(cadence, 5, 0)
			w.store.Put("posts/7", map[string]any{"title": "x"})
			w.aroundWrite = func(n int32, write func() error) error {
				if n == 1 {
					w.store.Delete("posts/7")
				}
				return write()
			}
			w.like("ann")
			w.acknowledged(w.changed(c, rollup.Event{ID: "e"})) // refused, and then missing
			began := time.Now()
			w.store.Put("posts/7", map[string]any{"title": "y"})
			w.like("bob")
			w.acknowledged(w.changed(c, rollup.Event{ID: "f"}))
			if got := time.Since(began).Round(ms); got != cadence {
				t.Errorf("the next event waited %v, want a cadence", got)
			}
		})
	})
}
