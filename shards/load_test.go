package shards_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/firestore-tally/tally/shards"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestResizeUnderLoad(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		from, to int
	}{{"up", 3, 8}, {"down", 8, 3}} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLoad(t)
			l.create(tt.from)
			l.watch()
			l.increment(l.plainly(tt.from))
			l.during(func(ctx context.Context) error { return l.counter.Resize(ctx, tt.to) })
			l.want(l.between(time.Time{}, forever))
			var ids []string
			for n := range max(tt.from, tt.to) {
				ids = append(ids, fmt.Sprint(n))
			}
			if got, want := l.ids(), strings.Join(ids, " "); got != want {
				t.Errorf("shards %s, want %s", got, want)
			}
			l.wantSnapshots(func(snapshot) []base { return []base{{}} })
		})
	}
}

func TestSetUnderLoad(t *testing.T) {
	t.Parallel()
	for _, total := range []int64{0, 1 << 60} {
		t.Run(fmt.Sprint(total), func(t *testing.T) {
			l := newLoad(t)
			l.create(5)
			l.watch()
			l.increment(l.plainly(5))
			var r shards.Replacement
			l.during(func(ctx context.Context) (err error) {
				r, err = l.counter.Set(ctx, total)
				return err
			})
			if was, _ := r.Was.Int64(); was != l.between(time.Time{}, r.AsOf) {
				t.Errorf("was %d, want %d", was, l.between(time.Time{}, r.AsOf))
			}
			l.want(total + l.between(r.AsOf, forever))
			l.wantSnapshots(func(snapshot) []base { return []base{{}, {total, r.AsOf}} }) // before, after
		})
	}
}

// TestSetLargeUnderLoad takes two commits, and is exact at the end.
func TestSetLargeUnderLoad(t *testing.T) {
	t.Parallel()
	l := newLoad(t)
	const n = 520
	l.create(n)
	bulk := l.client.BulkWriter(t.Context())
	for i := range n {
		if _, err := bulk.Set(l.client.Doc(fmt.Sprintf("counters/c/shards/%d", i)), map[string]any{"count": 1}); err != nil {
			t.Fatal(err)
		}
	}
	bulk.End()
	l.increment(l.plainly(n))
	var r shards.Replacement
	l.during(func(ctx context.Context) (err error) {
		r, err = l.counter.Set(ctx, 1000)
		return err
	})
	if was, _ := r.Was.Int64(); was != n+l.between(time.Time{}, r.AsOf) {
		t.Errorf("was %d, want %d", was, n+l.between(time.Time{}, r.AsOf))
	}
	l.want(1000 + l.between(r.AsOf, forever))
}

// TestImportUnderLoad: clients write a document and a shard in one commit, and had written
// documents alone before. From the import on, no snapshot shows a difference.
func TestImportUnderLoad(t *testing.T) {
	l := newLoad(t)
	for i := range 20 {
		if _, err := l.client.Doc(fmt.Sprintf("posts/7/likes/early-%d", i)).Set(t.Context(), map[string]any{"n": i}); err != nil {
			t.Fatal(err)
		}
	}
	likes := shards.CountOf(l.client.Collection("posts/7/likes").Query)
	l.increment(func(ctx context.Context, client, n int) (int64, time.Time, error) {
		var commit firestore.CommitResponse
		err := l.client.RunTransaction(ctx, func(_ context.Context, tx *firestore.Transaction) error {
			return errors.Join(
				tx.Create(l.client.Doc(fmt.Sprintf("posts/7/likes/%d-%d", client, n)), map[string]any{"n": n}),
				tx.Set(l.client.Doc(fmt.Sprintf("counters/c/shards/%d", n%3)), map[string]any{"count": firestore.Increment(1)}, firestore.MergeAll))
		}, firestore.WithCommitResponseTo(&commit))
		return 1, commit.CommitTime(), err
	})
	l.during(func(ctx context.Context) error {
		if v, err := l.counter.Verify(ctx, likes); err != nil || v.Equal() {
			t.Errorf("before: %+v, %v; want a difference", v, err)
		}
		if _, err := l.counter.Import(ctx, likes); err != nil {
			return err
		}
		for range 5 {
			if v, err := l.counter.Verify(ctx, likes); err != nil || !v.Equal() {
				t.Errorf("after: %+v, %v; want no difference", v, err)
			}
		}
		return nil
	})
	l.want(20 + l.between(time.Time{}, forever))
}

// TestDeleteUnderLoad: what is committed after the shards are gone counts, nothing before.
func TestDeleteUnderLoad(t *testing.T) {
	t.Parallel()
	type deletion struct {
		at    time.Time
		order int
	}
	var l *load
	var deleted atomic.Pointer[deletion]
	l = newLoad(t, grpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		err := invoke(ctx, method, req, reply, conn, opts...)
		if commit, ok := req.(*firestorepb.CommitRequest); ok && err == nil && len(commit.Writes) > 0 && commit.Writes[0].GetDelete() != "" {
			at := reply.(*firestorepb.CommitResponse).CommitTime.AsTime()
			deleted.CompareAndSwap(nil, &deletion{at, l.next()}) // the shards, before the counter document
		}
		return err
	}))
	l.create(5)
	l.watch()
	l.increment(l.plainly(5))
	l.during(func(ctx context.Context) error { _, _, err := l.counter.Delete(ctx); return err })
	gone := deleted.Load()
	if gone == nil {
		t.Fatal("nothing was deleted")
	}
	l.want(l.between(gone.at, forever))
	l.wantSnapshots(func(s snapshot) []base {
		before, after := base{}, base{after: gone.at}
		switch {
		case s.at.Before(gone.at):
			return []base{before}
		case s.order > gone.order:
			return []base{after}
		default: // the deletion was in flight
			return []base{before, after}
		}
	})

	// Once the clients are quiet, nothing is left, and the roll-up says so.
	if _, _, err := l.counter.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.event()
	l.want(0)
	if r, err := l.counter.RollUp(t.Context()); r.NumShards != 0 || err != nil || l.ids() != "" {
		t.Errorf("roll-up %+v, %v, shards %q; want no shards", r, err, l.ids())
	}
	// A late increment is rolled up again.
	if _, err := l.counter.Increment(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	l.event()
	l.want(7)
}

// TestIncrementOnceUnderLoad: several servers work at the same tokens, and every third
// answer to a commit is lost.
func TestIncrementOnceUnderLoad(t *testing.T) {
	var commits atomic.Int64
	l := newLoad(t, grpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		err := invoke(ctx, method, req, reply, conn, opts...)
		if commit, ok := req.(*firestorepb.CommitRequest); ok && err == nil && len(commit.Writes) == 2 && commits.Add(1)%3 == 0 {
			return status.Error(codes.Unavailable, "answer lost")
		}
		return err
	}))
	const tokens, amount = 25, 3
	var servers sync.WaitGroup
	times := make([][tokens]time.Time, 4)
	for server := range times {
		servers.Go(func() {
			for token := range tokens {
				_, at, err := l.counter.IncrementOnce(t.Context(), fmt.Sprint("message-", token), amount)
				if err != nil {
					t.Errorf("token %d: %v", token, err)
				}
				times[server][token] = at
				l.event()
			}
		})
	}
	servers.Wait()
	l.want(tokens * amount)
	for server := range times {
		if times[server] != times[0] {
			t.Error("the servers do not agree on when a token was used")
		}
	}
}
