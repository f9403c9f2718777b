package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/test/memstore"
	"github.com/firestore-tally/tally/internal/tool/local/eventrelay"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// What the app makes of the engine: its time limits, its databases, its ticks. The stores are in
// memory, and the time is synctest's.

// Firestore never answers. The event fails when it was held for the hold limit, although its
// request has more time, and the log says so.
func TestHoldLimit(t *testing.T) {
	w := newWorld(t)
	w.run(func() {
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
		defer cancel()
		w.stores["(default)"].view = func(ctx context.Context, _ route.Counter, _ int) error { return hang(ctx) }
		status, after := w.deliver(event(w.t, "e1", project, "(default)", "counters/c/shards/0").WithContext(ctx))
		if status != http.StatusInternalServerError || after != 8*time.Second {
			w.t.Errorf("status %d after %v, want 500 after the hold limit of 8 s", status, after)
		}
	})
	if lines := w.log.lines("event not acknowledged", `"event_id":"e1"`, `"counter":"rollups/c"`); len(lines) != 1 {
		t.Errorf("got %d lines of the event, want 1:\n%s", len(lines), &w.log)
	}
}

// An event that changes no total costs no call once its database was looked at: of a route, the
// fields that it sums say so.
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
			large          bool                            // the event comes without its documents
			looks          int
		}{
			{"(default)", "posts/7/comments/1", nil, text("a"), false, 1},
			{"(default)", "posts/7/comments/1", text("a"), text("b"), false, 0},
			{"(default)", "posts/7/comments/ann ", text("a"), text("b"), false, 0}, // pushed
			{"(default)", "posts/7/ratings/ann", stars(1), stars(2), false, 1},
			{"(default)", "posts/7/ratings/ann", text("a"), text("b"), false, 0},
			{"(default)", "posts/7/comments/1", text("a"), text("b"), true, 1}, // unknown what changed
			{"(default)", "posts/7/ratings/ann ", text("a"), text("b"), true, 1},
			{"other", "posts/7/comments/1", text("a"), text("b"), false, 1}, // the time there is unknown
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
			if step.large {
				e.Body = nil
			}
			looks := len(s.looks)
			if status, _ := w.deliver(request(w.t, e)); status != http.StatusOK || len(s.looks) != looks+step.looks {
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
		s.open = func(context.Context, string) (documentStore, error) { return nil, hang(opening) }
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
			s.view = func(ctx context.Context, _ route.Counter, n int) error { return first(ctx, n) }
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
	s.open = func(ctx context.Context, id string) (documentStore, error) {
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

// A function serves its own project and the databases that it is configured for. Any other event is
// logged with its id and acknowledged: a retry cannot help.
func TestUnserved(t *testing.T) {
	w := newWorld(t, "TALLY_DATABASES=(default),other")
	w.run(func() {
		for i, of := range []struct{ project, database string }{{"another", "(default)"}, {project, "third"}, {"another", "other"}} {
			id := fmt.Sprint("unserved-", i)
			if status, _ := w.deliver(event(w.t, id, of.project, of.database, "counters/c/shards/0")); status != http.StatusOK {
				w.t.Errorf("%+v: status %d, want 200", of, status)
			}
			lines := w.log.lines(`"severity":"ERROR"`, `"event_id":"`+id+`"`, `"unlogged":0`, of.project, of.database, "TALLY_DATABASES")
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

// The trigger of a route that was taken away may be busy. Its events are logged once in ten
// minutes, with the number of those that were not. A line about one such trigger keeps no other
// fault out of the log.
func TestDroppedEventsAreLoggedOnceInAWhile(t *testing.T) {
	w := newWorld(t)
	w.run(func() {
		drop := func(r *http.Request) {
			if status, _ := w.deliver(r); status != http.StatusOK {
				w.t.Errorf("status %d, want 200", status)
			}
		}
		for second := range 25 * 60 {
			path := fmt.Sprintf("pages/%d/shards/%d", second%3, second)
			drop(event(w.t, fmt.Sprint("busy-", second), project, "(default)", path))
			time.Sleep(time.Second)
		}
		drop(event(w.t, "likes", project, "(default)", "posts/p/likes/ann"))
		drop(event(w.t, "unserved", project, "third", "pages/0/shards/0"))
		malformed := event(w.t, "malformed", project, "(default)", "pages/0/shards/0")
		malformed.Header.Set("Ce-Type", "another")
		drop(malformed)
		time.Sleep(10 * time.Minute)
		drop(event(w.t, "again", project, "(default)", "pages/0/shards/0"))
	})

	var got []string
	for _, line := range w.log.lines("event dropped; a retry cannot help", `"severity":"ERROR"`) {
		var l struct {
			Event    string `json:"event_id"`
			Unlogged int
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(l.Event, " after ", l.Unlogged))
	}
	want := []string{"busy-0 after 0", "busy-600 after 599", "busy-1200 after 599", "likes after 299", "unserved after 0", "malformed after 0", "again after 0"}
	if !slices.Equal(got, want) {
		t.Errorf("logged %q, want %q", got, want)
	}
}

// While Firestore refuses, Eventarc delivers each event again and again. The log has a line for
// each counter of each database in ten minutes, and one for each kind of document whose counter
// could not be found out. An event of two counters has no line if each of them had one.
func TestFailedEventsAreLoggedOnceInAWhile(t *testing.T) {
	w := newWorld(t, ordersByShop+"\ncounters/{counter}/shards/{shard} -> rollups/{counter} : count", "TALLY_DATABASES=(default),second")
	w.run(func() {
		refused := errors.New("refused")
		for _, s := range w.stores {
			s.view = func(context.Context, route.Counter, int) error { return refused }
			s.read = func(context.Context) error { return refused }
		}
		for began, n := time.Now(), 0; time.Since(began) < 25*time.Minute; n++ {
			large := w.changed(fmt.Sprint("large-", n), fmt.Sprint("orders/", n), nil, fields{"shop": "a"})
			large.Body = nil
			moved := w.changed(fmt.Sprint("moved-", n), "orders/moved", fields{"shop": string('a' + rune(n%5))}, fields{"shop": string('a' + rune(n%4))})
			for _, r := range []*http.Request{
				event(w.t, fmt.Sprint("c-", n), project, "(default)", "counters/c/shards/0"),
				event(w.t, fmt.Sprint("d-", n), project, "(default)", "counters/d/shards/0"),
				event(w.t, fmt.Sprint("second-", n), project, "second", "counters/c/shards/0"),
				request(w.t, large),
				request(w.t, moved),
			} {
				if status, _ := w.deliver(r); status != http.StatusInternalServerError {
					w.t.Errorf("status %d, want 500", status)
				}
			}
			time.Sleep(time.Second)
		}
	})

	for _, of := range []struct {
		database, counters string
		want               int
	}{
		{"(default)", `"rollups/c"`, 3},
		{"(default)", `"rollups/d"`, 3},
		{"second", `"rollups/c"`, 3},
		{"(default)", `""`, 3},
		{"(default)", `"shops/`, 15}, // five shops, in twenty pairs
	} {
		lines := w.log.lines(`"severity":"WARNING"`, "event not acknowledged", `"counter":`+of.counters, `"database":"`+of.database+`"`)
		if len(lines) != of.want {
			t.Errorf("%d lines about %s of %s, want %d:\n%s", len(lines), of.counters, of.database, of.want, &w.log)
		}
	}
}

// An endless reader counts what is read of it.
type endless struct{ read int64 }

func (e *endless) Read(p []byte) (int, error) {
	e.read += int64(len(p))
	return len(p), nil
}

// What no header can carry comes as Pub/Sub's message, and an event that would be too large without
// its documents. Both are rolled up like any other.
func TestOddEvents(t *testing.T) {
	w := newWorld(t)
	w.run(func() {
		s := w.stores["(default)"]
		for i, id := range []string{"0", "ann ", "a\nb", "\x00", `" "`, "größe "} {
			for _, large := range []bool{false, true} {
				counter := fmt.Sprint(id, large)
				path := "counters/" + counter + "/shards/" + id
				s.Put(path, map[string]any{"count": int64(i)})
				e, err := eventrelay.NewEvent(path, time.Now(), nil, &firestoredata.Document{Name: "projects/" + project + "/databases/(default)/documents/" + path})
				if err != nil {
					w.t.Fatal(err)
				}
				if large {
					e.Body = nil
				}
				if status, after := w.deliver(request(w.t, e)); status != http.StatusOK || after > time.Second {
					w.t.Errorf("%q, large %v: status %d after %v, want 200 at once", id, large, status, after)
				}
				s.wantCount("rollups/"+counter, int64(i))
			}
		}
	})
	if strings.Contains(w.log.String(), `"severity":"WARNING"`) || strings.Contains(w.log.String(), `"severity":"ERROR"`) {
		t.Errorf("the log has\n%s", &w.log)
	}
}

// A roll-up that comes later than one that failed once, and was delivered again, is warned of: an
// alert reads that line.
func TestLateRollUp(t *testing.T) {
	w := newWorld(t)
	s, _ := w.setup()
	w.run(func() {
		for id, lag := range map[string]time.Duration{"in-time": s.config.Grace() - time.Second, "late": s.config.Grace() + time.Second} {
			doc := &firestoredata.Document{Name: "projects/" + project + "/databases/(default)/documents/counters/" + id + "/shards/0"}
			e, err := eventrelay.NewEvent(id, w.stores["(default)"].Now().Add(-lag), nil, doc)
			if err != nil {
				w.t.Fatal(err)
			}
			if status, _ := w.deliver(request(w.t, e)); status != http.StatusOK {
				w.t.Errorf("%s: status %d", id, status)
			}
		}
	})
	lines := w.log.lines(`"severity":"WARNING"`, "rolled up late")
	if len(lines) != 1 || !strings.Contains(lines[0], `"event_id":"late","counter":"rollups/late"`) {
		t.Errorf("got %s, want one line, of the late event", lines)
	}
}

// An instance logs the lag of one covered event in ten seconds, with its number as a number: a
// metric of the logs reads it.
func TestSampledLag(t *testing.T) {
	w := newWorld(t)
	w.run(func() {
		for i := range 21 { // one a second: those of the seconds 0, 10 and 20 are due
			e := w.changed(fmt.Sprint("e", i), fmt.Sprintf("counters/%d/shards/0", i), nil, fields{"count": 1})
			if status, _ := w.deliver(request(w.t, e)); status != http.StatusOK {
				w.t.Errorf("event %d: status %d", i, status)
			}
			time.Sleep(time.Second)
		}
	})

	var sampled []string
	for _, line := range w.log.lines("lag sampled") {
		var l struct {
			Severity   string
			EventID    string  `json:"event_id"`
			Counter    string  `json:"counter"`
			LagSeconds float64 `json:"lag_seconds"`
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil || l.Severity != "INFO" || l.LagSeconds < 0 || l.LagSeconds > 60 {
			t.Errorf("%v: %s", err, line)
		}
		sampled = append(sampled, l.EventID+" "+l.Counter)
	}
	if d := cmp.Diff([]string{"e0 rollups/0", "e10 rollups/10", "e20 rollups/20"}, sampled); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// The lag is that of events that roll-ups cover. One that concerns two counters of which one is
// unkept has none, although the other was rolled up.
func TestLagOfUnkept(t *testing.T) {
	w := newWorld(t, "TALLY_ROUTES=counters/{c}/shards/{s} -> rollups/{c} : count; counters/{c}/shards/{s} -> full/{c} : count")
	s := w.stores["(default)"]
	s.write = func(_ context.Context, n int) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.wrote[n-1].counter == "full/c" {
			return rollup.ErrUnkept
		}
		return nil
	}
	w.run(func() {
		s.Put("counters/c/shards/0", map[string]any{"count": int64(1)})
		if status, _ := w.deliver(event(w.t, "e1", project, "(default)", "counters/c/shards/0")); status != http.StatusOK {
			w.t.Errorf("status %d, want 200", status)
		}
		s.wantCount("rollups/c", 1)
	})
	if lines := w.log.lines("counter unkept", "full/c"); len(lines) != 1 {
		t.Errorf("the log:\n%s", &w.log)
	}
	if lines := w.log.lines("lag sampled"); len(lines) > 0 {
		t.Errorf("logged %s", lines)
	}
}

// An event that does not say when its change was committed has no lag, and is not late.
func TestEventWithoutATime(t *testing.T) {
	w := newWorld(t)
	for i, at := range []string{"", "noon", w.stores["(default)"].Now().UTC().Format(time.RFC3339Nano)} {
		r := event(t, fmt.Sprint("e", i), project, "(default)", fmt.Sprintf("counters/%d/shards/0", i))
		r.Header.Set("Ce-Time", at)
		if status, _ := w.deliver(r); status != http.StatusOK {
			t.Errorf("time %q: status %d", at, status)
		}
		if got, want := len(w.log.lines("lag sampled")), i/2; got != want {
			t.Errorf("time %q: %d lags, want %d", at, got, want)
		}
	}
	if lines := w.log.lines("rolled up late"); len(lines) > 0 {
		t.Errorf("logged %s", lines)
	}
}

// A body that is larger than any event's is not read to its end, and its event is dropped.
func TestLargeBody(t *testing.T) {
	for _, length := range []int64{-1, 1 << 40} {
		w := newWorld(t) // which has logged nothing yet
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

// length returns the head of a field of a protocol buffer that holds a beginning and more bytes,
// and that beginning.
func length(number protowire.Number, beginning []byte, more int) []byte {
	head := protowire.AppendVarint(protowire.AppendTag(nil, number, protowire.BytesType), uint64(len(beginning)+more))
	return append(head, beginning...)
}

// What is kept of a held event is its id, times and path: not the body nor the documents in it, of
// which very many would be held at once.
func TestHeldEventsKeepNoBodies(t *testing.T) {
	const events, size = 64, 256 << 10
	w := newWorld(t, "TALLY_HOLD_LIMIT=5m") // on a busy machine it takes a while until all are held
	looked := make(chan struct{}, events)
	answer := make(chan struct{})
	w.stores["(default)"].view = func(context.Context, route.Counter, int) error {
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
		text := length(17, nil, size) // a string
		field := append(protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "text"), length(2, text, size)...)
		document := append(protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), name), length(2, field, size)...)
		head := length(1, document, size) // the event's value
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

// What panics is not answered, so that the framework answers 500, and the event comes again.
func TestPanicIsNotAnswered(t *testing.T) {
	w := newWorld(t)
	r := event(t, "e", project, "(default)", "counters/c/shards/0")
	r.Body = io.NopCloser(panics{})
	answer := httptest.NewRecorder()
	func() {
		defer func() {
			if recover() == nil {
				t.Error("it did not panic")
			}
		}()
		w.OnWrite(answer, r)
	}()
	if answer.Flushed {
		t.Errorf("it was answered with %d", answer.Code)
	}
}

// panics cannot be read.
type panics struct{}

func (panics) Read([]byte) (int, error) { panic("no body") }

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
// function has returned. The answer has a length, so that all of it is sent.
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
			if length := answer.Header().Get("Content-Length"); length != "0" {
				w.t.Errorf("%s: the answer's length is %q, want 0", database, length)
			}
		}
	})
}
