package deploy

import (
	"fmt"
	"slices"
	"time"
)

// A Plan lists what tally deploy or undeploy does.
type Plan struct {
	Steps []Step   `json:"steps"`
	Notes []string `json:"notes,omitempty"` // what the user should know or do

	// Awaited are the indexes, in words, that keep the plan short: until they are ready, it does no
	// more than begin their builds.
	Awaited []string `json:"awaited,omitempty"`
}

// add adds a step.
func (p *Plan) add(s Step) { p.Steps = append(p.Steps, s) }

// note adds a note.
func (p *Plan) note(format string, args ...any) {
	p.Notes = append(p.Notes, fmt.Sprintf(format, args...))
}

// has reports whether the plan has a step with this verb for the resource of the kind and name.
func (p *Plan) has(does Verb, of *Kind, name string) bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool {
		return s.Does == does && s.Of == of && s.Name == name
	})
}

// creates reports whether a step makes a resource of the kind.
func (p *Plan) creates(k *Kind) bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { return s.creates(k) })
}

// Uploads reports whether the plan deploys a function, and so uploads source.
func (p *Plan) Uploads() bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool {
		return s.Of == Function && (s.Does == Create || s.Does == Update)
	})
}

// afterAPIs inserts steps behind those that enable APIs, which everything else needs.
func (p *Plan) afterAPIs(steps ...Step) {
	behind := slices.IndexFunc(p.Steps, func(s Step) bool { return s.Of != API })
	p.Steps = slices.Insert(p.Steps, max(0, behind), steps...)
}

// redelivery is the longest time between two deliveries of an event
// (https://cloud.google.com/eventarc/docs/retry-events).
const redelivery = 10 * time.Minute

// Deploy returns the steps that turn the state into the description, each after those that it
// needs. It changes neither of the two.
//
// New routes may need indexes that are not ready. Then the plan only begins their builds; with wait
// it waits for them, and goes on. The plan deletes surplus triggers, and only notes other surplus;
// with prune it deletes all of it.
//
// It is an error if something could not be read, if something else made a function, trigger or job
// of the same name, if the region lacks a service that it needs, or if no one chose the region for
// databases on several continents. It is also an error if a source that is served now would no
// longer be, unless prune is set.
func (d *Description) Deploy(have *State, prune, wait bool) (Plan, error) {
	if err := d.refuse(have, prune); err != nil {
		return Plan{}, err
	}

	p := d.Repair(have)
	p.lookAtRegions(d, have)
	p.takeSurplus(d, have, prune)
	p.audit(d, have)

	if state := have.Find(Queue, d.Config.Queue).Get("state"); state == "PAUSED" || state == "DISABLED" {
		p.note("the queue of alarms is %s, and stays so: what is deferred, or leaves a window, waits until you resume it, as with\n  %v", state, d.QueueResume())
	}
	if err := d.Config.CheckGrace(); err != nil {
		p.note("%v", err)
	}
	p.noteBuilds(d)
	p.Notes = append(p.Notes, have.Unreached()...)
	if d.silent {
		p.note("no one gets the alerts yet: set alert_email in tally.yaml")
	}

	p.hold(d, have, wait)
	return p, nil
}

// takeSurplus adds the steps that delete what Tally has too much of: with prune all of it, else the
// triggers, because each of their events is billed for nothing. It notes the others.
func (p *Plan) takeSurplus(d *Description, have *State, prune bool) {
	lost, others := d.Surplus(have)
	for _, s := range others.Steps {
		if prune || s.Of == Trigger {
			p.add(s)
		} else {
			p.note("%v. Only --prune does this", s)
		}
	}

	// A source that no route has any more loses its trigger first. The routes change only when the
	// events of that trigger have ended.
	if len(lost.Steps) == 0 {
		return
	}
	lost.add(Step{
		Does:  Pause,
		Of:    Trigger,
		Title: fmt.Sprint("wait ", redelivery.Minutes(), " minutes, until events that failed have been delivered again"),
		wait:  pause(redelivery),
	})
	p.Steps = append(lost.Steps, p.Steps...)
}

// audit has the job call once, after a step that touches functions or triggers: writes that come
// meanwhile may send no event. After a first deployment it calls twice.
func (p *Plan) audit(d *Description, have *State) {
	name := d.Job()
	if have.Find(Job, name).Get("state") == "PAUSED" {
		p.note("the job is paused, and stays so: nothing is audited until you resume it, as with\n  gcloud scheduler jobs resume tally --location=%s --project=%s", d.region(), d.Project)
		return
	}

	touched := slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Of == Function || s.Of == Trigger })
	if !touched {
		return
	}
	audit := Step{
		Does:  Audit,
		Of:    Job,
		Name:  name,
		Title: "audit: what changed without an event is rolled up",
	}
	if len(have.Functions()) > 0 {
		p.add(audit)
		return
	}

	// A new trigger may deliver nothing for some minutes. What changes meanwhile would be drift to
	// the next audit, so there is another one before there is anything that counts or alerts.
	settle := Step{
		Does:  Settle,
		Of:    Job,
		Title: fmt.Sprint("wait ", settling.Minutes(), " minutes, until the new triggers deliver"),
		wait:  pause(settling),
	}
	monitoring := slices.IndexFunc(p.Steps, func(s Step) bool { return s.Of == Metric || s.Of == Alert })
	if monitoring < 0 {
		monitoring = len(p.Steps)
	}
	p.Steps = slices.Insert(p.Steps, monitoring, audit, settle, audit)
}

// settling is how long a new trigger may take until it delivers each event. Google says about two
// minutes: https://cloud.google.com/eventarc/docs/run/create-trigger-cloud-firestore
const settling = 5 * time.Minute
