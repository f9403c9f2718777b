package rollup_test

import (
	"testing"
	"time"

	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

// The cadence of a counter whose sums bill much follows from that, and it has no burst.
func TestBilledCadence(t *testing.T) {
	for name, test := range map[string]struct {
		numShards int64
		route     string
		want      time.Duration // 0: at once
	}{
		"small":             {1000, route.Default, 0},
		"100,000 documents": {100_000, route.Default, 101 * time.Second / 50},
		"a million":         {1_000_000, route.Default, 1001 * time.Second / 50},
		"two totals":        {1_000_000, route.Default + ", views", 2002 * time.Second / 50},
		"the route's":       {1_000_000, route.Default + " : cadence 1m", 0},
		"each is read":      {1000, route.Default + " : documents", 1001 * time.Second / 50},
		"made up":           {1 << 62, route.Default, time.Hour},
		"negative":          {-1 << 62, route.Default, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inAlarmedWorld(t, func(w *world, _ *rollup.Coalescer, a *alarmed) {
				o := w.options(0)
				o.Burst, o.ReadsPerSecond, o.Hold, o.Timeout, o.Alarms = 5, 50, hold, hold/2, a
				c := rollup.NewCoalescer(traced{w.store, w}, o)
				counter := mustCounter(test.route, "counters/likes/shards")

				asOf := w.store.Now().Truncate(time.Microsecond)
				fields := rolledUp(int64(0), test.numShards, asOf)
				fields["tally"].(map[string]any)["routes"] = counter.Template.Hash()
				fields["tally"].(map[string]any)["paced_until"] = asOf.Add(test.want)
				w.store.Put(counter.RollUp, fields)
				time.Sleep(time.Second)

				ending, err := w.happens(c, "a", counter)
				if err != nil {
					t.Fatal(err)
				}
				due := w.store.Now()
				if ending.Deferred {
					due = a.last().At
				}
				if test.want == 0 {
					if wait := due.Sub(asOf); wait > 2*time.Second {
						t.Errorf("it is rolled up after %v", wait)
					}
					return
				}
				if early := due.Sub(asOf) - test.want; early < 0 || early > 500*time.Millisecond {
					t.Errorf("it is due after %v, want %v", due.Sub(asOf), test.want)
				}
			})
		})
	}
}
