package dashboard

import (
	"context"
	"errors"
	"net"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/value"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A refusal has Firestore refuse listeners, those that are open too once they are to receive
// something.
type refusal struct {
	code codes.Code // OK: PermissionDenied, also of listeners that begin

	mu      sync.Mutex
	on      bool
	refused int
}

func (r *refusal) set(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.on = on
}

func (r *refusal) err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.on {
		return nil
	}
	r.refused++
	if r.code != codes.OK {
		return status.Error(r.code, "no answer")
	}
	return status.Error(codes.PermissionDenied, "Missing or insufficient permissions.")
}

// times returns how often it has refused.
func (r *refusal) times() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused
}

func (r *refusal) open(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if err := r.err(); err != nil && r.code == codes.OK {
		return nil, err
	}
	s, err := open(ctx, desc, conn, method, opts...)
	return &refusedStream{s, r}, err
}

type refusedStream struct {
	grpc.ClientStream
	refusal *refusal
}

func (s *refusedStream) RecvMsg(msg any) error {
	if err := s.ClientStream.RecvMsg(msg); err != nil {
		return err
	}
	return s.refusal.err()
}

// What Firestore refuses is shown with its remedy, said once, and tried again; and what went away
// meanwhile is gone.
func TestRefused(t *testing.T) { everyWay(t, testRefused) }

func testRefused(t *testing.T, w *world) {
	var refusal refusal
	w.rollUp("rollups/a", time.Now(), 1, map[string]any{"count": 1})
	w.run(grpc.WithChainStreamInterceptor(refusal.open))
	w.await("", func(s *state) bool { return s.Ready && len(s.Rows) == 1 })

	refusal.set(true)
	w.rollUp("rollups/b", time.Now(), 1, map[string]any{"count": 2})
	const mine = "roll-ups in rollups of database (default)"
	times := 2
	if !w.listens {
		times = 6 // polls of the other two queries are refused too
	}
	ofMine := func(said []string) []string {
		return slices.DeleteFunc(said, func(s string) bool { return !strings.Contains(s, mine) })
	}
	s := w.await("", func(s *state) bool { return len(ofMine(s.Problems)) > 0 && refusal.times() >= times })
	if got := ofMine(s.Problems)[0]; !strings.Contains(got, "insufficient permissions") || !strings.HasSuffix(got, "\nremedy") {
		t.Errorf("got problem %q", got)
	}
	if d := cmp.Diff(map[string]string{"rollups/a": "1"}, s.totals()); d != "" {
		t.Errorf("totals while it is refused (-want +got):\n%s", d)
	}
	w.delete("rollups/a")
	refusal.set(false)
	s = w.await("", func(s *state) bool { return len(s.Problems) == 0 && s.totals()["rollups/b"] == "2" })
	if d := cmp.Diff(map[string]string{"rollups/b": "2"}, s.totals()); d != "" {
		t.Errorf("totals afterward (-want +got):\n%s", d)
	}
	if got := ofMine(w.reports()); len(got) != 1 {
		t.Errorf("said %q, want it once", got)
	}
}

// If no answer comes the page says so, though the SDK tries again by itself and streams can be
// opened.
func TestNoAnswer(t *testing.T) { everyWay(t, testNoAnswer) }

func testNoAnswer(t *testing.T, w *world) {
	refusal := refusal{code: codes.Unavailable}
	w.rollUp("rollups/a", time.Now(), 1, map[string]any{"count": 1})
	w.run(grpc.WithChainStreamInterceptor(refusal.open))
	w.await("", func(s *state) bool { return s.Ready && len(s.Rows) == 1 })
	refusal.set(true)
	w.rollUp("rollups/a", time.Now(), 1, map[string]any{"count": 2})
	s := w.await("", func(s *state) bool { return len(s.Problems) > 0 })
	if got := s.Problems[0]; len(s.Problems) != 1 || !strings.HasPrefix(got, "no answer from Firestore, trying again: ") || !strings.HasSuffix(got, "\nremedy") {
		t.Errorf("got %q", s.Problems)
	}
	refusal.set(false)
	w.await("", func(s *state) bool { return len(s.Problems) == 0 && s.Rows[0].Total == value.Int(2) })
	if got := w.reports(); len(got) != 1 {
		t.Errorf("said %q, want it once", got)
	}
}

// Shards that Firestore refuses to tell are asked for again.
func TestRefusedShards(t *testing.T) { everyWay(t, testRefusedShards) }

func testRefusedShards(t *testing.T, w *world) {
	var refusal refusal
	w.rollUp("rollups/a", time.Now(), 1, map[string]any{"count": 1})
	w.run(grpc.WithChainStreamInterceptor(refusal.open))
	id := w.await("", has(1)).Rows[0].ID
	refusal.set(true)
	w.await(id, func(s *state) bool { return s.Open.Problem != "" })
	w.set("counters/a/shards/0", map[string]any{"count": 1})
	refusal.set(false)
	w.await(id, func(s *state) bool { return s.Open.Problem == "" && s.Open.Sum != nil && *s.Open.Sum == value.Int(1) })
}

// An emulator is asked, and not listened to: its listeners keep clients' writes waiting. Only a
// real project bills what is asked again.
func TestPolls(t *testing.T) {
	everyWay(t, func(t *testing.T, w *world) {
		var mu sync.Mutex
		streams := make(map[string]int)
		w.rollUp("rollups/a", time.Now(), 1, map[string]any{"count": 1})
		w.run(grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			mu.Lock()
			defer mu.Unlock()
			streams[path.Base(method)]++
			return open(ctx, desc, conn, method, opts...)
		}))
		s := w.await("", func(s *state) bool { return s.Ready && len(s.Rows) == 1 })
		id, reads := s.Rows[0].ID, s.watched()+1 // for shards that are not there
		w.await(id, func(s *state) bool { return s.Open.Parts != nil })
		if !w.listens {
			polls := func() int {
				mu.Lock()
				defer mu.Unlock()
				return streams["RunQuery"]
			}
			before := polls()
			w.await(id, func(*state) bool { return polls() > before+3 })
		}
		if s := w.await(id, has(1)); s.watched() != reads {
			t.Errorf("%d reads are counted though nothing has changed, want %d", s.watched(), reads)
		}
		mu.Lock()
		defer mu.Unlock()
		if w.listens != (streams["Listen"] > 0) || w.listens == (streams["RunQuery"] > 0) {
			t.Errorf("listens: %v, but it called %v", w.listens, streams)
		}
	})
}

// Errors that pass interrupt a poll as little as a listener.
func TestPollGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var failures atomic.Int32
	failures.Store(2)
	w.rollUp("rollups/a", time.Now(), 1, map[string]any{"count": 1})
	w.run(grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		if failures.Add(-1) >= 0 {
			return nil, status.Error(codes.Unknown, "")
		}
		return open(ctx, desc, conn, method, opts...)
	}))
	w.await("", func(s *state) bool { return s.Ready && len(s.Rows) == 1 })
	if got := w.reports(); len(got) > 0 {
		t.Errorf("said %q", got)
	}
}

func TestRunEnds(t *testing.T) {
	w := newWorld(t)
	w.rollUp("rollups/a", time.Now(), 1, map[string]any{"count": 1})
	w.run()
	w.await(w.await("", has(1)).Rows[0].ID, has(1))
	running := func() []string {
		stacks := make([]byte, 4<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		return slices.DeleteFunc(strings.Split(string(stacks), "\n\n"), func(stack string) bool {
			return !strings.Contains(stack, "dashboard.(*Board)")
		})
	}
	if n := len(running()); n < 6 { // three queries and the shards, the clock, the server
		t.Errorf("%d goroutines before it ended", n)
	}
	w.stop()
	for _, stack := range running() {
		t.Errorf("left behind:\n%s", stack)
	}
}

func TestRunWithoutListener(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := New().Run(t.Context(), l, Options{}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v, want that the listener is closed", err)
	}
}
