// Package telemetry records what the functions do as OpenTelemetry metrics and spans. It exports
// them while a request is served, because Cloud Run may take the CPU away between requests. A nil
// *Telemetry means that telemetry is off. Its methods may be called, and record nothing.
//
// A metric is a number that a process adds to, with attributes that tell its kinds apart. The
// process exports each number from time to time, and it grows until the process ends. So a failed
// export loses nothing, but each combination of attributes costs memory in the process and money at
// the destination. A span is what one request or one call did, from its beginning to its end. Spans
// with one trace id make up a trace. A span is exported once.
//
// docs/operations.md lists the metrics. A test keeps the page and the code equal. No attribute of a
// metric names a counter, or anything else of which there may be many.
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

	// The providers would export by a clock, but a process may get no CPU between requests. So
	// their interval is as good as never, and Flush exports. Spans are also exported when many have
	// gathered, which happens while requests are served.
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
	// flushTimeout bounds an export that an event waits for. Cloud Run kills a process 10 s after
	// SIGTERM. With the default hold limit of 8 s the export has ended by then, and long before the
	// subscription delivers the event again.
	flushTimeout = 1500 * time.Millisecond

	// lastTimeout bounds an export for which no event waits, at the end of a tick or of the
	// process. Cloud Run kills a process 10 s after SIGTERM
	// (https://cloud.google.com/run/docs/container-contract#instance-shutdown).
	lastTimeout = 5 * time.Second
)

// Flush exports what was recorded if the last export began longer ago than Options.Every. It
// returns at once if another export is under way. A failed export is logged. Its spans are lost.
// Its metrics are not, because they are cumulative: the next export has them.
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
