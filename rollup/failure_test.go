package rollup_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firestore-tally/tally/internal/test/memstore"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

func TestConflictProvesNothing(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		w.aroundWrite = func(n int32, write func() error) error {
			if n == 1 {
				// Another's older sum lands first.
				w.store.Put(likes.RollUp, rolledUp(int64(-1), int64(0), time.Now().Add(-2*cadence)))
			}
			return write()
		}
		w.increment(1)
		w.acknowledged(w.deliver(c, "e"))
		w.wantTotal(1)
		w.called(2, 2, 2)
	})
}

func TestUnknownOutcome(t *testing.T) {
	for _, test := range []struct {
		name  string
		apply bool
		sums  int32
	}{
		{"applied", true, 1}, // the second look finds it there
		{"not applied", false, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, func(w *world, c *rollup.Coalescer) {
				var e *delivery
				w.aroundWrite = func(n int32, write func() error) error {
					if n > 1 {
						return write()
					}
					if test.apply {
						if err := write(); err != nil {
							t.Error(err)
						}
					}
					return errors.New("answer lost")
				}
				w.beforeView = func(n int32) error {
					if n == 2 && !e.held() {
						t.Error("an unknown outcome was taken for success")
					}
					return nil
				}
				w.increment(1)
				e = &delivery{done: make(chan struct{})}
				go func() {
					_, e.err = c.HandleEvent(w.t.Context(), rollup.Event{ID: "e"}, route.Concern{Counter: likes})
					close(e.done)
				}()
				w.acknowledged(e)
				w.wantTotal(1)
				w.called(2, test.sums, test.sums)
			})
		})
	}
}

func TestWriteIsNotSentLate(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		o := w.options(0)
		o.Timeout = time.Hour
		c := rollup.NewCoalescer(traced{w.store, w}, o)
		var stale any
		w.duringView = func(n int32) {
			if n == 1 {
				time.Sleep(time.Minute) // the instance is frozen with the snapshot in hand
			}
		}
		w.aroundWrite = func(n int32, write func() error) error {
			err := write()
			if n == 1 {
				stale, _ = w.rollUp()
			}
			return err
		}
		w.increment(1)
		e := w.deliverWithin(time.Hour, c, "e")
		w.increment(1)
		w.acknowledged(e)
		if stale != int64(2) {
			t.Errorf("the first write published %v, from a snapshot a minute old", stale)
		}
		w.wantTotal(2)
		w.called(2, 2, 1)
	})
}

func TestWriteMayNotTakeLongerThanItsSnapshotAllows(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		o := w.options(0)
		o.Timeout = time.Hour
		began := time.Now()
		var deadline time.Time
		c := rollup.NewCoalescer(deadlineStore{traced{w.store, w}, &deadline}, o)
		w.duringView = func(int32) { time.Sleep(20 * time.Second) }
		w.acknowledged(w.deliverWithin(time.Hour, c, "e"))
		if got := deadline.Sub(began); got != time.Minute {
			t.Errorf("the write might be sent until %v after the snapshot, want 1m0s", got)
		}
	})
}

// deadlineStore notes until when a write may take.
type deadlineStore struct {
	traced
	deadline *time.Time
}

func (s deadlineStore) Write(ctx context.Context, c route.Counter, r rollup.RollUp) error {
	*s.deadline, _ = ctx.Deadline()
	return s.traced.Write(ctx, c, r)
}

func TestDeadlineClosesGeneration(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		broken := errors.New("permission denied")
		var fixed atomic.Bool
		w.beforeView = func(int32) error {
			if fixed.Load() {
				return nil
			}
			return broken
		}
		first := w.deliver(c, "first")
		second := w.deliverWithin(2*time.Second, c, "second") // anchors the next generation
		third := w.deliver(c, "third")
		if !first.held() || !second.held() || third.held() {
			t.Fatal("want two anchors held and the third event absorbed")
		}
		<-second.done
		if !errors.Is(second.err, context.DeadlineExceeded) || !errors.Is(second.err, broken) {
			t.Errorf("got %v, want the deadline and what kept failing", second.err)
		}
		<-first.done
		if !errors.Is(first.err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the deadline", first.err)
		}
		fixed.Store(true)
		w.increment(1)
		w.acknowledged(w.deliver(c, "again"))
		w.wantTotal(1)
	})
}

// While the store fails, looks must not follow one another without a pause.
func TestFailuresBackOff(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		w.beforeView = func(int32) error { return errors.New("unavailable") }
		e := w.deliver(c, "e")
		<-e.done
		if n := w.looks.Load(); n < 5 || n > 25 {
			t.Errorf("%d looks in %v, want a few more than one a cadence", n, hold)
		}
	})
}

// A Firestore that refuses for an hour, as without a role, is logged once in ten minutes for each
// counter. Each event that fails has the reason.
func TestRefusalIsLoggedOnceInAWhile(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		refused := errors.New("permission denied")
		w.beforeView = func(int32) error { return refused }
		for began := time.Now(); time.Since(began) < time.Hour; {
			e := w.deliver(c, "e")
			<-e.done
			if !errors.Is(e.err, refused) {
				t.Fatalf("the event failed by %v", e.err)
			}
		}
		if n := strings.Count(w.log.String(), "level=WARN"); n != 6 {
			t.Errorf("%d warnings in an hour, after %d looks; want 6", n, w.looks.Load())
		}
	})
}

// A failure does not make an instance hold more events: while it lasts one generation waits and one
// is open.
func TestFewEventsAreHeldWhileLooksFail(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		w.beforeView = func(int32) error { return errors.New("unavailable") }
		var deliveries []*delivery
		for n := range 100 {
			deliveries = append(deliveries, w.deliver(c, fmt.Sprint("e", n)))
			held := 0
			for _, e := range deliveries {
				if e.held() {
					held++
				}
			}
			if held > 2 {
				t.Fatalf("%d of %d events are held", held, len(deliveries))
			}
			time.Sleep(hold / 110)
		}
		for _, e := range deliveries {
			<-e.done
		}
	})
}

func TestStoreThatNeverAnswersIsLeft(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		c := rollup.NewCoalescer(silentStore{w.store}, w.options(0))
		e := w.deliver(c, "e")
		<-e.done
		if !errors.Is(e.err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the deadline", e.err)
		}
	}) // and no goroutine is left
}

type silentStore struct{ *memstore.Store }

func (silentStore) View(ctx context.Context, _ route.Counter) (rollup.Snapshot, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// An anchor whose time is up before its generation is even closed takes it along: what comes later
// must not be absorbed by it.
func TestDeadlineOfOpenGeneration(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		w.acknowledged(w.deliver(c, "first"))
		began := time.Now()
		anchor := w.deliverWithin(cadence/4, c, "anchor") // the next look is a cadence away
		absorbed := w.deliver(c, "absorbed")
		<-anchor.done
		if waited := time.Since(began).Round(time.Millisecond); waited != cadence/4 || !errors.Is(anchor.err, context.DeadlineExceeded) || absorbed.held() {
			t.Errorf("the anchor was held for %v and ended in %v", waited, anchor.err)
		}
		w.increment(1)
		later := w.deliver(c, "later")
		if !later.held() {
			t.Fatal("absorbed by a generation whose anchor has failed")
		}
		w.acknowledged(later)
		w.wantTotal(1)
	})
}

// A copy of an anchor that has less time than the anchor fails alone.
func TestCopyWithLessTime(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		w.acknowledged(w.deliver(c, "first"))
		began := time.Now()
		anchor := w.deliver(c, "anchor")
		again := w.deliverWithin(cadence/4, c, "anchor")
		<-again.done
		if waited := time.Since(began).Round(time.Millisecond); waited != cadence/4 || !errors.Is(again.err, context.DeadlineExceeded) {
			t.Errorf("the copy was held for %v and ended in %v", waited, again.err)
		}
		if !anchor.held() {
			t.Fatal("the copy ended the anchor's wait")
		}
		w.acknowledged(anchor)
	})
}

type failingSums struct {
	traced
	n *int
}

type failingSum struct {
	rollup.Snapshot
	err error
}

func (s failingSum) Sum(ctx context.Context) (route.Totals, error) {
	return route.Totals{}, s.err
}

func (s failingSums) View(ctx context.Context, c route.Counter) (rollup.Snapshot, error) {
	*s.n++
	v, err := s.traced.View(ctx, c)
	if *s.n <= 4 {
		v = failingSum{v, errors.New("unavailable")}
	}
	return v, err
}

// A look whose sum fails is repeated, with pauses.
func TestFailureOfSum(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		n := 0
		c := rollup.NewCoalescer(failingSums{traced{w.store, w}, &n}, w.options(0))
		w.increment(1)
		began := time.Now()
		w.acknowledged(w.deliver(c, "e"))
		w.wantTotal(1)
		if looks, writes := w.looks.Load(), w.writes.Load(); looks != 5 || writes != 1 {
			t.Errorf("%d looks, %d writes; want 5, 1", looks, writes)
		}
		if waited := time.Since(began).Round(time.Millisecond); waited != 175*time.Millisecond { // half of 50, 100, 200
			t.Errorf("it waited %v", waited)
		}
	})
}

// The pauses between failures: none, then from half of 50 ms, doubled, up to the cadence; and
// afresh after a roll-up. A refusal without another's roll-up is the app's doing, and gets a pause
// at once.
func TestPausesBetweenFailures(t *testing.T) {
	for name, test := range map[string]struct {
		lost  error
		first string
	}{"unknown": {errors.New("unavailable"), "0s "}, "conflict, though Tally wrote nothing": {rollup.ErrConflict, ""}} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world, _ *rollup.Coalescer) {
				c := w.instance(0.5) // three quarters
				var mu sync.Mutex
				var at []time.Time
				fail := true
				set := func(v bool) { mu.Lock(); defer mu.Unlock(); fail, at = v, nil }
				w.aroundWrite = func(n int32, write func() error) error {
					mu.Lock()
					defer mu.Unlock()
					at = append(at, time.Now())
					if fail {
						return test.lost
					}
					return write()
				}
				gaps := func() (s string) {
					mu.Lock()
					defer mu.Unlock()
					for i := 1; i < len(at); i++ {
						s += fmt.Sprint(at[i].Sub(at[i-1]).Round(time.Microsecond), " ")
					}
					return s
				}
				e := w.deliverWithin(2*time.Minute, c, "e") // long enough for a shift to overflow
				<-e.done
				want := test.first + "37.5ms 75ms 150ms 300ms 600ms 750ms 750ms 750ms "
				if got := gaps(); !strings.HasPrefix(got, want) || !strings.HasSuffix(got, " 750ms 750ms ") {
					t.Errorf("pauses %s", got)
				}
				set(false)
				w.acknowledged(w.deliver(c, "f"))
				set(true)
				e = w.deliverWithin(hold, c, "g")
				time.Sleep(2 * cadence)
				if got := gaps(); !strings.HasPrefix(got, test.first+"37.5ms 75ms ") {
					t.Errorf("pauses after a roll-up %s", got)
				}
				set(false)
				w.acknowledged(e)
			})
		})
	}
}

// A look that succeeds ends a row of failures: the next failure is repeated at once.
func TestRowOfFailuresEnds(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		w.rollUpElsewhere()
		began := time.Now()
		w.beforeView = func(n int32) error {
			if n == 1 || n == 3 {
				return errors.New("unavailable")
			}
			return nil
		}
		w.acknowledged(w.deliver(c, "e")) // fails, finds it young, fails when due, rolls up at once
		if waited := time.Since(began).Round(time.Millisecond); waited != cadence*110/100 {
			t.Errorf("it waited %v", waited)
		}
	})
}

func TestWriteThatNeverAnswersIsLeft(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		began := time.Now()
		var deadline time.Time
		c := rollup.NewCoalescer(deadlineStore{traced{w.store, w}, &deadline}, w.options(0))
		w.acknowledged(w.deliver(c, "e"))
		if got := deadline.Sub(began).Round(time.Millisecond); got != hold {
			t.Errorf("the write might take %v, want %v", got, hold)
		}
	})
}

// An event is held no longer than Options.Hold, as an anchor or as a second copy of one.
func TestHold(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.beforeView = func(int32) error { return errors.New("no answer") }
		o := w.options(0)
		o.Hold = 3 * time.Second
		c := rollup.NewCoalescer(traced{w.store, w}, o)
		began := time.Now()
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				_, err := c.HandleEvent(context.Background(), rollup.Event{ID: "e1"}, route.Concern{Counter: likes})
				if held := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || held != o.Hold {
					t.Errorf("got %v after %v, want the deadline after %v", err, held, o.Hold)
				}
			})
		}
		all.Wait()
	})
}

// An event whose time is up fails alone. The older one, which waits for the same look, is still
// held, and fails when its own time is up. Meanwhile it is the one that the log names.
func TestYoungerGenerationFailsAlone(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		w.increment(1)
		w.rollUpElsewhere() // so the first look sums nothing
		w.beforeSum = func(int32) error {
			time.Sleep(3 * time.Second)
			return errStore
		}
		older := w.deliverWithin(6*time.Second, c, "older")
		time.Sleep(cadence / 2)
		younger := w.deliverWithin(2*time.Second, c, "younger")
		time.Sleep(2 * time.Second)
		if younger.held() || younger.err == nil || !older.held() {
			t.Fatalf("the younger event is held: %v, and failed with %v; the older is held: %v", younger.held(), younger.err, older.held())
		}

		<-older.done
		if !errors.Is(older.err, context.DeadlineExceeded) {
			t.Fatalf("the older event ended with %v, want that its time is up", older.err)
		}
		for _, want := range []string{"no roll-up of rollups/likes covered the event", "; the last attempt: unavailable"} {
			if !strings.Contains(older.err.Error(), want) {
				t.Errorf("the older event ended with %q, want it to say %q", older.err, want)
			}
		}
		time.Sleep(time.Minute) // until nothing is logged any more
		synctest.Wait()
		if strings.Contains(w.log.String(), "event_id=younger") || !strings.Contains(w.log.String(), "event_id=older") {
			t.Errorf("logged:\n%s", &w.log)
		}
	})
}
