package roll

import (
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup/route"
)

func TestDue(t *testing.T) {
	asOf := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	options := Options{Cadence: time.Second, Burst: 5, Hold: 8 * time.Second}
	slow := options
	slow.Cadence = time.Minute
	billed := options
	billed.ReadsPerSecond = 50

	for _, test := range []struct {
		name    string
		options Options
		route   string
		tally   document.Tally
		want    time.Duration // after asOf; -1: zero
	}{
		{"events are held", options, "", document.Tally{AsOf: asOf, PacedUntil: asOf.Add(5 * time.Second)}, -1},
		{"credit", options, " : cadence 10s", document.Tally{AsOf: asOf, PacedUntil: asOf.Add(10 * time.Second)}, -30 * time.Second},
		{"no credit", options, " : cadence 10s", document.Tally{AsOf: asOf, PacedUntil: asOf.Add(50 * time.Second)}, 10 * time.Second},
		{"some credit", options, " : cadence 10s", document.Tally{AsOf: asOf, PacedUntil: asOf.Add(43 * time.Second)}, 3 * time.Second},
		{"of no pace", options, " : cadence 10s", document.Tally{AsOf: asOf, PacedUntil: asOf.Add(time.Hour)}, -30 * time.Second},
		{"a slow default", slow, "", document.Tally{AsOf: asOf, PacedUntil: asOf.Add(5 * time.Minute)}, time.Minute},
		{"a quick route", slow, " : cadence 1s", document.Tally{AsOf: asOf, PacedUntil: asOf.Add(5 * time.Second)}, -1},
		{"scheduled", slow, " : every 1h", document.Tally{AsOf: asOf, PacedUntil: asOf.Add(time.Hour)}, -1},
		{"a large total", billed, "", document.Tally{AsOf: asOf, PacedUntil: asOf.Add(20 * time.Second), NumShards: 1_000_000}, 20 * time.Second},
		{"a small one", billed, "", document.Tally{AsOf: asOf, PacedUntil: asOf.Add(time.Second), NumShards: 40_000}, -1},
		{"no roll-up", slow, "", document.Tally{}, -1},
	} {
		routes, err := route.Parse(route.Default + test.route)
		if err != nil {
			t.Fatal(err)
		}
		got := test.options.Due(routes[0].Template, test.tally)
		if test.want == -1 && !got.IsZero() || test.want != -1 && !got.Equal(asOf.Add(test.want)) {
			t.Errorf("%s: %v, want %v after %v", test.name, got, test.want, asOf)
		}
	}
}
