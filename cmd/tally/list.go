package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/tool/terminal"
	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/spf13/cobra"
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

// pacing returns the options by which the functions pace roll-ups.
func pacing(c config.Config) rollup.Options {
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
	shown.Due, shown.Foreign = pacing(c).Due(of, r.Tally), r.Foreign
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
func (r *rollUp) cells(of *route.Template) cells {
	age := time.Duration(r.AgeMS * float64(time.Millisecond)).Round(time.Millisecond)
	line := fmt.Sprintf("%s%s\tas of %s\t%v old", terminal.Shown(r.Totals.String()), counted(of, r.NumShards), stamp(r.AsOf), age)
	if r.Due.After(r.AsOf.Add(age)) {
		line += "\tdue at " + stamp(r.Due)
	}
	if len(r.Before) > 0 {
		line += "\tbefore: " + terminal.Shown(r.Before.String())
	}
	for _, name := range slices.Sorted(maps.Keys(r.Foreign)) {
		line += terminal.Shown(fmt.Sprintf("  %s is left out: the field holds %s of the app's", name, r.Foreign[name]))
	}
	if r.Left {
		line += "\tdocuments have left a window since; " + r.alarm(r.AsOf.Add(age))
	}
	return cells(line)
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

// A listed counter is one line of tally ls.
type listed struct {
	Counter string  `json:"counter"`
	RollUp  *rollUp `json:"rollup"` // null: the document was never rolled up
}

// due returns when the counter is rolled up next, as tally ls prints it.
func (l listed) due() string {
	switch {
	case l.RollUp == nil:
		return "on change"
	case l.RollUp.Due.After(time.Now()):
		return stamp(l.RollUp.Due)
	case !l.RollUp.Rings.IsZero():
		return "by " + stamp(l.RollUp.Rings)
	default:
		return "on change"
	}
}

// longestPage is the most counters that tally ls lists at once.
const longestPage = 300

func listCommand() *cobra.Command {
	var after string
	var limit int
	c := newCommand("ls")
	c.Aliases = []string{"list"}
	c.Flags().IntVar(&limit, "limit", 100, fmt.Sprintf("counters on a page, up to %d", longestPage))
	c.Flags().StringVar(&after, "after", "", "last counter of the page before")
	return databaseCommand{run: func(ctx context.Context, s *session, _ []string) error {
		return list(ctx, s, after, limit)
	}}.define(c)
}

// list lists up to limit counters: those behind the counter that after names, or the first ones if
// after is "".
func list(ctx context.Context, s *session, after string, limit int) error {
	if limit < 1 || limit > longestPage {
		return fmt.Errorf("--limit %d: want 1 to %d", limit, longestPage)
	}
	var from counter
	if after != "" {
		var err error
		from, err = s.counter(after)
		if err != nil {
			return fmt.Errorf("--after: %w", err)
		}
	}

	found, more, err := rollUpsBehind(ctx, s.store, s.config.Routes.Templates(), from.Counter, limit)
	if err != nil {
		return err
	}
	counters := listedOf(s.config, found)
	last := ""
	if more {
		last = counters[len(counters)-1].Counter
	}
	err = s.print(map[string]any{"counters": counters, "after": last}, "%s", tableOf(found, counters))
	if more && !s.json {
		fmt.Fprintf(s.logs, "more: --after %s\n", terminal.Shown(last))
	}
	return err
}

// rollUpsBehind returns up to limit roll-ups of the templates, and whether there are more. It
// begins behind the counter from, or with the first roll-up if from is the zero Counter.
func rollUpsBehind(ctx context.Context, store *firestorestore.Store, templates []*route.Template, from route.Counter, limit int) (found []rollup.FoundCounter, more bool, err error) {
	first := max(0, slices.Index(templates, from.Template)) // 0 if from is the zero Counter

	for _, template := range templates[first:] {
		next := ""
		if template == from.Template {
			next = from.RollUp
		}
		for len(found) <= limit {
			page, err := store.RollUps(ctx, template, next, limit+1)
			if err != nil {
				return nil, false, err
			}
			isFrom := func(f rollup.FoundCounter) bool { return f.Counter == from }
			found = append(found, slices.DeleteFunc(page.Found, isFrom)...)
			if page.Next == "" {
				break
			}
			next = page.Next
		}
	}
	return found[:min(len(found), limit)], len(found) > limit, nil
}

// listedOf returns the counters of roll-ups as ls lists them.
func listedOf(c config.Config, found []rollup.FoundCounter) []listed {
	counters := make([]listed, len(found))
	for i, f := range found {
		counters[i] = listed{nameOf(c.Routes, f.Counter), rollUpOf(c, f.Template, f.RollUp, time.Time{})}
	}
	return counters
}

// tableOf returns the table of roll-ups, with their counters as listed. Each template has a
// heading.
func tableOf(found []rollup.FoundCounter, counters []listed) cells {
	if len(found) == 0 {
		return "no counters"
	}

	hasAlarms := make(map[*route.Template]bool) // some counters of the template may have alarms
	for i, f := range found {
		r := counters[i].RollUp
		hasAlarms[f.Template] = hasAlarms[f.Template] || r != nil && !(r.Due.IsZero() && r.Rings.IsZero())
	}

	var lines []string
	for i, f := range found {
		heading, line := headingOf(f.Template), lineOf(counters[i].Counter, f)
		if hasAlarms[f.Template] {
			heading, line = heading+"\tDUE", line+"\t"+counters[i].due()
		}
		if i == 0 || f.Template != found[i-1].Template {
			lines = append(lines, heading)
		}
		lines = append(lines, line)
	}
	return cells(strings.Join(lines, "\n"))
}

// headingOf returns the heading above the counters of a template.
func headingOf(t *route.Template) string {
	heading := "COUNTER\t" + terminal.Escape(strings.Join(t.Totals(), "\t"), "\t")
	if t.TellsNumber() {
		heading += "\t" + strings.ToUpper(noun(t)) + "S"
	}
	return heading + "\tAS OF"
}

// lineOf returns the line of a counter that has the name.
func lineOf(name string, f rollup.FoundCounter) string {
	tally := f.RollUp.Tally
	line := terminal.Shown(name)
	for _, total := range f.Template.Totals() {
		text := "-"
		sum, ok := f.RollUp.Values[total]
		if ok && tally.Covers(total) && !tally.AsOf.IsZero() {
			text = sum.String()
		}
		line += "\t" + text
	}

	number, asOf := "-", "-"
	if !tally.AsOf.IsZero() {
		number, asOf = fmt.Sprint(tally.NumShards), stamp(tally.AsOf)
	}
	if f.Template.TellsNumber() {
		line += "\t" + number
	}
	return line + "\t" + asOf
}

// nameOf returns an argument that names the counter: the document above its shards, or the roll-up
// if that document has other counters, too.
func nameOf(routes route.Routes, c route.Counter) string {
	path := newCounter(c, c.Template.Routes...).path
	named, err := counterOf(routes, path)
	if err != nil || named.Counter != c {
		return c.RollUp
	}
	return path
}
