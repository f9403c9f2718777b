package counters

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/reason"
	"github.com/firestore-tally/tally/internal/tool/rules"
	"github.com/firestore-tally/tally/internal/tool/terminal"
	"github.com/firestore-tally/tally/rollup/route"
)

// An explanation says why totals have a document or not, and if it holds totals, what these are
// made of.
type explanation struct {
	Document string    `json:"document"`
	Exists   bool      `json:"exists"`
	Written  time.Time `json:"written,omitzero"` // when the document was last written
	Read     time.Time `json:"read"`             // when it was read

	// Counts says that all totals that can have the document have it, as it is. Says is that in a
	// sentence, with the first reason if it does not.
	Counts bool   `json:"counts"`
	Says   string `json:"says"`

	Routes []explainedRoute `json:"routes"`          // that cover it
	Why    []string         `json:"why"`             // it does not count, or not in all totals
	Holds  *explainedRollUp `json:"holds,omitempty"` // nil: it is no place of totals
	Rules  []explainedRule  `json:"rules,omitempty"` // nil: no one asked for them
}

// An explainedRoute says what a route makes of a document.
type explainedRoute struct {
	Route   string          `json:"route"`
	Asks    []explainedPart `json:"asks"`
	Counter string          `json:"counter,omitempty"` // "": the document belongs to none
	RollUp  *rollUp         `json:"rollup"`            // null: there is none yet
	Has     bool            `json:"has"`               // the roll-up has the document as it is
	Why     []string        `json:"why"`               // it has it not, or some totals of it do not
}

// An explainedPart is a key, or a condition, and what a document has there.
type explainedPart struct {
	Asks  string `json:"asks"`
	Value string `json:"value,omitempty"` // as routes spell values, "": the document lacks the field
	Holds bool   `json:"holds"`
}

// An explainedRollUp says what makes the totals that a document holds, or will.
type explainedRollUp struct {
	RollUp  *rollUp  `json:"rollup"` // null: there is none yet
	MadeOf  []string `json:"made_of"`
	LeftOut []string `json:"left_out,omitempty"` // totals, and why
	Unkept  string   `json:"unkept,omitempty"`   // why Tally cannot roll the counter up; "": it can
	Missing string   `json:"missing,omitempty"`
	Next    string   `json:"next"` // when the counter is rolled up
}

// madeOf says which documents make a route's totals of a counter.
func madeOf(r *route.Route, c route.Counter) string {
	var totals []string
	for _, t := range r.Totals {
		totals = append(totals, t.String())
	}
	text := strings.Join(totals, ", ") + " of the documents in " + r.Shards(c)
	where, some := r.Where(c)
	if !some {
		return "no document can belong to it by " + r.String()
	}
	var conditions []string
	for _, condition := range where {
		conditions = append(conditions, condition.String())
	}
	if conditions != nil {
		text += " where " + strings.Join(conditions, " and ")
	}
	return text
}

// requirements returns the keys and the conditions of a route, with what a document has there.
func requirements(r *route.Route, d reason.Document, now time.Time) (all []explainedPart) {
	held := func(f document.Field) string {
		kind, held := d.Holds(f)
		if kind == "" {
			return ""
		}
		return reason.Shown(held)
	}
	misfit, _, isMisfit := r.Misfit(d.Path, func(f document.Field) any { _, held := d.Holds(f); return held })
	for _, k := range r.By {
		all = append(all, explainedPart{"by " + k.String(), held(k.Field), !isMisfit || k.Field != misfit.Field})
	}
	for _, t := range r.Totals {
		for _, c := range t.Where {
			all = append(all, explainedPart{t.Name + " where " + c.String(), held(c.Field), c.At(now).Holds(d.Fields)})
		}
	}
	return all
}

// judge says in a sentence whether the document counts.
func (e *explanation) judge() {
	var counters []string
	covered := len(e.Routes) > 0
	e.Counts = e.Exists && covered
	for _, r := range e.Routes {
		e.Why = append(e.Why, r.Why...)
		e.Counts = e.Counts && r.Has && len(r.Why) == 0
		if r.Counter != "" && !slices.Contains(counters, r.Counter) {
			counters = append(counters, r.Counter)
		}
	}

	switch {
	case !covered && e.Holds != nil && e.Exists:
		e.Says, e.Why = e.Document+" holds totals", []string{}
	case !covered && e.Holds != nil:
		e.Says, e.Why = e.Document+" does not exist; it would hold totals", []string{}
	case !covered:
		e.Says = e.Why[0]
	case !e.Exists:
		e.Says = e.Document + " does not exist"
	case e.Counts:
		e.Says = fmt.Sprintf("%s counts in %s, and the roll-up has it as it is", e.Document, strings.Join(counters, " and "))
	case slices.ContainsFunc(e.Routes, func(r explainedRoute) bool { return r.Has }):
		e.Says = fmt.Sprintf("%s does not count in all totals: %s", e.Document, e.Why[0])
	default:
		e.Says = fmt.Sprintf("%s does not count: %s", e.Document, e.Why[0])
	}
}

// cells returns the explanation as lines.
func (e *explanation) cells() terminal.Cells {
	lines := []string{e.Says}
	if len(e.Routes) == 0 && len(e.Why) > 1 {
		lines = append(lines, e.Why[1:]...)
	}
	for _, r := range e.Routes {
		lines = append(lines, "", r.Route)
		for _, p := range r.Asks {
			lines = append(lines, "  "+p.line(e.Exists))
		}
		if r.Counter != "" {
			lines = append(lines, "  counter "+r.Counter+": "+r.RollUp.line())
		}
		for _, why := range r.Why {
			lines = append(lines, "  why not: "+why)
		}
	}
	if e.Holds != nil {
		lines = append(lines, "", e.Document+": "+e.Holds.RollUp.line())
		for _, part := range e.Holds.MadeOf {
			lines = append(lines, "  "+part)
		}
		for _, why := range e.Holds.LeftOut {
			lines = append(lines, "  left out: "+why)
		}
		if e.Holds.Missing != "" {
			lines = append(lines, "  missing: "+e.Holds.Missing)
		}
		if e.Holds.Unkept != "" {
			lines = append(lines, "  unkept: "+e.Holds.Unkept)
		}
		lines = append(lines, "  next: "+e.Holds.Next)
	}
	if e.Rules != nil {
		lines = append(lines, "", "security rules:")
		for _, r := range e.Rules {
			lines = append(lines, "  "+r.Says)
		}
	}

	for i, line := range lines {
		lines[i] = terminal.Shown(line)
	}
	return terminal.Cells(strings.Join(lines, "\n"))
}

// line returns the part in a line. Without a document there is nothing to compare.
func (p explainedPart) line(exists bool) string {
	switch {
	case !exists:
		return p.Asks
	case p.Holds:
		return "✓ " + p.Asks + ": " + p.Value
	default:
		return "✗ " + p.Asks + ": " + cmp.Or(p.Value, "no such field")
	}
}

// omitted says which totals of a route the roll-up leaves out, and what to do.
func (r *rollUp) omitted(of *route.Route) (why []string) {
	for _, t := range of.Totals {
		text := r.leftOut(t.Name)
		if text != "" {
			why = append(why, text+": give the total another name by \"as\", or clear the field")
		}
	}
	return why
}

// line returns the roll-up in a line.
func (r *rollUp) line() string {
	if r == nil {
		return "no roll-up yet"
	}
	return fmt.Sprintf("%v, as of %s", r.Totals, stamp(r.AsOf))
}

// An explainedRule says what the app's security rules do with a request.
type explainedRule struct {
	Asks    string        `json:"asks,omitempty"` // "": nothing could be tried
	Verdict rules.Verdict `json:"verdict"`
	Wrong   bool          `json:"wrong"`
	Says    string        `json:"says"`
}
