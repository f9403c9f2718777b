package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/firestore-tally/tally/internal/cloud/telemetry"
	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/trace"
)

func TestTraceOfLines(t *testing.T) {
	const (
		w3c = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		id  = "0af7651916cd43dd8448eb211c80319c"
	)
	for _, test := range []struct {
		name, project string
		header        map[string]string
		want          map[string]any // of the trace's keys
	}{
		{"traceparent", "p", map[string]string{"Traceparent": w3c},
			map[string]any{"trace": "projects/p/traces/" + id, "spanId": "b7ad6b7169203331", "trace_sampled": true}},
		{"no project", "", map[string]string{"Traceparent": w3c},
			map[string]any{"trace": id, "spanId": "b7ad6b7169203331", "trace_sampled": true}},
		{"no trace", "p", nil, map[string]any{}},
		{"no trace that can be parsed", "p", map[string]string{"Traceparent": "00-0-0-0"}, map[string]any{}},
	} {
		header := make(http.Header)
		for key, value := range test.header {
			header.Set(key, value)
		}
		var log bytes.Buffer
		logger := NewLogger(&log, slog.LevelInfo, test.project).With("event_id", "e1")
		logger.InfoContext(telemetry.Traced(t.Context(), header), "text")
		if diff := cmp.Diff(test.want, traceKeys(t, log.Bytes())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
		if !strings.Contains(log.String(), `"event_id":"e1"`) {
			t.Errorf("%s: no event_id: %s", test.name, &log)
		}
	}
	var log bytes.Buffer
	dropped := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}})
	NewLogger(&log, slog.LevelInfo, "p").InfoContext(trace.ContextWithSpanContext(t.Context(), dropped), "text")
	if got := traceKeys(t, log.Bytes()); len(got) > 0 {
		t.Errorf("a span that is not recorded: %v", got)
	}
}

// traceKeys returns the keys of a log line that Cloud Logging takes for a trace.
func traceKeys(t *testing.T, line []byte) map[string]any {
	t.Helper()
	var fields map[string]any
	if err := json.Unmarshal(line, &fields); err != nil {
		t.Fatalf("%v in %s", err, line)
	}
	found := make(map[string]any)
	for key, value := range fields {
		if key, ok := strings.CutPrefix(key, "logging.googleapis.com/"); ok {
			found[key] = value
		}
	}
	return found
}

// Every line of a request has its trace, even with a wrong configuration.
func TestEveryLineOfARequestHasItsTrace(t *testing.T) {
	for _, environment := range [][]string{{}, {"TALLY_CADENCE=never"}} {
		for _, function := range []func(*App) http.HandlerFunc{
			func(a *App) http.HandlerFunc { return a.OnWrite },
			func(a *App) http.HandlerFunc { return a.OnSchedule },
		} {
			var log bytes.Buffer
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("no event"))
			r.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
			a := New(environ(environment...), &log)
			if s, err := a.setup(); err == nil {
				s.open = func(context.Context, string) (documentStore, error) { return nil, errors.New("refused") }
			}
			function(a)(httptest.NewRecorder(), r)
			lines := 0
			for line := range bytes.Lines(log.Bytes()) {
				if bytes.Contains(line, []byte(`"configured"`)) {
					continue // of the process
				}
				lines++
				if len(traceKeys(t, line)) != 3 {
					t.Errorf("no trace: %s", line)
				}
			}
			if lines == 0 {
				t.Error("no line")
			}
		}
	}
}
