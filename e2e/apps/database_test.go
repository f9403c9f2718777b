package apps

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/GoogleCloudPlatform/functions-framework-go/functions"
	"github.com/firestore-tally/tally/internal/cloud/app"
	"github.com/firestore-tally/tally/internal/cloud/billing"
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/tool/local/emulator"
	"github.com/firestore-tally/tally/internal/tool/local/eventrelay"
	"github.com/firestore-tally/tally/internal/tool/local/framework"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Everything here is real but the cloud: Google's emulator makes the events, the relay delivers
// them, and the functions framework serves the registered functions over HTTP.
//
// A process serves one project. So each function but the registered ones stands for many processes:
// the query parameter "project" chooses the one that serves it.

// routes are the routes of most functions here.
const routes = route.Default + "; posts/{post}/counters/{name}/shards/{shard} -> posts/{post}/rollups/{name} : likes, views"

var (
	logs   buffer // of every function in this process
	server string // the functions framework's address
)

// serve registers the functions and serves them.
func serve() {
	registerLayouts()
	registerSnippets()
	registerMigrated()
	registerOthers()
	registerEvery()
	registerJunk()
	registerFull()
	port := make(chan int)
	go func() { log.Fatal(framework.Serve(0, func(p int) { port <- p })) }()
	server = fmt.Sprintf("http://127.0.0.1:%d", <-port)
}

// environment returns a function's variables. The emulator is running when they are asked for.
func environment(variables ...string) func() []string {
	return func() []string {
		return append(variables, firestorestore.EmulatorHost+"="+os.Getenv(firestorestore.EmulatorHost))
	}
}

// processes are functions processes with the same variables, one for each project. As on Cloud Run,
// each begins with the first request.
type processes struct {
	variables []string
	dial      []grpc.DialOption

	mu   sync.Mutex
	apps map[string]*app.App // by project
}

func newProcesses(variables ...string) *processes {
	return &processes{variables: variables, apps: make(map[string]*app.App)}
}

// of returns a project's process.
func (p *processes) of(project string) *app.App {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.apps[project]
	if a == nil {
		a = app.New(environment(append(slices.Clone(p.variables), "GOOGLE_CLOUD_PROJECT="+project)...), &logs, p.dial...)
		p.apps[project] = a
	}
	return a
}

// OnWrite serves an event.
func (p *processes) OnWrite(w http.ResponseWriter, r *http.Request) {
	p.of(r.URL.Query().Get("project")).OnWrite(w, r)
}

// OnSchedule serves a call of the schedule.
func (p *processes) OnSchedule(w http.ResponseWriter, r *http.Request) {
	p.of(r.URL.Query().Get("project")).OnSchedule(w, r)
}

// at returns the address of a function that serves a project.
func at(function, project string) string {
	return server + "/" + function + "?project=" + project
}

// lines returns the log lines that hold every one of the parts.
func (b *buffer) lines(parts ...string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var found []string
next:
	for line := range strings.Lines(b.b.String()) {
		for _, part := range parts {
			if !strings.Contains(line, part) {
				continue next
			}
		}
		found = append(found, line)
	}
	return found
}

// A database is one of its own, whose shards' events reach one function.
type database struct {
	t      *testing.T
	client *firestore.Client
	relay  *eventrelay.Relay
	last   time.Time // the latest commit, of whatever counter
}

func newDatabase(t *testing.T, project, id, function string, faults eventrelay.Faults, patterns ...string) *database {
	t.Helper()
	relay := eventrelay.New(eventrelay.Options{Targets: []string{at(function, project)}, Faults: faults, Initial: 20 * time.Millisecond, Max: time.Second})
	t.Cleanup(relay.Close)
	emulatortest.Handle(t, project, relay)
	for i, pattern := range patterns {
		err := emulator.RegisterTrigger(t.Context(), emulatortest.Addr(t), emulator.Trigger{
			Project: project, Database: id, Name: fmt.Sprint("t", i), Pattern: pattern,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return &database{t: t, client: emulatortest.ClientDatabase(t, project, id), relay: relay}
}

// written notes the outcome of a write, which must be good.
func (w *database) written(result *firestore.WriteResult, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
	if result.UpdateTime.After(w.last) {
		w.last = result.UpdateTime
	}
}

func (w *database) set(path string, fields map[string]any) {
	w.t.Helper()
	w.written(w.client.Doc(path).Set(w.t.Context(), fields))
}

func (w *database) delete(path string) {
	w.t.Helper()
	// The result of a plain delete does not tell when it was committed.
	w.commit(func(tx *firestore.Transaction) error { return tx.Delete(w.client.Doc(path)) })
}

// commit commits what write adds to a transaction.
func (w *database) commit(write func(*firestore.Transaction) error) {
	w.t.Helper()
	var response firestore.CommitResponse
	err := w.client.RunTransaction(w.t.Context(), func(_ context.Context, tx *firestore.Transaction) error { return write(tx) },
		firestore.WithCommitResponseTo(&response))
	if err != nil {
		w.t.Fatal(err)
	}
	w.last = response.CommitTime()
}

// askAgain is how often a document that is waited for is read. A listener would not do: Google's
// emulator tells it nothing of a commit that falls into its beginning.
const askAgain = 10 * time.Millisecond

// wantRollUp waits until the roll-up covers the last write, and compares its totals, and num_shards
// of its tally. The last write must be to the roll-up's own sources, else nothing makes it so new.
func (w *database) wantRollUp(path string, want map[string]any) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), emulatortest.Eventually())
	defer cancel()
	again := time.NewTicker(askAgain)
	defer again.Stop()
	for ; ; <-again.C {
		doc, err := w.client.Doc(path).Get(ctx)
		if err != nil && status.Code(err) != codes.NotFound {
			w.t.Fatalf("%s: no roll-up covers the writes until %v: %v", path, w.last, err)
		}
		got := doc.Data()
		tally := document.DecodeTally(got[document.TallyField])
		if tally.AsOf.IsZero() || tally.AsOf.Before(w.last) {
			continue
		}
		delete(got, document.TallyField)
		got["num_shards"] = tally.NumShards
		if d := cmp.Diff(want, got); d != "" {
			w.t.Errorf("%s as of %v (-want +got):\n%s", path, tally.AsOf, d)
		}
		return
	}
}

// wantAcknowledged waits until each event is acknowledged.
func (w *database) wantAcknowledged() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), emulatortest.Eventually())
	defer cancel()
	if err := w.relay.Wait(ctx); err != nil {
		w.t.Errorf("%+v: %v; want each event acknowledged", w.relay.Stats(), err)
	}
}

// tallyOf returns the tally of a roll-up of no shards that the routes made.
func tallyOf(t *testing.T, routes, path string, asOf time.Time) map[string]any {
	t.Helper()
	all, err := route.Parse(routes)
	if err != nil {
		t.Fatal(err)
	}
	for _, template := range all.Templates() {
		if _, ok := template.Counter(path); ok {
			return document.Tally{AsOf: asOf, Routes: template.Hash(), Totals: template.Totals()}.Encode()
		}
	}
	t.Fatalf("no route for %s", path)
	return nil
}

func count(total any, numShards int64) map[string]any {
	return map[string]any{"count": total, "num_shards": numShards}
}

const (
	defaultPattern = "counters/{counter}/shards/{shard}"
	nestedPattern  = "posts/{post}/counters/{name}/shards/{shard}"
)

// postEvent posts a CloudEvent to a function, as Eventarc does, and returns the status.
func postEvent(t *testing.T, address string, e eventrelay.Event) int {
	t.Helper()
	req, err := e.Request(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode
}

// newEvent returns an event for a document that was created.
func newEvent(t testing.TB, id, project, path string) eventrelay.Event {
	t.Helper()
	return newEventOf(t, id, project, "(default)", path)
}

func newEventOf(t testing.TB, id, project, database, path string) eventrelay.Event {
	t.Helper()
	doc := &firestoredata.Document{Name: "projects/" + project + "/databases/" + database + "/documents/" + path}
	e, err := eventrelay.NewEvent(id, time.Now(), nil, doc)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Functions in addition to the registered ones.
const (
	counters  = "Counters"
	scheduled = "Scheduled" // serves calls of the schedule
	callers   = "Callers"
	burst     = "Burst" // has a cadence that outlasts a burst of events; its billed operations are counted
)

var burstMeter = billing.NewMeter(nil)

const burstCadence = 8 * time.Second

func registerOthers() {
	functions.HTTP(counters, newProcesses("TALLY_ROUTES="+routes, "TALLY_CADENCE=200ms", "TALLY_DATABASES=(default),other", "TALLY_HOLD_LIMIT=50s").OnWrite)
	functions.HTTP(scheduled, newProcesses("TALLY_ROUTES="+routes, "TALLY_CADENCE=200ms", "TALLY_DATABASES=(default),other").OnSchedule)
	functions.HTTP(callers, newProcesses("TALLY_CADENCE=10ms", "TALLY_HOLD_LIMIT=50s").OnWrite)
	bursts := newProcesses("TALLY_CADENCE="+burstCadence.String(), "TALLY_BURST=1", "TALLY_HOLD_LIMIT=50s")
	bursts.dial = burstMeter.DialOptions()
	functions.HTTP(burst, bursts.OnWrite)
}
