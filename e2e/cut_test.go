//go:build unix

package e2e

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/emulator/emulatortest"
)

// A wire passes on TCP connections to the emulator, until it goes dead under those that are open: what
// is sent over them gets lost, and nobody is told, as when a network forgets a connection.
type wire struct {
	addr string

	mu   sync.Mutex
	dead chan struct{} // closed when the connections that are open now go dead
	all  int           // connections so far
}

func newWire(t *testing.T, emulator string) *wire {
	t.Helper()
	l, err := net.Listen("tcp", loopback+":0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{addr: l.Addr().String(), dead: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return // the test has ended
			}
			far, err := net.Dial("tcp", emulator)
			if err != nil {
				near.Close()
				continue
			}
			w.mu.Lock()
			w.all++
			dead := w.dead
			w.mu.Unlock()
			for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
				serving.Go(func() { pipe(way[0], way[1], dead) })
			}
			context.AfterFunc(ctx, func() { near.Close(); far.Close() })
		}
	})
	t.Cleanup(func() { l.Close(); cancel(); serving.Wait() })
	return w
}

// pipe passes on what comes, or loses it once the connection is dead. It closes nothing then.
func pipe(from, to net.Conn, dead <-chan struct{}) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		select {
		case <-dead:
			if err != nil {
				return
			}
			continue
		default:
		}
		if n > 0 {
			_, _ = to.Write(buffer[:n]) // the next read tells
		}
		if err != nil {
			if err == io.EOF {
				_ = to.Close()
			}
			return
		}
	}
}

// die has the connections that are open go dead. Those that come later are passed on.
func (w *wire) die() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.dead)
	w.dead = make(chan struct{})
}

func (w *wire) connections() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all
}

// The connection goes dead between two events. The second outlives the call that gets lost, over
// another connection, and its roll-up is exact.
func TestConnectionGoesDead(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	project := emulatortest.Project(t)
	wire := newWire(t, emulatortest.Addr())
	p := &process{env: []string{"FIRESTORE_EMULATOR_HOST=" + wire.addr, "GOOGLE_CLOUD_PROJECT=" + project}}
	p.start(ctx, t)
	t.Cleanup(func() { p.kill() })
	client := emulatortest.ClientDatabase(t, project, "(default)")
	before := 0
	for n, id := range []string{"first", "second"} {
		result, err := client.Doc("counters/likes/shards/0").Set(ctx, map[string]any{"count": 7 + n})
		if err != nil {
			t.Fatal(err)
		}
		a := <-deliver(ctx, t, p, id, project, "likes")
		if a.err != nil || a.status != http.StatusOK {
			t.Errorf("the %s event was answered %+v, want 200 within the hold limit of 8 s\n%s", id, a, p.logs.tail())
		}
		if n == 1 && a.after < 4*time.Second {
			t.Errorf("the second event was answered %+v, before a call could get lost", a)
		}
		wantRolledUp(ctx, t, p, project, result.UpdateTime, int64(7+n))
		if n == 0 {
			before = wire.connections()
			wire.die()
		}
	}
	if n := wire.connections() - before; n != 1 {
		t.Errorf("%d connections were opened after one went dead, want 1", n)
	}
}
