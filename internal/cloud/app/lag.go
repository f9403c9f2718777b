package app

import (
	"context"
	"sync/atomic"
	"time"
)

// lagEvery is how often an instance logs a sample of lag, at most: 360 samples an hour are enough
// for a 99th percentile, and a line for each event would cost more than the event.
const lagEvery = 10 * time.Second

// A lagSampler decides which events' lags are logged. The metric tally_lag is made of these lines,
// and tally doctor reads them. Its zero value is ready. It may be used by many goroutines at once.
type lagSampler struct {
	last atomic.Int64 // when a sample was logged, in nanoseconds since 1970; 0: never
}

// due reports whether a sample may be logged now. If so, the next one is due lagEvery later.
func (l *lagSampler) due(now time.Time) bool {
	last := l.last.Load()
	if last != 0 && now.Sub(time.Unix(0, last)) < lagEvery {
		return false
	}
	return l.last.CompareAndSwap(last, now.UnixNano())
}

// logLag logs the lag of an event that a roll-up covers, if a sample is due. It warns if the
// roll-up came late. An event that does not say when its change was committed has no lag.
func (s *service) logLag(ctx context.Context, d *delivery) {
	if d.outcome != covered || d.change.Committed.IsZero() {
		return
	}

	lag := d.ending.AsOf.Sub(d.change.Committed)
	logger := s.logger.With("event_id", d.change.ID, "counter", d.counters(), "lag_seconds", lag.Seconds())
	if s.lags.due(time.Now()) {
		logger.InfoContext(ctx, "lag sampled")
	}
	if lag > s.config.Grace() {
		logger.WarnContext(ctx, "rolled up late")
	}
}
