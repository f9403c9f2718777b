package app

import (
	"context"
	"sync/atomic"
	"time"
)

// lagEvery is how often an instance logs a sample of lag, at most: 360 samples an hour are enough
// for a 99th percentile, and a line for each event would cost more than the event.
const lagEvery = 10 * time.Second

// A lagSampler logs how late roll-ups come, so that Cloud Monitoring has the distribution without
// telemetry. Its zero value is ready. It may be used by many goroutines at once.
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

// sampleLag logs the lag of a covered event, if that is due. The metric tally_lag is made of these
// lines.
func (s *service) sampleLag(ctx context.Context, d *delivery, lag time.Duration) {
	if s.lags.due(time.Now()) {
		s.logger.InfoContext(ctx, "lag sampled", "event_id", d.change.ID, "counter", d.counters(), "lag_seconds", lag.Seconds())
	}
}
