package main

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/firestore-tally/tally/shards"
	"github.com/google/go-cmp/cmp"
)

// A roll-up that differs from what was acknowledged must end the demo with an error, whatever the format.
func TestInexactDemoFails(t *testing.T) {
	var zero shards.Total
	for _, test := range []struct {
		acknowledged int64
		want         error
	}{{0, nil}, {1, errInexact}} {
		for _, json := range []bool{false, true} {
			r := result{Expected: make(map[string]int64), RolledUp: make(map[string]int64), Exact: true}
			r.compare("good", 0, zero)
			r.compare("c", test.acknowledged, zero)
			d := demo{out: new(bytes.Buffer), json: json}
			if err := d.report(r); !errors.Is(err, test.want) || (err == nil) != r.Exact {
				t.Errorf("%d acknowledged, 0 rolled up: exact %v, error %v", test.acknowledged, r.Exact, err)
			}
		}
	}
}

func TestPercentile(t *testing.T) {
	var lags []time.Duration
	for i := range 100 {
		lags = append(lags, time.Duration(100-i)*time.Millisecond)
	}
	for p, want := range map[float64]float64{0: 1, 0.5: 50, 0.99: 99, 1: 100} {
		if got := percentile(lags, p); got != want {
			t.Errorf("p%v of 1 to 100 ms is %v, want %v", 100*p, got, want)
		}
	}
	if got := percentile(nil, 0.5); got != 0 {
		t.Errorf("of nothing: %v, want 0", got)
	}
}

func TestWatched(t *testing.T) {
	var w watched
	now := time.Now()
	at := func(ms int) time.Time { return now.Add(time.Duration(ms) * time.Millisecond) }
	w.incremented(at(-3000))
	w.incremented(at(-2000))
	w.incremented(at(-1000))
	w.rolledUp(at(-2000), at(-1900))
	if lags := w.takeLags(); len(lags) != 2 || slices.Max(lags) < 3*time.Second || slices.Min(lags) < 2*time.Second {
		t.Errorf("lags %v, want at least 3 s and 2 s: as_of covers what was committed at it", lags)
	}
	w.rolledUp(at(-500), at(-901))
	w.rolledUp(at(-400), at(-900))
	if lags := w.takeLags(); len(lags) != 1 || lags[0] < time.Second {
		t.Errorf("lags %v, want one of at least 1 s", lags)
	}
	if got := w.mostWithin(time.Second); got != 2 {
		t.Errorf("at most %d roll-ups within a second, want 2", got)
	}
}

func TestFunctionsEnvironment(t *testing.T) {
	got := functionsEnvironment([]string{"HOME=/", "FUNCTION_TARGET=RollUpOnWrite", "K_SERVICE=x", "TALLY_CADENCE=1s"})
	if d := cmp.Diff([]string{"HOME=/", "TALLY_CADENCE=1s"}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
