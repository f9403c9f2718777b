package rollup_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup"
)

// contend has the app write post 7 before each write of Tally's, as an app does that writes it all
// the time.
func (w *world) contend() {
	w.store.Increment("posts/7", "views", 1)
	w.aroundWrite = func(_ int32, write func() error) error {
		w.store.Increment("posts/7", "views", 1)
		return write()
	}
}

// Somebody writes a post all the time, for half an hour. Its likes are rolled up all the same: no
// event fails, no lock follows another within a cadence, and the log names the post once in ten
// minutes.
func TestAppWritesAllTheTime(t *testing.T) {
	for _, every := range []time.Duration{20, 50, 100, 200} {
		inWorld(t, func(w *world, _ *rollup.Coalescer) {
			o := w.options(0.5)
			o.Burst, o.Timeout, o.Hold = 5, hold/2, hold
			c := rollup.NewCoalescer(traced{w.store, w}, o)
			w.duringView = func(int32) { time.Sleep(25 * time.Millisecond) }
			w.beforeSum = func(int32) error { time.Sleep(40 * time.Millisecond); return nil }
			var locked []time.Time
			w.aroundWrite = func(_ int32, write func() error) error {
				if int(w.locks.Load()) > len(locked) {
					locked = append(locked, time.Now())
				}
				time.Sleep(25 * time.Millisecond)
				return write()
			}

			w.store.Put("posts/7", map[string]any{"title": "x"})
			ctx, cancel := context.WithCancel(w.t.Context())
			defer cancel()
			go func() {
				for n := 0; ctx.Err() == nil; n++ {
					time.Sleep(every*time.Millisecond + time.Duration(n%7)*time.Millisecond)
					w.store.Increment("posts/7", "views", 1)
				}
			}()

			const likes = 300
			for i := range likes {
				w.like(fmt.Sprint(i))
				w.acknowledged(w.changed(c, rollup.Event{ID: fmt.Sprint("e", i)}))
				time.Sleep(5 * time.Second)
			}
			if got := w.store.Get("posts/7")["likes"]; got != int64(likes) {
				t.Errorf("every %d ms: %v likes, want %d", every, got, likes)
			}
			if gap, ok := shortestGap(locked); ok && gap < cadence {
				t.Errorf("every %d ms: locked again after %v, want a cadence at least", every, gap)
			}
			told := strings.Count(w.log.String(), "document written too often")
			if often := every <= 100; often && (len(locked) == 0 || told < 2 || told > 3) {
				t.Errorf("every %d ms: locked %d times and logged %d times", every, len(locked), told)
			}
		})
	}
}

// shortestGap is the shortest time between two that follow each other.
func shortestGap(times []time.Time) (shortest time.Duration, ok bool) {
	for i := range times[:max(0, len(times)-1)] {
		gap := times[i+1].Sub(times[i])
		if !ok || gap < shortest {
			shortest, ok = gap, true
		}
	}
	return shortest, ok
}

// Three writes are refused before one locks the document. After that one is enough, until a write
// goes well without a lock.
func TestLocksAfterRefusals(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		event := func(what string, writes, locks int32) {
			t.Helper()
			w.like(what)
			w.acknowledged(w.changed(c, rollup.Event{ID: what}))
			sums, wrote, locked := w.sums.Swap(0), w.writes.Swap(0), w.locks.Swap(0)
			if sums != writes || wrote != writes || locked != locks {
				t.Errorf("%s: %d sums, %d writes and %d of them in a lock; want %d, as many and %d", what, sums, wrote, locked, writes, locks)
			}
			time.Sleep(cadence / 2) // not long enough to be forgotten
		}
		w.store.Put("posts/7", map[string]any{"title": "x"})
		event("quiet", 1, 0)
		w.contend()
		event("contended", 4, 1)
		event("still contended", 2, 1)
		w.aroundWrite = nil
		event("quiet again", 1, 0)
		w.contend()
		event("contended again", 4, 1)
	})
}

// Other instances' roll-ups refuse writes, too. The events wait for them, so they do not count:
// only while a roll-up stands still are refusals contention.
func TestAnothersRollUpsAreNoContention(t *testing.T) {
	for _, test := range []struct {
		refusing      string // each write in turn: the app, or another's roll-up
		writes, locks int32
	}{
		{"rrrrrrrrrr", 11, 0},
		{"rraaa", 6, 1},
		{"aar", 4, 0},
		{"aaraaa", 7, 1},
	} {
		t.Run(test.refusing, func(t *testing.T) {
			inWorld(t, func(w *world, c *rollup.Coalescer) {
				began := w.store.Now()
				time.Sleep(time.Minute)
				w.store.Put(likes.RollUp, rolledUp(int64(0), 0, began))
				w.aroundWrite = func(n int32, write func() error) error {
					switch {
					case int(n) > len(test.refusing):
					case test.refusing[n-1] == 'a':
						w.store.Increment(likes.RollUp, "views", 1)
					default: // from before the event, which waits
						w.store.Put(likes.RollUp, rolledUp(int64(0), 0, began.Add(time.Duration(n)*time.Millisecond)))
					}
					return write()
				}
				w.increment(1)
				w.acknowledged(w.deliverWithin(time.Minute, c, "e"))
				if w.writes.Load() != test.writes || w.locks.Load() != test.locks {
					t.Errorf("%d writes and %d of them in a lock, want %d and %d", w.writes.Load(), w.locks.Load(), test.writes, test.locks)
				}
			})
		})
	}
}

// A lock that fails is taken again a cadence later, and not sooner.
func TestLocksOnceACadence(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		var locked []time.Time
		w.store.Put("posts/7", map[string]any{"title": "x"})
		w.aroundWrite = func(n int32, write func() error) error {
			if int(w.locks.Load()) == len(locked) {
				return rollup.ErrConflict
			}
			locked = append(locked, time.Now())
			if len(locked) < 4 {
				return rollup.ErrConflict
			}
			return write()
		}
		w.like("ann")
		w.acknowledged(w.changed(c, rollup.Event{ID: "e"}))
		gap, _ := shortestGap(locked)
		if len(locked) != 4 || gap < cadence || gap > 2*cadence {
			t.Errorf("locked at %v, want four times, a cadence apart or a little more", locked)
		}
	})
}

// A locked write that has another roll-up in its way, or no document, is refused like any other.
func TestLockedWriteIsRefused(t *testing.T) {
	for _, test := range []struct {
		name  string
		meets func(w *world) // just before the locked write
		want  map[string]any
	}{
		{"another roll-up", func(w *world) {
			_, _ = rollup.Audit(w.t.Context(), w.store, postRoutes, w.auditOptions())
		}, map[string]any{"likes": int64(2), "comments": int64(0)}},
		{"no document", func(w *world) { w.store.Delete("posts/7") }, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, func(w *world, c *rollup.Coalescer) {
				w.store.Put("posts/7", map[string]any{})
				met := false
				w.aroundWrite = func(_ int32, write func() error) error {
					switch {
					case w.locks.Load() == 0:
						return rollup.ErrConflict
					case !met:
						met = true
						w.like("bob") // the look did not see it
						test.meets(w)
						err := write()
						if err != rollup.ErrConflict {
							t.Errorf("the locked write ended with %v, want ErrConflict", err)
						}
						return err
					}
					return write()
				}
				w.like("ann")
				w.acknowledged(w.changed(c, rollup.Event{ID: "e"}))
				if !met {
					t.Error("no write locked the document")
				}
				w.wantPost(test.want)
			})
		})
	}
}

// A locked write is not sent later than a minute after its snapshot either.
func TestLockedWriteIsNotSentLate(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		o := w.options(0)
		o.Timeout = time.Hour
		c := rollup.NewCoalescer(traced{w.store, w}, o)
		w.store.Put("posts/7", map[string]any{})
		w.contend()
		w.beforeSum = func(n int32) error {
			if n == 4 { // of the first locked write
				time.Sleep(61 * time.Second)
			}
			return nil
		}
		w.like("ann")
		e := w.deliverOf(time.Hour, c, post7, rollup.Event{ID: "e"})
		time.Sleep(61 * time.Second) // the refusals before it take less than a second
		if w.sums.Load() != 4 || !e.held() {
			t.Fatalf("after %d sums the event is held: %v; want the fourth to last", w.sums.Load(), e.held())
		}
		w.acknowledged(e)
		if w.sums.Load() == 4 || w.locks.Load() != 1 {
			t.Errorf("%d sums and %d locked writes, want one locked write, of a later sum than the fourth", w.sums.Load(), w.locks.Load())
		}
	})
}

// A client whose writes leave the tally as it is, by the equality of security rules, may turn its
// integers into doubles and back. The tally is still the same.
func TestTallyOfDoublesIsTheSame(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		w.store.Put("posts/7", map[string]any{})
		w.beforeSum = func(int32) error { time.Sleep(20 * time.Millisecond); return nil } // took is not 0
		w.like("ann")
		w.acknowledged(w.changed(c, rollup.Event{ID: "first"}))

		w.aroundWrite = func(_ int32, write func() error) error {
			fields := w.store.Get("posts/7")
			tally := fields[document.TallyField].(map[string]any)
			for part, v := range tally {
				switch v := v.(type) {
				case int64:
					tally[part] = float64(v)
				case float64:
					tally[part] = int64(v)
				}
			}
			w.store.Put("posts/7", fields)
			return write()
		}
		w.like("bob")
		w.acknowledged(w.changed(c, rollup.Event{ID: "second"}))
		w.wantPost(map[string]any{"likes": int64(2), "comments": int64(0)})
	})
}

// Ticks and audits lock a contended document, too.
func TestScheduleLocks(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.store.Put("posts/7", map[string]any{})
		w.contend()
		w.like("ann")
		report, err := rollup.Audit(w.t.Context(), traced{w.store, w}, postRoutes, w.auditOptions())
		if err != nil || report.RolledUp != 1 || w.locks.Load() != 1 {
			t.Errorf("%+v: %v; %d writes locked the document", report, err, w.locks.Load())
		}

		every := mustRoutes(postRoutes[0].String() + " : every 10s\n" + postRoutes[1].String() + " : every 10s")
		time.Sleep(time.Minute)
		w.like("bob")
		kept, err := rollup.Keep(w.t.Context(), traced{w.store, w}, every, w.keepOptions(2, time.Now().Add(25*time.Second)))
		if err != nil || kept.RolledUp != 1 || w.locks.Load() != 2 {
			t.Errorf("%+v: %v; %d writes locked the document", kept, err, w.locks.Load())
		}
	})
}
