package storetest

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
)

// compared are values of all kinds, by names for the table below.
var compared = []struct {
	name string
	v    any
}{
	{"NaN", math.NaN()}, {"-Inf", math.Inf(-1)}, {"-3", -3}, {"-0.0", math.Copysign(0, -1)}, {"0", 0}, {"0.0", 0.0}, {"1.5", 1.5}, {"2", 2}, {"2.0", 2.0},
	{"2^53", float64(1 << 53)}, {"2^53+1", 1<<53 + 1}, {"2^53+2", float64(1<<53 + 2)}, {"Inf", math.Inf(1)},
	{"null", nil}, {"false", false}, {"true", true},
	{"noon", noon}, {"late", late}, {"nanoseconds", late.Add(999)}, {"year 1", time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)},
	{"empty", ""}, {"A", "A"}, {"a", "a"}, {"a0", "a\x00"}, {"é", "é"}, {"ffff", "\uffff"}, {"emoji", "\U0001f600"}, {"digits", "2"},
	{"x1498", strings.Repeat("x", 1498)}, {"x1499", strings.Repeat("x", 1499)}, {"x1500", strings.Repeat("x", 1500)}, {"x2000", strings.Repeat("x", 2000)}, {"x1499y", strings.Repeat("x", 1499) + "y"},
	{"list", []any{2}}, {"map", map[string]any{"v": 2}}, {"bytes", []byte("a")},
}

// Both stores, and documents that are read one by one, agree with this table. A comparison sees
// values of its own kind only. NaN and null meet none, except for null == null. Texts are compared
// by the bytes of their UTF-8, and times by microseconds. The index of a text has its first 1,500
// bytes, which no bound is as long as.
func testComparisons(t *testing.T, b backend) {
	x1498, x1499 := `"`+strings.Repeat("x", 1498)+`"`, `"`+strings.Repeat("x", 1499)+`"`
	table := []struct{ condition, want string }{
		{"== 2", "2 2.0"},
		{"== -0.0", "-0.0 0 0.0"},
		{"== null", "null"},
		{`== timestamp("2026-01-02T03:04:05.678902Z")`, "late nanoseconds"},
		{"> 0", "1.5 2 2.0 2^53 2^53+1 2^53+2 Inf"},
		{"> -0.0", "1.5 2 2.0 2^53 2^53+1 2^53+2 Inf"},
		{">= 0", "-0.0 0 0.0 1.5 2 2.0 2^53 2^53+1 2^53+2 Inf"},
		{"< 0", "-Inf -3"},
		{"<= 0.0", "-Inf -3 -0.0 0 0.0"},
		{"< 2", "-Inf -3 -0.0 0 0.0 1.5"},
		{"<= 2.0", "-Inf -3 -0.0 0 0.0 1.5 2 2.0"},
		{"> 9007199254740992.0", "2^53+1 2^53+2 Inf"},
		{">= 9007199254740993", "2^53+1 2^53+2 Inf"},
		{"< 9007199254740993", "-Inf -3 -0.0 0 0.0 1.5 2 2.0 2^53"},
		{"> 1.7976931348623157e308", "Inf"},
		{"< -1.7976931348623157e308", "-Inf"},
		{"> -3 and v <= 1.5", "-0.0 0 0.0 1.5"},
		{"> 2 and v < 1", ""},
		{"> false", "true"},
		{">= false", "false true"},
		{"<= false", "false"},
		{"< false", ""},
		{`> timestamp("2026-01-02T03:04:05.678901Z")`, "late nanoseconds"},
		{`>= timestamp("2026-01-02T03:04:05.678901Z")`, "noon late nanoseconds"},
		{`< timestamp("2026-01-02T03:04:05.678902Z")`, "noon year 1"},
		{`<= timestamp("2026-01-02T03:04:05.678902Z")`, "noon late nanoseconds year 1"},
		{`> timestamp("9999-12-31T23:59:59.999999Z")`, ""},
		{`>= timestamp("0001-01-01T00:00:00Z")`, "noon late nanoseconds year 1"},
		{`> ""`, "A a a0 é ffff emoji digits x1498 x1499 x1500 x2000 x1499y"},
		{`>= "a"`, "a a0 é ffff emoji x1498 x1499 x1500 x2000 x1499y"},
		{`> "a"`, "a0 é ffff emoji x1498 x1499 x1500 x2000 x1499y"},
		{`< "a"`, "empty A digits"},
		{`<= ""`, "empty"},
		{`> "` + "\uffff" + `"`, "emoji"},
		{`<= "é"`, "empty A a a0 é digits x1498 x1499 x1500 x2000 x1499y"},
		{"== " + x1499, "x1499"},
		{"> " + x1499, "é ffff emoji x1500 x2000 x1499y"},
		{"<= " + x1499, "empty A a a0 digits x1498 x1499"},
		{">= " + x1498, "é ffff emoji x1498 x1499 x1500 x2000 x1499y"},
		{`in ["a"]`, "a"},
		{`in [2, "2", false, timestamp("2026-01-02T03:04:05.678901Z"), -0.0]`, "-0.0 0 0.0 2 2.0 false noon digits"},
		{"in [1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 2]", "2 2.0"},
	}

	// The documents count 1, 2, 4 and so on, so each sum says which of them it takes.
	var totals []string
	for i, row := range table {
		totals = append(totals, fmt.Sprintf("sum(bit) where v %s as t%d", row.condition, i))
	}
	routes, err := route.Parse("values/{name} -> totals/all : " + strings.Join(totals, ", "))
	if err != nil {
		t.Fatal(err)
	}
	documents := make(map[string]map[string]any)
	for i, c := range compared {
		path := "values/" + c.name
		documents[path] = map[string]any{"v": c.v, "bit": 1 << i}
		b.Put(t, path, documents[path])
	}

	counter, _ := routes[0].Template.Counter("totals/all")
	stored := look(t, b, counter).totals
	read := totalsOf(counter, documents, someTime)
	for i, row := range table {
		for way, got := range map[string]route.Totals{"by a query": stored, "read one by one": read} {
			if d := cmp.Diff(row.want, taken(got.Values[fmt.Sprintf("t%d", i)])); d != "" {
				t.Errorf("v %.40s, %s (-want +got):\n%s", row.condition, way, d)
			}
		}
	}
}

// taken returns the names of the values that a sum of their bits took.
func taken(sum value.Value) string {
	bits, _ := sum.Int64()
	var names []string
	for i, c := range compared {
		if bits&(1<<i) != 0 {
			names = append(names, c.name)
		}
	}
	return strings.Join(names, " ")
}
