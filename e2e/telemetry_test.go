//go:build unix

package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/tool/local/emulator"
	"github.com/firestore-tally/tally/internal/tool/local/eventrelay"
	"github.com/firestore-tally/tally/internal/tool/local/freeport"
	"github.com/firestore-tally/tally/shards"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
	colmetricpb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	metricpb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

// A collector is the services that telemetry is exported to, Google Cloud's Telemetry API among
// them, and keeps what it is sent.
type collector struct {
	colmetricpb.UnimplementedMetricsServiceServer
	addr string

	mu      sync.Mutex
	metrics map[string]float64 // the latest of each time series
	spans   []*tracepb.Span
	changed chan struct{}
}

// A traceService is the collector's for traces: the two services' methods have one name.
type traceService struct {
	coltracepb.UnimplementedTraceServiceServer
	c *collector
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	l, err := net.Listen("tcp", freeport.HostPort(0))
	if err != nil {
		t.Fatal(err)
	}
	c := &collector{addr: l.Addr().String(), metrics: make(map[string]float64), changed: make(chan struct{})}
	server := grpc.NewServer()
	colmetricpb.RegisterMetricsServiceServer(server, c)
	coltracepb.RegisterTraceServiceServer(server, traceService{c: c})
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) }) // until it is stopped
	t.Cleanup(func() { server.Stop(); serving.Wait() })
	return c
}

func (c *collector) Export(_ context.Context, r *colmetricpb.ExportMetricsServiceRequest) (*colmetricpb.ExportMetricsServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range r.ResourceMetrics {
		for _, scope := range resource.ScopeMetrics {
			for _, m := range scope.Metrics {
				for _, p := range slices.Concat(m.GetSum().GetDataPoints(), m.GetGauge().GetDataPoints()) {
					c.metrics[series(m.Name, p)] = float64(p.GetAsInt())
				}
				for _, p := range m.GetHistogram().GetDataPoints() {
					c.metrics[m.Name] += float64(p.Count)
				}
			}
		}
	}
	close(c.changed)
	c.changed = make(chan struct{})
	return &colmetricpb.ExportMetricsServiceResponse{}, nil
}

// series names a time series by its metric and the values of its attributes.
func series(name string, p *metricpb.NumberDataPoint) string {
	for _, a := range p.Attributes {
		name += " " + a.Value.GetStringValue()
	}
	return name
}

func (s traceService) Export(_ context.Context, r *coltracepb.ExportTraceServiceRequest) (*coltracepb.ExportTraceServiceResponse, error) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	for _, resource := range r.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			s.c.spans = append(s.c.spans, scope.Spans...)
		}
	}
	return &coltracepb.ExportTraceServiceResponse{}, nil
}

// value returns the latest value of a time series.
func (c *collector) value(series string) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.metrics[series]
}

// names returns the names of a trace's spans that were received so far.
func (c *collector) names(traceID string) (names []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if fmt.Sprintf("%x", s.TraceId) == traceID {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	return names
}

// await waits until the series has the value.
func (c *collector) await(ctx context.Context, t *testing.T, series string, want float64) {
	t.Helper()
	for {
		c.mu.Lock()
		got, changed := c.metrics[series], c.changed
		c.mu.Unlock()
		if got == want {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("%s is %v, want %v", series, got, want)
		}
	}
}

// A telemetryWorld is a functions process that exports to a collector.
type telemetryWorld struct {
	*collector
	t       *testing.T
	ctx     context.Context
	project string
	process *process
}

// newTelemetryWorld starts one that exports at most once in each interval. The variables are
// further ones of the process, and have the last word.
func newTelemetryWorld(t *testing.T, interval time.Duration, variables ...string) *telemetryWorld {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	w := &telemetryWorld{collector: newCollector(t), t: t, ctx: ctx, project: emulatortest.Project(t), process: new(process)}
	w.process.env = []string{
		"FIRESTORE_EMULATOR_HOST=" + emulatortest.Addr(t), "GOOGLE_CLOUD_PROJECT=" + w.project, "TALLY_CADENCE=" + cadence.String(), "TALLY_HOLD_LIMIT=50s",
		"TALLY_TELEMETRY=otlp", "OTEL_EXPORTER_OTLP_ENDPOINT=http://" + w.addr, fmt.Sprint("OTEL_METRIC_EXPORT_INTERVAL=", interval.Milliseconds()),
	}
	w.process.env = append(w.process.env, variables...)
	// An emulator that has just started is slow to answer its first call.
	if _, err := emulatortest.ClientDatabase(t, w.project, "(default)").Doc("warm/up").Create(ctx, map[string]any{}); err != nil {
		t.Fatal(err)
	}
	w.process.start(ctx, t)
	t.Cleanup(func() { w.process.kill() })
	return w
}

// post posts a request with a trace to one of the functions and returns when it is answered.
func (w *telemetryWorld) post(function, traceID string, header http.Header, body []byte) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.ctx, http.MethodPost, strings.Replace(w.process.url(), "RollUpOnWrite", function, 1), bytes.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if header != nil {
		r.Header = header
	}
	r.Header.Set("Traceparent", "00-"+traceID+"-b7ad6b7169203331-01")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		w.t.Fatalf("%s answered %s\n%s", function, res.Status, w.process.logs.tail())
	}
}

// event posts the event of a change that was committed so long before.
func (w *telemetryWorld) event(id, counter, traceID string, before time.Duration) {
	w.t.Helper()
	document := &firestoredata.Document{Name: fmt.Sprintf("projects/%s/databases/(default)/documents/counters/%s/shards/0", w.project, counter)}
	e, err := eventrelay.NewEvent(id, time.Now().Add(-before), nil, document)
	if err != nil {
		w.t.Fatal(err)
	}
	w.post("RollUpOnWrite", traceID, e.Header, e.Body)
}

// acknowledged waits until so many events are acknowledged.
func (w *telemetryWorld) acknowledged(relay *eventrelay.Relay, events int) {
	w.t.Helper()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for relay.Stats().Acknowledged < events {
		select {
		case <-poll.C:
		case <-w.ctx.Done():
			w.t.Fatalf("%+v, want %d acknowledged\n%s", relay.Stats(), events, w.process.logs.tail())
		}
	}
}

// terminate ends the process as Cloud Run does, and returns when it has ended.
func (w *telemetryWorld) terminate() {
	w.t.Helper()
	signal(w.t, w.process.cmd.Process.Pid, syscall.SIGTERM)
	select {
	case <-w.process.ended:
	case <-w.ctx.Done():
		w.t.Fatal("it goes on after SIGTERM")
	}
}

// logged waits for the log line with the message, which may be on its way here.
func (w *telemetryWorld) logged(message string) map[string]any {
	w.t.Helper()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		for line := range bytes.Lines(w.process.logs.bytes()) {
			var fields map[string]any
			if json.Unmarshal(line, &fields) == nil && fields["message"] == message {
				return fields
			}
		}
		select {
		case <-poll.C:
		case <-w.ctx.Done():
			w.t.Fatalf("no line %q:\n%s", message, w.process.logs.tail())
		}
	}
}

const (
	traceOne = "0af7651916cd43dd8448eb211c80319c"
	traceTwo = "1af7651916cd43dd8448eb211c80319c"
)

// By the time that a request is answered, what it did was exported: the CPU may be gone then.
func TestTelemetryIsExportedBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	w := newTelemetryWorld(t, time.Millisecond)
	w.event("e1", "likes", traceOne, 0)
	for series, want := range map[string]float64{
		"tally.events covered": 1, "tally.rollups changed": 1, "tally.held": 1, "tally.lag": 1, "tally.billed read": 2, "tally.billed write": 1,
	} {
		if got := w.value(series); got != want {
			t.Errorf("when the event was answered, %s was %v, want %v", series, got, want)
		}
	}
	if diff := gocmp.Diff([]string{"event", "look", "sum", "write"}, w.names(traceOne)); diff != "" {
		t.Errorf("spans when the event was answered (-want +got):\n%s", diff)
	}

	w.post("RollUpOnSchedule", traceTwo, nil, nil)
	for series, want := range map[string]float64{"tally.ticks succeeded": 1, "tally.audited unchanged": 1, "tally.drift": 0} {
		if got := w.value(series); got != want {
			t.Errorf("when the tick was answered, %s was %v, want %v", series, got, want)
		}
	}
	if diff := gocmp.Diff([]string{"tick"}, w.names(traceTwo)); diff != "" {
		t.Errorf("spans when the tick was answered (-want +got):\n%s", diff)
	}
	line := w.logged("audited")
	if got, want := line["logging.googleapis.com/trace"], "projects/"+w.project+"/traces/"+traceTwo; got != want {
		t.Errorf("the tick's line is of trace %v, want %s", got, want)
	}

	// Later than an event may come that fails once: as the alert on lag wants to know.
	w.event("e2", "late", traceOne, time.Hour)
	line = w.logged("rolled up late")
	if lag, _ := line["lag_seconds"].(float64); lag < 3600 || line["counter"] != "rollups/late" || line["event_id"] != "e2" || line["severity"] != "WARNING" {
		t.Errorf("got %v, want a warning of a lag of an hour", line)
	}
}

// Real events of the emulator: each is counted once, however it ends. An event that ends while
// another one's export is in work is exported later, so all are counted when the process has ended.
func TestTelemetryOfRealEvents(t *testing.T) {
	t.Parallel()
	w := newTelemetryWorld(t, time.Millisecond)
	relay := eventrelay.New(eventrelay.Options{Targets: []string{w.process.url()}, Timeout: deadline})
	t.Cleanup(relay.Close)
	relays.Store(w.project, relay)
	if err := emulator.RegisterTrigger(w.ctx, emulatortest.Addr(t), emulator.Trigger{Project: w.project, Name: "written", Pattern: pattern}); err != nil {
		t.Fatal(err)
	}

	client := emulatortest.ClientDatabase(t, w.project, "(default)")
	counter := shards.New(client, "counters/likes", shards.NumShards(shardsOf))
	const increments = 50
	for range increments {
		if _, err := counter.Increment(w.ctx, 1); err != nil {
			t.Fatal(err)
		}
	}
	w.acknowledged(relay, increments)
	w.terminate()

	if got := w.value("tally.events absorbed") + w.value("tally.events covered"); got != increments {
		t.Errorf("%v events, want %d", got, increments)
	}
	if got := w.value("tally.events failed") + w.value("tally.events dropped"); got != 0 {
		t.Errorf("%v events failed", got)
	}
	if writes, billed := w.value("tally.rollups changed")+w.value("tally.rollups unchanged"), w.value("tally.billed write"); writes == 0 || writes != billed {
		t.Errorf("%v roll-ups, and %v writes billed", writes, billed)
	}
}

// What the last export left behind is exported when Cloud Run ends the instance.
func TestTelemetryIsExportedAtSIGTERM(t *testing.T) {
	t.Parallel()
	w := newTelemetryWorld(t, time.Hour)
	w.event("e1", "likes", traceOne, 0) // the first is exported at once
	w.event("e2", "views", traceTwo, 0)
	if got := w.value("tally.events covered"); got != 1 {
		t.Errorf("%v events are exported, want the first alone", got)
	}
	w.terminate()
	if status, ok := w.process.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGTERM {
		t.Errorf("it ended with %v, want the signal's own", w.process.cmd.ProcessState)
	}
	if got := w.value("tally.events covered"); got != 2 {
		t.Errorf("%v events were exported in the end, want 2", got)
	}
	if got := w.names(traceTwo); len(got) != 4 {
		t.Errorf("got the spans %v of the second event, want 4", got)
	}
}

// A collector that does not answer delays an event a little, and fails none.
func TestTelemetryIsNotExported(t *testing.T) {
	t.Parallel()
	w := newTelemetryWorld(t, time.Millisecond)
	w.collector.mu.Lock() // it takes calls, and does not answer them
	w.event("e1", "likes", traceOne, 0)
	w.collector.mu.Unlock()
	if line := w.logged("telemetry not exported"); cmp.Or(line["logging.googleapis.com/trace"], "") != "projects/"+w.project+"/traces/"+traceOne {
		t.Errorf("got %v, want the event's trace", line)
	}
	w.event("e2", "views", traceOne, 0)
	w.await(w.ctx, t, "tally.events covered", 2)
}

// Telemetry that cannot be set up fails no event.
func TestNoTelemetryWithoutCredentials(t *testing.T) {
	t.Parallel()
	w := newTelemetryWorld(t, time.Millisecond, "TALLY_TELEMETRY=gcp", "GOOGLE_APPLICATION_CREDENTIALS=/nowhere")
	w.event("e1", "likes", traceOne, 0)
	if line := w.logged("no telemetry"); line["severity"] != "ERROR" {
		t.Errorf("got %v, want an error", line)
	}
}
