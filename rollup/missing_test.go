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

	"github.com/firestore-tally/tally/rollup"
)

// awaited are the alarms that were made because a document is missing: how long after now each
// rings.
func (a *alarmed) awaited() (numbers []int, after []time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, alarm := range a.made {
		if alarm.Missing > 0 {
			numbers = append(numbers, alarm.Missing)
			after = append(after, time.Until(alarm.At))
		}
	}
	a.made = nil
	return numbers, after
}

// queueing returns an instance that makes its alarms in a queue.
func (w *world) queueing(queue *alarmed) *rollup.Coalescer {
	o := w.options(0)
	o.Timeout, o.Hold, o.Alarms = hold/2, hold, queue
	return rollup.NewCoalescer(traced{w.store, w}, o)
}

// A shop that is created after its orders, and after their events, gets its totals from an alarm: a
// minute after a look found it missing, ten minutes after that, or an hour after that, each up to
// half as long later. One that rings early makes no other. After the third, none is made any more.
func TestDocumentIsCreatedLater(t *testing.T) {
	waits := []time.Duration{time.Minute, 10 * time.Minute, time.Hour}
	for created := range 5 {
		inWorld(t, func(w *world, _ *rollup.Coalescer) {
			queue := new(alarmed)
			c := w.queueing(queue)
			shop, _ := byShop.Counter("shops/a")

			w.store.Put("orders/1", map[string]any{"shop": "a"})
			w.acknowledged(w.deliverOf(hold, c, shop, rollup.Event{ID: "order"}))
			for n := range waits {
				numbers, after := queue.awaited()
				if len(numbers) != 1 || numbers[0] != n+1 || after[0] > waits[n]*3/2 || after[0] < waits[n]-time.Second {
					t.Fatalf("alarms %v were made, ringing in %v; want number %d in %v", numbers, after, n+1, waits[n])
				}
				at := w.store.Now().Add(after[0]).Truncate(time.Microsecond)
				time.Sleep(after[0] - time.Second)
				rings := make(chan error, 1)
				go func() {
					_, err := c.HandleAlarm(w.t.Context(), rollup.Alarm{RollUp: shop.RollUp, Routes: shop.Template.Hash(), At: at, Missing: n + 1}, byShop)
					rings <- err
				}()
				time.Sleep(time.Second / 2)
				if numbers, _ := queue.awaited(); len(numbers) != 0 {
					t.Errorf("alarm %d rang early, and alarms %v were made", n+1, numbers)
				}
				if created == n {
					w.store.Put("shops/a", map[string]any{"name": "A"})
				}
				if err := <-rings; err != nil {
					t.Fatalf("alarm %d: %v", n+1, err)
				}
				if created == n {
					break
				}
			}

			if numbers, _ := queue.awaited(); len(numbers) != 0 {
				t.Errorf("then alarms %v were made", numbers)
			}
			if got := w.store.Get("shops/a")["orders"]; created < 3 && got != int64(1) || created >= 3 && got != nil {
				t.Errorf("created before alarm %d: the shop has %v orders", created+1, got)
			}
		})
	}
}

// refuses is a queue that refuses for a while from now on.
func refuses(lasts time.Duration) *alarmed {
	until := time.Now().Add(lasts)
	return &alarmed{make: func(context.Context, int) error {
		if time.Now().Before(until) {
			return errors.New("refused")
		}
		return nil
	}}
}

// A document is created later, and its totals come, although the queue refused when it was missed:
// for a moment, so that the next try makes the alarm, or for longer, so that the calls of the
// schedule look for the document as long as alarms would.
func TestQueueRefusesWhileDocumentIsMissing(t *testing.T) {
	for _, test := range []struct {
		refuses, created time.Duration
		alarm            bool
	}{
		{50 * time.Millisecond, 30 * time.Second, true},
		{time.Hour, 30 * time.Second, false},
		{time.Hour, 45 * time.Minute, false},
		{time.Hour, 24 * time.Hour, false},
	} {
		inWorld(t, func(w *world, _ *rollup.Coalescer) {
			audit := func() {
				o := w.auditOptions()
				o.Cycle = func(int64) time.Duration { return 24 * time.Hour }
				if _, err := rollup.Audit(w.t.Context(), w.store, byShop, o); err != nil {
					t.Fatal(err)
				}
			}
			for range 3 { // then no cycle is due
				audit()
				time.Sleep(10 * time.Minute)
			}

			queue := refuses(test.refuses)
			c := w.queueing(queue)
			shop, _ := byShop.Counter("shops/a")
			w.store.Put("orders/1", map[string]any{"shop": "a"})
			w.acknowledged(w.deliverOf(hold, c, shop, rollup.Event{ID: "order"}))
			if numbers, _ := queue.awaited(); len(numbers) != 2 {
				t.Errorf("refused for %v: %d tries of the alarm, want two", test.refuses, len(numbers))
			}

			created := time.AfterFunc(test.created, func() { w.store.Put("shops/a", map[string]any{"name": "A"}) })
			defer created.Stop()
			for range 12 {
				notes, err := w.store.Notes(w.t.Context(), "", 10)
				if err != nil || test.alarm && len(notes) > 0 {
					t.Fatalf("notes %v, %v", notes, err)
				}
				audit()
				time.Sleep(10 * time.Minute)
			}
			if got := w.store.Get("shops/a")["orders"]; !test.alarm && test.created < time.Hour && got != int64(1) {
				t.Errorf("refused for %v, created after %v: the shop has %v orders", test.refuses, test.created, got)
			}
			if notes, _ := w.store.Notes(w.t.Context(), "", 10); len(notes) > 0 {
				t.Errorf("notes stay: %+v", notes)
			}
		})
	}
}

// A document that goes again gets its first alarm again, although the first one's name may still be
// taken. Events that come in a row share theirs.
func TestMissingAgain(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		queue := new(alarmed)
		c := w.queueing(queue)
		shop, _ := byShop.Counter("shops/a")
		made := make(map[rollup.Alarm]bool)
		for n := range 240 {
			w.store.Put("orders/1", map[string]any{"shop": "a", "n": n})
			w.acknowledged(w.deliverOf(hold, c, shop, rollup.Event{ID: fmt.Sprint("order ", n)}))
			for _, a := range queue.made {
				made[a] = true
			}
			ahead := slices.ContainsFunc(queue.made, func(a rollup.Alarm) bool { return a.At.After(w.store.Now().Add(50 * time.Second)) })
			if !ahead {
				t.Fatalf("order %d: no alarm rings within the next minute", n)
			}
			queue.made = nil
			time.Sleep(5 * time.Second)
		}
		if n := len(made); n < 20 || n > 42 {
			t.Errorf("%d alarms in twenty minutes, want one in half a minute at most", n)
		}
	})
}

// However many alarms wait for a look, it makes one for the missing document.
func TestManyAlarmsAwaitADocument(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		queue := new(alarmed)
		c := w.queueing(queue)
		shop, _ := byShop.Counter("shops/a")
		w.store.Put("orders/1", map[string]any{"shop": "a"})

		var ringing sync.WaitGroup
		for n := range 50 {
			at := w.store.Now().Truncate(time.Microsecond).Add(-time.Duration(n) * time.Second)
			ringing.Go(func() {
				ending, err := c.HandleAlarm(w.t.Context(), rollup.Alarm{RollUp: shop.RollUp, Routes: shop.Template.Hash(), At: at}, byShop)
				if err != nil || ending.Deferred {
					t.Errorf("alarm %d: %+v, %v", n, ending, err)
				}
			})
		}
		ringing.Wait()

		// The first look may begin before the last alarm has come.
		if numbers, _ := queue.awaited(); len(numbers) == 0 || len(numbers) > 2 {
			t.Errorf("alarms %v were made, want one for each of at most two looks", numbers)
		}
	})
}

// Events of a document that never exists make the first alarm only. If it cannot be made, or there
// is no queue, they are acknowledged all the same.
func TestDocumentIsNeverCreated(t *testing.T) {
	for _, test := range []struct {
		name   string
		queue  *alarmed
		logged bool
	}{
		{"a queue", new(alarmed), false},
		{"a queue that refuses", &alarmed{make: func(context.Context, int) error { return errors.New("refused") }}, true},
		{"no queue", nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, func(w *world, c *rollup.Coalescer) {
				if test.queue != nil {
					c = w.queueing(test.queue)
				}
				shop, _ := byShop.Counter("shops/a")
				for n := range 5 {
					w.store.Put("orders/1", map[string]any{"shop": "a"})
					w.acknowledged(w.deliverOf(hold, c, shop, rollup.Event{ID: fmt.Sprint("order ", n)}))
					time.Sleep(5 * time.Second)
				}
				if test.queue != nil {
					for i, alarm := range test.queue.made {
						if alarm.Missing != 1 || alarm.Salt != "" {
							t.Errorf("alarm %d is %+v, want one that all events share", i, alarm)
						}
					}
				}
				if told := strings.Count(w.log.String(), "no alarm could be made"); (told == 1) != test.logged {
					t.Errorf("told %d times:\n%s", told, &w.log)
				}
			})
		})
	}
}
