package app

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

// Anyone who may send a request must not choose what the log costs: each value is cut.
func TestLongValuesAreCut(t *testing.T) {
	long := strings.Repeat("é", 1<<20)
	for name, value := range map[string]any{
		"a text":      long,
		"an error":    errors.New(long),
		"some texts":  []string{long},
		"of a logger": slog.StringValue(long),
	} {
		var log bytes.Buffer
		NewLogger(&log, slog.LevelInfo).With("event_id", value).Info("received", slog.Group("group", "text", value))
		if n := log.Len(); n > 3*maxValue || !strings.Contains(log.String(), "… (2097152 bytes)") {
			t.Errorf("%s: a line of %d bytes: %.100s", name, n, &log)
		}
	}

	var log bytes.Buffer
	NewLogger(&log, slog.LevelInfo).Info("received", "event_id", strings.Repeat("x", maxValue))
	if n := log.Len(); n < maxValue || strings.Contains(log.String(), "…") {
		t.Errorf("a value that is not too long: %s", &log)
	}
}
