package firestorestore_test

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/firestorestore"
	"github.com/firestore-tally/tally/internal/storetest"
	"github.com/firestore-tally/tally/rollup"
)

func TestPendingStore(t *testing.T) {
	storetest.RunPending(t, func(t *testing.T) rollup.PendingStore {
		return firestorestore.New(dial(t), slog.New(slog.DiscardHandler))
	})
}

// A mark is of a new version even where nothing in it tells.
func TestMarksOfOneInstant(t *testing.T) {
	t.Parallel()
	store := firestorestore.New(dial(t), slog.New(slog.DiscardHandler))
	now := time.Now()
	store.SetClock(func() time.Time { return now })
	var versions []time.Time
	for range 2 {
		if err := store.Mark(t.Context(), counter(t, rollup.DefaultRoute)); err != nil {
			t.Fatal(err)
		}
		err := store.Marks(t.Context(), func(m rollup.Mark) error { versions = append(versions, m.Version); return nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(versions) != 2 || !versions[1].After(versions[0]) {
		t.Errorf("versions %v", versions)
	}
}

// All marks of a queue that is longer than a page are read, and beside them those of another.
func TestLongQueue(t *testing.T) {
	t.Parallel()
	client := dial(t)
	batch := client.BulkWriter(t.Context())
	var want []string
	for n := range 250 {
		queue := min(n%10, 1)
		want = append(want, fmt.Sprintf("counters/%d/shards", n))
		_, err := batch.Create(client.Doc(fmt.Sprintf("rollup_pending/m%d", n)), map[string]any{
			"shards": want[n], "queued": fmt.Sprintf("%d 2026-01-01T00:00:00.%06dZ", queue, n),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	batch.End()
	var got []string
	err := firestorestore.New(client, slog.New(slog.DiscardHandler)).Marks(t.Context(), func(m rollup.Mark) error {
		got = append(got, m.Shards)
		return nil
	})
	slices.Sort(want)
	slices.Sort(got)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %d marks, %v; want %d", len(got), err, len(want))
	}
}
