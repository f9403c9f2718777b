package rollup_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

func TestEndings(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		w.increment(1)
		want := w.endsHeld(c, "lone")
		if _, asOf := w.rollUp(); !want.AsOf.Equal(asOf) {
			t.Errorf("the lone event ended %+v, want it covered as of %v", want, asOf)
		}

		var held sync.WaitGroup
		held.Go(func() { w.endsHeld(c, "anchor") })
		held.Go(func() { w.endsHeld(c, "anchor") }) // its copy, which shares the outcome
		time.Sleep(cadence / 2)
		if got, err := c.HandleEvent(w.t.Context(), rollup.Event{ID: "absorbed"}, route.Concern{Counter: likes}); got != (rollup.Ending{}) || err != nil {
			t.Errorf("the absorbed event ended %+v, %v", got, err)
		}
		w.rollUpElsewhere() // the anchor's look, when the cadence is over, finds that it need not sum yet
		time.Sleep(cadence * 3 / 4)
		w.rollUpElsewhere() // and the next one, that its generation is covered
		_, asOf := w.rollUp()
		held.Wait()
		if got := w.writes.Load(); got != 1 {
			t.Errorf("%d roll-ups of this instance, want the lone event's only", got)
		}
		if _, now := w.rollUp(); !now.Equal(asOf) {
			t.Errorf("rolled up again")
		}
	})
}

// endsHeld delivers an event that must be held and covered by the roll-up that is there then.
func (w *world) endsHeld(c *rollup.Coalescer, eventID string) rollup.Ending {
	w.t.Helper()
	got, err := c.HandleEvent(w.t.Context(), rollup.Event{ID: eventID}, route.Concern{Counter: likes})
	_, asOf := w.rollUp()
	if err != nil || !got.Held || !got.AsOf.Equal(asOf) {
		w.t.Errorf("%s ended %+v, %v; want it held until a roll-up as of %v", eventID, got, err, asOf)
	}
	return got
}

func TestEndingOfFailure(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		w.beforeView = func(int32) error { return errors.New("unavailable") }
		ctx, cancel := context.WithTimeout(w.t.Context(), hold)
		defer cancel()
		if got, err := c.HandleEvent(ctx, rollup.Event{ID: "e"}, route.Concern{Counter: likes}); got != (rollup.Ending{Held: true}) || err == nil {
			t.Errorf("got %+v, %v; want it held and failed", got, err)
		}
	})
}

// An event of two counters is covered as of the later of their roll-ups, whichever counter that is.
func TestEndingOfTwoCounters(t *testing.T) {
	for _, late := range []string{"rollups/a", "rollups/b"} {
		inWorld(t, func(w *world, _ *rollup.Coalescer) {
			store := hooked{AuditStore: traced{w.store, w}, view: func(_ context.Context, c route.Counter) error {
				if c.RollUp == late {
					time.Sleep(time.Second)
				}
				return nil
			}}
			c := rollup.NewCoalescer(store, w.options(0))
			a, _ := likes.Template.Counter("rollups/a")
			b, _ := likes.Template.Counter("rollups/b")
			got, err := c.HandleEvent(w.t.Context(), rollup.Event{ID: "e"}, route.Concern{Counter: a}, route.Concern{Counter: b})
			want := document.DecodeTally(w.store.Get(late)["tally"]).AsOf
			if err != nil || !got.AsOf.Equal(want) || want.IsZero() {
				t.Errorf("%s is late: ended %+v, %v; want it covered as of %v", late, got, err, want)
			}
		})
	}
}

// A copy that has joined another was held, also when its own time is up first.
func TestEndingOfCopy(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		w.duringView = func(int32) { time.Sleep(2 * time.Second) }
		first := w.deliver(c, "e")
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
		defer cancel()
		got, err := c.HandleEvent(ctx, rollup.Event{ID: "e"}, route.Concern{Counter: likes})
		if got != (rollup.Ending{Held: true}) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %+v, %v; want it held and failed", got, err)
		}
		w.acknowledged(first)
	})
}

// A contexts store tells the context of each write.
type contexts struct {
	traced
	tell func(context.Context)
}

func (s contexts) Write(ctx context.Context, c route.Counter, r rollup.RollUp) error {
	defer s.tell(ctx)
	return s.traced.Write(ctx, c, r)
}

// The work for an anchor has the values of its context, and outlives it.
func TestWorkHasTheAnchorsValues(t *testing.T) {
	type key struct{}
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		got := make(chan any, 1)
		w.aroundWrite = func(_ int32, write func() error) error {
			time.Sleep(2 * time.Second)
			return write()
		}
		c := rollup.NewCoalescer(contexts{traced{w.store, w}, func(ctx context.Context) { got <- ctx.Value(key{}) }}, w.options(0))
		ctx, cancel := context.WithTimeout(context.WithValue(w.t.Context(), key{}, "v"), time.Second)
		defer cancel()
		w.increment(1)
		if _, err := c.HandleEvent(ctx, rollup.Event{ID: "e"}, route.Concern{Counter: likes}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want its time to be up", err)
		}
		if value := <-got; value != "v" {
			t.Errorf("the write's context holds %v, want the value of the anchor's", value)
		}
		w.wantTotal(1)
	})
}
