package dashboard

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/firestore-tally/tally/internal/cloud/billing"
	"github.com/firestore-tally/tally/internal/value"
)

// maxRows is how many rows a page shows at once.
const maxRows = 100

// A view is a page's request: the order and the filter of its rows, and the row that is open.
type view struct {
	Sort   string `json:"sort"` // name of a column
	Down   bool   `json:"down"`
	Filter string `json:"filter"` // words that the names of rows have
	Gone   bool   `json:"gone"`   // show counters that are gone, too
	From   int    `json:"from"`   // index of the first row to show
	Open   string `json:"open"`   // id of the row that is open
}

// A column is one by which the rows can be sorted.
type column struct {
	Name, Title string
	Key         string // on the keyboard, that sorts by it
	Down        bool   // the first click sorts the greatest to the top
	compare     func(a, b *row) int
}

var columns = []column{
	{"name", "Counter", "N", false, func(a, b *row) int { return bytes.Compare(a.rank, b.rank) }},
	{"total", "Total", "T", true, func(a, b *row) int { return compareTotals(a.Total, b.Total) }},
	{"rate", "Per second", "P", true, func(a, b *row) int { return cmp.Compare(a.Rate, b.Rate) }},
	{"age", "Age", "A", false, func(a, b *row) int { return cmp.Compare(b.AsOf, a.AsOf) }},
}

// compareTotals orders totals: null, then numbers, then timestamps.
func compareTotals(a, b value.Value) int {
	kind := func(v value.Value) int {
		_, isTime := v.Time()
		switch {
		case v.IsNull():
			return 0
		case isTime:
			return 2
		default:
			return 1
		}
	}

	timeOfA, _ := a.Time()
	timeOfB, _ := b.Time()
	return cmp.Or(
		cmp.Compare(kind(a), kind(b)),
		timeOfA.Compare(timeOfB),
		cmp.Compare(a.Float64(), b.Float64()),
	)
}

// column returns the index of the column by which the rows are sorted; -1 if there is no such
// column.
func (v view) column() int {
	return slices.IndexFunc(columns, func(c column) bool { return c.Name == v.Sort })
}

// A state is all that page.html shows.
type state struct {
	View      view
	Columns   []column
	Project   string
	Emulator  string  // "": a real project
	Window    float64 // of rates, in seconds
	Now       int64   // Firestore's time, in microseconds since 1970
	Ready     bool    // all counters are known
	Problems  []string
	Counters  int          // that have a roll-up; those that are gone only if the view shows them
	Totals    int          // of these counters
	Gone      int          // how many totals are of counters that are gone
	Rates     []point      // changes of all totals a second
	RollUps   []point      // roll-ups a second
	Watching  billing.Bill // of this board
	Functions *Functions   // nil: not known here
	Billed    billing.Bill // of the functions; nil: not known here
	Shown     int          // how many rows the filter lets through
	Fastest   float64      // the highest rate of these, up or down
	Rows      []row        // those of these that the page shows at once
	From      int          // index of the first of Rows
	Open      *detail      // nil: no row is open
}

// First and Last return the numbers of the first and the last row in Rows, from 1 on. Previous
// returns the index at which the rows before them begin.
func (s *state) First() int    { return s.From + 1 }
func (s *state) Last() int     { return s.From + len(s.Rows) }
func (s *state) Previous() int { return s.From - maxRows }

// A detail is the counter that a page has open.
type detail struct {
	row
	Gained  float64 // change of the total in the time that the charts show
	Totals  []point
	Rates   []point
	Parts   []shard      // the shards now; nil: not known yet
	Sum     *value.Value // the total of them; nil: not known
	Problem string
}

// show returns the state that a page shows in a view. The view must be valid.
func (b *Board) show(v view, local time.Time) *state {
	functions, trouble := b.functions() // before the lock, for which feeds wait

	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.figures(local, functions, trouble)
	s.View = v
	b.count(s)

	rows := v.rows(b.model.rows)
	s.Shown = len(rows)
	for _, r := range rows {
		s.Fastest = max(s.Fastest, r.Rate, -r.Rate)
	}
	lastPage := max(0, s.Shown-1) / maxRows * maxRows
	s.From = min(v.From, lastPage)
	for _, r := range rows[s.From:min(s.From+maxRows, s.Shown)] {
		s.Rows = append(s.Rows, *r)
	}

	for _, r := range b.model.rows {
		if r.ID == v.Open {
			s.Open = b.detail(r, local)
		}
	}
	return s
}

// rows returns the rows that the filter lets through, in order.
func (v view) rows(all map[rowKey]*row) []*row {
	words := strings.Fields(strings.ToLower(v.Filter))
	var rows []*row
	for _, r := range all {
		missing := func(word string) bool { return !strings.Contains(r.search, word) }
		if (v.Gone || !r.isGone()) && !slices.ContainsFunc(words, missing) {
			rows = append(rows, r)
		}
	}

	column := columns[v.column()]
	slices.SortFunc(rows, func(a, b *row) int {
		order := column.compare(a, b)
		if v.Down {
			order = -order
		}
		return cmp.Or(order, bytes.Compare(a.rank, b.rank))
	})
	return rows
}

// functions returns what the functions have done so far; nil if that is not known here.
func (b *Board) functions() (*Functions, error) {
	if b.options.Functions == nil {
		return nil, nil
	}
	f, err := b.options.Functions()
	if err != nil {
		err = fmt.Errorf("could not count the operations of the functions: %w", err)
	}
	return &f, err
}

// figures returns the state without rows: the figures of all counters together, and what the
// functions have done. The caller holds the mutex.
func (b *Board) figures(local time.Time, functions *Functions, trouble error) *state {
	s := &state{
		Columns: columns, Project: b.options.Project, Emulator: b.options.Emulator, Window: b.model.window.Seconds(),
		Now: b.line.serverTime(local).UnixMicro(), Ready: true, Rates: b.model.rates, RollUps: b.model.rollUpRates,
		Watching: b.used.On(b.options.Edition), Functions: functions,
	}
	if functions != nil {
		s.Billed = functions.Used.On(b.options.Edition)
	}

	problems := []error{b.broken, trouble}
	for _, q := range b.queries {
		s.Ready = s.Ready && !q.began.IsZero()
		problems = append(problems, q.err)
	}
	for _, err := range problems {
		if err != nil {
			s.Problems = append(s.Problems, err.Error())
		}
	}

	return s
}

// count counts the counters and their totals that a page in the state's view is about. The caller
// holds the mutex.
func (b *Board) count(s *state) {
	counters := make(map[rowKey]bool)
	for key, r := range b.model.rows {
		gone := r.isGone()
		if gone {
			s.Gone++
		}
		if !gone || s.View.Gone {
			s.Totals++
			counters[rowKey{Database: key.Database, RollUp: key.RollUp}] = true
		}
	}
	s.Counters = len(counters)
}

// detail returns what the page shows of one counter, and follows its shards. The caller holds the
// mutex.
func (b *Board) detail(r *row, local time.Time) *detail {
	now := b.line.serverTime(local).UnixMicro()
	d := &detail{row: *r, Gained: change(r.totalAt(now-history*1e6), r.Total)}
	for _, s := range r.samples {
		if s.total.Finite() {
			d.Totals = append(d.Totals, point{s.asOf, s.total.Float64()})
		}
	}
	if d.Adds() {
		d.Rates = ratesOf(d.Totals, r.AsOf, now)
	}

	look := b.lookAt(r, local)
	d.Parts, d.Sum = look.state(r, local)
	if look.err != nil {
		d.Problem = look.err.Error()
	}
	return d
}

// ratesOf returns the rates at which totals changed: the mean between each two roll-ups. After the
// last roll-up, at asOf, the rate is 0 once there was no other for a while.
func ratesOf(totals []point, asOf, now int64) []point {
	var rates []point
	for i := 1; i < len(totals); i++ {
		from, to := totals[i-1], totals[i]
		rates = append(rates, point{from.at, (to.value - from.value) / float64(to.at-from.at)})
	}

	if now-asOf > idle {
		rates = append(rates, point{asOf, 0})
	}
	return rates
}

// idle is how many microseconds after the last roll-up a counter seems not to change any more.
const idle = 3e6

// Hottest returns the shard with the most writes.
func (d *detail) Hottest() shard {
	return slices.MaxFunc(d.Parts, func(a, b shard) int { return cmp.Compare(a.Writes, b.Writes) })
}
