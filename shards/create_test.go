package shards

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestCreate(t *testing.T) {
	t.Parallel()
	tests := []struct {
		numShards int
		opts      []Option
		commits   int
	}{
		{1, nil, 1},
		{10, nil, 1},
		{499, nil, 1},
		{500, nil, 2},
		{501, nil, 2},
		{1000, nil, 3},
		{499, []Option{NumShards(499)}, 1},
		{500, []Option{NumShards(500)}, 2},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%d shards, %d options", tt.numShards, len(tt.opts)), func(t *testing.T) {
			t.Parallel()
			w, client := newWire(t)
			c := New(client, "counters/c", tt.opts...)
			if err := c.Create(t.Context(), tt.numShards); err != nil {
				t.Fatal(err)
			}

			var counter map[string]any // not written if the app's code keeps the number
			if tt.opts == nil {
				counter = map[string]any{"num_shards": int64(tt.numShards)}
			}
			if diff := cmp.Diff(counter, read(t, client, "counters/c")); diff != "" {
				t.Errorf("counter document (-want +got):\n%s", diff)
			}
			want := map[string]map[string]any{}
			for i := range tt.numShards {
				want[fmt.Sprint(i)] = map[string]any{"count": int64(0)}
			}
			if diff := cmp.Diff(want, list(t, client, "counters/c/shards")); diff != "" {
				t.Errorf("shards (-want +got):\n%s", diff)
			}
			if got := w.sent("Commit"); got != tt.commits || w.most > shardsPerCommit+1 {
				t.Errorf("%d commits of up to %d writes, want %d of up to %d", got, w.most, tt.commits, shardsPerCommit+1)
			}
		})
	}
}

func TestCreateRefuses(t *testing.T) {
	w, client := newWire(t)
	for _, n := range []int{0, -1} {
		err := New(client, "counters/c").Create(t.Context(), n)
		if want := fmt.Sprintf("number of shards is %d, want at least 1", n); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Create(%d): error %v, want one that says %q", n, err, want)
		}
	}
	err := New(client, "counters/c", NumShards(3)).Create(t.Context(), 4)
	wantErrNumShards(t, err, 3, 4)
	if len(w.calls) > 0 {
		t.Errorf("requests sent: %v, want none", w.calls)
	}
}

func wantErrNumShards(t *testing.T, err error, has, not int) {
	t.Helper()
	if !errors.Is(err, ErrNumShards) {
		t.Errorf("error %v, want ErrNumShards", err)
	} else if want := fmt.Sprintf("%d, not %d", has, not); !strings.Contains(strings.ReplaceAll(err.Error(), " by option", ""), want) {
		t.Errorf("error %q does not say %q", err, want)
	} else if strings.Contains(err.Error(), "perhaps") {
		t.Errorf("error %q: what was found before a write is no doubt", err)
	}
}

// TestCreateAuto makes a counter that grows, of nothing or of one that exists.
func TestCreateAuto(t *testing.T) {
	t.Parallel()
	zeros := func(n int) map[string]map[string]any {
		shards := map[string]map[string]any{}
		for i := range n {
			shards[fmt.Sprint(i)] = map[string]any{"count": int64(0)}
		}
		return shards
	}
	for _, tt := range []struct {
		name          string
		counter, want map[string]any
		shards        int
	}{
		{"nothing", nil, map[string]any{"num_shards": int64(DefaultNumShards), "auto_shards": true}, DefaultNumShards},
		{"other fields", map[string]any{"title": "x"}, map[string]any{"title": "x", "num_shards": int64(DefaultNumShards), "auto_shards": true}, DefaultNumShards},
		{"a number", map[string]any{"num_shards": 3}, map[string]any{"num_shards": int64(3), "auto_shards": true}, 3},
		{"the other spelling", map[string]any{"numShards": 600}, map[string]any{"numShards": int64(600), "auto_shards": true}, 600},
		{"it grows already", map[string]any{"num_shards": 3, "auto_shards": true}, map[string]any{"num_shards": int64(3), "auto_shards": true}, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			client := emulatortest.Client(t)
			if tt.counter != nil {
				set(t, client, map[string]map[string]any{"counters/c": tt.counter})
			}
			for range 2 {
				if err := New(client, "counters/c").CreateAuto(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(tt.want, read(t, client, "counters/c")); diff != "" {
				t.Errorf("counter document (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(zeros(tt.shards), list(t, client, "counters/c/shards")); diff != "" {
				t.Errorf("shards (-want +got):\n%s", diff)
			}
		})
	}

	client := emulatortest.Client(t)
	set(t, client, map[string]map[string]any{"counters/c": {"num_shards": "many"}})
	if err := New(client, "counters/c").CreateAuto(t.Context()); err == nil || !strings.Contains(err.Error(), `num_shards of`) {
		t.Errorf("num_shards is a text: error %v", err)
	}
	if err := New(client, "counters/d", NumShards(3)).CreateAuto(t.Context()); err == nil || !strings.Contains(err.Error(), "in the app's code") {
		t.Errorf("a fixed number: error %v", err)
	}
}

// TestCreateAgain creates over what is there already.
func TestCreateAgain(t *testing.T) {
	type docs = map[string]map[string]any
	shards := docs{"counters/c/shards/0": {"count": 7, "likes": 1}, "counters/c/shards/2": {"count": 0.5}, "counters/c/shards/9": {"count": 3}}
	tests := []struct {
		name    string
		counter map[string]any
		create  int

		want map[string]any // the counter document, unless Create must fail
		has  int            // what it has instead of what Create wants
	}{
		{"nothing else", nil, 3, map[string]any{"num_shards": int64(3)}, 0},
		{"same number", map[string]any{"num_shards": 3}, 3, map[string]any{"num_shards": int64(3)}, 0},
		{"same number in camel case", map[string]any{"numShards": 3}, 3, map[string]any{"numShards": int64(3)}, 0},
		{"other fields", map[string]any{"title": "x"}, 3, map[string]any{"title": "x", "num_shards": int64(3)}, 0},
		{"more shards", map[string]any{"num_shards": 2}, 3, nil, 2},
		{"fewer shards", map[string]any{"numShards": 5}, 3, nil, 5},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			client := emulatortest.Client(t)
			set(t, client, shards)
			if tt.counter != nil {
				set(t, client, docs{"counters/c": tt.counter})
			}
			before := list(t, client, "counters/c/shards")

			c := New(client, "counters/c")
			for range 2 {
				err := c.Create(t.Context(), tt.create)
				if tt.has != 0 {
					wantErrNumShards(t, err, tt.has, tt.create)
					if diff := cmp.Diff(before, list(t, client, "counters/c/shards")); diff != "" {
						t.Errorf("shards after a refused Create (-want +got):\n%s", diff)
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				want := map[string]map[string]any{
					"0": {"count": int64(7), "likes": int64(1)}, "1": {"count": int64(0)}, "2": {"count": 0.5}, "9": {"count": int64(3)},
				}
				if diff := cmp.Diff(want, list(t, client, "counters/c/shards")); diff != "" {
					t.Errorf("shards (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tt.want, read(t, client, "counters/c")); diff != "" {
					t.Errorf("counter document (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// TestCreateCutShort: what a Create that failed between two commits left behind is a
// working counter, and the next Create finishes it.
func TestCreateCutShort(t *testing.T) {
	w, client := newWire(t)
	w.before = func(method string, nth int) error {
		if method == "Commit" && nth == 2 {
			return status.Error(codes.PermissionDenied, "cut short")
		}
		return nil
	}
	c := New(client, "counters/c")
	err := c.Create(t.Context(), 600)
	if status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "499 of 600 writes are done, the next 101 perhaps") {
		t.Fatalf("error %v, want PermissionDenied and how far it came", err)
	}
	if got := len(list(t, client, "counters/c/shards")); got != 499 {
		t.Errorf("%d shards after the first commit, want 499", got)
	}
	if _, err := c.Increment(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), 600); err != nil {
		t.Fatal(err)
	}
	if got := len(list(t, client, "counters/c/shards")); got != 600 {
		t.Errorf("%d shards, want 600", got)
	}
	wantTotal(t, c, int64(5))
}

// TestCreateAnswerLost: Create may report an error although it was done, and can then
// be called again.
func TestCreateAnswerLost(t *testing.T) {
	w, client := newWire(t)
	w.after = func(method string, nth int) error {
		if method == "Commit" && nth == 1 {
			return status.Error(codes.Unavailable, "answer lost")
		}
		return nil
	}
	c := New(client, "counters/c")
	if err := c.Create(t.Context(), 3); err == nil {
		t.Error("no error, want that of the commit sent again")
	}
	if err := c.Create(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	if got := len(list(t, client, "counters/c/shards")); got != 3 {
		t.Errorf("%d shards, want 3", got)
	}
}

// TestCreateConcurrently: two servers that disagree about the number of shards end
// with one number, and one of them knows.
func TestCreateConcurrently(t *testing.T) {
	client := emulatortest.Client(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	errs := map[int]error{}
	for _, n := range []int{20, 30} {
		wg.Go(func() {
			err := New(client, "counters/c").Create(t.Context(), n)
			mu.Lock()
			defer mu.Unlock()
			errs[n] = err
		})
	}
	wg.Wait()
	got := int(read(t, client, "counters/c")["num_shards"].(int64))
	other := 50 - got
	if errs[got] != nil {
		t.Errorf("num_shards is %d, yet its Create returned %v", got, errs[got])
	}
	wantErrNumShards(t, errs[other], got, other)
	if n := len(list(t, client, "counters/c/shards")); n != got {
		t.Errorf("%d shards, want %d", n, got)
	}
}

// TestCreateUnderLoad: Create loses no concurrent increment.
func TestCreateUnderLoad(t *testing.T) {
	client := emulatortest.Client(t)
	const writers, each = 8, 40
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			// One Counter per writer, as in servers that do not know of one another.
			c := New(client, "counters/c")
			for range each {
				if _, err := c.Increment(t.Context(), 1); err != nil {
					t.Error(err)
				}
			}
		})
	}
	c := New(client, "counters/c")
	for range 3 {
		if err := c.Create(t.Context(), 600); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	wantTotal(t, c, int64(writers*each))
}
