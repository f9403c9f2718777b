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

// A surplus is something that calls the functions, or was made for them, and that the deployment
// does not want.
type surplus struct {
	*Step
	lost bool // a trigger of documents that no route has: the functions may change only when its events have ended
}

// Surplus returns the steps that delete what Tally has too much of. Jobs are looked for where the
// functions are, or were. If regions did not answer, it also returns a Silence.
func (d *Deployment) Surplus(ctx context.Context) (all []surplus, err error) {
	if d.planned {
		return nil, nil
	}
	add := func(kind string, o Object, why string) {
		isWanted := slices.ContainsFunc(d.Resources, func(r *Resource) bool { return r.kind.Noun == kind && r.Name == o.name() })
		if why != "" && !isWanted {
			all = append(all, surplus{d.deletion(known().Kinds[kind], o, why), kind == "trigger" && d.losesDocuments(o)})
		}
	}

	triggers, err := d.List(ctx, "eventarc.googleapis.com/v1/projects/"+d.ID+"/locations/-/triggers")
	silence := new(Silence)
	if err != nil && !errors.As(err, &silence) && !d.absent(err) {
		return nil, d.Unreadable("eventarc", "the triggers", err)
	}
	for _, o := range triggers {
		tidyTrigger(o)
		add("trigger", o, d.whySurplus(o))
	}

	regions := append(d.Was.regions(), d.region())
	slices.Sort(regions)
	for _, region := range slices.Compact(regions) {
		jobs, err := d.List(ctx, "cloudscheduler.googleapis.com/v1/projects/"+d.ID+"/locations/"+region+"/jobs")
		if err != nil && !d.absent(err) {
			return nil, d.Unreadable("cloudscheduler", "the jobs", err)
		}
		for _, o := range jobs {
			add("job", o, d.whySurplusJob(o))
		}
	}
	for _, f := range d.Was.Functions {
		add("function", f, d.elsewhereThan(f))
	}
	for _, region := range d.Was.regions() {
		repository, err := d.find(ctx, known().Kinds["repository"], d.in(region, "repositories", "tally"))
		if err != nil {
			return nil, d.Unreadable("artifactregistry", "the repositories", err)
		}
		if made(repository) {
			add("repository", repository, d.elsewhereThan(repository))
		}
	}
	if len(silence.Regions) > 0 {
		return all, silence
	}
	return all, nil
}

// elsewhereThan says that a resource is in another region than the functions; "" if it is not.
func (d *Deployment) elsewhereThan(o Object) string {
	region := segment(o.name(), "locations")
	if region == d.region() {
		return ""
	}
	return fmt.Sprintf("it is in %s, and the functions are not", region)
}

// whySurplusJob returns why a job is too much; "" if it does not belong to Tally.
func (d *Deployment) whySurplusJob(job Object) string {
	for _, f := range d.Was.Functions {
		uri := f.Get("serviceConfig.uri")
		calls := path.Base(f.name()) == OnScheduleName && uri != "" && strings.HasPrefix(job.Get("httpTarget.uri"), uri)
		if calls && d.elsewhereThan(f) == "" {
			return "it calls RollUpOnSchedule too, and each call is billed"
		}
	}
	if made(job) {
		return d.elsewhereThan(job)
	}
	return ""
}

// losesDocuments reports whether no route has the documents of a trigger that calls RollUpOnWrite.
func (d *Deployment) losesDocuments(trigger Object) bool {
	database, pattern := filter(trigger, "database"), filter(trigger, "document")
	return callsOnWrite(trigger) && (d.routeOf(pattern) == nil || !d.serves(database))
}

// whySurplus returns why a trigger is too much that the deployment does not want; "" if it does not
// call RollUpOnWrite.
func (d *Deployment) whySurplus(trigger Object) string {
	database, pattern := filter(trigger, "database"), filter(trigger, "document")
	switch {
	case !callsOnWrite(trigger):
		return ""
	case d.losesDocuments(trigger):
		return fmt.Sprintf("no route has the documents %s of database %s", pattern, database)
	}
	t := d.routeOf(pattern).Template
	if t.Scheduled() {
		return fmt.Sprintf("the schedule keeps %s every %v, and each event is billed for nothing", pattern, t.Every)
	}
	return fmt.Sprintf("another has the documents %s of database %s, and their events come twice", pattern, database)
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
	all, err := d.Surplus(ctx)
	silence := new(Silence)
	if errors.As(err, &silence) {
		p.note("%v. Triggers that Tally may have there stay as they are", silence)
	} else if err != nil {
		return err
	}
	watching, err := d.unwatched(ctx, prune)
	if err != nil {
		return err
	}

	// A source that no route has any more loses its trigger first. The routes change only when the
	// events of that trigger have ended.
	var lost []*Step
	for _, s := range append(all, watching...) {
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

// unwatched returns, with prune, the steps that delete monitoring that is not wanted any more.
func (d *Deployment) unwatched(ctx context.Context, prune bool) (all []surplus, err error) {
	if d.planned || !prune || d.KeepAlerts || len(d.Alerts) > 0 {
		return nil, nil
	}
	for _, kind := range monitored {
		found, err := d.mine(ctx, known().Kinds[kind])
		if err != nil {
			return nil, err
		}
		for _, o := range found {
			all = append(all, surplus{Step: d.deletion(known().Kinds[kind], o, "alerts in tally.yaml names no one")})
		}
	}
	return all, nil
}
