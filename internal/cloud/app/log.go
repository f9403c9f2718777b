package app

import (
	"io"
	"log/slog"
)

// NewLogger returns a logger that writes lines of JSON with the keys that Cloud Logging knows
// (https://cloud.google.com/logging/docs/structured-logging).
func NewLogger(w io.Writer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: cloudKeys}))
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
