package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/firestore-tally/tally/internal/billing"
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
	logger := NewLogger(&log, slog.LevelInfo, "")
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

// unreached is an emulator for tests in which no call gets that far.
const unreached = firestorestore.EmulatorHost + "=127.0.0.1:1"

// A CloudEvent that is malformed stays so: it is acknowledged, and logged under its id. What does
// not arrive whole is not.
func TestMalformedEvent(t *testing.T) {
	for _, test := range []struct {
		name   string
		header map[string]string
		body   io.Reader
		status int
		log    []string
	}{
		{"no source", map[string]string{"Ce-Specversion": "1.0", "Ce-Type": "t"}, strings.NewReader(""), 200, []string{`"severity":"ERROR"`, "source"}},
		{"a time that is none", map[string]string{"Ce-Specversion": "1.0", "Ce-Type": "t", "Ce-Source": "/", "Ce-Time": "noon"}, strings.NewReader(""), 200,
			[]string{`"severity":"ERROR"`, "noon"}},
		{"structured, but no JSON", map[string]string{"Content-Type": "application/cloudevents+json"}, strings.NewReader("{"), 200, []string{`"severity":"ERROR"`}},
		{"cut off", map[string]string{"Ce-Specversion": "1.0", "Ce-Type": "t"}, iotest.ErrReader(io.ErrUnexpectedEOF), 500, []string{`"severity":"WARNING"`}},
		{"of no known version", map[string]string{"Ce-Type": "t"}, strings.NewReader(""), 400, []string{`"severity":"WARNING"`}},
	} {
		var log bytes.Buffer
		r := httptest.NewRequest(http.MethodPost, "/", test.body)
		r.Header.Set("Ce-Id", "e1")
		for name, value := range test.header {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		New(func() []string { return nil }, &log).OnWrite(w, r)
		if w.Code != test.status {
			t.Errorf("%s: status %d, want %d", test.name, w.Code, test.status)
		}
		for _, want := range append(test.log, `"event_id":"e1"`) {
			if !strings.Contains(log.String(), want) {
				t.Errorf("%s: the log lacks %s:\n%s", test.name, want, &log)
			}
		}
	}
}

// A database that takes long to open keeps neither its own callers longer than they can wait, nor
// those of another.
func TestSlowOpen(t *testing.T) {
	slow, quick := databaseName{"p", "slow"}, databaseName{"p", "quick"}
	opened := make(chan error, 1)
	s := &service{databases: make(map[databaseName]*opening)}
	s.open = func(_ context.Context, name databaseName) (*database, error) {
		if name == slow {
			if err := <-opened; err != nil {
				return nil, err
			}
		}
		return new(database), nil
	}
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.opening(impatient, slow).wait(impatient); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
	if d, err := s.opening(t.Context(), quick).wait(t.Context()); d == nil || err != nil {
		t.Errorf("got %v, %v while another database is being opened", d, err)
	}
	s.mu.Lock()
	failing := s.databases[slow]
	s.mu.Unlock()
	opened <- errors.New("refused")
	<-failing.done
	opened <- nil
	first, err := s.opening(t.Context(), slow).wait(t.Context())
	if first == nil || err != nil {
		t.Fatalf("got %v, %v; a failed open must not be remembered", first, err)
	}
	if again, err := s.opening(t.Context(), slow).wait(t.Context()); again != first || err != nil {
		t.Errorf("opened twice: %v", err)
	}
}

// Firestore that never answers: the event fails when it was held long enough, and says so in the log.
func TestHoldLimit(t *testing.T) {
	silent := grpc.WithChainUnaryInterceptor(func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, _ ...grpc.CallOption) error {
		<-ctx.Done()
		return ctx.Err()
	})
	var log locked // the prober goes on after the event failed
	a := New(func() []string { return []string{"TALLY_HOLD_LIMIT=5100ms", "TALLY_CADENCE=10ms", unreached} }, &log, silent)
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

func TestScheduleWantsDryRunToBeABoolean(t *testing.T) {
	w := httptest.NewRecorder()
	New(func() []string { return []string{unreached} }, &bytes.Buffer{}).OnSchedule(w, httptest.NewRequest(http.MethodPost, "/?dry_run=perhaps", nil))
	if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), `dry_run="perhaps"`) {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}

// Databases share the function's timeout, less what is left for the last words.
func TestScheduleSharesItsTime(t *testing.T) {
	for _, test := range []struct {
		timeout, databases int
		want               time.Duration // from now
	}{{540, 1, 520 * time.Second}, {540, 2, 260 * time.Second}, {40, 1, 30 * time.Second}} {
		s := &service{config: Config{FunctionTimeout: test.timeout}}
		began := time.Now()
		if got := s.until(began, test.databases).Sub(began); got < test.want || got > test.want+10*time.Second {
			t.Errorf("%+v: got %v", test, got)
		}
	}
	if got := new(service).until(time.Now(), 1); !got.IsZero() {
		t.Errorf("without a timeout: %v", got)
	}
}

// What an audit costs and how long a cycle takes, at the pace of its calls.
func TestPace(t *testing.T) {
	for _, test := range []struct {
		report        rollup.Report
		billed        billing.Counts
		cycle, dollar float64 // 0: unknown
	}{
		{rollup.Report{Walked: 10, Whole: 10}, billing.Counts{Reads: 1e5}, 0, 0},
		{rollup.Report{Walked: 10, Since: 10 * time.Minute}, billing.Counts{Reads: 1e5}, 0, 144 * 0.03},
		{rollup.Report{Walked: 10, Whole: 10, Since: 10 * time.Minute}, billing.Counts{Reads: 1e5, Writes: 1e5, Deletes: 1e5}, 600, 144 * 0.13},
		{rollup.Report{Walked: 10, Whole: 21, Since: 10 * time.Minute}, billing.Counts{}, 1800, 0},
	} {
		got := newAuditReport(test.report, test.billed)
		if value(got.CycleSeconds) != test.cycle || math.Abs(value(got.DollarsPerDay)-test.dollar) > 1e-9 || (got.DollarsPerDay == nil) != (test.report.Since == 0) {
			t.Errorf("%+v: a cycle of %v s, %v dollars", test, value(got.CycleSeconds), value(got.DollarsPerDay))
		}
	}
}

func value(f *float64) float64 {
	if f == nil {
		return 0
	}
	return *f
}

func TestScheduleWantsAProject(t *testing.T) {
	w := httptest.NewRecorder()
	New(func() []string { return []string{unreached} }, &bytes.Buffer{}).OnSchedule(w, httptest.NewRequest(http.MethodPost, "/", nil))
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "GOOGLE_CLOUD_PROJECT is not set") {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}
