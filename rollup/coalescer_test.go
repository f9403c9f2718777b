package rollup_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

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
				if _, err := c.HandleEvent(w.t.Context(), rollup.Event{ID: fmt.Sprint("e", i)}, route.Concern{Counter: likes}); err != nil {
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

func TestIdleCounterIsForgotten(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		for i := range 100 {
			counter := mustCounter(route.Default, fmt.Sprintf("counters/%d/shards", i))
			if _, err := c.HandleEvent(w.t.Context(), rollup.Event{ID: "e"}, route.Concern{Counter: counter}); err != nil {
				t.Fatal(err)
			}
		}
		if n := active(c); n != 100 {
			t.Errorf("%d counters active, want 100", n)
		}
		time.Sleep(2 * cadence) // until due, and one cadence more
		synctest.Wait()
		if n := active(c); n != 0 {
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
				if _, err := coalescers[i*7%instances].HandleEvent(w.t.Context(), rollup.Event{ID: fmt.Sprint("e", i)}, route.Concern{Counter: likes}); err != nil {
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

// When the last anchor's time is up during a look, nothing is summed, and no look follows.
func TestNoOneWaits(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		w.duringView = func(int32) { time.Sleep(2 * cadence) }
		e := w.deliverWithin(cadence, c, "e")
		<-e.done
		time.Sleep(time.Minute)
		w.called(1, 0, 0)
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

// The due time is counted from the receipt of the roll-up document, not from the begin of the look
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
