package firestorestore_test

import (
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
)

// What Tally stores has the names that are told here, whatever its Go fields are called. The next
// revision, and other languages, read what this one has written.
func TestStoredForm(t *testing.T) {
	client := dial(t)
	store := open(t, client)
	likes := counter(t, route.Default)
	at := time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)
	save := func(of rollup.Work, c rollup.Cursor) error {
		_, err := store.SaveCursor(t.Context(), of, c)
		return err
	}

	for _, test := range []struct {
		path  string
		write func() error
		want  map[string]any
	}{
		{
			"rollup_audit/cursor",
			func() error {
				return save(rollup.Auditing, rollup.Cursor{
					Routes: "a\nb", Places: []rollup.Place{{From: "rollups/x", Reads: 200, Last: 4000}, {Done: true}, {From: "r/7", Failed: true}},
					Revision: "r", Database: "d", New: at, Noted: "note-unkept-5",
					RollUps: rollup.Lap{Began: at, Hurried: true}, Shards: rollup.Lap{Remake: true, Ended: true},
					Tick: at, Complete: at.Add(-time.Hour), Cycle: 90 * time.Minute,
					ReadTime: at,
				})
			},
			map[string]any{"cursor": map[string]any{
				"routes":   "a\nb",
				"places":   []any{map[string]any{"from": "rollups/x", "reads": int64(200), "last": int64(4000)}, map[string]any{"done": true}, map[string]any{"from": "r/7", "failed": true}},
				"revision": "r", "database": "d", "new": at, "noted": "note-unkept-5",
				"roll_ups": map[string]any{"began": at, "hurried": true}, "shards": map[string]any{"remake": true, "ended": true},
				"tick": at, "complete": at.Add(-time.Hour), "cycle": int64(5_400_000_000),
			}},
		},
		{
			"rollup_audit/keep",
			func() error {
				return save(rollup.Keeping, rollup.Cursor{Routes: "a", Places: []rollup.Place{{From: "rollups/x", Began: at}, {}}, Changed: []string{"rollups/a", "rollups/b"}, Quiet: []string{"rollups/c"}})
			},
			map[string]any{"cursor": map[string]any{
				"routes": "a", "places": []any{map[string]any{"from": "rollups/x", "began": at}, map[string]any{}}, "changed": []byte("rollups/a//rollups/b"), "quiet": []byte("rollups/c"),
				"roll_ups": map[string]any{}, "shards": map[string]any{},
			}},
		},
		{
			"rollup_audit/note-all",
			func() error { return store.SaveNote(t.Context(), rollup.Note{ID: "note-all"}) },
			map[string]any{"counters": nil},
		},
		{
			"rollup_audit/note-counters",
			func() error {
				return store.SaveNote(t.Context(), rollup.Note{ID: "note-counters", Counters: map[string]time.Time{"posts/7": at}})
			},
			map[string]any{"counters": []any{map[string]any{"path": "posts/7", "at": at}}},
		},
		{
			"rollup_claims/18edffb5efd158d0dffc9ee348c60907",
			func() error {
				return store.Claim(t.Context(), likes, rollup.Claim{Claim: document.Claim{By: "GEZDGNBV", Over: at}})
			},
			map[string]any{"roll_up": "rollups/likes", "claim": "GEZDGNBV 2026-01-02T03:04:05.678901Z"},
		},
		{
			"rollups/likes",
			func() error {
				return store.Write(t.Context(), likes, rollup.RollUp{
					Values: map[string]value.Value{"count": value.Int(7)},
					Tally: document.Tally{
						AsOf: at, NumShards: 2, PacedUntil: at.Add(time.Second), Routes: "5f0c", Totals: []string{"count"}, Former: []string{"views"},
						Took: 15 * time.Millisecond, Turns: []document.Turn{{Routes: "e1d2", AsOf: at}},
					},
				})
			},
			map[string]any{"count": int64(7), "tally": map[string]any{
				"as_of": at, "num_shards": int64(2), "paced_until": at.Add(time.Second), "routes": "5f0c", "totals": []any{"count"}, "former": []any{"views"},
				"took": int64(15_000), "turns": []any{map[string]any{"routes": "e1d2", "as_of": at}},
			}},
		},
	} {
		if err := test.write(); err != nil {
			t.Errorf("%s: %v", test.path, err)
			continue
		}

		doc, err := client.Doc(test.path).Get(t.Context())
		if err != nil {
			t.Error(err)
			continue
		}
		if d := cmp.Diff(test.want, doc.Data()); d != "" {
			t.Errorf("%s (-want +got):\n%s", test.path, d)
		}
	}
}

// Where there is no cursor, the read of it tells the time all the same. A cursor without paths is
// read without paths.
func TestCursorOfNothing(t *testing.T) {
	store := open(t, dial(t))
	none, err := store.LoadCursor(t.Context(), rollup.Keeping)
	if err != nil || none.ReadTime.IsZero() || !none.UpdateTime.IsZero() {
		t.Errorf("without a cursor: %+v, %v", none, err)
	}

	_, err = store.SaveCursor(t.Context(), rollup.Keeping, rollup.Cursor{Routes: "a"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := store.LoadCursor(t.Context(), rollup.Keeping)
	if err != nil || c.Routes != "a" || len(c.Changed)+len(c.Quiet) > 0 {
		t.Errorf("%+v, %v", c, err)
	}
}
