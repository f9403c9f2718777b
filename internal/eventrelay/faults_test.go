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
		if got := f.lag(id, 0, time.Hour) + f.delay(id, 0, 0); got != 0 {
			t.Fatalf("%s waits %v", id, got)
		}
		if f.loses(id, 0, 0) {
			t.Fatalf("the acknowledgement of %s is lost", id)
		}
	}
}

func TestFaultsRates(t *testing.T) {
	const events = 20_000
	f := Faults{Seed: 1, Duplicates: 0.1, LostAcks: 0.3, Delay: time.Second}
	var twice, lost, lostAgain, together, delay float64
	for i := range events {
		id := fmt.Sprint("event-", i)
		twice += float64(f.copies(id) - 1)
		delay += f.delay(id, 0, 0).Seconds()
		if f.loses(id, 0, 0) {
			lost++
			if f.loses(id, 0, 1) {
				lostAgain++
			}
		}
		switch lag := f.lag(id, 1, time.Minute); {
		case lag == 0:
			together++
		case lag < 0 || lag > time.Minute:
			t.Fatalf("lag %v, want at most 1m", lag)
		}
		if got := f.jitter(id, 0, 0, time.Second); got < time.Second/2 || got > time.Second {
			t.Fatalf("jitter of 1s = %v, want 0.5s to 1s", got)
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
		{"mean delay in s", delay / events, 0.5},
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
		if x, y := a.draw(id, "ack", 0, 0), a.draw(id, "ack", 0, 0); x != y {
			t.Fatalf("%s: %v, then %v from one seed", id, x, y)
		}
		if a.draw(id, "ack", 0, 0) < 0.5 == (b.draw(id, "ack", 0, 0) < 0.5) {
			same++
		}
	}
	if same < 400 || same > 600 {
		t.Errorf("two seeds agree on %d of 1000 even decisions, want about 500", same)
	}
}
