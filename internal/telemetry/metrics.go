package telemetry

import (
	"context"
	"errors"
	"time"

	"github.com/firestore-tally/tally/rollup"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// instruments are all metrics.
type instruments struct {
	events  metric.Int64Counter
	held    metric.Float64Histogram
	lag     metric.Float64Histogram
	rollUps metric.Int64Counter
	errors  metric.Int64Counter
	ticks   metric.Int64Counter
	audited metric.Int64Counter
	drift   metric.Int64Counter
	age     metric.Float64Gauge
}

// seconds are the buckets of the histograms: fine around the default cadence of 1 s and up to the
// hold limit of 8 s, coarse beyond, where events come again.
var seconds = metric.WithExplicitBucketBoundaries(0.05, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 5, 8, 15, 30, 60, 300, 1800)

func newInstruments(m metric.Meter, billed func() (reads, writes, deletes int64)) (instruments, error) {
	var i instruments
	var problems []error

	counter := func(name, unit, description string) metric.Int64Counter {
		c, err := m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
		problems = append(problems, err)
		return c
	}
	histogram := func(name, description string) metric.Float64Histogram {
		h, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description), seconds)
		problems = append(problems, err)
		return h
	}

	i.events = counter("tally.events", "{event}", "Deliveries of events, by how they ended")
	i.held = histogram("tally.held", "How long events were held that were not absorbed, by this process's clock")
	i.lag = histogram("tally.lag", "From a change's commit to as_of of the roll-up that covers it, both by Firestore's clock")
	i.rollUps = counter("tally.rollups", "{rollup}", "Attempts to write a roll-up")
	i.errors = counter("tally.errors", "{error}", "Failed calls of Firestore; a refused write is none")
	i.ticks = counter("tally.ticks", "{tick}", "Calls of RollUpOnSchedule that were no dry run")
	i.audited = counter("tally.audited", "{counter}", "Counters that audits compared with their shards")
	i.drift = counter("tally.drift", "{counter}", "Roll-ups that lacked a change for longer than an event may take")

	var err error
	i.age, err = m.Float64Gauge("tally.kept.age", metric.WithUnit("s"),
		metric.WithDescription("Greatest age of a roll-up that the last call of RollUpOnSchedule kept, of the routes that say every"))
	problems = append(problems, err)

	_, err = m.Int64ObservableCounter("tally.billed", metric.WithUnit("{operation}"), metric.WithDescription("Document operations that Firestore billed"),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			reads, writes, deletes := billed()
			o.Observe(reads, kind("read"))
			o.Observe(writes, kind("write"))
			o.Observe(deletes, kind("delete"))
			return nil
		}))
	problems = append(problems, err)

	return i, errors.Join(problems...)
}

func outcome(value string) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("outcome", value))
}

func kind(value string) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("kind", value))
}

// Event records how an event ended, in one of few words. The duration held is negative if the event
// was not held.
func (t *Telemetry) Event(ctx context.Context, ending string, held time.Duration) {
	if t == nil {
		return
	}

	ended := outcome(ending)
	t.events.Add(ctx, 1, ended)
	if held >= 0 {
		t.held.Record(ctx, held.Seconds(), ended)
	}
}

// Lag records the time from the commit of an event's change to the as_of of the roll-up that covers
// the event. Both times are Firestore's.
func (t *Telemetry) Lag(ctx context.Context, lag time.Duration) {
	if t != nil {
		t.lag.Record(ctx, lag.Seconds())
	}
}

// Wrote records an attempt to write a roll-up; see rollup.Options.
func (t *Telemetry) Wrote(ctx context.Context, a rollup.Attempt) {
	if t == nil {
		return
	}

	what := "changed"
	switch {
	case errors.Is(a.Err, rollup.ErrConflict):
		what = "conflict"
	case errors.Is(a.Err, rollup.ErrUnkept):
		what = "unkept"
	case a.Err != nil:
		what = "failed"
	case a.Unchanged:
		what = "unchanged"
	}
	t.rollUps.Add(ctx, 1, outcome(what))
}

// Tick records a call of RollUpOnSchedule. Dry runs are not recorded.
func (t *Telemetry) Tick(ctx context.Context, succeeded bool) {
	if t == nil {
		return
	}

	what := "succeeded"
	if !succeeded {
		what = "failed"
	}
	t.ticks.Add(ctx, 1, outcome(what))
}

// Audited records what a tick's audit of one database did.
func (t *Telemetry) Audited(ctx context.Context, r rollup.Report) {
	if t == nil {
		return
	}

	counts := map[string]int{
		"rolled_up": r.RolledUp,
		"unchanged": r.Unchanged,
		"removed":   r.Removed,
		"failed":    r.Failed,
		"unkept":    r.Unkept,
	}
	for what, n := range counts {
		t.audited.Add(ctx, int64(n), outcome(what))
	}
	t.drift.Add(ctx, int64(r.Drift))
}

// Kept records an age in seconds: that of the oldest roll-up that a tick kept, in all databases, for
// the routes that say "every".
func (t *Telemetry) Kept(ctx context.Context, age float64) {
	if t != nil {
		t.age.Record(ctx, age)
	}
}
