package rollup_test

import (
	"context"
	"testing"
	"time"

	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

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

func (s skewed) View(ctx context.Context, c route.Counter) (rollup.Snapshot, error) {
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
