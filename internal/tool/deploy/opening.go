package deploy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/firestore-tally/tally/internal/cloud/billing"
	"github.com/firestore-tally/tally/internal/cloud/config"
)

// Opening tells the user, in ten lines or so, what to know before the steps of the plan: what is
// done and what is not, where, who may do what, and what it costs. source names the source that is
// uploaded, and account names who is signed in; if one is "", its line is left out. rules tells
// whether the plan also replaces the rules.
func (d *Description) Opening(p Plan, account, source string, rules bool) string {
	var o opening
	o.line("what", p.counted())
	o.line("as", account)
	o.line("source", source)
	o.line("routes", d.routeList())
	o.line("levels", d.Config.Routes.Depth())
	o.line("where", "functions and job in "+d.region()+"; "+d.places())
	o.line("far", d.far())
	o.line("who", d.who())
	for _, l := range d.prices() {
		o.line(l[0], l[1])
	}
	o.line("not done", undone(rules))
	o.line("undo", "tally undeploy --project "+d.Project+" removes it; documents, databases, fields, APIs and an empty queue stay")
	return o.String()
}

// An opening is lines that begin with what they are about.
type opening struct{ strings.Builder }

func (o *opening) line(about, text string) {
	if text != "" {
		fmt.Fprintf(o, "  %-9s %s\n", about, text)
	}
}

// few is how many of a list are named before the others are only counted.
const few = 3

// some joins the first few of a list, and counts the others.
func some(all []string, separator string) string {
	if len(all) <= few {
		return strings.Join(all, separator)
	}
	return fmt.Sprintf("%s%sand %d more", strings.Join(all[:few], separator), separator, len(all)-few)
}

// counted says how many steps there are, and what they create.
func (p Plan) counted() string {
	var created []string
	for _, k := range kinds {
		n := 0
		for _, s := range p.Steps {
			if s.creates(k) {
				n++
			}
		}

		switch {
		case n == 1:
			created = append(created, "1 "+k.Noun)
		case n > 1:
			created = append(created, fmt.Sprintf("%d %s", n, strings.TrimPrefix(k.All(), "the ")))
		}
	}

	text := fmt.Sprintf("%d steps", len(p.Steps))
	if len(p.Steps) == 1 {
		text = "1 step"
	}
	if len(created) > 0 {
		text += ": creates " + strings.Join(created, ", ")
	}
	return text
}

func (d *Description) routeList() string {
	var all []string
	for _, r := range d.Config.Routes {
		all = append(all, r.String())
	}
	return some(all, "; ")
}

// places says where the databases are.
func (d *Description) places() string {
	var all []string
	for _, database := range d.Databases {
		all = append(all, "database "+database.ID+" in "+database.Location)
	}
	return some(all, ", ")
}

// far says which databases send their documents to another continent; "" if none does.
func (d *Description) far() string {
	var all []string
	for _, database := range d.elsewhere() {
		all = append(all, database.ID+" from "+database.Location)
	}
	if len(all) == 0 {
		return ""
	}
	return "events carry whole documents to " + d.region() + ", on another continent: of " + some(all, ", ")
}

// who says what the service accounts may do, by the grants.
func (d *Description) who() string {
	var ids []string
	for _, database := range d.Databases {
		ids = append(ids, database.ID)
	}
	return "tally-functions reads and writes documents of " + some(ids, ", ") + "; Cloud Tasks takes its alarms, and calls as tally-trigger; only tally-trigger and tally-scheduler may call the functions, each one of them; tally-build builds them"
}

// undone says what the user is left to do.
func undone(rules bool) string {
	const budget = "Tally sets no budget"
	if rules {
		return budget
	}
	return "your security rules stay as they are (--rules deploys them, with Tally's part); " + budget
}

// prices returns the lines about what it costs.
func (d *Description) prices() [][2]string {
	c := d.Costs()
	lines := [][2]string{{"at rest", fmt.Sprintf("$%.2f a month, and $%.2f for 1,000 counters, audited every %s; audits cost $%.2f at most",
		c.Rest, 1000*c.Audit, brief(config.SchedulePeriod), c.Audits)}}

	if c.Alone != (Range{}) {
		text := fmt.Sprintf("from %s a million if each comes alone, %s if %d a second come to one counter", c.Alone, c.Crowded, crowd)
		if d.Billing == ByInstance {
			text += fmt.Sprintf("; $%.2f a day for an instance", day.Seconds()*billing.OnWriteSecondByInstance)
		}
		lines = append(lines, [2]string{"changes", text})
	}

	for _, k := range c.Every {
		lines = append(lines, [2]string{"every " + brief(k.Every), fmt.Sprintf("$%.2f a month for 1,000 counters, at most", k.Thousand)})
	}

	lines = append(lines, [2]string{"worst day", fmt.Sprintf("$%.2f, with %d instances busy all day, and ticks and audits at their bounds; events, requests and their roll-ups are extra",
		c.WorstDay, d.MaxInstances)})

	logs := "requests that succeed leave no log entry"
	if d.RequestLogs == AllRequests {
		logs = "each request leaves a log entry"
	}
	return append(lines, [2]string{"prices", fmt.Sprintf("list prices of 2026 without free quotas, %s; %s", c.places(), logs)})
}

// places says of which locations the prices are.
func (c *Costs) places() string {
	switch {
	case len(c.Unknown) == 0 && c.Location == billing.PriceRegion:
		return c.Location + "'s"
	case len(c.Unknown) == 0:
		return "Firestore's of " + c.Location + ", others of " + billing.PriceRegion
	}

	var as []string // in their place
	for _, location := range c.Unknown {
		if !slices.Contains(as, billing.PricedAs(location)) {
			as = append(as, billing.PricedAs(location))
		}
	}
	text := fmt.Sprintf("%s's for %s; others cost up to twice as much", strings.Join(as, "'s and "), some(c.Unknown, ", "))
	if !slices.Contains(as, c.Location) {
		text = "Firestore's of " + c.Location + ", " + text
	}
	return text
}

// String returns the range in dollars.
func (r Range) String() string {
	least, most := fmt.Sprintf("$%.2f", r.Least), fmt.Sprintf("$%.2f", r.Most)
	if least == most {
		return least
	}
	return least + " to " + most
}

// brief returns a duration without the zeros at its end.
func brief(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// many is how many steps may be shown unasked.
const many = 12

// Shown returns the steps in words. If verbose is set, it adds why. Otherwise, if there are many
// steps, it shows only those that take something away, and says how to see the others.
func (p Plan) Shown(verbose bool) string {
	if verbose || len(p.Steps) <= many {
		return p.summary(verbose)
	}

	shown := p
	shown.Steps = slices.DeleteFunc(slices.Clone(p.Steps), func(s Step) bool { return !s.takes() })
	more := fmt.Sprintf("  --dry-run shows all %d steps, and why; --manifest prints each setting\n", len(p.Steps))
	return shown.summary(false) + more
}

// summary returns the steps in words, and with why also the manifest's reasons.
func (p Plan) summary(why bool) string {
	var b strings.Builder
	for _, step := range p.Steps {
		fmt.Fprintf(&b, "  %s\n", readable(step.Title))
		if why && step.Why != "" && len(step.Changes) == 0 {
			fmt.Fprintf(&b, "      # %s\n", step.Why)
		}
		for _, c := range step.Changes {
			fmt.Fprintf(&b, "      %v\n", c)
			if why && c.Why != "" {
				fmt.Fprintf(&b, "        # %s\n", c.Why)
			}
		}
		for _, reason := range step.Reasons {
			fmt.Fprintf(&b, "      %s\n", reason)
		}
	}
	return b.String()
}

// Noted returns the notes, each after a blank line.
func (p Plan) Noted() string {
	var b strings.Builder
	for _, note := range p.Notes {
		fmt.Fprintf(&b, "\nNote: %s\n", note)
	}
	return b.String()
}
