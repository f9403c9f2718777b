package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/cloud/billing"
	"github.com/firestore-tally/tally/internal/cloud/telemetry"
	"github.com/firestore-tally/tally/rollup"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// What the app records. Nothing here waits, so the time is the machine's: an exporter belongs to no
// bubble of synctest's.

// An exporter keeps the last metrics that it was given.
type exporter struct {
	exports int
	last    metricdata.ResourceMetrics
}

func (e *exporter) Export(_ context.Context, m *metricdata.ResourceMetrics) error {
	e.exports++
	e.last = *m
	return nil
}

func (*exporter) Temporality(k sdkmetric.InstrumentKind) metricdata.Temporality {
	return sdkmetric.DefaultTemporalitySelector(k)
}

func (*exporter) Aggregation(k sdkmetric.InstrumentKind) sdkmetric.Aggregation {
	return sdkmetric.DefaultAggregationSelector(k)
}

func (*exporter) ForceFlush(context.Context) error { return nil }
func (*exporter) Shutdown(context.Context) error   { return nil }

// measured returns the service of a world, which exports its metrics whenever it may.
func (w *world) measured() (*service, *exporter) {
	w.t.Helper()
	e := new(exporter)
	recorder, err := telemetry.New(telemetry.Options{
		Metrics: e, Spans: tracetest.NewInMemoryExporter(), Resource: resource.Empty(),
		Billed: func() (reads, writes, deletes int64) { return 0, 0, 0 },
	})
	if err != nil {
		w.t.Fatal(err)
	}
	s, err := w.setup()
	if err != nil {
		w.t.Fatal(err)
	}
	s.telemetry = recorder
	return s, e
}

// value returns the value of a metric in the last export, or how many values a histogram has. An
// outcome of "" stands for a metric without outcomes. The value is 0 if nothing was recorded.
func (e *exporter) value(name, outcome string) float64 {
	for _, scope := range e.last.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name != name {
				continue
			}
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					if got, _ := p.Attributes.Value("outcome"); got.AsString() == outcome {
						return float64(p.Value)
					}
				}
			case metricdata.Gauge[float64]:
				return data.DataPoints[0].Value
			case metricdata.Histogram[float64]:
				return float64(data.DataPoints[0].Count)
			}
		}
	}
	return 0
}

// A tick in which anything failed counts as failed: an alert reads that.
func TestFailedTicksAreCounted(t *testing.T) {
	w := newWorld(t, "TALLY_DATABASES=(default),other")
	_, metrics := w.measured()

	for i, test := range []struct {
		query             string
		broken            error
		succeeded, failed float64 // so far
	}{
		{"", nil, 1, 0},
		{"", errors.New("broken"), 1, 1},
		{"", errors.New("broken"), 1, 2},
		{"?dry_run=true", errors.New("broken"), 1, 2},
		{"", nil, 2, 2},
	} {
		w.stores["(default)"].lister = test.broken
		_, status, _ := w.tick(test.query)
		if (status == http.StatusOK) != (test.broken == nil) {
			t.Errorf("tick %d: status %d", i, status)
		}
		if got := metrics.value("tally.ticks", "succeeded"); got != test.succeeded {
			t.Errorf("tick %d: %v succeeded, want %v", i, got, test.succeeded)
		}
		if got := metrics.value("tally.ticks", "failed"); got != test.failed {
			t.Errorf("tick %d: %v failed, want %v", i, got, test.failed)
		}
	}
}

// The age belongs to the database whose roll-ups are the oldest, whichever comes last.
func TestAgeIsTheGreatest(t *testing.T) {
	w := newWorld(t, "TALLY_DATABASES=(default),other,third")
	s, metrics := w.measured()
	for range 20 { // the order of a map is another each time
		tick := s.newTick(time.Now(), false)
		for id, age := range map[string]float64{"(default)": 20, "other": 90} { // the third failed
			tick.report.Databases[id].Every = &rollup.KeepReport{GreatestAge: age}
		}
		tick.finish(t.Context())
		s.telemetry.FlushNow(t.Context())
		if got := metrics.value("tally.kept.age", ""); got != 90 {
			t.Fatalf("age %v, want 90", got)
		}
	}
}

// An event that is held exports what was recorded. One that is absorbed does not wait for that.
func TestAbsorbedEventsExportNothing(t *testing.T) {
	w := newWorld(t, "TALLY_ROUTES=posts/{p}/comments/{c} -> totals/{p} : count() as comments")
	_, metrics := w.measured()
	for i, step := range []struct {
		before   fields
		absorbed float64 // so far
		exports  int     // so far
	}{
		{nil, 0, 1},
		{fields{"text": "x"}, 0, 1},
		{nil, 1, 2},
	} {
		e := w.changed(fmt.Sprint("e", i), "posts/7/comments/1", step.before, fields{"text": "y"})
		if status, _ := w.deliver(request(t, e)); status != http.StatusOK {
			t.Errorf("event %d: status %d", i, status)
		}
		if got := metrics.value("tally.events", "absorbed"); got != step.absorbed || metrics.exports != step.exports {
			t.Errorf("event %d: %v absorbed in %d exports, want %v in %d", i, got, metrics.exports, step.absorbed, step.exports)
		}
	}
}

// An event that does not say when its change was committed has no lag, and is not late.
func TestEventWithoutATime(t *testing.T) {
	w := newWorld(t)
	_, metrics := w.measured()
	for i, at := range []string{"", "noon", w.stores["(default)"].Now().UTC().Format(time.RFC3339Nano)} {
		r := event(t, fmt.Sprint("e", i), project, "(default)", fmt.Sprintf("counters/%d/shards/0", i))
		r.Header.Set("Ce-Time", at)
		if status, _ := w.deliver(r); status != http.StatusOK {
			t.Errorf("time %q: status %d", at, status)
		}
		if got, want := metrics.value("tally.lag", ""), float64(i/2); got != want {
			t.Errorf("time %q: %v lags, want %v", at, got, want)
		}
	}
	if lines := w.log.lines("rolled up late"); len(lines) > 0 {
		t.Errorf("logged %s", lines)
	}
}

// Each of a tick's two kinds of work has its own bound of reads.
func TestReadsOfATick(t *testing.T) {
	w := newWorld(t, "TALLY_KEEP_READS_PER_TICK=70000", "TALLY_AUDIT_READS_PER_TICK=4000")
	s, err := w.setup()
	if err != nil {
		t.Fatal(err)
	}
	d, err := s.database(t.Context(), "(default)")
	if err != nil {
		t.Fatal(err)
	}
	o := s.newTick(time.Now(), false).keepOptions(billing.Context(t.Context(), billing.NewMeter(nil)), d)
	if o.MaxReads != 70000 || o.Reads() != 0 {
		t.Errorf("keeping may read %d and has read %d, want 70000 and 0", o.MaxReads, o.Reads())
	}
}
