package rollup_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup"
)

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

// The number of shards that comes with such an as_of makes no counter wait either.
func TestInvalidAsOfHasNoCadence(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		o := w.options(0)
		o.ReadsPerSecond, o.Hold, o.Alarms = 50, hold, new(alarmed)
		c := rollup.NewCoalescer(traced{w.store, w}, o)
		w.increment(3)
		w.store.Put(likes.RollUp, rolledUp(int64(0), 1<<50, time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC)))
		w.acknowledged(w.deliver(c, "e"))
		tally := document.DecodeTally(w.store.Get(likes.RollUp)["tally"])
		if ahead := tally.PacedUntil.Sub(tally.AsOf); ahead > cadence {
			t.Errorf("the next roll-up is due after %v, want %v", ahead, cadence)
		}
	})
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
