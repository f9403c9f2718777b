package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/firestorestore"
	"github.com/firestore-tally/tally/internal/trigger"
	"github.com/firestore-tally/tally/rollup"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

func TestClassify(t *testing.T) {
	for _, test := range []struct {
		err  error
		want outcome
	}{
		{nil, done},
		{fmt.Errorf("%w: truncated", trigger.ErrMalformed), permanent},
		{fmt.Errorf("a/b: %w", errNoRoute), permanent},
		{context.DeadlineExceeded, transient},
		{rollup.ErrConflict, transient},
		{errors.New("anything else"), transient},
	} {
		if got := classify(test.err); got != test.want {
			t.Errorf("classify(%v) = %d, want %d", test.err, got, test.want)
		}
	}
}

func TestLogKeys(t *testing.T) {
	var log bytes.Buffer
	logger := NewLogger(&log, slog.LevelInfo)
	logger.Debug("not logged")
	logger.Warn("text", "event_id", "e1")
	var line map[string]any
	if err := json.Unmarshal(log.Bytes(), &line); err != nil {
		t.Fatalf("%v in %s", err, &log)
	}
	if line["severity"] != "WARNING" || line["message"] != "text" || line["event_id"] != "e1" || line["time"] == nil {
		t.Errorf("got %v, want Cloud Logging's keys", line)
	}
}

// A misconfigured function acknowledges nothing and says everything that is wrong.
func TestMisconfigured(t *testing.T) {
	var log bytes.Buffer
	a := New(func() []string { return []string{"TALLY_CADENCE=never", "TALLY_ROUTES=x"} }, &log)
	event := httptest.NewRequest(http.MethodPost, "/", nil)
	event.Header.Set("Ce-Id", "e1")
	w := httptest.NewRecorder()
	a.OnWrite(w, event)
	if w.Code != http.StatusInternalServerError {
		t.Errorf("status %d, want 500: the event must not be acknowledged", w.Code)
	}
	w = httptest.NewRecorder()
	a.OnSchedule(w, httptest.NewRequest(http.MethodPost, "/", nil))
	if w.Code != http.StatusInternalServerError {
		t.Errorf("status %d, want 500", w.Code)
	}
	for _, want := range []string{"TALLY_CADENCE", "TALLY_ROUTES"} {
		if !strings.Contains(w.Body.String(), want) || !strings.Contains(log.String(), want) {
			t.Errorf("%s is named neither in the answer nor in the log:\n%s%s", want, w.Body, &log)
		}
	}
	if !strings.Contains(log.String(), `"event_id":"e1"`) {
		t.Errorf("no event_id in the log:\n%s", &log)
	}
}

func TestScheduleWantsGetOrPost(t *testing.T) {
	w := httptest.NewRecorder()
	New(func() []string { return nil }, &bytes.Buffer{}).OnSchedule(w, httptest.NewRequest(http.MethodDelete, "/", nil))
	if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, POST" {
		t.Errorf("status %d, Allow %q", w.Code, w.Header().Get("Allow"))
	}
}

func TestNotACloudEvent(t *testing.T) {
	var log bytes.Buffer
	w := httptest.NewRecorder()
	New(func() []string { return nil }, &log).OnWrite(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader("hello")))
	if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "not a CloudEvent") || !strings.Contains(log.String(), "not a CloudEvent") {
		t.Errorf("status %d, want 400: %s%s", w.Code, w.Body, &log)
	}
}

// A locked buffer may be written while it is read.
type locked struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Firestore that never answers: the event fails when it was held long enough, and says so in the log.
func TestHoldLimit(t *testing.T) {
	t.Setenv(firestorestore.EmulatorHost, "127.0.0.1:1") // never reached: each call is intercepted
	silent := grpc.WithChainUnaryInterceptor(func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, _ ...grpc.CallOption) error {
		<-ctx.Done()
		return ctx.Err()
	})
	var log locked // the prober goes on after the event failed
	a := New(func() []string { return []string{"TALLY_HOLD_LIMIT=5100ms", "TALLY_CADENCE=10ms"} }, &log, silent)
	document := &firestoredata.Document{Name: "projects/demo-p/databases/(default)/documents/counters/c/shards/0"}
	body, err := proto.Marshal(&firestoredata.DocumentEventData{Value: document})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
	for name, value := range map[string]string{"Ce-Id": "e1", "Ce-Source": "/", "Ce-Specversion": "1.0",
		"Ce-Type": "google.cloud.firestore.document.v1.written", "Content-Type": "application/protobuf"} {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	began := time.Now()
	a.OnWrite(w, r)
	if held := time.Since(began); w.Code != http.StatusInternalServerError || held < 5100*time.Millisecond {
		t.Errorf("status %d after %v, want 500 after 5.1 s", w.Code, held)
	}
	for _, want := range []string{"event not acknowledged", `"event_id":"e1"`, `"counter":"rollups/c"`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, &log)
		}
	}
}

func TestScheduleWantsAProject(t *testing.T) {
	t.Setenv(firestorestore.EmulatorHost, "127.0.0.1:1")
	w := httptest.NewRecorder()
	New(func() []string { return nil }, &bytes.Buffer{}).OnSchedule(w, httptest.NewRequest(http.MethodPost, "/", nil))
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "GOOGLE_CLOUD_PROJECT is not set") {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}
