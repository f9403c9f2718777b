package eventrelay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
	"go.uber.org/goleak"
)

// A delivery is what a target saw.
type delivery struct {
	ID     string
	Target string
	At     time.Duration // since the network was made
}

// A network is an http.RoundTripper that needs no sockets, so that time can be
// virtual. It records every delivery and answers with what answer returns for the
// nth of them, counted from 1: a status, or 0 for a connection that fails.
type network struct {
	answer func(nth int, req *http.Request) int
	start  time.Time

	mu         sync.Mutex
	deliveries []delivery
}

func newNetwork(answer func(nth int, req *http.Request) int) *network {
	return &network{answer: answer, start: time.Now()}
}

func (n *network) RoundTrip(req *http.Request) (*http.Response, error) {
	n.mu.Lock()
	n.deliveries = append(n.deliveries, delivery{req.Header.Get("Ce-Id"), req.URL.Host, time.Since(n.start)})
	nth := len(n.deliveries)
	n.mu.Unlock()
	status := n.answer(nth, req)
	if status == 0 {
		return nil, errors.New("connection refused")
	}
	return &http.Response{
		StatusCode: status,
		Status:     fmt.Sprint(status, " ", http.StatusText(status)),
		Body:       http.NoBody,
		Request:    req,
	}, nil
}

// seen returns the deliveries so far, by event id.
func (n *network) seen() map[string][]delivery {
	n.mu.Lock()
	defer n.mu.Unlock()
	seen := make(map[string][]delivery)
	for _, d := range n.deliveries {
		seen[d.ID] = append(seen[d.ID], d)
	}
	return seen
}

func always(status int) func(int, *http.Request) int {
	return func(int, *http.Request) int { return status }
}

// hang never answers.
func hang(_ int, req *http.Request) int {
	<-req.Context().Done()
	return 0
}

// newRelay returns a Relay on the network, with the targets http://a and http://b
// unless o says otherwise. It is closed when the test ends.
func newRelay(t *testing.T, n *network, o Options) *Relay {
	t.Helper()
	o.Logger = slog.New(slog.DiscardHandler)
	if o.Targets == nil {
		o.Targets = []string{"http://a", "http://b"}
	}
	r := New(o)
	r.client.Transport = n
	t.Cleanup(r.Close)
	return r
}

func newEvent(t testing.TB, id string) Event {
	t.Helper()
	e, err := NewEvent(id, time.Now(), nil, &firestoredata.Document{Name: shard3})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// ids returns the ids of n events.
func ids(n int) []string {
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprintf("event-%02d", i))
	}
	return ids
}

func deliver(t testing.TB, r *Relay, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if err := r.Deliver(newEvent(t, id)); err != nil {
			t.Fatal(err)
		}
	}
}

func wait(t testing.TB, r *Relay) {
	t.Helper()
	if err := r.Wait(t.Context()); err != nil {
		t.Fatalf("Wait: %v", err)
	}
}

func TestRoundRobin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(always(200))
		r := newRelay(t, n, Options{Targets: []string{"http://a", "http://b", "http://c"}})
		deliver(t, r, ids(12)...)
		wait(t, r)
		got := make(map[string]int)
		for _, d := range n.deliveries {
			got[d.Target]++
		}
		if diff := cmp.Diff(map[string]int{"a": 4, "b": 4, "c": 4}, got); diff != "" {
			t.Errorf("deliveries by target (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(Stats{Events: 12, Deliveries: 12, Acknowledged: 12}, r.Stats()); diff != "" {
			t.Errorf("Stats (-want +got):\n%s", diff)
		}
	})
}

func TestRetryUntilAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := []int{500, 0, 429, 302, 404, 503, 500, 500, 204}
		n := newNetwork(func(nth int, _ *http.Request) int { return answers[nth-1] })
		r := newRelay(t, n, Options{})
		deliver(t, r, "e")
		wait(t, r)

		if got, want := len(n.deliveries), len(answers); got != want {
			t.Fatalf("%d deliveries, want %d", got, want)
		}
		backoff := 100 * time.Millisecond
		for i := 1; i < len(n.deliveries); i++ {
			last, this := n.deliveries[i-1], n.deliveries[i]
			if this.Target == last.Target {
				t.Errorf("delivery %d went to %s again", i+1, this.Target)
			}
			if pause := this.At - last.At; pause < backoff/2 || pause > backoff {
				t.Errorf("delivery %d came %v after the last, want %v to %v", i+1, pause, backoff/2, backoff)
			}
			backoff = min(2*backoff, 5*time.Second)
		}
		want := Stats{Events: 1, Deliveries: 9, Redelivered: 8, Acknowledged: 1}
		if diff := cmp.Diff(want, r.Stats()); diff != "" {
			t.Errorf("Stats (-want +got):\n%s", diff)
		}
	})
}

func TestRetryOnAnotherTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(func(_ int, req *http.Request) int {
			if req.URL.Host == "down" {
				return 0
			}
			return 200
		})
		r := newRelay(t, n, Options{Targets: []string{"http://down", "http://up"}})
		deliver(t, r, ids(20)...)
		wait(t, r)
		for id, deliveries := range n.seen() {
			if len(deliveries) > 2 || deliveries[len(deliveries)-1].Target != "up" {
				t.Errorf("%s: %v, want at most one failure before the other target", id, deliveries)
			}
		}
		if got := r.Stats(); got.Acknowledged != 20 || got.Redelivered != 10 {
			t.Errorf("%+v, want 20 acknowledged, 10 of them redelivered", got)
		}
	})
}

func TestSetTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(always(200))
		r := newRelay(t, n, Options{Targets: []string{}})
		deliver(t, r, "early")
		time.Sleep(time.Minute)
		if got := r.Stats(); got.Acknowledged != 0 || len(n.deliveries) != 0 {
			t.Fatalf("delivered without a target: %+v", got)
		}

		targets := []string{"http://a"}
		r.SetTargets(targets)
		targets[0] = "http://changed-later"
		wait(t, r)
		r.SetTargets([]string{"http://b"})
		deliver(t, r, "late")
		wait(t, r)

		var got []delivery
		for _, d := range n.deliveries {
			got = append(got, delivery{ID: d.ID, Target: d.Target})
		}
		want := []delivery{{ID: "early", Target: "a"}, {ID: "late", Target: "b"}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(func(nth int, req *http.Request) int {
			if req.URL.Host == "a" {
				return hang(nth, req)
			}
			return 200
		})
		r := newRelay(t, n, Options{Timeout: 3 * time.Second})
		deliver(t, r, "e")
		wait(t, r)
		if len(n.deliveries) != 2 {
			t.Fatalf("%v, want two deliveries", n.deliveries)
		}
		got := n.deliveries[1].At
		if want := 3 * time.Second; got < want || got > want+100*time.Millisecond {
			t.Errorf("redelivered after %v, want %v and one backoff", got, want)
		}
	})
}

func TestInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		n := newNetwork(func(int, *http.Request) int { <-release; return 200 })
		r := newRelay(t, n, Options{Timeout: time.Hour})
		r.slots = make(chan struct{}, 3)
		deliver(t, r, ids(10)...)
		synctest.Wait()
		if got, want := r.Stats(), (Stats{Events: 10, Deliveries: 3}); got != want || len(r.slots) != 3 {
			t.Errorf("%+v and %d under way, want %+v and 3", got, len(r.slots), want)
		}
		close(release)
		wait(t, r)
		if got, want := r.Stats(), (Stats{Events: 10, Deliveries: 10, Acknowledged: 10}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}

func TestDuplicates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(always(200))
		r := newRelay(t, n, Options{Faults: Faults{Duplicates: 1}})
		deliver(t, r, ids(50)...)
		wait(t, r)
		together, later := 0, 0
		for id, deliveries := range n.seen() {
			if len(deliveries) != 2 {
				t.Fatalf("%s: %v, want two deliveries", id, deliveries)
			}
			// All were acknowledged at once, so a later copy came after that.
			if deliveries[1].At == 0 {
				together++
			} else {
				later++
			}
		}
		if together == 0 || later == 0 {
			t.Errorf("%d second copies came with the first and %d later, want some of each", together, later)
		}
		want := Stats{Events: 50, Duplicated: 50, Deliveries: 100, Acknowledged: 50}
		if diff := cmp.Diff(want, r.Stats()); diff != "" {
			t.Errorf("Stats (-want +got):\n%s", diff)
		}
	})
}

// Once one copy is acknowledged, the other is not delivered again.
func TestOneAcknowledgementEndsTheMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const acknowledged = 2
		n := newNetwork(func(nth int, _ *http.Request) int {
			if nth == acknowledged {
				return 200
			}
			return 500
		})
		r := newRelay(t, n, Options{Faults: Faults{Duplicates: 1}})
		deliver(t, r, "e")
		wait(t, r)
		// Both copies have been delivered by then, or the second is still to come: once.
		want := Stats{Events: 1, Duplicated: 1, Acknowledged: 1}
		want.Deliveries = len(n.deliveries)
		want.Redelivered = want.Deliveries - 2
		if diff := cmp.Diff(want, r.Stats()); diff != "" {
			t.Errorf("Stats (-want +got):\n%s", diff)
		}
		if want.Deliveries > acknowledged+1 {
			t.Errorf("%d deliveries, want at most one after the acknowledgement", want.Deliveries)
		}
	})
}

func TestLostAcks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faults := Faults{Seed: 7, LostAcks: 0.5}
		n := newNetwork(always(200))
		r := newRelay(t, n, Options{Faults: faults})
		all := ids(50)
		deliver(t, r, all...)
		wait(t, r)
		seen, lost := n.seen(), 0
		for _, id := range all {
			draws := faults.draws(id, 0)
			faults.lag(draws, 0, 0)
			want := 1
			for _, again, _ := faults.delivery(draws, 0); again; _, again, _ = faults.delivery(draws, 0) {
				want++
			}
			if got := len(seen[id]); got != want {
				t.Errorf("%s: %d deliveries, want %d", id, got, want)
			}
			lost += want - 1
		}
		want := Stats{Events: 50, Deliveries: 50 + lost, Redelivered: lost, LostAcks: lost, Acknowledged: 50}
		if diff := cmp.Diff(want, r.Stats()); diff != "" {
			t.Errorf("Stats (-want +got):\n%s", diff)
		}
	})
}

func TestDelayReorders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(always(200))
		r := newRelay(t, n, Options{Faults: Faults{Delay: time.Second}})
		all := ids(50)
		deliver(t, r, all...)
		wait(t, r)
		var got []string
		for _, d := range n.deliveries {
			got = append(got, d.ID)
			if d.At > time.Second {
				t.Errorf("%s came after %v, want at most 1s", d.ID, d.At)
			}
		}
		if slices.Equal(got, all) {
			t.Error("all came in order")
		}
		if diff := cmp.Diff(all, slices.Sorted(slices.Values(got))); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// One seed does the same to the same events, in whatever order they come.
func TestSameSeedSameFaults(t *testing.T) {
	run := func(t *testing.T, seed uint64, ids []string) (seen map[string][]delivery) {
		synctest.Test(t, func(t *testing.T) {
			n := newNetwork(always(200))
			r := newRelay(t, n, Options{
				Faults: Faults{Seed: seed, Duplicates: 0.3, LostAcks: 0.3, Delay: time.Second},
			})
			deliver(t, r, ids...)
			wait(t, r)
			seen = n.seen()
		})
		return seen
	}
	forth := ids(100)
	back := slices.Clone(forth)
	slices.Reverse(back)
	first, second, other := run(t, 1, forth), run(t, 1, back), run(t, 2, forth)
	anyTarget := cmpopts.IgnoreFields(delivery{}, "Target")
	if diff := cmp.Diff(first, second, anyTarget); diff != "" {
		t.Errorf("the same seed (-in order +reversed):\n%s", diff)
	}
	if cmp.Equal(first, other, anyTarget) {
		t.Error("two seeds did the same")
	}
	if !slices.Equal(slices.Sorted(maps.Keys(first)), forth) {
		t.Errorf("events %v", slices.Sorted(maps.Keys(first)))
	}
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		n := newNetwork(func(int, *http.Request) int { <-release; return 200 })
		r := newRelay(t, n, Options{})
		wait(t, r) // idle from the start

		deliver(t, r, "e")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait while an event is under way: %v, want the context's error", err)
		}
		close(release)
		wait(t, r)
		if got := r.Stats().Acknowledged; got != 1 {
			t.Errorf("%d acknowledged after Wait, want 1", got)
		}
		r.Close()
		wait(t, r) // nothing was dropped
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(hang)
		// One event under way, one that waits its turn, one that waits for time to pass.
		r := newRelay(t, n, Options{Timeout: time.Hour})
		r.slots = make(chan struct{}, 1)
		deliver(t, r, "under way", "waiting")
		delayed := newRelay(t, n, Options{Faults: Faults{Delay: time.Hour}})
		deliver(t, delayed, "delayed")
		synctest.Wait()
		start := time.Now()
		for _, r := range []*Relay{r, delayed} {
			r.Close()
			if got := len(r.slots); got != 0 {
				t.Errorf("%d deliveries under way after Close", got)
			}
			r.Close() // does nothing more
			if err := r.Wait(t.Context()); !errors.Is(err, ErrClosed) {
				t.Errorf("Wait after events were dropped: %v, want ErrClosed", err)
			}
			if err := r.Deliver(newEvent(t, "late")); !errors.Is(err, ErrClosed) {
				t.Errorf("Deliver after Close: %v, want ErrClosed", err)
			}
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("Close took %v", took)
		}
		// Goroutines left behind would make synctest.Test fail.
	})
}

// What goes wrong is logged once, with the event's id; Close is nothing wrong.
func TestLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		n := newNetwork(func(nth int, req *http.Request) int {
			if nth == 2 {
				return hang(nth, req)
			}
			return 503
		})
		r := New(Options{
			Targets: []string{"http://a/f"},
			Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{
				ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
					if a.Key == slog.TimeKey {
						return slog.Attr{}
					}
					return a
				},
			})),
		})
		r.client.Transport = n
		deliver(t, r, "e")
		time.Sleep(time.Second) // the second delivery hangs
		req := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("{}"))
		req.Header.Set("Ce-Id", "garbage")
		r.ServeHTTP(httptest.NewRecorder(), req)
		r.Close()

		var got []string
		for line := range strings.Lines(log.String()) {
			line, _, _ = strings.Cut(line, " error=")
			got = append(got, line)
		}
		want := []string{
			`level=WARN msg="event not delivered" event_id=e document=counters/likes/shards/3 target=http://a/f delivery=1`,
			`level=WARN msg="event refused" event_id=garbage document=""`,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}
	})
}

func TestDeliverRefuses(t *testing.T) {
	r := newRelay(t, newNetwork(always(200)), Options{})
	for _, key := range []string{"Ce-Id", "Ce-Source", "Ce-Specversion", "Ce-Type"} {
		e := newEvent(t, "e")
		e.Header.Del(key)
		if err := r.Deliver(e); err == nil || !strings.Contains(err.Error(), strings.ToLower(key)) {
			t.Errorf("without %s: %v", key, err)
		}
	}
	e := newEvent(t, "e")
	e.Header.Set("Ce-Document", "two\r\nlines")
	if err := r.Deliver(e); err == nil {
		t.Error("a header with a line break was accepted")
	}
	if got := r.Stats(); got != (Stats{}) {
		t.Errorf("%+v, want nothing counted", got)
	}
}

func TestServeHTTPRefuses(t *testing.T) {
	req, body := captured(t, "update.http")
	without := func(key string) http.Header {
		h := req.Header.Clone()
		h.Del(key)
		return h
	}
	tests := []struct {
		name, method string
		header       http.Header
		body         []byte
		want         int
	}{
		{"GET", http.MethodGet, req.Header, nil, http.StatusMethodNotAllowed},
		{"no body", http.MethodPost, req.Header, nil, http.StatusBadRequest},
		{"no protobuf", http.MethodPost, req.Header, []byte("{}"), http.StatusBadRequest},
		{"base64 of no protobuf", http.MethodPost, req.Header, []byte("////"), http.StatusBadRequest},
		{"half a body", http.MethodPost, req.Header, body[:len(body)/2/4*4], http.StatusBadRequest},
		{"no document", http.MethodPost, req.Header, []byte("GgA="), http.StatusBadRequest},
		{"no id", http.MethodPost, without("Ce-Id"), body, http.StatusBadRequest},
		{"no CloudEvent", http.MethodPost, http.Header{}, body, http.StatusBadRequest},
		{"too large", http.MethodPost, req.Header, make([]byte, maxBody+1), http.StatusRequestEntityTooLarge},
	}
	r := newRelay(t, newNetwork(always(200)), Options{})
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			req := httptest.NewRequest(test.method, "/functions/projects/demo-tally/triggers/t", bytes.NewReader(test.body))
			req.Header = test.header
			w := httptest.NewRecorder()
			r.ServeHTTP(w, req)
			if w.Code != test.want {
				t.Errorf("%d %s, want %d", w.Code, w.Body, test.want)
			}
		})
	}
	if got := r.Stats(); got != (Stats{}) {
		t.Errorf("%+v, want nothing accepted", got)
	}

	r.Close()
	w := httptest.NewRecorder()
	closed := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
	closed.Header = req.Header
	r.ServeHTTP(w, closed)
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("%d after Close, want 503", w.Code)
	}
}

// Over real connections: what the emulator posted comes out repaired, while the
// emulator has long had its answer; and Close leaves nothing behind, here or at the
// target.
func TestServeHTTP(t *testing.T) {
	req, body := captured(t, "update.http")
	want, err := repair(req.Header, body)
	if err != nil {
		t.Fatal(err)
	}

	answer := make(chan struct{})
	received := make(chan Event, 1)
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		received <- Event{Header: req.Header, Body: body}
		<-answer
	}))
	defer target.Close()
	others := goleak.IgnoreCurrent()
	r := New(Options{Targets: []string{target.URL}, Logger: slog.New(slog.DiscardHandler)})
	defer r.Close()

	w := httptest.NewRecorder()
	posted := httptest.NewRequest(http.MethodPost, "/functions/projects/demo-tally/triggers/t", bytes.NewReader(body))
	posted.Header = req.Header
	r.ServeHTTP(w, posted)
	if w.Code != http.StatusAccepted {
		t.Errorf("answered %d, want 202", w.Code)
	}

	got := <-received
	for _, key := range []string{"Accept-Encoding", "Content-Length", "User-Agent"} { // Go's client's own
		got.Header.Del(key)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	close(answer)
	wait(t, r)
	r.Close()
	goleak.VerifyNone(t, others)
}

// Close cuts off a delivery that a target does not answer.
func TestCloseCutsOff(t *testing.T) {
	arrived := make(chan struct{})
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body) // or the server does not notice that the client has gone
		close(arrived)
		<-req.Context().Done()
	}))
	defer target.Close()
	others := goleak.IgnoreCurrent()
	r := New(Options{Targets: []string{target.URL}, Logger: slog.New(slog.DiscardHandler)})
	deliver(t, r, "e")
	<-arrived
	r.Close()
	goleak.VerifyNone(t, others)
}
