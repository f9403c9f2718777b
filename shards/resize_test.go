package shards

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestResize(t *testing.T) {
	type docs = map[string]map[string]any
	tests := []struct {
		name    string
		counter map[string]any // nil: absent
		before  docs           // shards
		n       int
		want    map[string]any // the counter document
		after   docs
	}{
		{name: "up", counter: map[string]any{"num_shards": 2, "title": "x"}, before: docs{"0": {"count": 3}, "1": {"count": 4}}, n: 4,
			want: map[string]any{"num_shards": int64(4), "title": "x"}, after: docs{"0": {"count": int64(3)}, "1": {"count": int64(4)}, "2": {"count": int64(0)}, "3": {"count": int64(0)}}},
		{name: "up, nothing there", n: 2,
			want: map[string]any{"num_shards": int64(2)}, after: docs{"0": {"count": int64(0)}, "1": {"count": int64(0)}}},
		{name: "up, and a surplus shard is there", counter: map[string]any{"num_shards": 1}, before: docs{"0": {"count": 3}, "1": {"count": 4, "likes": 5}}, n: 2,
			want: map[string]any{"num_shards": int64(2)}, after: docs{"0": {"count": int64(3)}, "1": {"count": int64(4), "likes": int64(5)}}},
		{name: "down", counter: map[string]any{"num_shards": 4}, before: docs{"0": {"count": 1}, "1": {"count": 2}, "3": {"count": "x"}, "eu": {"count": 8}}, n: 1,
			want: map[string]any{"num_shards": int64(1)}, after: docs{"0": {"count": int64(1)}, "1": {"count": int64(2)}, "3": {"count": "x"}, "eu": {"count": int64(8)}}},
		{name: "the number is the one that was given from then on", counter: map[string]any{"num_shards": 4, "auto_shards": true}, n: 2,
			want: map[string]any{"num_shards": int64(2)}, after: docs{}},
		{name: "the other spelling", counter: map[string]any{"numShards": 3}, before: docs{"2": {"count": 1}}, n: 1,
			want: map[string]any{"numShards": int64(1)}, after: docs{"2": {"count": int64(1)}}},
		{name: "both spellings", counter: map[string]any{"numShards": 3, "num_shards": 3}, n: 1, want: map[string]any{"numShards": int64(1), "num_shards": int64(1)}, after: docs{}},
		{name: "num_shards that is not a number", counter: map[string]any{"num_shards": "3"}, n: 1, want: map[string]any{"num_shards": int64(1)}, after: docs{"0": {"count": int64(0)}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			client := emulatortest.Client(t)
			if tt.counter != nil {
				set(t, client, docs{"counters/c": tt.counter})
			}
			for id, fields := range tt.before {
				set(t, client, docs{"counters/c/shards/" + id: fields})
			}
			c := New(client, "counters/c")
			for range 2 { // again is harmless
				if err := c.Resize(t.Context(), tt.n); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.want, read(t, client, "counters/c")); diff != "" {
					t.Errorf("counter document (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tt.after, list(t, client, "counters/c/shards")); diff != "" {
					t.Errorf("shards (-want +got):\n%s", diff)
				}
			}
			if n, err := c.spread(t.Context()); n != int64(tt.n) || err != nil {
				t.Errorf("increments spread over %d, %v; want %d at once", n, err, tt.n)
			}
		})
	}
}

func TestResizeRefuses(t *testing.T) {
	w, client := newWire(t)
	for _, n := range []int{0, -1} {
		if err := New(client, "counters/c").Resize(t.Context(), n); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("number of shards is %d", n)) {
			t.Errorf("Resize(%d): error %v", n, err)
		}
	}
	fixed := New(client, "counters/c", NumShards(3))
	if err := fixed.Resize(t.Context(), 2); !errors.Is(err, ErrNumShards) {
		t.Errorf("error %v, want ErrNumShards", err)
	}
	if err := fixed.Resize(t.Context(), 3); err == nil || !strings.Contains(err.Error(), "the number of shards is in the app's code") {
		t.Errorf("error %v, want one that says where the number is", err)
	}
	if len(w.calls) > 0 {
		t.Errorf("requests sent: %v, want none", w.calls)
	}
}

// TestResizeIsKnown: a Counter that resizes uses the new number at once, and reads nothing for it.
func TestResizeIsKnown(t *testing.T) {
	w, client := newWire(t)
	c := New(client, "counters/c")
	if n, err := c.NumShards(t.Context()); n != DefaultNumShards || err != nil {
		t.Errorf("NumShards = %d, %v before", n, err)
	}
	if err := c.Resize(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	before := w.sent("BatchGetDocuments")
	if n, err := c.NumShards(t.Context()); n != 3 || err != nil {
		t.Errorf("NumShards = %d, %v after Resize to 3", n, err)
	}
	if reads := w.sent("BatchGetDocuments") - before; reads > 0 {
		t.Errorf("%d reads, want none", reads)
	}
}

// TestResizeLarge takes several commits to create the shards.
func TestResizeLarge(t *testing.T) {
	w, client := newWire(t)
	c := New(client, "counters/c")
	const large = 2*shardsPerCommit + 7
	if err := c.Resize(t.Context(), large); err != nil {
		t.Fatal(err)
	}
	if got := len(list(t, client, "counters/c/shards")); got != large || w.most > shardsPerCommit {
		t.Errorf("%d shards, at most %d writes in a commit; want %d and %d", got, w.most, large, shardsPerCommit)
	}
}

// TestResizeFaults has each commit fail, or lose its answer, in turn: the total stays, and a second
// call finishes.
func TestResizeFaults(t *testing.T) {
	t.Parallel()
	for _, code := range []codes.Code{codes.Unavailable, codes.Internal, codes.Aborted} {
		for nth := 1; nth <= 2; nth++ { // the new shard and num_shards
			for _, lost := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v, commit %d, lost %v", code, nth, lost), func(t *testing.T) {
					t.Parallel()
					w, client := newWire(t)
					set(t, client, map[string]map[string]any{"counters/c": {"num_shards": 1}, "counters/c/shards/0": {"count": 7}})
					injected := false
					fault := func(method string, n int) error {
						if method == "Commit" && n == 2+nth {
							injected = true
							return status.Error(code, "injected")
						}
						return nil
					}
					w.fail(lost, fault)
					c := New(client, "counters/c")
					err := c.Resize(t.Context(), 2)
					wantTotal(t, c, int64(7))
					if err != nil {
						err = c.Resize(t.Context(), 2)
					}
					if err != nil {
						t.Fatal(err)
					}
					want := map[string]map[string]any{"0": {"count": int64(7)}, "1": {"count": int64(0)}}
					if diff := cmp.Diff(want, list(t, client, "counters/c/shards")); diff != "" {
						t.Errorf("shards (-want +got):\n%s", diff)
					}
					if !injected {
						t.Error("no fault was injected")
					}
				})
			}
		}
	}
}

// TestResizeUpCutShort: whenever it is cut short, all the shards exist that the counter document
// tells clients of, who may only update.
func TestResizeUpCutShort(t *testing.T) {
	const had, want = 2, shardsPerCommit + 7 // in two commits, and then num_shards
	for commits := range 3 {
		t.Run(fmt.Sprintf("after %d commits", commits), func(t *testing.T) {
			t.Parallel()
			w, client := newWire(t)
			c := New(client, "counters/c")
			if err := c.Create(t.Context(), had); err != nil {
				t.Fatal(err)
			}
			done := w.sent("Commit") + commits
			w.before = func(method string, nth int) error {
				if method == "Commit" && nth > done {
					return status.Error(codes.PermissionDenied, "cut short")
				}
				return nil
			}
			if err := c.Resize(t.Context(), want); status.Code(err) != codes.PermissionDenied {
				t.Errorf("error %v, want PermissionDenied", err)
			}
			there := list(t, client, "counters/c/shards")
			for n := range read(t, client, "counters/c")["num_shards"].(int64) {
				if there[fmt.Sprint(n)] == nil {
					t.Fatalf("%d shards, and %v without shard %d", len(there), read(t, client, "counters/c"), n)
				}
			}
			w.before = nil
			if err := c.Resize(t.Context(), want); err != nil {
				t.Fatal(err)
			}
			if n := read(t, client, "counters/c")["num_shards"]; n != int64(want) || len(list(t, client, "counters/c/shards")) != want {
				t.Errorf("num_shards %v, want %d of them", n, want)
			}
		})
	}
}
