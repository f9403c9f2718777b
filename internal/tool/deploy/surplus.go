package deploy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// How Tally marks its resources. Functions, triggers, alerts and channels get labels. One that can
// have no label mostly gets the description madeBy.
const (
	purposeLabel = "tally"        // its purpose
	madeByLabel  = "tally-deploy" // its maker
	sourceLabel  = "tally-source" // of functions: which source
	madeBy       = "Made by tally deploy"
)

// ours reports whether the resource is of Tally, no matter which tool made it.
func ours(o Object) bool {
	return o.Get("labels."+purposeLabel) != "" || o.Get("userLabels."+purposeLabel) != ""
}

// made reports whether tally deploy made the resource.
func made(o Object) bool {
	return o.Get("labels."+madeByLabel) != "" || o.Get("userLabels."+madeByLabel) != "" || o.Get("description") == madeBy
}

// A surplus is something that tally deploy made, and that the deployment does not want any more.
type surplus struct {
	*Step
	lost bool // a trigger of documents that no route has: the functions may change only when its events have ended
}

// Surplus returns the steps that delete what Tally has too much of; with prune also monitoring that
// no one asks for. If regions did not answer, it also returns a Silence.
func (d *Deployment) Surplus(ctx context.Context, prune bool) (all []surplus, err error) {
	if d.planned {
		return nil, nil
	}
	kinds := []string{"trigger", "job", "function", "repository"}
	if prune && !d.KeepAlerts && len(d.Alerts) == 0 {
		kinds = append(kinds, monitored...)
	}

	var silent error
	for _, kind := range kinds {
		k := known().Kinds[kind]
		found, err := d.mine(ctx, k, d.Was)
		silence := new(Silence)
		switch {
		case errors.As(err, &silence):
			silent = err
		case err != nil:
			return nil, d.Unreadable(k.api(), "the "+k.Many, err)
		}

		for _, o := range found {
			isWanted := slices.ContainsFunc(d.Resources, func(r *Resource) bool { return r.kind == k && r.Name == o.name() })
			if !isWanted {
				all = append(all, surplus{d.deletion(k, o, d.whySurplus(k, o)), kind == "trigger" && d.losesDocuments(o)})
			}
		}
	}
	return all, silent
}

// whySurplus returns why the deployment does not want a resource of Tally's.
func (d *Deployment) whySurplus(k *Kind, o Object) string {
	switch {
	case slices.Contains(monitored, k.Noun):
		return "alerts in tally.yaml names no one"
	case k.Noun != "trigger":
		return "nothing needs it in " + segment(o.name(), "locations")
	case d.losesDocuments(o):
		return fmt.Sprintf("no route has the documents %s of database %s", filter(o, "document"), filter(o, "database"))
	}
	return fmt.Sprintf("the schedule keeps %s, or another trigger has it, and each event is billed for nothing", filter(o, "document"))
}

// losesDocuments reports whether no route has the documents of a trigger.
func (d *Deployment) losesDocuments(trigger Object) bool {
	return d.routeOf(filter(trigger, "document")) == nil || !d.serves(filter(trigger, "database"))
}

// deletion returns the step that deletes what the project has.
func (p *Project) deletion(k *Kind, o Object, reasons ...string) *Step {
	label := path.Base(o.name())
	switch k.Key {
	case "labels.email_address", "userLabels.tally", "displayName":
		label = cmp.Or(k.keyOf(o), label)
	}
	s := &Step{Does: "delete", Of: k.Noun, Name: o.name(), Title: "delete " + k.Noun + " " + label, Reasons: reasons, takes: true}
	s.do = func(ctx context.Context) error { return p.remove(ctx, k, o.name()) }
	return s
}

// takeSurplus adds the steps that delete what Tally has too much of: with prune all of it, else the
// triggers, because each of their events is billed for nothing. It notes the others.
func (d *Deployment) takeSurplus(ctx context.Context, p *Plan, prune bool) error {
	all, err := d.Surplus(ctx, prune)
	silence := new(Silence)
	if errors.As(err, &silence) {
		p.note("%v. Triggers that Tally may have there stay as they are", silence)
	} else if err != nil {
		return err
	}

	// A source that no route has any more loses its trigger first. The routes change only when the
	// events of that trigger have ended.
	var lost []*Step
	for _, s := range all {
		switch {
		case s.lost:
			lost = append(lost, s.Step)
		case prune || s.Of == "trigger":
			p.add(s.Step)
		default:
			p.note("%s: %s. Only --prune does this", s.Title, strings.Join(s.Reasons, "; "))
		}
	}
	if len(lost) > 0 {
		wait := &Step{Does: "wait", Of: "trigger", Title: fmt.Sprintf("wait %g minutes, until events that failed have been delivered again", redelivery.Minutes()), takes: true}
		wait.do = func(ctx context.Context) error { return sleep(ctx, redelivery) }
		p.Steps = slices.Concat(lost, []*Step{wait}, p.Steps)
	}
	return nil
}
