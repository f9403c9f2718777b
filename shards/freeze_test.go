package shards

import (
	"context"
	"strings"
	"testing"

	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestFreeze: one field of the counter document, and nothing else. e2e/rules shows what it
// does to clients.
func TestFreeze(t *testing.T) {
	type doc = map[string]any
	for _, tt := range []struct {
		name   string
		has    doc // the counter document
		freeze bool
		want   doc
	}{
		{"no document", nil, true, doc{"frozen": true}},
		{"a document", doc{"num_shards": 3, "title": "x"}, true, doc{"num_shards": int64(3), "title": "x", "frozen": true}},
		{"again", doc{"frozen": true}, true, doc{"frozen": true}},
		{"what an app wrote there", doc{"frozen": "yes"}, true, doc{"frozen": true}},
		{"open, no document", nil, false, nil},
		{"open, a document", doc{"num_shards": 3, "frozen": true}, false, doc{"num_shards": int64(3)}},
		{"open, nothing else in it", doc{"frozen": true}, false, doc{}},
		{"open again", doc{"num_shards": 3}, false, doc{"num_shards": int64(3)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			client := emulatortest.Client(t)
			c := New(client, "counters/c")
			set(t, client, map[string]map[string]any{"counters/c/shards/0": {"count": 1}})
			if tt.has != nil {
				set(t, client, map[string]map[string]any{"counters/c": tt.has})
			}
			call := (*Counter).Unfreeze
			if tt.freeze {
				call = (*Counter).Freeze
			}
			if err := call(c, t.Context()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, read(t, client, "counters/c")); diff != "" {
				t.Errorf("counter document (-want +got):\n%s", diff)
			}
			// A server is not bound.
			if _, err := c.Increment(t.Context(), 1); err != nil {
				t.Error(err)
			}
			wantTotal(t, c, int64(2))
		})
	}
}

// TestFreezeRefused: without a counter document nothing can be said, and a failure says what was
// tried.
func TestFreezeRefused(t *testing.T) {
	w, client := newWire(t)
	w.before = func(method string, _ int) error {
		if method == "Commit" {
			return status.Error(codes.PermissionDenied, "injected")
		}
		return nil
	}
	for what, call := range map[string]func(*Counter, context.Context) error{"freeze": (*Counter).Freeze, "unfreeze": (*Counter).Unfreeze} {
		if err := call(New(client, "samples/php", NumShards(3)), t.Context()); err == nil || !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), "no counter document") {
			t.Errorf("%s of a counter without a document: %v", what, err)
		}
		if err := call(New(client, "counters/c"), t.Context()); status.Code(err) != codes.PermissionDenied || !strings.HasPrefix(err.Error(), "shards: "+what) {
			t.Errorf("%s: %v, want PermissionDenied", what, err)
		}
	}
	if doc := read(t, client, "samples/php"); doc != nil {
		t.Errorf("samples/php was written: %v", doc)
	}
}
