package telemetry

import (
	"context"
	"errors"
	"time"

	"github.com/firestore-tally/tally/rollup"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// instruments are the metrics that the methods of Telemetry record. newInstruments describes each.
// There is one more, tally.billed: it has no field here, because its value is asked for at each
// export. docs/operations.md explains all metrics to users.
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

// seconds are the buckets of the histograms. They are fine up to the default hold limit of 8 s, and
// finest around the default cadence of 1 s. An event that takes longer than the hold limit is
// delivered again, so coarse buckets are enough there.
var seconds = metric.WithExplicitBucketBoundaries(0.05, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 5, 8, 15, 30, 60, 300, 1800)

// newInstruments makes the metrics. Each export calls billed for the number of operations that were
// billed.
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
	i.held = histogram("tally.held", "How long held events waited for their answer, by this process's clock")
	i.lag = histogram("tally.lag", "Time from a change's commit to as_of of the roll-up that covers it, both by Firestore's clock")
	i.rollUps = counter("tally.rollups", "{rollup}", "Attempts to write a roll-up")
	i.errors = counter("tally.errors", "{error}", "Failed calls of Firestore, without refused writes")
	i.ticks = counter("tally.ticks", "{tick}", "Calls of RollUpOnSchedule, without dry runs")
	i.audited = counter("tally.audited", "{counter}", "Counters that audits compared with their shards")
	i.drift = counter("tally.drift", "{counter}", "Roll-ups that lacked a change for longer than an event may take")

	var err error
	i.age, err = m.Float64Gauge("tally.kept.age", metric.WithUnit("s"),
		metric.WithDescription("Greatest age of the roll-ups that the last call of RollUpOnSchedule kept, for routes that say every"))
	problems = append(problems, err)

	observe := func(_ context.Context, o metric.Int64Observer) error {
		reads, writes, deletes := billed()
		o.Observe(reads, kind("read"))
		o.Observe(writes, kind("write"))
		o.Observe(deletes, kind("delete"))
		return nil
	}
	_, err = m.Int64ObservableCounter("tally.billed", metric.WithUnit("{operation}"),
		metric.WithDescription("Document operations that Firestore billed"), metric.WithInt64Callback(observe))
	problems = append(problems, err)

	return i, errors.Join(problems...)
}

func outcome(value string) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("outcome", value))
}

func kind(value string) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("kind", value))
}

// Event records how an event ended. The ending must be one of a few words, because it is an
// attribute. held is how long the event was held. It is negative if the event was not held.
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

// Lag records the time from the commit of a change to the as_of of the roll-up that covers it. Both
// times are Firestore's.
func (t *Telemetry) Lag(ctx context.Context, lag time.Duration) {
	if t != nil {
		t.lag.Record(ctx, lag.Seconds())
	}
}

// Wrote records an attempt to write a roll-up. It is the hook rollup.Options.Wrote.
func (t *Telemetry) Wrote(ctx context.Context, a rollup.Attempt) {
	if t == nil {
		return
	}

	ending := "changed"
	switch {
	case errors.Is(a.Err, rollup.ErrConflict):
		ending = "conflict"
	case errors.Is(a.Err, rollup.ErrUnkept):
		ending = "unkept"
	case a.Err != nil:
		ending = "failed"
	case a.Unchanged:
		ending = "unchanged"
	}
	t.rollUps.Add(ctx, 1, outcome(ending))
}

// Tick records a call of RollUpOnSchedule. Dry runs are not recorded.
func (t *Telemetry) Tick(ctx context.Context, succeeded bool) {
	if t == nil {
		return
	}

	ending := "succeeded"
	if !succeeded {
		ending = "failed"
	}
	t.ticks.Add(ctx, 1, outcome(ending))
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
	for ending, n := range counts {
		t.audited.Add(ctx, int64(n), outcome(ending))
	}
	t.drift.Add(ctx, int64(r.Drift))
}

// Kept records the age, in seconds, of the oldest roll-up that a tick keeps in all databases for
// routes that say "every".
func (t *Telemetry) Kept(ctx context.Context, age float64) {
	if t != nil {
		t.age.Record(ctx, age)
	}
}
