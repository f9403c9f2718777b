package dashboard

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/firestore-tally/tally/internal/billing"
	"github.com/firestore-tally/tally/rollup"
)

const (
	maxPages = 16               // that are served at once
	maxRows  = 500              // in an answer
	absence  = 10 * time.Second // a page that has not asked for so long was closed
)

// A page is one that is open in a browser.
type page struct {
	rows  []*row // that it may scroll through, in its order
	asked time.Time
}

// A view is what a page asks for.
type view struct {
	Page   string `json:"page"` // an id that the page made up
	Sort   string `json:"sort"` // a column
	Down   bool   `json:"down"`
	Filter string `json:"filter"` // words that the names of rows have
	Gone   bool   `json:"gone"`   // show counters that are gone, too
	Keep   bool   `json:"keep"`   // rows that the page has stay in their order
	First  int    `json:"first"`  // index of the first row to send
	Count  int    `json:"count"`  // how many rows to send
	Active string `json:"active"` // id of the row that the keyboard is at
	Open   string `json:"open"`   // id of the row that is open
}

// columns compare rows by what a column is sorted by.
var columns = map[string]func(a, b *row) int{
	"name":   func(a, b *row) int { return bytes.Compare(a.rank, b.rank) },
	"total":  func(a, b *row) int { return cmp.Compare(a.latest().total.Float(), b.latest().total.Float()) },
	"rate":   func(a, b *row) int { return cmp.Compare(a.Rate, b.Rate) },
	"age":    func(a, b *row) int { return cmp.Compare(b.AsOf, a.AsOf) },
	"shards": func(a, b *row) int { return cmp.Compare(a.Shards, b.Shards) },
}

// A state is the answer: all that a page shows.
type state struct {
	Project   string     `json:"project"`
	Emulator  string     `json:"emulator"` // "": a real project
	Window    float64    `json:"window"`   // of rates, in seconds
	Now       int64      `json:"now"`      // Firestore's time, in microseconds since 1970
	Ready     bool       `json:"ready"`    // all counters are known
	Problems  []string   `json:"problems"`
	Counters  int        `json:"counters"` // that there are, without those that are not to be shown because they are gone
	Gone      int        `json:"gone"`
	Sum       string     `json:"sum"`       // of all totals
	Rate      float64    `json:"rate"`      // change of all totals a second
	RollUps   float64    `json:"rollups"`   // a second
	Watching  bill       `json:"watching"`  // what this board costs
	Billed    bill       `json:"billed"`    // what the functions cost
	Functions *Functions `json:"functions"` // null: not known here
	Shown     int        `json:"shown"`     // rows that the filter lets through
	Fastest   float64    `json:"fastest"`   // the highest rate of them, up or down
	First     int        `json:"first"`     // index of the first of rows
	Rows      []row      `json:"rows"`
	Active    int        `json:"active"` // index of the row that the keyboard is at, or -1
	Open      *detail    `json:"open"`   // null: the view names no row that is there
}

type bill struct {
	billing.Counts
	Dollars float64 `json:"dollars"`
}

func billOf(c billing.Counts) bill { return bill{c, c.Cost()} }

// A detail is the counter that a page has open.
type detail struct {
	row
	Name     string   `json:"name"` // of the counter
	Field    string   `json:"field"`
	RollUp   string   `json:"rollup"`
	Database string   `json:"database"` // "": there is only one
	Route    string   `json:"route"`
	History  [][2]any `json:"history"` // as_of in microseconds, total; the oldest first
	Parts    []shard  `json:"parts"`   // the shards now; null: not known yet
	Sum      string   `json:"sum"`     // of them; "": not known
	Problem  string   `json:"problem"`
}

// valid reports whether a page may ask for it.
func (v view) valid() bool {
	return columns[v.Sort] != nil && v.Page != "" && v.First >= 0 && v.Count >= 0
}

// show returns what a page asks for in a view that is valid, or nil if too many others are open.
func (b *Board) show(v view, local time.Time) *state {
	b.mu.Lock()
	defer b.mu.Unlock()
	p, ok := b.pages[v.Page]
	if !ok && len(b.pages) >= maxPages {
		return nil
	} else if !ok {
		p = &page{}
		b.pages[v.Page] = p
	}
	p.asked = local
	p.order(v, b.model.rows)

	s := b.figures(local)
	s.Shown, s.First = len(p.rows), min(v.First, len(p.rows))
	for _, r := range p.rows[s.First:min(s.First+min(v.Count, maxRows), len(p.rows))] {
		s.Rows = append(s.Rows, r.at(local))
	}
	for _, r := range p.rows {
		s.Fastest = max(s.Fastest, r.Rate, -r.Rate)
	}
	s.Counters = len(b.model.rows)
	if !v.Gone {
		s.Counters -= s.Gone
	}
	s.Active = slices.IndexFunc(p.rows, func(r *row) bool { return r.ID == v.Active })
	for _, r := range b.model.rows {
		if r.ID == v.Open {
			s.Open = b.detail(r, local)
		}
	}
	return s
}

// order brings the rows that a page may scroll through up to date. If rows keep their order, new
// ones come after them.
func (p *page) order(v view, all map[rowKey]*row) {
	words := strings.Fields(strings.ToLower(v.Filter))
	shown := make(map[*row]bool)
	for _, r := range all {
		missing := func(word string) bool { return !strings.Contains(r.search, word) }
		if (v.Gone || !r.gone()) && !slices.ContainsFunc(words, missing) {
			shown[r] = true
		}
	}
	p.rows = slices.DeleteFunc(p.rows, func(r *row) bool { return !v.Keep || !shown[r] })
	for _, r := range p.rows {
		delete(shown, r)
	}
	compare := columns[v.Sort]
	if v.Down {
		compare = func(a, b *row) int { return columns[v.Sort](b, a) }
	}
	p.rows = slices.AppendSeq(p.rows, slices.Values(slices.SortedFunc(maps.Keys(shown), func(a, b *row) int {
		return cmp.Or(compare(a, b), bytes.Compare(a.rank, b.rank))
	})))
}

// figures returns what there is to say of all counters.
func (b *Board) figures(local time.Time) *state {
	s := &state{
		Emulator: b.options.Emulator, Window: b.model.window.Seconds(),
		Now: b.line.serverTime(local).UnixMicro(), Ready: true,
		Problems: []string{}, Rows: []row{},
		Rate: b.model.rate, RollUps: b.model.rollUpRate, Watching: billOf(billing.Counts{Reads: b.reads}),
	}
	if f := b.functions; f != nil {
		s.Functions, s.Billed = f, billOf(f.Billed)
	}
	problems := []error{b.broken, b.trouble}
	for _, q := range b.queries {
		s.Project = strings.Split(q.database.Client.Doc("a/b").Path, "/")[1] // projects/{project}/databases/...
		s.Ready = s.Ready && !q.began.IsZero()
		problems = append(problems, q.err)
	}
	for _, err := range problems {
		if err != nil {
			s.Problems = append(s.Problems, err.Error())
		}
	}
	var sum rollup.Sum
	for _, r := range b.model.rows {
		sum.Add(r.latest().total)
		if r.gone() {
			s.Gone++
		}
	}
	s.Sum = sum.Total().String()
	return s
}

// freshFor is how long a total that changed is marked.
const freshFor = 500 * time.Millisecond

// at returns the row as it is to be shown at a time.
func (r *row) at(local time.Time) row {
	shown := *r
	shown.Fresh = local.Sub(r.changed) < freshFor
	return shown
}

// detail returns what there is to say of one counter, and follows its shards.
func (b *Board) detail(r *row, local time.Time) *detail {
	look := b.lookAt(r, local)
	d := &detail{
		row: r.at(local), Name: r.name(), Field: r.key.total,
		RollUp: r.key.rollUp, Route: r.route.String(),
	}
	if b.model.several {
		d.Database = r.key.database
	}
	for _, s := range r.samples {
		d.History = append(d.History, [2]any{s.asOf, s.total.String()})
	}
	d.Parts, d.Sum = look.state(r.field, local)
	if look.err != nil {
		d.Problem = look.err.Error()
	}
	return d
}

// forget ends what no page has asked for in a while.
func (b *Board) forget(local time.Time) {
	maps.DeleteFunc(b.pages, func(_ string, p *page) bool { return local.Sub(p.asked) > absence })
	maps.DeleteFunc(b.looks, func(_ string, k *look) bool {
		over := local.Sub(k.asked) > absence
		if over {
			k.end()
		}
		return over
	})
}
