package events

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Each pause in a row is twice as long as the one before, up to the longest. Once what failed has
// succeeded, the next pause is short again.
func TestPausesGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pause
		var steps []time.Duration
		for range 4 {
			p.start(20*time.Second, time.Minute, time.Now())
			steps = append(steps, p.step)
			time.Sleep(p.step + time.Hour)
		}
		p = pause{}
		p.start(20*time.Second, time.Minute, time.Now())
		steps = append(steps, p.step)

		if want := []time.Duration{20e9, 40e9, 60e9, 60e9, 20e9}; !slices.Equal(steps, want) {
			t.Errorf("pauses of %v, want %v", steps, want)
		}
	})
}

// A pause ends when the local clock says so, or when the server has told a time that late.
func TestPauseIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := time.Now().Add(-time.Hour) // the local clock goes wrong
		for _, test := range []struct {
			name           string
			passed, passes time.Duration // by the local clock, and by the server's
			want           bool
		}{
			{"at its beginning", 0, 0, false},
			{"shortly before its end", time.Minute - 1, time.Minute - 1, false},
			{"at its end", time.Minute, 0, true},
			{"on a machine that was suspended", time.Second, time.Minute, true},
		} {
			var p pause
			if !p.over(server) {
				t.Error("a pause is not over that never began")
			}
			p.start(time.Minute, time.Minute, server)
			time.Sleep(test.passed)
			if over := p.over(server.Add(test.passes)); over != test.want {
				t.Errorf("%s it is over: %v, want %v", test.name, over, test.want)
			}
		}
	})
}
