package dashboard

import (
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup/route"
	"golang.org/x/text/collate"
	"golang.org/x/text/language"
)

// A row is one line of the page: one total of a roll-up document.
type row struct {
	source    *feed // that found it
	counter   route.Counter
	shards    string // where the documents are that make the total, as Route.Shards says
	documents int64  // that made all totals of the roll-up, as far as it says
	total     route.Total

	search string // label in lower case
	rank   []byte // ranks sort as the rows' names do

	known   bool     // the counter may be older than the first sample; false: its total was 0 before
	samples []sample // of the last roll-ups, the oldest first

	// What the page shows:
	Key   rowKey
	Route *route.Route
	Name  string    // of the counter
	ID    string    // in letters that an HTML attribute can hold; the same in each run
	Label [3]string // what stands before the counter's own id, the id, and the total's name after it
	Total value.Value
	AsOf  int64   // microseconds since 1970
	Rate  float64 // change of the total per second; 0 unless it Adds
	Due   int64   // when the counter may be rolled up next, in microseconds since 1970; 0: its events are not deferred until then
}

// A rowKey names a row.
type rowKey struct{ Database, RollUp, Total string }

// A sample is a total as of a time.
type sample struct {
	asOf  int64 // microseconds since 1970
	total value.Value
}

// maxSamples is how many roll-ups of a counter are kept: two minutes of a counter that is rolled up
// every second.
const maxSamples = 120

// Noun returns the noun for one of the documents: shard, or document if it is the app's own.
func (r *row) Noun() string {
	if r.Route.HasShards() {
		return "shard"
	}
	return "document"
}

// Adds reports whether the total is a sum or a count. Only such totals can be added up, and only
// their change tells how much was added.
func (r *row) Adds() bool {
	return r.total.Aggregate == route.Sum || r.total.Aggregate == route.Count
}

// isGone reports whether the counter has no documents any more. Only its roll-up is left then,
// which an audit will remove. isGone reports false if a total counts only some of the documents:
// there may be others.
func (r *row) isGone() bool {
	if r.Route.Template.Existing || slices.ContainsFunc(r.Route.Template.Routes, (*route.Route).Filtered) {
		return false
	}
	_, isTime := r.Total.Time()
	return r.documents == 0 && !isTime && r.Total.Float64() == 0
}

// totalAt returns the total that the counter's roll-up had at a time, as far back as it is known.
func (r *row) totalAt(at int64) value.Value {
	for _, s := range slices.Backward(r.samples) {
		if s.asOf <= at {
			return s.total
		}
	}

	if r.known || len(r.samples) == maxSamples {
		return r.samples[0].total
	}
	return value.Int(0) // there was no counter yet
}

// change returns by how much to is more than from; 0 if that is not a finite number.
func change(from, to value.Value) float64 {
	f, fromIsInteger := from.Int64()
	t, toIsInteger := to.Int64()
	if fromIsInteger && toIsInteger {
		return float64(t - f) // exact, also beyond 2^53
	}

	d := to.Float64() - from.Float64()
	if math.IsNaN(d) || math.IsInf(d, 0) {
		return 0
	}
	return d
}

// A model is what is known of all counters. It is not safe for concurrent use.
type model struct {
	window   time.Duration // over which rates are means
	several  bool          // databases, so labels name theirs
	collator *collate.Collator
	began    int64 // when the watching began, by Firestore's clock, in microseconds; 0: not yet
	rows     map[rowKey]*row
	rollUps  recent

	// A point for each of the last ticks:
	rates       []point // changes of all totals a second
	rollUpRates []point // roll-ups a second
}

func newModel(window time.Duration, several bool) *model {
	return &model{
		window: window, several: several, rows: make(map[rowKey]*row),
		collator: collate.New(language.English, collate.Numeric), // numbers in names count by their value
	}
}

// put notes what a roll-up document says of a row's total, and reports whether that is news. If the
// model does not have the row, put adds fresh to it.
func (m *model) put(fresh row, s sample, numShards int64) (news bool) {
	r, known := m.rows[fresh.Key]
	if !known {
		r = &fresh
		m.name(r)
		m.rows[r.Key] = r
	}
	if known && r.Total == s.total && r.AsOf == s.asOf && r.documents == numShards {
		return false
	}

	if len(r.samples) > 0 && r.AsOf >= s.asOf {
		// The document was created again, or written by hand: another history begins.
		r.samples, r.known = nil, true
	}
	if len(r.samples) == maxSamples {
		r.samples = slices.Delete(r.samples, 0, 1)
	}
	r.samples = append(r.samples, s)
	r.Total, r.AsOf, r.documents = s.total, s.asOf, numShards
	return true
}

// name gives a row the label and the ranks that it has for good.
func (m *model) name(r *row) {
	r.ID = url.QueryEscape(fmt.Sprintf("%q %q %q", r.Key.Database, r.Key.RollUp, r.Key.Total))

	own := strings.LastIndex(r.Name, "/") + 1
	r.Label = [3]string{r.Name[:own], r.Name[own:]}
	if m.several {
		r.Label[0] = r.Key.Database + ": " + r.Label[0]
	}
	if r.Key.Total != "count" {
		r.Label[2] = " · " + r.Key.Total
	}

	label := strings.Join(r.Label[:], "")
	r.search = strings.ToLower(label)
	r.rank = append(m.rank(label), r.ID...)
}

// rank returns the key that sorts a name.
func (m *model) rank(name string) []byte {
	rank := m.collator.KeyFromString(&collate.Buffer{}, name)
	return append(rank, name...) // equal ranks, such as those of 7 and 07, still have an order
}

// tick brings the rates up to now, a time of Firestore's clock.
func (m *model) tick(now time.Time) {
	if m.began == 0 {
		return
	}
	at := now.UnixMicro()
	watched := min(max(time.Duration(at-m.began)*time.Microsecond, time.Second), m.window)

	var all float64
	from := at - m.window.Microseconds()
	for _, r := range m.rows {
		if r.Adds() {
			r.Rate = change(r.totalAt(from), r.Total) / watched.Seconds()
			all += r.Rate
		}
	}

	m.rates = append(m.rates, point{at, all})
	m.rollUpRates = append(m.rollUpRates, point{at, m.rollUps.perSecond(now, m.window, watched)})
	if len(m.rates) > history { // a tick is a second
		m.rates, m.rollUpRates = m.rates[1:], m.rollUpRates[1:]
	}
}

// A recent is a list of the times when something happened. perSecond drops those that it needs no
// more.
type recent []time.Time

// perSecond returns how often it happened a second, as a mean over the window before now. If it was
// watched for a shorter time, the mean is over that.
func (r *recent) perSecond(now time.Time, window, watched time.Duration) float64 {
	*r = slices.DeleteFunc(*r, func(at time.Time) bool { return now.Sub(at) >= window })
	return float64(len(*r)) / min(max(1, watched.Seconds()), window.Seconds())
}
