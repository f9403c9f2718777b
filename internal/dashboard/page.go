package dashboard

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/firestore-tally/tally/internal/billing"
	"github.com/firestore-tally/tally/internal/value"
)

// maxRows is how many rows a page shows at once.
const maxRows = 100

// A view is what a page asks for.
type view struct {
	Sort   string `json:"sort"` // name of a column
	Down   bool   `json:"down"`
	Filter string `json:"filter"` // words that the names of rows have
	Gone   bool   `json:"gone"`   // show counters that are gone, too
	From   int    `json:"from"`   // index of the first row to show
	Open   string `json:"open"`   // id of the row that is open
}

// A column is one that the rows can be sorted by.
type column struct {
	Name, Title string
	Key         string // that sorts by it
	Down        bool   // it begins with the greatest
	compare     func(a, b *row) int
}

var columns = []column{
	{"name", "Counter", "N", false, func(a, b *row) int { return bytes.Compare(a.rank, b.rank) }},
	{"total", "Total", "T", true, func(a, b *row) int { return compareTotals(a.Total, b.Total) }},
	{"rate", "Per second", "P", true, func(a, b *row) int { return cmp.Compare(a.Rate, b.Rate) }},
	{"age", "Age", "A", false, func(a, b *row) int { return cmp.Compare(b.AsOf, a.AsOf) }},
	{"documents", "Documents", "D", true, func(a, b *row) int { return cmp.Compare(a.Documents, b.Documents) }},
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
	at, _ := a.Time()
	bt, _ := b.Time()
	return cmp.Or(cmp.Compare(kind(a), kind(b)), at.Compare(bt), cmp.Compare(a.Float64(), b.Float64()))
}

// column returns the one that the rows are sorted by, or -1.
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
	Counters  int // that there are, without those that are not to be shown because they are gone
	Gone      int
	Rates     []point        // changes of all totals a second
	RollUps   []point        // a second
	Watching  billing.Counts // what this board costs
	Functions *Functions     // nil: not known here
	Shown     int            // rows that the filter lets through
	Fastest   float64        // the highest rate of them, up or down
	Rows      []row          // of them, those that the page is at
	From      int            // index of the first of Rows
	Open      *detail        // nil: the view names no row that is there
}

// First and Last return the numbers of the rows in Rows, and Previous where those before them
// begin.
func (s *state) First() int    { return s.From + 1 }
func (s *state) Last() int     { return s.From + len(s.Rows) }
func (s *state) Previous() int { return s.From - maxRows }

// A detail is the counter that a page has open.
type detail struct {
	row
	Gained  float64 // by the total, in the time that the charts show
	Totals  []point
	Rates   []point
	Parts   []shard      // the shards now; nil: not known yet
	Sum     *value.Value // the total of them; nil: not known
	Problem string
}

// show returns what a page shows in a view that is valid.
func (b *Board) show(v view, local time.Time) *state {
	functions, trouble := b.functions() // not while feeds wait for the lock
	b.mu.Lock()
	defer b.mu.Unlock()
	rows := v.rows(b.model.rows)
	s := b.figures(local, functions, trouble)
	s.View, s.Shown = v, len(rows)
	s.From = min(v.From, max(0, s.Shown-1)/maxRows*maxRows)
	for _, r := range rows[s.From:min(s.From+maxRows, s.Shown)] {
		s.Rows = append(s.Rows, *r)
	}
	for _, r := range rows {
		s.Fastest = max(s.Fastest, r.Rate, -r.Rate)
	}
	if v.Gone {
		s.Counters += s.Gone
	}
	for _, r := range b.model.rows {
		if r.ID == v.Open {
			s.Open = b.detail(r, local)
		}
	}
	return s
}

// rows returns those that the filter lets through, in order.
func (v view) rows(all map[rowKey]*row) []*row {
	words := strings.Fields(strings.ToLower(v.Filter))
	var rows []*row
	for _, r := range all {
		missing := func(word string) bool { return !strings.Contains(r.search, word) }
		if (v.Gone || !r.gone()) && !slices.ContainsFunc(words, missing) {
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

// functions returns what the functions have done so far; nil: that is not known here.
func (b *Board) functions() (*Functions, error) {
	if b.options.Functions == nil {
		return nil, nil
	}
	f, err := b.options.Functions()
	if err != nil {
		err = fmt.Errorf("operations of the functions: %w", err)
	}
	return &f, err
}

// figures returns what there is to say of all counters, and of what the functions have done. The
// mutex is held.
func (b *Board) figures(local time.Time, functions *Functions, trouble error) *state {
	s := &state{
		Columns: columns, Project: b.options.Project, Emulator: b.options.Emulator, Window: b.model.window.Seconds(),
		Now: b.line.serverTime(local).UnixMicro(), Ready: true, Rates: b.model.rates, RollUps: b.model.rollUpRates,
		Watching: billing.Counts{Reads: b.reads}, Functions: functions,
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
	for _, r := range b.model.rows {
		if r.gone() {
			s.Gone++
		} else {
			s.Counters++
		}
	}
	return s
}

// detail returns what there is to say of one counter, and follows its shards.
func (b *Board) detail(r *row, local time.Time) *detail {
	look := b.lookAt(r, local)
	now := b.line.serverTime(local).UnixMicro()
	d := &detail{row: *r, Gained: change(r.totalAt(now-history*1e6), r.Total)}
	for _, s := range r.samples {
		if s.total.Finite() {
			d.Totals = append(d.Totals, point{s.asOf, s.total.Float64()})
		}
	}
	for i := 1; i < len(d.Totals) && d.Adds(); i++ { // of the time between two roll-ups the mean is known
		from, to := d.Totals[i-1], d.Totals[i]
		d.Rates = append(d.Rates, point{from.at, (to.value - from.value) / float64(to.at-from.at)})
	}
	if now-r.AsOf > idle && d.Adds() {
		d.Rates = append(d.Rates, point{r.AsOf, 0})
	}
	d.Parts, d.Sum = look.state(r, local)
	if look.err != nil {
		d.Problem = look.err.Error()
	}
	return d
}

// idle is how long without a roll-up nothing seems to change, in microseconds.
const idle = 3e6

// Hottest returns the shard with the most writes.
func (d *detail) Hottest() shard {
	return slices.MaxFunc(d.Parts, func(a, b shard) int { return cmp.Compare(a.Writes, b.Writes) })
}
