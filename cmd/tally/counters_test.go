//go:build unix

package main

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A counter's life, as the commands tell it.
func TestCounters(t *testing.T) {
	t.Setenv("TALLY_ROUTES", route.Default)
	c := newConsole(t)
	for i := range 3 {
		c.set(fmt.Sprintf("posts/7/likes/%d", i), map[string]any{})
	}
	c.set("posts/7", map[string]any{"was": 1<<53 + 1})
	c.tell([]step{
		{args: "create likes --num-shards 3", want: "counters/likes  3 shards\n"},
		{args: "create likes --num-shards 3 --json", want: `{"counter":"counters/likes","num_shards":3}` + "\n"},
		{args: "increment likes --by 5", want: "counters/likes  5  added 5  committed T\n"},
		{args: "increment counters/likes --by -2 --json", want: `{"applied":true,"by":-2,"committed":"T","counter":"counters/likes","total":3}` + "\n"},
		{args: "increment likes --once order-1", want: "counters/likes  4  added 1  committed T\n"},
		{args: "increment likes --once order-1", want: "counters/likes  4  added 1  committed T  before: the token was known\n"},
		{args: "increment likes --once order-1 --json", want: `{"applied":false,"by":1,"committed":"T","counter":"counters/likes","total":4}` + "\n"},
		{args: "get likes", want: "counters/likes  4\nroll-up         none; do Tally's functions run?\n"},
		{args: "get likes --json", want: `{"counter":"counters/likes","frozen":false,"malformed":0,"missing":false,"rollup":null,"totals":{"count":4}}` + "\n"},
		{args: "resize likes 8", want: "counters/likes  8 shards  was 3\n"},
		{args: "resize likes 1 --json", want: `{"counter":"counters/likes","num_shards":1,"was":8}` + "\n"},
		{args: "get likes", want: "counters/likes  4\nroll-up         4  8 shards  as of T  T\n", before: func() { c.rollUp("counters/likes/shards/0") }},
		{args: "get likes --json", want: `{"counter":"counters/likes","frozen":false,"malformed":0,"missing":false,"rollup":{"totals":{"count":4},"num_shards":8,"as_of":"T",T},"totals":{"count":4}}` + "\n"},
		{args: "set likes 9007199254740993 --yes", want: "counters/likes  9007199254740993  was 4  as of T\n"},
		{args: "migrate likes --check --document posts/7 --from-field was", want: "counters/likes  9007199254740993\nposts/7 was     9007199254740993\nequal           as of T\n"},
		{args: "set likes 0 --yes --json", want: `{"as_of":"T","counter":"counters/likes","total":0,"was":9007199254740993}` + "\n"},
		{args: "migrate likes --check --from-documents posts/7/likes --json", want: `{"as_of":"T","counter":"counters/likes","equal":false,"source":3,"total":0}` + "\n", status: 1},
		{args: "get likes --json | .totals", want: `{"count":0}`},
		{args: "migrate likes --from-documents posts/7/likes", want: "counters/likes  3  was 0  as of T\n"},
		{args: "migrate likes --check --from-documents posts/7/likes", want: "counters/likes  3\nposts/7/likes   3\nequal           as of T\n"},
		{args: "set likes 0 --yes", want: "counters/likes  0  was 3  as of T\n"},
		{args: "migrate likes --from-documents posts/7/likez", want: "counters/likes  0  was 0  as of T\n"},
		{args: "set likes 3", want: "counters/likes  3  was 0  as of T\n"},
		{args: "migrate likes --from-documents posts/7/likez --yes", want: "counters/likes  0  was 3  as of T\n"},
		{args: "set likes 2.5", want: "counters/likes  2.5  was 0  as of T\n"},
		{args: "increment likes --by 0.25", want: "counters/likes  2.75  added 0.25  committed T\n"},
		{args: "set likes -5 --yes", want: "counters/likes  -5  was 2.75  as of T\n"},
		{args: "create hot", want: "counters/hot  10 shards  auto\n"},
		{args: "create hot --json", want: `{"auto_shards":true,"counter":"counters/hot","num_shards":10}` + "\n"},
		{args: "resize hot 12", want: "counters/hot  12 shards  was 10\n"},
		{args: "create hot", want: "counters/hot  12 shards\n"},
		{args: "resize hot auto", want: "counters/hot  12 shards  auto\n"},
		{args: "create hot", want: "counters/hot  12 shards  auto\n"},
		{args: "resize hot 12", want: "counters/hot  12 shards  was 12\n"},
		{args: "create hot --num-shards auto", want: "counters/hot  12 shards  auto\n"},
		{args: "create hot --num-shards 100001", status: 1, errors: `--num-shards "100001": want a number from 1 to 100000, or auto`},
		{args: "create hot --num-shards many", status: 1, errors: `--num-shards "many": want a number from 1 to 100000, or auto`},
		{args: "create hot --num-shards 10", status: 1, errors: "it has 12, and its shards grow by themselves"},
		{args: "resize hot 10 --routes counters/{counter}/shards/{shard}->rollups/{counter}:count:documents", want: "counters/hot  10 shards  was 12\n",
			errors: "the 2 shards from 10 on remain and still count; the route says documents, so each roll-up still reads each of them"},
		{args: "get odd", want: "counters/odd  7  without 2 that are not finite numbers\nroll-up       7  3 shards  as of T  T\n", before: func() {
			for id, count := range map[string]any{"0": 7, "1": math.NaN(), "2": "text"} {
				c.set("counters/odd/shards/"+id, map[string]any{"count": count})
			}
			c.rollUp("counters/odd/shards/0")
		}},
		{args: "get rerouted", want: "counters/rerouted  3\nroll-up            none of the routes' totals  1 shard  as of T  T\n", before: func() {
			c.set("counters/rerouted/shards/0", map[string]any{"count": 3})
			tally := document.Tally{AsOf: time.Now().Add(-time.Second), NumShards: 1, Totals: []string{"views"}, Former: []string{"count"}}
			c.set("rollups/rerouted", map[string]any{"count": 2, "views": 5, document.TallyField: tally.Encode()})
		}},
		{args: "delete likes --yes --routes counters/{counter}/shards/{shard}->rollups/{counter}:count", want: "counters/likes  deleted  8 shards\n"},
		{args: "get likes", want: "counters/likes  0\nroll-up         0  0 shards  as of T  T\n", before: func() { c.rollUp("counters/likes/shards/0") }},
	})
}

// The schedule sees no events, so it does not see how often shards are written.
func TestCountersOfSchedule(t *testing.T) {
	t.Setenv("TALLY_ROUTES", route.Default+" : every 10s")
	newConsole(t).tell([]step{
		{args: "create seldom", want: "counters/seldom  10 shards\n"},
		{args: "create seldom --num-shards auto", status: 1, errors: "its route says every"},
		{args: "resize seldom auto", status: 1, errors: "its route says every"},
	})
}

// Any path of a counter's is enough: its document, its shards, its roll-up.
func TestCountersByRoute(t *testing.T) {
	t.Setenv("TALLY_ROUTES", someRoutes)
	c := newConsole(t)
	c.set("posts/7", map[string]any{"title": "x", "likes": 40})
	c.set("posts/7/likes/ann", map[string]any{})
	c.set("pages/p", map[string]any{"visits": 40, "title": "x"})
	c.set("pages/p/_counter_shards_/9f1c", map[string]any{"visits": 2})
	c.set("shops/s/ratings/ann", map[string]any{"stars": 5})
	c.set("shops/s/ratings/bob", map[string]any{"stars": 2.5})
	c.tell([]step{
		{args: "increment counters/a --by 2", want: "counters/a  2  added 2  committed T\n", before: func() { c.set("counters/a", map[string]any{}) }},
		{args: "increment counters/a/shards", want: "counters/a  3  added 1  committed T\n"},
		{args: "increment counters/a/shards/0", want: "counters/a  4  added 1  committed T\n"},
		{args: "increment rollups/a", want: "counters/a  5  added 1  committed T\n"},
		{args: "get rollups/a", want: "counters/a  5\nroll-up     none; do Tally's functions run?\n"},
		{args: "get likes --routes posts/{post}/counters/{name}/shards/{shard}->posts/{post}/rollups/{name}:count", want: "", status: 1},
		{args: "set 7/likes 3 --routes posts/{post}/counters/{name}/shards/{shard}->posts/{post}/rollups/{name}:count", want: "posts/7/counters/likes  3  was 0  as of T\n",
			before: func() { c.set("posts/7/counters/likes", map[string]any{}) }},
		{args: "get posts/7/rollups/likes", want: "posts/7/counters/likes  3\nroll-up                 none; do Tally's functions run?\n"},

		// Several sources in a document of the app's own.
		{args: "create posts/7/views --num-shards 2", want: "posts/7  2 shards\n"},
		{args: "increment posts/7/views --total views --by 3", want: "posts/7  3  added 3  committed T\n", before: func() {
			shard, err := c.client.Doc("posts/7/views/1").Get(t.Context())
			if d := cmp.Diff(map[string]any{"n": int64(0), "unique": int64(0)}, shard.Data()); err != nil || d != "" {
				t.Errorf("a new shard: %v (-want +got):\n%s", err, d)
			}
		}},
		{args: "increment posts/7 --total unique --by 2", want: "posts/7  2  added 2  committed T\n"},
		{args: "get posts/7", want: "posts/7  likes 1, unique 2, views 3\nroll-up  none; do Tally's functions run?\n"},
		{args: "get posts/7/likes/ann", want: "posts/7  likes 1, unique 2, views 3\nroll-up  likes 1, unique 2, views 3  as of T  T  before: 40\n",
			before: func() { c.rollUp("posts/7/likes/ann") }},
		{args: "get posts/7 --json | .rollup.totals", want: `{"likes":1,"unique":2,"views":3}`},
		{args: "resize posts/7/views/0 1", want: "posts/7  1 shard  was 2\n"},
		{args: "delete posts/7/views --yes", want: "posts/7  deleted  2 shards\n"},
		{args: "get posts/7 --json | .totals", want: `{"likes":1,"unique":0,"views":0}`},

		// Sources below different documents.
		{args: "get places/a --routes cafes/{cafe}/in/{id}->places/{cafe}:n;bars/{bar}/in/{id}->places/{bar}:m", want: "places/a  m 0, n 1\nroll-up   none; do Tally's functions run?\n",
			before: func() { c.set("cafes/a/in/0", map[string]any{"n": 1}) }},
		{args: "increment bars/a --routes cafes/{cafe}/in/{id}->places/{cafe}:n;bars/{bar}/in/{id}->places/{bar}:m", want: "bars/a  1  added 1  committed T\n",
			before: func() { c.set("bars/a", map[string]any{}) }},

		// A roll-up elsewhere, and a total in addition to count().
		{args: "get shop_totals/s", want: "shops/s  ratings 2, stars 7.5\nroll-up  none; do Tally's functions run?\n"},

		// Shards with random ids, and a total that something else has counted.
		{args: "migrate page_totals/p --document pages/p --from-field visits", want: "pages/p  added 40  carried in all 40\n"},
		{args: "migrate pages/p --document pages/p --from-field visits --json", want: `{"added":0,"amount":40,"counter":"pages/p"}` + "\n"},
		{args: "resize pages/p 2", want: "pages/p  2 shards  was 10\n"},
		{args: "get pages/p/_counter_shards_/9f1c", want: "pages/p  42\nroll-up  none; do Tally's functions run?\n"},
		{args: "migrate pages/p --check --document pages/p --from-field visits", want: "pages/p         42\npages/p visits  40\nDIFFERENT       as of T\n", status: 1},

		// Shards at the root: no document is above them.
		{args: "create shards --num-shards 3", want: "site/totals  3 shards\n"},
		{args: "increment site/totals", want: "site/totals  1  added 1  committed T\n", before: func() {
			if _, err := c.client.Doc("site/totals").Get(t.Context()); status.Code(err) != codes.NotFound {
				t.Errorf("the roll-up: %v, want that only Tally's functions make it", err)
			}
		}},
		{args: "get shards/0", want: "site/totals  1\nroll-up      none; do Tally's functions run?\n"},
		{args: "resize shards 1", status: 1, errors: "no counter document says it"},
		{args: "resize shards auto", status: 1, errors: "there is no document above them"},
		{args: "create shards", want: "site/totals  10 shards\n"},
		{args: "create shards --num-shards auto", status: 1, errors: "there is no document above them"},
		{args: "delete shards --yes", want: "site/totals  deleted  10 shards\n"},
	})
	for path, want := range map[string]map[string]any{
		"posts/7": {"title": "x"}, // in addition to the fields of the roll-up
		"pages/p": {"title": "x", "visits": int64(40), "num_shards": int64(2)},
	} {
		doc, err := c.client.Doc(path).Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := doc.Data()
		if path == "posts/7" {
			for _, field := range []string{"likes", "views", "unique", document.TallyField} {
				delete(got, field)
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", path, d)
		}
	}
}
