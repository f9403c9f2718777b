package counters

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/firestore-tally/tally/cmd/tally/command"
	"github.com/firestore-tally/tally/cmd/tally/counter"
	"github.com/firestore-tally/tally/cmd/tally/session"
	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/tool/terminal"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/spf13/cobra"
)

// A listEntry is one line of tally ls.
type listEntry struct {
	Counter string  `json:"counter"`
	RollUp  *rollUp `json:"rollup"` // null: the document was never rolled up
}

// due returns when the counter is rolled up next, as tally ls prints it.
func (l listEntry) due() string {
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
	c := command.New("ls")
	c.Aliases = []string{"list"}
	c.Flags().IntVar(&limit, "limit", 100, fmt.Sprintf("counters on a page, up to %d", longestPage))
	c.Flags().StringVar(&after, "after", "", "last counter of the page before")
	return session.Command{Run: func(ctx context.Context, s *session.Session, _ []string) error {
		return list(ctx, s, after, limit)
	}}.Define(c)
}

// list lists up to limit counters: those behind the counter that after names, or the first ones if
// after is "".
func list(ctx context.Context, s *session.Session, after string, limit int) error {
	if limit < 1 || limit > longestPage {
		return fmt.Errorf("--limit %d: want 1 to %d", limit, longestPage)
	}
	var from counter.Counter
	if after != "" {
		var err error
		from, err = s.Counter(after)
		if err != nil {
			return fmt.Errorf("--after: %w", err)
		}
	}

	found, more, err := rollUpsBehind(ctx, s.Store, s.Config.Routes.Templates(), from.Counter, limit)
	if err != nil {
		return err
	}
	counters := listEntries(s.Config, found)
	last := ""
	if more {
		last = counters[len(counters)-1].Counter
	}
	err = s.Print(map[string]any{"counters": counters, "after": last}, "%s", tableOf(found, counters))
	if more && !s.JSON {
		fmt.Fprintf(s.Logs, "more: --after %s\n", terminal.Shown(last))
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

// listEntries returns the counters of roll-ups as ls lists them.
func listEntries(c config.Config, found []rollup.FoundCounter) []listEntry {
	counters := make([]listEntry, len(found))
	for i, f := range found {
		counters[i] = listEntry{NameOf(c.Routes, f.Counter), rollUpOf(c, f.Template, f.RollUp, time.Time{})}
	}
	return counters
}

// tableOf returns the table of roll-ups, with their counters as listed. Each template has a
// heading.
func tableOf(found []rollup.FoundCounter, counters []listEntry) terminal.Cells {
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
	return terminal.Cells(strings.Join(lines, "\n"))
}

// headingOf returns the heading above the counters of a template.
func headingOf(t *route.Template) string {
	heading := "COUNTER\t" + terminal.Escape(strings.Join(t.Totals(), "\t"), "\t")
	if t.TellsNumber() {
		heading += "\t" + strings.ToUpper(counter.Noun(t)) + "S"
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
