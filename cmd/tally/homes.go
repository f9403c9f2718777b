package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/cmd/tally/settings"
	"github.com/firestore-tally/tally/internal/cloud/billing"
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/tool/deploy"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

// sampledHomes is how many documents of a template are read, at most, before it is deployed.
const sampledHomes = 100

// A home says what the documents of a template hold that are the app's, and that get new totals.
// Documents is how many there are, and Read how many of them were read.
type home struct {
	Database  string      `json:"database"`
	Template  string      `json:"template"` // such as "posts/{post}"
	Documents int64       `json:"documents"`
	Read      int         `json:"read"`
	Totals    []homeTotal `json:"totals"`

	// RollUps is how many roll-ups there may be until all documents have the totals, and Dollars
	// what they cost then, at list price.
	RollUps int64   `json:"roll_ups"`
	Dollars float64 `json:"dollars"`
}

// A homeTotal says of how many of the documents that were read the field of a total holds a number
// or timestamp that no roll-up wrote, and of how many it holds a kind that no such total can be.
type homeTotal struct {
	Name      string `json:"name"`
	Unwritten int    `json:"unwritten"`
	Example   string `json:"example,omitempty"` // such as "posts/b: likes is 1234"

	ForeignKind    int    `json:"foreign_kind"`
	ForeignExample string `json:"foreign_kind_example,omitempty"` // such as "posts/a: likes is an array"

	zeros int // documents that hold the field, and 0
}

// A newTotals is a template in documents of the app's that the deployed functions do not have,
// or that gets new totals.
type newTotals struct {
	*route.Template
	added []string // the names of these totals, sorted
}

// newTotalsOf returns the templates in documents of the app's that get new totals.
func newTotalsOf(d *deploy.Deployment) []newTotals {
	deployed, err := route.Parse(d.Variables()["TALLY_ROUTES"])
	if err != nil { // there is none
		deployed = nil
	}

	var all []newTotals
	for _, t := range d.Config.Routes.Templates() {
		names := t.Totals()
		for _, old := range deployed.Templates() {
			if old.Segments().Same(t.Segments()) {
				names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(old.Totals(), name) })
			}
		}
		if t.Existing && len(names) > 0 {
			all = append(all, newTotals{t, names})
		}
	}
	return all
}

// home says what documents of a template hold. There are so many of them, and the sample was read.
func (j newTotals) home(in deploy.Database, on route.Edition, documents int64, sample []rollup.FoundCounter) home {
	reads := 1 + int64(j.Reads(1000))
	used := billing.Usage{
		Counts: billing.Counts{Reads: documents * reads, Writes: documents},
		Units:  billing.Units{Reads: documents * reads * billing.UnitsPerRead, Writes: documents},
	}
	bill := used.On(on).CostIn(in.Location)
	h := home{
		Database:  in.ID,
		Template:  j.String(),
		Documents: documents,
		Read:      len(sample),
		RollUps:   documents,
		Dollars:   bill,
	}
	for _, name := range j.added {
		t := homeTotal{Name: name}
		for _, f := range sample {
			t.add(f)
		}
		h.Totals = append(h.Totals, t)
	}
	return h
}

// add counts what a document holds in the total's field.
func (t *homeTotal) add(f rollup.FoundCounter) {
	kind, isForeign := f.RollUp.Foreign[t.Name]
	held, there := f.RollUp.Values[t.Name]
	switch {
	case isForeign:
		t.ForeignKind++
		t.ForeignExample = cmp.Or(t.ForeignExample, fmt.Sprintf("%s: %s is %s", f.Counter.RollUp, t.Name, kind))
	case slices.Contains(f.RollUp.Unwritten(), t.Name):
		t.Unwritten++
		t.Example = cmp.Or(t.Example, fmt.Sprintf("%s: %s is %v", f.Counter.RollUp, t.Name, held))
	case there && !held.IsNull():
		t.zeros++
	}
}

// foreignError says why the template should not be deployed as it is: most documents that hold a
// total's field hold another kind of value there. A few junk documents are no reason.
func (h home) foreignError() error {
	for _, t := range h.Totals {
		others := t.Unwritten + t.zeros
		if t.ForeignKind > others && t.ForeignKind*10 >= h.Read {
			return fmt.Errorf("most documents %s that have the field %s hold no total there, such as %s; give the total another name by \"as\", or clear the fields first (docs/migrate.md)",
				h.Template, t.Name, t.ForeignExample)
		}
	}
	return nil
}

// String says what the documents hold, a line for each total.
func (h home) String() string {
	var lines []string
	for _, t := range h.Totals {
		text := billing.Number(h.Documents, "document") + " " + h.Template
		switch {
		case h.Read == 0:
		case t.Unwritten+t.ForeignKind == 0:
			text += fmt.Sprintf("; none of %d holds %s yet", h.Read, t.Name)
		case t.Unwritten > 0:
			text += fmt.Sprintf("; about %d of %d hold %s that no roll-up wrote, such as %s; each becomes what its documents add up to, and tally.before keeps the number", t.Unwritten, h.Read, t.Name, t.Example)
		}
		if t.ForeignKind > 0 {
			text += fmt.Sprintf("; about %d of %d hold another kind of %s, such as %s; these stay as they are, without this total: give the total another name by \"as\", or clear the fields", t.ForeignKind, h.Read, t.Name, t.ForeignExample)
		}
		if h.Documents > 0 {
			text += fmt.Sprintf(": up to %s, about $%.2f", billing.Number(h.RollUps, "roll-up"), h.Dollars)
		}
		lines = append(lines, text)
	}
	return strings.Join(lines, "\n")
}

// homesText returns the lines about documents of the app's that get new totals.
func (d *deployment) homesText() string {
	var b strings.Builder
	for _, h := range d.homes {
		for line := range strings.SplitSeq(h.String(), "\n") {
			fmt.Fprintf(&b, "  %-9s %s\n", "homes", line)
		}
	}
	return b.String()
}

// homesError returns why the plan should not be done as it is: see [home.foreignError].
func (d *deployment) homesError() error {
	var problems []error
	for _, h := range d.homes {
		problems = append(problems, h.foreignError())
	}
	return errors.Join(problems...)
}

// readHomes counts and reads documents of the app's that get new totals. If they cannot be read, a
// note says so: the account that deploys may not be allowed to read documents.
func (d *deployment) readHomes(ctx context.Context, wanted *deploy.Deployment, plan *deploy.Plan) error {
	at := settings.EndpointsOf(ctx)
	joined := newTotalsOf(wanted)
	if len(joined) == 0 || at.APIs != nil && at.Firestore == "" { // there is no Firestore with the APIs
		return nil
	}

	for _, database := range wanted.Databases {
		store, err := firestorestore.OpenEdition(ctx, wanted.Config.Edition, at.Firestore, d.project, database.ID, slog.New(slog.DiscardHandler), at.Dial...)
		if err != nil {
			return err
		}
		for _, j := range joined {
			documents, sample, err := store.Homes(ctx, j.Template, sampledHomes)
			if ctx.Err() != nil {
				return errors.Join(context.Cause(ctx), store.Close())
			}
			if err != nil {
				plan.Notes = append(plan.Notes, fmt.Sprintf("could not read the documents %s, so it is unknown what the fields of new totals hold; reading needs roles/datastore.viewer: %v", j.Template, err))
				continue
			}
			d.homes = append(d.homes, j.home(database, wanted.Config.Edition, documents, sample))
		}
		err = store.Close()
		if err != nil {
			return err
		}
	}
	return nil
}
