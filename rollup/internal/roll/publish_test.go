package roll

import (
	"testing"
	"time"
)

// A machine that was suspended for an hour has a snapshot that is an hour old.
func TestAgeByEitherClock(t *testing.T) {
	l := Look{Began: time.Now()}
	for _, test := range []struct{ monotonic, wall, want time.Duration }{
		{time.Second, time.Second, time.Second},
		{time.Second, time.Hour, time.Hour},
		{time.Second, -time.Hour, time.Second}, // somebody has set the clock back
	} {
		got := l.age(l.Began.Add(test.monotonic), l.Began.Add(test.wall).Round(0))
		if got != test.want {
			t.Errorf("after %v and %v: %v, want %v", test.monotonic, test.wall, got, test.want)
		}
	}
}
