package rollup_test

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

var slowTable = flag.Bool("slow.table", false, "print what TestSlowSums measures as a table")

func (l load) String() string {
	if l.rate == 0 {
		return "pulses"
	}
	return fmt.Sprint(l.rate, " events a second")
}

// perRollUp returns how many there are for each roll-up.
func (c *cloud) perRollUp(n int64) float64 { return float64(n) / float64(c.writes.Load()) }

// However many instances serve a counter and however long its sums take, hardly more than one sums
// for each roll-up, and a total is not older by more than one sum than where one instance serves
// it.
func TestSlowSums(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}

	if *slowTable {
		fmt.Println("| a sum takes | | instances | sums a roll-up | looks | claims read | written | refused | writes refused | lag mean | p99 | roll-ups/s | events that failed |")
		fmt.Println("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	}
	for _, takes := range []time.Duration{200 * time.Millisecond, 700 * time.Millisecond, 2 * time.Second} {
		for _, l := range []load{{2, 2 * time.Minute}, {20, time.Minute}, {200, time.Minute}, {0, 2 * time.Minute}} {
			var alone time.Duration // mean lag
			for _, instances := range []int{1, 2, 8, 100} {
				c := l.serveSlow(t, instances, 5, takes)
				if instances == 1 {
					alone = c.lagMean()
				}
				if *slowTable {
					fmt.Printf("| %v | %v | %d | %.2f | %.1f | %.1f | %.2f | %.2f | %.2f | %v | %v | %.2f | %d |\n", takes, l, instances,
						c.perRollUp(c.sums.Load()), c.perRollUp(c.looks.Load()), c.perRollUp(c.claims.Load()), c.perRollUp(c.claimed.Load()), c.perRollUp(c.claimsRefused.Load()),
						c.refusedPerRollUp(), c.lagMean().Round(time.Millisecond), c.lag(0.99), float64(c.writes.Load())/l.d.Seconds(), c.notCovered.Load())
				}
				what := fmt.Sprintf("%v, %d instances, a sum takes %v", l, instances, takes)
				if n := c.perRollUp(c.sums.Load()); n > 1.1 {
					t.Errorf("%s: %.2f sums a roll-up, want at most 1.1", what, n)
				}
				if n := c.perRollUp(c.looks.Load()+c.claims.Load()) / float64(instances); l.rate == 200 && n > 2.6 {
					t.Errorf("%s: %.2f looks and claims read of an instance for each roll-up, want at most 2.6", what, n)
				}
				if lag := c.lagMean(); lag > alone+takes {
					t.Errorf("%s: a total is %v old on average, %v with one instance; want at most a sum more", what, lag, alone)
				}
				if failed, all := c.notCovered.Load(), c.events.Load(); failed > all/1000 {
					t.Errorf("%s: %d of %d events were not covered in time", what, failed, all)
				}
			}
		}
	}
}

// putSlow stores a roll-up of likes that another instance has made long ago, whose sum of so many
// shards took so long.
func (w *world) putSlow(shards int64, took time.Duration) time.Time {
	asOf := w.store.Now().Truncate(time.Microsecond).Add(-time.Minute)
	w.store.Put(likes.RollUp, map[string]any{"count": int64(0), "tally": document.Tally{
		AsOf: asOf, NumShards: shards, PacedUntil: asOf, Routes: likes.Template.Hash(), Totals: []string{"count"}, Took: took,
	}.Encode()})
	return asOf
}

// putClaim stores another's claim, for the successor of a roll-up.
func (w *world) putClaim(over time.Time) {
	w.store.Put(document.ClaimPath(likes.RollUp), document.Claim{By: "another", Over: over}.Encode(likes.RollUp))
}

// An instance that finds a claim waits for as long as a sum takes, and then until the claim is
// over. No claim costs more than that.
func TestClaims(t *testing.T) {
	const (
		took    = time.Second
		backOff = cadence/10 + cadence/8 // with 0.5 drawn
	)
	for _, test := range []struct {
		name   string
		took   time.Duration
		before func(w *world, asOf time.Time)
		want   time.Duration // until it is rolled up
		sums   int32
		claims int32 // that are read and written
	}{
		{"none", took, func(*world, time.Time) {}, 0, 1, 2},
		{"a cheap counter", took, func(w *world, asOf time.Time) {
			w.putSlow(4999, took)
			w.putClaim(asOf)
		}, 0, 1, 0},
		{"a quick counter", cadence/10 - time.Millisecond, func(w *world, asOf time.Time) { w.putClaim(asOf) }, 0, 1, 0},
		{"another's, whose instance dies", took, func(w *world, asOf time.Time) { w.putClaim(asOf) }, took*3/2 + backOff, 1, 4},
		{"another's, for longer than a sum takes", took, func(w *world, asOf time.Time) {
			w.putClaim(asOf)
			time.Sleep(took + time.Millisecond)
		}, took/2 - time.Millisecond + backOff, 1, 3},
		{"another's, of an earlier roll-up", took, func(w *world, asOf time.Time) { w.putClaim(asOf.Add(-time.Second)) }, 0, 1, 2},
		{"another's, over", took, func(w *world, asOf time.Time) {
			w.putClaim(asOf)
			time.Sleep(took*3/2 + time.Millisecond)
		}, 0, 1, 2},
		{"another's, who is done in time", took, func(w *world, asOf time.Time) {
			w.putClaim(asOf)
			time.AfterFunc(took, w.rollUpElsewhere)
		}, took + backOff, 0, 1},
		{"another's, made since the look", took, func(w *world, asOf time.Time) {
			w.aroundClaim = func(n int32, claim func() error) error {
				if n == 2 { // after it has read that there is none
					w.putClaim(asOf)
					time.AfterFunc(took, w.rollUpElsewhere)
				}
				return claim()
			}
		}, took + backOff, 0, 2},
		{"no claim at all", took, func(w *world, _ time.Time) {
			w.store.Put(document.ClaimPath(likes.RollUp), map[string]any{"claim": 7})
		}, 0, 1, 2},
		{"one that cannot be read", took, func(w *world, asOf time.Time) {
			w.putClaim(asOf)
			w.aroundClaim = func(int32, func() error) error { return errStore }
		}, 0, 1, 1},
		{"one that cannot be written", took, func(w *world, _ time.Time) {
			w.aroundClaim = func(n int32, claim func() error) error {
				if n == 2 {
					return errStore
				}
				return claim()
			}
		}, 0, 1, 2},
		{"another's, after a sum that took forever", 1 << 62, func(w *world, asOf time.Time) { w.putClaim(asOf) }, hold + backOff, 1, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, func(w *world, _ *rollup.Coalescer) {
				c := w.paced(cadence, 5, 0.5)
				w.increment(1)
				test.before(w, w.putSlow(5000, test.took))
				began := time.Now()
				w.acknowledged(w.deliverWithin(3*hold, c, "event"))
				if got := time.Since(began).Round(10 * time.Microsecond); got != test.want {
					t.Errorf("it waited %v, want %v", got, test.want)
				}
				if n := w.sums.Load(); n != test.sums {
					t.Errorf("%d sums, want %d", n, test.sums)
				}
				if n := w.claims.Load(); n != test.claims {
					t.Errorf("%d claims read and written, want %d", n, test.claims)
				}
				w.wantTotal(1)
			})
		})
	}
}

// An instance does not wait for its own claim: after a sum that failed, the next begins at once.
func TestOwnClaim(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		c := w.paced(cadence, 5, 0.5)
		w.putSlow(5000, time.Second)
		w.beforeSum = func(n int32) error {
			if n == 1 {
				return errStore
			}
			return nil
		}
		w.increment(1)
		if got := w.waits(c, "event"); got != 0 {
			t.Errorf("it waited %v", got)
		}
		w.wantTotal(1)
	})
}

// A roll-up keeps how long its sum took, by which others know what to expect.
func TestTookIsKept(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		w.beforeSum = func(int32) error {
			time.Sleep(123 * time.Millisecond)
			return nil
		}
		w.increment(1)
		w.acknowledged(w.deliver(c, "event"))
		if took := document.DecodeTally(w.store.Get(likes.RollUp)["tally"]).Took; took != 123*time.Millisecond {
			t.Errorf("it says that the sum took %v", took)
		}
	})
}

// An audit's walks take a claim neither for a counter nor for a roll-up.
func TestAuditMeetsClaims(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		w.putClaim(w.putSlow(5000, time.Second))
		w.increment(1)
		w.acknowledged(w.deliver(c, "event"))
		time.Sleep(time.Minute)
		report, err := rollup.Audit(context.Background(), traced{w.store, w}, likes.Template.Routes, w.auditOptions())
		if err != nil || report.Counters != 1 || report.Unchanged != 1 {
			t.Errorf("%+v: %v", report, err)
		}
	})
}

// A route that has each shard read bills each, so that a claim is worth it for few, too.
func TestClaimOfDocuments(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		each := mustCounter(route.Default+" : documents", "counters/likes/shards")
		w.putClaim(w.putSlow(5, time.Second))
		began := time.Now()
		w.acknowledged(w.deliverOf(hold, w.paced(cadence, 5, 0), each, rollup.Event{ID: "event"}))
		if got, want := time.Since(began).Round(time.Millisecond), time.Second*3/2+cadence/10; got != want {
			t.Errorf("it waited %v for another's claim, want %v", got, want)
		}
	})
}

// Waiting for another's claim is not a failure. A look that fails after the wait is the first in a
// row, and no pause follows it.
func TestClaimEndsFailures(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		c := w.paced(cadence, 5, 0.5)
		w.increment(1)
		w.putClaim(w.putSlow(5000, time.Second))
		var looks []time.Time
		w.beforeView = func(n int32) error {
			looks = append(looks, time.Now())
			if n == 2 || n == 3 || n == 5 { // the first and the fourth find the claim
				return errStore
			}
			return nil
		}
		w.acknowledged(w.deliver(c, "event"))
		if len(looks) < 6 || !looks[5].Equal(looks[4]) {
			t.Errorf("looked at %v, want the sixth time at once after the fifth", looks)
		}
	})
}
