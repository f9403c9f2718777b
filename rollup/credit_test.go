package rollup_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

// paced returns an instance's coalescer of another pace than the world's.
func (w *world) paced(cadence time.Duration, burst int, random float64) *rollup.Coalescer {
	o := w.options(random)
	o.Cadence, o.Burst = cadence, burst
	return rollup.NewCoalescer(traced{w.store, w}, o)
}

// waits delivers an event and returns how long it is held.
func (w *world) waits(c *rollup.Coalescer, id string) time.Duration {
	w.t.Helper()
	began := time.Now()
	w.acknowledged(w.deliver(c, id))
	return time.Since(began).Round(10 * time.Microsecond)
}

// putRollUp stores a roll-up of likes that another instance has made. When it returns, a
// millisecond later, that is of this age, and has used up the time until so much later.
func (w *world) putRollUp(age time.Duration, pacedUntil time.Duration) {
	w.putRollUpOf(likes.Template.Hash(), age, pacedUntil)
}

// putRollUpOf is putRollUp by any routes, where others are at work, too.
func (w *world) putRollUpOf(routes string, age time.Duration, pacedUntil time.Duration, turns ...document.Turn) {
	then := w.store.Now().Truncate(time.Microsecond).Add(time.Millisecond)
	w.store.Put(likes.RollUp, map[string]any{"count": int64(0), "tally": document.Tally{
		AsOf: then.Add(-age), PacedUntil: then.Add(pacedUntil), Routes: routes, Totals: []string{"count"}, Turns: turns,
	}.Encode()})
	time.Sleep(time.Millisecond)
}

// While there is credit, an instance waits neither for its own roll-up nor for a missing one. It
// waits after another's roll-up, until that is a tenth and up to a quarter more of a cadence old.
func TestCredit(t *testing.T) {
	const ms = time.Millisecond
	for _, test := range []struct {
		name   string
		before func(w *world, c *rollup.Coalescer)
		burst  int
		random float64
		want   time.Duration
	}{
		{"no roll-up", func(*world, *rollup.Coalescer) {}, 5, 0.5, 0},
		{"one's own, just now", func(w *world, c *rollup.Coalescer) { w.waits(c, "own") }, 5, 0.5, 0},
		{"one's own, whose counter was forgotten", func(w *world, c *rollup.Coalescer) {
			w.waits(c, "own")
			time.Sleep(50 * ms)
		}, 5, 0.5, 0},
		{"another's, just now", func(w *world, _ *rollup.Coalescer) { w.putRollUp(ms, cadence) }, 5, 0, 99 * ms},
		{"another's, just now, and spread", func(w *world, _ *rollup.Coalescer) { w.putRollUp(ms, cadence) }, 5, 0.5, 224 * ms},
		{"another's, young", func(w *world, _ *rollup.Coalescer) { w.putRollUp(200*ms, cadence) }, 5, 0.5, 25 * ms},
		{"another's, old enough", func(w *world, _ *rollup.Coalescer) { w.putRollUp(230*ms, cadence) }, 5, 0.5, 0},
		{"another's after one's own", func(w *world, c *rollup.Coalescer) {
			w.waits(c, "own")
			time.Sleep(50 * ms)
			w.putRollUp(ms, cadence)
		}, 5, 0, 99 * ms},
		{"no credit, one's own", func(w *world, c *rollup.Coalescer) {
			w.waits(c, "own")
			time.Sleep(300 * ms)
		}, 1, 0.5, 700 * ms},
		{"no credit, one's own, almost a cadence ago, with nothing held since", func(w *world, c *rollup.Coalescer) {
			w.waits(c, "own")
			time.Sleep(999 * ms)
		}, 1, 0.5, 1 * ms},
		{"no credit, another's", func(w *world, _ *rollup.Coalescer) { w.putRollUp(300*ms, 700*ms) }, 1, 0.5, 925 * ms},
		{"credit in a while, another's", func(w *world, _ *rollup.Coalescer) { w.putRollUp(300*ms, 4700*ms) }, 5, 0.5, 925 * ms},
	} {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, func(w *world, _ *rollup.Coalescer) {
				c := w.paced(cadence, test.burst, test.random)
				test.before(w, c)
				if got := w.waits(c, "event"); got != test.want {
					t.Errorf("it waited %v, want %v", got, test.want)
				}
			})
		})
	}
}

// If several revisions are at work, the revision whose roll-up is the oldest goes first, by the
// instance that wrote that roll-up.
func TestTurns(t *testing.T) {
	const (
		ms     = time.Millisecond
		first  = cadence / 20
		draw   = 0.5
		late   = 721490 * time.Microsecond // the back-off that is drawn
		slot   = 850 * ms                  // the longest
		others = "others"
		third  = "third"
	)
	mine := likes.Template.Hash()
	for _, test := range []struct {
		name   string
		draw   float64
		before func(w *world, c *rollup.Coalescer)
		burst  int
		want   time.Duration
	}{
		{"new, and of the quarter", 0.2, func(w *world, _ *rollup.Coalescer) { w.putRollUpOf(others, ms, cadence) }, 5, 0},
		{"new, and of the quarter, without credit", 0.2, func(w *world, _ *rollup.Coalescer) { w.putRollUpOf(others, 300*ms, 700*ms) }, 1, 700 * ms},
		{"new", draw, func(w *world, _ *rollup.Coalescer) { w.putRollUpOf(others, ms, cadence) }, 5, first + late - ms},
		{"new, without credit", draw, func(w *world, _ *rollup.Coalescer) { w.putRollUpOf(others, 300*ms, 700*ms) }, 1, 700*ms + first + late},
		{"new, for more than a cadence", draw, func(w *world, _ *rollup.Coalescer) {
			w.putRollUpOf(others, ms, cadence)
			for _, after := range []time.Duration{600 * ms, 1200 * ms} { // at its looks the last is 170 and 312 ms old
				time.AfterFunc(after, func() { w.putRollUpOf(others, ms, cadence) })
			}
		}, 5, 600*ms + first + late},
		{"new, for more than a cadence, with a younger event", draw, func(w *world, c *rollup.Coalescer) {
			w.putRollUpOf(others, ms, cadence)
			for _, after := range []time.Duration{600 * ms, 1200 * ms} {
				time.AfterFunc(after, func() { w.putRollUpOf(others, ms, cadence) })
			}
			time.AfterFunc(700*ms, func() { w.deliver(c, "younger") })
		}, 5, 600*ms + first + late},
		{"first", draw, func(w *world, _ *rollup.Coalescer) {
			w.putRollUpOf(others, ms, cadence, w.turn(mine, -2*cadence))
		}, 5, first + late - ms},
		{"first, without credit for a while", draw, func(w *world, _ *rollup.Coalescer) {
			w.putRollUpOf(others, 900*ms, 4*cadence, w.turn(mine, -2*cadence))
		}, 5, first + late},
		{"second", draw, func(w *world, _ *rollup.Coalescer) {
			w.putRollUpOf(others, ms, cadence, w.turn(third, -3*cadence), w.turn(mine, -2*cadence))
		}, 5, first + slot + late - ms},
		{"second, behind one that is gone", draw, func(w *world, _ *rollup.Coalescer) {
			w.putRollUpOf(others, ms, cadence, w.turn(third, -11*cadence), w.turn(mine, -2*cadence))
		}, 5, first + late - ms},
		{"second, behind one from the future", draw, func(w *world, _ *rollup.Coalescer) {
			w.putRollUpOf(others, ms, cadence, w.turn(third, cadence), w.turn(mine, -2*cadence))
		}, 5, first + late - ms},
		{"last", draw, func(w *world, _ *rollup.Coalescer) {
			w.putRollUpOf(mine, ms, cadence, w.turn(third, -3*cadence), w.turn(others, -2*cadence))
		}, 5, first + 2*slot + late - ms},
	} {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, func(w *world, _ *rollup.Coalescer) {
				c := w.paced(cadence, test.burst, test.draw)
				test.before(w, c)
				if got := w.waits(c, "event"); got != test.want {
					t.Errorf("it waited %v, want %v", got, test.want)
				}
			})
		})
	}
}

// turn is the last roll-up by some routes, so much later than now.
func (w *world) turn(routes string, later time.Duration) document.Turn {
	return document.Turn{Routes: routes, AsOf: w.store.Now().Truncate(time.Microsecond).Add(later)}
}

// The instance that wrote its revision's last roll-up is the first when its turn comes, also when
// nothing was held for a while.
func TestWriterOfARevisionGoesFirst(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		c := w.paced(cadence, 5, 0.2)
		mine := likes.Template.Hash()
		w.putRollUpOf("others", time.Millisecond, cadence)
		w.waits(c, "own")
		_, own := w.rollUp()
		turns := document.DecodeTally(w.store.Get(likes.RollUp)["tally"]).Turns
		if len(turns) != 1 || turns[0].Routes != "others" {
			t.Fatalf("the turns are %v, want the others'", turns)
		}

		time.Sleep(5 * cadence)
		w.putRollUpOf("others", time.Millisecond, cadence, document.Turn{Routes: mine, AsOf: own})
		if got, want := w.waits(c, "its turn"), cadence/20-time.Millisecond; got != want {
			t.Errorf("it waited %v, want %v", got, want)
		}
	})
}

// While another revision is at work, the instance that has just rolled up gives it time for its own
// turn, and looks only after that.
func TestWriterOfARevisionLooksLate(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		c := w.paced(cadence, 1, 0.2)
		w.putRollUpOf("others", time.Millisecond, 0)
		w.waits(c, "own")
		rolledUp := time.Now()
		var looked time.Duration
		w.duringView = func(int32) {
			if looked == 0 {
				looked = time.Since(rolledUp).Round(time.Millisecond)
			}
		}
		w.waits(c, "next")
		if want := cadence + 850*time.Millisecond; looked != want {
			t.Errorf("it looked after %v, want a cadence and the longest time of a turn, %v", looked, want)
		}
	})
}

// With so long a burst, more than a minute may be used up.
func TestLongBurst(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		const cadence = 20 * time.Second
		c := w.paced(cadence, 5, 0)
		w.putRollUp(time.Millisecond, 95*time.Second)
		began := time.Now()
		w.acknowledged(w.deliverWithin(time.Minute, c, "event"))
		if got, want := time.Since(began), 15*time.Second+cadence/10; got != want {
			t.Errorf("it waited %v, want %v", got, want)
		}
	})
}

// A document of the app's own that has no tally has credit for one roll-up, which uses that up.
func TestNewDocumentHasNoBurst(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.store.Put("posts/7", map[string]any{"title": "x"})
		w.acknowledged(w.changed(w.paced(cadence, 5, 0), rollup.Event{ID: "e"}))
		tally := document.DecodeTally(w.store.Get("posts/7")["tally"])
		if used := tally.PacedUntil.Sub(tally.AsOf); used != 5*cadence {
			t.Errorf("the first roll-up has used up %v, want %v", used, 5*cadence)
		}
	})
}

// A burst is rolled up at once as often as it may be, and then once a cadence.
func TestBurst(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		c := w.paced(cadence, 5, 0.5)
		var waited []time.Duration
		for n := range 8 {
			time.Sleep(time.Millisecond)
			waited = append(waited, w.waits(c, fmt.Sprint(n)).Round(time.Millisecond))
		}
		// The first roll-up was at 1 ms: the sixth, ninth, … may be a cadence and two later.
		want := []time.Duration{0, 0, 0, 0, 0, 995 * time.Millisecond, 999 * time.Millisecond, 999 * time.Millisecond}
		if !slices.Equal(waited, want) {
			t.Errorf("they waited %v, want %v", waited, want)
		}
		w.called(8, 8, 8) // no one looks while it cannot be rolled up
	})
}

// The back-off drawn for another's roll-up holds for all looks at it, and a new one is drawn for
// the next roll-up.
func TestBackOffIsDrawnOnce(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		var draws atomic.Int32
		o := w.options(0)
		o.Burst = 5
		o.Random = func() float64 { // 0, 0.4, 0.8, and around
			return 0.4 * float64((draws.Add(1)-1)%3)
		}
		c := rollup.NewCoalescer(traced{w.store, w}, o)
		w.putRollUp(cadence/20, cadence)
		if got, want := w.waits(c, "first"), cadence/20; got != want {
			t.Errorf("with 0 drawn it waited %v, want %v", got, want)
		}
		w.called(2, 1, 1)
		w.putRollUp(cadence/20, cadence)
		if got, want := w.waits(c, "second"), 3*cadence/20; got != want {
			t.Errorf("with 0.4 drawn it waited %v, want %v", got, want)
		}
		w.called(2, 1, 1)
		if n := draws.Load(); n != 2 {
			t.Errorf("%d draws for 2 roll-ups", n)
		}
	})
}

// A writer that the app's own writes refuse tries again after 50 ms, doubled each time up to a
// cadence. The app's roll-up document is not another's roll-up.
func TestRefusedByTheApp(t *testing.T) {
	for _, burst := range []int{1, 5} {
		for _, rolledUp := range []bool{false, true} {
			t.Run(fmt.Sprintf("burst %d, rolled up before: %v", burst, rolledUp), func(t *testing.T) {
				inWorld(t, func(w *world, _ *rollup.Coalescer) {
					c := w.paced(cadence, burst, 1-1e-9)
					if rolledUp {
						w.putRollUp(time.Minute, -time.Minute)
					}
					var at []time.Time
					w.aroundWrite = func(n int32, write func() error) error {
						at = append(at, time.Now())
						if n <= 8 {
							fields := w.store.Get(likes.RollUp)
							if fields == nil {
								fields = make(map[string]any)
							}
							fields["title"] = fmt.Sprint(n)
							w.store.Put(likes.RollUp, fields)
							if w.locks.Load() > 0 {
								return rollup.ErrConflict // a lock that took too long
							}
						}
						return write()
					}
					w.increment(1)
					w.acknowledged(w.deliver(c, "event"))
					var pauses []time.Duration
					for i := 1; i < len(at); i++ {
						pauses = append(pauses, at[i].Sub(at[i-1]).Round(time.Millisecond))
					}
					want := []time.Duration{50, 100, 200, 400, 800, 1000, 1000, 1000}
					for i := range want {
						want[i] *= time.Millisecond
					}
					if !slices.Equal(pauses, want) {
						t.Errorf("the pauses were %v, want %v", pauses, want)
					}
					w.wantTotal(1)
					if title := w.store.Get(likes.RollUp)["title"]; title != "8" {
						t.Errorf("the app's field is %v", title)
					}
				})
			})
		}
	}
}

// A writer that another's roll-up refuses looks at once, and then that roll-up has its time.
func TestRefusedByAnotherRollUp(t *testing.T) {
	for _, test := range []struct {
		name    string
		usedFor time.Duration // paced_until of the other roll-up
		burst   int
		want    time.Duration
	}{
		{"with credit", cadence, 5, cadence/10 + cadence/8 - time.Millisecond},
		{"without", cadence - 2*time.Millisecond, 1, cadence + cadence/10 + cadence/8 - time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, func(w *world, _ *rollup.Coalescer) {
				c := w.paced(cadence, test.burst, 0.5)
				w.aroundWrite = func(n int32, write func() error) error {
					if n == 1 { // as of before this one's look: it covers nothing of it
						w.putRollUp(2*time.Millisecond, test.usedFor)
					}
					return write()
				}
				w.increment(1)
				if got := w.waits(c, "event"); got != test.want {
					t.Errorf("it waited %v, want %v", got, test.want)
				}
				w.called(3, 2, 2)
				w.wantTotal(1)
			})
		})
	}
	t.Run("that covers the event", func(t *testing.T) {
		inWorld(t, func(w *world, _ *rollup.Coalescer) {
			c := w.paced(cadence, 5, 0.5)
			w.aroundWrite = func(n int32, write func() error) error {
				w.rollUpElsewhere()
				return write()
			}
			w.increment(1)
			if got := w.waits(c, "event"); got != 0 {
				t.Errorf("it waited %v, want none", got)
			}
			w.called(2, 1, 1)
		})
	})
}

// paced_until says how much credit is left. Where another pace has written it, or it is missing,
// one roll-up a cadence is left, and what was used up stays so.
func TestPacedUntil(t *testing.T) {
	const ms = time.Millisecond
	for _, test := range []struct {
		name  string
		tally func(now time.Time) map[string]any
		burst int
		want  time.Duration // until it is rolled up
		next  time.Duration // paced_until, from then on
	}{
		{"in the past", paced(-10*time.Minute, -9*time.Minute), 5, 0, 1000 * ms},
		{"some credit used", paced(-500*ms, 2500*ms), 5, 0, 3500 * ms},
		{"all but one used", paced(-500*ms, 4000*ms), 5, 0, 5000 * ms},
		{"all used", paced(-500*ms, 4500*ms), 5, 600 * ms, 4900 * ms},
		{"missing", withoutKey(paced(-500*ms, 0), "paced_until"), 5, 0, 1500 * ms},
		{"missing, no burst", withoutKey(paced(-500*ms, 0), "paced_until"), 1, 600 * ms, 1000 * ms},
		{"missing, long ago", withoutKey(paced(-10*time.Minute, 0), "paced_until"), 5, 0, 1000 * ms},
		{"a minute ahead", paced(-500*ms, time.Minute), 5, 600 * ms, time.Minute + 400*ms},
		{"more than any pace makes it", paced(-500*ms, 2*time.Minute), 5, 0, 1500 * ms},
		{"more than any pace makes it, no burst", paced(-500*ms, 2*time.Minute), 1, 600 * ms, 1000 * ms},
		{"by an instance with a longer cadence", paced(-500*ms, 9500*ms), 5, 600 * ms, 9900 * ms},
		{"by an instance with a shorter one", paced(-500*ms, -400*ms), 5, 0, 1000 * ms},
		{"by an instance with a shorter one, read by one of burst 0, which is 1", paced(-500*ms, -400*ms), 0, 0, 1000 * ms},
		{"by an instance with a burst, read by one without", paced(-500*ms, 4500*ms), 1, 600 * ms, 4900 * ms},
		{"by an instance without a burst, read by one with", paced(-500*ms, 500*ms), 5, 0, 1500 * ms},
		{"as_of is missing: full credit", withoutKey(paced(0, 5*time.Second), "as_of"), 5, 0, 1000 * ms},
		{"as_of lies in the future: full credit", paced(time.Hour, 2*time.Hour), 1, 0, 1000 * ms},
	} {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, func(w *world, _ *rollup.Coalescer) {
				c := w.paced(cadence, test.burst, 0)
				w.store.Put(likes.RollUp, map[string]any{"count": int64(0), "tally": test.tally(w.store.Now().Truncate(time.Microsecond))})
				if got := w.waits(c, "event"); got != test.want {
					t.Errorf("it waited %v, want %v", got, test.want)
				}
				tally := document.DecodeTally(w.store.Get(likes.RollUp)["tally"])
				if next := tally.PacedUntil.Sub(tally.AsOf).Round(10 * time.Microsecond); next != test.next {
					t.Errorf("paced_until is %v later than as_of, want %v", next, test.next)
				}
			})
		})
	}
}

// A tick paces a route by what it says, also when that is less than the cadence of events.
func TestTickPacesByItsRoute(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		routes, err := route.Parse(route.Default + " : every 1s")
		if err != nil {
			t.Fatal(err)
		}
		o := w.options(0)
		o.Cadence = 10 * time.Second
		go func() {
			for range 100 {
				w.increment(1)
				time.Sleep(100 * time.Millisecond)
			}
		}()
		time.Sleep(time.Millisecond)
		if _, err := rollup.Keep(w.t.Context(), traced{w.store, w}, routes, rollup.KeepOptions{Options: o, Concurrency: 1, Until: time.Now().Add(10 * time.Second)}); err != nil {
			t.Error(err)
		}
		if n := w.writes.Load(); n < 10 || n > 11 {
			t.Errorf("%d roll-ups in 10 s, want one a second", n)
		}
	})
}

// paced returns a tally of likes by its times from now on.
func paced(asOf, pacedUntil time.Duration) func(time.Time) map[string]any {
	return func(now time.Time) map[string]any {
		return document.Tally{AsOf: now.Add(asOf), PacedUntil: now.Add(pacedUntil), Routes: likes.Template.Hash(), Totals: []string{"count"}}.Encode()
	}
}

func withoutKey(tally func(time.Time) map[string]any, key string) func(time.Time) map[string]any {
	return func(now time.Time) map[string]any {
		fields := tally(now)
		delete(fields, key)
		return fields
	}
}

// Instances of other paces side by side, as they are while a change of settings is deployed, roll
// up no more often than the one of them that may do so most.
func TestMixedPaces(t *testing.T) {
	type pace struct {
		cadence time.Duration
		burst   int
	}
	const c = cadence
	for _, test := range []struct {
		paces []pace
		burst int // of all together, by the shortest cadence
	}{
		{[]pace{{c, 1}, {c, 5}}, 5},
		{[]pace{{c, 3}, {c, 5}}, 5},
		{[]pace{{c, 1}, {c, 2}, {c, 3}, {c, 4}, {c, 5}}, 5},
		{[]pace{{c, 5}, {2 * c, 5}}, 10},
		{[]pace{{c, 5}, {c / 2, 5}}, 10},
		{[]pace{{c, 1}, {c, 5}, {2 * c, 5}, {c, 3}, {2 * c, 1}}, 10},
	} {
		t.Run(fmt.Sprint(test.paces), func(t *testing.T) {
			inWorld(t, func(w *world, _ *rollup.Coalescer) {
				var (
					instances []*rollup.Coalescer
					mu        sync.Mutex
					asOfs     []time.Time
					events    []*delivery
					shortest  = test.paces[0].cadence
				)
				for _, p := range test.paces {
					instances = append(instances, w.paced(p.cadence, p.burst, 0.5))
					shortest = min(shortest, p.cadence)
				}
				w.aroundWrite = func(n int32, write func() error) error {
					mu.Lock()
					defer mu.Unlock()
					err := write()
					if _, asOf := w.rollUp(); err == nil {
						asOfs = append(asOfs, asOf)
						if n, window, ok := tooMany(asOfs, shortest, test.burst); !ok {
							t.Errorf("%d roll-ups in %v", n, window)
						}
					}
					return err
				}
				for n := range 1000 {
					time.Sleep(37 * time.Millisecond)
					w.increment(1)
					events = append(events, w.deliver(instances[n%len(instances)], fmt.Sprint(n)))
				}
				w.acknowledged(events...)
				w.wantTotal(1000)
			})
		})
	}
}
