package trial

import (
	"math"
	"time"

	"github.com/firestore-tally/tally/internal/tool/load"
)

// A Report is the result of a trial. tally demo --help explains its JSON form.
type Report struct {
	Project  string       `json:"project"`
	Database string       `json:"database"`
	Location string       `json:"location"`
	ID       string       `json:"id"`
	Error    string       `json:"error,omitempty"` // why the trial ended early
	Parts    []PartResult `json:"parts"`
	Skipped  []Skipped    `json:"skipped,omitempty"`
	Exact    bool         `json:"exact"`
	Lag      load.Lag     `json:"lag_ms"`
	Clock    float64      `json:"clock_error_ms"` // of each lag, either way
	RollUps  int          `json:"rollups_seen"`
	Left     []string     `json:"left,omitempty"` // paths of documents that may still be there
}

// A PartResult is what became of a part.
type PartResult struct {
	Kind     string `json:"kind"`
	Route    string `json:"route"`
	RollUp   string `json:"roll_up"`
	Total    string `json:"total"`
	Written  int    `json:"written"`
	InDoubt  int    `json:"in_doubt"`
	RolledUp int64  `json:"rolled_up"`
	Exact    bool   `json:"exact"`
}

// compare compares each total with the writes that were acknowledged. The lags are of the writes
// behind the first ones, of which started says how many each part has.
func (r *run) compare(report *Report, started []int) {
	var lags []time.Duration
	ahead, doubt := r.ahead()
	report.Exact = true
	for i, p := range r.parts {
		result := p.result()
		report.Parts = append(report.Parts, result)
		report.Exact = report.Exact && result.Exact

		seen := p.Seen()
		report.RollUps += len(seen)
		writes, _ := p.Writes()
		lags = append(lags, load.Lags(writes[started[i]:], seen, ahead)...)
	}
	report.Lag, report.Clock = load.LagOf(lags), float64(doubt.Microseconds())/1000
}

// ahead returns how far Firestore's clock is ahead of this machine's, and by how much that may be
// wrong either way. Each write was committed between its sending and its answer.
func (r *run) ahead() (by, doubt time.Duration) {
	least, most := time.Duration(math.MinInt64), time.Duration(math.MaxInt64)
	for _, p := range r.begun {
		writes, _ := p.Writes()
		for _, w := range writes {
			least, most = max(least, w.Committed.Sub(w.Answered)), min(most, w.Committed.Sub(w.Sent))
		}
	}
	return least/2 + most/2, (most/2 - least/2).Abs()
}

// result compares the part's total with its writes.
func (p *part) result() PartResult {
	writes, inDoubt := p.Writes()
	total, exact := p.Total()
	return PartResult{
		Kind: p.kind, Route: p.route.String(), RollUp: p.counter.RollUp, Total: p.total,
		Written: len(writes), InDoubt: inDoubt, RolledUp: total, Exact: exact,
	}
}
