package firestorestore_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

// A proxy stands before the emulator. Stalled, it forwards nothing and closes nothing, like a
// network that went away.
type proxy struct {
	addr string

	mu  sync.Mutex
	end chan struct{} // of the stall; nil: there is none
}

func newProxy(t *testing.T) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{addr: listener.Addr().String()}
	var conns sync.WaitGroup
	t.Cleanup(func() {
		p.recover()
		listener.Close()
		conns.Wait()
	})
	conns.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", emulatortest.Addr(t))
			if err != nil {
				client.Close()
				continue
			}
			conns.Go(func() { p.forward(server, client) })
			conns.Go(func() { p.forward(client, server) })
		}
	})
	return p
}

// forward copies until either side ends.
func (p *proxy) forward(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	_, _ = io.Copy(gate{to, p}, from)
}

type gate struct {
	io.Writer
	p *proxy
}

func (g gate) Write(b []byte) (int, error) {
	g.p.mu.Lock()
	end := g.p.end
	g.p.mu.Unlock()
	if end != nil {
		<-end
	}
	return g.Writer.Write(b)
}

func (p *proxy) stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end = make(chan struct{})
}

func (p *proxy) recover() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.end != nil {
		close(p.end)
		p.end = nil
	}
}

// openProxied opens the store of a new project through a proxy, and has it connect.
func openProxied(t *testing.T) (*firestorestore.Store, *proxy) {
	t.Helper()
	p := newProxy(t)
	store, err := firestorestore.Open(t.Context(), p.addr, emulatortest.Project(t), "(default)", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	sum(t, view(t, store, counter(t, route.Default)))
	return store, p
}

// On a connection that goes dead in the middle, a call ends with its context, and waits for no
// clean-up.
func TestDeadConnection(t *testing.T) {
	c := counter(t, route.Default)
	for name, call := range map[string]func(context.Context, *firestorestore.Store, rollup.Snapshot) error{
		"look": func(ctx context.Context, store *firestorestore.Store, _ rollup.Snapshot) error {
			_, err := store.View(ctx, c)
			return err
		},
		"sum": func(ctx context.Context, _ *firestorestore.Store, snapshot rollup.Snapshot) error {
			_, err := snapshot.Sum(ctx)
			return err
		},
		"write": func(ctx context.Context, store *firestorestore.Store, _ rollup.Snapshot) error {
			return store.Write(ctx, c, rollup.RollUp{})
		},
		"removal": func(ctx context.Context, store *firestorestore.Store, _ rollup.Snapshot) error {
			return store.Remove(ctx, c, rollup.RollUp{})
		},
		"page of counters": func(ctx context.Context, store *firestorestore.Store, _ rollup.Snapshot) error {
			_, err := store.Counters(ctx, c.Template.Routes[0], "", 10)
			return err
		},
		"page of all": func(ctx context.Context, store *firestorestore.Store, _ rollup.Snapshot) error {
			_, err := store.Missing(ctx, c.Template.Routes[0], time.Time{}, "", 10)
			return err
		},
		"sum of sources": func(ctx context.Context, store *firestorestore.Store, _ rollup.Snapshot) error {
			_, err := store.Sources(ctx, c).Sum(ctx)
			return err
		},
		"page of roll-ups": func(ctx context.Context, store *firestorestore.Store, _ rollup.Snapshot) error {
			_, err := store.RollUps(ctx, c.Template, "", 10)
			return err
		},
		"load": func(ctx context.Context, store *firestorestore.Store, _ rollup.Snapshot) error {
			_, err := store.LoadCursor(ctx, rollup.Auditing)
			return err
		},
		"save": func(ctx context.Context, store *firestorestore.Store, _ rollup.Snapshot) error {
			_, err := store.SaveCursor(ctx, rollup.Auditing, rollup.Cursor{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ends := func() bool {
				store, p := openProxied(t) // a connection of its own
				snapshot := view(t, store, c)
				p.stall()
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				ended := make(chan error, 1)
				go func() { ended <- call(ctx, store, snapshot) }()
				select {
				case err := <-ended:
					if err == nil {
						t.Error("it was answered")
					}
					return true
				case <-time.After(6 * time.Second): // a clean-up of the SDK's takes 5 s after the time-out
					return false
				}
			}
			inTime := false
			for range 3 { // a busy machine may be late, but not each time
				inTime = inTime || ends()
			}
			if !inTime {
				t.Error("it does not end with its time-out of 2 s")
			}
		})
	}
}

// An event outlives a call on a dead connection: it costs one time-out. That is so long that a busy
// machine can look and write within it.
func TestEventOutlivesDeadConnection(t *testing.T) {
	t.Parallel()
	store, p := openProxied(t)
	c := counter(t, route.Default)
	log := new(recovering)
	log.failed = p.recover
	coalescer := rollup.NewCoalescer(store, rollup.Options{Cadence: time.Second, Timeout: 5 * time.Second, Hold: time.Minute, Logger: slog.New(slog.NewTextHandler(log, nil))})
	p.stall()
	e, err := coalescer.HandleEvent(t.Context(), rollup.Event{ID: "e"}, route.Concern{Counter: c})
	if err != nil || !e.Held || e.AsOf.IsZero() {
		t.Errorf("the event ended %+v, %v", e, err)
	}
	if n := strings.Count(log.String(), "roll-up failed"); n != 1 {
		t.Errorf("%d attempts failed, want one:\n%s", n, log)
	}
}

// recovering is a log that calls failed with its first line.
type recovering struct {
	bytes.Buffer
	failed func()
}

func (r *recovering) Write(b []byte) (int, error) {
	r.failed()
	return r.Buffer.Write(b)
}
