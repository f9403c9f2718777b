package telemetry

import (
	"encoding/binary"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/trace"
)

// parseCloudTrace parses a header X-Cloud-Trace-Context, "TRACE_ID/SPAN_ID;o=OPTIONS": the trace's id
// as 32 hexadecimal digits, the span's as a decimal number, options 1 if the trace is sampled
// (https://cloud.google.com/trace/docs/trace-context#legacy-http-header). What is none of it gives an
// invalid span.
func parseCloudTrace(header string) trace.SpanContext {
	ids, options, _ := strings.Cut(header, ";")
	traceText, spanText, _ := strings.Cut(ids, "/")
	traceID, err := trace.TraceIDFromHex(strings.ToLower(traceText))
	if err != nil {
		return trace.SpanContext{}
	}
	number, err := strconv.ParseUint(spanText, 10, 64)
	if err != nil {
		return trace.SpanContext{}
	}
	var span trace.SpanID
	binary.BigEndian.PutUint64(span[:], number)
	var flags trace.TraceFlags
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: traceID, SpanID: span, TraceFlags: flags.WithSampled(options == "o=1"), Remote: true})
}
