package app

import (
	"context"
	"io"
	"log/slog"

	"go.opentelemetry.io/otel/trace"
)

// NewLogger returns a logger that writes lines of JSON with the keys that Cloud Logging knows
// (https://cloud.google.com/logging/docs/structured-logging). If a line's context has a trace that
// is recorded, the line names it, so that Cloud Logging shows the line with the trace. The project
// is the one that keeps the traces. It may be empty if it is not known.
func NewLogger(w io.Writer, level slog.Level, project string) *slog.Logger {
	return slog.New(traced{slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: cloudKeys}), project})
}

// cloudKeys renames slog's keys and its level WARN to the names that Cloud Logging knows.
func cloudKeys(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return a
	}

	switch a.Key {
	case slog.MessageKey:
		a.Key = "message"
	case slog.LevelKey:
		a.Key = "severity"
		if a.Value.Any() == slog.LevelWarn {
			a.Value = slog.StringValue("WARNING")
		}
	case slog.TimeKey:
		a.Key = "time"
	}
	return a
}

// traced adds the trace of a line's context to the line.
type traced struct {
	slog.Handler
	project string
}

func (h traced) Handle(ctx context.Context, r slog.Record) error {
	span := trace.SpanContextFromContext(ctx)
	recorded := span.IsRemote() || span.IsSampled()
	if !span.IsValid() || !recorded {
		return h.Handler.Handle(ctx, r)
	}

	name := span.TraceID().String()
	if h.project != "" {
		name = "projects/" + h.project + "/traces/" + name
	}

	r = r.Clone()
	r.AddAttrs(slog.String("logging.googleapis.com/trace", name),
		slog.String("logging.googleapis.com/spanId", span.SpanID().String()),
		slog.Bool("logging.googleapis.com/trace_sampled", span.IsSampled()))
	return h.Handler.Handle(ctx, r)
}

func (h traced) WithAttrs(attrs []slog.Attr) slog.Handler {
	return traced{h.Handler.WithAttrs(attrs), h.project}
}

func (h traced) WithGroup(name string) slog.Handler {
	return traced{h.Handler.WithGroup(name), h.project}
}
