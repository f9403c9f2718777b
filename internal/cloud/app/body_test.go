package app

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firestore-tally/tally/internal/cloud/trigger"
)

// A slowBody is the body of an event that comes as a test says.
type slowBody struct {
	*io.PipeWriter
	request *http.Request
	read    atomic.Int64 // bytes of it
}

// slowEvent returns an event whose body has not come.
func (w *world) slowEvent(id string) *slowBody {
	body, writer := io.Pipe()
	r := event(w.t, id, project, "(default)", "counters/c/shards/0")
	r.Body, r.ContentLength = body, trigger.MaxBody
	return &slowBody{PipeWriter: writer, request: r}
}

// comes sends bytes of the body, and returns when they are read, or wait to be read.
func (b *slowBody) comes(bytes int) {
	go func() {
		for sent := 0; sent < bytes; sent += chunk {
			n, err := b.Write(make([]byte, min(chunk, bytes-sent)))
			b.read.Add(int64(n))
			if err != nil {
				return
			}
		}
	}()
	synctest.Wait()
}

// However many large events come at once, an instance reads few bytes of them. One event is read to
// its end all the same, so that they do not wait for each other.
func TestLargeEventsWait(t *testing.T) {
	w := newWorld(t)
	w.run(func() {
		var all sync.WaitGroup
		bodies := make([]*slowBody, 20)
		for i := range bodies {
			bodies[i] = w.slowEvent(string(rune('a' + i)))
			all.Go(func() { w.deliver(bodies[i].request) })
			bodies[i].comes(1 << 20)
		}
		var read int64
		for _, b := range bodies {
			read += b.read.Load()
		}
		if most := int64(maxDecoding + 1<<20 + len(bodies)*chunk); read < maxDecoding || read > most {
			w.t.Errorf("%d bytes of 20 MiB are read, want %d to %d", read, maxDecoding, most)
		}

		for _, b := range bodies {
			_ = b.Close()
			synctest.Wait()
		}
		for i, b := range bodies {
			if n := b.read.Load(); n != 1<<20 {
				w.t.Errorf("of event %d, %d bytes were read when the others had ended", i, n)
			}
		}
		all.Wait()
	})
}

// An event that waits for memory fails when it was held for the hold limit.
func TestLargeEventIsNotHeldForever(t *testing.T) {
	w := newWorld(t)
	w.run(func() {
		var all sync.WaitGroup
		for _, id := range []string{"first", "second"} {
			b := w.slowEvent(id)
			all.Go(func() { w.deliver(b.request) })
			b.comes(maxDecoding)
			defer b.Close()
		}

		status, after := w.deliver(event(w.t, "e1", project, "(default)", "counters/c/shards/0"))
		if status != http.StatusInternalServerError || after != 8*time.Second {
			w.t.Errorf("status %d after %v, want 500 after the hold limit of 8 s", status, after)
		}
	})
}

// A connection is that of a caller whose body may never come.
type connection struct {
	*httptest.ResponseRecorder
	body     *slowBody
	deadline *time.Timer
	set      []time.Time
}

// SetReadDeadline has the body fail at a time, as that of a server does.
func (c *connection) SetReadDeadline(at time.Time) error {
	c.set = append(c.set, at)
	if c.deadline != nil {
		c.deadline.Stop()
	}
	if !at.IsZero() {
		c.deadline = time.AfterFunc(time.Until(at), func() { _ = c.body.CloseWithError(os.ErrDeadlineExceeded) })
	}
	return nil
}

// A caller who sends headers and no body takes no memory from others, and is answered when an event
// would be.
func TestBodyThatNeverComes(t *testing.T) {
	w := newWorld(t)
	w.run(func() {
		var all sync.WaitGroup
		began := time.Now()
		for range 10 {
			b := w.slowEvent("stuck")
			c := &connection{ResponseRecorder: httptest.NewRecorder(), body: b}
			all.Go(func() {
				w.OnWrite(c, b.request)
				if took := time.Since(began); c.Code != http.StatusInternalServerError || took != 8*time.Second {
					w.t.Errorf("status %d after %v, want 500 after the hold limit of 8 s", c.Code, took)
				}
				if n := len(c.set); n != 2 || !c.set[1].IsZero() {
					w.t.Errorf("deadlines: %v, want one, and none after the body", c.set)
				}
			})
			synctest.Wait()
		}

		w.stores["(default)"].Increment("counters/c/shards/0", "count", 1)
		status, after := w.deliver(event(w.t, "e1", project, "(default)", "counters/c/shards/0"))
		if status != http.StatusOK || after > time.Second {
			w.t.Errorf("status %d after %v, want 200 at once", status, after)
		}
		all.Wait()
		if lines := w.log.lines("not acknowledged"); len(lines) != 1 || !strings.Contains(lines[0], "reading the event's data") {
			w.t.Errorf("the log: %v", lines)
		}
	})
}
