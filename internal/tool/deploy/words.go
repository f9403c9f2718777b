package deploy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/internal/cloud/billing"
)

// Opening tells the user, in ten lines or so, what to know besides the steps of the plan: what is
// not done, where, and what it costs.
func (d *Deployment) Opening(p Plan) string {
	lines := [][2]string{
		{"routes", d.routeList()},
		{"where", "functions and job in " + d.Place() + "; " + d.places()},
		{"far", d.farText()},
	}
	if p.Uploads() {
		lines = slices.Insert(lines, 0, [2]string{"source", "this tally's own, " + orUnknown(d.Upload.Version) + ", hash " + d.Upload.Hash})
	}
	lines = append(lines, d.prices()...)
	if len(d.Alerts) == 0 {
		lines = append(lines, [2]string{"alerts", "none, because alerts in tally.yaml names no one; without --prune, existing metrics and alerts stay"})
	}
	lines = append(lines,
		[2]string{"not done", "your security rules stay as they are (firebase deploy --only firestore:rules deploys them); Tally sets no budget"},
		[2]string{"undo", "tally undeploy --project " + d.ID + " removes it; documents, databases, indexes, fields, APIs and an empty queue stay"})

	var b strings.Builder
	for _, l := range lines {
		if l[1] != "" {
			fmt.Fprintf(&b, "  %-9s %s\n", l[0], l[1])
		}
	}
	return b.String()
}

// few is how many of a list are named before the others are only counted.
const few = 3

// firstFew joins the first few of a list, and counts the others.
func firstFew(all []string, separator string) string {
	if len(all) <= few {
		return strings.Join(all, separator)
	}
	return fmt.Sprintf("%s%sand %d more", strings.Join(all[:few], separator), separator, len(all)-few)
}

func (d *Deployment) routeList() string {
	var all []string
	for _, r := range d.Config.Routes {
		all = append(all, r.String())
	}
	return firstFew(all, "; ")
}

// places says where the databases are.
func (d *Deployment) places() string {
	var all []string
	for _, database := range d.Databases {
		all = append(all, "database "+database.ID+" in "+database.Location)
	}
	return firstFew(all, ", ")
}

// farText says which databases send their documents to another continent; "" if none does.
func (d *Deployment) farText() string {
	var all []string
	for _, database := range d.farDatabases() {
		all = append(all, database.ID+" from "+database.Location)
	}
	if len(all) == 0 {
		return ""
	}
	return "events carry whole documents to " + d.Place() + ", on another continent: of " + firstFew(all, ", ")
}

// prices returns the lines about what it costs.
func (d *Deployment) prices() [][2]string {
	c := d.Costs()
	lines := [][2]string{{"at rest", fmt.Sprintf("$%.2f a month, and the audits' reads", c.Rest)}}
	if c.Change > 0 {
		lines = append(lines, [2]string{"changes", fmt.Sprintf("$%.2f a million if each comes alone, of the dearest route", c.Change)})
	}
	prices := fmt.Sprintf("list prices of 2026 without free quotas, Firestore's of %s, others of %s", c.Location, billing.PriceRegion)
	if c.Guessed {
		prices += "; other locations may cost up to twice as much"
	}
	return append(lines,
		[2]string{"worst day", fmt.Sprintf("$%.2f, with %d instances busy all day, and ticks and audits at their bounds; events, requests and their roll-ups are extra", c.WorstDay, d.MaxInstances)},
		[2]string{"prices", prices})
}

// StepsText returns the steps in words; with reasons also why each thing is created.
func (p Plan) StepsText(reasons bool) string {
	var b strings.Builder
	for _, s := range p.Steps {
		fmt.Fprintf(&b, "  %s\n", s.Title)
		if reasons && s.Does == "create" && s.Why != "" {
			fmt.Fprintf(&b, "      # %s\n", s.Why)
		}
		for _, line := range s.Lines() {
			fmt.Fprintf(&b, "      %s\n", line)
		}
	}
	return b.String()
}

// NotesText returns the notes, each after a blank line.
func (p Plan) NotesText() string {
	var b strings.Builder
	for _, note := range p.Notes {
		fmt.Fprintf(&b, "\nNote: %s\n", note)
	}
	return b.String()
}
