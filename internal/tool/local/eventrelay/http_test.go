package eventrelay

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
	"go.uber.org/goleak"
)

func TestServeHTTPRefuses(t *testing.T) {
	req, body := captured(t, "update.http")
	document := shard(shard3, 1, time.Now(), time.Now())
	document.Fields["text"] = &firestoredata.Value{ValueType: &firestoredata.Value_StringValue{StringValue: strings.Repeat("x", maxPosted)}}
	endless, err := NewEvent("id", time.Now(), nil, document)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, method string
		header       http.Header
		body         []byte
		want         int
	}{
		{"GET", http.MethodGet, req.Header, nil, http.StatusBadRequest},
		{"what a page sends", http.MethodPost, http.Header{"Content-Type": {"text/plain"}}, body, http.StatusForbidden},
		{"no end", http.MethodPost, req.Header, endless.Body, http.StatusBadRequest},
		{"no body", http.MethodPost, req.Header, nil, http.StatusBadRequest},
		{"no protobuf", http.MethodPost, req.Header, []byte("{}"), http.StatusBadRequest},
		{"base64 of no protobuf", http.MethodPost, req.Header, []byte("////"), http.StatusBadRequest},
		{"half a body", http.MethodPost, req.Header, body[:len(body)/2/4*4], http.StatusBadRequest},
		{"no document", http.MethodPost, req.Header, []byte("GgA="), http.StatusBadRequest},
	}
	r := newRelay(t, newNetwork(always(200)), Options{})
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			req := httptest.NewRequest(test.method, "http://127.0.0.1/functions/projects/demo-tally/triggers/t", bytes.NewReader(test.body))
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

	rebound := httptest.NewRequest(http.MethodPost, "http://evil.example/", bytes.NewReader(body))
	rebound.Header = req.Header
	w := httptest.NewRecorder()
	r.ServeHTTP(w, rebound)
	if w.Code != http.StatusForbidden {
		t.Errorf("%d to another host, want 403", w.Code)
	}

	r.Close()
	w = httptest.NewRecorder()
	closed := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/", bytes.NewReader(body))
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
	r := New(Options{Targets: []string{target.URL}})
	defer r.Close()

	w := httptest.NewRecorder()
	posted := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/functions/projects/demo-tally/triggers/t", bytes.NewReader(body))
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
	r := New(Options{Targets: []string{target.URL}})
	deliver(t, r, "e")
	<-arrived
	r.Close()
	goleak.VerifyNone(t, others)
}

// A target gets so many deliveries at once, and the others when it has answered.
func TestInFlight(t *testing.T) {
	const most, all = 3, 10
	arrived, answer := make(chan struct{}, all), make(chan struct{})
	var now, highest atomic.Int64
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		defer now.Add(-1)
		if n := now.Add(1); n > most {
			highest.Store(n)
		}
		arrived <- struct{}{}
		<-answer
	}))
	defer target.Close()
	r := New(Options{Targets: []string{target.URL}, Timeout: time.Hour})
	defer r.Close()
	r.client.Transport.(*http.Transport).MaxConnsPerHost = most
	deliver(t, r, ids(all)...)
	for range most {
		<-arrived
	}
	close(answer)
	wait(t, r)
	if got, want := r.Stats(), (Stats{Events: all, Deliveries: all, Acknowledged: all}); got != want || highest.Load() > 0 {
		t.Errorf("%+v and up to %d under way, want %+v and up to %d", got, highest.Load(), want, most)
	}
}
