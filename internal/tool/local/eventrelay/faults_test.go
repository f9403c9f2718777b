package eventrelay

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestFaultsZeroValue(t *testing.T) {
	var f Faults
	for i := range 1000 {
		id := fmt.Sprint("event-", i)
		if got := f.copies(id); got != 1 {
			t.Fatalf("copies(%s) = %d, want 1", id, got)
		}
		draws := f.draws(id, 0)
		if lag := f.lag(draws, 0, time.Hour); lag != 0 {
			t.Fatalf("%s leaves after %v", id, lag)
		}
		if delay, lost, _ := f.delivery(draws, time.Second); delay != 0 || lost {
			t.Fatalf("%s waits %v, its acknowledgement is lost: %v", id, delay, lost)
		}
	}
}

func TestFaultsRates(t *testing.T) {
	const events = 20_000
	f := Faults{Seed: 1, Duplicates: 0.1, LostAcks: 0.3, Delay: time.Second}
	var twice, lost, lostAgain, together, delays float64
	for i := range events {
		id := fmt.Sprint("event-", i)
		twice += float64(f.copies(id) - 1)
		draws := f.draws(id, 1)
		switch lag := f.lag(draws, 1, time.Minute); {
		case lag == 0:
			together++
		case lag < 0 || lag > time.Minute:
			t.Fatalf("lag %v, want at most 1m", lag)
		}
		delay, first, wait := f.delivery(draws, time.Second)
		delays += delay.Seconds()
		if wait < time.Second/2 || wait > time.Second {
			t.Fatalf("wait %v after 1s, want 0.5s to 1s", wait)
		}
		if _, second, _ := f.delivery(draws, time.Second); first {
			lost++
			if second {
				lostAgain++
			}
		}
	}
	for _, test := range []struct {
		what      string
		got, want float64
	}{
		{"duplicates", twice / events, 0.1},
		{"lost acknowledgements", lost / events, 0.3},
		{"lost again, of those lost", lostAgain / lost, 0.3},
		{"second copies that leave with the first", together / events, 0.5},
		{"mean delay in s", delays / events, 0.5},
	} {
		if math.Abs(test.got-test.want) > 0.02 {
			t.Errorf("%s: %.3f, want %.2f", test.what, test.got, test.want)
		}
	}
}

func TestFaultsSeed(t *testing.T) {
	a, b := Faults{Seed: 1}, Faults{Seed: 2}
	same := 0
	for i := range 1000 {
		id := fmt.Sprint("event-", i)
		x := a.draws(id, 0).Float64()
		if again := a.draws(id, 0).Float64(); x != again {
			t.Fatalf("%s: %v, then %v from one seed", id, x, again)
		}
		if x < 0.5 == (b.draws(id, 0).Float64() < 0.5) {
			same++
		}
	}
	if same < 400 || same > 600 {
		t.Errorf("two seeds agree on %d of 1000 even decisions, want about 500", same)
	}
}

func TestDuplicates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(always(200))
		r := newRelay(t, n, Options{Faults: Faults{Duplicates: 1}})
		deliver(t, r, ids(50)...)
		wait(t, r)
		together, later := 0, 0
		for id, deliveries := range n.seen() {
			if len(deliveries) != 2 {
				t.Fatalf("%s: %v, want two deliveries", id, deliveries)
			}
			// All were acknowledged at once, so a later copy came after that.
			if deliveries[1].At == 0 {
				together++
			} else {
				later++
			}
		}
		if together == 0 || later == 0 {
			t.Errorf("%d second copies came with the first and %d later, want some of each", together, later)
		}
		want := Stats{Events: 50, Duplicated: 50, Deliveries: 100, Acknowledged: 50}
		if diff := cmp.Diff(want, r.Stats()); diff != "" {
			t.Errorf("Stats (-want +got):\n%s", diff)
		}
	})
}

// Once one copy is acknowledged, the other is not delivered again.
func TestOneAcknowledgementEndsTheMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const acknowledged = 2
		n := newNetwork(func(nth int, _ *http.Request) int {
			if nth == acknowledged {
				return 200
			}
			return 500
		})
		r := newRelay(t, n, Options{Faults: Faults{Duplicates: 1}})
		deliver(t, r, "e")
		wait(t, r)
		// Both copies have been delivered by then, or the second is still to come: once.
		want := Stats{Events: 1, Duplicated: 1, Acknowledged: 1}
		want.Deliveries = len(n.deliveries)
		want.Redelivered = want.Deliveries - 2
		if diff := cmp.Diff(want, r.Stats()); diff != "" {
			t.Errorf("Stats (-want +got):\n%s", diff)
		}
		if want.Deliveries > acknowledged+1 {
			t.Errorf("%d deliveries, want at most one after the acknowledgement", want.Deliveries)
		}
	})
}

func TestLostAcks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faults := Faults{Seed: 7, LostAcks: 0.5}
		n := newNetwork(always(200))
		r := newRelay(t, n, Options{Faults: faults})
		all := ids(50)
		deliver(t, r, all...)
		wait(t, r)
		seen, lost := n.seen(), 0
		for _, id := range all {
			draws := faults.draws(id, 0)
			faults.lag(draws, 0, 0)
			want := 1
			for _, again, _ := faults.delivery(draws, 0); again; _, again, _ = faults.delivery(draws, 0) {
				want++
			}
			if got := len(seen[id]); got != want {
				t.Errorf("%s: %d deliveries, want %d", id, got, want)
			}
			lost += want - 1
		}
		want := Stats{Events: 50, Deliveries: 50 + lost, Redelivered: lost, LostAcks: lost, Acknowledged: 50}
		if diff := cmp.Diff(want, r.Stats()); diff != "" {
			t.Errorf("Stats (-want +got):\n%s", diff)
		}
	})
}

func TestDelayReorders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(always(200))
		r := newRelay(t, n, Options{Faults: Faults{Delay: time.Second}})
		all := ids(50)
		deliver(t, r, all...)
		wait(t, r)
		var got []string
		for _, d := range n.deliveries {
			got = append(got, d.ID)
			if d.At > time.Second {
				t.Errorf("%s came after %v, want at most 1s", d.ID, d.At)
			}
		}
		if slices.Equal(got, all) {
			t.Error("all came in order")
		}
		if diff := cmp.Diff(all, slices.Sorted(slices.Values(got))); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// One seed does the same to the same events, in whatever order they come.
func TestSameSeedSameFaults(t *testing.T) {
	run := func(t *testing.T, seed uint64, ids []string) (seen map[string][]delivery) {
		synctest.Test(t, func(t *testing.T) {
			n := newNetwork(always(200))
			r := newRelay(t, n, Options{
				Faults: Faults{Seed: seed, Duplicates: 0.3, LostAcks: 0.3, Delay: time.Second},
			})
			deliver(t, r, ids...)
			wait(t, r)
			seen = n.seen()
		})
		return seen
	}
	forth := ids(100)
	back := slices.Clone(forth)
	slices.Reverse(back)
	first, second, other := run(t, 1, forth), run(t, 1, back), run(t, 2, forth)
	anyTarget := cmpopts.IgnoreFields(delivery{}, "Target")
	if diff := cmp.Diff(first, second, anyTarget); diff != "" {
		t.Errorf("the same seed (-in order +reversed):\n%s", diff)
	}
	if cmp.Equal(first, other, anyTarget) {
		t.Error("two seeds did the same")
	}
	if !slices.Equal(slices.Sorted(maps.Keys(first)), forth) {
		t.Errorf("events %v", slices.Sorted(maps.Keys(first)))
	}
}
