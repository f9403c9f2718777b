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

	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup"
	"github.com/spf13/cobra"
)

// A numeral is a number that JSON gets as a number, or as text if JSON has no such number.
type numeral struct{ fmt.Stringer }

func (n numeral) MarshalJSON() ([]byte, error) {
	if text := n.String(); json.Valid([]byte(text)) {
		return []byte(text), nil
	}
	return json.Marshal(n.String())
}

// A totals is what the totals are, by name.
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
	AgeMS     float64   `json:"age_ms,omitempty"` // when it was read, if that is known
}

// rollUpOf returns what a roll-up document says of the totals that its as_of speaks for, nil if it
// is no roll-up. The document was read at a time; zero if that is not known.
func rollUpOf(r rollup.RollUp, read time.Time) *rollUp {
	if r.Tally.AsOf.IsZero() {
		return nil
	}
	shown := &rollUp{Totals: totalsOf(r.Values), NumShards: r.Tally.NumShards, AsOf: r.Tally.AsOf}
	maps.DeleteFunc(shown.Totals, func(name string, _ numeral) bool { return !r.Tally.Covers(name) })
	if !read.IsZero() {
		shown.AgeMS = float64(read.Sub(r.Tally.AsOf).Microseconds()) / 1000
	}
	return shown
}

// cells returns the roll-up, which a template's counter has, as cells of a table.
func (r *rollUp) cells(of *rollup.Template) cells {
	age := time.Duration(r.AgeMS * float64(time.Millisecond)).Round(time.Millisecond)
	return cells(fmt.Sprintf("%s\t%d %s\tas of %s\t%v old", shown(r.Totals.String()), r.NumShards, noun(of), stamp(r.AsOf), age))
}

// stamp returns a time as the commands print it.
func stamp(t time.Time) string { return t.Format(time.RFC3339Nano) }

// A listed counter is one line of tally ls.
type listed struct {
	Counter string  `json:"counter"`
	RollUp  *rollUp `json:"rollup"` // null: the document is none
}

func listCommand() *cobra.Command {
	var t target
	var after string
	var limit int
	c := newCommand("ls")
	c.Aliases = []string{"list"}
	c.Flags().IntVar(&limit, "limit", 100, "counters on a page, up to 300")
	c.Flags().StringVar(&after, "after", "", "last counter of the page before")
	return t.command(c, viewer, func(ctx context.Context, _ []string) error {
		if limit < 1 || limit > 300 {
			return fmt.Errorf("--limit %d: want 1 to 300", limit)
		}
		var from counter
		if after != "" {
			var err error
			if from, err = t.counter(after); err != nil {
				return fmt.Errorf("--after: %w", err)
			}
		}
		found, more, err := t.list(ctx, from.Counter, limit)
		if err != nil {
			return err
		}
		counters, table := t.table(found)
		last := ""
		if more {
			last = counters[len(counters)-1].Counter
		}
		if more && !t.json {
			defer fmt.Fprintf(t.logs, "more: --after %s\n", shown(last))
		}
		return t.print(map[string]any{"counters": counters, "after": last}, "%s", table)
	})
}

// table returns the counters of roll-ups as ls lists them, and their table.
func (t *target) table(found []rollup.Found) ([]listed, cells) {
	if len(found) == 0 {
		return []listed{}, "no counters"
	}
	counters := make([]listed, len(found))
	var lines []string
	for i, f := range found {
		counters[i] = listed{t.name(f.Counter), rollUpOf(f.RollUp, time.Time{})}
		names, tally := f.Template.Totals(), f.RollUp.Tally
		if i == 0 || f.Template != found[i-1].Template {
			lines = append(lines, "COUNTER\t"+escape(strings.Join(names, "\t"), "\t")+"\t"+strings.ToUpper(noun(f.Template))+"\tAS OF")
		}
		line, end := shown(counters[i].Counter), "\t-\t-"
		for _, name := range names {
			text := "-"
			if sum, ok := f.RollUp.Values[name]; ok && tally.Covers(name) && !tally.AsOf.IsZero() {
				text = sum.String()
			}
			line += "\t" + text
		}
		if !tally.AsOf.IsZero() {
			end = fmt.Sprintf("\t%d\t%s", tally.NumShards, stamp(tally.AsOf))
		}
		lines = append(lines, line+end)
	}
	return counters, cells(strings.Join(lines, "\n"))
}

// name returns an argument that names the counter.
func (t *target) name(c rollup.Counter) string {
	path := newCounter(c, c.Template.Routes...).path
	if named, err := t.counter(path); err != nil || named.Counter != c { // the document has several counters
		return c.RollUp
	}
	return path
}

// list returns up to limit roll-ups behind one, and whether there may be more; from the first on if
// that is the zero Counter.
func (t *target) list(ctx context.Context, from rollup.Counter, limit int) (found []rollup.Found, more bool, err error) {
	for _, template := range t.config.Routes.Templates() {
		if from.Template != nil && from.Template != template {
			continue
		}
		isFrom := func(f rollup.Found) bool { return f.Counter == from }
		for next, again := from.RollUp, true; again && len(found) <= limit; again = next != "" {
			page, err := t.store.RollUps(ctx, template, next, limit+1)
			if err != nil {
				return nil, false, err
			}
			found, next = append(found, slices.DeleteFunc(page.Found, isFrom)...), page.Next
		}
		from = rollup.Counter{}
	}
	return found[:min(len(found), limit)], len(found) > limit, nil
}
