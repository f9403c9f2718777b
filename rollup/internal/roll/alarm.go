package roll

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/firestore-tally/tally/rollup/route"
)

const (
	// LeastAhead is how much later than the look an alarm rings. An event may be deferred only if
	// it came before the alarm's time, by Firestore's clock and by the clock of the alarms. The two
	// differ, and so do the clocks by which this instance reckons the time between its looks.
	LeastAhead = 3 * time.Second

	// furthest is how far ahead an alarm may ring. Cloud Tasks takes no task that is more than 30
	// days ahead, by its own clock (https://docs.cloud.google.com/tasks/docs/quotas).
	furthest = 29 * day
	day      = 24 * time.Hour
)

// WithinReach returns when an alarm rings for what is due at a time. If that is too far ahead, the
// alarm rings on an earlier day, and makes the next one, because its counter is not due then. Each
// counter has its time of the day, so that instances that look on the same day make one alarm, and
// that the alarms of many counters do not ring at once.
func WithinReach(rollUp string, now, due time.Time) time.Time {
	if due.Sub(now) <= furthest {
		return due
	}
	return OnGrid(rollUp, day, now.Add(furthest-day))
}

// CreateDueAlarm makes an alarm for when the counter is due. It has a name of its own.
func (r *Roller) CreateDueAlarm(ctx context.Context, l *Look, p Pace) error {
	a := AlarmOf(l.Counter, WithinReach(l.Counter.RollUp, l.ReadTime, l.ReadTime.Add(max(p.Due(l), LeastAhead))))
	a.Salt = rand.Text()
	return r.CreateAlarm(ctx, a)
}

// AlarmOf returns the alarm of a counter that rings at a time, for its own routes.
func AlarmOf(c route.Counter, at time.Time) Alarm {
	return Alarm{RollUp: c.RollUp, Routes: c.Template.Hash(), At: at}
}

// ErrNotMade says that an alarm may not stand.
var ErrNotMade = errors.New("rollup: could not make an alarm")

// CreateAlarm makes an alarm. There is time for two attempts while an event is held.
func (r *Roller) CreateAlarm(ctx context.Context, a Alarm) error {
	ctx, cancel := context.WithTimeout(ctx, r.Options.Timeout/2)
	defer cancel()

	a.At = a.At.Truncate(time.Microsecond).UTC()
	err := r.Options.Alarms.Create(ctx, a)
	if err != nil {
		return fmt.Errorf("%w of %s for %v: %w", ErrNotMade, a.RollUp, a.At, err)
	}
	return nil
}

// OnGrid returns the first time on a counter's grid that is not before a time.
func OnGrid(rollUp string, step time.Duration, t time.Time) time.Time {
	h := fnv.New64a()
	_, _ = h.Write([]byte(rollUp))
	phase := time.Duration(h.Sum64() % uint64(step)).Truncate(time.Microsecond)

	past := time.Duration(t.Add(-phase).UnixMicro()) * time.Microsecond % step
	if past == 0 {
		return t
	}
	return t.Add(step - past)
}
