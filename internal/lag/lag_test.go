package lag

import (
	"testing"
	"time"
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
