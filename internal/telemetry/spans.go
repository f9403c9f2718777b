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

// Traced returns a context of the trace that a request's header names, in W3C's traceparent; ctx if
// it names none.
func Traced(ctx context.Context, header http.Header) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(header))
}

// Start starts the span of a request, as a child of the context's trace. Where nobody records it,
// ctx keeps the caller's span, by which lines of the log are found.
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

// End ends a span, with an error unless that is nil.
func End(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}

// Calling returns what records calls of Firestore, for rollup.Options: their failures, by the class
// of the error, and if spans, a span each. Off, it returns nil.
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
				t.errors.Add(ctx, 1, metric.WithAttributes(attribute.String("operation", operation), attribute.String("error.type", class(err))))
			}
		}
	}
}
