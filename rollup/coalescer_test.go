package rollup_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/memstore"
	"github.com/firestore-tally/tally/rollup"
)

const (
	cadence = time.Second
	hold    = 8 * time.Second
)

// A world is one database, in virtual time, and what one instance does to it.
type world struct {
	t      *testing.T
	store  *memstore.Store
	log    strings.Builder
	logger *slog.Logger // writes to log

	// What the instances called, and what happens in their calls: set before the first event, n
	// counts the calls from 1.
	looks, sums, writes atomic.Int32
	beforeView          func(n int32) error
	duringView          func(n int32) // the snapshot is open
	aroundWrite         func(n int32, write func() error) error
}

// inWorld runs f in a world of its own with a coalescer in it. An hour later every goroutine must
// have ended.
func inWorld(t *testing.T, f func(w *world, c *rollup.Coalescer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, store: new(memstore.Store)}
		f(w, w.instance(0))
		time.Sleep(time.Hour)
	})
}

// instance returns another instance's coalescer, whose calls are counted all the same.
func (w *world) instance(random float64) *rollup.Coalescer {
	return rollup.NewCoalescer(traced{w.store, w}, w.options(random))
}

func (w *world) options(random float64) rollup.Options {
	if w.logger == nil { // one for all instances: they write to one log
		w.logger = slog.New(slog.NewTextHandler(&w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return rollup.Options{Cadence: cadence, Timeout: hold, Logger: w.logger, Random: func() float64 { return random }}
}

// traced is the world's store as the instance under test sees it.
type traced struct {
	*memstore.Store
	w *world
}

func (s traced) View(ctx context.Context, c rollup.Counter) (rollup.Snapshot, error) {
	n := s.w.looks.Add(1)
	if s.w.beforeView != nil {
		if err := s.w.beforeView(n); err != nil {
			return nil, err
		}
	}
	v, err := s.Store.View(ctx, c)
	if err == nil && s.w.duringView != nil {
		s.w.duringView(n)
	}
	return tracedSnapshot{v, s.w}, err
}

func (s traced) Write(ctx context.Context, c rollup.Counter, r rollup.RollUp) error {
	n := s.w.writes.Add(1)
	write := func() error { return s.Store.Write(ctx, c, r) }
	if s.w.aroundWrite != nil {
		return s.w.aroundWrite(n, write)
	}
	return write()
}

type tracedSnapshot struct {
	rollup.Snapshot
	w *world
}

func (v tracedSnapshot) Sum(ctx context.Context) (rollup.Totals, error) {
	v.w.sums.Add(1)
	return v.Snapshot.Sum(ctx)
}

// called checks what the instances have called since the last time.
func (w *world) called(looks, sums, writes int32) {
	w.t.Helper()
	if l, s, wr := w.looks.Swap(0), w.sums.Swap(0), w.writes.Swap(0); l != looks || s != sums || wr != writes {
		w.t.Errorf("got %d looks, %d sums, %d writes; want %d, %d, %d", l, s, wr, looks, sums, writes)
	}
}

var likes = mustCounter(rollup.DefaultRoute, "counters/likes/shards")

// shardsOf is the path of the collection of shards that the counter's first route sums.
func shardsOf(c rollup.Counter) string { return c.Template.Routes[0].Shards(c) }

func mustCounter(route, shards string) rollup.Counter {
	routes, err := rollup.ParseRoutes(route)
	if err != nil {
		panic(err)
	}
	c, _, ok := routes.Match(shards + "/0")
	if !ok {
		panic(shards + " is no collection of shards of " + route)
	}
	return c
}

// increment commits n to a shard of likes.
func (w *world) increment(n int64) time.Time {
	return w.store.Increment(shardsOf(likes)+"/0", "count", n)
}

// rollUp returns likes' total and as_of.
func (w *world) rollUp() (total any, asOf time.Time) {
	fields := w.store.Get(likes.RollUp)
	return fields["count"], document.DecodeTally(fields["tally"]).AsOf
}

// rolledUp returns a roll-up document of likes as it was before it said how it is paced.
func rolledUp(count any, numShards int64, asOf any) map[string]any {
	tally := document.Tally{NumShards: numShards, Routes: likes.Template.Hash(), Totals: []string{"count"}}.Encode()
	tally["as_of"] = asOf
	return map[string]any{"count": count, "tally": tally}
}

func (w *world) wantTotal(want int64) {
	w.t.Helper()
	if got, _ := w.rollUp(); got != want {
		w.t.Errorf("total is %v, want %d", got, want)
	}
}

// rollUpElsewhere is another instance that rolls likes up now.
func (w *world) rollUpElsewhere() {
	w.t.Helper()
	v, err := w.store.View(w.t.Context(), likes)
	if err != nil {
		w.t.Fatal(err)
	}
	totals, err := v.Sum(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	r := rollup.RollUp{Sums: totals.Sums, UpdateTime: v.RollUp().UpdateTime, Tally: document.Tally{
		AsOf: v.ReadTime(), NumShards: totals.NumShards(), Routes: likes.Template.Hash(), Totals: []string{"count"},
	}}
	if err := w.store.Write(w.t.Context(), likes, r); err != nil {
		w.t.Fatal(err)
	}
}

// A delivery is an event on its way through an instance.
type delivery struct {
	done chan struct{}
	err  error
}

func (w *world) deliver(c *rollup.Coalescer, eventID string) *delivery {
	return w.deliverWithin(hold, c, eventID)
}

func (w *world) deliverWithin(d time.Duration, c *rollup.Coalescer, eventID string) *delivery {
	return w.deliverEvent(d, c, rollup.Event{ID: eventID})
}

func (w *world) deliverEvent(d time.Duration, c *rollup.Coalescer, event rollup.Event) *delivery {
	return w.deliverOf(d, c, likes, event)
}

func (w *world) deliverOf(d time.Duration, c *rollup.Coalescer, counter rollup.Counter, event rollup.Event) *delivery {
	e := &delivery{done: make(chan struct{})}
	go func() {
		ctx, cancel := context.WithTimeout(w.t.Context(), d)
		defer cancel()
		_, e.err = c.Changed(ctx, counter, event)
		close(e.done)
	}()
	time.Sleep(time.Nanosecond) // virtual time moves on when every goroutine waits
	return e
}

func (e *delivery) held() bool {
	select {
	case <-e.done:
		return false
	default:
		return true
	}
}

// acknowledged waits for the delivery's end, which must be good.
func (w *world) acknowledged(deliveries ...*delivery) {
	w.t.Helper()
	for i, e := range deliveries {
		<-e.done
		if e.err != nil {
			w.t.Errorf("delivery %d of %d failed: %v", i+1, len(deliveries), e.err)
		}
	}
}

func TestLoneEventIsRolledUpAtOnce(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		began := time.Now()
		w.increment(5)
		w.acknowledged(w.deliver(c, "e1"))
		w.wantTotal(5)
		w.called(1, 1, 1)
		if waited := time.Since(began).Round(time.Millisecond); waited != 0 {
			t.Errorf("it took %v", waited)
		}
	})
}

func TestBurstIsRolledUpAtMostThrice(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		var all sync.WaitGroup
		for i := range 1000 {
			w.increment(1)
			all.Go(func() {
				if _, err := c.Changed(w.t.Context(), likes, rollup.Event{ID: fmt.Sprint("e", i)}); err != nil {
					t.Error(err)
				}
			})
			time.Sleep(cadence / 1001)
		}
		all.Wait()
		w.wantTotal(1000)
		if n := w.writes.Load(); n > 3 {
			t.Errorf("%d roll-ups, want at most 3", n)
		}
		if looks, sums := w.looks.Load(), w.sums.Load(); looks != w.writes.Load() || sums != looks {
			t.Errorf("%d looks and %d sums for %d roll-ups", looks, sums, w.writes.Load())
		}
	})
}

func TestAbsorbedEventCallsNothing(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		w.acknowledged(w.deliver(c, "first"))
		anchor := w.deliver(c, "anchor") // waits out the cadence
		w.called(1, 1, 1)
		w.increment(1)
		absorbed := w.deliver(c, "absorbed")
		if absorbed.held() || absorbed.err != nil {
			t.Fatalf("not absorbed: %v", absorbed.err)
		}
		if !anchor.held() {
			t.Fatal("the anchor was acknowledged before the roll-up")
		}
		w.called(0, 0, 0)
		w.acknowledged(anchor)
		w.wantTotal(1)
		w.called(1, 1, 1)
	})
}

func TestSecondCopyOfAnchorSharesItsOutcome(t *testing.T) {
	for _, test := range []struct {
		name string
		fail error
	}{{"good", nil}, {"bad", errors.New("unavailable")}} {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, func(w *world, c *rollup.Coalescer) {
				w.beforeView = func(n int32) error {
					if n == 1 {
						return nil
					}
					if n == 2 { // the anchor's generation is closed now, and the next absorbs
						next, closed := w.deliver(c, "next anchor"), w.deliver(c, "anchor")
						if !next.held() || !closed.held() {
							t.Error("a copy of a closed generation's anchor was not held")
						}
					}
					return test.fail
				}
				w.acknowledged(w.deliver(c, "first"))
				anchor := w.deliver(c, "anchor")
				open := w.deliver(c, "anchor")
				if !anchor.held() || !open.held() {
					t.Error("a copy of an open generation's anchor was not held")
				}
				<-anchor.done
				<-open.done
				if (anchor.err == nil) != (test.fail == nil) || (open.err == nil) != (test.fail == nil) {
					t.Errorf("anchor: %v; its copy: %v", anchor.err, open.err)
				}
			})
		})
	}
}

func TestEventDuringLookWaitsForTheNext(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		var late *delivery
		w.duringView = func(n int32) {
			if n == 1 {
				w.increment(10) // not in the open snapshot
				late = w.deliver(c, "late")
			}
		}
		w.increment(1)
		w.acknowledged(w.deliver(c, "early"))
		w.wantTotal(1)
		if !late.held() {
			t.Fatal("an event that came after the snapshot was acknowledged with it")
		}
		w.acknowledged(late)
		w.wantTotal(11)
	})
}

// The generation of an event that is newer than a roll-up must not be released by it, even if the
// event's own write is in it: it may be the anchor, delivered again, of a dead generation that had
// absorbed later writes.
func TestEventOlderThanRollUpStillWaits(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		w.increment(1)
		time.Sleep(time.Millisecond)
		w.rollUpElsewhere()
		e := w.deliver(c, "covered by as_of")
		if !e.held() {
			t.Fatal("acknowledged on a comparison with as_of")
		}
		_, before := w.rollUp()
		w.acknowledged(e)
		if _, after := w.rollUp(); !after.After(before) {
			t.Errorf("acknowledged without a later roll-up")
		}
	})
}

func TestEqualTotalsAreWritten(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		w.increment(1)
		w.acknowledged(w.deliver(c, "e1"))
		_, before := w.rollUp()
		time.Sleep(10 * cadence)
		w.acknowledged(w.deliver(c, "e2"))
		if _, after := w.rollUp(); !after.After(before) {
			t.Errorf("as_of stayed at %v", before)
		}
		w.called(2, 2, 2)
	})
}

func TestYoungRollUpIsNotSummed(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		began := time.Now()
		w.increment(1)
		w.rollUpElsewhere()
		e := w.deliver(c, "e")
		w.called(1, 0, 0)
		w.acknowledged(e)
		w.called(1, 1, 1)
		// Not its own roll-up: it waits a tenth of the cadence longer, and a random part that is 0
		// here.
		if waited := time.Since(began).Round(time.Millisecond); waited != cadence+cadence/10 {
			t.Errorf("it waited %v", waited)
		}
	})
}

func TestWaking(t *testing.T) {
	for _, test := range []struct {
		name   string
		own    bool
		random float64
		want   time.Duration
	}{
		{"the writer wakes when due", true, 0.5, cadence},
		{"another waits longer", false, 0, cadence * 110 / 100},
		{"and spreads", false, 0.5, cadence*110/100 + cadence/8},
	} {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, func(w *world, _ *rollup.Coalescer) {
				c := w.instance(test.random)
				began := time.Now()
				if test.own {
					w.acknowledged(w.deliver(c, "first"))
				} else {
					w.rollUpElsewhere()
				}
				w.acknowledged(w.deliver(c, "second"))
				if waited := time.Since(began).Round(time.Millisecond); waited != test.want {
					t.Errorf("it waited %v, want %v", waited, test.want)
				}
			})
		})
	}
}

// An instance that loses every race must still be released, by the first roll-up as of the time
// from which on it is covered, or later.
func TestCoveredFromDoesNotMove(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		w.increment(1)
		w.rollUpElsewhere()
		e := w.deliver(c, "loser") // looked: it is covered from now on
		time.Sleep(cadence)        // the other wakes first
		w.rollUpElsewhere()
		time.Sleep(cadence/10 + time.Nanosecond)
		synctest.Wait()
		if e.held() {
			t.Error("a later look moved the time from which on it is covered: the other's roll-up covers it")
		}
		w.called(2, 0, 0)
		w.acknowledged(e)
	})
}

// A roll-up as of an instant before an event is covered releases nothing.
func TestEarlierRollUpReleasesNothing(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		w.rollUpElsewhere()
		e := w.deliver(c, "e")
		_, asOf := w.rollUp()
		time.Sleep(cadence)
		// An old write lands: as of a microsecond before.
		w.store.Put(likes.RollUp, rolledUp(int64(0), int64(0), asOf.Add(-time.Microsecond)))
		time.Sleep(cadence / 10)
		w.acknowledged(e)
		if _, after := w.rollUp(); !after.After(asOf) {
			t.Error("released by a roll-up that does not cover it")
		}
	})
}

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
				go func() { _, e.err = c.Changed(w.t.Context(), likes, rollup.Event{ID: "e"}); close(e.done) }()
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

func (s deadlineStore) Write(ctx context.Context, c rollup.Counter, r rollup.RollUp) error {
	*s.deadline, _ = ctx.Deadline()
	return s.traced.Write(ctx, c, r)
}

func TestNoShardsLeft(t *testing.T) {
	for _, existed := range []bool{true, false} {
		inWorld(t, func(w *world, c *rollup.Coalescer) {
			w.increment(3)
			if existed {
				w.acknowledged(w.deliver(c, "created"))
			}
			w.store.Delete(shardsOf(likes) + "/0")
			w.acknowledged(w.deliver(c, "deleted"))
			w.wantTotal(0)
			if got := document.DecodeTally(w.store.Get(likes.RollUp)["tally"]).NumShards; got != 0 {
				t.Errorf("num_shards is %v, want 0", got)
			}
		})
	}
}

func TestInvalidAsOfIsOverwritten(t *testing.T) {
	for name, asOf := range map[string]any{"missing": nil, "text": "2026-01-01", "future": time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC)} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world, c *rollup.Coalescer) {
				w.increment(3)
				w.store.Put(likes.RollUp, rolledUp(int64(1<<40), int64(1), asOf))
				w.acknowledged(w.deliver(c, "e"))
				w.wantTotal(3)
				w.called(1, 1, 1)
				if !strings.Contains(w.log.String(), "as_of") || !strings.Contains(w.log.String(), likes.RollUp) {
					t.Errorf("not logged: %s", &w.log)
				}
			})
		})
	}
}

// One line for each roll-up, however many shards are malformed.
func TestMalformedShardsAreLogged(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		w.increment(3)
		for i := range 100 {
			w.store.Put(fmt.Sprint(shardsOf(likes), "/malformed", i), map[string]any{"count": "7"})
		}
		w.acknowledged(w.deliver(c, "e"))
		w.wantTotal(3)
		log := w.log.String()
		if strings.Count(log, "left out") != 1 || !strings.Contains(log, "count=100") ||
			!strings.Contains(log, shardsOf(likes)+"/malformed0: count is a string, not a number") || strings.Count(log, "malformed") > 5 {
			t.Errorf("want one line, with the number of malformed shards and some of them: %s", log)
		}
	})
}

func TestDeadlineClosesGeneration(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		broken := errors.New("permission denied")
		var mended atomic.Bool
		w.beforeView = func(int32) error {
			if mended.Load() {
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
		mended.Store(true)
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

// A failure is no reason to hold more events: while it lasts one generation waits and one is open.
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

func (silentStore) View(ctx context.Context, _ rollup.Counter) (rollup.Snapshot, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestIdleCounterIsForgotten(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		for i := range 100 {
			counter := mustCounter(rollup.DefaultRoute, fmt.Sprintf("counters/%d/shards", i))
			if _, err := c.Changed(w.t.Context(), counter, rollup.Event{ID: "e"}); err != nil {
				t.Fatal(err)
			}
		}
		if n := c.Active(); n != 100 {
			t.Errorf("%d counters active, want 100", n)
		}
		time.Sleep(2 * cadence) // until due, and one cadence more
		synctest.Wait()
		if n := c.Active(); n != 0 {
			t.Errorf("%d counters are still remembered", n)
		}
	})
}

func TestManyInstances(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		const instances, seconds, perSecond = 20, 20, 100
		var mu sync.Mutex
		var commits []time.Time
		w.aroundWrite = func(_ int32, write func() error) error {
			err := write()
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				commits = append(commits, time.Now())
			}
			return err
		}
		var coalescers []*rollup.Coalescer
		for i := range instances {
			coalescers = append(coalescers, w.instance(float64(i)/instances))
		}
		var all sync.WaitGroup
		for i := range seconds * perSecond {
			w.increment(1)
			all.Go(func() {
				if _, err := coalescers[i*7%instances].Changed(w.t.Context(), likes, rollup.Event{ID: fmt.Sprint("e", i)}); err != nil {
					t.Error(err)
				}
			})
			time.Sleep(time.Second / perSecond)
		}
		all.Wait()
		w.wantTotal(seconds * perSecond)
		if n := len(commits); n < seconds-1 || n > seconds+2 {
			t.Errorf("%d roll-ups by %d instances in %d cadences", n, instances, seconds)
		}
		for i := 2; i < len(commits); i++ {
			if window := commits[i].Sub(commits[i-2]); window < cadence {
				t.Errorf("three commits within %v", window)
			}
		}
	})
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

// An as_of later than the snapshot by the least there is counts as none: it must release nothing.
func TestAsOfAMicrosecondAhead(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		w.increment(3)
		v := time.Now().Add(time.Millisecond).Truncate(time.Microsecond)
		w.store.Put(likes.RollUp, rolledUp(int64(1), int64(1), v))
		w.acknowledged(w.deliver(c, "e"))
		w.wantTotal(3)
		w.called(1, 1, 1)
	})
}

// skewed is a store whose clock differs from the instance's.
type skewed struct {
	traced
	by time.Duration
}
type skewedSnapshot struct {
	rollup.Snapshot
	by time.Duration
}

func (s skewedSnapshot) ReadTime() time.Time { return s.Snapshot.ReadTime().Add(s.by) }
func (s skewed) View(ctx context.Context, c rollup.Counter) (rollup.Snapshot, error) {
	v, err := s.traced.View(ctx, c)
	return skewedSnapshot{v, s.by}, err
}

func TestClockSkew(t *testing.T) {
	for _, by := range []time.Duration{-time.Hour, time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			inWorld(t, func(w *world, _ *rollup.Coalescer) {
				store := skewed{traced{w.store, w}, by}
				one, two := rollup.NewCoalescer(store, w.options(0)), rollup.NewCoalescer(store, w.options(0))
				began := time.Now()
				w.acknowledged(w.deliver(one, "e1"))
				if _, asOf := w.rollUp(); asOf.Sub(began.Add(by)).Abs() > time.Second {
					t.Errorf("as_of %v is not by the store's clock", asOf)
				}
				e := w.deliver(two, "e2")
				w.acknowledged(e)
				if waited := time.Since(began).Round(time.Millisecond); waited != cadence*110/100 {
					t.Errorf("the second waited %v", waited)
				}
				w.called(3, 2, 2)
			})
		})
	}
}

// When the last anchor's time is up during a look, nothing is summed, and no look follows.
func TestNobodyWaits(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		w.duringView = func(int32) { time.Sleep(2 * cadence) }
		e := w.deliverWithin(cadence, c, "e")
		<-e.done
		time.Sleep(time.Minute)
		w.called(1, 0, 0)
	})
}

type failingSums struct {
	traced
	n *int
}
type failingSum struct {
	rollup.Snapshot
}

func (s failingSum) Sum(ctx context.Context) (rollup.Totals, error) {
	return rollup.Totals{}, errors.New("unavailable")
}
func (s failingSums) View(ctx context.Context, c rollup.Counter) (rollup.Snapshot, error) {
	*s.n++
	v, err := s.traced.View(ctx, c)
	if *s.n <= 4 {
		v = failingSum{v}
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

// One roll-up releases every generation that it covers, and a look closes the open one while others
// still wait.
func TestRollUpReleasesAllThatItCovers(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		w.rollUpElsewhere()
		began := time.Now()
		e1 := w.deliver(c, "e1") // its generation is closed and looked for now
		e2 := w.deliver(c, "e2") // anchors the open one
		if !e1.held() || !e2.held() {
			t.Fatal("want two anchors")
		}
		w.acknowledged(e1, e2) // one look closes e2's and writes
		w.called(2, 1, 1)
		if waited := time.Since(began).Round(time.Millisecond); waited != cadence*110/100 {
			t.Errorf("waited %v", waited)
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

func TestLogLevels(t *testing.T) {
	for _, test := range []struct {
		err  error
		want string
	}{{rollup.ErrConflict, "level=DEBUG"}, {errors.New("x"), "level=WARN"}} {
		inWorld(t, func(w *world, c *rollup.Coalescer) {
			w.aroundWrite = func(n int32, write func() error) error {
				if n == 1 {
					return test.err
				}
				return write()
			}
			w.acknowledged(w.deliver(c, "e7"))
			failed, rolledUp, _ := strings.Cut(w.log.String(), "\n")
			if !strings.Contains(failed, test.want) || !strings.Contains(failed, "event_id=e7") {
				t.Errorf("logged %s", failed)
			}
			const want = `level=DEBUG msg="rolled up" counter=rollups/likes event_id=e7 totals=map[count:0] num_shards=0 as_of=2000-`
			if strings.Count(rolledUp, "\n") != 1 || !strings.Contains(rolledUp, want) {
				t.Errorf("logged %s, want %s", rolledUp, want)
			}
		})
	}
}

func TestSpreadIsCapped(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		o := w.options(0.5)
		o.Cadence = 20 * time.Second
		c := rollup.NewCoalescer(traced{w.store, w}, o)
		w.rollUpElsewhere()
		began := time.Now()
		w.acknowledged(w.deliverWithin(time.Hour, c, "e"))
		if waited := time.Since(began).Round(time.Millisecond); waited != 22500*time.Millisecond {
			t.Errorf("waited %v", waited)
		}
	})
}

// What is due is counted from the receipt of the roll-up document, not from the begin of the look
// nor from the end of the write.
func TestDueCountsFromTheAnswer(t *testing.T) {
	for _, own := range []bool{true, false} {
		inWorld(t, func(w *world, c *rollup.Coalescer) {
			if !own {
				w.rollUpElsewhere()
			}
			began := time.Now()
			var second time.Duration
			w.beforeView = func(n int32) error {
				if n == 2 {
					second = time.Since(began).Round(time.Millisecond)
				}
				return nil
			}
			w.duringView = func(n int32) { time.Sleep(200 * time.Millisecond) }
			w.aroundWrite = func(n int32, write func() error) error {
				err := write()
				time.Sleep(300 * time.Millisecond)
				return err
			}
			w.acknowledged(w.deliver(c, "e1"))
			w.acknowledged(w.deliver(c, "e2"))
			want := 200*time.Millisecond + cadence
			if !own {
				want += cadence / 10
			}
			if second != want {
				t.Errorf("own %v: the second look began after %v, want %v", own, second, want)
			}
		})
	}
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
				_, err := c.Changed(context.Background(), likes, rollup.Event{ID: "e1"})
				if held := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || held != o.Hold {
					t.Errorf("got %v after %v, want the deadline after %v", err, held, o.Hold)
				}
			})
		}
		all.Wait()
	})
}
