package load

import (
	"math"
	"slices"
	"time"

	"github.com/firestore-tally/tally/shards"
)

// A Lag says how late roll-ups are: the time from a write's commit until a listener sees a roll-up
// that covers it, in milliseconds.
type Lag struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// LagOf returns the lags that half, 99 % and all of the durations do not exceed; zeros if there are
// none. It sorts the durations.
func LagOf(lags []time.Duration) Lag {
	if len(lags) == 0 {
		return Lag{}
	}

	slices.Sort(lags)
	at := func(share float64) float64 {
		n := int(math.Ceil(share * float64(len(lags))))
		return float64(lags[max(n, 1)-1].Microseconds()) / 1000
	}
	return Lag{P50: at(0.50), P99: at(0.99), Max: at(1)}
}

// A RollUp is a version of a roll-up document that a listener saw.
type RollUp struct {
	shards.RollUp
	Written time.Time // by Firestore's clock
	Seen    time.Time // by the local clock
}

// Lags returns how long after each write's commit the first of the versions that covers the write
// was seen. The versions are in the order in which they were seen. Firestore's clock is ahead of
// this machine's. A write that no version covers has no lag.
func Lags(writes []Write, seen []RollUp, ahead time.Duration) (lags []time.Duration) {
	byAsOf := func(r RollUp, t time.Time) int { return r.AsOf.Compare(t) }
	for _, w := range writes {
		n, _ := slices.BinarySearchFunc(seen, w.Committed, byAsOf)
		if n < len(seen) {
			lags = append(lags, seen[n].Seen.Sub(w.Committed)+ahead)
		}
	}
	return lags
}
