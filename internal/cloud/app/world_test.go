package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/test/memstore"
	"github.com/firestore-tally/tally/internal/tool/local/eventrelay"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
)

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
	s.open = func(_ context.Context, id string) (documentStore, error) {
		w.opened.Add(1)
		opened, ok := w.stores[id]
		if !ok {
			return nil, fmt.Errorf("there is no database %s", id)
		}
		return opened, nil
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
	t         *testing.T
	view      func(ctx context.Context, c route.Counter, n int) error // called before the n-th look, from 1 on
	write     func(ctx context.Context, n int) error                  // called before the n-th write, from 1 on
	failNotes error                                                   // of saving notes
	lister    error                                                   // of lists of roll-ups
	read      func(ctx context.Context) error                         // called before a document's fields are read

	mu    sync.Mutex
	reads int // of documents' fields
	looks []call
	wrote []call
	saved int      // cursors
	notes []string // IDs of those that were saved
}

// A call is one that the store got.
type call struct {
	at      time.Time
	counter string
}

func (s *store) View(ctx context.Context, c route.Counter) (rollup.Snapshot, error) {
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

func (s *store) Write(ctx context.Context, c route.Counter, r rollup.RollUp) error {
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

func (s *store) Remove(ctx context.Context, c route.Counter, r rollup.RollUp) error {
	s.mu.Lock()
	s.wrote = append(s.wrote, call{time.Now(), c.RollUp})
	s.mu.Unlock()
	return s.Store.Remove(ctx, c, r)
}

func (s *store) SaveCursor(ctx context.Context, of rollup.Work, c rollup.Cursor) (time.Time, error) {
	s.mu.Lock()
	s.saved++
	s.mu.Unlock()
	return s.Store.SaveCursor(ctx, of, c)
}

func (s *store) SaveNote(ctx context.Context, n rollup.Note) error {
	s.mu.Lock()
	s.notes = append(s.notes, n.ID)
	s.mu.Unlock()
	if s.failNotes != nil {
		return s.failNotes
	}
	return s.Store.SaveNote(ctx, n)
}

func (s *store) RollUps(ctx context.Context, template *route.Template, from string, limit int) (rollup.Page, error) {
	if s.lister != nil {
		return rollup.Page{}, s.lister
	}
	return s.Store.RollUps(ctx, template, from, limit)
}

func (s *store) Missing(ctx context.Context, r *route.Route, since time.Time, from string, limit int) (rollup.Page, error) {
	if s.lister != nil {
		return rollup.Page{}, s.lister
	}
	return s.Store.Missing(ctx, r, since, from, limit)
}

func (s *store) Fields(ctx context.Context, path string, fields []document.Field) (map[string]any, time.Time, error) {
	s.mu.Lock()
	s.reads++
	s.mu.Unlock()
	if s.read != nil {
		if err := s.read(ctx); err != nil {
			return nil, time.Time{}, err
		}
	}
	return s.Store.Fields(ctx, path, fields)
}

// hang is a call that is never answered.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// calls returns the calls of a counter.
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
	return request(t, e)
}

// request returns the request that delivers an event.
func request(t testing.TB, e eventrelay.Event) *http.Request {
	t.Helper()
	r, err := e.Request(t.Context(), "http://functions/")
	if err != nil {
		t.Fatal(err)
	}
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
