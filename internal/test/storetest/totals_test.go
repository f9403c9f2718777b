package storetest

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/test/memstore"
	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
)

// A totalled counter is documents, by path, and what they make by routes.
type totalled struct {
	name    string
	routes  string
	counter string
	docs    map[string]map[string]any
	want    map[string]value.Value
	shards  []int64

	malformed int64
	some      bool
}

// list returns a document in the collection c/x/s for each value of a field.
func list(field string, values ...any) map[string]map[string]any {
	docs := make(map[string]map[string]any)
	for i, v := range values {
		docs[fmt.Sprintf("c/x/s/%d", i)] = map[string]any{field: v}
	}
	return docs
}

const (
	onPost   = "c/{c}/s/{s} -> r/{c} : "
	onShop   = "orders/{order} by shop -> shops/{shop} : "
	onAuthor = "posts/{post}/comments/{comment} by author -> users/{author} : "
)

var (
	noon = someTime
	late = someTime.Add(time.Microsecond)
)

var totalledCounters = []totalled{
	{name: "each aggregate", routes: onPost + "count() as n, sum(v) as total, average(v) as mean, maximum(v) as most, minimum(v) as least, latest(at) as last, earliest(at) as first", counter: "r/x",
		docs: map[string]map[string]any{"c/x/s/0": {"v": 3, "at": noon}, "c/x/s/1": {"v": 0.5, "at": late}, "c/x/s/2": {}, "c/x/t/3": {"v": 100}, "c/y/s/0": {"v": 100, "at": late.Add(time.Hour)}},
		want: map[string]value.Value{"n": value.Int(3), "total": value.Double(3.5), "mean": value.Double(1.75), "most": value.Int(3), "least": value.Double(0.5), "last": value.Timestamp(late), "first": value.Timestamp(noon)}, shards: []int64{3}},
	{name: "each aggregate of nothing", routes: onPost + "count() as n, sum(v) as total, average(v) as mean, maximum(v) as most, minimum(v) as least, latest(v) as last, earliest(v) as first", counter: "r/x",
		want: map[string]value.Value{"n": value.Int(0), "total": value.Int(0), "mean": value.Null, "most": value.Null, "least": value.Null, "last": value.Null, "first": value.Null}, shards: []int64{0}},
	{name: "each aggregate with a condition", routes: onPost + `count() where on == true as n, sum(v) where on == true as total, average(v) where on == true as mean, maximum(v) where on == true as most,
			minimum(v) where on == true as least, latest(at) where on == true as last, earliest(at) where on == true as first`, counter: "r/x",
		docs: map[string]map[string]any{"c/x/s/0": {"on": true, "v": 3, "at": noon}, "c/x/s/1": {"on": true, "v": 5, "at": late}, "c/x/s/2": {"on": false, "v": 100, "at": late.Add(1e9)}, "c/x/s/3": {"v": -100, "at": noon.Add(-1e9)}},
		want: map[string]value.Value{"n": value.Int(2), "total": value.Int(8), "mean": value.Double(4), "most": value.Int(5), "least": value.Int(3), "last": value.Timestamp(late), "first": value.Timestamp(noon)}, shards: []int64{2}},
	{name: "values of other kinds", routes: onPost + "average(v) as mean, maximum(v) as most, minimum(v) as least, latest(v) as last, earliest(v) as first", counter: "r/x",
		docs: list("v", 7, math.NaN(), math.Inf(1), math.Inf(-1), "zzz", nil, true, noon, []any{9}, map[string]any{"v": 9}, []byte("x"), -7.5),
		want: map[string]value.Value{"mean": value.Double(-0.25), "most": value.Int(7), "least": value.Double(-7.5), "last": value.Timestamp(noon), "first": value.Timestamp(noon)}, shards: []int64{12}, malformed: 10},
	{name: "values of other kinds alone", routes: onPost + "average(v) as mean, maximum(v) as most, minimum(v) as least, latest(v) as last", counter: "r/x",
		docs: list("v", math.NaN(), math.Inf(1), math.Inf(-1), "zzz", nil, false),
		want: map[string]value.Value{"mean": value.Null, "most": value.Null, "least": value.Null, "last": value.Null}, shards: []int64{6}, malformed: 6},
	{name: "bests alone", routes: onPost + "maximum(v) as most", counter: "r/x", docs: list("v", 7, 9, "x"), want: map[string]value.Value{"most": value.Int(9)}, shards: []int64{1}},
	{name: "large integers and doubles", routes: onPost + "maximum(v) as most, minimum(v) as least", counter: "r/x", docs: list("v", 1<<53+1, float64(1<<53), -1<<53-1, -float64(1<<53)),
		want: map[string]value.Value{"most": value.Int(1<<53 + 1), "least": value.Int(-1<<53 - 1)}, shards: []int64{1}},
	{name: "the largest numbers", routes: onPost + "maximum(v) as most, minimum(v) as least", counter: "r/x", docs: list("v", math.MaxInt64, -math.MaxFloat64, math.MinInt64, math.MaxFloat64),
		want: map[string]value.Value{"most": value.Double(math.MaxFloat64), "least": value.Double(-math.MaxFloat64)}, shards: []int64{1}},
	{name: "the largest integers", routes: onPost + "maximum(v) as most, minimum(v) as least", counter: "r/x", docs: list("v", math.MaxInt64-1, math.MaxInt64, math.MinInt64+1, math.MinInt64),
		want: map[string]value.Value{"most": value.Int(math.MaxInt64), "least": value.Int(math.MinInt64)}, shards: []int64{1}},
	{name: "an integer that equals a double", routes: onPost + "maximum(v) as most, minimum(v) as least", counter: "r/x", docs: list("v", 5, 5.0, 2.0, 2),
		want: map[string]value.Value{"most": value.Double(5), "least": value.Double(2)}, shards: []int64{1}}, // of the last and the first document by their names
	{name: "times before 1970 and other values", routes: onPost + "latest(v) as last, earliest(v) as first", counter: "r/x",
		docs: list("v", time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC), "x", 9),
		want: map[string]value.Value{"last": value.Timestamp(time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC)), "first": value.Timestamp(time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC))}, shards: []int64{1}},
	{name: "an average that overflows integers", routes: onPost + "average(v) as mean", counter: "r/x", docs: list("v", math.MaxInt64, math.MaxInt64), want: map[string]value.Value{"mean": value.Double(1 << 63)}, shards: []int64{2}},
	{name: "an average of 0", routes: onPost + "average(v) as mean, sum(v) as total", counter: "r/x", docs: list("v", -2, 2, "x"), want: map[string]value.Value{"mean": value.Double(0), "total": value.Int(0)}, shards: []int64{3}, malformed: 1},

	{name: "a condition for each kind", routes: onPost + `count() where v == "a" as text, count() where v == 2 as two, count() where v == 2.5 as half, count() where v == true as yes,
			count() where v == false as no, count() where v == null as nothing, count() where v == "" as empty, count() where v == 0 as zero, count() where v == "2" as digits`, counter: "r/x",
		docs: list("v", "a", "A", "a ", 2, 2.0, 2.5, true, false, nil, "", 0, 0.0, math.Copysign(0, -1), math.NaN(), "2", []any{2}, map[string]any{}, "null", "true"),
		want: map[string]value.Value{"text": value.Int(1), "two": value.Int(2), "half": value.Int(1), "yes": value.Int(1), "no": value.Int(1), "nothing": value.Int(1),
			"empty": value.Int(1), "zero": value.Int(3), "digits": value.Int(1)}, shards: []int64{3}},
	{name: "null where the field is missing", routes: onPost + `count() where v == null as nothing`, counter: "r/x", docs: map[string]map[string]any{"c/x/s/0": {}, "c/x/s/1": {"v": nil}, "c/x/s/2": {"v": 0}},
		want: map[string]value.Value{"nothing": value.Int(1)}, shards: []int64{1}},
	{name: "large numbers in conditions", routes: onPost + `count() where v == 9007199254740993 as odd, count() where v == 9007199254740992.0 as even, count() where v == 9223372036854775807 as most`, counter: "r/x",
		docs: list("v", 1<<53+1, 1<<53, float64(1<<53), math.MaxInt64, float64(1<<63)), want: map[string]value.Value{"odd": value.Int(1), "even": value.Int(2), "most": value.Int(1)}, shards: []int64{2}},
	{name: "two conditions", routes: onPost + `count() where a == 1 and b == "x" as n, sum(v) where b == "x" and a == 1 as total`, counter: "r/x",
		docs: map[string]map[string]any{"c/x/s/0": {"a": 1, "b": "x", "v": 2}, "c/x/s/1": {"a": 1, "b": "y", "v": 4}, "c/x/s/2": {"a": 2, "b": "x", "v": 8}, "c/x/s/3": {"a": 1.0, "b": "x", "v": 16}, "c/x/s/4": {"a": 1, "b": "x"}},
		want: map[string]value.Value{"n": value.Int(3), "total": value.Int(18)}, shards: []int64{3}},
	{name: "fields in maps, with odd names", routes: onPost + "sum(m.v) as total, maximum(m.`a b`.c) where `x-y`.`1` == true as most, count() where m.`größe` == \"é😀\" as n", counter: "r/x",
		docs: map[string]map[string]any{
			"c/x/s/0": {"m": map[string]any{"v": 2, "größe": "é😀", "a b": map[string]any{"c": 5}}, "x-y": map[string]any{"1": true}, "m.v": 100},
			"c/x/s/1": {"m": map[string]any{"v": 3, "a b": map[string]any{"c": 50}}, "x-y": map[string]any{"1": false}},
			"c/x/s/2": {"m": "v"}, "c/x/s/3": {"m.v": 100}},
		want: map[string]value.Value{"total": value.Int(5), "most": value.Int(5), "n": value.Int(1)}, shards: []int64{2}},
	{name: "nothing meets the conditions", routes: onPost + "count() where on == true as n, sum(v) where on == 1 as total", counter: "r/x", docs: list("v", 1, 2),
		want: map[string]value.Value{"n": value.Int(0), "total": value.Int(0)}, shards: []int64{0}, some: true},
	{name: "conditions, and no documents", routes: onPost + "count() where on == true as n", counter: "r/x", docs: map[string]map[string]any{"c/y/s/0": {"on": true}},
		want: map[string]value.Value{"n": value.Int(0)}, shards: []int64{0}},
	{name: "a malformed value that a condition leaves out", routes: onPost + "sum(v) where on == true as total", counter: "r/x",
		docs: map[string]map[string]any{"c/x/s/0": {"on": true, "v": 1}, "c/x/s/1": {"on": false, "v": "x"}, "c/x/s/2": {"on": true, "v": "y"}},
		want: map[string]value.Value{"total": value.Int(1)}, shards: []int64{2}, malformed: 1},

	{name: "a group", routes: onShop + `count() as orders, sum(amount) where status == "paid" as revenue, maximum(amount) as largest, average(amount) as mean, latest(at) where status == "paid" as last : existing`, counter: "shops/a",
		docs: map[string]map[string]any{
			"orders/0": {"shop": "a", "status": "paid", "amount": 5, "at": noon}, "orders/1": {"shop": "a", "status": "open", "amount": 8.5, "at": late}, "orders/2": {"shop": "b", "status": "paid", "amount": 100, "at": late},
			"orders/3": {"shop": []any{"a"}, "amount": 100}, "orders/4": {"amount": 100}, "orders/5": {"shop": "a "}, "orders/6": {"shop": "A", "amount": 100}, "other/7": {"shop": "a", "amount": 100}, "shops/a/orders/8": {"shop": "a", "amount": 100}},
		want: map[string]value.Value{"orders": value.Int(2), "revenue": value.Int(5), "largest": value.Double(8.5), "mean": value.Double(6.75), "last": value.Timestamp(noon)}, shards: []int64{2}},
	{name: "a group in a map", routes: "orders/{order} by customer.id -> users/{customer.id} : count() as orders, sum(customer.paid) as paid : existing", counter: "users/ann",
		docs: map[string]map[string]any{"orders/0": {"customer": map[string]any{"id": "ann", "paid": 3}}, "orders/1": {"customer": map[string]any{"id": "ben", "paid": 100}}, "orders/2": {"customer": "ann"}, "orders/3": {"customer.id": "ann"}},
		want: map[string]value.Value{"orders": value.Int(1), "paid": value.Int(3)}, shards: []int64{1}},
	{name: "a group of the longest name", routes: onShop + "count() as orders, sum(amount) as revenue : existing", counter: "shops/" + longest,
		docs: map[string]map[string]any{"orders/0": {"shop": longest, "amount": 1}, "orders/1": {"shop": longest[:1498], "amount": 100}, "orders/2": {"shop": longest + "x", "amount": 100}},
		want: map[string]value.Value{"orders": value.Int(1), "revenue": value.Int(1)}, shards: []int64{1}},
	{name: "a group with an odd name", routes: onShop + "count() as orders : existing", counter: "shops/größe \n`x`é😀",
		docs: map[string]map[string]any{"orders/0": {"shop": "größe \n`x`é😀"}, "orders/1": {"shop": "größe"}}, want: map[string]value.Value{"orders": value.Int(1)}, shards: []int64{1}},
	{name: "two groups and a plain route", routes: `
			orders/{order} by seller -> users/{seller} : count() as sold, sum(amount) as earned : existing
			orders/{order} by buyer -> users/{buyer} : count() as bought, sum(amount) where status == "paid" as spent : existing
			users/{user}/ratings/{rater} -> users/{user} : average(stars) as rating : existing`, counter: "users/ann",
		docs: map[string]map[string]any{
			"orders/0": {"seller": "ann", "buyer": "ben", "amount": 5, "status": "paid"}, "orders/1": {"seller": "ben", "buyer": "ann", "amount": 7, "status": "open"},
			"orders/2": {"seller": "ann", "buyer": "ann", "amount": 2, "status": "paid"}, "users/ann/ratings/0": {"stars": 4}, "users/ann/ratings/1": {"stars": 5}, "users/ben/ratings/0": {"stars": 1}},
		want:   map[string]value.Value{"sold": value.Int(2), "earned": value.Int(7), "bought": value.Int(2), "spent": value.Int(2), "rating": value.Double(4.5)},
		shards: []int64{2, 2, 2}},

	{name: "across parents", routes: onAuthor + `count() as comments, sum(stars) as stars, average(stars) as mean, count() where shown == true as shown,
			sum(stars) where shown == true and lang in ["en", "de"] as some : existing`, counter: "users/ann",
		docs: map[string]map[string]any{
			"posts/1/comments/a":                   {"author": "ann", "stars": 1, "shown": true, "lang": "en"},
			"posts/2/comments/a":                   {"author": "ann", "stars": 2, "shown": false, "lang": "en"},
			"posts/2/comments/b":                   {"author": "ben", "stars": 100, "shown": true, "lang": "en"},
			"posts/2/comments/a/comments/c":        {"author": "ann", "stars": 4, "shown": true, "lang": "de"},
			"posts/__id7__/pages/9/comments/d":     {"author": "ann", "stars": 8.5, "shown": true, "lang": "fr"},
			"posts/\U0010FFFF/comments/\U0010FFFF": {"author": "ann"},
			"posts/3/comment/a":                    {"author": "ann", "stars": 100},
			"posts/4":                              {"author": "ann", "stars": 100},
			"comments/a":                           {"author": "ann", "stars": 100},
			"post/1/comments/a":                    {"author": "ann", "stars": 100},
			"posts\x00/1/comments/a":               {"author": "ann", "stars": 100},
			"posts!/1/comments/a":                  {"author": "ann", "stars": 100},
			"pages/9/posts/1/comments/a":           {"author": "ann", "stars": 100},
			"posts/5/comments/a/likes/b":           {"author": "ann", "stars": 100},
			"posts/6/comments/" + longest[:1400]:   {"author": "ann", "stars": 16},
			"posts/7/comments/e":                   {"author": []any{"ann"}, "stars": 100},
			"posts/7/comments/f":                   {"Author": "ann", "stars": 100}},
		want: map[string]value.Value{"comments": value.Int(6), "stars": value.Double(31.5), "mean": value.Double(6.3), "shown": value.Int(3), "some": value.Int(5)}, shards: []int64{6}},
	{name: "across parents, malformed", routes: onAuthor + "sum(stars) as stars, average(stars) where shown == true as mean : existing", counter: "users/ann",
		docs: map[string]map[string]any{
			"posts/1/comments/a": {"author": "ann", "stars": "x", "shown": true}, "posts/1/comments/b": {"author": "ann", "stars": math.Inf(-1)}, "posts/2/comments/a": {"author": "ann", "stars": 7, "shown": true},
			"posts/2/comments/b": {"author": "ann", "stars": -7, "shown": false}, "posts/2/comments/c": {"author": "ann", "stars": math.NaN()}, "pages/1/comments/a": {"author": "ann", "stars": "y"}},
		want: map[string]value.Value{"stars": value.Int(0), "mean": value.Double(7)}, shards: []int64{5}, malformed: 4},
	{name: "across parents, by two keys below a capture", routes: "shops/{shop}/days/{day}/orders/{order} by number(n), ref(buyer) -> shops/{shop}/n/{n}/buyers/{buyer} : count() as orders, sum(n) as numbers, sum(amount) as spent : existing",
		counter: "shops/a/n/7/buyers/ann",
		docs: map[string]map[string]any{
			"shops/a/days/1/orders/1":     {"n": 7, "buyer": document.Reference("shops/a/n/7/buyers/ann"), "amount": 1},
			"shops/a/days/2/orders/1":     {"n": 7.0, "buyer": document.Reference("shops/a/n/7/buyers/ann"), "amount": 2},
			"shops/a/days/2/x/y/orders/1": {"n": 7, "buyer": document.Reference("shops/a/n/7/buyers/ann"), "amount": 4},
			"shops/b/days/1/orders/1":     {"n": 7, "buyer": document.Reference("shops/a/n/7/buyers/ann"), "amount": 100},
			"shops/a/orders/1":            {"n": 7, "buyer": document.Reference("shops/a/n/7/buyers/ann"), "amount": 100},
			"shops/a/days/1/orders/2":     {"n": 8, "buyer": document.Reference("shops/a/n/7/buyers/ann"), "amount": 100}},
		want: map[string]value.Value{"orders": value.Int(3), "numbers": value.Double(21), "spent": value.Int(7)}, shards: []int64{3}},
	{name: "across parents, and those of each parent", routes: `
			posts/{post}/comments/{comment} by author -> users/{author} : count() as comments : existing
			posts/{post}/comments/{comment} -> posts/{post} : count() as comments : existing
			users/{user}/comments/{comment} -> users/{user} : count() as guests : existing`, counter: "users/ann",
		docs: map[string]map[string]any{"posts/1/comments/a": {"author": "ann"}, "posts/1/comments/a/comments/b": {"author": "ann"}, "users/ann/comments/c": {"author": "ann"}},
		want: map[string]value.Value{"comments": value.Int(2), "guests": value.Int(1)}, shards: []int64{2, 1}},
	{name: "conditions across parents, and no documents that meet them", routes: onAuthor + "count() where shown == true as shown : existing", counter: "users/ann",
		docs: map[string]map[string]any{"posts/1/comments/a": {"author": "ann"}}, want: map[string]value.Value{"shown": value.Int(0)}, shards: []int64{0}, some: true},
	{name: "conditions across parents, and no documents", routes: onAuthor + "count() where shown == true as shown : existing", counter: "users/ann",
		docs: map[string]map[string]any{"pages/1/comments/a": {"author": "ann"}}, want: map[string]value.Value{"shown": value.Int(0)}, shards: []int64{0}},
}

// longest is the longest string that a query may ask for.
var longest = strings.Repeat("x", route.LongestGroup)

func (c totalled) run(t *testing.T, b backend) {
	routes, err := route.Parse(c.routes)
	if err != nil {
		t.Fatal(err)
	}
	counter, ok := routes[0].Template.Counter(c.counter)
	if !ok {
		t.Fatalf("%s is not a counter", c.counter)
	}
	for path, fields := range c.docs {
		b.Put(t, path, fields)
	}

	want := route.Totals{Values: c.want, Shards: c.shards, Malformed: c.malformed, Some: c.some}
	got := look(t, b, counter)
	if d := diff(want, got.totals); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if len(got.malformed) != int(c.malformed) {
		t.Errorf("%d malformed values are named, want %d: %q", len(got.malformed), c.malformed, got.malformed)
	}
	if d := diff(want, totalsOf(counter, c.docs, got.readTime)); d != "" {
		t.Errorf("read one by one (-want +got):\n%s", d)
	}
}

// totalsOf returns what Route.Total makes of documents that were read one by one at an instant.
func totalsOf(c route.Counter, docs map[string]map[string]any, instant time.Time) route.Totals {
	var parts []route.Totals
	for _, r := range c.Template.Routes {
		var shards []route.Shard
		for _, path := range slices.Sorted(maps.Keys(docs)) {
			fields := int64s(docs[path])
			of, ok := r.Belongs(path, func(f document.Field) any { held, _ := f.In(fields); return held })
			if ok && of == c {
				shards = append(shards, route.Shard{Path: path, Fields: fields})
			}
		}
		parts = append(parts, r.Total(shards, instant).Totals)
	}
	return route.JoinTotals(parts)
}

// testMagnitudes: of an average, of a sum with conditions, and of a group's, a magnitude is of the
// documents that the total is of.
func testMagnitudes(t *testing.T, b backend) {
	routes, err := route.Parse(onShop + "sum(v) as all, sum(v) where on == true as some, average(v) as mean, average(v) where on == true as part : existing")
	if err != nil {
		t.Fatal(err)
	}
	c, _ := routes[0].Template.Counter("shops/a")
	for i, doc := range []map[string]any{
		{"shop": "a", "on": true, "v": 1.5}, {"shop": "a", "on": true, "v": -2.5}, {"shop": "a", "on": false, "v": -8}, {"shop": "a", "v": "x"}, {"shop": "b", "on": true, "v": 100.0},
	} {
		b.Put(t, fmt.Sprintf("orders/%d", i), doc)
	}
	s := open(t, b, c)
	sumOf(t, s)
	for name, want := range map[string]float64{"all": 12, "some": 4, "mean": 4, "part": 2} {
		if got, err := s.Magnitude(t.Context(), name); err != nil || got != want {
			t.Errorf("%s: got %v, %v; want %v", name, got, err, want)
		}
	}
}

// In memory, a query whose composite index lacks is refused as Firestore refuses it: up to 1,000
// documents are read one by one, and more are unkept, with the index named.
func TestMissingIndexInMemory(t *testing.T) {
	routes, err := route.Parse(onShop + `count() where status == "paid" as paid, sum(amount) where status == "paid" as revenue, maximum(amount) as largest : existing`)
	if err != nil {
		t.Fatal(err)
	}
	c, _ := routes[0].Template.Counter("shops/a")
	var missing string
	s := memstore.Store{Indexed: func(x route.Index) bool { return x.String() != missing }}
	for i := range rollup.MaxUnindexed {
		s.Put(fmt.Sprintf("orders/%d", i), map[string]any{"shop": "a", "status": "paid", "amount": 0.5})
	}
	s.Put("orders/b", map[string]any{"shop": "b", "amount": int64(9)})

	for _, missing = range []string{"orders (shop ASC, status ASC, amount ASC)", "orders (shop ASC, amount DESC)"} {
		v, err := s.View(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		totals, err := v.Sum(t.Context())
		if err != nil || totals.Values["revenue"] != value.Double(500) || totals.Values["paid"] != value.Int(1000) || totals.Values["largest"] != value.Double(0.5) {
			t.Errorf("without %s: %+v, %v", missing, totals, err)
		}
		if exact, err := v.Magnitude(t.Context(), "revenue"); err != nil || exact != 0 {
			t.Errorf("without %s: a magnitude of %v, %v", missing, exact, err)
		}

		s.Put("orders/more", map[string]any{"shop": "a"})
		v, err = s.View(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := v.Sum(t.Context()); !errors.Is(err, rollup.ErrUnkept) || !strings.Contains(err.Error(), missing) {
			t.Errorf("without %s: %v of too many documents", missing, err)
		}
		s.Delete("orders/more")
	}
	missing = ""
	s.Put("orders/more", map[string]any{"shop": "a"})
	v, err := s.View(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Sum(t.Context()); err != nil {
		t.Error(err)
	}
}

var storesSeed = flag.Uint64("stores.seed", 1, "of the routes and documents of TestStoresAgree")

// Random documents make the same totals by random routes in all stores, and read one by one. The
// queries need the indexes that the routes name, and no others.
func TestStoresAgree(t *testing.T) {
	var indexes emulatortest.Indexes
	stores := map[string]backend{"memory": openMemory(t), "Firestore": openWith(t, indexes.DialOption()), "Enterprise": openEnterprise(t)}
	seed := *storesSeed
	random := rand.New(rand.NewPCG(seed, 0))
	for round := range 100 {
		collection := fmt.Sprintf("docs%d", round)
		mustRoute, docs := randomRoute(random, collection), randomDocuments(random, collection)
		routes, err := route.Parse(mustRoute)
		for err != nil && strings.Contains(err.Error(), "roll-up that triggers itself") {
			mustRoute = randomRoute(random, collection)
			routes, err = route.Parse(mustRoute)
		}
		if err != nil {
			t.Fatalf("-stores.seed=%d: %v", seed, err)
		}
		counters := countersOf(routes[0], collection, docs)
		for c := range counters {
			if routes[0].Circular() && docs[c.RollUp] == nil {
				docs[c.RollUp] = map[string]any{"title": "x"}
			}
		}
		for name, b := range stores {
			for path, fields := range docs {
				b.Put(t, path, fields)
			}
			wantFound := make(map[string]bool)
			for c, some := range counters {
				if docs[c.RollUp] == nil {
					b.Put(t, c.RollUp, map[string]any{"title": "x"})
				}
				if some {
					wantFound[c.RollUp] = false
				}
				got := look(t, b, c)
				want := totalsOf(c, docs, got.readTime)
				if d := cmp.Diff(want, got.totals, cmp.Comparer(rounded)); d != "" {
					t.Fatalf("-stores.seed=%d: %s of %v\n%s of %s (-want +got):\n%s", seed, mustRoute, docs, c.RollUp, name, d)
				}
			}
			for path := range docs { // a home with a total that no roll-up wrote is found, too
				c, isHome := routes[0].Template.Counter(path)
				if isHome && len(look(t, b, c).rollUp.Unwritten()) > 0 {
					wantFound[path] = false
				}
			}
			if d := cmp.Diff(wantFound, find(t, b, routes[0].Template, 100)); d != "" {
				t.Fatalf("-stores.seed=%d: %s of %v\nfound in %s (-want +got):\n%s", seed, mustRoute, docs, name, d)
			}
			if !routes[0].Circular() {
				continue
			}
			for c := range counters {
				writeTotals(t, b, c)
			}
			for c := range counters { // totals do not depend on totals that are in the documents
				got := look(t, b, c)
				if d := cmp.Diff(totalsOf(c, docs, got.readTime), got.totals, cmp.Comparer(rounded)); d != "" {
					t.Fatalf("-stores.seed=%d: %s of %v\n%s of %s after roll-ups (-want +got):\n%s", seed, mustRoute, docs, c.RollUp, name, d)
				}
			}
		}

		composite, single := indexes.Needed()
		if d := cmp.Diff(texts(routes.Indexes(route.Standard)), composite); d != "" {
			t.Fatalf("-stores.seed=%d: %s: composite indexes (-named +needed):\n%s", seed, mustRoute, d)
		}
		unnamed := slices.DeleteFunc(single, func(x string) bool { return slices.Contains(texts(routes.FieldIndexes()), x) })
		if len(unnamed) > 0 {
			t.Fatalf("-stores.seed=%d: %s: needs unnamed indexes of one field, %v", seed, mustRoute, unnamed)
		}
	}
}

// writeTotals rolls a counter up.
func writeTotals(t *testing.T, b backend, c route.Counter) {
	t.Helper()
	v := look(t, b, c)
	r := v.rollUp
	r.Values = v.totals.Values
	r.Tally = document.Tally{AsOf: v.readTime, PacedUntil: v.readTime, Routes: c.Template.Hash(), Totals: c.Template.Totals()}
	write(t, b, c, r)
}

func texts(indexes []route.Index) []string {
	var all []string
	for _, x := range indexes {
		all = append(all, x.String())
	}
	return all
}

// rounded reports whether values are the same up to the rounding of a sum of doubles.
func rounded(a, b value.Value) bool {
	if !a.IsDouble() || !b.IsDouble() {
		return a == b
	}
	return math.Abs(a.Float64()-b.Float64()) <= 1e-12*math.Abs(a.Float64())
}

// An elsewhere is a reference to a document of another database.
type elsewhere string

// pick returns one of a list.
func pick[T any](random *rand.Rand, list ...T) T { return list[random.IntN(len(list))] }

// countersOf returns the counters to which documents belong by a route of a collection, and one
// that most likely has none. It says of each whether it has documents.
func countersOf(r *route.Route, collection string, docs map[string]map[string]any) map[route.Counter]bool {
	ids := make(map[string]string)
	for _, s := range r.Template.Segments() {
		ids[s.Name] = "all"
	}
	for _, k := range r.By {
		if id := map[route.Function]string{route.Number: "-7", route.Day: "2026-11-27", route.Week: "2026-W48", route.Month: "2026-11"}[k.Function]; id != "" {
			ids[k.Name] = id
		}
	}
	var path []string
	for _, s := range r.Template.Segments() {
		if s.Capture {
			s.Name = ids[s.Name]
		}
		path = append(path, s.Name)
	}
	c, ok := r.Template.Counter(strings.Join(path, "/"))
	if !ok {
		panic(fmt.Sprintf("%v is no counter of %s", path, r))
	}

	counters := map[route.Counter]bool{c: false}
	for path, fields := range docs {
		fields = int64s(fields)
		if c, ok := r.Belongs(path, func(f document.Field) any { held, _ := f.In(fields); return held }); ok {
			counters[c] = true
		}
	}
	return counters
}

// randomRoute returns a route of a collection, by each kind of key and by two of them. Its roll-ups
// are in a collection of their own, or documents of the same one. Then one of its totals may have
// the name of a field that it reads, and such a route is refused.
func randomRoute(random *rand.Rand, collection string) string {
	zone := pick(random, "", "", `, "Europe/Berlin"`, `, "America/Sao_Paulo"`, `, "America/St_Johns"`, `, "Pacific/Apia"`, `, "America/New_York"`)
	totalsOf := "totals" + collection
	source := pick(random,
		"docs/{d} -> totals/all",
		"docs/{d} by g -> totals/{g}",
		"docs/{d} by m.g -> totals/{g}/of/all",
		"docs/{d} by number(n) -> totals/{n}",
		"docs/{d} by ref(r) -> totals/{r}",
		"docs/{d} by ref(r) -> totals/{r}/of/x",
		"docs/{d} by day(at"+zone+") -> totals/{day}",
		"docs/{d} by week(at"+zone+") -> totals/{week}",
		"docs/{d} by month(at"+zone+") as when -> totals/{when}",
		"docs/{d} by g, day(at"+zone+") -> totals/{g}/days/{day}",
		"docs/{d} by number(n), month(m.at"+zone+") -> totals/{month}/of/{n}",
		"docs/{d} by g, m.g as h -> totals/{h}/of/{g}",
		"docs/{d} by ref(r), g -> totals/{r}/of/{g}",
		"p/{p}/docs/{d} -> totals/{p}",
		"p/{p}/docs/{d} by g -> totals/{p}/of/{g}",
		"p/{p}/docs/{d} by day(at"+zone+") -> totals/{p}/days/{day}",
		"p/{p}/docs/{d} by g, day(at"+zone+") -> totals/{g}/of/{p}/days/{day}",
		"p/{p}/docs/{d} by g, week(at"+zone+") -> totals/{g}/of/{p}/days/{week}",
		"docs/{d} -> docs/all",
		"docs/{d} by g -> docs/{g}",
		"docs/{d} by m.g as h -> docs/{h}",
		"docs/{d} by ref(r) -> docs/{r}",
		"p/{p}/docs/{d} by g -> p/{p}/docs/{g}",
		"p/{p}/docs/{d} by g -> totals/{g}",
		"p/{p}/docs/{d} by number(n) -> totals/{n}",
		"p/{p}/docs/{d} by ref(r) -> totals/{r}",
		"p/{p}/docs/{d} by g, m.g as h -> totals/{h}/of/{g}",
		"p/{p}/docs/{d} by g -> docs/{g}",
		"q/{q}/p/{p}/docs/{d} by g -> totals/{q}/of/{g}",
	)
	across := strings.HasPrefix(source, "q/") || strings.HasPrefix(source, "p/") && strings.Contains(source, " by ") && strings.Count(source, "{p}") == 1
	circular := strings.Contains(source, "-> docs/") || strings.Contains(source, "-> p/")
	source = strings.NewReplacer("docs/", collection+"/", "totals/", totalsOf+"/").Replace(source)
	timed := strings.Contains(source, "day(") || strings.Contains(source, "week(") || strings.Contains(source, "month(")
	at := "at"
	if strings.Contains(source, "m.at") {
		at = "m.at"
	}

	fields := []string{"a", "b", "m.c", "m.`d e`"}
	var totals []string
	for i := range 1 + random.IntN(4) {
		aggregate := pick(random, route.Sum, route.Count, route.Average, route.Maximum, route.Minimum, route.Latest, route.Earliest)
		of := pick(random, fields...)
		if timed {
			aggregate = pick(random, route.Sum, route.Count, route.Average, route.Latest, route.Earliest)
		}
		if across {
			aggregate = pick(random, route.Sum, route.Count, route.Average)
		}
		if timed && aggregate.OfTimes() {
			of = at
		}
		if aggregate == route.Count {
			of = ""
		}
		total := fmt.Sprintf("%s(%s)", aggregate, of)
		conditions := randomConditions(random, aggregate, of, fields, !timed && !across)
		if len(conditions) > 0 {
			total += " where " + strings.Join(conditions, " and ")
		}
		name := fmt.Sprint("t", i)
		if circular && i == 0 {
			name = pick(random, name, "a", "b", "g")
		}
		totals = append(totals, total+" as "+name)
	}
	option := "existing"
	if random.IntN(2) == 0 {
		option = within(source, totalsOf, option)
	}
	return source + " : " + strings.Join(totals, ", ") + " : " + option
}

// within returns the option within for a route that can have it, and another one for the others.
func within(source, totalsOf, otherwise string) string {
	_, template, _ := strings.Cut(source, " -> "+totalsOf+"/")
	for _, time := range []string{"{day}", "{week}", "{month}", "{when}"} {
		switch owner, is := strings.CutSuffix(template, "/days/"+time); {
		case is:
			return "within " + totalsOf + "/" + owner
		case template == time:
			return "within"
		}
	}
	return otherwise
}

// randomConditions returns up to three conditions of a total: each form that there is, of each kind
// of value, and without ranges if none is wanted.
func randomConditions(random *rand.Rand, aggregate route.Aggregate, of string, fields []string, ranges bool) []string {
	kinds := [][]string{
		{`"a"`, `""`, `"é"`, `"2"`},
		{"0", "-0.0", "1", "2", "2.0", "0.5", "-3", "9007199254740993"},
		{"true", "false"},
		{`timestamp("2026-01-02T03:04:05.678901Z")`, `timestamp("2026-01-02T04:04:05.678902+01:00")`},
	}
	ofTimes := aggregate.OfTimes()

	var conditions []string
	ranged := false
	room := 30 // alternatives that Firestore lets the lists of one query make
	for _, i := range random.Perm(len(fields))[:random.IntN(4)] {
		field, kind := fields[i], pick(random, kinds...)
		form := pick(random, "==", "in", "range", "window", "null")
		if !ranges && (field == of || form == "range" || form == "window") {
			continue
		}
		if field == of && !(form == "window" && ofTimes) {
			form, kind = "range", kinds[1]
			if ofTimes {
				kind = kinds[3]
			}
		}

		switch form {
		case "==":
			conditions = append(conditions, field+" == "+pick(random, kind...))
		case "null":
			conditions = append(conditions, field+" == null")
		case "in":
			list := []string{pick(random, kinds[0]...), pick(random, kinds[1]...), pick(random, kinds[2]...), pick(random, kinds[3]...)}
			list = list[:1+random.IntN(min(len(list), room))]
			room /= len(list)
			conditions = append(conditions, field+" in ["+strings.Join(list, ", ")+"]")
		case "window":
			if ranged {
				continue
			}
			ranged = true
			conditions = append(conditions, field+pick(random, " > ", " >= ")+pick(random, "now - 1m", "now - 1h", "now - 400d"))
		case "range":
			if ranged {
				continue
			}
			ranged = true
			lower, upper := field+pick(random, " > ", " >= ")+pick(random, kind...), field+pick(random, " < ", " <= ")+pick(random, kind...)
			conditions = append(conditions, pick(random, [][]string{{lower}, {upper}, {upper, lower}}...)...)
		}
	}
	return conditions
}

// edge returns an instant at which a leap day, a day that would be one, or a year begins or ends in
// one of the zones of randomRoute, or the instant before. The offsets are those of the northern
// winter.
func edge(random *rand.Rand) time.Time {
	year := pick(random, 1900, 2000, 2024, 2025, 2037, 2044, 2096, 2100, 2400)
	begins := pick(random, time.Date(year, 2, 29, 0, 0, 0, 0, time.UTC), time.Date(year, 3, 1, 0, 0, 0, 0, time.UTC),
		time.Date(year, 12, 31, 0, 0, 0, 0, time.UTC), time.Date(year+1, 1, 1, 0, 0, 0, 0, time.UTC))
	west := pick(random, 0, -60, 120, 180, 210, 300, -780, -840) // minutes
	return begins.Add(time.Duration(west)*time.Minute - pick(random, 0, time.Microsecond))
}

// randomDocuments returns up to six documents by their paths, and two without fields.
func randomDocuments(random *rand.Rand, collection string) map[string]map[string]any {
	values := []any{0, 1, 2, -3, "é", 1<<53 + 1, float64(1 << 53), 0.5, 2.0, -1.5, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1), "a", "", "2", true, false, nil, noon, late, []any{int64(1)}}
	ago := time.Now().UTC().Truncate(time.Microsecond)
	values = append(values, ago, ago.Add(-30*time.Minute), ago.Add(-31*time.Minute), ago.Add(24*time.Hour))
	var times []any
	for _, at := range []string{"0001-01-01T00:00:00Z", "0001-01-02T03:00:00Z", "9999-12-31T23:59:59.999999Z", "9999-12-30T23:30:00Z", "2026-10-25T00:30:00Z", "2026-10-25T22:30:00Z", "2026-10-25T23:00:00Z", "2026-10-24T22:00:00Z",
		"2017-10-15T02:59:59.999999Z", "2017-10-15T03:00:00Z", "2018-02-18T01:30:00Z", "2018-02-18T02:30:00Z", "2018-02-18T03:00:00Z", "2010-11-07T02:30:30Z", "2010-11-07T02:40:00Z", "2010-11-07T03:30:00Z", "2011-12-30T09:59:59Z", "2011-12-30T10:00:00Z"} {
		instant, err := time.Parse(time.RFC3339Nano, at)
		if err != nil {
			panic(err)
		}
		times = append(times, instant)
	}
	times = append(times, ago, noon, noon, "2026-11-27", nil)
	for range 10 {
		times = append(times, edge(random))
	}
	groups := []any{"all", "all", "other", "0", "1", 1, nil, "a/b"}
	numbers := []any{42, 42.0, 0, math.Copysign(0, -1), 1 << 53, float64(1 << 53), 1<<53 + 1, math.MinInt64, float64(math.MinInt64), float64(1 << 63), 0.5, math.NaN(), "42", -7}
	totals := "totals" + collection
	refs := []any{document.Reference(totals + "/all"), document.Reference(totals + "/ann"), document.Reference("others/all"), document.Reference(totals + "/all/of/x"), "all", elsewhere(totals + "/all"),
		document.Reference(collection + "/0"), document.Reference(collection + "/1"), elsewhere(collection + "/0")}

	docs := map[string]map[string]any{collection + "/bare": {}, "p/all/" + collection + "/bare": {}} // so that each walk goes along a collection
	for i := range random.IntN(7) {
		fields, inner := make(map[string]any), make(map[string]any)
		fields["m"], fields["g"], inner["g"] = inner, pick(random, groups...), pick(random, groups...)
		fields["n"], fields["r"] = pick(random, numbers...), pick(random, refs...)
		fields["at"], inner["at"] = pick(random, times...), pick(random, times...)
		for _, at := range []struct {
			in   map[string]any
			name string
		}{{fields, "a"}, {fields, "b"}, {inner, "c"}, {inner, "d e"}} {
			if random.IntN(4) > 0 {
				at.in[at.name] = pick(random, values...)
			}
		}
		docs[fmt.Sprintf("%s%s/%d", pick(random, "", "p/all/", "p/x/", "p/x/y/z/", "q/all/p/x/", "q/x/p/all/y/z/", "q/all/"), collection, i)] = fields
	}
	return docs
}
