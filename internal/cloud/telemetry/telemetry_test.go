package telemetry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/internal/test/memstore"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// An exporter keeps what it is given.
type exporter struct {
	exports int
	last    metricdata.ResourceMetrics
	err     error
}

func (e *exporter) Export(_ context.Context, m *metricdata.ResourceMetrics) error {
	e.exports++
	e.last = *m
	return e.err
}

func (*exporter) Temporality(k sdkmetric.InstrumentKind) metricdata.Temporality {
	return sdkmetric.DefaultTemporalitySelector(k)
}

func (*exporter) Aggregation(k sdkmetric.InstrumentKind) sdkmetric.Aggregation {
	return sdkmetric.DefaultAggregationSelector(k)
}

func (*exporter) ForceFlush(context.Context) error { return nil }

func (*exporter) Shutdown(context.Context) error { return nil }

// newTelemetry returns a Telemetry that exports to memory.
func newTelemetry(t *testing.T) (*Telemetry, *exporter, *tracetest.InMemoryExporter, *bytes.Buffer) {
	t.Helper()
	metrics, spans, log := &exporter{}, tracetest.NewInMemoryExporter(), new(bytes.Buffer)
	telemetry, err := New(Options{
		Metrics: metrics, Spans: spans, Resource: resource.Empty(), Every: time.Minute,
		Billed: func() (reads, writes, deletes int64) { return 5, 3, 1 },
		Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shutDown(telemetry) })
	return telemetry, metrics, spans, log
}

func shutDown(t *Telemetry) {
	_ = t.metrics.Shutdown(context.Background())
	_ = t.spans.Shutdown(context.Background())
}

// values returns the numbers of the last export: sums and gauges, and the counts of histograms.
func (e *exporter) values() map[string]float64 {
	values := make(map[string]float64)
	e.each(func(m metricdata.Metrics, a attribute.Set, value float64) {
		values[m.Name+"{"+a.Encoded(attribute.DefaultEncoder())+"}"] = value
	})
	return values
}

func (e *exporter) each(f func(m metricdata.Metrics, a attribute.Set, value float64)) {
	for _, scope := range e.last.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					f(m, p.Attributes, float64(p.Value))
				}
			case metricdata.Gauge[float64]:
				for _, p := range data.DataPoints {
					f(m, p.Attributes, p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					f(m, p.Attributes, float64(p.Count))
				}
			default:
				panic(fmt.Sprintf("%s is a %T", m.Name, m.Data))
			}
		}
	}
}

var likes = func() route.Counter {
	routes, err := route.Parse(route.Default)
	if err != nil {
		panic(err)
	}
	c, _, _ := routes.Match("counters/likes/shards/0")
	return c
}()

// everything records something in every metric, and every value of their attributes but error.type.
func everything(ctx context.Context, t *Telemetry) {
	for outcome, held := range map[string]time.Duration{"absorbed": -1, "covered": time.Second, "failed": time.Second, "dropped": -1, "unkept": time.Second, "deferred": -1, "refused": -1} {
		t.Event(ctx, outcome, held)
	}
	t.Lag(ctx, time.Second)
	for _, a := range []rollup.Attempt{{}, {Unchanged: true}, {Err: fmt.Errorf("w: %w", rollup.ErrConflict)}, {Err: fmt.Errorf("w: %w", rollup.ErrUnkept)}, {Err: errors.New("lost")}} {
		t.Wrote(ctx, a)
	}
	t.Tick(ctx, true)
	t.Tick(ctx, false)
	t.Audited(ctx, rollup.Report{RolledUp: 2, Unchanged: 3, Removed: 4, Failed: 5, Unkept: 6, Drift: 1})
	t.Kept(ctx, 90)
	t.Kept(ctx, 7.5)
	calling := t.Calling(true, func(error) string { return "Unavailable" })
	for _, operation := range []string{"look", "sum", "write", "remove"} {
		for _, err := range []error{nil, errBroken, fmt.Errorf("w: %w", rollup.ErrConflict)} { // a refused write is not an error
			_, called := calling(ctx, operation)
			called(err)
		}
	}
}

var errBroken = errors.New("broken")

func TestMetrics(t *testing.T) {
	telemetry, metrics, _, _ := newTelemetry(t)
	everything(t.Context(), telemetry)
	telemetry.FlushNow(t.Context())
	want := map[string]float64{
		"tally.events{outcome=absorbed}": 1, "tally.events{outcome=covered}": 1,
		"tally.events{outcome=failed}": 1, "tally.events{outcome=dropped}": 1, "tally.events{outcome=refused}": 1,
		"tally.events{outcome=unkept}": 1, "tally.events{outcome=deferred}": 1,
		"tally.held{outcome=covered}": 1, "tally.held{outcome=failed}": 1, "tally.held{outcome=unkept}": 1,
		"tally.lag{}":                      1,
		"tally.rollups{outcome=changed}":   1,
		"tally.rollups{outcome=unchanged}": 1,
		"tally.rollups{outcome=conflict}":  1,
		"tally.rollups{outcome=failed}":    1,
		"tally.rollups{outcome=unkept}":    1,
		"tally.ticks{outcome=succeeded}":   1,
		"tally.ticks{outcome=failed}":      1,
		"tally.audited{outcome=rolled_up}": 2,
		"tally.audited{outcome=unchanged}": 3,
		"tally.audited{outcome=removed}":   4,
		"tally.audited{outcome=failed}":    5,
		"tally.audited{outcome=unkept}":    6,
		"tally.drift{}":                    1,
		"tally.kept.age{}":                 7.5,
		"tally.billed{kind=read}":          5,
		"tally.billed{kind=write}":         3,
		"tally.billed{kind=delete}":        1,
	}
	for _, operation := range []string{"look", "sum", "write", "remove"} {
		want["tally.errors{error.type=Unavailable,operation="+operation+"}"] = 1
	}
	if diff := cmp.Diff(want, metrics.values()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// docs/operations.md has a row for each metric, with all that the code says of it, and no other.
func TestMetricsAreDocumented(t *testing.T) {
	telemetry, metrics, _, _ := newTelemetry(t)
	everything(t.Context(), telemetry)
	telemetry.FlushNow(t.Context())
	described := make(map[string]metricdata.Metrics)
	attributes := make(map[string]map[string]map[string]bool) // metric → key → values
	metrics.each(func(m metricdata.Metrics, a attribute.Set, _ float64) {
		described[m.Name] = m
		if attributes[m.Name] == nil {
			attributes[m.Name] = make(map[string]map[string]bool)
		}
		for _, kv := range a.ToSlice() {
			key := string(kv.Key)
			if attributes[m.Name][key] == nil {
				attributes[m.Name][key] = make(map[string]bool)
			}
			attributes[m.Name][key][kv.Value.AsString()] = true
		}
	})
	var want []string
	for _, name := range slices.Sorted(maps.Keys(described)) {
		m := described[name]
		kind := map[string]string{"metricdata.Sum[int64]": "counter", "metricdata.Gauge[float64]": "gauge", "metricdata.Histogram[float64]": "histogram"}[fmt.Sprintf("%T", m.Data)]
		var keys []string
		for _, key := range slices.Sorted(maps.Keys(attributes[name])) {
			values := strings.Join(slices.Sorted(maps.Keys(attributes[name][key])), ", ")
			if key == "error.type" {
				values = "a gRPC status code"
			}
			keys = append(keys, "`"+key+"`: "+values)
		}
		want = append(want, fmt.Sprintf("| `%s` | %s | `%s` | %s | %s |", name, kind, m.Unit, strings.Join(keys, "; "), m.Description))
	}
	page, err := os.ReadFile("../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "| `tally.") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/operations.md (-want +got):\n%s", diff)
	}
}

func TestFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		telemetry, metrics, spans, log := newTelemetry(t)
		flush := func(what string, want int) {
			t.Helper()
			telemetry.Flush(t.Context())
			if metrics.exports != want {
				t.Errorf("%s: %d exports so far, want %d", what, metrics.exports, want)
			}
		}
		_, span := telemetry.Start(t.Context(), "tick")
		End(span, errors.New("failed"))
		flush("at first", 1)
		if got := spans.GetSpans(); len(got) != 1 || got[0].Status.Description != "failed" {
			t.Errorf("spans %v, want the tick's", got)
		}
		flush("again", 1)
		time.Sleep(time.Minute - time.Nanosecond)
		flush("a minute later, almost", 1)
		time.Sleep(time.Nanosecond)
		telemetry.exporting.Lock()
		flush("while another is in work", 1)
		telemetry.exporting.Unlock()
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		metrics.err = errBroken
		telemetry.Flush(cancelled)
		if metrics.exports != 2 || !strings.Contains(log.String(), "broken") {
			t.Errorf("%d exports, want 2, the failed one logged:\n%s", metrics.exports, log)
		}
		flush("after a failure", 2)
		telemetry.FlushNow(t.Context())
		flush("now", 3)
		shutDown(telemetry)
	})
}

// The calls for an event are its children; the calls of a tick have no spans.
func TestSpans(t *testing.T) {
	telemetry, _, spans, _ := newTelemetry(t)
	options := rollup.Options{Cadence: time.Second, Timeout: time.Second, Logger: slog.New(slog.DiscardHandler), Calling: telemetry.Calling(true, nil)}
	c := rollup.NewCoalescer(new(memstore.Store), options)
	header := http.Header{"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}
	ctx, event := telemetry.Start(Traced(t.Context(), header), "event")
	if _, err := c.Changed(ctx, rollup.Event{ID: "e"}, route.Concern{Counter: likes}); err != nil {
		t.Fatal(err)
	}
	event.End()
	ctx, tick := telemetry.Start(Traced(t.Context(), header), "tick")
	options.Calling = telemetry.Calling(false, nil)
	var store memstore.Store
	store.Put("counters/likes/shards/0", map[string]any{"count": int64(1)})
	if r, err := rollup.Audit(ctx, &store, route.Routes{likes.Template.Routes[0]}, rollup.AuditOptions{Options: options, Concurrency: 1}); err != nil || r.RolledUp != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	tick.End()
	ctx, unsampled := telemetry.Start(Traced(t.Context(), http.Header{"Traceparent": {"00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"}}), "event")
	unsampled.End()
	if id := trace.SpanContextFromContext(ctx).SpanID().String(); id != "b7ad6b7169203331" {
		t.Errorf("lines of an event that is not sampled name the span %s, want the caller's", id)
	}
	telemetry.FlushNow(t.Context())

	names := map[string]string{"b7ad6b7169203331": "request"}
	for _, s := range spans.GetSpans() {
		names[s.SpanContext.SpanID().String()] = s.Name
	}
	var got []string
	for _, s := range spans.GetSpans() {
		if id := s.SpanContext.TraceID().String(); id != "0af7651916cd43dd8448eb211c80319c" {
			t.Errorf("%s is of trace %s", s.Name, id)
		}
		got = append(got, names[s.Parent.SpanID().String()]+" → "+s.Name)
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"event → look", "event → sum", "event → write", "request → event", "request → tick"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTraced(t *testing.T) {
	const id, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for _, test := range []struct {
		name, header, value string
		want                string // trace, span, sampled
	}{
		{"W3C, sampled", "Traceparent", "00-" + id + "-" + span + "-01", id + " " + span + " true"},
		{"W3C, not sampled", "Traceparent", "00-" + id + "-" + span + "-00", id + " " + span + " false"},
		{"no parent", "Traceparent", "00-" + id + "-0000000000000000-01", ""},
		{"malformed", "Traceparent", id + "/" + span, ""},
		{"none", "X", "", ""},
	} {
		got := ""
		if s := trace.SpanContextFromContext(Traced(t.Context(), http.Header{test.header: {test.value}})); s.IsValid() {
			got = fmt.Sprint(s.TraceID(), " ", s.SpanID(), " ", s.IsSampled())
		}
		if got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

// Telemetry that is off is nil, and everything may be called on it.
func TestOff(t *testing.T) {
	telemetry, err := Start(config.Off, "p", time.Minute, nil, nil)
	if telemetry != nil || err != nil {
		t.Fatalf("got %v, %v", telemetry, err)
	}
	telemetry.Event(t.Context(), "absorbed", -1)
	telemetry.Lag(t.Context(), 0)
	telemetry.Wrote(t.Context(), rollup.Attempt{})
	telemetry.Tick(t.Context(), true)
	telemetry.Audited(t.Context(), rollup.Report{})
	telemetry.Flush(t.Context())
	telemetry.FlushNow(t.Context())
	ctx, span := telemetry.Start(t.Context(), "event")
	if End(span, nil); ctx != t.Context() || span.IsRecording() {
		t.Error("a span of its own")
	}
	if telemetry.Calling(true, nil) != nil {
		t.Error("calls are recorded")
	}
}
