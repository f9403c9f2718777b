package shards

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestIncrement(t *testing.T) {
	const beyond = 1<<53 + 1 // the first integer that a double cannot hold
	tests := []struct {
		name    string
		amounts []any // int64 or float64, in order
		want    any
	}{
		{"none", nil, int64(0)},
		{"one", []any{int64(1)}, int64(1)},
		{"zero", []any{int64(0)}, int64(0)},
		{"negative", []any{int64(5), int64(-8)}, int64(-3)},
		{"doubles", []any{0.25, -1.5}, -1.25},
		{"a whole double", []any{2.0}, 2.0},
		{"mixed", []any{int64(2), 0.5, int64(-1)}, 1.5},
		{"beyond 2^53", []any{int64(beyond), int64(2)}, int64(beyond + 2)},
		{"below -2^53", []any{int64(-beyond), int64(-2)}, int64(-beyond - 2)},
		{"the largest integer", []any{int64(math.MaxInt64)}, int64(math.MaxInt64)},
		{"the smallest integer", []any{int64(math.MinInt64)}, int64(math.MinInt64)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := New(emulatortest.Client(t), "counters/c", NumShards(3))
			for _, amount := range tt.amounts {
				var err error
				switch amount := amount.(type) {
				case int64:
					_, err = c.Increment(t.Context(), amount)
				case float64:
					_, err = c.IncrementFloat(t.Context(), amount)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			wantTotal(t, c, tt.want)
		})
	}
}

// TestIncrementSaturates pins what Firestore does with a shard at the end of int64.
func TestIncrementSaturates(t *testing.T) {
	for _, tt := range []struct{ first, then, want int64 }{
		{math.MaxInt64, 1, math.MaxInt64},
		{math.MinInt64, -1, math.MinInt64},
	} {
		c := New(emulatortest.Client(t), "counters/c", NumShards(1))
		for _, amount := range []int64{tt.first, tt.then} {
			if _, err := c.Increment(t.Context(), amount); err != nil {
				t.Fatal(err)
			}
		}
		wantTotal(t, c, tt.want)
	}
}

func TestIncrementConcurrently(t *testing.T) {
	t.Parallel()
	client := emulatortest.Client(t)
	c := New(client, "counters/c")
	const writers, each = 16, 50
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for range each {
				if _, err := c.Increment(t.Context(), int64(w-3)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	want := int64(0)
	for w := range writers {
		want += int64(w-3) * each
	}
	wantTotal(t, c, want)
}

// TestIncrementKeepsOtherFields: a shard may serve several counters.
func TestIncrementKeepsOtherFields(t *testing.T) {
	client := emulatortest.Client(t)
	for _, field := range []string{"likes", "views", "likes"} {
		if _, err := New(client, "counters/c", Field(field), NumShards(1)).Increment(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	got := read(t, client, "counters/c/shards/0")
	if got["likes"] != int64(2) || got["views"] != int64(1) || len(got) != 2 {
		t.Errorf("shard holds %v, want likes 2 and views 1", got)
	}
}

func TestIncrementReturnsCommitTime(t *testing.T) {
	client := emulatortest.Client(t)
	committed, err := New(client, "counters/c", NumShards(1)).Increment(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	shard, err := client.Doc("counters/c/shards/0").Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !committed.Equal(shard.UpdateTime) {
		t.Errorf("committed at %v, but the shard was updated at %v", committed, shard.UpdateTime)
	}
}

func TestIncrementFloatRefuses(t *testing.T) {
	w, client := newWire(t)
	for _, amount := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if _, err := New(client, "counters/c").IncrementFloat(t.Context(), amount); err == nil || errors.Is(err, ErrInDoubt) {
			t.Errorf("IncrementFloat(%v): error %v, want one that leaves no doubt", amount, err)
		}
	}
	if len(w.calls) > 0 {
		t.Errorf("requests sent: %v, want none", w.calls)
	}
}

// TestIncrementNeverTwice injects faults into the connection. The SDK sends a commit
// again when it is answered UNAVAILABLE or RESOURCE_EXHAUSTED.
func TestIncrementNeverTwice(t *testing.T) {
	t.Parallel()
	fail := func(method string, code codes.Code, nths ...int) func(string, int) error {
		return func(m string, nth int) error {
			for _, n := range nths {
				if m == method && nth == n {
					return status.Error(code, "injected")
				}
			}
			return nil
		}
	}
	tests := []struct {
		name          string
		before, after func(string, int) error

		total   int64
		code    codes.Code // of the error
		inDoubt bool
		commits int // sent
	}{
		{name: "no fault", total: 1, commits: 1},
		{name: "commit not sent, then sent", before: fail("Commit", codes.Unavailable, 1), total: 1, commits: 2},
		{name: "answer lost, sent again", after: fail("Commit", codes.Unavailable, 1), total: 1, code: codes.InvalidArgument, inDoubt: true, commits: 2},
		{name: "answer lost twice, sent again twice", after: fail("Commit", codes.ResourceExhausted, 1, 2), total: 1, code: codes.InvalidArgument, inDoubt: true, commits: 2},
		{name: "answer lost, not sent again", after: fail("Commit", codes.Internal, 1), total: 1, code: codes.Internal, inDoubt: true, commits: 1},
		{name: "commit refused", before: fail("Commit", codes.Aborted, 1), total: 0, code: codes.Aborted, inDoubt: true, commits: 1},
		{name: "transaction refused", before: fail("BeginTransaction", codes.PermissionDenied, 1), total: 0, code: codes.PermissionDenied, commits: 0},
		{name: "transaction answer lost", after: fail("BeginTransaction", codes.Unavailable, 1), total: 1, commits: 1},
		{name: "number of shards not read", before: fail("BatchGetDocuments", codes.PermissionDenied, 1), total: 0, code: codes.PermissionDenied, commits: 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, client := newWire(t)
			w.before, w.after = tt.before, tt.after
			c := New(client, "counters/c")
			committed, err := c.Increment(t.Context(), 1)
			if status.Code(err) != tt.code || errors.Is(err, ErrInDoubt) != tt.inDoubt {
				t.Errorf("error %v, want code %v, in doubt: %v", err, tt.code, tt.inDoubt)
			}
			if committed.IsZero() != (err != nil) {
				t.Errorf("commit time %v with error %v", committed, err)
			}
			if got := w.sent("Commit"); got != tt.commits {
				t.Errorf("%d commits sent, want %d", got, tt.commits)
			}
			wantTotal(t, c, tt.total)
		})
	}
}

// TestPlainIncrementTwice shows why Increment uses a transaction: when the answer to a
// plain increment is lost, the SDK applies it twice and reports a success. If this test
// fails, the SDK has changed and the transaction may no longer be worth its round trip.
func TestPlainIncrementTwice(t *testing.T) {
	w, client := newWire(t)
	w.after = func(method string, nth int) error {
		if method == "Commit" && nth == 1 {
			return status.Error(codes.Unavailable, "answer lost")
		}
		return nil
	}
	_, err := client.Doc("counters/c/shards/0").Set(t.Context(), map[string]any{"count": firestore.Increment(1)}, firestore.MergeAll)
	got := read(t, client, "counters/c/shards/0")["count"]
	if err != nil || got != int64(2) {
		t.Errorf("count %v, error %v; want count 2 and no error", got, err)
	}
}

func TestIncrementInsideTransaction(t *testing.T) {
	client := emulatortest.Client(t)
	c := New(client, "counters/c", NumShards(1))
	err := client.RunTransaction(t.Context(), func(ctx context.Context, _ *firestore.Transaction) error {
		_, err := c.Increment(ctx, 1)
		return err
	})
	if err == nil || errors.Is(err, ErrInDoubt) {
		t.Errorf("error %v, want one that leaves no doubt", err)
	}
	wantTotal(t, c, int64(0))
}

func TestIncrementCancelled(t *testing.T) {
	client := emulatortest.Client(t)
	for _, opts := range [][]Option{nil, {NumShards(1)}} {
		t.Run(fmt.Sprintf("%d options", len(opts)), func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			c := New(client, "counters/c", opts...)
			if _, err := c.Increment(ctx, 1); err == nil || errors.Is(err, ErrInDoubt) {
				t.Errorf("error %v, want one that leaves no doubt", err)
			}
			wantTotal(t, c, int64(0))
		})
	}
}
