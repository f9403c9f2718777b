package storetest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
)

// A sum is shards and what they add up to, read either way.
type sum struct {
	name      string
	fields    string // of the route; "" means count
	shards    []map[string]any
	want      map[string]value.Value
	numShards int64
	malformed []string // "shard field"
}

func count(values ...any) []map[string]any {
	var shards []map[string]any
	for _, v := range values {
		shards = append(shards, map[string]any{"count": v})
	}
	return shards
}

func only(n value.Value) map[string]value.Value { return map[string]value.Value{"count": n} }

var sums = []sum{
	{name: "one", shards: count(42), want: only(value.Int(42)), numShards: 1},
	{name: "negative", shards: count(-5, 2), want: only(value.Int(-3)), numShards: 2},
	{name: "to zero", shards: count(-5, 5), want: only(value.Int(0)), numShards: 2},
	{name: "doubles", shards: count(0.5, 0.25), want: only(value.Double(0.75)), numShards: 2},
	{name: "mixed", shards: count(1, 0.5), want: only(value.Double(1.5)), numShards: 2},
	{name: "whole doubles stay doubles", shards: count(1.0, 2.0), want: only(value.Double(3)), numShards: 2},
	{name: "above 2^53", shards: count(1<<53, 1, 1<<53), want: only(value.Int(1<<54 + 1)), numShards: 3},
	{name: "largest", shards: count(math.MaxInt64-1, 1), want: only(value.Int(math.MaxInt64)), numShards: 2},
	{name: "smallest", shards: count(math.MinInt64+1, -1), want: only(value.Int(math.MinInt64)), numShards: 2},
	{name: "beyond int64", shards: count(math.MaxInt64, math.MaxInt64), want: only(value.Double(1 << 64)), numShards: 2},
	{name: "text", shards: count(5, "7"), want: only(value.Int(5)), numShards: 2, malformed: []string{"1 count"}},
	{name: "text alone", shards: count("7"), want: only(value.Int(0)), numShards: 1, malformed: []string{"0 count"}},
	{name: "text among doubles", shards: count(0.5, 0.25, "x", 0.125), want: only(value.Double(0.875)), numShards: 4, malformed: []string{"2 count"}},
	{name: "text among large", shards: count(math.MaxInt64, math.MaxInt64, true), want: only(value.Double(1 << 64)), numShards: 3, malformed: []string{"2 count"}},
	{name: "null, boolean, array, map, timestamp", shards: count(1, nil, true, []any{1}, map[string]any{"count": 1}, someTime), want: only(value.Int(1)), numShards: 6,
		malformed: []string{"1 count", "2 count", "3 count", "4 count", "5 count"}},
	{name: "NaN", shards: count(1, math.NaN(), 2), want: only(value.Int(3)), numShards: 3, malformed: []string{"1 count"}},
	{name: "infinite", shards: count(math.Inf(1), 2.5, math.Inf(-1)), want: only(value.Double(2.5)), numShards: 3, malformed: []string{"0 count", "2 count"}},
	{name: "beyond the largest double", shards: count(math.MaxFloat64, math.MaxFloat64), want: only(value.Double(math.MaxFloat64)), numShards: 2},
	{name: "below the least double", shards: count(-math.MaxFloat64, -math.MaxFloat64), want: only(value.Double(-math.MaxFloat64)), numShards: 2},
	{name: "shards without the field", shards: []map[string]any{{"count": 1}, {"other": 2}}, want: only(value.Int(1)), numShards: 1},
	{name: "two fields, some with one", fields: "likes, views", shards: []map[string]any{{"likes": 1}, {"views": 2}, {"likes": 10, "views": 20}, {"other": 1}},
		want: map[string]value.Value{"likes": value.Int(11), "views": value.Int(22)}, numShards: 2},
	{name: "two fields, most in the second", fields: "likes, views", shards: []map[string]any{{"likes": 1}, {"views": 2}, {"views": "x"}},
		want: map[string]value.Value{"likes": value.Int(1), "views": value.Int(2)}, numShards: 2, malformed: []string{"2 views"}},
	{name: "text and a sum of 0", shards: count(-5, "x", 5, nil), want: only(value.Int(0)), numShards: 4, malformed: []string{"1 count", "3 count"}},
	{name: "numbers that cancel out", shards: count(1e300, 1, -1e300, math.NaN()), want: only(value.Double(1)), numShards: 4, malformed: []string{"3 count"}},
	{name: "two fields, text in one", fields: "likes, views", shards: []map[string]any{{"likes": 1, "views": "x"}, {"views": 2}},
		want: map[string]value.Value{"likes": value.Int(1), "views": value.Int(2)}, numShards: 2, malformed: []string{"0 views"}},
	{name: "two fields, NaN in one", fields: "likes, views", shards: []map[string]any{{"likes": math.NaN(), "views": 1}, {"likes": 2}},
		want: map[string]value.Value{"likes": value.Int(2), "views": value.Int(1)}, numShards: 2, malformed: []string{"0 likes"}},
	{name: "two fields, no shards", fields: "likes, views", want: map[string]value.Value{"likes": value.Int(0), "views": value.Int(0)}},
	{name: "a field of many characters", fields: route.Quote(odd), shards: []map[string]any{{odd: 3}}, want: map[string]value.Value{odd: value.Int(3)}, numShards: 1},
}

// odd is a field whose name only backticks can spell.
const odd = `a b-c’é😀; d -> e: "f", {g} \\`

func (s sum) run(t *testing.T, b backend, option string) {
	fields := s.fields
	if fields == "" {
		fields = "count"
	}
	c := counter("c/{c}/s/{s} -> r/{c} : "+fields+option, "c/x/s")
	for i, shard := range s.shards {
		b.Put(t, fmt.Sprintf("c/x/s/%d", i), shard)
	}
	b.Put(t, "c/y/s/0", map[string]any{"count": 1000, "likes": 1000, "views": 1000}) // another counter's
	v := look(t, b, c)
	if d := diff(route.Totals{Values: s.want, Shards: []int64{s.numShards}, Malformed: int64(len(s.malformed))}, v.totals); d != "" {
		t.Errorf("totals (-want +got):\n%s", d)
	}
	if d := cmp.Diff(s.malformed, malformed(t, v.malformed)); d != "" {
		t.Errorf("malformed (-want +got):\n%s", d)
	}
}

// malformed returns which fields of which shards are named, and checks that a reason is given.
func malformed(t *testing.T, named []string) (fields []string) {
	t.Helper()
	for _, text := range named {
		field, reason, _ := strings.Cut(strings.TrimPrefix(text, "c/x/s/"), " is ")
		if reason == "" {
			t.Errorf("%q: no reason given", text)
		}
		fields = append(fields, strings.Replace(field, ":", "", 1))
	}
	slices.Sort(fields)
	return fields
}

// testSeveralRoutes: the totals of routes of one template are summed in one snapshot, each over its
// own source. count() counts documents, whatever they hold.
func testSeveralRoutes(t *testing.T, b backend) {
	routes, err := route.Parse(`
		posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing
		posts/{p}/ratings/{user} -> posts/{p} : count() as ratings, stars, half as halves : existing
		log/{p}/old/{user} -> posts/{p} : views : documents : existing
		log/{p}/older/{user} -> posts/{p} : visits : documents : existing`)
	if err != nil {
		t.Fatal(err)
	}
	c, ok := routes[1].Template.Counter("posts/7")
	if !ok {
		t.Fatal("posts/7 is not a counter")
	}
	empty := route.Totals{Shards: []int64{0, 0, 0, 0}, Values: map[string]value.Value{
		"likes": value.Int(0), "ratings": value.Int(0), "stars": value.Int(0), "halves": value.Int(0), "views": value.Int(0), "visits": value.Int(0)}}
	if d := diff(empty, look(t, b, c).totals); d != "" {
		t.Errorf("no documents (-want +got):\n%s", d)
	}
	for path, fields := range map[string]map[string]any{
		"posts/7/likes/a": {}, "posts/7/likes/b": {"text": "x"}, "posts/7/likes/c": {"count": "x"}, "posts/8/likes/a": {},
		"posts/7/ratings/a": {"stars": 5}, "posts/7/ratings/b": {"stars": 4, "half": 0.5}, "posts/7/ratings/c": {"stars": "five"}, "posts/7/ratings/d": {}, "posts/7/ratings/e": {"half": nil},
		"log/7/old/a": {"views": 7}, "log/7/old/b": {"views": "many"}, "log/8/old/a": {"views": 100},
		"log/7/older/a": {"visits": 3}, "log/7/older/b": {"visits": "none"},
	} {
		b.Put(t, path, fields)
	}
	s := open(t, b, c)
	b.Delete(t, "posts/7/likes/a")
	b.Put(t, "posts/7/ratings/f", map[string]any{"stars": 100})
	want := route.Totals{Shards: []int64{3, 5, 2, 2}, Malformed: 4, Values: map[string]value.Value{
		"likes": value.Int(3), "ratings": value.Int(5), "stars": value.Int(9), "halves": value.Double(0.5), "views": value.Int(7), "visits": value.Int(3)}}
	got := sumOf(t, s)
	if d := diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if n := got.NumShards(); n != 12 {
		t.Errorf("%d documents were counted, want 12", n)
	}
	named, err := s.Malformed(t.Context(), 10)
	if d := cmp.Diff([]string{"log/7/old/b views", "log/7/older/b visits", "posts/7/ratings/c stars", "posts/7/ratings/e half"}, malformed(t, named)); d != "" || err != nil {
		t.Errorf("malformed: %v (-want +got):\n%s", err, d)
	}
}

// A magnitude is the sum of the finite numbers without their signs.
func testMagnitude(t *testing.T, b backend) {
	for i, shard := range count(1e16, -1e16, 0.5, -3, "x", math.NaN(), math.Inf(-1), math.Inf(1)) {
		b.Put(t, fmt.Sprint(source(likes), "/", i), shard)
	}
	s := open(t, b, likes)
	if totals := sumOf(t, s); !totals.Values["count"].Finite() {
		t.Errorf("the sum is %v", totals.Values["count"])
	}
	got, err := s.Magnitude(t.Context(), "count")
	if want := 2e16 + 3.5; err != nil || math.Abs(got-want) > 8 { // some rounding steps
		t.Errorf("got %v, %v; want about %v", got, err, want)
	}
}

// A magnitude beyond the largest double is that. It bounds by how much a sum may differ, so it must
// be finite.
func testLargestMagnitude(t *testing.T, b backend) {
	for i, shard := range count(1.5e308, -1e308) {
		b.Put(t, fmt.Sprint(source(likes), "/", i), shard)
	}
	s := open(t, b, likes)
	sumOf(t, s)
	if got, err := s.Magnitude(t.Context(), "count"); err != nil || got != math.MaxFloat64 {
		t.Errorf("got %v, %v; want %v", got, err, math.MaxFloat64)
	}
}

// Documents that are read one by one are added up exactly, so their order makes no difference.
func testNoMagnitude(t *testing.T, b backend) {
	c := counter("counters/{counter}/shards/{shard} -> rollups/{counter} : count : documents", source(likes))
	b.Put(t, source(likes)+"/0", map[string]any{"count": 0.5})
	s := open(t, b, c)
	sumOf(t, s)
	if got, err := s.Magnitude(t.Context(), "count"); err != nil || got != 0 {
		t.Errorf("got %v, %v; want 0", got, err)
	}
}
