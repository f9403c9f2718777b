package apps

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/GoogleCloudPlatform/functions-framework-go/functions"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/tool/local/eventrelay"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A layout is a way in which a sample of Firebase's documentation writes counters
// (https://firebase.google.com/docs/firestore/solutions/counters), written here as that sample
// does, by the Go SDK. docs/test writes the layouts of Web, Python and Java with their own SDKs.
type layout struct {
	sample string
	route  string
	write  func(w *database)
	rollUp string
	want   map[string]any
}

const numShards = 3

var layouts = []layout{
	{
		sample: "Web",
		route:  "counters/{id}/shards/{shard} -> rollups/{id} : count",
		write: func(w *database) {
			w.commit(func(tx *firestore.Transaction) error { // the counter with all its shards at once
				err := tx.Set(w.client.Doc("counters/c"), map[string]any{"num_shards": numShards})
				for i := range numShards {
					err = errors.Join(err, tx.Set(w.shard("counters/c/shards", i), map[string]any{"count": 0}))
				}
				return err
			})
			w.update(w.shard("counters/c/shards", 0), "count", 1, 1, 1)
			w.update(w.shard("counters/c/shards", 2), "count", 1)
		},
		rollUp: "rollups/c", want: count(int64(4), 3),
	},
	{
		sample: "Swift", // creates one shard more than it declares
		route:  "counters/{id}/shards/{shard} -> rollups/{id} : count",
		write: func(w *database) {
			w.set("counters/c", map[string]any{"numShards": numShards})
			for i := 0; i <= numShards; i++ {
				w.create(w.shard("counters/c/shards", i), map[string]any{"count": 0})
			}
			w.update(w.shard("counters/c/shards", 1), "count", 1, 1)
		},
		rollUp: "rollups/c", want: count(int64(2), 4),
	},
	{
		sample: "Objective-C", // creates only one shard, out of its own range
		route:  "counters/{id}/shards/{shard} -> rollups/{id} : count",
		write: func(w *database) {
			w.set("counters/c", map[string]any{"numShards": numShards})
			for range numShards {
				w.written(w.shard("counters/c/shards", numShards).Set(w.t.Context(), map[string]any{"count": 0}))
			}
			_, err := w.shard("counters/c/shards", 0).Update(w.t.Context(), []firestore.Update{{Path: "count", Value: firestore.Increment(1)}})
			if status.Code(err) != codes.NotFound {
				w.t.Errorf("the sample's own increment: %v, want not found", err)
			}
			w.update(w.shard("counters/c/shards", numShards), "count", 5) // as an app does that fixed its range
		},
		rollUp: "rollups/c", want: count(int64(5), 1),
	},
	{
		sample: "Kotlin and Java",
		route:  "counters/{id}/shards/{shard} -> rollups/{id} : count",
		write: func(w *database) {
			w.set("counters/c", map[string]any{"numShards": numShards})
			for i := range numShards {
				w.create(w.shard("counters/c/shards", i), map[string]any{"count": 0})
			}
			w.update(w.shard("counters/c/shards", 0), "count", 1, 1)
			w.update(w.shard("counters/c/shards", 1), "count", math.MaxInt32) // the sample's own total has 32 bits
			w.update(w.shard("counters/c/shards", 2), "count", -1)
		},
		rollUp: "rollups/c", want: count(int64(math.MaxInt32+1), 3),
	},
	{
		sample: "Python", // sync and async alike: the counter's own document does not exist
		route:  "counters/{id}/shards/{shard} -> rollups/{id} : count",
		write: func(w *database) {
			for i := range numShards {
				w.create(w.shard("counters/c/shards", i), map[string]any{"count": 0})
			}
			w.update(w.shard("counters/c/shards", 2), "count", 1, 1, 1)
		},
		rollUp: "rollups/c", want: count(int64(3), 3),
	},
	{
		sample: "Node.js", // shards appear when they are first incremented
		route:  "counters/{id}/shards/{shard} -> rollups/{id} : count",
		write: func(w *database) {
			for _, i := range []int{1, 0, 1} {
				increment := map[string]any{"count": firestore.Increment(1)}
				w.written(w.shard("counters/c/shards", i).Set(w.t.Context(), increment, firestore.MergeAll))
			}
		},
		rollUp: "rollups/c", want: count(int64(3), 2),
	},
	{
		sample: "Go", // the field is capitalized
		route:  "counters/{id}/shards/{shard} -> rollups/{id} : Count",
		write: func(w *database) {
			type Shard struct{ Count int }
			for i := range numShards {
				w.written(w.shard("counters/c/shards", i).Set(w.t.Context(), Shard{0}))
			}
			w.update(w.shard("counters/c/shards", 0), "Count", 1, 1)
		},
		rollUp: "rollups/c", want: map[string]any{"Count": int64(2), "num_shards": int64(3)},
	},
	{
		sample: "PHP", // the collection is the counter
		route:  "samples/php/distributedCounters/{shard} -> php_rollups/total : Cnt",
		write: func(w *database) {
			for i := range numShards {
				w.set(fmt.Sprintf("samples/php/distributedCounters/%d", i), map[string]any{"Cnt": 0})
			}
			w.update(w.shard("samples/php/distributedCounters", 1), "Cnt", 1, 1)
		},
		rollUp: "php_rollups/total", want: map[string]any{"Cnt": int64(2), "num_shards": int64(3)},
	},
	{
		sample: "C#",
		route:  "counters/{id}/shards/{shard} -> rollups/{id} : count",
		write: func(w *database) {
			for i := range numShards {
				w.set(fmt.Sprintf("counters/c/shards/%d", i), map[string]any{"count": 0})
			}
			w.update(w.shard("counters/c/shards", 0), "count", 1)
			w.update(w.shard("counters/c/shards", 1), "count", math.MaxInt32) // the sample's own total has 32 bits
		},
		rollUp: "rollups/c", want: count(int64(math.MaxInt32+1), 3),
	},
	{
		sample: "Ruby", // the shards are a collection at the top; the sample's own total adds up every collection of that name
		route:  "shards/{shard} -> totals/all : count",
		write: func(w *database) {
			w.set("counters/c/shards/0", map[string]any{"count": 100})
			for i := range numShards {
				w.set(fmt.Sprintf("shards/%d", i), map[string]any{"count": 0})
			}
			w.update(w.shard("shards", 2), "count", 1, 1, 1, 1)

			group, err := w.client.CollectionGroup("shards").NewAggregationQuery().WithSum("count", "all").Get(w.t.Context())
			if err != nil {
				w.t.Fatal(err)
			}
			if got := group["all"].(*firestorepb.Value).GetIntegerValue(); got != 104 {
				w.t.Errorf("the sample's own total is %d, want 104", got)
			}
		},
		rollUp: "totals/all", want: count(int64(4), 3),
	},
}

func layoutFunction(i int) string { return fmt.Sprint("Layout", i) }

// registerLayouts registers a function for each layout, configured with its route alone.
func registerLayouts() {
	for i, l := range layouts {
		functions.HTTP(layoutFunction(i), newProcesses("TALLY_ROUTES="+l.route, "TALLY_CADENCE=200ms").OnWrite)
	}
}

func TestLayouts(t *testing.T) {
	t.Parallel()
	for i, l := range layouts {
		t.Run(l.sample, func(t *testing.T) {
			t.Parallel()
			pattern, _, _ := strings.Cut(l.route, " ->")
			w := newDatabase(t, emulatortest.Project(t), "(default)", layoutFunction(i), eventrelay.Faults{}, pattern)
			l.write(w)
			w.wantRollUp(l.rollUp, l.want)
		})
	}
}

func (w *database) shard(collection string, n int) *firestore.DocumentRef {
	return w.client.Doc(fmt.Sprintf("%s/%d", collection, n))
}

func (w *database) create(doc *firestore.DocumentRef, fields map[string]any) {
	w.t.Helper()
	w.written(doc.Create(w.t.Context(), fields))
}

// update increments a field of a shard that exists, once by each amount.
func (w *database) update(doc *firestore.DocumentRef, field string, amounts ...int) {
	w.t.Helper()
	for _, n := range amounts {
		w.written(doc.Update(w.t.Context(), []firestore.Update{{Path: field, Value: firestore.Increment(n)}}))
	}
}
