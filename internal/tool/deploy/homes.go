package deploy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/internal/cloud/billing"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

// SampledHomes is how many documents of a template are read, at most, before it is deployed.
const SampledHomes = 100

// A Home says what the documents of a template hold that are the app's, and that get new totals.
// Documents is how many there are, and Read how many of them were read.
type Home struct {
	Database  string      `json:"database"`
	Template  string      `json:"template"` // such as "posts/{post}"
	Documents int64       `json:"documents"`
	Read      int         `json:"read"`
	Totals    []HomeTotal `json:"totals"`

	// RollUps is how many roll-ups there may be until all documents have the totals, and Dollars
	// what they cost then, at list price.
	RollUps int64   `json:"roll_ups"`
	Dollars float64 `json:"dollars"`
}

// A HomeTotal says of how many of the documents that were read the field of a total holds a number
// or timestamp that no roll-up wrote, and of how many it holds a kind that no such total can be.
type HomeTotal struct {
	Name      string `json:"name"`
	Unwritten int    `json:"unwritten"`
	Example   string `json:"example,omitempty"` // such as "posts/b: likes is 1234"

	ForeignKind    int    `json:"foreign_kind"`
	ForeignExample string `json:"foreign_kind_example,omitempty"` // such as "posts/a: likes is an array"

	zeros int // documents that hold the field, and 0
}

// A Joined is a template in documents of the app's that the deployed functions do not have, or that
// gets new totals.
type Joined struct {
	*route.Template
	New []string // the names of these totals, sorted
}

// Joined returns the templates in documents of the app's that get new totals.
func (d *Deployment) Joined() []Joined {
	deployed, err := route.Parse(d.Variables()["TALLY_ROUTES"])
	if err != nil { // there is none
		deployed = nil
	}

	var all []Joined
	for _, t := range d.Config.Routes.Templates() {
		names := t.Totals()
		for _, old := range deployed.Templates() {
			if old.Segments().Same(t.Segments()) {
				names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(old.Totals(), name) })
			}
		}
		if t.Existing && len(names) > 0 {
			all = append(all, Joined{t, names})
		}
	}
	return all
}

// Home says what documents of a template hold. There are so many of them, and the sample was read.
func (j Joined) Home(in Database, documents int64, sample []rollup.FoundCounter) Home {
	reads := 1 + int64(j.Reads(1000))
	h := Home{
		Database:  in.ID,
		Template:  j.String(),
		Documents: documents,
		Read:      len(sample),
		RollUps:   documents,
		Dollars:   billing.Counts{Reads: documents * reads, Writes: documents}.CostIn(in.Location),
	}
	for _, name := range j.New {
		t := HomeTotal{Name: name}
		for _, f := range sample {
			t.add(f)
		}
		h.Totals = append(h.Totals, t)
	}
	return h
}

// add counts what a document holds in the total's field.
func (t *HomeTotal) add(f rollup.FoundCounter) {
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

// Problem says why the template should not be deployed as it is: most documents that hold a total's
// field hold another kind of value there. A few junk documents are no reason.
func (h Home) Problem() error {
	for _, t := range h.Totals {
		others := t.Unwritten + t.zeros
		if t.ForeignKind > others && t.ForeignKind*10 >= h.Read {
			return fmt.Errorf("most documents %s that have the field %s hold no total there, such as %s; name the total otherwise by \"as\", or clear the fields first (docs/migrate.md)",
				h.Template, t.Name, t.ForeignExample)
		}
	}
	return nil
}

// String says what the documents hold, a line for each total.
func (h Home) String() string {
	var lines []string
	for _, t := range h.Totals {
		text := fmt.Sprintf("%s documents %s", commas(h.Documents), h.Template)
		switch {
		case h.Read == 0:
		case t.Unwritten+t.ForeignKind == 0:
			text += fmt.Sprintf("; none of %d holds %s yet", h.Read, t.Name)
		case t.Unwritten > 0:
			text += fmt.Sprintf("; about %d of %d hold %s that no roll-up wrote, such as %s; each becomes what its documents add up to, and tally.before keeps the number", t.Unwritten, h.Read, t.Name, t.Example)
		}
		if t.ForeignKind > 0 {
			text += fmt.Sprintf("; about %d of %d hold another kind of %s, such as %s; these stay as they are, without this total: name the total otherwise by \"as\", or clear the fields", t.ForeignKind, h.Read, t.Name, t.ForeignExample)
		}
		if h.Documents > 0 {
			text += fmt.Sprintf(": up to %s roll-ups, about $%.2f", commas(h.RollUps), h.Dollars)
		}
		lines = append(lines, text)
	}
	return strings.Join(lines, "\n")
}

// commas returns a number with a comma before each three digits, as in 52,000.
func commas(n int64) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Joins returns the lines about documents of the app's that get new totals.
func (p Plan) Joins() string {
	var o opening
	for _, h := range p.Homes {
		for line := range strings.SplitSeq(h.String(), "\n") {
			o.line("homes", line)
		}
	}
	return o.String()
}

// Foreign returns why the plan should not be done as it is: see [Home.Problem].
func (p Plan) Foreign() error {
	var problems []error
	for _, h := range p.Homes {
		problems = append(problems, h.Problem())
	}
	return errors.Join(problems...)
}
