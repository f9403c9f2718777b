package rollup_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

// Events that come all the same are rolled up as on a live route and not by D, and the schedule
// keeps to D next to them.
func TestEventsOfScheduledRoute(t *testing.T) {
	for _, burst := range []int{1, 5} {
		t.Run(fmt.Sprint("burst ", burst), func(t *testing.T) {
			inWorld(t, func(w *world, _ *rollup.Coalescer) {
				o := w.options(0)
				o.Burst = burst
				var live, kept attempts
				c := rollup.NewCoalescer(live.of(traced{w.store, w}), o)
				w.increment(1)
				began := time.Now()
				var all sync.WaitGroup
				all.Go(func() {
					if report, err := w.keep(traced{w.store, w}, began.Add(6*every), &kept); err != nil {
						t.Errorf("%+v, %v", report, err)
					}
				})
				time.Sleep(every / 2)
				for i := range 200 { // for two D
					committed := w.increment(1)
					all.Go(func() {
						e, err := c.HandleEvent(w.t.Context(), rollup.Event{ID: fmt.Sprint("e", i), UpdateTime: committed}, route.Concern{Counter: scheduled})
						if waited := time.Since(committed); err != nil || e.Held && e.AsOf.Before(committed) || waited > 27*cadence/10 {
							t.Errorf("event %d ended %+v, %v after %v", i, e, err, waited)
						}
					})
					time.Sleep(100 * time.Millisecond)
				}
				all.Wait()
				w.wantTotal(201)
				if n := len(live.asOfs[likes.RollUp]); n < 18 || n > burst+21 {
					t.Errorf("%d roll-ups of events in 20 s, want one in each cadence and a burst of %d", n, burst)
				}
				for _, gap := range kept.gaps(likes.RollUp) {
					if gap < every {
						t.Errorf("the schedule rolled up twice within %v", gap)
					}
				}
			})
		})
	}
}

// A route goes from live to "every" and back under load, whatever the order of the deployments: old
// and new instances run side by side, events get lost because there is no trigger, and for a while
// neither or both of the trigger and the schedule are at work. After the next tick the total is
// exact.
func TestSwitchingBetweenLiveAndEvery(t *testing.T) {
	orders := [][3]string{
		{"trigger", "functions", "schedule"}, {"trigger", "schedule", "functions"}, {"functions", "trigger", "schedule"},
		{"functions", "schedule", "trigger"}, {"schedule", "trigger", "functions"}, {"schedule", "functions", "trigger"},
	}
	for _, toEvery := range []bool{true, false} {
		for _, order := range orders {
			t.Run(fmt.Sprintf("to every %v: %s", toEvery, strings.Join(order[:], ", ")), func(t *testing.T) {
				inWorld(t, func(w *world, _ *rollup.Coalescer) { w.switchRoutes(toEvery, order) })
			})
		}
	}
}

func (w *world) switchRoutes(toEvery bool, order [3]string) {
	const step, period = 15 * time.Second, 20 * time.Second
	began := time.Now()
	at := make(map[string]time.Time) // when each has changed
	for i, what := range order {
		at[what] = began.Add(step * time.Duration(i+1))
	}
	changed := func(what string, after time.Duration) bool { return !time.Now().Before(at[what].Add(after)) }
	o := w.options(0.5)
	o.Burst = 5
	instances := []*rollup.Coalescer{rollup.NewCoalescer(traced{w.store, w}, o), rollup.NewCoalescer(traced{w.store, w}, o), rollup.NewCoalescer(traced{w.store, w}, o)}
	var all sync.WaitGroup
	const events = 1500
	for i := range events { // 20 a second, until all has changed and longer
		all.Go(func() {
			time.Sleep(time.Duration(i)*50*time.Millisecond + jitter(fmt.Sprint("event ", i)))
			committed := w.increment(1)
			switch { // a trigger that is new takes some seconds to start
			case toEvery && changed("trigger", 0), !toEvery && !changed("trigger", 3*time.Second):
				return
			}
			time.Sleep(time.Duration(i%9) * 20 * time.Millisecond)
			n := i % len(instances)
			counter := likes
			if changed("functions", time.Duration(n)*3*time.Second) == toEvery { // one instance after the other
				counter = scheduled
			}
			if e, err := instances[n].HandleEvent(w.t.Context(), rollup.Event{ID: fmt.Sprint("e", i), UpdateTime: committed}, route.Concern{Counter: counter}); err != nil || e.Held && e.AsOf.Before(committed) {
				w.t.Errorf("event %d ended %+v, %v", i, e, err)
			}
		})
	}
	tick := func() {
		if changed("schedule", 0) == toEvery {
			if report, err := w.keep(traced{w.store, w}, time.Now().Add(period), nil); err != nil {
				w.t.Errorf("%+v, %v", report, err)
			}
		} else if report, err := w.audit(w.auditOptions()); err != nil {
			w.t.Errorf("%+v, %v", report, err)
		}
	}
	all.Go(func() {
		for range 4 { // the last begins before the last event
			tick()
			time.Sleep(time.Until(began.Add(time.Since(began).Truncate(period) + period)))
		}
	})
	all.Wait()
	tick()
	w.wantTotal(events)
}
