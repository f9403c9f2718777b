package shards

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestNumShardsReads counts the reads of the counter document that increments cost.
func TestNumShardsReads(t *testing.T) {
	w, client := newWire(t)
	now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	c := New(client, "counters/c")
	c.numShards.now = func() time.Time { return now }
	increments := func(wantReads int) {
		t.Helper()
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if _, err := c.Increment(t.Context(), 1); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if got := w.sent("BatchGetDocuments"); got != wantReads {
			t.Errorf("%d reads, want %d", got, wantReads)
		}
	}

	increments(1)
	now = now.Add(numShardsLife - time.Nanosecond)
	increments(1)
	now = now.Add(time.Nanosecond)
	increments(2)
	now = now.Add(time.Hour)

	w.before = func(method string, nth int) error {
		if method == "BatchGetDocuments" && nth == 3 {
			return status.Error(codes.PermissionDenied, "injected")
		}
		return nil
	}
	if _, err := c.Increment(t.Context(), 1); status.Code(err) != codes.PermissionDenied {
		t.Errorf("error %v, want that of the read", err)
	}
	increments(4)
	wantTotal(t, c, int64(4*20))
}

func TestNumShardsOptionReadsNothing(t *testing.T) {
	w, client := newWire(t)
	c := New(client, "counters/c", NumShards(2))
	if _, err := c.Increment(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if got := w.sent("BatchGetDocuments"); got != 0 {
		t.Errorf("%d reads, want none", got)
	}
}

// A num_shards that is not a number is not treated as the default.
func TestNumShardsMalformed(t *testing.T) {
	_, client := newWire(t)
	set(t, client, map[string]map[string]any{"counters/c": {"num_shards": "ten"}})
	if n, err := New(client, "counters/c").NumShards(t.Context()); n != 0 || err == nil {
		t.Errorf("%d shards, error %v; want 0 and an error", n, err)
	}
}

// A pendingRead is a read that the test lets end when and how it likes.
type pendingRead struct {
	ctx context.Context
	n   int64
	err error
	end chan struct{}
}

// newPending returns a cache under the bubble's clock whose reads wait for the test.
func newPending() (*numShardsCache, chan *pendingRead) {
	reads := make(chan *pendingRead, 100)
	return &numShardsCache{
		now: time.Now,
		read: func(ctx context.Context) (int64, error) {
			r := &pendingRead{ctx: ctx, end: make(chan struct{})}
			reads <- r
			select {
			case <-r.end:
				return r.n, r.err
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		},
	}, reads
}

func (r *pendingRead) finish(n int64, err error) {
	r.n, r.err = n, err
	close(r.end)
	synctest.Wait()
}

// An asked is a call of get under way, and later its answer.
type asked struct {
	n    int64
	err  error
	done atomic.Bool // n and err are known
}

func ask(ctx context.Context, s *numShardsCache) *asked {
	a := &asked{}
	go func() {
		a.n, a.err = s.get(ctx)
		a.done.Store(true)
	}()
	synctest.Wait()
	return a
}

// Who found no number, and comes to read it when another read has just ended, takes its answer.
func TestNumShardsReadMeanwhile(t *testing.T) {
	s, reads := newPending()
	s.set(7, time.Now())
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // a read ends at once
	n, err := s.readForAll(ctx)
	if n != 7 || err != nil || len(reads) != 0 {
		t.Errorf("got %d, %v, with %d reads; want 7 without a read", n, err, len(reads))
	}
}

func TestNumShardsSharesAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, reads := newPending()
		var all []*asked
		for range 10 {
			all = append(all, ask(t.Context(), s))
		}
		if len(reads) != 1 {
			t.Fatalf("%d reads for 10 who ask, want 1", len(reads))
		}
		time.Sleep(9 * time.Second) // on the bubble's clock
		(<-reads).finish(7, nil)
		for _, a := range all {
			if !a.done.Load() || a.n != 7 || a.err != nil {
				t.Errorf("got %+v, want 7", a)
			}
		}

		// The answer is as old as the read's beginning.
		time.Sleep(numShardsLife - 9*time.Second - time.Nanosecond)
		if a := ask(t.Context(), s); !a.done.Load() || len(reads) != 0 {
			t.Errorf("just before the end of its life: %+v and %d reads, want the kept answer", a, len(reads))
		}
		time.Sleep(time.Nanosecond)
		a := ask(t.Context(), s)
		if a.done.Load() || len(reads) != 1 {
			t.Fatalf("at the end of its life: %+v and %d reads, want a new read", a, len(reads))
		}
		(<-reads).finish(8, nil)
		if !a.done.Load() || a.n != 8 {
			t.Errorf("got %+v, want 8", a)
		}
	})
}

func TestNumShardsSharesAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, reads := newPending()
		first, second := ask(t.Context(), s), ask(t.Context(), s)
		broken := errors.New("broken")
		(<-reads).finish(0, broken)
		for _, a := range []*asked{first, second} {
			if !a.done.Load() || !errors.Is(a.err, broken) {
				t.Errorf("got %+v, want the error of the read", a)
			}
		}
		third := ask(t.Context(), s)
		if len(reads) != 1 {
			t.Fatalf("%d reads after a failed one, want 1", len(reads))
		}
		(<-reads).finish(5, nil)
		if !third.done.Load() || third.n != 5 || third.err != nil {
			t.Errorf("got %+v, want 5", third)
		}
	})
}

// TestNumShardsReaderGivesUp: a caller that reads for the others and gives up does not make them
// fail, and a caller that waits can give up alone.
func TestNumShardsReaderGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, reads := newPending()
		readerCtx, readerGivesUp := context.WithCancel(t.Context())
		waiterCtx, waiterGivesUp := context.WithCancel(t.Context())
		reader, impatient, patient := ask(readerCtx, s), ask(waiterCtx, s), ask(t.Context(), s)
		read := <-reads

		waiterGivesUp()
		synctest.Wait()
		if !impatient.done.Load() || !errors.Is(impatient.err, context.Canceled) {
			t.Errorf("got %+v, want context.Canceled", impatient)
		}
		if reader.done.Load() || patient.done.Load() {
			t.Error("a waiter that gave up ended the read")
		}

		readerGivesUp()
		synctest.Wait()
		if !reader.done.Load() || !errors.Is(reader.err, context.Canceled) {
			t.Errorf("got %+v, want context.Canceled", reader)
		}
		if patient.done.Load() || len(reads) != 0 {
			t.Fatalf("%+v and %d further reads, want the same read for who still waits", patient, len(reads))
		}
		read.finish(9, nil)
		if !patient.done.Load() || patient.n != 9 || patient.err != nil {
			t.Errorf("got %+v, want 9", patient)
		}
	})
}

// TestNumShardsReadEnds: a read on a dead connection ends for all who wait for it. Those who come
// later read again.
func TestNumShardsReadEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, reads := newPending()
		first := ask(t.Context(), s)
		time.Sleep(readLimit - time.Nanosecond) // on the bubble's clock
		second := ask(t.Context(), s)
		if first.done.Load() || second.done.Load() || len(reads) != 1 {
			t.Fatalf("before the limit: %+v, %+v and %d reads; want one read under way", first, second, len(reads))
		}
		<-reads

		time.Sleep(time.Nanosecond)
		synctest.Wait()
		for _, a := range []*asked{first, second} {
			if !a.done.Load() || !errors.Is(a.err, context.DeadlineExceeded) {
				t.Errorf("at the limit: %+v, want context.DeadlineExceeded", a)
			}
		}

		third := ask(t.Context(), s)
		if len(reads) != 1 {
			t.Fatalf("%d reads after the limit, want 1", len(reads))
		}
		(<-reads).finish(5, nil)
		if !third.done.Load() || third.n != 5 || third.err != nil {
			t.Errorf("got %+v, want 5", third)
		}
	})
}
