package eventrelay

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
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
	if o.Targets == nil {
		o.Targets = []string{"http://a", "http://b"}
	}
	o.Transport = n
	r := New(o)
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
		// One event under way, and one that waits for time to pass.
		r := newRelay(t, n, Options{Timeout: time.Hour})
		deliver(t, r, "under way")
		delayed := newRelay(t, n, Options{Faults: Faults{Delay: time.Hour}})
		deliver(t, delayed, "delayed")
		synctest.Wait()
		start := time.Now()
		for _, r := range []*Relay{r, delayed} {
			r.Close()
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
