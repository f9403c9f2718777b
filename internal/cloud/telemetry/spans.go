package telemetry

import (
	"context"
	"errors"
	"net/http"

	"github.com/firestore-tally/tally/rollup"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Traced returns ctx with the trace that a request's header traceparent names. The W3C defines the
// header. If it names no trace, Traced returns ctx itself.
func Traced(ctx context.Context, header http.Header) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(header))
}

// Start starts the span of a request, as a child of the span in ctx. If the new span is not
// recorded, the context that Start returns still has the caller's span. So the lines of the log
// name a span that can be found.
func (t *Telemetry) Start(ctx context.Context, name string) (context.Context, trace.Span) {
	if t == nil {
		return ctx, trace.SpanFromContext(ctx)
	}

	child, span := t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer))
	if !span.IsRecording() && trace.SpanContextFromContext(ctx).IsValid() {
		return ctx, span
	}
	return child, span
}

// End ends a span. If err is not nil, the span says that it failed.
func End(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}

// Calling returns the hook rollup.Options.Calling. The hook counts failed calls of Firestore by the
// class of their error, and makes a span of each call if spans is true. If telemetry is off,
// Calling returns nil.
func (t *Telemetry) Calling(spans bool, class func(error) string) func(context.Context, string) (context.Context, func(error)) {
	if t == nil {
		return nil
	}

	return func(ctx context.Context, operation string) (context.Context, func(error)) {
		var span trace.Span
		if spans {
			ctx, span = t.tracer.Start(ctx, operation)
		}

		return ctx, func(err error) {
			if spans {
				End(span, err)
			}
			if err != nil && !errors.Is(err, rollup.ErrConflict) {
				t.errors.Add(ctx, 1, metric.WithAttributes(
					attribute.String("operation", operation), attribute.String("error.type", class(err))))
			}
		}
	}
}
