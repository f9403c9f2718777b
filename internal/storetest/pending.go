package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/firestore-tally/tally/rollup"
)

// RunPending runs the suite of a store that is a rollup.PendingStore. Each call of open returns an
// empty database.
func RunPending(t *testing.T, open func(t *testing.T) rollup.PendingStore) {
	for _, test := range []struct {
		name string
		f    func(*testing.T, rollup.PendingStore)
	}{
		{"Marks of nothing", testNoMarks},
		{"Mark is there once", testMarkOnce},
		{"Marks come oldest first", testMarksInOrder},
		{"Marks ends with the function's error", testMarksEnd},
		{"Unmark takes a version away", testUnmark},
		{"Unmark leaves a newer version", testUnmarkNewer},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.f(t, open(t))
		})
	}
}

func mark(t *testing.T, s rollup.PendingStore, c rollup.Counter) {
	t.Helper()
	if err := s.Mark(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

func marks(t *testing.T, s rollup.PendingStore) (marks []rollup.Mark) {
	t.Helper()
	if err := s.Marks(t.Context(), func(m rollup.Mark) error { marks = append(marks, m); return nil }); err != nil {
		t.Fatal(err)
	}
	return marks
}

func testNoMarks(t *testing.T, s rollup.PendingStore) {
	if got := marks(t, s); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

func testMarkOnce(t *testing.T, s rollup.PendingStore) {
	if marked, err := s.Marked(t.Context(), likes); err != nil || marked {
		t.Errorf("marked before: %v, %v", marked, err)
	}
	mark(t, s, likes)
	if marked, err := s.Marked(t.Context(), likes); err != nil || !marked {
		t.Errorf("marked after: %v, %v", marked, err)
	}
	first := marks(t, s)
	mark(t, s, likes)
	second := marks(t, s)
	if len(first) != 1 || len(second) != 1 {
		t.Fatalf("got %v, then %v; want one mark each", first, second)
	}
	if first[0].Shards != likes.Shards {
		t.Errorf("got %+v, want that of %s", first[0], likes.Shards)
	}
	if !second[0].Version.After(first[0].Version) {
		t.Errorf("the second marking is of version %v, the first of %v", second[0].Version, first[0].Version)
	}
}

func testMarksInOrder(t *testing.T, s rollup.PendingStore) {
	const n = 250
	for i := range n {
		mark(t, s, counter(rollup.DefaultRoute, fmt.Sprintf("counters/%d/shards", i)))
	}
	mark(t, s, counter(rollup.DefaultRoute, "counters/0/shards")) // made anew: now the youngest
	got := marks(t, s)
	if len(got) != n || got[0].Shards != "counters/1/shards" || got[n-1].Shards != "counters/0/shards" {
		t.Fatalf("got %d marks, from %+v to %+v", len(got), got[0], got[len(got)-1])
	}
	if !slices.IsSortedFunc(got, func(a, b rollup.Mark) int { return a.Version.Compare(b.Version) }) {
		t.Error("not in order")
	}
}

func testMarksEnd(t *testing.T, s rollup.PendingStore) {
	mark(t, s, likes)
	mark(t, s, counter(rollup.DefaultRoute, "counters/other/shards"))
	enough := errors.New("enough")
	calls := 0
	if err := s.Marks(t.Context(), func(rollup.Mark) error { calls++; return enough }); !errors.Is(err, enough) || calls != 1 {
		t.Errorf("got %v after %d calls, want %v after 1", err, calls, enough)
	}
}

func testUnmark(t *testing.T, s rollup.PendingStore) {
	mark(t, s, likes)
	m := marks(t, s)[0]
	if err := s.Unmark(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if got := marks(t, s); len(got) != 0 {
		t.Errorf("%v is still there", got)
	}
	if err := s.Unmark(t.Context(), m); !errors.Is(err, rollup.ErrConflict) {
		t.Errorf("removed twice: got %v, want ErrConflict", err)
	}
}

func testUnmarkNewer(t *testing.T, s rollup.PendingStore) {
	mark(t, s, likes)
	m := marks(t, s)[0]
	mark(t, s, likes)
	if err := s.Unmark(t.Context(), m); !errors.Is(err, rollup.ErrConflict) {
		t.Errorf("got %v, want ErrConflict", err)
	}
	if got := marks(t, s); len(got) != 1 {
		t.Errorf("the newer mark is gone")
	}
}
