package shards

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestResize(t *testing.T) {
	type docs = map[string]map[string]any
	const far = 1 << 53 // doubles above hold no odd integers
	tests := []struct {
		name    string
		counter map[string]any // nil: absent
		before  docs           // shards
		n       int
		want    map[string]any // the counter document
		after   docs
		errors  []string // nil: none
	}{
		{name: "up", counter: map[string]any{"num_shards": 2, "title": "x"}, before: docs{"0": {"count": 3}, "1": {"count": 4}}, n: 4,
			want: map[string]any{"num_shards": int64(4), "title": "x"}, after: docs{"0": {"count": int64(3)}, "1": {"count": int64(4)}, "2": {"count": int64(0)}, "3": {"count": int64(0)}}},
		{name: "up, nothing there", n: 2,
			want: map[string]any{"num_shards": int64(2)}, after: docs{"0": {"count": int64(0)}, "1": {"count": int64(0)}}},
		{name: "down", counter: map[string]any{"num_shards": 4}, before: docs{"0": {"count": 1}, "1": {"count": 2}, "2": {"count": 4}, "3": {"count": 8}}, n: 2,
			want: map[string]any{"num_shards": int64(2)}, after: docs{"0": {"count": int64(5)}, "1": {"count": int64(10)}}},
		{name: "down, into shards that do not exist", counter: map[string]any{"num_shards": 9}, before: docs{"7": {"count": -5}}, n: 2,
			want: map[string]any{"num_shards": int64(2)}, after: docs{"0": {"count": int64(-5)}}},
		{name: "the same number folds what came again", counter: map[string]any{"num_shards": 1}, before: docs{"0": {"count": 1}, "9": {"count": 2}}, n: 1,
			want: map[string]any{"num_shards": int64(1)}, after: docs{"0": {"count": int64(3)}}},
		{name: "the other spelling", counter: map[string]any{"numShards": 3}, before: docs{"2": {"count": 1}}, n: 1,
			want: map[string]any{"numShards": int64(1)}, after: docs{"0": {"count": int64(1)}}},
		{name: "both spellings", counter: map[string]any{"numShards": 3, "num_shards": 3}, n: 1, want: map[string]any{"numShards": int64(1), "num_shards": int64(1)}, after: docs{}},
		{name: "num_shards that is not a number", counter: map[string]any{"num_shards": "3"}, n: 1, want: map[string]any{"num_shards": int64(1)}, after: docs{"0": {"count": int64(0)}}},
		{name: "an app's own ids stay", counter: map[string]any{"num_shards": 2}, before: docs{"eu": {"count": 1}, "07": {"count": 2}, "-3": {"count": 3}, "2": {"count": 4}}, n: 1,
			want: map[string]any{"num_shards": int64(1)}, after: docs{"eu": {"count": int64(1)}, "07": {"count": int64(2)}, "-3": {"count": int64(3)}, "0": {"count": int64(4)}}},
		{name: "every field is moved", counter: map[string]any{"num_shards": 3}, before: docs{"0": {"count": 1, "likes": 10}, "1": {"likes": 5, "a.b": 2}, "2": {}}, n: 1,
			want: map[string]any{"num_shards": int64(1)}, after: docs{"0": {"count": int64(1), "likes": int64(15), "a.b": int64(2)}}},
		{name: "an empty one leaves none behind", counter: map[string]any{"num_shards": 2}, before: docs{"1": {}}, n: 1, want: map[string]any{"num_shards": int64(1)}, after: docs{}},
		{name: "null is not a number", counter: map[string]any{"num_shards": 2}, before: docs{"0": {"count": nil}, "1": {"count": 3}}, n: 1,
			want: map[string]any{"num_shards": int64(1)}, after: docs{"0": {"count": nil}, "1": {"count": int64(3)}},
			errors: []string{"shards/1: no shard below 1 can take it", `"count"`, "shards/0 is not a number"}},
		{name: "beyond 2^53", counter: map[string]any{"num_shards": 2}, before: docs{"0": {"count": far + 1}, "1": {"count": far + 2}}, n: 1,
			want: map[string]any{"num_shards": int64(1)}, after: docs{"0": {"count": int64(2*far + 3)}}},
		{name: "doubles", counter: map[string]any{"num_shards": 3}, before: docs{"0": {"count": 1}, "1": {"count": 0.25}, "2": {"count": 0.0}}, n: 1,
			want: map[string]any{"num_shards": int64(1)}, after: docs{"0": {"count": 1.25}}},
		{name: "up to the bound", counter: map[string]any{"num_shards": 3}, before: docs{"0": {"count": maxTotal - 5}, "1": {"count": 2}, "2": {"count": 3}}, n: 1,
			want: map[string]any{"num_shards": int64(1)}, after: docs{"0": {"count": int64(maxTotal)}}},
		{name: "at the bound, into a shard that does not exist", counter: map[string]any{"num_shards": 2}, before: docs{"1": {"count": -maxTotal}}, n: 1,
			want: map[string]any{"num_shards": int64(1)}, after: docs{"0": {"count": int64(-maxTotal)}}},
		{name: "beyond the bound", counter: map[string]any{"num_shards": 2}, before: docs{"1": {"count": maxTotal + 1}}, n: 1,
			want: map[string]any{"num_shards": int64(1)}, after: docs{"1": {"count": int64(maxTotal + 1)}},
			errors: []string{"shards/1: no shard below 1 can take it", "out of range"}},
		{name: "another shard has room", counter: map[string]any{"num_shards": 3}, before: docs{"0": {"count": math.MaxInt64}, "1": {"count": 1}, "2": {"count": 1}}, n: 2,
			want: map[string]any{"num_shards": int64(2)}, after: docs{"0": {"count": int64(math.MaxInt64)}, "1": {"count": int64(2)}}},
		{name: "another shard is well", counter: map[string]any{"num_shards": 5},
			before: docs{"0": {"count": "7"}, "1": {"count": math.Inf(1)}, "3": {"count": 1}}, n: 3,
			want: map[string]any{"num_shards": int64(3)}, after: docs{"0": {"count": "7"}, "1": {"count": math.Inf(1)}, "2": {"count": int64(1)}}},
		{name: "no room", counter: map[string]any{"num_shards": 3}, before: docs{"0": {"count": math.MaxInt64}, "1": {"count": 1}, "2": {"likes": 1}}, n: 1,
			want: map[string]any{"num_shards": int64(1)}, after: docs{"0": {"count": int64(math.MaxInt64), "likes": int64(1)}, "1": {"count": int64(1)}},
			errors: []string{"shards/1: no shard below 1 can take it", `"count"`, "shards/0 holds 9223372036854775807"}},
		{name: "a field that is not a number is not lost", counter: map[string]any{"num_shards": 5},
			before: docs{"1": {"count": 1, "note": "x"}, "2": {"count": 2}, "3": {"count": math.Inf(-1)}, "4": {"count": nil}}, n: 1,
			want:   map[string]any{"num_shards": int64(1)},
			after:  docs{"0": {"count": int64(2)}, "1": {"count": int64(1), "note": "x"}, "3": {"count": math.Inf(-1)}, "4": {"count": nil}},
			errors: []string{`shards/1: field "note" is "x"`, `shards/3: field "count" is -Inf`, `shards/4: field "count" is <nil>`}},
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
				err := c.Resize(t.Context(), tt.n)
				if errors.Is(err, ErrNotFolded) != (tt.errors != nil) || err != nil && tt.errors == nil {
					t.Fatalf("error %v, want ErrNotFolded: %v", err, tt.errors != nil)
				}
				for _, want := range tt.errors {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("error %v, want one that says %q", err, want)
					}
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
	if err := New(client, "counters/c", NumShards(3)).Resize(t.Context(), 2); !errors.Is(err, ErrNumShards) {
		t.Errorf("error %v, want ErrNumShards", err)
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

// TestResizeFixed: the number is in the app's code, so there is only folding to do.
func TestResizeFixed(t *testing.T) {
	client := emulatortest.Client(t)
	set(t, client, map[string]map[string]any{"counters/c/shards/0": {"count": 1}, "counters/c/shards/3": {"count": 2}})
	c := New(client, "counters/c", NumShards(2))
	if err := c.Resize(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if doc := read(t, client, "counters/c"); doc != nil {
		t.Errorf("counter document %v, want none", doc)
	}
	want := map[string]map[string]any{"0": {"count": int64(3)}}
	if diff := cmp.Diff(want, list(t, client, "counters/c/shards")); diff != "" {
		t.Errorf("shards (-want +got):\n%s", diff)
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
		for nth := 1; nth <= 3; nth++ { // num_shards and two folds
			for _, lost := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v, commit %d, lost %v", code, nth, lost), func(t *testing.T) {
					t.Parallel()
					w, client := newWire(t)
					set(t, client, map[string]map[string]any{"counters/c": {"num_shards": 4},
						"counters/c/shards/0": {"count": 1}, "counters/c/shards/2": {"count": 2}, "counters/c/shards/3": {"count": 4}})
					injected := false
					fault := func(method string, n int) error {
						if method == "Commit" && n == 4+nth {
							injected = true
							return status.Error(code, "injected")
						}
						return nil
					}
					w.fail(lost, fault)
					c := New(client, "counters/c")
					err := c.Resize(t.Context(), 1)
					wantTotal(t, c, int64(7))
					if err != nil {
						err = c.Resize(t.Context(), 1)
					}
					if err != nil {
						t.Fatal(err)
					}
					want := map[string]map[string]any{"0": {"count": int64(7)}}
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
	t.Run("refused", func(t *testing.T) {
		w, client := newWire(t)
		set(t, client, map[string]map[string]any{"counters/c": {"num_shards": 1}, "counters/c/shards/1": {"count": 1}})
		w.before = func(method string, n int) error {
			if method == "Commit" && n > 3 {
				return status.Error(codes.PermissionDenied, "injected")
			}
			return nil
		}
		if err := New(client, "counters/c").Resize(t.Context(), 1); status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "shards/1") {
			t.Errorf("error %v, want PermissionDenied for shards/1", err)
		}
	})
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

// TestResizeRaces has a client write between the read of a fold and its commit.
func TestResizeRaces(t *testing.T) {
	type docs = map[string]map[string]any
	tests := []struct {
		name   string
		before []any // shards 0 and 1; nil: there is none
		write  func(shards *firestore.CollectionRef) error
		after  docs
	}{
		{"the surplus shard grows", []any{1, 2}, addTo("1", 10), docs{"0": {"count": int64(13), "other": int64(200)}}},
		{"the surplus shard goes", []any{1, 2}, func(shards *firestore.CollectionRef) error {
			_, err := shards.Doc("1").Delete(context.Background())
			return err
		}, docs{"0": {"count": int64(1), "other": int64(100)}}},
		{"the kept shard grows", []any{1, 2}, addTo("0", 10), docs{"0": {"count": int64(13), "other": int64(200)}}},
		{"the kept shard grows beyond the bound", []any{maxTotal - 5, 3}, addTo("0", 4), docs{"0": {"count": int64(maxTotal + 2), "other": int64(200)}}},
		{"the kept shard comes", []any{nil, 3}, create("0", 5), docs{"0": {"count": int64(8), "other": int64(100)}}},
		{"the kept shard goes", []any{1, 2}, func(shards *firestore.CollectionRef) error {
			_, err := shards.Doc("0").Delete(context.Background())
			return err
		}, docs{"0": {"count": int64(2), "other": int64(100)}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, client := newWire(t)
			c := New(client, "counters/c")
			set(t, client, docs{"counters/c": {"num_shards": 2}})
			for i, count := range tt.before {
				if count != nil {
					set(t, client, docs{fmt.Sprintf("counters/c/shards/%d", i): {"count": count, "other": 100}})
				}
			}
			project := strings.Split(c.doc.Path, "/")[1]
			other := emulatortest.ClientDatabase(t, project, firestore.DefaultDatabaseID)
			fold := w.sent("Commit") + 2 // after num_shards
			w.before = func(method string, n int) error {
				if method == "Commit" && n == fold {
					return tt.write(other.Collection("counters/c/shards"))
				}
				return nil
			}
			if err := c.Resize(t.Context(), 1); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(tt.after, list(t, client, "counters/c/shards")); diff != "" {
				t.Errorf("shards (-want +got):\n%s", diff)
			}
		})
	}
}

// TestResizeOvertakenAgain: a surplus shard may go and come again as often as it likes. Resize
// counts none of these as a failure. The emulator answers the commit with FAILED_PRECONDITION.
// Firestore's documentation names no code, and NOT_FOUND is its usual answer for a document that is
// gone.
func TestResizeOvertakenAgain(t *testing.T) {
	for name, answer := range map[string]error{"the emulator's answer": nil, "NOT_FOUND": status.Error(codes.NotFound, "injected")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, client := newWire(t)
			set(t, client, map[string]map[string]any{"counters/c": {"num_shards": 2}, "counters/c/shards/0": {"count": 1}, "counters/c/shards/1": {"count": 2}})
			c := New(client, "counters/c")
			project := strings.Split(c.doc.Path, "/")[1]
			surplus := emulatortest.ClientDatabase(t, project, firestore.DefaultDatabaseID).Doc("counters/c/shards/1")

			fold, left := w.sent("Commit")+2, foldAttempts+1 // after num_shards
			w.before = func(method string, n int) error {
				switch {
				case method == "Commit" && n >= fold && left > 0:
					left--
					_, err := surplus.Delete(context.Background())
					return errors.Join(err, answer)
				case method == "BatchGetDocuments" && w.calls["Commit"] >= fold:
					_, err := surplus.Set(context.Background(), map[string]any{"count": 2})
					return err
				}
				return nil
			}
			if err := c.Resize(t.Context(), 1); err != nil || left > 0 {
				t.Errorf("%v, %d races left", err, left)
			}
			want := map[string]map[string]any{"0": {"count": int64(3)}}
			if diff := cmp.Diff(want, list(t, client, "counters/c/shards")); diff != "" {
				t.Errorf("shards (-want +got):\n%s", diff)
			}
		})
	}
}

// TestResizeTriesEachShardOnce: a surplus shard that no other can take is named after one look at
// each.
func TestResizeTriesEachShardOnce(t *testing.T) {
	const n = 3
	w, client := newWire(t)
	set(t, client, map[string]map[string]any{"counters/c": {"num_shards": n}, "counters/c/shards/7": {"count": 1}})
	for i := range n {
		set(t, client, map[string]map[string]any{fmt.Sprint("counters/c/shards/", i): {"count": "text"}})
	}
	c := New(client, "counters/c")
	if err := c.Resize(t.Context(), n); !errors.Is(err, ErrNotFolded) {
		t.Errorf("error %v, want ErrNotFolded", err)
	}
	if reads := w.sent("BatchGetDocuments"); reads != 1+n {
		t.Errorf("%d reads, want one of the counter document and %d of shards", reads, n)
	}
}

func create(id string, n int64) func(*firestore.CollectionRef) error {
	return func(shards *firestore.CollectionRef) error {
		_, err := shards.Doc(id).Create(context.Background(), map[string]any{"count": n})
		return err
	}
}

func addTo(id string, n int64) func(*firestore.CollectionRef) error {
	return func(shards *firestore.CollectionRef) error {
		_, err := shards.Doc(id).Update(context.Background(), []firestore.Update{{Path: "count", Value: firestore.Increment(n)}})
		return err
	}
}
