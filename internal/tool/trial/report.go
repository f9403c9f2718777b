package trial

// A Report is the result of a trial. tally demo --help explains its JSON form.
type Report struct {
	Project  string       `json:"project"`
	Database string       `json:"database"`
	Location string       `json:"location"`
	ID       string       `json:"id"`
	Error    string       `json:"error,omitempty"` // why the trial ended early
	Parts    []PartResult `json:"parts"`
	Exact    bool         `json:"exact"`
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

// compare compares each total with the writes that were acknowledged.
func (r *run) compare(report *Report) {
	report.Exact = true
	for _, p := range r.parts {
		result := p.result()
		report.Parts = append(report.Parts, result)
		report.Exact = report.Exact && result.Exact
	}
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
