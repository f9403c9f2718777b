// Package telemetry records what the functions do as OpenTelemetry metrics and spans, and exports
// it while a request is served, because Cloud Run may take the CPU away between requests. A nil
// *Telemetry is telemetry that is off: it records nothing and costs nothing.
//
// docs/operations.md lists the metrics; a test keeps the two equal. No attribute of a metric
// names a counter, or anything else of which there may be many.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Telemetry records metrics and spans. It may be used by many goroutines at once.
type Telemetry struct {
	instruments
	tracer trace.Tracer

	metrics *sdkmetric.MeterProvider
	spans   *sdktrace.TracerProvider
	every   time.Duration
	logger  *slog.Logger

	exporting sync.Mutex
	exported  time.Time // when the last export began; zero: none did
}

// Options configure a Telemetry.
type Options struct {
	Metrics  sdkmetric.Exporter
	Spans    sdktrace.SpanExporter
	Resource *resource.Resource

	// Every is the least time between two exports, but for those of FlushNow.
	Every time.Duration

	// Billed returns the document operations that Firestore billed so far.
	Billed func() (reads, writes, deletes int64)

	Logger *slog.Logger
}

// New returns a Telemetry.
func New(o Options) (*Telemetry, error) {
	t := &Telemetry{every: o.Every, logger: o.Logger}
	// Flush exports, not the clock. Spans are also exported when many are there, which they are
	// only while requests are served.
	const never = time.Hour
	t.metrics = sdkmetric.NewMeterProvider(sdkmetric.WithResource(o.Resource),
		sdkmetric.WithReader(sdkmetric.NewPeriodicReader(o.Metrics, sdkmetric.WithInterval(never))))
	t.spans = sdktrace.NewTracerProvider(sdktrace.WithResource(o.Resource),
		sdktrace.WithBatcher(o.Spans, sdktrace.WithBatchTimeout(never), sdktrace.WithExportTimeout(flushTimeout)))
	t.tracer = t.spans.Tracer(scope)
	var err error
	if t.instruments, err = newInstruments(t.metrics.Meter(scope), o.Billed); err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	return t, nil
}

// scope names the code that records.
const scope = "github.com/firestore-tally/tally"

const (
	// flushTimeout bounds an export that an event waits for. With the default hold limit of 8 s it
	// ends before the trigger's subscription delivers the event again, after 10 s.
	flushTimeout = 1500 * time.Millisecond

	// lastTimeout bounds the exports that nothing but the end of a process waits for. Cloud Run
	// kills a process 10 s after SIGTERM
	// (https://cloud.google.com/run/docs/container-contract#instance-shutdown).
	lastTimeout = 5 * time.Second
)

// Flush exports what was recorded if the last export began longer ago than Options.Every. It
// returns at once while another export is in work. A failed export is logged; metrics are
// cumulative, so the next one makes up for it, while its spans are lost.
func (t *Telemetry) Flush(ctx context.Context) {
	if t == nil || !t.exporting.TryLock() {
		return
	}
	defer t.exporting.Unlock()
	if time.Since(t.exported) >= t.every {
		t.export(ctx, flushTimeout)
	}
}

// FlushNow exports what was recorded.
func (t *Telemetry) FlushNow(ctx context.Context) {
	if t == nil {
		return
	}
	t.exporting.Lock()
	defer t.exporting.Unlock()
	t.export(ctx, lastTimeout)
}

func (t *Telemetry) export(ctx context.Context, timeout time.Duration) {
	t.exported = time.Now()
	// The request's own end must not lose what others recorded.
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	var spans error
	var both sync.WaitGroup
	both.Go(func() { spans = t.spans.ForceFlush(limited) })
	metrics := t.metrics.ForceFlush(limited)
	both.Wait()
	if err := errors.Join(metrics, spans); err != nil {
		t.logger.WarnContext(ctx, "telemetry not exported", "error", err)
	}
}
