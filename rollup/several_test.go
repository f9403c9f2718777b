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

// shares is another counter than likes.
var shares = mustCounter(route.Default, "counters/shares/shards")

// both are the concerns of an event of both counters.
var both = []route.Concern{{Counter: likes}, {Counter: shares}}

// A detained store has the looks at some counters do something else first.
type detained struct {
	traced
	counters []route.Counter
	first    func(context.Context) error
}

func (s detained) View(ctx context.Context, c route.Counter) (rollup.Snapshot, error) {
	if slices.Contains(s.counters, c) {
		if err := s.first(ctx); err != nil {
			return nil, err
		}
	}
	return s.traced.View(ctx, c)
}

// failing returns an instance whose looks at some counters fail.
func (w *world) failing(err error, counters ...route.Counter) *rollup.Coalescer {
	return rollup.NewCoalescer(detained{traced{w.store, w}, counters, func(context.Context) error { return err }}, w.options(0))
}

// detaining returns an instance whose looks at some counters wait for release, or for the end of
// their time.
func (w *world) detaining(counters ...route.Counter) (i *rollup.Coalescer, release func()) {
	released := make(chan struct{})
	wait := func(ctx context.Context) error {
		select {
		case <-released:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return rollup.NewCoalescer(detained{traced{w.store, w}, counters, wait}, w.options(0)), func() { close(released) }
}

// add commits an increment of a counter.
func (w *world) add(c route.Counter) time.Time {
	return w.store.Increment(shardsOf(c)+"/0", "count", 1)
}

// wantCount checks a counter's total.
func (w *world) wantCount(c route.Counter, want int64) {
	w.t.Helper()
	if got := w.store.Get(c.RollUp)["count"]; got != want {
		w.t.Errorf("%s holds %v, want %d", c.RollUp, got, want)
	}
}

// An event of two counters is acknowledged when both are done with it, and is held for the slower
// of them.
func TestEventOfTwoCounters(t *testing.T) {
	for _, slow := range []route.Counter{likes, shares} {
		inWorld(t, func(w *world, _ *rollup.Coalescer) {
			c, release := w.detaining(slow)
			w.add(likes)
			w.add(shares)
			e := w.deliverConcerning(hold, c, rollup.Event{ID: "e"}, both...)
			time.Sleep(cadence)
			if !e.held() {
				t.Errorf("acknowledged before %s is rolled up", slow.RollUp)
			}
			release()
			w.acknowledged(e)
			w.wantCount(likes, 1)
			w.wantCount(shares, 1)
		})
	}
}

// An event of no counter is acknowledged at once.
func TestEventOfNoCounter(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		if ending, err := c.HandleEvent(w.t.Context(), rollup.Event{ID: "e"}); err != nil || ending != (rollup.Ending{}) {
			t.Errorf("ended %+v, %v", ending, err)
		}
		w.called(0, 0, 0)
	})
}

// An event that is absorbed by one counter and held for another ends with the other, whatever
// becomes of what absorbed it.
func TestEventAbsorbedByOneCounter(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		c, _ := w.detaining(likes)
		w.acknowledged(w.deliverOf(hold, c, shares, rollup.Event{ID: "first"}))
		anchor := w.deliverOf(hold, c, shares, rollup.Event{ID: "anchor"})
		stands := w.deliver(c, "stands for likes")
		next := w.deliver(c, "of the next generation")
		if !anchor.held() || !stands.held() || !next.held() {
			t.Fatal("an anchor is not held")
		}

		ending, err := w.endOf(c, "e", both...)
		if err != nil || ending != (rollup.Ending{}) {
			t.Errorf("absorbed by both, it ended %+v, %v", ending, err)
		}
		w.acknowledged(anchor)
		ending, err = w.endOf(c, "f", both...)
		if err != nil || !ending.Held || ending.AsOf.IsZero() || !next.held() {
			t.Errorf("absorbed by likes, it ended %+v, %v", ending, err)
		}
		<-stands.done
	})
}

// endOf delivers an event of several counters, and returns how it ended.
func (w *world) endOf(c *rollup.Coalescer, eventID string, concerns ...route.Concern) (rollup.Ending, error) {
	ctx, cancel := context.WithTimeout(w.t.Context(), hold)
	defer cancel()
	return c.HandleEvent(ctx, rollup.Event{ID: eventID}, concerns...)
}

// An event fails if one of its counters was not rolled up in time, and closes its generations
// first: nothing more is absorbed on its account.
func TestEventFailsWithOneCounter(t *testing.T) {
	for _, slow := range []route.Counter{likes, shares} {
		inWorld(t, func(w *world, _ *rollup.Coalescer) {
			down := errors.New("unavailable")
			c := w.failing(down, slow)
			ending, err := w.endOf(c, "e", both...)
			if !errors.Is(err, down) || !strings.Contains(err.Error(), slow.RollUp) || !ending.Held || !ending.AsOf.IsZero() {
				t.Errorf("ended %+v, %v", ending, err)
			}
			if absorbs(c, likes) || absorbs(c, shares) {
				t.Error("its generations still absorb")
			}
		})
	}
}

// If one of its counters fails it before its time is up, it is held until the other is done with
// it. (Here an edit that changed nothing is the anchor, the event takes its place, and the edit's
// time is up.)
func TestEventFailsOnceAllHaveEnded(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		c, release := w.detaining(likes, shares)
		first := w.deliver(c, "first")
		edit := w.deliverConcerning(2*time.Second, c, rollup.Event{ID: "edit"}, route.Concern{Counter: likes, Unchanged: true})
		e := w.deliverConcerning(hold, c, rollup.Event{ID: "e"}, both...)
		<-edit.done
		time.Sleep(time.Nanosecond)
		if !e.held() || absorbs(c, likes) {
			t.Errorf("likes has failed it; it is held for shares: %v; likes absorbs: %v", e.held(), absorbs(c, likes))
		}

		w.add(shares)
		release()
		<-e.done
		if e.err == nil {
			t.Error("the event did not fail")
		}
		w.wantCount(shares, 1)
		w.acknowledged(first)
	})
}

// A copy of an event joins it while any of its counters still waits. The copy starts nothing for
// the counters that are done, and has the same end.
func TestCopyJoinsUntilAllCountersAreDone(t *testing.T) {
	for _, fails := range []bool{false, true} {
		inWorld(t, func(w *world, _ *rollup.Coalescer) {
			c, release := w.detaining(shares)
			e := w.deliverConcerning(hold, c, rollup.Event{ID: "e"}, both...)
			time.Sleep(cadence) // likes is done with it
			w.called(1, 1, 1)

			again := w.deliverConcerning(2*hold, c, rollup.Event{ID: "e"}, both...)
			third := w.deliverConcerning(2*hold, c, rollup.Event{ID: "e"}, both...)
			if !again.held() || !third.held() || absorbs(c, likes) {
				t.Errorf("the copies are held: %v, %v; one is an anchor: %v", again.held(), third.held(), absorbs(c, likes))
			}
			w.called(0, 0, 0)

			if !fails {
				release()
			}
			<-e.done
			<-again.done
			<-third.done
			for _, d := range []*delivery{e, again, third} {
				if failed := d.err != nil; failed != fails {
					t.Errorf("ended with %v", d.err)
				}
			}
		})
	}
}

// A copy joins even if it is about other counters than the copy before it, as one does that has no
// room for its document.
func TestCopyOfOtherCountersJoins(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		c, release := w.detaining(shares)
		e := w.deliverConcerning(hold, c, rollup.Event{ID: "e"}, route.Concern{Counter: shares})
		again := w.deliverConcerning(hold, c, rollup.Event{ID: "e"}, route.Concern{Counter: likes})
		time.Sleep(cadence)
		if !e.held() || !again.held() || absorbs(c, likes) {
			t.Error("the copy did not join")
		}
		release()
		w.acknowledged(e, again)
	})
}

// A copy whose own time is up fails alone.
func TestCopyFailsAlone(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		c, release := w.detaining(shares)
		e := w.deliverConcerning(hold, c, rollup.Event{ID: "e"}, both...)
		time.Sleep(cadence)
		again := w.deliverConcerning(cadence, c, rollup.Event{ID: "e"}, both...)
		third := w.deliverConcerning(hold, c, rollup.Event{ID: "e"}, both...)
		<-again.done
		if again.err == nil || !e.held() || !third.held() {
			t.Errorf("the copy ended with %v; the event is held: %v, the third: %v", again.err, e.held(), third.held())
		}
		release()
		w.acknowledged(e, third)
	})
}

// A history that lost a change while copies were answered for each counter apart. E is of likes and
// shares; likes is done with it, shares not yet. Its copy must not become an anchor of likes: it
// would stand for Z, be acknowledged with E, and die with its process.
func TestCopyStandsForNothing(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		c, release := w.detaining(shares)
		e := w.deliverConcerning(hold, c, rollup.Event{ID: "E"}, both...)
		time.Sleep(cadence / 10) // likes is done with it
		w.called(1, 1, 1)

		again := w.deliverConcerning(hold, c, rollup.Event{ID: "E"}, both...)
		w.add(likes)
		z := w.deliver(c, "Z")
		release()
		w.acknowledged(e) // which ends its copies
		total, _ := w.rollUp()
		if total != int64(1) && !z.held() { // if the process dies now
			t.Errorf("Z is acknowledged, the total is %v, and nothing stands for it", total)
		}
		w.acknowledged(again, z)
		w.wantTotal(1)
	})
}

// One counter that cannot be rolled up does not keep the event from the other, nor fail it.
func TestUnkeptForOneOfTwo(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		c := w.failing(errFull, likes)
		w.add(shares)
		ending, err := w.endOf(c, "e", both...)
		if err != nil || !ending.Unkept || !ending.Held || ending.AsOf.IsZero() {
			t.Errorf("ended %+v, %v", ending, err)
		}
		w.wantCount(shares, 1)

		// In the pause that likes makes, shares is rolled up as ever.
		w.add(shares)
		ending, err = w.endOf(c, "f", both...)
		if err != nil || !ending.Unkept || !ending.Held || ending.AsOf.IsZero() {
			t.Errorf("in the pause: ended %+v, %v", ending, err)
		}
		w.wantCount(shares, 2)
	})
}

// An event that changes no total of one counter costs that one nothing, and is held for the other.
func TestUnchangedForOneOfTwo(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		w.acknowledged(w.deliver(c, "first"))
		time.Sleep(time.Minute)
		w.called(1, 1, 1)

		event := rollup.Event{ID: "e", UpdateTime: w.add(shares)}
		w.acknowledged(w.deliverConcerning(hold, c, event, route.Concern{Counter: likes, Unchanged: true}, route.Concern{Counter: shares}))
		w.called(1, 1, 1)
		w.wantCount(shares, 1)
	})
}

// An event without its documents has only the counters noted that it may be a roll-up of.
func TestOnlyUntoldIsNoted(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		w.add(shares)
		w.acknowledged(w.deliverConcerning(hold, c, rollup.Event{ID: "e"}, route.Concern{Counter: likes, Circular: true, Untold: true}, route.Concern{Counter: shares}))
		note, err := w.store.LoadNote(w.t.Context(), "note-counters")
		if _, named := note.Counters[likes.RollUp]; err != nil || !named || len(note.Counters) != 1 {
			t.Errorf("noted %v, %v; want %s alone", note.Counters, err, likes.RollUp)
		}
	})
}
