package tally

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/GoogleCloudPlatform/functions-framework-go/functions"
	"github.com/firestore-tally/tally/internal/app"
	"github.com/firestore-tally/tally/internal/billing"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/emulator"
	"github.com/firestore-tally/tally/internal/emulator/emulatortest"
	"github.com/firestore-tally/tally/internal/eventrelay"
	"github.com/firestore-tally/tally/internal/firestorestore"
	"github.com/firestore-tally/tally/internal/framework"
	"github.com/firestore-tally/tally/rollup"
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

// routes are those of the registered functions.
const routes = rollup.DefaultRoute + "; posts/{post}/counters/{name}/shards/{shard} -> posts/{post}/rollups/{name} : likes, views"

// scheduled is the project that RollUpOnSchedule works in; a process has only one.
var scheduled = fmt.Sprintf("demo-scheduled-%d", os.Getpid())

var (
	logs   buffer   // of every function
	relays sync.Map // project → *eventrelay.Relay
	server string   // the functions framework's address
)

func TestMain(m *testing.M) {
	service = app.New(environment("TALLY_ROUTES="+routes, "TALLY_CADENCE=200ms", "TALLY_DATABASES=(default),other", "GOOGLE_CLOUD_PROJECT="+scheduled), &logs)
	registerLayouts()
	registerSnippets()
	registerMigrated()
	registerOthers()
	registerEvery()

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go func() { log.Fatal(http.Serve(l, http.HandlerFunc(relayEvent))) }()
	port := make(chan int)
	go func() { log.Fatal(framework.Serve(0, func(p int) { port <- p })) }()
	server = fmt.Sprintf("http://127.0.0.1:%d", <-port)
	emulatortest.Main(m, emulator.Options{Rules: "firestore.rules", Functions: l.Addr().String()})
}

// environment returns a function's variables. The emulator is running when they are asked for.
func environment(variables ...string) func() []string {
	return func() []string {
		return append(variables, firestorestore.EmulatorHost+"="+emulatortest.Addr())
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

// relayEvent hands an event to the relay of its project.
func relayEvent(w http.ResponseWriter, r *http.Request) {
	project, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/functions/projects/"), "/")
	if relay, ok := relays.Load(project); ok {
		relay.(*eventrelay.Relay).ServeHTTP(w, r)
	}
}

// A buffer may be written and read by many goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
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

// A world is a database of its own, whose shards' events reach one function.
type world struct {
	t      *testing.T
	client *firestore.Client
	relay  *eventrelay.Relay
	last   time.Time // the latest commit
}

func newWorld(t *testing.T, project, database, function string, faults eventrelay.Faults, patterns ...string) *world {
	t.Helper()
	relay := eventrelay.New(eventrelay.Options{Targets: []string{at(function, project)}, Faults: faults, Initial: 20 * time.Millisecond, Max: time.Second})
	t.Cleanup(relay.Close)
	relays.Store(project, relay)
	for i, pattern := range patterns {
		err := emulator.RegisterTrigger(t.Context(), emulatortest.Addr(), emulator.Trigger{
			Project: project, Database: database, Name: fmt.Sprint("t", i), Pattern: pattern,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return &world{t: t, client: emulatortest.ClientDatabase(t, project, database), relay: relay}
}

// written notes the outcome of a write, which must be good.
func (w *world) written(result *firestore.WriteResult, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
	if result.UpdateTime.After(w.last) {
		w.last = result.UpdateTime
	}
}

func (w *world) set(path string, fields map[string]any) {
	w.t.Helper()
	w.written(w.client.Doc(path).Set(w.t.Context(), fields))
}

func (w *world) delete(path string) {
	w.t.Helper()
	// The result of a plain delete does not tell when it was committed.
	w.commit(func(tx *firestore.Transaction) error { return tx.Delete(w.client.Doc(path)) })
}

// commit commits what write adds to a transaction.
func (w *world) commit(write func(*firestore.Transaction) error) {
	w.t.Helper()
	var response firestore.CommitResponse
	err := w.client.RunTransaction(w.t.Context(), func(_ context.Context, tx *firestore.Transaction) error { return write(tx) },
		firestore.WithCommitResponseTo(&response))
	if err != nil {
		w.t.Fatal(err)
	}
	w.last = response.CommitTime()
}

// eventually bounds the waits; the machine may be slow.
const eventually = 60 * time.Second

// askAgain is how often a document that is waited for is read. A listener would not do: Google's
// emulator tells it nothing of a commit that falls into its beginning.
const askAgain = 10 * time.Millisecond

// wantRollUp waits until the roll-up covers the last write, and compares its totals, and num_shards
// of its tally.
func (w *world) wantRollUp(path string, want map[string]any) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), eventually)
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

// tallyOf returns the tally of a roll-up of no shards that the routes made.
func tallyOf(t *testing.T, routes, path string, asOf time.Time) map[string]any {
	t.Helper()
	all, err := rollup.ParseRoutes(routes)
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

func TestCounters(t *testing.T) {
	const shards = "counters/c/shards/"
	values := func(values ...any) func(*world) {
		return func(w *world) {
			for i, v := range values {
				w.set(fmt.Sprint(shards, i), map[string]any{"count": v})
			}
		}
	}
	for _, test := range []struct {
		name   string
		write  func(w *world)
		rollUp string
		want   map[string]any
		logged []string // parts of one line
	}{
		{"negative", values(-7, 2), "rollups/c", count(int64(-5), 2), nil},
		{"float", values(0.5, 0.25), "rollups/c", count(0.75, 2), nil},
		{"mixed", values(1, 0.5), "rollups/c", count(1.5, 2), nil},
		{"above 2^53", values(1<<53, 1), "rollups/c", count(int64(1<<53+1), 2), nil},
		{"beyond int64", values(math.MaxInt64, math.MaxInt64), "rollups/c", count(float64(1<<64), 2), nil},
		{"text", values(5, "7"), "rollups/c", count(int64(5), 2), []string{`"severity":"WARNING"`, shards + "1", "a string, not a number"}},
		{"NaN", values(5, math.NaN()), "rollups/c", count(int64(5), 2), []string{`"severity":"WARNING"`, shards + "1", "is NaN"}},
		{"infinite", values(5, math.Inf(-1)), "rollups/c", count(int64(5), 2), []string{`"severity":"WARNING"`, shards + "1", "is -Inf"}},
		{"a shard deleted", func(w *world) { values(1, 2, 4)(w); w.delete(shards + "1") }, "rollups/c", count(int64(5), 2), nil},
		{"all shards deleted", func(w *world) { values(1, 2)(w); w.delete(shards + "0"); w.delete(shards + "1") }, "rollups/c", count(int64(0), 0), nil},
		{"a parent document", func(w *world) { w.set("counters/c", map[string]any{"num_shards": 10}); values(3)(w) }, "rollups/c", count(int64(3), 1), nil},
		{"two fields, some with one",
			func(w *world) {
				w.set("posts/p/counters/c/shards/0", map[string]any{"likes": 1})
				w.set("posts/p/counters/c/shards/1", map[string]any{"views": 2})
				w.set("posts/p/counters/c/shards/2", map[string]any{"likes": 10, "views": 20})
			},
			"posts/p/rollups/c", map[string]any{"likes": int64(11), "views": int64(22), "num_shards": int64(2)}, nil},
		{"ids of many characters", func(w *world) { w.set("counters/größe 三 👍🏽.%2F?#:/shards/٣ ", map[string]any{"count": 3}) },
			"rollups/größe 三 👍🏽.%2F?#:", count(int64(3), 1), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, emulatortest.Project(t), "(default)", counters, eventrelay.Faults{}, defaultPattern, nestedPattern)
			test.write(w)
			w.wantRollUp(test.rollUp, test.want)
			if test.logged != nil && logs.lines(test.logged...) == nil {
				t.Errorf("no log line with %q", test.logged)
			}
		})
	}
}

// Increments from many clients, with events that come twice, late, out of order and again after
// they were acknowledged.
func TestEventsGoWrong(t *testing.T) {
	t.Parallel()
	faults := eventrelay.Faults{Seed: 1, Duplicates: 0.3, LostAcks: 0.3, Delay: 300 * time.Millisecond}
	w := newWorld(t, emulatortest.Project(t), "(default)", counters, faults, defaultPattern)
	const clients, each = 8, 40
	var all sync.WaitGroup
	var mu sync.Mutex
	for c := range clients {
		all.Go(func() {
			for i := range each {
				shard := w.client.Doc(fmt.Sprintf("counters/c/shards/%d", (c+i)%5))
				result, err := shard.Set(t.Context(), map[string]any{"count": firestore.Increment(c - 3)}, firestore.MergeAll)
				mu.Lock()
				if err != nil {
					t.Error(err)
				} else {
					w.written(result, nil)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	w.wantRollUp("rollups/c", count(int64(each*(0+1+2+3+4-1-2-3)), 5))
	ctx, cancel := context.WithTimeout(t.Context(), eventually)
	defer cancel()
	if err := w.relay.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	if s := w.relay.Stats(); s.Redelivered == 0 || s.Duplicated == 0 {
		t.Errorf("nothing went wrong: %+v", s)
	}
	w.wantRollUp("rollups/c", count(int64(each*4), 5))
}

func TestNamedDatabase(t *testing.T) {
	t.Parallel()
	project := emulatortest.Project(t)
	w := newWorld(t, project, "other", counters, eventrelay.Faults{}, defaultPattern)
	w.set("counters/c/shards/0", map[string]any{"count": 3})
	w.wantRollUp("rollups/c", count(int64(3), 1))
	doc, err := emulatortest.ClientDatabase(t, project, "(default)").Doc("rollups/c").Get(t.Context())
	if status.Code(err) != codes.NotFound {
		t.Errorf("got %v, %v; want no roll-up in the default database", doc.Data(), err)
	}
}

// post posts a CloudEvent to a function, as Eventarc does, and returns the status.
func post(t *testing.T, address string, header http.Header, body []byte) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
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

// What can never be served is acknowledged, so that it is not delivered for a day, and logged at
// ERROR under its id.
func TestGarbage(t *testing.T) {
	t.Parallel()
	project := emulatortest.Project(t)
	for name, spoil := range map[string]func(e *eventrelay.Event){
		"truncated":       func(e *eventrelay.Event) { e.Body = e.Body[:len(e.Body)-3] },
		"no-document":     func(e *eventrelay.Event) { e.Body = nil },
		"not-protobuf":    func(e *eventrelay.Event) { e.Body = []byte("{}") },
		"json":            func(e *eventrelay.Event) { e.Header.Set("Content-Type", "application/json"); e.Body = []byte("{}") },
		"another-type":    func(e *eventrelay.Event) { e.Header.Set("Ce-Type", "google.cloud.storage.object.v1.finalized") },
		"foreign-path":    func(e *eventrelay.Event) { *e = newEvent(t, "e", project, "users/u/shards/0") },
		"a-counter":       func(e *eventrelay.Event) { *e = newEvent(t, "e", project, "counters/c") },
		"no-source":       func(e *eventrelay.Event) { e.Header.Del("Ce-Source") },
		"another-project": func(e *eventrelay.Event) { *e = newEvent(t, "e", "another-"+project, "counters/c/shards/0") },
		"another-database": func(e *eventrelay.Event) {
			*e = newEventOf(t, "e", project, "third", "counters/c/shards/0")
		},
		"percent-signs": func(e *eventrelay.Event) { *e = newEvent(t, "e", project, "%d%s/%n/%v/100%") },
	} {
		id := name + "-of-" + project
		e := newEvent(t, id, project, "counters/c/shards/0")
		spoil(&e)
		e.Header.Set("Ce-Id", id)
		if status := post(t, at(counters, project), e.Header, e.Body); status < 200 || status > 299 {
			t.Errorf("%s: status %d, want 2xx", name, status)
		}
		if lines := logs.lines(`"severity":"ERROR"`, `"event_id":"`+id+`"`); len(lines) != 1 {
			t.Errorf("%s: got %d ERROR lines, want 1: %s", name, len(lines), lines)
		}
	}
	docs, err := emulatortest.ClientDatabase(t, project, "(default)").CollectionGroup("rollups").Documents(t.Context()).GetAll()
	if err != nil || len(docs) > 0 {
		t.Errorf("garbage wrote %d roll-ups (%v)", len(docs), err)
	}
}

// A caller that goes away while its event is handed over or held must harm no other event: not one
// that is held at the same time, and not the next one, which may be the last for hours.
func TestCallersGoAway(t *testing.T) {
	t.Parallel()
	client := emulatortest.Client(t)
	project := strings.Split(client.Doc("a/b").Path, "/")[1]
	// A connection that a caller leaves must not be met again by another: net/http may tell that
	// one the first one's error.
	send := func(ctx context.Context, c *http.Client, id, counter string) error {
		e := newEvent(t, id, project, "counters/"+counter+"/shards/0")
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, at(callers, project), bytes.NewReader(e.Body))
		if err != nil {
			return err
		}
		req.Header = e.Header
		res, err := c.Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("status %s", res.Status)
		}
		return nil
	}
	hasty, calm := newHTTPClient(t), newHTTPClient(t)
	patient, cancel := context.WithTimeout(t.Context(), eventually)
	defer cancel()
	for i := range 100 {
		var all sync.WaitGroup
		for j := range 8 {
			all.Go(func() {
				impatient, cancel := context.WithTimeout(patient, time.Duration(i*8+j)*10*time.Microsecond)
				defer cancel()
				_ = send(impatient, hasty, fmt.Sprintf("impatient-%d-%d", i, j), "impatient")
			})
		}
		all.Go(func() {
			if err := send(patient, calm, fmt.Sprint("patient-", i), "patient"); err != nil {
				t.Errorf("round %d: an event failed with others: %v", i, err)
			}
		})
		all.Wait()
	}
	if err := send(patient, calm, "last", "last"); err != nil {
		t.Errorf("the last event: %v", err)
	}
}

// newHTTPClient returns a client with connections of its own.
func newHTTPClient(t *testing.T) *http.Client {
	transport := new(http.Transport)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// Functions beside the registered ones.
const (
	counters = "Counters" // is configured like RollUpOnWrite
	callers  = "Callers"
	burst    = "Burst" // has a cadence that outlasts a burst of events; its billed operations are counted
)

var burstMeter = billing.NewMeter(nil)

func registerOthers() {
	functions.HTTP(counters, newProcesses("TALLY_ROUTES="+routes, "TALLY_CADENCE=200ms", "TALLY_DATABASES=(default),other").OnWrite)
	functions.HTTP(callers, newProcesses("TALLY_CADENCE=10ms").OnWrite)
	bursts := newProcesses("TALLY_CADENCE=8s", "TALLY_BURST=1", "TALLY_HOLD_LIMIT=30s")
	bursts.dial = burstMeter.DialOptions()
	functions.HTTP(burst, bursts.OnWrite)
}

func TestBurst(t *testing.T) {
	t.Parallel()
	before := burstMeter.Counts()
	w := &world{t: t, client: emulatortest.Client(t)}
	project := strings.Split(w.client.Doc("a/b").Path, "/")[1]
	for i := range 10 {
		w.set(fmt.Sprintf("counters/c/shards/%d", i), map[string]any{"count": 100})
	}
	const events = 1000
	var all sync.WaitGroup
	for i := range events {
		e := newEvent(t, fmt.Sprint("burst-", i), project, fmt.Sprintf("counters/c/shards/%d", i%10))
		all.Go(func() {
			if status := post(t, at(burst, project), e.Header, e.Body); status < 200 || status > 299 {
				t.Errorf("status %d", status)
			}
		})
	}
	all.Wait()
	w.wantRollUp("rollups/c", count(int64(1000), 10))
	after := burstMeter.Counts()
	if rollUps := after.Writes - before.Writes; rollUps < 1 || rollUps > 3 || after.Reads-before.Reads != 2*rollUps || after.Deletes != 0 {
		t.Errorf("%d events on one counter were billed from %+v to %+v, want at most 3 roll-ups of 2 reads and 1 write", events, before, after)
	}
}

func TestSchedule(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for _, database := range []string{"(default)", "other"} { // the project is not new when the test is repeated
		if err := emulator.Clear(ctx, emulatortest.Addr(), scheduled, database); err != nil {
			t.Fatal(err)
		}
	}
	client, other := emulatortest.ClientDatabase(t, scheduled, "(default)"), emulatortest.ClientDatabase(t, scheduled, "other")
	w := &world{t: t, client: client}
	const counters = 320 // more than a page of Firestore's listings
	writer := client.BulkWriter(ctx)
	for i := range counters {
		if _, err := writer.Set(client.Doc(fmt.Sprintf("counters/%03d/shards/0", i)), map[string]any{"count": i}); err != nil {
			t.Fatal(err)
		}
	}
	writer.End()
	w.set("posts/p/counters/c/shards/0", map[string]any{"likes": 1})
	(&world{t: t, client: other}).set("counters/c/shards/0", map[string]any{"count": 7})

	type audit struct {
		rollup.Report
		Billed        billing.Counts
		CycleSeconds  *float64 `json:"cycle_seconds"`
		DollarsPerDay *float64 `json:"dollars_per_day"`
	}
	type report struct {
		Databases map[string]audit
		Errors    []string
	}
	tick := func(query string) map[string]audit {
		t.Helper()
		res, err := http.Post(server+"/RollUpOnSchedule"+query, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var r report
		if err := json.NewDecoder(res.Body).Decode(&r); err != nil || res.StatusCode != http.StatusOK {
			t.Errorf("status %s: %+v, %v", res.Status, r, err)
		}
		return r.Databases
	}
	const end = "at the beginning"
	want := func(query string, first, second rollup.Report) (audit, audit) {
		t.Helper()
		got := tick(query)
		for database, want := range map[string]rollup.Report{"(default)": first, "other": second} {
			want.Complete, want.Cursor = true, end
			if d := cmp.Diff(want, got[database].Report); d != "" {
				t.Errorf("%s: database %s (-want +got):\n%s", query, database, d)
			}
		}
		return got["(default)"], got["other"]
	}
	none := func(path string) {
		t.Helper()
		if doc, err := client.Doc(path).Get(ctx); status.Code(err) != codes.NotFound {
			t.Errorf("%s: %v, %v; want no such document", path, doc.Data(), err)
		}
	}

	want("?dry_run=true", rollup.Report{Counters: counters + 1, Differing: counters + 1, Missing: counters + 1}, rollup.Report{Counters: 1, Differing: 1, Missing: 1})
	none("rollups/007")
	none("rollup_audit/cursor")

	first, second := want("", rollup.Report{Counters: counters + 1, RolledUp: counters + 1, Missing: counters + 1}, rollup.Report{Counters: 1, RolledUp: 1, Missing: 1})
	for i := range counters {
		w.wantRollUp(fmt.Sprintf("rollups/%03d", i), count(int64(i), 1))
	}
	w.wantRollUp("posts/p/rollups/c", map[string]any{"likes": int64(1), "views": int64(0), "num_shards": int64(1)})
	(&world{t: t, client: other}).wantRollUp("rollups/c", count(int64(7), 1))
	// the cursor; two walks that find no roll-up; the counter, the end behind it, twice; its
	// roll-up and sum
	if want := (billing.Counts{Reads: 1 + 2 + 3 + 2, Writes: 2}); second.Billed != want {
		t.Errorf("billed %+v, want %+v", second.Billed, want)
	}
	if first.CycleSeconds != nil || first.DollarsPerDay != nil {
		t.Errorf("the first call says how often it is called: %+v", first)
	}

	drift := func() []string { return logs.lines(`"severity":"ERROR"`, "drift: ", `"counter":"rollups/007"`) }
	before := len(drift())                                     // with -count, the process and its project are those of the test's last run
	w.set("counters/007/shards/1", map[string]any{"count": 1}) // no event comes
	old := tallyOf(t, routes, "rollups/lone", time.Now().Add(-24*time.Hour))
	w.set("rollups/lone", map[string]any{"count": 9, document.TallyField: old})
	w.set("rollups/gone", map[string]any{"count": 0, document.TallyField: old})
	w.set("rollups/app", map[string]any{"count": 0, document.TallyField: old, "title": "x"})
	w.set("counters/008/shards/1", map[string]any{"count": "x"})
	first, second = want("",
		rollup.Report{Counters: counters + 4, RolledUp: 3, Unchanged: counters - 1, Removed: 2, Drift: 2, Orphaned: 1, Malformed: 1},
		rollup.Report{Counters: 1, Unchanged: 1})
	w.wantRollUp("rollups/007", count(int64(8), 2))
	w.wantRollUp("rollups/008", count(int64(8), 2))
	w.wantRollUp("rollups/lone", count(int64(0), 0))
	none("rollups/gone")
	app, err := client.Doc("rollups/app").Get(ctx)
	if err != nil || !cmp.Equal(app.Data(), map[string]any{"title": "x"}) {
		t.Errorf("rollups/app: %v, %v", app.Data(), err)
	}
	// the cursor; its roll-up found, the end behind it, no roll-up of the other route; its roll-up
	// and sum; its shards found, the end behind them, twice; its roll-up
	if want := int64(1 + 3 + 2 + 3 + 1); second.Billed.Reads != want || second.Billed.Writes != 1 {
		t.Errorf("billed %+v, want %d reads and the cursor's write", second.Billed, want)
	}
	for _, a := range []audit{first, second} {
		if a.CycleSeconds == nil || *a.CycleSeconds <= 0 || a.DollarsPerDay == nil || *a.DollarsPerDay <= 0 {
			t.Errorf("how long a cycle takes and what it costs is unknown: %+v", a)
		}
	}
	if lines := drift(); len(lines) != before+1 {
		t.Errorf("drift logged: %v", lines[before:])
	}
}

// A tick stops when it was billed for as many reads as it may be, and the next goes on from there.
func TestScheduleStopsAtItsReads(t *testing.T) {
	t.Parallel()
	project := emulatortest.Project(t)
	const reads, page, all = 200, 100, 250
	w := &world{t: t, client: emulatortest.ClientDatabase(t, project, "(default)")}
	for i := range all {
		w.set(fmt.Sprintf("counters/%03d/shards/0", i), map[string]any{"count": i})
	}
	a := newProcesses(fmt.Sprint("TALLY_AUDIT_READS_PER_TICK=", reads)).of(project)
	rolledUp, ticks := 0, 0
	for complete := false; !complete; ticks++ {
		answer := httptest.NewRecorder()
		a.OnSchedule(answer, httptest.NewRequest(http.MethodPost, "/", nil))
		var report struct {
			Databases map[string]struct {
				rollup.Report
				Billed billing.Counts
			}
		}
		if err := json.Unmarshal(answer.Body.Bytes(), &report); err != nil || answer.Code != http.StatusOK {
			t.Fatalf("status %d: %s: %v", answer.Code, answer.Body, err)
		}
		got := report.Databases["(default)"]
		if got.Billed.Reads > reads+page+32*5 || ticks > all { // the counters of a page, and those that were in work
			t.Fatalf("tick %d was billed %d reads, want hardly more than %d", ticks, got.Billed.Reads, reads)
		}
		rolledUp, complete = rolledUp+got.RolledUp, got.Complete
	}
	if rolledUp != all || ticks < 3 {
		t.Errorf("%d counters were rolled up in %d ticks, want %d in several", rolledUp, ticks, all)
	}
}

// Two calls at once, of which Cloud Scheduler makes no secret.
func TestScheduleOverlaps(t *testing.T) {
	t.Parallel()
	project := emulatortest.Project(t)
	a := app.New(func() []string {
		return []string{"GOOGLE_CLOUD_PROJECT=" + project, firestorestore.EmulatorHost + "=" + emulatortest.Addr(), "TALLY_AUDIT_READS_PER_TICK=200"}
	}, &logs)
	w := &world{t: t, client: emulatortest.ClientDatabase(t, project, "(default)")}
	const counters = 60
	for i := range counters {
		w.set(fmt.Sprintf("counters/%02d/shards/0", i), map[string]any{"count": i})
	}
	for range 4 { // 200 reads are not enough for all
		var calls sync.WaitGroup
		for range 3 {
			calls.Go(func() {
				answer := httptest.NewRecorder()
				a.OnSchedule(answer, httptest.NewRequest(http.MethodPost, "/", nil))
				if answer.Code != http.StatusOK {
					t.Errorf("status %d: %s", answer.Code, answer.Body)
				}
			})
		}
		calls.Wait()
	}
	for i := range counters {
		w.wantRollUp(fmt.Sprintf("rollups/%02d", i), count(int64(i), 1))
	}
}
