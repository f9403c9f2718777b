//go:build linux

package e2e

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/tool/local/freeport"
	"golang.org/x/sys/unix"
)

// A wire passes on TCP connections to the emulator, until it goes dead under the open ones: what is
// sent over them is dropped by the system and never acknowledged, as when a network forgets a
// connection.
type wire struct {
	addr string

	mu   sync.Mutex
	open []*net.TCPConn // as accepted
	all  int            // connections so far
}

func newWire(t *testing.T, emulator string) *wire {
	t.Helper()
	l, err := net.Listen("tcp", freeport.HostPort(0))
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{addr: l.Addr().String()}
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
			w.open = append(w.open, near.(*net.TCPConn))
			w.mu.Unlock()
			for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
				serving.Go(func() {
					_, _ = io.Copy(way[1], way[0]) // until either ends
					_ = way[1].Close()
				})
			}
			context.AfterFunc(ctx, func() { near.Close(); far.Close() })
		}
	})
	t.Cleanup(func() { l.Close(); cancel(); serving.Wait() })
	return w
}

// die has the connections that are open go dead. Those that come later are passed on.
func (w *wire) die(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	nothing := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K} // of each packet as many bytes: 0
	for _, conn := range w.open {
		raw, err := conn.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		var dropped error
		err = raw.Control(func(fd uintptr) {
			dropped = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &nothing})
		})
		if err := errors.Join(err, dropped); err != nil {
			t.Fatal(err)
		}
	}
	w.open = nil
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
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	project := emulatortest.Project(t)
	wire := newWire(t, emulatortest.Addr(t))
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
		if n == 1 && a.after < 2*time.Second {
			t.Errorf("the second event was answered %+v, before a call could get lost", a)
		}
		wantRolledUp(ctx, t, p, project, result.UpdateTime, int64(7+n))
		if n == 0 {
			before = wire.connections()
			wire.die(t)
		}
	}
	if n := wire.connections() - before; n != 1 {
		t.Errorf("%d connections were opened after one went dead, want 1", n)
	}
}
