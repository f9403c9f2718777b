package rollup_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

// slowly is a counter whose cadence is longer than events can be held.
var slowly = mustCounter(route.Default+" : cadence 10s", "counters/likes/shards")

// alarmed are alarms that somebody else rings. They tell which were made.
type alarmed struct {
	mu   sync.Mutex
	made []rollup.Alarm
	make func(ctx context.Context, n int) error // before the n-th is made, from 1
}

func (a *alarmed) Create(ctx context.Context, alarm rollup.Alarm) error {
	a.mu.Lock()
	a.made = append(a.made, alarm)
	n, hook := len(a.made), a.make
	a.mu.Unlock()
	if hook != nil {
		return hook(ctx, n)
	}
	return nil
}

// last is the alarm that was made last.
func (a *alarmed) last() rollup.Alarm {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.made[len(a.made)-1]
}

// inAlarmedWorld runs f in a world whose instances can hold events for 8 s, and make alarms.
func inAlarmedWorld(t *testing.T, f func(w *world, c *rollup.Coalescer, a *alarmed)) {
	t.Helper()
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		a := new(alarmed)
		f(w, w.alarmedInstance(a, 0), a)
	})
}

func (w *world) alarmedInstance(a *alarmed, random float64) *rollup.Coalescer {
	o := w.options(random)
	o.Hold, o.Timeout, o.LongTimeout, o.Alarms = hold, hold/2, longestSum, a
	return rollup.NewCoalescer(traced{w.store, w}, o)
}

// happens has an instance take an event of a change of now.
func (w *world) happens(c *rollup.Coalescer, id string, counter route.Counter) (rollup.Ending, error) {
	return c.HandleEvent(w.t.Context(), rollup.Event{ID: id}, route.Concern{Counter: counter})
}

// deferred has an instance defer an event that follows a roll-up, and returns its alarm.
func (w *world) deferred(c *rollup.Coalescer, a *alarmed) rollup.Alarm {
	w.t.Helper()
	for n, id := range []string{"first", "second"} {
		w.increment(1)
		ending, err := w.happens(c, id, slowly)
		if err != nil || ending.Deferred != (n == 1) {
			w.t.Fatalf("event %s: %+v, %v", id, ending, err)
		}
	}
	return a.last()
}

// until sleeps until a time of the database.
func (w *world) until(t time.Time) { time.Sleep(t.Sub(w.store.Now())) }

// An event that comes right after a roll-up waits for an alarm, a cadence after it.
func TestDeferred(t *testing.T) {
	inAlarmedWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
		alarm := w.deferred(c, a)
		_, asOf := w.rollUp()
		want := rollup.Alarm{RollUp: slowly.RollUp, Routes: slowly.Template.Hash(), At: asOf.Add(10 * time.Second)}
		if alarm.At = alarm.At.Local(); alarm != want {
			t.Errorf("the alarm is %v, want %v", alarm, want)
		}
		w.called(2, 1, 1)
		w.wantTotal(1)

		w.until(alarm.At)
		ending, err := c.HandleAlarm(w.t.Context(), alarm, slowly.Template.Routes)
		if err != nil || ending.AsOf.Before(alarm.At) {
			t.Errorf("%+v, %v", ending, err)
		}
		w.called(1, 1, 1)
		w.wantTotal(2)
	})
}

// An alarm stands for an event only if it rings well after the look. Here a revision of other
// routes keeps the counter from being due although the event has been held for a while.
func TestAlarmRingsLater(t *testing.T) {
	inAlarmedWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
		counter := mustCounter(route.Default+" : cadence 2s", "counters/likes/shards")
		others := func() {
			fields := rolledUp(int64(0), 1, w.store.Now())
			tally := fields[document.TallyField].(map[string]any)
			tally["routes"] = "others"
			w.store.Put(counter.RollUp, fields)
		}
		w.increment(1)
		others()
		var last time.Time
		w.duringView = func(int32) { last = w.store.Now() }
		go func() {
			time.Sleep(1900 * time.Millisecond)
			others()
		}()

		ending, err := w.happens(c, "a", counter)
		if err != nil || !ending.Deferred {
			t.Fatalf("%+v, %v", ending, err)
		}
		if ahead := a.last().At.Sub(last); ahead < 3*time.Second {
			t.Errorf("the alarm rings %v after the look", ahead)
		}
	})
}

// While an alarm is made, its time passes. What came meanwhile is not before that time.
func TestSlowAlarm(t *testing.T) {
	inAlarmedWorld(t, func(w *world, _ *rollup.Coalescer, a *alarmed) {
		o := w.options(0)
		o.Hold, o.Timeout, o.Alarms = hold, time.Minute, a
		c := rollup.NewCoalescer(traced{w.store, w}, o)
		w.increment(1)
		if _, err := w.happens(c, "first", slowly); err != nil {
			t.Fatal(err)
		}
		a.make = func(context.Context, int) error {
			time.Sleep(11 * time.Second)
			return nil
		}
		go func() { _, _ = w.happens(c, "second", slowly) }() // its time is up before the alarm stands

		time.Sleep(10500 * time.Millisecond)
		at := w.increment(1)
		ending, err := w.happens(c, "third", slowly)
		if err != nil || ending.AsOf.Before(at) {
			t.Errorf("an event that came after the alarm's time: %+v, %v", ending, err)
		}
		w.wantTotal(2)
	})
}

// An alarm that other routes have made rings once more, and counts as a change.
func TestAlarmOfOtherRoutes(t *testing.T) {
	inAlarmedWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
		w.increment(1)
		alarm := rollup.Alarm{RollUp: slowly.RollUp, Routes: "others", At: w.store.Now()}
		ending, err := c.HandleAlarm(w.t.Context(), alarm, slowly.Template.Routes)
		if err != nil || ending.AsOf.Before(alarm.At) {
			t.Errorf("%+v, %v", ending, err)
		}
		w.wantTotal(1)
		again := rollup.Alarm{RollUp: slowly.RollUp, Routes: "others", At: alarm.At.Add(10 * time.Minute).UTC(), Last: true}
		if got := a.last(); got != again {
			t.Errorf("it rings again as %v, want %v", got, again)
		}

		w.until(again.At)
		w.increment(1)
		if _, err := c.HandleAlarm(w.t.Context(), again, slowly.Template.Routes); err != nil {
			t.Error(err)
		}
		w.wantTotal(2)
		if len(a.made) != 1 {
			t.Errorf("the last one made another: %v", a.made)
		}
	})
}

// An instance without a queue fails an alarm of other routes, for ten minutes, and counts it as a
// change all the same.
func TestAlarmWithoutAQueue(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		w.increment(1)
		alarm := rollup.Alarm{RollUp: likes.RollUp, Routes: "others", At: w.store.Now()}
		if _, err := c.HandleAlarm(w.t.Context(), alarm, likes.Template.Routes); err == nil {
			t.Error("it is done with the alarm")
		}
		w.wantTotal(1)

		time.Sleep(11 * time.Minute)
		alarm.At = w.store.Now().Add(-11 * time.Minute)
		if _, err := c.HandleAlarm(w.t.Context(), alarm, likes.Template.Routes); err != nil {
			t.Error(err)
		}
	})
}

// Without a queue, an alarm of a counter that no route keeps here is failed for ten minutes, so
// that it rings for those that may keep it. This instance has looked at nothing.
func TestAlarmWithoutAQueueOrARoute(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		alarm := rollup.Alarm{RollUp: "others/likes", Routes: "others", At: w.store.Now()}
		if _, err := c.HandleAlarm(w.t.Context(), alarm, likes.Template.Routes); err == nil {
			t.Error("it is done with the alarm")
		}

		time.Sleep(11 * time.Minute)
		if _, err := c.HandleAlarm(w.t.Context(), alarm, likes.Template.Routes); err != nil {
			t.Error(err)
		}
		w.called(0, 0, 0)
	})
}

// An alarm of a counter that no route keeps here rings once more for those that may keep it.
func TestAlarmWithoutARoute(t *testing.T) {
	inAlarmedWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
		alarm := rollup.Alarm{RollUp: "others/likes", Routes: "others", At: w.store.Now()}
		if _, err := c.HandleAlarm(w.t.Context(), alarm, slowly.Template.Routes); err != nil || !a.last().Last {
			t.Errorf("%v, made %v", err, a.made)
		}
		if _, err := c.HandleAlarm(w.t.Context(), a.last(), slowly.Template.Routes); err != nil || len(a.made) != 1 {
			t.Errorf("%v, made %v", err, a.made)
		}

		a.make = func(context.Context, int) error { return errors.New("no queue") }
		if _, err := c.HandleAlarm(w.t.Context(), alarm, slowly.Template.Routes); err == nil {
			t.Error("it is done although it could not be made again")
		}
		w.called(0, 0, 0)
	})
}

// An alarm that is not due makes the next one.
func TestAlarmThatIsNotDue(t *testing.T) {
	inAlarmedWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
		w.increment(1)
		if _, err := w.happens(c, "first", slowly); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		alarm := rollup.Alarm{RollUp: slowly.RollUp, Routes: slowly.Template.Hash(), At: w.store.Now()}
		ending, err := c.HandleAlarm(w.t.Context(), alarm, slowly.Template.Routes)
		_, asOf := w.rollUp()
		if err != nil || !ending.Deferred || !a.last().At.Equal(asOf.Add(10*time.Second)) {
			t.Errorf("%+v, %v, made %v", ending, err, a.made)
		}
	})
}

// What is due in more than a month has an alarm on a day within a month, which makes the next one
// when it rings. Instances that look on the same day make the same alarm.
func TestAlarmsReachAMonth(t *testing.T) {
	inAlarmedWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
		const day = 24 * time.Hour
		counter := mustCounter(route.Default+" : cadence 10s", "counters/likes/shards")
		counter.Template.Cadence = 70 * day // longer than a route may say
		w.store.Skew = 10 * time.Hour

		w.increment(1)
		if _, err := w.happens(c, "first", counter); err != nil {
			t.Fatal(err)
		}
		_, asOf := w.rollUp()
		for n, instance := range []*rollup.Coalescer{c, w.alarmedInstance(a, 0)} {
			w.increment(1)
			if ending, err := w.happens(instance, fmt.Sprint("later ", n), counter); err != nil || !ending.Deferred {
				t.Fatalf("%+v, %v", ending, err)
			}
			time.Sleep(time.Hour)
		}
		if len(a.made) != 2 || a.made[0] != a.made[1] {
			t.Errorf("made %v, want one alarm twice", a.made)
		}

		var days []time.Duration // from alarm to alarm
		for rung := asOf; ; {
			alarm := a.last()
			days = append(days, alarm.At.Sub(rung).Round(day)/day)
			rung = alarm.At
			w.until(rung)
			ending, err := c.HandleAlarm(w.t.Context(), alarm, counter.Template.Routes)
			if err != nil {
				t.Fatal(err)
			}
			if !ending.Deferred {
				break
			}
		}
		if want := []time.Duration{28, 28, 14}; !slices.Equal(days, want) {
			t.Errorf("the alarms are %d days apart, want %d", days, want)
		}
		if _, last := w.rollUp(); last.Sub(asOf) < counter.Template.Cadence || last.Sub(asOf) > counter.Template.Cadence+time.Second {
			t.Errorf("it is rolled up after %v, want %v", last.Sub(asOf), counter.Template.Cadence)
		}
		w.wantTotal(3)
	})
}

// Somebody runs an alarm long before its time. Events still rely on it, so only a later one may
// stand for it.
func TestAlarmByHand(t *testing.T) {
	inAlarmedWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
		w.increment(1)
		if _, err := w.happens(c, "first", slowly); err != nil {
			t.Fatal(err)
		}
		alarm := rollup.Alarm{RollUp: slowly.RollUp, Routes: slowly.Template.Hash(), At: w.store.Now().Add(time.Minute)}
		go func() {
			time.Sleep(100 * time.Millisecond)
			if ending, err := w.happens(c, "second", slowly); err != nil || !ending.Deferred {
				t.Errorf("an event meanwhile: %+v, %v", ending, err)
			}
		}()
		ending, err := c.HandleAlarm(w.t.Context(), alarm, slowly.Template.Routes)
		if err != nil || !ending.Deferred || !a.last().At.After(alarm.At) {
			t.Errorf("%+v, %v, made %v", ending, err, a.made)
		}
		if looks := w.looks.Load(); looks > 12 {
			t.Errorf("%d looks meanwhile", looks)
		}
	})
}

// An alarm that rings a moment early waits for its time.
func TestAlarmThatRingsEarly(t *testing.T) {
	inAlarmedWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
		alarm := w.deferred(c, a)
		w.until(alarm.At.Add(-700 * time.Millisecond))
		ending, err := c.HandleAlarm(w.t.Context(), alarm, slowly.Template.Routes)
		if err != nil || ending.AsOf.Before(alarm.At) || w.store.Now().Sub(alarm.At) > time.Second {
			t.Errorf("%+v, %v", ending, err)
		}
	})
}

// A counter that turns out to be unkept is done with an alarm, unless that rang too early.
func TestAlarmOfUnkeptCounter(t *testing.T) {
	inAlarmedWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
		w.beforeSum = func(int32) error { return rollup.ErrUnkept }
		now := rollup.Alarm{RollUp: slowly.RollUp, Routes: slowly.Template.Hash(), At: w.store.Now()}
		if ending, err := c.HandleAlarm(w.t.Context(), now, slowly.Template.Routes); err != nil || !ending.Unkept {
			t.Errorf("%+v, %v", ending, err)
		}

		time.Sleep(time.Hour)
		early := now
		early.At = w.store.Now().Add(time.Minute)
		go func() {
			time.Sleep(time.Second)
			_, _ = w.happens(c, "event", slowly)
		}()
		if ending, err := c.HandleAlarm(w.t.Context(), early, slowly.Template.Routes); err != nil || ending.Unkept || !a.last().At.After(early.At) {
			t.Errorf("early: %+v, %v, made %v", ending, err, a.made)
		}
	})
}

// An alarm that rings while its counter pauses because it is unkept is done only if its own time
// has come.
func TestAlarmOfAPausingCounter(t *testing.T) {
	inAlarmedWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
		w.beforeSum = func(int32) error { return rollup.ErrUnkept }
		for n := range 4 { // after which the counter pauses for 8 s
			if ending, err := w.happens(c, fmt.Sprint(n), slowly); err != nil || !ending.Unkept {
				t.Fatalf("%+v, %v", ending, err)
			}
			time.Sleep([]time.Duration{1100, 2100, 4100, 0}[n] * time.Millisecond)
		}

		w.sums.Store(0)
		alarm := rollup.Alarm{RollUp: slowly.RollUp, Routes: slowly.Template.Hash(), At: w.store.Now()}
		if ending, err := c.HandleAlarm(w.t.Context(), alarm, slowly.Template.Routes); err != nil || !ending.Unkept || w.sums.Load() != 0 {
			t.Errorf("in time: %+v, %v, after %d sums", ending, err, w.sums.Load())
		}
		alarm.At = w.store.Now().Add(5 * time.Second)
		if ending, err := c.HandleAlarm(w.t.Context(), alarm, slowly.Template.Routes); err != nil || !ending.Unkept || w.store.Now().Before(alarm.At) {
			t.Errorf("by hand: %+v, %v, %v before its time", ending, err, alarm.At.Sub(w.store.Now()))
		}
	})
}

// An alarm whose document is missing is done. Only another look at the document follows.
func TestAlarmOfMissingDocument(t *testing.T) {
	inAlarmedWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
		counter := mustCounter("posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing : cadence 10s", "posts/a/likes")
		alarm := rollup.Alarm{RollUp: counter.RollUp, Routes: counter.Template.Hash(), At: w.store.Now()}
		if ending, err := c.HandleAlarm(w.t.Context(), alarm, counter.Template.Routes); err != nil || ending.Deferred || len(a.made) != 1 || a.made[0].Missing != 1 {
			t.Errorf("%+v, %v, made %v", ending, err, a.made)
		}
		w.called(1, 0, 0)
	})
}

// An alarm does not fail with its counter. It is handed on, later each time.
func TestAlarmIsHandedOn(t *testing.T) {
	inAlarmedWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
		w.beforeView = func(int32) error { return errors.New("unavailable") }
		alarm := rollup.Alarm{RollUp: slowly.RollUp, Routes: slowly.Template.Hash(), At: w.store.Now().Truncate(time.Second)}
		var delays []time.Duration
		for range 9 {
			ending, err := c.HandleAlarm(w.t.Context(), alarm, slowly.Template.Routes)
			if err != nil || !ending.Deferred {
				t.Fatalf("%+v, %v", ending, err)
			}
			delays = append(delays, a.last().At.Sub(alarm.At))
			alarm = a.last()
			w.until(alarm.At)
		}
		want := []time.Duration{11, 21, 41, 81, 161, 321, 601, 601, 601}
		for i := range want {
			want[i] *= time.Second
		}
		if !slices.Equal(delays, want) {
			t.Errorf("it is handed on by %v, want %v", delays, want)
		}

		w.beforeView = nil
		if ending, err := c.HandleAlarm(w.t.Context(), alarm, slowly.Template.Routes); err != nil || ending.AsOf.Before(alarm.At) {
			t.Errorf("%+v, %v", ending, err)
		}

		w.beforeView = func(int32) error { return errors.New("unavailable") }
		a.make = func(context.Context, int) error { return errors.New("no queue") }
		if _, err := c.HandleAlarm(w.t.Context(), alarm, slowly.Template.Routes); err == nil {
			t.Error("it is done although no other could be made")
		}
	})
}

// An alarm of other routes that is handed on is one of these routes, and need not ring once more.
func TestAlarmOfOtherRoutesIsHandedOn(t *testing.T) {
	inAlarmedWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
		w.beforeView = func(int32) error { return errors.New("unavailable") }
		alarm := rollup.Alarm{RollUp: slowly.RollUp, Routes: "0123456789abcdef", At: w.store.Now()}
		if ending, err := c.HandleAlarm(w.t.Context(), alarm, slowly.Template.Routes); err != nil || !ending.Deferred {
			t.Errorf("%+v, %v", ending, err)
		}
		if last := a.last(); len(a.made) != 2 || last.Routes != slowly.Template.Hash() || last.Last {
			t.Errorf("made %+v, want the last of these routes", a.made)
		}
	})
}

// An alarm that rings long after its time is handed on to a time that is ahead. An instance that
// has looked at nothing yet goes by the alarm's own time, because its local clock may be wrong.
func TestOldAlarmIsHandedOn(t *testing.T) {
	for _, test := range []struct {
		looked bool
		least  time.Duration // ahead, by the database's clock
	}{{true, 10 * time.Second}, {false, -time.Hour}} {
		inAlarmedWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
			w.store.Skew = -5 * time.Hour
			if test.looked {
				w.increment(1)
				if _, err := w.happens(c, "first", likes); err != nil {
					t.Fatal(err)
				}
			}
			w.beforeView = func(int32) error { return errors.New("unavailable") }
			alarm := rollup.Alarm{RollUp: slowly.RollUp, Routes: slowly.Template.Hash(), At: w.store.Now().Add(-time.Hour)}
			if ending, err := c.HandleAlarm(w.t.Context(), alarm, slowly.Template.Routes); err != nil || !ending.Deferred {
				t.Errorf("%+v, %v", ending, err)
			}
			if ahead := a.last().At.Sub(w.store.Now()); ahead < test.least || ahead > 12*time.Second {
				t.Errorf("looked at others: %v; it is handed on to a time %v ahead", test.looked, ahead)
			}
		})
	}
}

// An alarm that was made ends a row of failures. So another look follows the first failure after it
// at once.
func TestAlarmEndsARowOfFailures(t *testing.T) {
	inAlarmedWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
		alarm := w.deferred(c, a)
		var looks []time.Time
		for n, fail := range []int{4, 1} {
			looks = nil
			w.beforeView = func(int32) error {
				looks = append(looks, time.Now())
				if len(looks) <= fail {
					return errors.New("unavailable")
				}
				return nil
			}
			e := rollup.Event{ID: fmt.Sprint(n), Time: alarm.At.Add(-2 * time.Second)} // for which the alarm does not stand
			if ending, err := c.HandleEvent(w.t.Context(), e, route.Concern{Counter: slowly}); err != nil || !ending.Deferred {
				t.Fatalf("%+v, %v", ending, err)
			}
		}
		if pause := looks[1].Sub(looks[0]); pause > time.Millisecond {
			t.Errorf("%v passed after the first failure", pause)
		}
	})
}

// An instance that knows an alarm acknowledges further events at once, until 3 s before it rings.
func TestKnownAlarm(t *testing.T) {
	inAlarmedWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
		alarm := w.deferred(c, a)
		w.called(2, 1, 1)
		w.until(alarm.At.Add(-3100 * time.Millisecond))
		if ending, err := w.happens(c, "third", slowly); err != nil || !ending.Deferred || ending.Held {
			t.Errorf("before it rings: %+v, %v", ending, err)
		}
		w.called(0, 0, 0)

		w.until(alarm.At.Add(-2900 * time.Millisecond))
		at := w.increment(1)
		if ending, err := w.happens(c, "fourth", slowly); err != nil || ending.Deferred || ending.AsOf.Before(at) {
			t.Errorf("shortly before it rings: %+v, %v", ending, err)
		}
	})
}

// An event of a later time tells an instance that its clock stood still, and so does a look at
// another counter.
func TestKnownAlarmOfAClockThatStoodStill(t *testing.T) {
	inAlarmedWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
		alarm := w.deferred(c, a)
		w.store.Skew += alarm.At.Sub(w.store.Now()) - 2*time.Second // the database's clock went on
		other := mustCounter(route.Default, "counters/others/shards")
		if _, err := w.happens(c, "other", other); err != nil {
			t.Error(err)
		}
		w.called(3, 2, 2)
		if _, err := w.happens(c, "third", slowly); err != nil {
			t.Error(err)
		}
		if w.looks.Load() == 0 {
			t.Error("the third event is deferred without a look")
		}
	})
	inAlarmedWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
		alarm := w.deferred(c, a)
		w.called(2, 1, 1)
		e := rollup.Event{ID: "third", Time: alarm.At.Add(-2 * time.Second)}
		if _, err := c.HandleEvent(w.t.Context(), e, route.Concern{Counter: slowly}); err != nil {
			t.Error(err)
		}
		w.called(1, 0, 0)
	})
}

// An instance looks again after a minute, however long the alarm stands.
func TestKnownAlarmIsLookedAtAgain(t *testing.T) {
	inAlarmedWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
		counter := mustCounter(route.Default+" : cadence 10m", "counters/likes/shards")
		for n := range 4 {
			w.increment(1)
			if _, err := w.happens(c, string(rune('a'+n)), counter); err != nil {
				t.Fatal(err)
			}
			w.called([]int32{1, 1, 0, 1}[n], []int32{1, 0, 0, 0}[n], []int32{1, 0, 0, 0}[n])
			time.Sleep([]time.Duration{0, time.Second, time.Minute, 0}[n])
		}
		if len(a.made) != 2 || a.made[1] != a.made[0] {
			t.Errorf("made %v", a.made)
		}
	})
}

// Without a queue a counter is rolled up as often as events can be held.
func TestNoQueue(t *testing.T) {
	inAlarmedWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
		a.make = func(context.Context, int) error { return errors.New("no queue") }
		began := w.store.Now()
		for n := range 10 {
			at := w.increment(1)
			ending, err := w.happens(c, string(rune('a'+n)), slowly)
			if err != nil || ending.AsOf.Before(at) {
				t.Fatalf("%+v, %v", ending, err)
			}
		}
		if took := w.store.Now().Sub(began); took > 12*time.Second || len(a.made) != 2 {
			t.Errorf("ten roll-ups took %v, and %d alarms were tried", took, len(a.made))
		}
	})
}

// A queue that refuses for an hour is logged once in ten minutes for each counter, and by each
// instance: by events, and by alarms that ring.
func TestNoQueueIsLoggedOnceInAWhile(t *testing.T) {
	inAlarmedWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
		a.make = func(context.Context, int) error { return errors.New("no queue") }
		for n := range 360 {
			w.increment(1)
			_, err := w.happens(c, fmt.Sprint(n), slowly)
			if err != nil {
				t.Fatal(err)
			}
			alarm := rollup.Alarm{RollUp: slowly.RollUp, Routes: slowly.Template.Hash(), At: w.store.Now().Add(time.Second).Truncate(time.Microsecond)}
			_, _ = c.HandleAlarm(w.t.Context(), alarm, slowly.Template.Routes) // fails if it is not due
			time.Sleep(10 * time.Second)
		}
		if n := strings.Count(w.log.String(), "level=WARN"); n < 6 || n > 8 {
			t.Errorf("%d warnings in an hour and some minutes, after %d tries:\n%s", n, len(a.made), &w.log)
		}
	})
}

// One alarm that could not be made is tried again.
func TestAlarmThatIsMadeAtTheSecondTry(t *testing.T) {
	inAlarmedWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
		a.make = func(_ context.Context, n int) error {
			if n == 1 {
				return errors.New("unavailable")
			}
			return nil
		}
		w.deferred(c, a)
		if len(a.made) != 2 {
			t.Errorf("made %v", a.made)
		}
		w.wantTotal(1)
	})
}

// The instance that the alarm reaches goes first, and those that hold events find its roll-up.
func TestAlarmGoesFirst(t *testing.T) {
	inAlarmedWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
		counter := mustCounter(route.Default+" : cadence 4s", "counters/likes/shards")
		for _, id := range []string{"first", "second"} {
			w.increment(1)
			if _, err := w.happens(c, id, counter); err != nil {
				t.Fatal(err)
			}
		}
		alarm := a.last()
		other := w.alarmedInstance(a, 0)
		w.until(alarm.At.Add(-2 * time.Second))
		w.called(2, 1, 1)

		done := make(chan struct{})
		go func() {
			defer close(done)
			if _, err := w.happens(c, "third", counter); err != nil {
				t.Error(err)
			}
		}()
		w.until(alarm.At.Add(20 * time.Millisecond))
		if _, err := other.HandleAlarm(w.t.Context(), alarm, counter.Template.Routes); err != nil {
			t.Error(err)
		}
		<-done
		w.called(3, 1, 1)
		if _, asOf := w.rollUp(); asOf.Before(alarm.At.Add(20 * time.Millisecond)) {
			t.Errorf("the other instance rolled it up %v after the alarm's time", asOf.Sub(alarm.At))
		}
	})
}
