package dashboard

import (
	"math"
	"strings"
	"time"

	"github.com/firestore-tally/tally/rollup"
)

// A row is one line of the page: one field of a counter's roll-up document.
type row struct {
	id      int64 // of this row in this process, never used again
	key     rowKey
	source  *query // that it came from
	from    origin
	known   bool     // its total when it was first seen is not news
	samples []sample // of the last roll-ups, the oldest first
	shards  int64    // documents counted
	rate    float64  // change of the total per second
	version int      // raised with each change
}

type rowKey struct{ database, rollUp, total string }

// An origin is where the documents are that make a total.
type origin struct {
	route  int    // index of the route that keeps the total
	shards string // path of their collection
	field  string // that is summed; "": they are counted
}

// A sample is a total as of a time.
type sample struct {
	asOf  int64 // microseconds since 1970
	total rollup.Number
}

// maxSamples is how many roll-ups of a counter are kept: two minutes of a counter that is rolled up every
// second.
const maxSamples = 120

// name is what the counter is called: the document that its shards are below, or their collection if
// that is not named shards.
func (r *row) name() string { return strings.TrimSuffix(r.from.shards, "/shards") }

func (r *row) latest() sample { return r.samples[len(r.samples)-1] }

// totalAt returns the total that the counter's roll-up had at a time.
func (r *row) totalAt(at int64) rollup.Number {
	for i := len(r.samples) - 1; i >= 0; i-- {
		if r.samples[i].asOf <= at {
			return r.samples[i].total
		}
	}
	if r.known || len(r.samples) == maxSamples {
		return r.samples[0].total
	}
	return rollup.Int(0) // there was no counter yet
}

// change returns by how much to is more than from, and 0 if that is no number.
func change(from, to rollup.Number) float64 {
	f, integer := from.Value().(int64)
	t, both := to.Value().(int64)
	d := to.Float() - from.Float()
	if integer && both {
		d = float64(t - f) // exact, where doubles are not
	}
	if math.IsNaN(d) || math.IsInf(d, 0) {
		return 0
	}
	return d
}

// A model is what is known of all counters. It is not safe for concurrent use.
type model struct {
	window  time.Duration // over which rates are means
	began   int64         // when the watching began, by Firestore's clock, in microseconds; 0: not yet
	ids     int64
	rows    map[rowKey]*row
	rate    float64 // of all rows
	rollUps recent
}

func newModel(window time.Duration) *model {
	return &model{window: window, rows: make(map[rowKey]*row), rollUps: newRecent(window)}
}

// put notes what a roll-up document says of a field, and reports whether it was not known. With known,
// the document may be older than the watching.
func (m *model) put(key rowKey, source *query, from origin, s sample, numShards int64, known bool) (news bool) {
	r, ok := m.rows[key]
	if !ok {
		m.ids++
		r = &row{id: m.ids, key: key, source: source, from: from, known: known}
		m.rows[key] = r
	} else if r.latest() == s && r.shards == numShards {
		return false
	}
	if n := len(r.samples); n > 0 && r.samples[n-1].asOf >= s.asOf {
		r.samples = r.samples[:0] // the document was created again, or written by hand: another history begins
		r.known = true
	}
	if len(r.samples) == maxSamples {
		copy(r.samples, r.samples[1:])
		r.samples = r.samples[:maxSamples-1]
	}
	r.samples = append(r.samples, s)
	r.shards = numShards
	r.version++
	return true
}

// remove forgets the row.
func (m *model) remove(key rowKey) {
	r, ok := m.rows[key]
	if !ok {
		return
	}
	delete(m.rows, key)
	r.samples = nil
}

// tick brings the rates up to now, a time of Firestore's clock.
func (m *model) tick(now time.Time) {
	at := now.UnixMicro()
	m.rate = 0
	if m.began == 0 {
		return
	}
	watched := min(max(time.Duration(at-m.began)*time.Microsecond, time.Second), m.window)
	from := at - m.window.Microseconds()
	for _, r := range m.rows {
		rate := change(r.totalAt(from), r.latest().total) / watched.Seconds()
		rate = math.Round(rate*1000) / 1000 // digits enough, and no more to send
		if rate != r.rate {
			r.rate = rate
			r.version++
		}
		m.rate += rate
	}
}
