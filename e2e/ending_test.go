//go:build unix

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/tool/local/eventrelay"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
)

// An answer is how an event was answered.
type answer struct {
	status int
	err    error
	after  time.Duration
}

// deliver posts an event of a counter to a process, and returns how that is answered.
func deliver(ctx context.Context, t *testing.T, p *process, id, project, counter string) <-chan answer {
	t.Helper()
	doc := &firestoredata.Document{Name: fmt.Sprintf("projects/%s/databases/(default)/documents/counters/%s/shards/0", project, counter)}
	e, err := eventrelay.NewEvent(id, time.Now(), nil, doc)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url(), bytes.NewReader(e.Body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = e.Header
	answered := make(chan answer, 1)
	go func() {
		began := time.Now()
		res, err := http.DefaultClient.Do(r)
		a := answer{err: err, after: time.Since(began)}
		if err == nil {
			a.status = res.StatusCode
			// The status is the answer. A process that ends then may cut what follows.
			_, _ = io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}
		answered <- a
	}()
	return answered
}

// A proxied process is one behind a proxy, in a project of its own.
func newProxied(ctx context.Context, t *testing.T, variables ...string) (p *process, project string) {
	t.Helper()
	project = emulatortest.Project(t)
	p = &process{proxy: newProxy(t, emulatortest.Addr(t))}
	p.env = append([]string{"FIRESTORE_EMULATOR_HOST=" + p.proxy.addr, "GOOGLE_CLOUD_PROJECT=" + project}, variables...)
	p.start(ctx, t)
	t.Cleanup(func() { p.kill() })
	return p, project
}

// wantTerminated waits until the process has ended by SIGTERM.
func wantTerminated(ctx context.Context, t *testing.T, p *process) {
	t.Helper()
	select {
	case <-p.ended:
	case <-ctx.Done():
		t.Fatalf("it goes on after SIGTERM:\n%s", p.logs.tail())
	}
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGTERM {
		t.Errorf("it ended with %v, want the signal's own", p.cmd.ProcessState)
	}
}

// A process that is ended by SIGTERM answers the events that it holds when their roll-up is
// written, before it ends.
func TestHeldEventsOutliveSIGTERM(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	for range form(8, 100) { // an answer must not be lost to the process's end, by whatever chance
		p, project := newProxied(ctx, t, "TALLY_HOLD_LIMIT=50s")
		client := emulatortest.ClientDatabase(t, project, "(default)")
		if _, err := client.Doc("counters/likes/shards/0").Set(ctx, map[string]any{"count": 7}); err != nil {
			t.Fatal(err)
		}
		h := p.proxy.hold(commit, false)
		answered := deliver(ctx, t, p, "held", project, "likes")
		select {
		case <-h.arrived:
		case <-ctx.Done():
			t.Fatalf("no roll-up was sent:\n%s", p.logs.tail())
		}
		signal(t, p.cmd.Process.Pid, syscall.SIGTERM)
		close(h.release)
		if a := <-answered; a.err != nil || a.status != http.StatusOK {
			t.Errorf("the held event was answered %+v, want 200\n%s", a, p.logs.tail())
		}
		wantTerminated(ctx, t, p)
		doc, err := client.Doc("rollups/likes").Get(ctx)
		if err != nil || doc.Data()["count"] != int64(7) {
			t.Errorf("the roll-up is %v, %v; want 7", doc.Data(), err)
		}
	}
}

// An event whose roll-up does not come keeps a process that is ended until its hold limit is over,
// and no longer. It fails, and is delivered again.
func TestHeldEventFailsAfterSIGTERM(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	p, project := newProxied(ctx, t, "TALLY_HOLD_LIMIT=5500ms", "TALLY_CADENCE=100ms")
	first, second := p.proxy.hold(get, false), (*held)(nil)
	answered := deliver(ctx, t, p, "held", project, "likes")
	<-first.arrived
	second = p.proxy.hold(get, false) // the look that follows
	signal(t, p.cmd.Process.Pid, syscall.SIGTERM)
	a := <-answered
	if a.err != nil || a.status != http.StatusInternalServerError || a.after < 5500*time.Millisecond {
		t.Errorf("the held event was answered %+v, want 500 after 5.5 s\n%s", a, p.logs.tail())
	}
	wantTerminated(ctx, t, p)
	close(first.release)
	close(second.release)
}

// The first look's call reaches a Firestore that never answers. The event outlives it, and its
// roll-up is exact.
func TestEventOutlivesDeadCall(t *testing.T) {
	t.Parallel()
	for _, method := range []string{get, aggregate, commit} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			p, project := newProxied(ctx, t, "TALLY_HOLD_LIMIT=40s")
			client := emulatortest.ClientDatabase(t, project, "(default)")
			result, err := client.Doc("counters/likes/shards/0").Set(ctx, map[string]any{"count": 7})
			if err != nil {
				t.Fatal(err)
			}
			h := p.proxy.hold(method, false)
			defer close(h.release)
			a := <-deliver(ctx, t, p, "held", project, "likes")
			if a.err != nil || a.status != http.StatusOK || a.after < 20*time.Second {
				t.Errorf("the event was answered %+v, want 200 after half of the hold limit of 40 s\n%s", a, p.logs.tail())
			}
			wantRolledUp(ctx, t, p, project, result.UpdateTime, 7)
		})
	}
}

// wantRolledUp checks that rollups/likes covers a time with that count.
func wantRolledUp(ctx context.Context, t *testing.T, p *process, project string, at time.Time, count int64) {
	t.Helper()
	doc, err := emulatortest.ClientDatabase(t, project, "(default)").Doc("rollups/likes").Get(ctx)
	if err != nil {
		t.Fatalf("%v\n%s", err, p.logs.tail())
	}
	tally := document.DecodeTally(doc.Data()[document.TallyField])
	if doc.Data()["count"] != count || tally.AsOf.Before(at) {
		t.Errorf("the roll-up is %v as of %v, want %d as of %v or later", doc.Data()["count"], tally.AsOf, count, at)
	}
}
