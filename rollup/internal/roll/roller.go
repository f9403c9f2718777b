package roll

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/firestore-tally/tally/rollup/route"
)

// A Roller looks at counters and publishes roll-ups. Coalescers, audits and Keep each have one.
type Roller struct {
	store   Store
	Options Options
	Prune   bool // whether writes take former totals away
	Salted  bool // whether alarms have names of their own, because somebody may have deleted others
}

// New returns a roller, and fills in the options that have defaults.
func New(store Store, o Options) Roller {
	if o.Random == nil {
		o.Random = rand.Float64
	}
	if o.Logged == nil {
		o.Logged = NewLogged(nil)
	}
	return Roller{store: store, Options: o}
}

// firstPause is the greatest length of the first pause. Each pause is shortened at random, by up to
// a half. Each further pause is twice as long, up to the longest.
const firstPause = 50 * time.Millisecond

// PauseAfter returns how long to pause after so many failures in a row. It returns 0 if n is 0.
func (r *Roller) PauseAfter(n int, longest time.Duration) time.Duration {
	if n <= 0 {
		return 0
	}
	delay := min(firstPause<<min(n-1, 30), longest)
	return time.Duration((0.5 + r.Options.Random()/2) * float64(delay))
}

// Later returns the later of two times.
func Later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Sooner returns the sooner of two times. A zero time is ignored.
func Sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// LogOnce logs a line about a counter, unless one with the same message and cause was logged
// lately.
func (r *Roller) LogOnce(ctx context.Context, level slog.Level, message string, c route.Counter, eventID string, err error, args ...any) {
	first := r.Options.Logged.First(message, c.RollUp, err)
	if !first {
		return
	}
	if err != nil {
		args = append(args, "error", err)
	}
	r.Options.Logger.With("counter", c.RollUp, "event_id", eventID).Log(ctx, level, message, args...)
}

// LogUnkept logs that a counter is unkept, unless that was logged lately.
func (r *Roller) LogUnkept(ctx context.Context, c route.Counter, eventID string, err error) {
	r.LogOnce(ctx, slog.LevelError, "counter unkept; no retry can help", c, eventID, err)
}
