package app

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// NewLogger returns a logger that writes lines of JSON with the keys that Cloud Logging knows
// (https://cloud.google.com/logging/docs/structured-logging).
func NewLogger(w io.Writer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: cloudKeys}))
}

// maxValue is how many bytes of a value a line of the log has. A request may be as long as 4 MiB,
// and anyone who may send one must not choose what the log costs.
const maxValue = 2 << 10

// cut cuts a value that is too long. A value of many parts, such as a report, stays whole.
func cut(v slog.Value) slog.Value {
	switch is := v.Any().(type) {
	case string:
		return slog.StringValue(cutText(is))
	case error:
		return slog.StringValue(cutText(is.Error()))
	case []string:
		all := make([]string, len(is))
		for i, text := range is {
			all[i] = cutText(text)
		}
		return slog.AnyValue(all)
	default:
		return v
	}
}

func cutText(text string) string {
	if len(text) <= maxValue {
		return text
	}
	return strings.ToValidUTF8(text[:maxValue], "") + fmt.Sprintf("… (%d bytes)", len(text))
}

// cloudKeys renames slog's keys and its level WARN to the names that Cloud Logging knows, and cuts
// long values.
func cloudKeys(groups []string, a slog.Attr) slog.Attr {
	a.Value = cut(a.Value)
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
