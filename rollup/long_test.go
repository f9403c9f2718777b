package rollup_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup"
)

// rings has an alarm ring at an instance when its time comes, which must be done with it.
func (w *world) rings(c *rollup.Coalescer, alarm rollup.Alarm) rollup.Ending {
	w.t.Helper()
	w.until(alarm.At)
	ending, err := c.HandleAlarm(w.t.Context(), alarm, likes.Template.Routes)
	if err != nil {
		w.t.Error(err)
	}
	return ending
}

// defersAtOnce has an instance take an event, which must be deferred without a wait, and returns
// its alarm.
func (w *world) defersAtOnce(c *rollup.Coalescer, a *alarmed, id string) rollup.Alarm {
	w.t.Helper()
	w.increment(1)
	began := time.Now()
	ending, err := w.happens(c, id, likes)
	if took := time.Since(began); err != nil || !ending.Deferred || took > time.Millisecond {
		w.t.Errorf("event %s: %+v, %v, after %v", id, ending, err, took)
	}
	return a.last()
}

// Each sum takes longer than it may take while events are held. No event fails, and only the first
// one is held until that is known. An alarm waits for the sum.
func TestSumIsCutOff(t *testing.T) {
	inAlarmedWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
		w.sumTakes = 5 * time.Second
		w.increment(1)
		began := time.Now()
		ending, err := w.happens(c, "first", likes)
		if held := time.Since(began); err != nil || !ending.Deferred || held > 5*time.Second {
			t.Fatalf("%+v, %v, after %v", ending, err, held)
		}
		w.called(2, 1, 0)

		alarm := a.last()
		if ending := w.rings(c, alarm); ending.AsOf.Before(alarm.At) {
			t.Errorf("%+v", ending)
		}
		w.called(1, 1, 1)
		w.wantTotal(1)

		// The roll-up says how long its sum took. So another instance does not try.
		time.Sleep(time.Minute)
		other := w.alarmedInstance(a, 0)
		alarm = w.defersAtOnce(other, a, "second")
		w.called(1, 0, 0)
		w.rings(other, alarm)
		w.called(1, 1, 1)
		w.wantTotal(2)

		// Once sums are quick again, it is as any other counter.
		w.sumTakes = 0
		time.Sleep(time.Minute)
		w.rings(c, w.defersAtOnce(c, a, "third"))
		time.Sleep(time.Minute)
		at := w.increment(1)
		if ending, err := w.happens(c, "fourth", likes); err != nil || ending.AsOf.Before(at) {
			t.Errorf("%+v, %v", ending, err)
		}
	})
}

// A sum for which events wait can take up to the time-out. If it takes more than a quarter of the
// hold limit, no event waits for the next one.
func TestSumIsLong(t *testing.T) {
	for _, test := range []struct {
		takes time.Duration
		long  bool
	}{{1900 * time.Millisecond, false}, {2100 * time.Millisecond, true}} {
		inAlarmedWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
			w.sumTakes = test.takes
			for n := range 2 {
				w.increment(1)
				ending, err := w.happens(c, fmt.Sprint(n), likes)
				if deferred := n == 1 && test.long; err != nil || ending.Deferred != deferred {
					t.Errorf("event %d, %v: %+v, %v", n, test.takes, ending, err)
				}
				time.Sleep(time.Minute)
			}
		})
	}
}

// While an instance takes a long sum, it defers the events that come, and is done with each at
// once. They are covered by the next sum.
func TestEventsDuringALongSum(t *testing.T) {
	inAlarmedWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
		asOf := w.putSlow(20_000, 30*time.Second)
		w.sumTakes = 30 * time.Second
		alarm := w.defersAtOnce(c, a, "first")
		done := make(chan rollup.Ending)
		go func() { done <- w.rings(c, alarm) }()
		w.until(alarm.At.Add(time.Second))

		for n := range 25 {
			w.defersAtOnce(c, a, fmt.Sprint("event ", n))
			time.Sleep(time.Second)
		}
		if _, is := w.rollUp(); !is.Equal(asOf) {
			t.Error("it is rolled up too early")
		}
		if ending := <-done; ending.AsOf.Before(alarm.At) {
			t.Errorf("the alarm: %+v", ending)
		}
		if sums := w.sums.Load(); sums != 1 {
			t.Errorf("%d sums", sums)
		}
		w.wantTotal(1)
		if made := len(slices.CompactFunc(slices.Clone(a.made), func(a, b rollup.Alarm) bool { return a == b })); made > 4 {
			t.Errorf("%d alarms were made for 26 events", made)
		}

		w.rings(c, a.last())
		w.wantTotal(26)
	})
}

// A long sum covers what came before its look, and nothing that comes while another look is under
// way.
func TestLongSumCoversNoLaterEvent(t *testing.T) {
	inAlarmedWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
		var slow atomic.Bool
		w.duringView = func(int32) {
			if slow.Load() {
				time.Sleep(2 * time.Second)
			}
		}
		w.putSlow(20_000, 30*time.Second)
		w.sumTakes = 30 * time.Second
		alarm := w.defersAtOnce(c, a, "first")
		go w.rings(c, alarm)
		w.until(alarm.At.Add(29 * time.Second))

		slow.Store(true) // the sum ends meanwhile
		at := w.increment(1)
		ending, err := w.happens(c, "second", likes)
		if err != nil || !ending.Deferred && ending.AsOf.Before(at) {
			t.Errorf("%+v, %v", ending, err)
		}
		if _, asOf := w.rollUp(); asOf.Before(alarm.At) {
			t.Error("the sum has not ended")
		}
		if last := a.last().At; !last.After(at) {
			t.Errorf("its alarm is of %v, and it came at %v", last, at)
		}
		slow.Store(false)
		w.rings(c, a.last())
		w.wantTotal(2)
	})
}

// After a long sum has failed, its instance does not sum the counter for a minute, and twice as
// long each further time. Alarms and events are deferred to the end of that rest.
func TestLongSumFails(t *testing.T) {
	inAlarmedWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
		w.putSlow(20_000, 30*time.Second)
		w.sumTakes = time.Minute
		alarm := w.defersAtOnce(c, a, "first")
		var delays []time.Duration
		for n := range 8 {
			w.sums.Store(0)
			if ending := w.rings(c, alarm); !ending.Deferred {
				t.Errorf("%+v", ending)
			}
			failed := w.store.Now()
			next := a.last()
			time.Sleep(next.At.Sub(failed) * 3 / 4)
			if event := w.defersAtOnce(c, a, fmt.Sprint("event ", n)); event != next {
				t.Errorf("the alarm is deferred to %v, and an event to %v", next.At, event.At)
			}
			if sums := w.sums.Load(); sums != 1 {
				t.Errorf("%d sums", sums)
			}
			alarm = next
			delays = append(delays, next.At.Sub(failed).Round(10*time.Second)/time.Second)
		}
		if want := []time.Duration{60, 120, 240, 480, 600, 600, 600, 600}; !slices.Equal(delays, want) {
			t.Errorf("the next sum is %d s later, want %d", delays, want)
		}

		w.sumTakes = 30 * time.Second
		if ending := w.rings(c, alarm); ending.AsOf.Before(alarm.At) {
			t.Errorf("%+v", ending)
		}
		w.wantTotal(9)
	})
}

// An event that comes shortly before the alarm to which others were deferred while the counter
// rests has a later one.
func TestEventsWhileALongSumRests(t *testing.T) {
	inAlarmedWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
		w.putSlow(20_000, 30*time.Second)
		w.sumTakes = time.Minute
		w.rings(c, w.defersAtOnce(c, a, "first"))
		next := a.last()
		w.until(next.At.Add(-2 * time.Second))
		last := w.defersAtOnce(c, a, "second")
		if ahead := last.At.Sub(w.store.Now()); ahead < 3*time.Second {
			t.Errorf("its alarm is %v ahead", ahead)
		}
	})
}

// An alarm that rings while an event waits for a look is not deferred with it.
func TestAlarmAndEventTogether(t *testing.T) {
	inAlarmedWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
		w.putSlow(20_000, 30*time.Second)
		w.sumTakes = 30 * time.Second
		alarm := w.defersAtOnce(c, a, "first")
		w.until(alarm.At)
		w.looks.Store(0)
		w.beforeView = func(n int32) error { // so that both wait for the third look
			if n <= 2 {
				return errors.New("unavailable")
			}
			return nil
		}
		go func() {
			if ending, err := w.happens(c, "second", likes); err != nil || !ending.Deferred {
				t.Errorf("%+v, %v", ending, err)
			}
		}()
		time.Sleep(time.Millisecond)
		if ending := w.rings(c, alarm); ending.AsOf.Before(alarm.At) {
			t.Errorf("%+v", ending)
		}
		w.called(3, 1, 1)
	})
}

// If a long sum fails for a reason that no retry fixes, the counter is unkept.
func TestLongSumOfUnkeptCounter(t *testing.T) {
	inAlarmedWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
		w.putSlow(20_000, 30*time.Second)
		alarm := w.defersAtOnce(c, a, "first")
		w.beforeSum = func(int32) error { return rollup.ErrUnkept }
		if ending := w.rings(c, alarm); !ending.Unkept {
			t.Errorf("%+v", ending)
		}
	})
}

// An alarm that rings while another instance sums is deferred until that has ended.
func TestLongSumIsClaimed(t *testing.T) {
	inAlarmedWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
		w.putSlow(20_000, 30*time.Second)
		w.sumTakes = 30 * time.Second
		first := w.defersAtOnce(c, a, "first")
		go w.rings(c, first)
		w.until(first.At.Add(time.Second))

		other := w.alarmedInstance(a, 0)
		second := w.defersAtOnce(other, a, "second")
		began := time.Now()
		if ending := w.rings(other, second); !ending.Deferred || time.Since(began) > second.At.Sub(first.At)+time.Millisecond {
			t.Errorf("%+v", ending)
		}
		third := a.last()
		if wait := third.At.Sub(first.At); wait < 30*time.Second || wait > 36*time.Second {
			t.Errorf("it is deferred by %v", wait)
		}
		w.rings(other, third)
		if sums := w.sums.Load(); sums != 2 {
			t.Errorf("%d sums", sums)
		}
		w.wantTotal(2)
	})
}

// The app edits its document while a long sum is under way. The sum is not lost.
func TestLongSumOfADocumentThatTheAppEdits(t *testing.T) {
	inAlarmedWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
		counter := mustCounter("posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing", "posts/a/likes")
		w.store.Put(counter.RollUp, map[string]any{"title": "a"})
		w.store.Put("posts/a/likes/ann", map[string]any{"at": int64(1)})
		w.sumTakes = 20 * time.Second
		if ending, err := w.happens(c, "first", counter); err != nil || !ending.Deferred {
			t.Fatalf("%+v, %v", ending, err)
		}
		w.sums.Store(0)

		alarm := a.last()
		w.until(alarm.At)
		go func() {
			for range 30 {
				time.Sleep(time.Second)
				w.store.Increment(counter.RollUp, "views", 1)
			}
		}()
		ending, err := c.HandleAlarm(w.t.Context(), alarm, counter.Template.Routes)
		if err != nil || ending.AsOf.Before(alarm.At) {
			t.Errorf("%+v, %v", ending, err)
		}
		if sums := w.sums.Load(); sums != 1 || w.store.Get(counter.RollUp)["likes"] != int64(1) {
			t.Errorf("%d sums, %v", sums, w.store.Get(counter.RollUp))
		}
	})
}

// If no alarm can be made while a long sum is under way, events wait for it, and the instance does
// not look all the time.
func TestLongSumWithoutAQueue(t *testing.T) {
	inAlarmedWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
		w.putSlow(20_000, 30*time.Second)
		w.sumTakes = 6 * time.Second
		alarm := w.defersAtOnce(c, a, "first")
		go w.rings(c, alarm)
		w.until(alarm.At.Add(time.Second))

		a.make = func(context.Context, int) error { return errors.New("no queue") }
		w.looks.Store(0)
		at := w.increment(1)
		if ending, err := w.happens(c, "second", likes); err != nil || ending.AsOf.Before(at) {
			t.Logf("%+v, %v", ending, err) // its own sum takes too long
		}
		if looks := w.looks.Load(); looks > 12 {
			t.Errorf("%d looks", looks)
		}
	})
}

// A sum that takes longer than any may is never tried while an event waits, however long that goes
// on, although no roll-up says how long it takes.
func TestSumIsCutOffForLong(t *testing.T) {
	inAlarmedWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
		w.sumTakes = time.Hour
		w.increment(1)
		if ending, err := w.happens(c, "first", likes); err != nil || !ending.Deferred {
			t.Fatalf("%+v, %v", ending, err)
		}
		began := time.Now()
		for n := 0; time.Since(began) < time.Hour; n++ {
			alarm := a.last()
			if ahead := alarm.At.Sub(w.store.Now()); ahead > 2*time.Minute {
				time.Sleep(ahead - time.Minute)
				w.defersAtOnce(c, a, fmt.Sprint("event ", n))
			}
			rung := make(chan struct{})
			go func() {
				defer close(rung)
				w.rings(c, alarm)
			}()
			w.until(alarm.At.Add(time.Second))
			w.defersAtOnce(c, a, fmt.Sprint("event of the sum ", n))
			<-rung
		}
	})
}

// An alarm that waits for a long sum makes no other alarm meanwhile.
func TestLongSumMakesNoAlarm(t *testing.T) {
	inAlarmedWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
		w.putSlow(20_000, 30*time.Second)
		w.sumTakes = 30 * time.Second
		alarm := w.defersAtOnce(c, a, "first")
		time.Sleep(2 * time.Minute)
		made := len(a.made)
		if ending := w.rings(c, alarm); ending.AsOf.Before(alarm.At) || len(a.made) != made {
			t.Errorf("%+v; made %v", ending, a.made[made:])
		}
	})
}

// Events of a counter whose sums are long and whose cadence is longer are deferred to when it is
// due.
func TestLongSumThatIsNotDue(t *testing.T) {
	inAlarmedWorld(t, func(w *world, _ *rollup.Coalescer, a *alarmed) {
		o := w.options(0)
		o.Hold, o.Timeout, o.LongTimeout, o.Alarms, o.Cadence = hold, hold/2, longestSum, a, time.Hour
		c := rollup.NewCoalescer(traced{w.store, w}, o)
		asOf := w.store.Now().Truncate(time.Microsecond).Add(-time.Minute)
		w.store.Put(likes.RollUp, map[string]any{"count": int64(0), "tally": document.Tally{
			AsOf: asOf, NumShards: 20_000, PacedUntil: asOf.Add(time.Hour), Routes: likes.Template.Hash(), Totals: []string{"count"}, Took: 30 * time.Second,
		}.Encode()})
		alarm := w.defersAtOnce(c, a, "first")
		if !alarm.At.Equal(asOf.Add(time.Hour)) {
			t.Errorf("it is deferred to %v, want %v", alarm.At, asOf.Add(time.Hour))
		}
	})
}
