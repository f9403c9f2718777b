// Package telemetry records what the functions do as OpenTelemetry metrics and spans. It exports
// them while a request is served, because Cloud Run may take the CPU away between requests. A nil
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

	// Every is the least time from one export by Flush to the next.
	Every time.Duration

	// Billed returns the document operations that Firestore billed so far.
	Billed func() (reads, writes, deletes int64)

	Logger *slog.Logger
}

// New returns a Telemetry.
func New(o Options) (*Telemetry, error) {
	t := &Telemetry{every: o.Every, logger: o.Logger}

	// Flush exports, not the clock: between requests a process may get no CPU. Spans are exported
	// before that only if many have gathered, which happens while requests are served.
	const never = time.Hour
	t.metrics = sdkmetric.NewMeterProvider(sdkmetric.WithResource(o.Resource),
		sdkmetric.WithReader(sdkmetric.NewPeriodicReader(o.Metrics, sdkmetric.WithInterval(never))))
	t.spans = sdktrace.NewTracerProvider(sdktrace.WithResource(o.Resource),
		sdktrace.WithBatcher(o.Spans, sdktrace.WithBatchTimeout(never), sdktrace.WithExportTimeout(flushTimeout)))
	t.tracer = t.spans.Tracer(scope)

	var err error
	t.instruments, err = newInstruments(t.metrics.Meter(scope), o.Billed)
	if err != nil {
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

	// lastTimeout bounds the exports for which no event waits: those of a tick, and of the end of a
	// process. Cloud Run kills a process 10 s after SIGTERM
	// (https://cloud.google.com/run/docs/container-contract#instance-shutdown).
	lastTimeout = 5 * time.Second
)

// Flush exports what was recorded if the last export began longer ago than Options.Every. It
// returns at once while another export is in work. A failed export is logged. It loses its spans,
// but no metrics: they are cumulative, so the next export holds them.
func (t *Telemetry) Flush(ctx context.Context) {
	if t == nil {
		return
	}
	free := t.exporting.TryLock()
	if !free {
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

	// An export holds what all requests recorded, so it does not end with this one.
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()

	var spans error
	var both sync.WaitGroup
	both.Go(func() { spans = t.spans.ForceFlush(limited) })
	metrics := t.metrics.ForceFlush(limited)
	both.Wait()

	err := errors.Join(metrics, spans)
	if err != nil {
		t.logger.WarnContext(ctx, "telemetry not exported", "error", err)
	}
}
