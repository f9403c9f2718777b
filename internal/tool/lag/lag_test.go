package lag

import (
	"testing"
	"time"

	"github.com/firestore-tally/tally/shards"
)

func TestOf(t *testing.T) {
	var lags []time.Duration
	for i := range 100 {
		lags = append(lags, time.Duration(100-i)*time.Millisecond)
	}
	if got, want := Of(lags), (Lag{50, 99, 100}); got != want {
		t.Errorf("of 1 to 100 ms: %v, want %v", got, want)
	}
	if got := Of(nil); got != (Lag{}) {
		t.Errorf("of nothing: %v, want 0", got)
	}
}

// The first version as of a commit, or later, covers it.
func TestCovering(t *testing.T) {
	at := func(ms int64) time.Time { return time.UnixMilli(ms) }
	seen := []RollUp{{RollUp: shards.RollUp{AsOf: at(100)}}, {RollUp: shards.RollUp{AsOf: at(200)}}}
	for committed, want := range map[int64]int64{50: 100, 100: 100, 101: 200, 200: 200} {
		got, covered := Covering(seen, at(committed))
		if !covered || !got.AsOf.Equal(at(want)) {
			t.Errorf("a commit at %d: %v, %v; want the roll-up as of %d", committed, got.AsOf, covered, want)
		}
	}
	for _, none := range [][]RollUp{seen, nil} {
		if got, covered := Covering(none, at(201)); covered {
			t.Errorf("a commit after all of %v is covered by %v", none, got)
		}
	}
}
