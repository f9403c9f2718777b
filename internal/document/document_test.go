package document_test

import (
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/value"
	"github.com/google/go-cmp/cmp"
)

func TestTally(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)
	whole := document.Tally{AsOf: at, NumShards: 7, PacedUntil: at.Add(time.Second), Routes: "5f0c", Totals: []string{"likes", "views"}, Former: []string{"count"},
		Took: 15 * time.Millisecond, Rings: at.Add(time.Minute), Turns: []document.Turn{{Routes: "0f5c", AsOf: at}, {Routes: "e1d2", AsOf: at.Add(time.Second)}},
		OwnerlessSince: at.Add(time.Hour), Before: map[string]value.Value{"likes": value.Int(1234), "count": value.Timestamp(at)}}
	for _, test := range []struct {
		name  string
		value any
		want  document.Tally
	}{
		{"whole", whole.Encode(), whole},
		{"nothing", nil, document.Tally{}},
		{"no map", "tally", document.Tally{}},
		{"a part", map[string]any{"as_of": at, "unknown": 1}, document.Tally{AsOf: at}},
		{"other types", map[string]any{"as_of": at.String(), "num_shards": "7", "paced_until": int64(1), "routes": 5, "totals": "likes", "former": []any{1, "count"},
			"took": 0.5, "rings": 7, "ownerless_since": 7, "turns": []any{7, map[string]any{"routes": "5f0c"}, map[string]any{"as_of": at}, map[string]any{"routes": "0f5c", "as_of": at}}},
			document.Tally{Former: []string{"count"}, Turns: []document.Turn{{Routes: "0f5c", AsOf: at}}}},
		{"a made-up before", map[string]any{"totals": []any{"a", "b", "c", "d", "e"}, "before": map[string]any{"a": 0.5, "b": math.NaN(), "c": math.Inf(-1), "d": "1234", "e": nil, "other": int64(7)}},
			document.Tally{Totals: []string{"a", "b", "c", "d", "e"}, Before: map[string]value.Value{"a": value.Double(0.5)}}},
		{"a before that is no map", map[string]any{"totals": []any{"a"}, "before": []any{"a"}}, document.Tally{Totals: []string{"a"}}},
		{"an integer as a double", map[string]any{"num_shards": 7.0}, document.Tally{NumShards: 7}},
		{"a double of microseconds", map[string]any{"took": 15000.0}, document.Tally{Took: 15 * time.Millisecond}},
		{"-0.0", map[string]any{"num_shards": math.Copysign(0, -1)}, document.Tally{}},
		{"a negative double", map[string]any{"num_shards": -7.0}, document.Tally{NumShards: -7}},
		{"the largest double that is one integer only", map[string]any{"num_shards": 0x1p53 - 1}, document.Tally{NumShards: 1<<53 - 1}},
		{"a double that may be two integers", map[string]any{"num_shards": 0x1p53}, document.Tally{}},
		{"a double beyond 64 bits", map[string]any{"num_shards": 1e300}, document.Tally{}},
		{"the smallest double", map[string]any{"num_shards": -math.MaxFloat64}, document.Tally{}},
		{"a fraction", map[string]any{"num_shards": 7.5}, document.Tally{}},
		{"NaN", map[string]any{"num_shards": math.NaN()}, document.Tally{}},
		{"Infinity", map[string]any{"num_shards": math.Inf(1)}, document.Tally{}},
		{"the largest integer", map[string]any{"num_shards": int64(math.MaxInt64)}, document.Tally{NumShards: math.MaxInt64}},
	} {
		if d := cmp.Diff(test.want, document.DecodeTally(test.value)); d != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, d)
		}
	}
	if !whole.Covers("views") || whole.Covers("count") {
		t.Error("as_of speaks for the totals that are kept, and for no former one")
	}
	if !whole.Wrote("views") || !whole.Wrote("count") || whole.Wrote("other") || (document.Tally{Totals: []string{"views"}}).Wrote("views") {
		t.Error("roll-ups have written the totals and the former ones, and without an as_of there was none")
	}
}

// Two tallies are equal if all of their parts are. Every new part of a Tally must be compared.
func TestTallyEqual(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)
	whole := document.Tally{AsOf: at, NumShards: 7, PacedUntil: at.Add(time.Second), Routes: "5f0c", Totals: []string{"likes"}, Former: []string{"count"},
		Took: 15 * time.Millisecond, Rings: at.Add(time.Minute), Turns: []document.Turn{{Routes: "0f5c", AsOf: at}}, OwnerlessSince: at,
		Before: map[string]value.Value{"likes": value.Int(2), "count": value.Double(1.5)}}
	same := document.DecodeTally(whole.Encode())
	same.AsOf = same.AsOf.In(time.FixedZone("elsewhere", 3600))
	if !whole.Equal(same) || !(document.Tally{}).Equal(document.DecodeTally(nil)) {
		t.Error("a tally differs from itself")
	}

	asDoubles := whole
	asDoubles.Before = map[string]value.Value{"likes": value.Double(2), "count": value.Double(1.5)}
	if !whole.Equal(asDoubles) {
		t.Error("to security rules 2 is 2.0, so a client may have turned one into the other")
	}
	for i := range reflect.TypeFor[document.Tally]().NumField() {
		part := whole
		reflect.ValueOf(&part).Elem().Field(i).SetZero()
		if whole.Equal(part) || part.Equal(whole) {
			t.Errorf("a tally without its %s is equal", reflect.TypeFor[document.Tally]().Field(i).Name)
		}
	}
	for _, before := range []map[string]value.Value{{"likes": value.Int(3), "count": value.Double(1.5)}, {"likes": value.Timestamp(time.UnixMicro(2)), "count": value.Double(1.5)}} {
		other := whole
		other.Before = before
		if whole.Equal(other) {
			t.Errorf("a tally with another before is equal: %v", before)
		}
	}
	for _, turn := range []document.Turn{{Routes: "e1d2", AsOf: at}, {Routes: "0f5c", AsOf: at.Add(1)}} {
		other := whole
		other.Turns = []document.Turn{turn}
		if whole.Equal(other) {
			t.Errorf("a tally with another turn is equal: %v", turn)
		}
	}
}
