package memstore

import (
	"maps"
	"math"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup/route"
	"google.golang.org/genproto/googleapis/type/latlng"
)

// A TotalKind is a kind of total, as a route spells it, of documents with the fields stars and at.
type TotalKind struct {
	Total   string
	OfTimes bool
}

// TotalKinds are totals of each kind.
var TotalKinds = []TotalKind{
	{"count()", false},
	{"count() where stars > 3", false},
	{"sum(stars)", false},
	{"average(stars)", false},
	{"maximum(stars)", false},
	{"minimum(stars)", false},
	{"latest(at)", true},
	{"earliest(at)", true},
	{"count() where at > now - 400d", false},
}

// An OwnValue is a value of the app's in the field of a total.
type OwnValue struct {
	Kind  string // in the words of the log
	Value any
}

// OwnValues are values that no total can be. The last one is a time for totals of numbers, and a
// number for totals of times.
func OwnValues(ofTimes bool) []OwnValue {
	all := []OwnValue{
		{"an array", []any{"ann", "bob"}},
		{"an array", []any{map[string]any{"id": "ann"}}},
		{"a map", map[string]any{"ann": true}},
		{"a string", "1.2K"},
		{"a boolean", true},
		{"a boolean", false},
		{"a reference", document.Reference("users/ann")},
		{"bytes", []byte{0}},
		{"a place", &latlng.LatLng{Latitude: 48, Longitude: 11}},
	}
	if ofTimes {
		return append(all, OwnValue{"a number", int64(0)})
	}
	return append(all, OwnValue{"a timestamp", time.Date(1999, 12, 31, 8, 0, 0, 0, time.UTC)})
}

// Nothings are values that say nothing.
var Nothings = []any{nil, "", []any{}, map[string]any{}}

// ForgedTallies are what a client may write into the field tally of a document with totals: each
// part alone and all together. The total "kept" is among those of the template.
func ForgedTallies(t *route.Template, now time.Time) map[string]map[string]any {
	fields := map[string]any{
		"as_of": now.Add(-time.Hour), "num_shards": int64(7), "paced_until": now.Add(30 * time.Second), "routes": t.Hash(),
		"totals": []any{"kept"}, "former": []any{"kept", "title"}, "took": int64(40_000_000), "rings": now.Add(1000 * time.Hour),
		"turns":           []any{map[string]any{"routes": "0f5c", "as_of": now.Add(-2 * time.Hour)}},
		"ownerless_since": now.Add(-3 * time.Hour), "before": map[string]any{"kept": int64(5), "title": int64(6), "nan": math.NaN()},
	}
	with := func(name string, v any) map[string]any {
		changed := maps.Clone(fields)
		changed[name] = v
		return changed
	}
	forged := map[string]map[string]any{
		"nothing":                   nil,
		"an empty map":              {},
		"everything":                fields,
		"everything, in the future": with("as_of", now.Add(time.Hour)),
		"as a roll-up of nothing":   with("num_shards", int64(0)),
	}
	for name, field := range fields {
		forged[name] = map[string]any{name: field}
		forged[name+" and as_of"] = map[string]any{name: field, "as_of": fields["as_of"]}
		without := maps.Clone(fields)
		delete(without, name)
		forged["all but "+name] = without
	}
	return forged
}
