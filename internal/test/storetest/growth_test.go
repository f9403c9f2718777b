package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/cloud/growth"
	"github.com/google/go-cmp/cmp"
)

func testLook(t *testing.T, b backend) {
	const counter = "counters/c"
	shards := []string{counter + "/shards/0", counter + "/shards/1", counter + "/shards/2"}
	look, err := b.Look(t.Context(), counter, shards)
	if want := (growth.Look{Ages: []time.Duration{growth.Never, growth.Never, growth.Never}}); err != nil || !cmp.Equal(want, look) {
		t.Errorf("of nothing: %+v, %v", look, err)
	}

	b.Put(t, shards[0], map[string]any{"count": 1})
	updated := b.Put(t, counter, map[string]any{"num_shards": 3, "auto_shards": true, "frozen": false})
	first := b.Put(t, shards[2], map[string]any{"count": "text"})
	last := b.Put(t, shards[0], map[string]any{"count": 2})
	look, err = b.Look(t.Context(), counter, shards)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]any{"num_shards": int64(3), "auto_shards": true, "frozen": false}, look.Counter); d != "" || !look.UpdateTime.Equal(updated) {
		t.Errorf("counter of %v, want %v (-want +got):\n%s", look.UpdateTime, updated, d)
	}
	slices.Sort(look.Ages) // they may come in any order
	if len(look.Ages) != 3 || look.Ages[0] < 0 || look.Ages[1]-look.Ages[0] != last.Sub(first) || look.Ages[2] != growth.Never {
		t.Errorf("ages %v, want two that differ by %v, and never", look.Ages, last.Sub(first))
	}

	look, err = b.Look(t.Context(), counter, nil)
	if err != nil || len(look.Ages) > 0 || !look.UpdateTime.Equal(updated) {
		t.Errorf("of the counter alone: %+v, %v", look, err)
	}
}

func testRaise(t *testing.T, b backend) {
	const counter = "counters/c"
	b.Put(t, counter+"/shards/1", map[string]any{"count": 5, "likes": 2.5, "own": "x"})
	b.Put(t, counter+"/shards/2", map[string]any{"count": "text"})
	at := b.Put(t, counter, map[string]any{"num_shards": 1, "title": "x"})
	fields := []string{"count", "likes"}
	r := growth.Raise{Counter: counter, UpdateTime: at, Fields: map[string]any{"num_shards": int64(4)}}
	for n := 1; n < 4; n++ {
		r.Shards = append(r.Shards, growth.Shard{Path: fmt.Sprintf("%s/shards/%d", counter, n), Fields: fields})
	}
	if err := b.Raise(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]map[string]any{
		counter:               {"num_shards": int64(4), "title": "x"},
		counter + "/shards/0": nil,
		counter + "/shards/1": {"count": int64(5), "likes": 2.5, "own": "x"},
		counter + "/shards/2": {"count": int64(0), "likes": int64(0)},
		counter + "/shards/3": {"count": int64(0), "likes": int64(0)},
	} {
		if d := cmp.Diff(want, b.Get(t, path)); d != "" {
			t.Errorf("%s (-want +got):\n%s", path, d)
		}
	}
}

// Nothing of a raise happens if the counter's document is not as it was looked at.
func testRaiseRefused(t *testing.T, b backend) {
	const counter = "counters/c"
	at := b.Put(t, counter, map[string]any{"num_shards": 1})
	r := growth.Raise{Counter: counter, UpdateTime: at, Fields: map[string]any{"num_shards": int64(2)},
		Shards: []growth.Shard{{Path: counter + "/shards/1", Fields: []string{"count"}}}}
	now := map[string]any{"num_shards": int64(7)}
	b.Put(t, counter, now)
	for range 2 {
		if err := b.Raise(t.Context(), r); err == nil {
			t.Error("no error")
		}
		if d := cmp.Diff(now, b.Get(t, counter)); d != "" || b.Get(t, counter+"/shards/1") != nil {
			t.Errorf("the counter (-want +got):\n%s\nand its new shard %v, want none", d, b.Get(t, counter+"/shards/1"))
		}
		b.Delete(t, counter)
		now = nil
	}
}
