package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/eventrelay"
	"github.com/firestore-tally/tally/internal/memstore"
	"github.com/firestore-tally/tally/rollup"
	"github.com/google/go-cmp/cmp"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// What the app makes of the engine: its time limits, its databases, its ticks. The stores are in
// memory, and the time is synctest's.

const project = "demo-app"

// environ returns the variables of an App, the project among them.
func environ(variables ...string) func() []string {
	return func() []string { return append([]string{"GOOGLE_CLOUD_PROJECT=" + project}, variables...) }
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

// lines returns the log lines that hold every one of the parts.
func (l *locked) lines(parts ...string) (found []string) {
	for line := range strings.Lines(l.String()) {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
			found = append(found, line)
		}
	}
	return found
}

// A world is an App on stores in memory.
type world struct {
	*App
	t      *testing.T
	stores map[string]*store // by database
	log    locked
	opened atomic.Int64
}

// newWorld returns a world with the databases that are served, and "other".
func newWorld(t *testing.T, variables ...string) *world {
	t.Helper()
	w := &world{t: t, stores: map[string]*store{"other": {t: t}}}
	w.App = New(environ(variables...), &w.log)
	s, err := w.setup() // outside of synctest's bubble: it waits for SIGTERM
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range s.config.Databases {
		w.stores[id] = &store{t: t}
	}
	s.open = func(_ context.Context, id string) (rollup.AuditStore, error) {
		w.opened.Add(1)
		return w.stores[id], nil
	}
	return w
}

// run runs f in virtual time, and waits until nothing of the App is left at work.
func (w *world) run(f func()) {
	w.t.Helper()
	outer := w.t
	synctest.Test(w.t, func(t *testing.T) {
		w.t = t
		f()
		time.Sleep(5 * time.Minute) // probers end
	})
	w.t = outer
}

// A store is one in memory that goes wrong as a test says.
type store struct {
	memstore.Store
	t      *testing.T
	view   func(ctx context.Context, c rollup.Counter, n int) error // called before the n-th look, from 1 on
	write  func(ctx context.Context, n int) error                   // called before the n-th write, from 1 on
	lister error                                                    // of lists of roll-ups

	mu    sync.Mutex
	looks []call
	wrote []call
	saved int // cursors
}

// A call is one that the store got.
type call struct {
	at      time.Time
	counter string
}

func (s *store) View(ctx context.Context, c rollup.Counter) (rollup.Snapshot, error) {
	s.mu.Lock()
	s.looks = append(s.looks, call{time.Now(), c.RollUp})
	n := len(s.looks)
	s.mu.Unlock()
	if s.view != nil {
		if err := s.view(ctx, c, n); err != nil {
			return nil, err
		}
	}
	return s.Store.View(ctx, c)
}

func (s *store) Write(ctx context.Context, c rollup.Counter, r rollup.RollUp) error {
	s.mu.Lock()
	s.wrote = append(s.wrote, call{time.Now(), c.RollUp})
	n := len(s.wrote)
	s.mu.Unlock()
	if s.write != nil {
		if err := s.write(ctx, n); err != nil {
			return err
		}
	}
	return s.Store.Write(ctx, c, r)
}

func (s *store) Remove(ctx context.Context, c rollup.Counter, r rollup.RollUp) error {
	s.mu.Lock()
	s.wrote = append(s.wrote, call{time.Now(), c.RollUp})
	s.mu.Unlock()
	return s.Store.Remove(ctx, c, r)
}

func (s *store) SaveCursor(ctx context.Context, c rollup.Cursor) (time.Time, error) {
	s.mu.Lock()
	s.saved++
	s.mu.Unlock()
	return s.Store.SaveCursor(ctx, c)
}

func (s *store) RollUps(ctx context.Context, template *rollup.Template, from string, limit int) (rollup.Page, error) {
	if s.lister != nil {
		return rollup.Page{}, s.lister
	}
	return s.Store.RollUps(ctx, template, from, limit)
}

// hang is a call that is never answered.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// calls returns those of a counter.
func calls(all []call, counter string) (some []call) {
	for _, c := range all {
		if c.counter == counter {
			some = append(some, c)
		}
	}
	return some
}

// wantCount checks a roll-up of the default route.
func (s *store) wantCount(path string, want int64) {
	s.t.Helper()
	if got := s.Get(path)["count"]; got != want {
		s.t.Errorf("%s: %v, want %d", path, got, want)
	}
}

// event returns the request that delivers an event.
func event(t testing.TB, id, project, database, path string) *http.Request {
	t.Helper()
	doc := &firestoredata.Document{Name: "projects/" + project + "/databases/" + database + "/documents/" + path}
	e, err := eventrelay.NewEvent(id, time.Now(), nil, doc)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(e.Body))
	r.Header = e.Header
	return r
}

// deliver delivers an event, and returns how it was answered and after what time.
func (w *world) deliver(r *http.Request) (status int, after time.Duration) {
	began := time.Now()
	answer := httptest.NewRecorder()
	w.OnWrite(answer, r)
	return answer.Code, time.Since(began)
}

// tick calls the schedule, and returns its report, how it was answered and after what time.
func (w *world) tick(query string) (report scheduleReport, status int, after time.Duration) {
	w.t.Helper()
	began := time.Now()
	answer := httptest.NewRecorder()
	w.OnSchedule(answer, httptest.NewRequest(http.MethodPost, "/"+query, nil))
	if err := json.Unmarshal(answer.Body.Bytes(), &report); err != nil {
		w.t.Errorf("%v: %s", err, answer.Body)
	}
	return report, answer.Code, time.Since(began)
}

// Firestore never answers. The event fails when it was held for the hold limit, although its request
// has more time, and the log says so.
func TestHoldLimit(t *testing.T) {
	w := newWorld(t)
	w.run(func() {
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
		defer cancel()
		w.stores["(default)"].view = func(ctx context.Context, _ rollup.Counter, _ int) error { return hang(ctx) }
		status, after := w.deliver(event(w.t, "e1", project, "(default)", "counters/c/shards/0").WithContext(ctx))
		if status != http.StatusInternalServerError || after != 8*time.Second {
			w.t.Errorf("status %d after %v, want 500 after the hold limit of 8 s", status, after)
		}
	})
	if lines := w.log.lines("event not acknowledged", `"event_id":"e1"`, `"counter":"rollups/c"`); len(lines) != 1 {
		t.Errorf("got %d lines of the event, want 1:\n%s", len(lines), &w.log)
	}
}

// An event that changes no total costs no call once its database was looked at: of a route, the fields
// that it sums say so.
func TestEditsCostNothing(t *testing.T) {
	w := newWorld(t, "TALLY_DATABASES=(default),other", "TALLY_ROUTES=posts/{p}/comments/{c} -> posts/{p} : count() as comments : existing; posts/{p}/ratings/{u} -> posts/{p} : stars : existing")
	w.run(func() {
		text := func(text string) map[string]*firestoredata.Value {
			return map[string]*firestoredata.Value{"text": {ValueType: &firestoredata.Value_StringValue{StringValue: text}}}
		}
		stars := func(stars int64) map[string]*firestoredata.Value {
			return map[string]*firestoredata.Value{"stars": {ValueType: &firestoredata.Value_IntegerValue{IntegerValue: stars}}}
		}
		for i, step := range []struct {
			database, path string
			old, value     map[string]*firestoredata.Value // old nil: created
			looks          int
		}{
			{"(default)", "posts/7/comments/1", nil, text("a"), 1},
			{"(default)", "posts/7/comments/1", text("a"), text("b"), 0},
			{"(default)", "posts/7/ratings/ann", stars(1), stars(2), 1},
			{"(default)", "posts/7/ratings/ann", text("a"), text("b"), 0},
			{"other", "posts/7/comments/1", text("a"), text("b"), 1}, // nobody knows what time it is there
		} {
			s := w.stores[step.database]
			name := "projects/" + project + "/databases/" + step.database + "/documents/" + step.path
			doc := &firestoredata.Document{Name: name, Fields: step.value, UpdateTime: timestamppb.New(s.Now())}
			var old *firestoredata.Document
			if step.old != nil {
				old = &firestoredata.Document{Name: name, Fields: step.old}
			}
			e, err := eventrelay.NewEvent(fmt.Sprint("e", i), time.Now(), old, doc)
			if err != nil {
				w.t.Fatal(err)
			}
			r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(e.Body))
			r.Header = e.Header
			looks := len(s.looks)
			if status, _ := w.deliver(r); status != http.StatusOK || len(s.looks) != looks+step.looks {
				w.t.Errorf("event %d: status %d and %d looks, want 200 and %d", i, status, len(s.looks)-looks, step.looks)
			}
			time.Sleep(2 * time.Second)
		}
	})
}

// A database that does not open holds an event for no longer.
func TestHoldLimitOfOpening(t *testing.T) {
	w := newWorld(t)
	s, _ := w.setup()
	w.run(func() {
		opening, cancel := context.WithCancel(context.Background())
		s.open = func(context.Context, string) (rollup.AuditStore, error) { return nil, hang(opening) }
		if status, after := w.deliver(event(w.t, "e1", project, "(default)", "counters/c/shards/0")); status != 500 || after != 8*time.Second {
			w.t.Errorf("status %d after %v, want 500 after 8 s", status, after)
		}
		cancel()
	})
}

// One call that never answers leaves an event the time for another.
func TestEventOutlivesOneCall(t *testing.T) {
	first := func(ctx context.Context, n int) error {
		if n == 1 {
			return hang(ctx)
		}
		return nil
	}
	for name, fail := range map[string]func(*store){
		"look": func(s *store) {
			s.view = func(ctx context.Context, _ rollup.Counter, n int) error { return first(ctx, n) }
		},
		"write": func(s *store) { s.write = first },
	} {
		w := newWorld(t)
		s := w.stores["(default)"]
		fail(s)
		w.run(func() {
			s.Put("counters/c/shards/0", map[string]any{"count": int64(3)})
			status, after := w.deliver(event(w.t, "e1", project, "(default)", "counters/c/shards/0"))
			if status != http.StatusOK || after < 4*time.Second || after > 5*time.Second {
				w.t.Errorf("%s: status %d after %v, want 200 soon after half of the hold limit", name, status, after)
			}
			s.wantCount("rollups/c", 3)
		})
	}
}

// A database that takes long to open keeps neither its own callers longer than they can wait, nor
// those of another. A failed open is not remembered, and nothing is opened twice.
func TestSlowOpen(t *testing.T) {
	w := newWorld(t)
	s, _ := w.setup()
	opened, calls := make(chan error), 0
	s.open = func(ctx context.Context, id string) (rollup.AuditStore, error) {
		if id == "slow" {
			calls++
			if err := <-opened; err != nil {
				return nil, err
			}
		}
		return new(memstore.Store), ctx.Err() // the first caller's context has ended
	}
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.database(impatient, "slow"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
	if d, err := s.database(t.Context(), "quick"); d == nil || err != nil {
		t.Errorf("got %v, %v while another database is being opened", d, err)
	}
	go func() {
		opened <- errors.New("refused")
		opened <- nil
	}()
	_, _ = s.database(impatient, "late") // opens it, and may go away before that is done
	if d, err := s.database(t.Context(), "late"); d == nil || err != nil {
		t.Errorf("got %v, %v of a database whose first caller went away", d, err)
	}
	refused := 0
	var first *database
	for first == nil {
		d, err := s.database(t.Context(), "slow")
		if first = d; err != nil {
			refused++
		}
	}
	if again, err := s.database(t.Context(), "slow"); again != first || err != nil || calls != 2 || refused > 1 {
		t.Errorf("opened %d times, refused %d times: %v", calls, refused, err)
	}
}

// A function serves its own project and the databases that it is configured for. Whatever else comes
// is logged with its id, counted and acknowledged: a retry cannot help.
func TestUnserved(t *testing.T) {
	w := newWorld(t, "TALLY_DATABASES=(default),other")
	w.run(func() {
		for i, of := range []struct{ project, database string }{{"another", "(default)"}, {project, "third"}, {"another", "other"}} {
			id := fmt.Sprint("unserved-", i)
			if status, _ := w.deliver(event(w.t, id, of.project, of.database, "counters/c/shards/0")); status != http.StatusOK {
				w.t.Errorf("%+v: status %d, want 200", of, status)
			}
			lines := w.log.lines(`"severity":"ERROR"`, `"event_id":"`+id+`"`, fmt.Sprintf(`"dropped":%d`, i+1), of.project, of.database, "TALLY_DATABASES")
			if len(lines) != 1 {
				w.t.Errorf("%+v: got %d lines, want 1:\n%s", of, len(lines), &w.log)
			}
		}
		if n := w.opened.Load(); n != 0 {
			w.t.Errorf("%d databases were opened", n)
		}
		for database, s := range w.stores {
			s.Put("counters/c/shards/0", map[string]any{"count": int64(len(database))})
			if status, _ := w.deliver(event(w.t, "e", project, database, "counters/c/shards/0")); status != http.StatusOK {
				w.t.Errorf("%s: status %d", database, status)
			}
			s.wantCount("rollups/c", int64(len(database)))
		}
	})
}

// An endless reader counts what is read of it.
type endless struct{ read int64 }

func (e *endless) Read(p []byte) (int, error) {
	e.read += int64(len(p))
	return len(p), nil
}

// A body that is larger than any event's is not read to its end, and its event is dropped.
func TestLargeBody(t *testing.T) {
	w := newWorld(t)
	for _, length := range []int64{-1, 1 << 40} {
		id, body := fmt.Sprint("large", length), new(endless)
		r := event(t, id, project, "(default)", "counters/c/shards/0")
		r.Body, r.ContentLength = io.NopCloser(body), length
		if status, _ := w.deliver(r); status != http.StatusOK {
			t.Errorf("length %d: status %d, want 200", length, status)
		}
		if body.read > 5<<20 {
			t.Errorf("length %d: %d bytes were read, want hardly more than 4 MiB", length, body.read)
		}
		if lines := w.log.lines(`"severity":"ERROR"`, `"event_id":"`+id+`"`, "larger than 4194304 bytes"); len(lines) != 1 {
			t.Errorf("length %d: got %d lines, want 1:\n%s", length, len(lines), &w.log)
		}
	}
}

// What is kept of a held event is its id, times and path: not the body, of which very many would be
// held at once.
func TestHeldEventsKeepNoBodies(t *testing.T) {
	const events, size = 64, 256 << 10
	w := newWorld(t)
	looked := make(chan struct{}, events)
	answer := make(chan struct{})
	w.stores["(default)"].view = func(context.Context, rollup.Counter, int) error {
		looked <- struct{}{}
		<-answer
		return nil
	}
	functions := httptest.NewServer(http.HandlerFunc(w.OnWrite))
	defer functions.Close()
	client := functions.Client()
	padding := bytes.Repeat([]byte("x"), size) // all events share it
	send := func(i int) error {
		name := fmt.Sprintf("projects/%s/databases/(default)/documents/counters/c%d/shards/0", project, i)
		var value []byte
		value = protowire.AppendBytes(protowire.AppendTag(value, 1, protowire.BytesType), []byte(name))
		value = protowire.AppendVarint(protowire.AppendTag(value, 100, protowire.BytesType), size)
		var head []byte
		head = protowire.AppendVarint(protowire.AppendTag(head, 1, protowire.BytesType), uint64(len(value)+size))
		head = append(head, value...)
		r, err := http.NewRequest(http.MethodPost, functions.URL, io.MultiReader(bytes.NewReader(head), bytes.NewReader(padding)))
		if err != nil {
			return err
		}
		r.ContentLength = int64(len(head) + size)
		r.Header = event(t, fmt.Sprint("e", i), project, "(default)", "counters/c/shards/0").Header
		res, err := client.Do(r)
		if err != nil {
			return err
		}
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("status %s", res.Status)
		}
		return nil
	}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // what pools held
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	var all sync.WaitGroup
	for i := range events {
		all.Go(func() {
			if err := send(i); err != nil {
				t.Errorf("event %d: %v", i, err)
			}
		})
	}
	for range events {
		<-looked
	}
	grown := int64(heap()) - int64(before)
	close(answer)
	all.Wait()
	t.Logf("%d held events with bodies of %d KiB in all take %d KiB", events, events*size>>10, grown>>10)
	if grown > events*size/4 {
		t.Errorf("%d held events take %d KiB, and their bodies have %d KiB", events, grown>>10, events*size>>10)
	}
}

// A dry run changes nothing, whatever there is to do.
func TestDryRun(t *testing.T) {
	w := newWorld(t, "TALLY_ROUTES=counters/{c}/shards/{s} -> rollups/{c} : count; hot/{c}/shards/{s} -> hot_rollups/{c} : count : every 1s", "TALLY_SCHEDULE_PERIOD=10s")
	s := w.stores["(default)"]
	w.run(func() {
		old := document.Tally{AsOf: time.Now().Add(-2 * time.Hour), Routes: "other", Totals: []string{"count"}}
		s.Put("counters/c/shards/0", map[string]any{"count": int64(3)})
		s.Put("hot/h/shards/0", map[string]any{"count": int64(4)})
		s.Put("rollups/lone", map[string]any{"count": int64(7), document.TallyField: old.Encode()})
		report, status, _ := w.tick("?dry_run=true")
		if got := report.Databases["(default)"]; status != 200 || got.Differing != 3 || got.Counters != 3 || got.Every != nil || !report.DryRun {
			w.t.Errorf("status %d: %+v, want 3 that differ", status, got)
		}
		if len(s.wrote) != 0 || s.saved != 0 {
			w.t.Errorf("it wrote %v and %d cursors", s.wrote, s.saved)
		}
		report, status, _ = w.tick("")
		if got := report.Databases["(default)"]; status != 200 || got.RolledUp != 2 || got.Every == nil || got.Every.RolledUp != 1 || s.saved == 0 {
			w.t.Errorf("status %d: %+v, %+v; want 2 and 1 rolled up, and the cursor", status, got, got.Every)
		}
	})
}

// A database that fails, in whatever way, keeps the tick from no other.
func TestFirstDatabaseFails(t *testing.T) {
	broken := errors.New("broken")
	for name, fail := range map[string]func(*world, *service){
		"does not open": func(w *world, s *service) {
			open := s.open
			s.open = func(ctx context.Context, id string) (rollup.AuditStore, error) {
				if id == "(default)" {
					return nil, broken
				}
				return open(ctx, id)
			}
		},
		"does not list": func(w *world, _ *service) { w.stores["(default)"].lister = broken },
		"does not look": func(w *world, _ *service) {
			w.stores["(default)"].view = func(context.Context, rollup.Counter, int) error { return broken }
		},
	} {
		w := newWorld(t, "TALLY_DATABASES=(default),other",
			"TALLY_ROUTES=counters/{c}/shards/{s} -> rollups/{c} : count; hot/{c}/shards/{s} -> hot_rollups/{c} : count : every 1s", "TALLY_SCHEDULE_PERIOD=2s")
		s, _ := w.setup()
		fail(w, s)
		w.run(func() {
			for _, s := range w.stores {
				s.Put("counters/c/shards/0", map[string]any{"count": int64(3)})
				s.Put("hot/h/shards/0", map[string]any{"count": int64(4)})
			}
			report, status, _ := w.tick("")
			if status != http.StatusInternalServerError || len(report.Errors) == 0 || !strings.Contains(strings.Join(report.Errors, ""), "database (default)") {
				w.t.Errorf("%s: status %d, errors %q; want 500, and the database named", name, status, report.Errors)
			}
			w.stores["other"].wantCount("rollups/c", 3)
			w.stores["other"].wantCount("hot_rollups/h", 4)
			if got := report.Databases["other"]; got.RolledUp != 1 || got.Every == nil || got.Every.RolledUp != 1 || !got.Complete {
				w.t.Errorf("%s: %+v, want the other database audited and kept", name, got)
			}
			if got := report.Databases["(default)"]; got.Complete && name != "does not look" {
				w.t.Errorf("%s: called complete: %+v", name, got)
			}
		})
		if len(w.log.lines(`"severity":"ERROR"`, `"database":"(default)"`)) == 0 || len(w.log.lines(`"severity":"ERROR"`, `"database":"other"`)) != 0 {
			t.Errorf("%s: the log:\n%s", name, &w.log)
		}
	}
}

// slow has each look of a counter take that long.
func (s *store) slow(prefix string, d time.Duration) {
	s.view = func(ctx context.Context, c rollup.Counter, _ int) error {
		if !strings.HasPrefix(c.RollUp, prefix) {
			return nil
		}
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// A tick begins nothing more when three quarters of the function's timeout are over, so that its
// cursor is saved and its report sent before the function is ended. Its databases share the time.
func TestTickEndsInTime(t *testing.T) {
	w := newWorld(t, "CLOUD_RUN_TIMEOUT_SECONDS=40", "TALLY_DATABASES=(default),other")
	w.run(func() {
		const counters = 1200 // which take 38 s in each database
		for _, s := range w.stores {
			s.slow("", time.Second)
			for i := range counters {
				s.Put(fmt.Sprintf("counters/%04d/shards/0", i), map[string]any{"count": int64(1)})
			}
		}
		report, status, after := w.tick("")
		if status != 200 || after < 29*time.Second || after > 32*time.Second {
			w.t.Errorf("status %d after %v, want 200 after three quarters of 40 s", status, after)
		}
		for id, r := range report.Databases {
			if r.Complete || r.Counters < 10*AuditConcurrency || r.Counters > 16*AuditConcurrency || w.stores[id].saved == 0 {
				w.t.Errorf("%s: %+v, want half of the time's counters", id, r)
			}
		}
	})
}

// Routes that say "every" are kept until the next tick is due, beside the audit, which ends then too.
func TestEveryBesideTheAudit(t *testing.T) {
	w := newWorld(t, "CLOUD_RUN_TIMEOUT_SECONDS=540", "TALLY_SCHEDULE_PERIOD=40s",
		"TALLY_ROUTES=counters/{c}/shards/{s} -> rollups/{c} : count; hot/{c}/shards/{s} -> hot_rollups/{c} : count : every 1s; warm/{c}/shards/{s} -> warm_rollups/{c} : count : every 10s")
	s := w.stores["(default)"]
	w.run(func() {
		const counters = 2000 // whose audit takes more than a minute
		s.slow("rollups/", time.Second)
		for i := range counters {
			s.Put(fmt.Sprintf("counters/%04d/shards/0", i), map[string]any{"count": int64(1)})
		}
		s.Put("hot/h/shards/0", map[string]any{"count": int64(0)})
		s.Put("warm/w/shards/0", map[string]any{"count": int64(0)})
		began := time.Now()
		load, stop := context.WithCancel(w.t.Context())
		var clients sync.WaitGroup
		clients.Go(func() {
			for load.Err() == nil {
				s.Increment("hot/h/shards/0", "count", 1)
				s.Increment("warm/w/shards/0", "count", 1)
				time.Sleep(100 * time.Millisecond)
			}
		})
		report, status, after := w.tick("")
		stop()
		clients.Wait()
		if status != 200 || after < 38*time.Second || after > 42*time.Second {
			w.t.Errorf("status %d after %v, want 200 when the next tick is due", status, after)
		}
		got := report.Databases["(default)"]
		if n := len(calls(s.wrote, "hot_rollups/h")); n < 38 || n > 41 {
			w.t.Errorf("the counter of every 1s was rolled up %d times in 40 s", n)
		}
		if n := len(calls(s.wrote, "warm_rollups/w")); n < 4 || n > 5 {
			w.t.Errorf("the counter of every 10s was rolled up %d times in 40 s", n)
		}
		if got.Every == nil || got.Every.Counters != 2 || got.Every.RolledUp != len(calls(s.wrote, "hot_rollups/h"))+len(calls(s.wrote, "warm_rollups/w")) {
			w.t.Errorf("reported %+v", got.Every)
		}
		var last time.Duration
		for _, l := range s.looks {
			if strings.HasPrefix(l.counter, "rollups/") {
				last = max(last, l.at.Sub(began))
			}
		}
		if last < 36*time.Second || last > 41*time.Second || got.Complete || got.Counters < 30*AuditConcurrency {
			w.t.Errorf("the audit's last look began after %v, and it compared %d counters; want it at work for 40 s", last, got.Counters)
		}
	})
}

// A period that is longer than the function's timeout ends with that.
func TestEveryEndsWithTheFunction(t *testing.T) {
	w := newWorld(t, "CLOUD_RUN_TIMEOUT_SECONDS=40", "TALLY_ROUTES=hot/{c}/shards/{s} -> hot_rollups/{c} : count : every 1s")
	w.run(func() {
		w.stores["(default)"].Put("hot/h/shards/0", map[string]any{"count": int64(0)})
		if _, status, after := w.tick(""); status != 200 || after < 28*time.Second || after > 31*time.Second {
			w.t.Errorf("status %d after %v, want 200 after three quarters of 40 s", status, after)
		}
	})
}

// Roll-ups follow each other at once as often as the burst says, and then by the cadence.
func TestBurstAndCadence(t *testing.T) {
	w := newWorld(t, "TALLY_CADENCE=500ms", "TALLY_BURST=3")
	s := w.stores["(default)"]
	w.run(func() {
		began := time.Now()
		var got []time.Duration
		for i := range 5 {
			s.Increment("counters/c/shards/0", "count", 1)
			if status, _ := w.deliver(event(w.t, fmt.Sprint("e", i), project, "(default)", "counters/c/shards/0")); status != 200 {
				w.t.Errorf("status %d", status)
			}
		}
		for _, c := range s.wrote {
			got = append(got, c.at.Sub(began).Round(10*time.Millisecond))
		}
		if d := cmp.Diff([]time.Duration{0, 0, 0, 500 * time.Millisecond, time.Second}, got); d != "" {
			w.t.Errorf("roll-ups (-want +got):\n%s", d)
		}
	})
}

// A flushed answer notes whether the process could have ended before it was sent.
type flushed struct {
	http.ResponseWriter
	s             *service
	sent, tooLate bool
}

func (f *flushed) Flush() {
	f.sent = true
	if f.s.ending.TryLock() {
		f.tooLate = true
		f.s.ending.Unlock()
	}
}

// An event's answer is sent before SIGTERM may end the process: the server sends it only after the
// function has returned.
func TestAnswerIsSentBeforeTheEnd(t *testing.T) {
	w := newWorld(t)
	s, _ := w.setup()
	w.run(func() {
		for _, database := range []string{"(default)", "unserved"} {
			answer := &flushed{ResponseWriter: httptest.NewRecorder(), s: s}
			w.OnWrite(answer, event(w.t, "e", project, database, "counters/c/shards/0"))
			if !answer.sent || answer.tooLate {
				w.t.Errorf("%s: sent %v, too late %v", database, answer.sent, answer.tooLate)
			}
		}
	})
}

// A difference is left to the event that may be on its way: one cadence, two holds and 15 s.
func TestTickLeavesAGrace(t *testing.T) {
	w := newWorld(t, "CLOUD_RUN_TIMEOUT_SECONDS=540")
	s := w.stores["(default)"]
	w.run(func() {
		s.Put("counters/c/shards/0", map[string]any{"count": int64(3)})
		w.tick("")
		s.Increment("counters/c/shards/0", "count", 1) // no event comes
		report, _, after := w.tick("")
		if got := report.Databases["(default)"]; got.Drift != 1 || got.RolledUp != 1 || after.Round(time.Second) != 32*time.Second {
			w.t.Errorf("%+v after %v, want one drift after 32 s", got, after)
		}
		s.wantCount("rollups/c", 4)
	})
}

// No event waits for a tick's calls, so they may take up to 45 s, but not more than a quarter of the
// function's timeout, which is what is left when the tick begins nothing more.
func TestTicksLooksMayTakeLong(t *testing.T) {
	for _, test := range []struct {
		timeout string
		limit   time.Duration
	}{{"540", 45 * time.Second}, {"80", 20 * time.Second}, {"0", 45 * time.Second}} {
		w := newWorld(t, "CLOUD_RUN_TIMEOUT_SECONDS="+test.timeout, "TALLY_SCHEDULE_PERIOD=1s",
			"TALLY_ROUTES=counters/{c}/shards/{s} -> rollups/{c} : count; hot/{c}/shards/{s} -> hot_rollups/{c} : count : every 1s")
		s := w.stores["(default)"]
		w.run(func() {
			s.Put("counters/c/shards/0", map[string]any{"count": int64(3)})
			s.Put("hot/h/shards/0", map[string]any{"count": int64(4)})
			s.slow("", test.limit-time.Millisecond)
			if report, status, _ := w.tick(""); status != 200 {
				w.t.Errorf("timeout %s: status %d, %q; want a look of almost %v to be in time", test.timeout, status, report.Errors, test.limit)
			}
			s.wantCount("rollups/c", 3)
			s.wantCount("hot_rollups/h", 4)
			// The first look of each counter hangs. The second says how long that was waited for.
			s.looks = nil
			s.Increment("counters/c/shards/0", "count", 1)
			s.view = func(ctx context.Context, _ rollup.Counter, n int) error {
				if n <= 2 {
					return hang(ctx)
				}
				return nil
			}
			_, _, _ = w.tick("")
			for _, counter := range []string{"rollups/c", "hot_rollups/h"} {
				looks := calls(s.looks, counter)
				if len(looks) < 2 || looks[1].at.Sub(looks[0].at).Round(time.Second) != test.limit {
					w.t.Errorf("timeout %s: looks at %s: %v, want the second %v after the first", test.timeout, counter, looks, test.limit)
				}
			}
		})
	}
}

// The report's keys are those of docs/config.md.
func TestReportIsDocumented(t *testing.T) {
	w := newWorld(t, "TALLY_ROUTES=hot/{c}/shards/{s} -> hot_rollups/{c} : count : every 1s", "TALLY_SCHEDULE_PERIOD=1ms")
	var answer httptest.ResponseRecorder
	w.run(func() {
		answer = *httptest.NewRecorder()
		w.OnSchedule(&answer, httptest.NewRequest(http.MethodPost, "/", nil))
	})
	var report struct {
		Databases map[string]map[string]any `json:"databases"`
	}
	if err := json.Unmarshal(answer.Body.Bytes(), &report); err != nil {
		t.Fatal(err)
	}
	got := slices.Sorted(maps.Keys(report.Databases["(default)"]))
	if d := cmp.Diff(documentedKeys(t), got); d != "" {
		t.Errorf("docs/config.md (-documented +reported):\n%s", d)
	}
}
