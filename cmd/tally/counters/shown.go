package counters

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/firestore-tally/tally/cmd/tally/counter"
	"github.com/firestore-tally/tally/internal/cloud/billing"
	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/internal/tool/terminal"
	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

// A numeral is a number in JSON. JSON has no NaN, no infinity, no timestamp: these are text.
type numeral struct{ fmt.Stringer }

func (n numeral) MarshalJSON() ([]byte, error) {
	if text := n.String(); json.Valid([]byte(text)) {
		return []byte(text), nil
	}
	return json.Marshal(n.String())
}

// totals are values by the names of the totals.
type totals map[string]numeral

func totalsOf(sums map[string]value.Value) totals {
	t := make(totals, len(sums))
	for name, sum := range sums {
		t[name] = numeral{sum}
	}
	return t
}

// list returns all totals with their names.
func (t totals) list() string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(t)) {
		texts = append(texts, name+" "+t[name].String())
	}
	return strings.Join(texts, ", ")
}

// String returns the only total, or all with their names.
func (t totals) String() string {
	for _, only := range t {
		if len(t) == 1 {
			return only.String()
		}
	}
	return cmp.Or(t.list(), "none of the routes' totals")
}

// A rollUp is a roll-up in JSON.
type rollUp struct {
	Totals    totals    `json:"totals"`
	NumShards int64     `json:"num_shards"`
	AsOf      time.Time `json:"as_of"`
	AgeMS     float64   `json:"age_ms,omitempty"` // of as_of when the document was read; 0: not known

	// Before is what stood in the fields of totals before the first roll-up. Foreign says which
	// fields hold values of the app's, of a kind that no such total can be, so that these totals
	// are left out.
	Before  totals            `json:"before,omitempty"`
	Foreign map[string]string `json:"foreign_kind,omitempty"`

	// Due is when the counter may be rolled up next, if its events are deferred until then.
	Due time.Time `json:"due,omitzero"`

	// Rings is when the counter's alarm rings, because a document leaves a window. Left says that
	// documents have left one since, and that the roll-up differs from the shards by nothing else.
	Rings time.Time `json:"rings,omitzero"`
	Left  bool      `json:"left,omitempty"`
}

// Pacing returns the options by which the functions pace roll-ups.
func Pacing(c config.Config) rollup.Options {
	return rollup.Options{Cadence: c.Cadence, ReadsPerSecond: c.Billed(), Burst: c.Burst, Hold: c.HoldLimit}
}

// rollUpOf returns the roll-up document of a counter of the template in JSON, with the totals that
// its as_of covers; nil if the document was never rolled up. read is when the document was read;
// zero if that is not known.
func rollUpOf(c config.Config, of *route.Template, r rollup.RollUp, read time.Time) *rollUp {
	if r.Tally.AsOf.IsZero() {
		return nil
	}
	shown := &rollUp{Totals: totalsOf(r.Values), NumShards: r.Tally.NumShards, AsOf: r.Tally.AsOf}
	shown.Due, shown.Foreign = Pacing(c).Due(of, r.Tally), r.Foreign
	if len(r.Tally.Before) > 0 {
		shown.Before = totalsOf(r.Tally.Before)
	}
	if r.Tally.Rings.After(r.Tally.AsOf) { // else there is no alarm
		shown.Rings = r.Tally.Rings
	}
	maps.DeleteFunc(shown.Totals, func(name string, _ numeral) bool { return !r.Tally.Covers(name) })
	if !read.IsZero() {
		shown.AgeMS = float64(read.Sub(r.Tally.AsOf).Microseconds()) / 1000
	}
	return shown
}

// cells returns the roll-up as cells of a table. Its counter is of the template.
func (r *rollUp) cells(of *route.Template) terminal.Cells {
	age := time.Duration(r.AgeMS * float64(time.Millisecond)).Round(time.Millisecond)
	line := fmt.Sprintf("%s%s\tas of %s\t%v old", terminal.Shown(r.Totals.String()), counter.Counted(of, r.NumShards), stamp(r.AsOf), age)
	if r.Due.After(r.AsOf.Add(age)) {
		line += "\tdue at " + stamp(r.Due)
	}
	if len(r.Before) > 0 {
		line += "\tbefore: " + terminal.Shown(r.Before.String())
	}
	for _, name := range slices.Sorted(maps.Keys(r.Foreign)) {
		line += terminal.Shown("  " + r.leftOut(name))
	}
	if r.Left {
		line += "\tdocuments have left a window since; " + r.alarm(r.AsOf.Add(age))
	}
	return terminal.Cells(line)
}

// leftOut says why a total is not in the roll-up; "" if no value of the app's is in its way.
func (r *rollUp) leftOut(total string) string {
	kind, foreign := r.Foreign[total]
	if !foreign {
		return ""
	}
	return fmt.Sprintf("%s is left out: the field holds %s of the app's", total, kind)
}

// alarm says what will have the documents that left taken from the roll-up.
func (r *rollUp) alarm(now time.Time) string {
	switch {
	case r.Rings.IsZero():
		return "it has no alarm, so the next change or audit rolls it up"
	case r.Rings.After(now):
		return "its alarm rings at " + stamp(r.Rings)
	default:
		return "its alarm was due at " + stamp(r.Rings)
	}
}

// stamp returns a time as the commands print it.
func stamp(t time.Time) string { return t.Format(time.RFC3339Nano) }

// NameOf returns an argument that names the counter: the document above its shards, or the roll-up
// if that document has other counters, too.
func NameOf(routes route.Routes, c route.Counter) string {
	path := counter.New(c, c.Template.Routes...).Path
	named, err := counter.Of(routes, path)
	if err != nil || named.Counter != c {
		return c.RollUp
	}
	return path
}

// price says what a bill costs. Nothing here knows the database's location, so it names the one of
// the price.
func price(b billing.Bill) string {
	return fmt.Sprintf("%v: $%.4f at list price in %s", b, b.CostIn(billing.PriceRegion), billing.PriceRegion)
}
