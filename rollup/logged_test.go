package rollup_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

// Each counter has ten minutes of its own, whether or not another counter's ten minutes are over.
func TestCountersAreLoggedApart(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		other, _ := likes.Template.Routes[0].Counter("counters/other/shards")
		began := time.Now()
		for _, counter := range []route.Counter{likes, other} {
			w.store.Put(shardsOf(counter)+"/0", map[string]any{"count": "x"})
		}

		for _, step := range []struct {
			at      time.Duration
			counter route.Counter
			lines   int // in all
		}{
			{0, likes, 1},
			{9 * time.Minute, other, 2},
			{10 * time.Minute, likes, 3},
			{11 * time.Minute, other, 3},
			{19*time.Minute - time.Second, other, 3},
			{19 * time.Minute, other, 4},
		} {
			time.Sleep(time.Until(began.Add(step.at)))
			w.acknowledged(w.deliverOf(hold, c, step.counter, rollup.Event{ID: step.at.String()}))
			if n := strings.Count(w.log.String(), "left out of the sum"); n != step.lines {
				t.Errorf("%s at %v: %d lines, want %d", step.counter.RollUp, step.at, n, step.lines)
			}
		}
	})
}

// 100,000 counters that no one fixes are each logged once in ten minutes.
func TestManyAreLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logged := rollup.NewLogged(nil)
		for n, want := range []int{100_000, 0, 0, 100_000, 0} {
			lines := 0
			for i := range 100_000 {
				if logged.First("unkept", fmt.Sprint("rollups/", i), nil) {
					lines++
				}
			}
			if lines != want {
				t.Errorf("pass %d: %d lines, want %d", n, lines, want)
			}
			time.Sleep(200 * time.Second)
		}
	})
}

// However many counters somebody makes up, they take no more memory, and never keep another one
// from being logged, whether it is met before them or after them.
func TestJunkSilencesNoOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logged := rollup.NewLogged(nil)
		for n := range 2 {
			before := logged.First("unkept", "rollups/before", nil)
			for i := range 120_000 {
				logged.First("unkept", fmt.Sprint("rollups/", i), nil)
				logged.First("unkept", fmt.Sprint("rollups/", n, "/", i), nil)
			}
			after := logged.First("unkept", "rollups/after", nil)
			if !before || !after {
				t.Errorf("pass %d: logged %t, %t; want both", n, before, after)
			}
			if logged.First("unkept", "rollups/after", nil) {
				t.Errorf("pass %d: logged twice in a row", n)
			}
			if room := room(logged); room > 200_000 {
				t.Errorf("pass %d: room for %d lines", n, room)
			}
			time.Sleep(10 * time.Minute)
		}
	})
}

// An error of another cause is logged, too: what someone must fix is another thing now.
func TestCausesAreLoggedApart(t *testing.T) {
	denied, full := errors.New("denied"), errors.New("full")
	logged := rollup.NewLogged(func(err error) string { return fmt.Sprint(err) })
	for _, test := range []struct {
		err  error
		want bool
	}{{denied, true}, {denied, false}, {full, true}, {denied, false}, {full, false}} {
		if got := logged.First("unkept", "rollups/a", test.err); got != test.want {
			t.Errorf("%v: %v, want %v", test.err, got, test.want)
		}
	}
}
