package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/firestore-tally/tally/rollup"
	"github.com/spf13/cobra"
)

// A listed counter is one line of tally ls.
type listed struct {
	Counter string  `json:"counter"`
	RollUp  *rollUp `json:"rollup"` // null: the document is none
}

// line returns the counter's line in a table of these totals.
func (l listed) line(names []string) string {
	row := []string{shown(l.Counter)}
	for _, name := range names {
		cell := "-"
		if l.RollUp != nil {
			if sum, ok := l.RollUp.Totals[name]; ok {
				cell = sum.String()
			}
		}
		row = append(row, cell)
	}
	if l.RollUp == nil {
		return strings.Join(append(row, "-", "-"), "\t")
	}
	return strings.Join(append(row, fmt.Sprint(l.RollUp.NumShards), l.RollUp.AsOf.Format(time.RFC3339Nano)), "\t")
}

func listCommand() *cobra.Command {
	var t target
	var after string
	var limit int
	c := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List counters with their roll-ups, page by page",
		Long: `List all counters that have roll-up documents, in the order of the routes and of their paths, with what these say. It bills one read for each. A counter whose
first roll-up is yet to come is not listed; tally audit names it.`,
		Example: `  tally ls
  tally ls --limit 20 --after counters/likes
  tally ls --json | jq '.counters[] | select(.rollup.totals.count > 1000)'`,
	}
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
	counters := make([]listed, len(found))
	var lines []string
	for i, f := range found {
		counters[i] = listed{t.name(f.Counter), rollUpOf(f.RollUp, time.Time{})}
		names := f.Template.Totals()
		heads := make([]string, len(names))
		for i, name := range names {
			heads[i] = shown(name)
		}
		if i == 0 || f.Template != found[i-1].Template {
			lines = append(lines, "COUNTER\t"+strings.Join(heads, "\t")+"\tSHARDS\tAS OF")
		}
		lines = append(lines, counters[i].line(names))
	}
	if len(found) == 0 {
		lines = []string{"no counters"}
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

// list returns up to limit roll-ups behind one, and whether there may be more; from the first on if that
// is the zero Counter.
func (t *target) list(ctx context.Context, from rollup.Counter, limit int) (found []rollup.Found, more bool, err error) {
	store, err := t.store(ctx, slog.New(slog.NewTextHandler(t.logs, nil)))
	if err != nil {
		return nil, false, err
	}
	defer store.Close()
	for _, template := range t.config.Routes.Templates() {
		if from.Template != nil && from.Template != template {
			continue
		}
		page := rollup.Page{Next: from.RollUp}
		for first := true; (first || page.Next != "") && len(found) <= limit; first = false {
			if page, err = store.RollUps(ctx, template, page.Next, limit+1); err != nil {
				return nil, false, err
			}
			for _, f := range page.Found {
				if f.Counter != from {
					found = append(found, f)
				}
			}
		}
		from = rollup.Counter{}
	}
	return found[:min(len(found), limit)], len(found) > limit, nil
}
