package app

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/firestore-tally/tally/internal/cloud/trigger"
	"golang.org/x/sync/semaphore"
)

// maxDecoding is how many bytes of events an instance reads and decodes at once. One event more
// may be read to its end. A function has 512 MiB, and Eventarc sends events of up to 512 KB.
// Decoded, an event of many small fields takes sixteen times its size.
const maxDecoding = trigger.MaxBody

// A memory counts the bytes of events that an instance reads and decodes at once.
type memory struct {
	bytes *semaphore.Weighted
	alone *semaphore.Weighted // for the one event that goes on without being counted, so that not all wait for each other
}

func newMemory() memory {
	return memory{semaphore.NewWeighted(maxDecoding), semaphore.NewWeighted(1)}
}

// A countedBody is the body of a request. Its bytes count as they come: a caller who sends none
// holds nothing.
type countedBody struct {
	io.ReadCloser
	ctx    context.Context
	memory memory
	taken  int64
	alone  bool
}

// chunk is how many bytes of a body may have come before they are counted.
const chunk = 32 << 10

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p[:min(len(p), chunk)])
	counting := b.count(int64(n))
	if counting != nil {
		return 0, counting
	}
	return n, err
}

// count counts n bytes. If there is no memory for them, it waits until no other event goes on
// without being counted.
func (b *countedBody) count(n int64) error {
	if b.alone {
		return nil
	}

	counted := b.memory.bytes.TryAcquire(n)
	if counted {
		b.taken += n
		return nil
	}

	err := b.memory.alone.Acquire(b.ctx, 1)
	if err != nil {
		return fmt.Errorf("waiting for memory for an event of %d bytes and more: %w", b.taken+n, context.Cause(b.ctx))
	}
	b.alone = true
	return nil
}

// release gives back the memory of the body.
func (b *countedBody) release() {
	b.memory.bytes.Release(b.taken)
	if b.alone {
		b.memory.alone.Release(1)
	}
}

// limitBodyTime bounds the time in which the body of a request must come.
func limitBodyTime(w http.ResponseWriter, r *http.Request, within time.Duration) {
	connection := http.NewResponseController(w)
	err := connection.SetReadDeadline(time.Now().Add(within))
	if err == nil {
		r.Body = timelyBody{r.Body, connection}
	}
}

// A timelyBody is a body with a deadline, which is over when the body has come: the connection is
// read on, to notice that the caller goes away.
type timelyBody struct {
	io.ReadCloser
	connection *http.ResponseController
}

func (b timelyBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		_ = b.connection.SetReadDeadline(time.Time{})
	}
	return n, err
}
