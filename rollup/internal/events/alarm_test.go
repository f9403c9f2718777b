package events

import (
	"testing"
	"time"
)

// An instance relies on an alarm no longer than either of its clocks says.
func TestKnownUntilEitherClock(t *testing.T) {
	k := knownAlarm{until: time.Now()}
	before, after := k.until.Add(-time.Microsecond), k.until.Add(time.Microsecond)
	for _, test := range []struct {
		monotonic, wall time.Time
		want            bool
	}{
		{before, before, false},
		{before, after, true}, // the machine was suspended
		{after, before, true}, // somebody has set the clock back
		{k.until, before, true},
	} {
		if got := k.over(test.monotonic, test.wall.Round(0)); got != test.want {
			t.Errorf("%v and %v from the end: over %v, want %v", test.monotonic.Sub(k.until), test.wall.Sub(k.until), got, test.want)
		}
	}
}

// An alarm that rang early is not due.
func TestAlarmThatRangEarly(t *testing.T) {
	now := time.Unix(1, 0)
	for early, want := range map[time.Duration]bool{time.Microsecond: false, 0: true, -time.Second: true} {
		s := counterState{alarms: []*generation{{coveredFrom: now.Add(early)}}}
		if got := s.hasDueAlarm(now); got != want {
			t.Errorf("%v early: due %v", early, got)
		}
	}
}
