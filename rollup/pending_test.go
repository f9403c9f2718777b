package rollup_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firestore-tally/tally/internal/memstore"
	"github.com/firestore-tally/tally/rollup"
	"github.com/google/go-cmp/cmp"
)

// A markWorld is a world whose instances mark.
type markWorld struct {
	*world
	aroundMark func(n int32, mark func() error) error // n counts from 1
	marks      atomic.Int32
	unmark     func() error                                         // nil: none but the store's
	broken     string                                               // roll-up whose writes fail
	read       func(context.Context, func(rollup.Mark) error) error // the marks, instead of the store's way
	deadline   time.Time                                            // of the last mark
}

// inMarkWorld runs f with a marker that may hold events for hold. An hour later every goroutine must
// have ended.
func inMarkWorld(t *testing.T, f func(w *markWorld, c *rollup.Coalescer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &markWorld{world: &world{t: t, store: new(memstore.Store)}}
		o := w.options(0.5)
		o.Hold, o.Timeout = hold, hold/2
		f(w, rollup.NewMarker(w, o))
		time.Sleep(time.Hour)
	})
}

func (w *markWorld) View(ctx context.Context, c rollup.Counter, f func(rollup.Snapshot) error) error {
	return traced{w.store, w.world}.View(ctx, c, f)
}

func (w *markWorld) Write(ctx context.Context, c rollup.Counter, r rollup.RollUp) error {
	if c.RollUp == w.broken {
		return errors.New("unavailable")
	}
	return traced{w.store, w.world}.Write(ctx, c, r)
}

func (w *markWorld) Mark(ctx context.Context, c rollup.Counter) error {
	n := w.marks.Add(1)
	w.deadline, _ = ctx.Deadline()
	mark := func() error { return w.store.Mark(ctx, c) }
	if w.aroundMark != nil {
		return w.aroundMark(n, mark)
	}
	return mark()
}

func (w *markWorld) Marks(ctx context.Context, f func(rollup.Mark) error) error {
	if w.read != nil {
		return w.read(ctx, f)
	}
	return w.store.Marks(ctx, f)
}

func (w *markWorld) Marked(ctx context.Context, c rollup.Counter) (bool, error) {
	return w.store.Marked(ctx, c)
}

func (w *markWorld) Unmark(ctx context.Context, m rollup.Mark) error {
	if w.unmark != nil {
		if err := w.unmark(); err != nil {
			return err
		}
	}
	return w.store.Unmark(ctx, m)
}

// pending returns the collections of shards that have marks.
func (w *markWorld) pending() (pending string) {
	err := w.store.Marks(w.t.Context(), func(m rollup.Mark) error { pending += m.Shards + " "; return nil })
	if err != nil {
		w.t.Error(err)
	}
	return pending
}

func (w *markWorld) wantPending(want string) {
	w.t.Helper()
	if got := w.pending(); got != want {
		w.t.Errorf("marks of %q, want %q", got, want)
	}
}

// drain drains with a cadence of a minute.
func (w *markWorld) drain(until time.Duration) (rollup.DrainReport, error) {
	o := w.options(0.5)
	o.Cadence = time.Minute
	return rollup.Drain(w.t.Context(), w, rollup.Routes{likes.Route}, 4, time.Now().Add(until), o)
}

func (w *markWorld) wantDrain(want rollup.DrainReport) {
	w.t.Helper()
	got, err := w.drain(time.Minute)
	if d := cmp.Diff(want, got); d != "" || err != nil {
		w.t.Errorf("error %v, report (-want +got):\n%s", err, d)
	}
}

func TestMarkerLeavesAMark(t *testing.T) {
	inMarkWorld(t, func(w *markWorld, c *rollup.Coalescer) {
		w.increment(5)
		began := time.Now()
		w.acknowledged(w.deliver(c, "e"))
		if waited := time.Since(began).Round(time.Millisecond); waited != 0 {
			t.Errorf("a lone event waited %v", waited)
		}
		w.called(0, 0, 0)
		w.wantPending("counters/likes/shards ")
		w.wantDrain(rollup.DrainReport{RolledUp: 1})
		w.wantTotal(5)
		w.wantPending("")
	})
}

func TestMarkerMarksOnceInAWindow(t *testing.T) {
	inMarkWorld(t, func(w *markWorld, c *rollup.Coalescer) {
		w.acknowledged(w.deliver(c, "first"))
		anchor := w.deliver(c, "anchor")
		for i := range 100 {
			if e := w.deliver(c, fmt.Sprint("e", i)); e.held() || e.err != nil {
				t.Fatalf("event %d was not absorbed: %v", i, e.err)
			}
		}
		if !anchor.held() || w.marks.Load() != 1 {
			t.Fatalf("anchor held: %v, %d marks", anchor.held(), w.marks.Load())
		}
		began := time.Now()
		w.acknowledged(anchor)
		if waited := time.Since(began).Round(time.Millisecond); waited != hold/2 || w.marks.Load() != 2 {
			t.Errorf("the anchor waited %v, and there were %d marks; want %v, 2", waited, w.marks.Load(), hold/2)
		}
	})
}

// An event that comes while a mark is being written may be later than the drain that takes it away.
func TestEventDuringMarkWaitsForTheNext(t *testing.T) {
	inMarkWorld(t, func(w *markWorld, c *rollup.Coalescer) {
		var late *delivery
		w.aroundMark = func(n int32, mark func() error) error {
			if n > 1 {
				return mark()
			}
			if err := mark(); err != nil {
				return err
			}
			w.wantDrain(rollup.DrainReport{RolledUp: 1})
			w.increment(1)
			late = w.deliver(c, "late")
			return nil
		}
		w.acknowledged(w.deliver(c, "early"))
		if !late.held() {
			t.Error("acknowledged with a mark that was begun before it came")
		}
		w.wantPending("")
		w.acknowledged(late)
		w.wantPending("counters/likes/shards ")
	})
}

func TestMarkIsNeverSkipped(t *testing.T) {
	inMarkWorld(t, func(w *markWorld, c *rollup.Coalescer) {
		w.acknowledged(w.deliver(c, "e1"))
		time.Sleep(hold)
		w.acknowledged(w.deliver(c, "e2"))
		if w.marks.Load() != 2 {
			t.Errorf("%d marks, want 2: the first may be read already", w.marks.Load())
		}
	})
}

func TestMarkFails(t *testing.T) {
	inMarkWorld(t, func(w *markWorld, c *rollup.Coalescer) {
		w.aroundMark = func(int32, func() error) error { return errors.New("unavailable") }
		e := w.deliverWithin(time.Hour, c, "e")
		began := time.Now()
		<-e.done
		if waited := time.Since(began).Round(time.Millisecond); e.err == nil || !strings.Contains(e.err.Error(), "unavailable") || waited != hold {
			t.Errorf("after %v: %v; want what kept failing after %v", waited, e.err, hold)
		}
		w.aroundMark = nil
		w.acknowledged(w.deliver(c, "e"))
		w.wantPending("counters/likes/shards ")
	})
}

func TestDrainWritesEqualTotals(t *testing.T) {
	inMarkWorld(t, func(w *markWorld, c *rollup.Coalescer) {
		w.rollUpElsewhere()
		_, before := w.rollUp()
		time.Sleep(time.Minute)
		w.acknowledged(w.deliver(c, "e"))
		w.wantDrain(rollup.DrainReport{RolledUp: 1})
		if _, after := w.rollUp(); !after.After(before) {
			t.Error("the mark was taken away on a comparison")
		}
	})
}

func TestMarkMadeAnewStays(t *testing.T) {
	inMarkWorld(t, func(w *markWorld, c *rollup.Coalescer) {
		w.increment(1)
		w.acknowledged(w.deliver(c, "e1"))
		w.aroundWrite = func(n int32, write func() error) error {
			w.increment(1)
			w.acknowledged(w.deliver(c, "e2"))
			return write()
		}
		w.wantDrain(rollup.DrainReport{RolledUp: 1})
		w.wantTotal(1)
		w.wantPending("counters/likes/shards ")
		w.aroundWrite = nil
		w.wantDrain(rollup.DrainReport{Waiting: 1}) // rolled up less than a minute ago
		w.wantPending("counters/likes/shards ")
		time.Sleep(time.Minute)
		w.wantDrain(rollup.DrainReport{RolledUp: 1})
		w.wantTotal(2)
		w.wantPending("")
	})
}

func TestDrainTakesSchedulesAsTheyCome(t *testing.T) {
	inMarkWorld(t, func(w *markWorld, c *rollup.Coalescer) {
		w.rollUpElsewhere()
		w.acknowledged(w.deliver(c, "e"))
		time.Sleep(time.Minute*9/10 - time.Second)
		w.wantDrain(rollup.DrainReport{Waiting: 1})
		time.Sleep(time.Second)
		w.wantDrain(rollup.DrainReport{RolledUp: 1})
	})
}

func TestDrainKeepsTheMark(t *testing.T) {
	for _, test := range []struct {
		name   string
		write  func(write func() error) error
		unmark func() error
	}{
		{"the write's outcome is unknown", func(write func() error) error { return errors.New("answer lost") }, nil},
		{"the write is refused", func(write func() error) error { return rollup.ErrConflict }, nil},
		{"the mark cannot be removed", func(write func() error) error { return write() }, func() error { return errors.New("unavailable") }},
	} {
		inMarkWorld(t, func(w *markWorld, c *rollup.Coalescer) {
			w.acknowledged(w.deliver(c, "e"))
			w.aroundWrite = func(n int32, write func() error) error { return test.write(write) }
			w.unmark = test.unmark
			began := time.Now()
			report, err := w.drain(time.Minute)
			if err == nil || report.Failed != 1 || len(report.Errors) != 1 {
				t.Errorf("%s: %+v, %v", test.name, report, err)
			}
			// Three quarters of 50, 100 and 200 ms lie between the five tries.
			if took := time.Since(began).Round(time.Microsecond); test.unmark == nil && took != 262500*time.Microsecond {
				t.Errorf("%s: it took %v", test.name, took)
			}
			w.wantPending("counters/likes/shards ")
		})
	}
}

// A write of which nobody knows the outcome is looked for, and the mark is taken away once the roll-up
// is there.
func TestDrainFindsItsWrite(t *testing.T) {
	inMarkWorld(t, func(w *markWorld, c *rollup.Coalescer) {
		w.increment(3)
		w.acknowledged(w.deliver(c, "e"))
		w.aroundWrite = func(n int32, write func() error) error {
			if err := write(); err != nil {
				return err
			}
			return errors.New("answer lost")
		}
		w.wantDrain(rollup.DrainReport{RolledUp: 1})
		w.called(2, 1, 1)
		w.wantTotal(3)
		w.wantPending("")
	})
}

func TestDrainLeavesTheRest(t *testing.T) {
	inMarkWorld(t, func(w *markWorld, _ *rollup.Coalescer) {
		for n := range 20 {
			if err := w.store.Mark(t.Context(), mustCounter(rollup.DefaultRoute, fmt.Sprintf("counters/%d/shards", n))); err != nil {
				t.Fatal(err)
			}
		}
		w.beforeView = func(int32) error { time.Sleep(time.Second); return nil }
		report, err := w.drain(3*time.Second - time.Millisecond)
		if d := cmp.Diff(rollup.DrainReport{RolledUp: 12, Left: true}, report); d != "" || err != nil {
			t.Errorf("error %v, report (-want +got):\n%s", err, d)
		}
		if left := strings.Count(w.pending(), "/shards "); left != 8 {
			t.Errorf("%d marks are left, want 8", left)
		}
		if got := w.store.Get("rollups/0"); got == nil {
			t.Error("the oldest was not drained first")
		}
		w.wantDrain(rollup.DrainReport{RolledUp: 8})
	})
}

// Time that runs out while marks are read leaves the rest to the next drain too. It is a failure only
// if nothing could be done.
func TestDrainReadsSlowly(t *testing.T) {
	inMarkWorld(t, func(w *markWorld, c *rollup.Coalescer) {
		w.increment(1)
		w.acknowledged(w.deliver(c, "e"))
		hang := func(ctx context.Context, _ func(rollup.Mark) error) error {
			<-ctx.Done()
			return ctx.Err()
		}
		w.read = hang
		if report, err := w.drain(time.Minute); !errors.Is(err, context.DeadlineExceeded) || !report.Left {
			t.Errorf("no mark could be read in time: %+v, %v", report, err)
		}
		w.read = func(ctx context.Context, f func(rollup.Mark) error) error {
			if err := w.store.Marks(ctx, f); err != nil {
				return err
			}
			return hang(ctx, f)
		}
		w.wantDrain(rollup.DrainReport{RolledUp: 1, Left: true})
	})
}

// The two functions may be deployed one after the other with other routes.
func TestRoutesChange(t *testing.T) {
	inMarkWorld(t, func(w *markWorld, _ *rollup.Coalescer) {
		w.increment(4)
		for route, shards := range map[string]string{
			"a/{a}/b/{b} -> c/{a} : n":                                      "a/x/b",
			"counters/{counter}/shards/{shard} -> totals/{counter} : count": likes.Shards,
		} {
			if err := w.store.Mark(t.Context(), mustCounter(route, shards)); err != nil {
				t.Fatal(err)
			}
		}
		w.wantDrain(rollup.DrainReport{RolledUp: 1, Unrouted: 1})
		w.wantTotal(4) // in the roll-up of the route as it is now
		w.wantPending("a/x/b ")
		if log := w.log.String(); strings.Count(log, "no route matches") != 1 {
			t.Errorf("logged %s", log)
		}
	})
}

// A mark that another's roll-up covers needs none of its own.
func TestDrainTakesCoveredMarksAway(t *testing.T) {
	inMarkWorld(t, func(w *markWorld, c *rollup.Coalescer) {
		w.increment(1)
		w.acknowledged(w.deliver(c, "e"))
		time.Sleep(time.Millisecond)
		w.rollUpElsewhere()
		w.wantDrain(rollup.DrainReport{RolledUp: 1})
		w.called(1, 0, 0)
		w.wantPending("")
	})
}

func TestMarkIsBounded(t *testing.T) {
	inMarkWorld(t, func(w *markWorld, c *rollup.Coalescer) {
		began := time.Now()
		w.acknowledged(w.deliver(c, "e"))
		if got := w.deadline.Sub(began); got != hold/2 {
			t.Errorf("a mark might take %v, want %v", got, hold/2)
		}
	})
}

// The window runs from the begin of a mark, and a failure is repeated at once unless another came
// before it.
func TestMarkTimes(t *testing.T) {
	inMarkWorld(t, func(w *markWorld, c *rollup.Coalescer) {
		began := time.Now()
		var at []time.Duration
		w.aroundMark = func(n int32, mark func() error) error {
			at = append(at, time.Since(began).Round(time.Microsecond))
			time.Sleep(time.Second)
			if n == 1 || n == 3 {
				return errors.New("unavailable")
			}
			return mark()
		}
		w.acknowledged(w.deliver(c, "e1")) // fails, and is repeated
		w.acknowledged(w.deliver(c, "e2")) // the same, a window after the second
		want := []time.Duration{0, time.Second, time.Second + hold/2, 2*time.Second + hold/2}
		if d := cmp.Diff(want, at); d != "" {
			t.Errorf("marks (-want +got):\n%s", d)
		}
	})
}

func TestDrainWithoutMarks(t *testing.T) {
	inMarkWorld(t, func(w *markWorld, c *rollup.Coalescer) {
		w.acknowledged(w.deliver(c, "e"))
		w.read = func(context.Context, func(rollup.Mark) error) error { return errors.New("unavailable") }
		if report, err := w.drain(time.Minute); err == nil || !report.Left || !strings.Contains(err.Error(), "unavailable") {
			t.Errorf("marks that cannot be read: %+v, %v", report, err)
		}
	})
}

func TestDrainGoesOnPastAFailure(t *testing.T) {
	inMarkWorld(t, func(w *markWorld, c *rollup.Coalescer) {
		w.acknowledged(w.deliver(c, "e"))
		if err := w.store.Mark(t.Context(), mustCounter(rollup.DefaultRoute, "counters/other/shards")); err != nil {
			t.Fatal(err)
		}
		w.broken = likes.RollUp
		report, err := w.drain(time.Minute)
		if err == nil || report.Failed != 1 || report.RolledUp != 1 {
			t.Errorf("%+v, %v", report, err)
		}
		w.wantPending("counters/likes/shards ")
	})
}
