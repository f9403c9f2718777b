package eventrelay

import (
	"fmt"
	"math"
	"testing"
	"time"
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
