package shards

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/google/go-cmp/cmp"
)

func TestNewRefuses(t *testing.T) {
	w, client := newWire(t)
	tests := []struct {
		name    string
		counter string
		opts    []Option
		want    string
	}{
		{"an id", "visitors", nil, `"visitors" is not the path of a document`},
		{"a collection", "counters/visitors/shards", nil, `"counters/visitors/shards" is not the path of a document`},
		{"nothing", "", nil, `"" is not the path of a document`},
		{"a leading slash", "/counters/visitors", nil, `"/counters/visitors" is not the path of a document`},
		{"an empty id", "counters/", nil, `"counters/" is not the path of a document`},
		{"a path that is not UTF-8", "counters/a\xff", nil, `"counters/a\xff" is not the path of a document`},
		{"shards in a document", "counters/a", []Option{Collection("samples/php")}, `"samples/php" is not the path of a collection`},
		{"shards in a collection that is not UTF-8", "counters/a", []Option{Collection("\xff")}, `"\xff" is not the path of a collection`},
		{"shards among tokens", "counters/a", []Option{Collection("counters/a/increment_tokens")}, "for the tokens of IncrementOnce"},
		{"a roll-up that is a collection", "counters/a", []Option{RollUpAt("rollups")}, `"rollups" is not the path of a document`},
		{"no field", "counters/a", []Option{Field("")}, "empty field name"},
		{"a field that is not UTF-8", "counters/a", []Option{Field("\xff")}, `field "\xff" is not UTF-8`},
		{"the field tally", "counters/a", []Option{Field("tally")}, "another meaning"},
		{"the number of shards", "counters/a", []Option{Field("num_shards"), RollUpAt("counters/a")}, "another meaning in the counter document"},
		{"its other spelling", "counters/a", []Option{Field("numShards"), RollUpAt("counters/a")}, "another meaning in the counter document"},
		{"frozen", "counters/a", []Option{Field("frozen"), RollUpAt("counters/a")}, "another meaning in the counter document"},
		{"a negative number of shards", "counters/a", []Option{NumShards(-1)}, "number of shards is -1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wantEverywhere(t, New(client, tt.counter, tt.opts...), tt.want)
		})
	}
	t.Run("no client", func(t *testing.T) {
		wantEverywhere(t, New(nil, "counters/a"), "nil Firestore client")
	})
	if len(w.calls) > 0 {
		t.Errorf("requests sent: %v, want none", w.calls)
	}
}

// wantEverywhere fails the test unless every method returns an error that holds want.
func wantEverywhere(t *testing.T, c *Counter, want string) {
	t.Helper()
	_, errIncrement := c.Increment(t.Context(), 1)
	_, errFloat := c.IncrementFloat(t.Context(), 1)
	_, errGet := c.Get(t.Context())
	_, errRollUp := c.RollUp(t.Context())
	_, errAfter := c.RollUpAfter(t.Context(), time.Time{})
	_, _, errOnce := c.IncrementOnce(t.Context(), "token", 1)
	_, errSet := c.Set(t.Context(), 1)
	_, errVerify := c.Verify(t.Context(), Source{})
	_, _, errDelete := c.Delete(t.Context())
	var errRollUps error
	for _, errRollUps = range c.RollUps(t.Context()) {
		break
	}
	for method, err := range map[string]error{
		"Create": c.Create(t.Context(), 1), "CreateAuto": c.CreateAuto(t.Context()), "Resize": c.Resize(t.Context(), 1), "Delete": errDelete,
		"IncrementOnce": errOnce, "Set": errSet, "Verify": errVerify, "RollUps": errRollUps,
		"Increment": errIncrement, "IncrementFloat": errFloat, "Get": errGet, "RollUp": errRollUp, "RollUpAfter": errAfter,
	} {
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "shards: ") {
			t.Errorf("%s: error %v, want one that says %q", method, err, want)
		}
	}
}

// TestLayouts runs a counter over the documents that each of Firebase's samples
// leaves behind, and looks where its increments go.
func TestLayouts(t *testing.T) {
	t.Parallel()
	type docs = map[string]map[string]any
	shards := func(format, field string, n int) docs {
		d := docs{}
		for i := range n {
			d[fmt.Sprintf(format, i)] = map[string]any{field: 1}
		}
		return d
	}
	with := func(d docs, path string, data map[string]any) docs {
		d[path] = data
		return d
	}
	tests := []struct {
		name    string
		before  docs
		counter string
		opts    []Option

		collection string // where the shards are
		field      string
		spread     int // over how many shards increments must go
	}{
		{"Web, C#", with(shards("counters/c/shards/%d", "count", 3), "counters/c", map[string]any{"num_shards": 3}),
			"counters/c", nil, "counters/c/shards", "count", 3},
		{"Swift: one shard more than declared", with(shards("counters/c/shards/%d", "count", 4), "counters/c", map[string]any{"numShards": 3}),
			"counters/c", nil, "counters/c/shards", "count", 3},
		{"Objective-C: one shard, out of range", docs{"counters/c": {"numShards": 3}, "counters/c/shards/3": {"count": 0}},
			"counters/c", nil, "counters/c/shards", "count", 3},
		{"Kotlin, Java", with(shards("counters/c/shards/%d", "count", 3), "counters/c", map[string]any{"numShards": 3}),
			"counters/c", nil, "counters/c/shards", "count", 3},
		{"both spellings: num_shards holds", docs{"counters/c": {"num_shards": 2, "numShards": 5}},
			"counters/c", nil, "counters/c/shards", "count", 2},
		{"Python: no counter document", shards("counters/c/shards/%d", "count", 10),
			"counters/c", nil, "counters/c/shards", "count", DefaultNumShards},
		{"Node.js: no counter document, lazy shards", docs{},
			"counters/c", nil, "counters/c/shards", "count", DefaultNumShards},
		{"a counter document without a number", docs{"counters/c": {"title": "visitors"}},
			"counters/c", nil, "counters/c/shards", "count", DefaultNumShards},
		{"Go: capitalized field", shards("counters/c/shards/%d", "Count", 3),
			"counters/c", []Option{Field("Count"), NumShards(3)}, "counters/c/shards", "Count", 3},
		{"PHP: the collection is the counter", shards("samples/php/distributedCounters/%d", "Cnt", 3),
			"samples/php", []Option{Collection("samples/php/distributedCounters"), Field("Cnt"), NumShards(3)}, "samples/php/distributedCounters", "Cnt", 3},
		{"Ruby: top-level collection", shards("shards/%d", "count", 3),
			"counters/c", []Option{Collection("shards"), NumShards(3)}, "shards", "count", 3},
		{"nested", docs{"posts/p/counters/likes": {"num_shards": 2}},
			"posts/p/counters/likes", nil, "posts/p/counters/likes/shards", "count", 2},
		{"Unicode", docs{"counters/café ☕ 数.[]*~`": {"num_shards": 2}},
			"counters/café ☕ 数.[]*~`", []Option{Field("número.de `x`")}, "counters/café ☕ 数.[]*~`/shards", "número.de `x`", 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			client := emulatortest.Client(t)
			set(t, client, tt.before)
			c := New(client, tt.counter, tt.opts...)

			before := list(t, client, tt.collection)
			sum := int64(0)
			for _, data := range before {
				sum += data[tt.field].(int64)
			}
			wantTotal(t, c, sum)

			// With 15 increments per shard the chance that a shard gets none is below
			// 1 in 100,000.
			n := 15 * tt.spread
			for range n {
				if _, err := c.Increment(t.Context(), 1); err != nil {
					t.Fatal(err)
				}
			}
			wantTotal(t, c, sum+int64(n))

			grown := map[string]bool{}
			for id, data := range list(t, client, tt.collection) {
				if data[tt.field] != before[id][tt.field] {
					grown[id] = true
				}
			}
			want := map[string]bool{}
			for i := range tt.spread {
				want[fmt.Sprint(i)] = true
			}
			if diff := cmp.Diff(want, grown); diff != "" {
				t.Errorf("shards incremented (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDefaultRollUp(t *testing.T) {
	client := emulatortest.Client(t)
	tests := []struct {
		counter string
		opts    []Option
		want    string
	}{
		{"counters/visitors", nil, "rollups/visitors"},
		{"counters/visitors", []Option{RollUpAt("totals/v")}, "totals/v"},
		{"counters/visitors", []Option{Collection("shards")}, ""},
		{"counters/a/counters/b", nil, ""},
		{"posts/p/counters/likes", nil, ""},
		{"posts/p/counters/likes", []Option{RollUpAt("posts/p/rollups/likes")}, "posts/p/rollups/likes"},
	}
	for _, tt := range tests {
		c := New(client, tt.counter, tt.opts...)
		if c.err != nil {
			t.Errorf("%s: %v", tt.counter, c.err)
			continue
		}
		var want *firestore.DocumentRef
		if tt.want != "" {
			want = client.Doc(tt.want)
		}
		if (c.rollUp == nil) != (want == nil) || want != nil && c.rollUp.Path != want.Path {
			t.Errorf("%s: roll-up %v, want %q", tt.counter, c.rollUp, tt.want)
		}
	}
}

// TestMistypedNumShards: a number that cannot be meant is reported, not replaced.
func TestMistypedNumShards(t *testing.T) {
	for _, bad := range []any{0, -3, 2.5, "10", nil} {
		t.Run(fmt.Sprint(bad), func(t *testing.T) {
			t.Parallel()
			client := emulatortest.Client(t)
			set(t, client, map[string]map[string]any{"counters/c": {"num_shards": bad}})
			c := New(client, "counters/c")

			_, err := c.Increment(t.Context(), 1)
			if err == nil || !strings.Contains(err.Error(), "counters/c") || errors.Is(err, ErrInDoubt) {
				t.Errorf("Increment: error %v, want one that names counters/c and leaves no doubt", err)
			}
			if err := c.Create(t.Context(), 10); err == nil || !strings.Contains(err.Error(), "counters/c") {
				t.Errorf("Create: error %v, want one that names counters/c", err)
			}
			if shards := list(t, client, "counters/c/shards"); len(shards) > 0 {
				t.Errorf("shards written: %v", shards)
			}
		})
	}
}
