package storetest

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup"
	"github.com/google/go-cmp/cmp"
)

// testWriteLocked writes a document that has changed since the look, but not its tally.
func testWriteLocked(t *testing.T, b backend) {
	b.Put(t, likes.RollUp, map[string]any{"title": "old"})
	for i, v := range []value.Value{value.Int(math.MaxInt64), value.Double(0.5), value.Null, value.Timestamp(someTime)} {
		seen := open(t, b, likes).RollUp().Tally
		fields := b.Get(t, likes.RollUp)
		fields["title"], fields["a b"], fields["views"] = "new", i, i
		b.Put(t, likes.RollUp, fields)

		r := rolledUp(v, int64(i), someTime.Add(time.Duration(i)*time.Microsecond))
		r.Tally.Took = 15 * time.Millisecond
		r.Tally.Turns = []document.Turn{{Routes: "0f5c", AsOf: someTime}}
		r.Gone = []string{"a b", "unknown", "count", "tally"} // the last two are written all the same
		if err := b.WriteLocked(t.Context(), likes, r, seen); err != nil {
			t.Fatal(err)
		}
		want := map[string]any{"title": "new", "views": int64(i), "count": v.Firestore(), "tally": r.Tally.Encode()}
		if d := cmp.Diff(want, b.Get(t, likes.RollUp)); d != "" {
			t.Errorf("%v: document (-want +got):\n%s", v, d)
		}
		if got := open(t, b, likes).RollUp(); diff(r.Values, got.Values) != "" || !got.Tally.Equal(r.Tally) {
			t.Errorf("%v: a look sees %+v, want %+v", v, got, r)
		}
	}
}

// testLockedRefused changes what a locked write rests on. The write is refused and leaves no lock,
// so the next write of the document goes well.
func testLockedRefused(t *testing.T, b backend) {
	tally := document.Tally{
		AsOf: someTime, NumShards: 7, PacedUntil: someTime.Add(time.Second), Routes: "5f0c", Totals: []string{"count"}, Former: []string{"views"},
		Took: 15 * time.Millisecond, Turns: []document.Turn{{Routes: "0f5c", AsOf: someTime}},
	}
	other := tally
	other.AsOf = someTime.Add(time.Microsecond)
	for _, test := range []struct {
		name string
		seen document.Tally
		now  any // the field tally
	}{
		{"another roll-up", tally, other.Encode()},
		{"the first roll-up", document.Tally{}, tally.Encode()},
		{"no tally any more", tally, nil},
		{"a string in place of a tally", tally, "7"},
	} {
		fields := map[string]any{"title": "x"}
		if test.now != nil {
			fields["tally"] = test.now
		}
		b.Put(t, likes.RollUp, fields)
		err := b.WriteLocked(t.Context(), likes, rolledUp(value.Int(9), 9, someTime.Add(time.Hour)), test.seen)
		if !errors.Is(err, rollup.ErrConflict) {
			t.Errorf("%s: got %v, want ErrConflict", test.name, err)
		}
		if d := cmp.Diff(fields, b.Get(t, likes.RollUp)); d != "" {
			t.Errorf("%s: a refused write changed the document (-want +got):\n%s", test.name, d)
		}
	}

	for _, seen := range []document.Tally{{}, tally} {
		b.Delete(t, likes.RollUp)
		err := b.WriteLocked(t.Context(), likes, rolledUp(value.Int(9), 9, someTime), seen)
		if !errors.Is(err, rollup.ErrConflict) {
			t.Errorf("without a document: got %v, want ErrConflict", err)
		}
		if got := b.Get(t, likes.RollUp); got != nil {
			t.Errorf("a refused write created %v", got)
		}
	}

	b.Put(t, likes.RollUp, map[string]any{"title": "x"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.WriteLocked(ctx, likes, rolledUp(value.Int(9), 9, someTime), document.Tally{}); err == nil {
		t.Error("WriteLocked on an ended context succeeded")
	}
}

// testLockedByMany has many instances write at once, each in a lock, and one without.
func testLockedByMany(t *testing.T, b backend) {
	b.Put(t, likes.RollUp, map[string]any{"title": "x"})
	for round := range 3 {
		read := open(t, b, likes).RollUp()
		var mu sync.Mutex
		won := 0
		var many sync.WaitGroup
		for i := range 4 {
			many.Go(func() {
				r := rolledUp(value.Int(int64(i)), 1, someTime.Add(time.Duration(8*round+i)*time.Microsecond))
				r.UpdateTime = read.UpdateTime
				var err error
				if i == 0 {
					err = b.Write(t.Context(), likes, r)
				} else {
					err = b.WriteLocked(t.Context(), likes, r, read.Tally)
				}

				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					won++
				case !errors.Is(err, rollup.ErrConflict):
					t.Errorf("got %v, want nil or ErrConflict", err)
				}
			})
		}
		many.Wait()
		if won > 1 { // none, if each had the others' locks in its way
			t.Errorf("round %d: %d of 4 writes over one roll-up succeeded, want one at most", round, won)
		}
	}
}
