package telemetry

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// A Span is open until it ends. The zero Span is one that is not recorded.
type Span struct{ span trace.Span }

// End ends the span, with an error unless that is nil.
func (s Span) End(err error) {
	if s.span == nil {
		return
	}
	if err != nil {
		s.span.SetStatus(codes.Error, err.Error())
	}
	s.span.End()
}

// Set notes what the span is about.
func (s Span) Set(key, value string) {
	if s.span != nil {
		s.span.SetAttributes(attribute.String(key, value))
	}
}

// detailed is the key of contexts in which each call of Firestore gets a span: those of events. A
// tick's calls would be too many.
type detailed struct{}

// StartEvent starts the span of an event that came with the header, as a child of the trace that it
// names.
func (t *Telemetry) StartEvent(ctx context.Context, header http.Header) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	ctx, s := t.startRequest(ctx, "event", header)
	if s.span.IsRecording() {
		ctx = context.WithValue(ctx, detailed{}, true)
	}
	return ctx, s
}

// StartTick starts the span of a call of RollUpOnSchedule.
func (t *Telemetry) StartTick(ctx context.Context, header http.Header) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	return t.startRequest(ctx, "tick", header)
}

func (t *Telemetry) startRequest(ctx context.Context, name string, header http.Header) (context.Context, Span) {
	ctx = trace.ContextWithRemoteSpanContext(ctx, Parent(header))
	ctx, span := t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer))
	return ctx, Span{span}
}

// startCall starts the span of a call of Firestore, if it is made for an event whose trace is
// recorded.
func (t *Telemetry) startCall(ctx context.Context, name string) (context.Context, Span) {
	if ctx.Value(detailed{}) == nil {
		return ctx, Span{}
	}
	ctx, span := t.tracer.Start(ctx, name)
	return ctx, Span{span}
}

// Parent returns the span that a request's header names as its parent, in W3C's traceparent or in
// Google Cloud's older X-Cloud-Trace-Context; an invalid one if there is none.
func Parent(header http.Header) trace.SpanContext {
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.HeaderCarrier(header))
	if parent := trace.SpanContextFromContext(ctx); parent.IsValid() {
		return parent
	}
	return parseCloudTrace(header.Get("X-Cloud-Trace-Context"))
}
