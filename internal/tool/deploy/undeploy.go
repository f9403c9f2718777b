package deploy

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
)

// How Tally marks its resources: by labels, or if a resource can have none, by its description.
const (
	purposeLabel = "tally"                // of functions: their purpose
	sourceLabel  = "tally-source"         // of functions: which source they are built from
	madeByLabel  = "tally-deploy"         // which tool made it
	madeBy       = "Made by tally deploy" // ends a description
)

// ours reports whether a function is of Tally, no matter which tool made it.
func ours(function Object) bool { return function.Get("labels."+purposeLabel) != "" }

// made reports whether tally deploy made a resource.
func made(o Object) bool {
	isLabeled := o.at([]string{"labels", madeByLabel}) != nil || o.at([]string{"userLabels", madeByLabel}) != nil
	return isLabeled || strings.HasSuffix(o.Get("description"), madeBy)
}

// mine returns the resources of a kind that tally deploy made, in all regions. Jobs and
// repositories have no list of all regions, so mine looks for them where the functions are.
func (p *Project) mine(ctx context.Context, k *Kind) (all []Object, err error) {
	collection := "/" + path.Base(k.At)
	var collections []string
	switch k.Noun {
	case "function":
		all = slices.Clone(p.Functions)
	case "trigger":
		collections = []string{"/locations/-" + collection}
	case "job", "repository":
		for _, f := range p.Functions {
			collections = append(collections, "/locations/"+segment(f.name(), "locations")+collection)
		}
	default:
		collections = []string{collection}
	}

	for _, collection := range slices.Compact(slices.Sorted(slices.Values(collections))) {
		found, err := p.List(ctx, k.address("projects/"+p.ID+collection))
		if err != nil && !p.absent(err) {
			return nil, p.Unreadable(k.api(), "the "+k.Many, err)
		}
		all = append(all, found...)
	}
	all = slices.DeleteFunc(all, func(o Object) bool { return !made(o) })
	for _, o := range all {
		k.tidy(o, p.ID)
	}
	return all, nil
}

// deletion returns the step that deletes what the project has.
func (p *Project) deletion(k *Kind, o Object, reasons ...string) *Step {
	s := &Step{Does: "delete", Of: k.Noun, Name: o.name(), Reasons: reasons}
	s.Title = "delete " + k.Noun + " " + path.Base(cmp.Or(k.keyOf(o), o.name()))
	s.do = func(ctx context.Context) error { return p.remove(ctx, k, o.name()) }
	return s
}

// monitored are the kinds that watch the functions, in the order in which they are deleted.
var monitored = []string{"alert", "dashboard", "metric", "notification channel"}

// surplus returns the steps that delete what tally deploy made, and the deployment does not want
// any more; with Prune also monitoring that no one asks for.
func (d *Deployment) surplus(ctx context.Context) (all []*Step, err error) {
	if d.planned {
		return nil, nil
	}
	kinds := []string{"trigger", "job", "function", "repository"}
	if d.Prune && !d.KeepAlerts && len(d.Alerts) == 0 {
		kinds = append(kinds, monitored...)
	}

	for _, kind := range kinds {
		k := known().Kinds[kind]
		found, err := d.mine(ctx, k)
		if err != nil {
			return nil, err
		}
		for _, o := range found {
			isWanted := slices.ContainsFunc(d.Resources, func(r *Resource) bool { return r.kind == k && r.Name == o.name() })
			if !isWanted {
				all = append(all, d.unneeded(k, o))
			}
		}
	}
	return all, nil
}

// unneeded returns the step that deletes a resource of Tally's that the deployment does not want.
func (d *Deployment) unneeded(k *Kind, o Object) *Step {
	if k.Noun == "trigger" {
		document, database := filter(o, "document"), filter(o, "database")
		s := d.deletion(k, o, fmt.Sprintf("no route needs events of %s in database %s", document, database))
		s.lost = d.routeOf(document) == nil || !d.serves(database)
		return s
	}
	if slices.Contains(monitored, k.Noun) {
		return d.deletion(k, o, "alerts in tally.yaml names no one")
	}
	return d.deletion(k, o, "nothing needs it in "+segment(o.name(), "locations"))
}

// Undeploy returns the steps that delete the resources that tally deploy made, except indexes and
// the queue. It deletes no document, no rule and no database, and leaves fields, APIs and service
// agents as they are.
func (p *Project) Undeploy(ctx context.Context) (Plan, error) {
	if err := p.noneUnseen(); err != nil {
		return Plan{}, err
	}
	accounts, err := p.mine(ctx, known().Kinds["service account"])
	if err != nil {
		return Plan{}, err
	}

	var plan Plan
	for _, kind := range slices.Concat([]string{"job", "trigger", "repository", "function"}, monitored, []string{"log exclusion"}) {
		k := known().Kinds[kind]
		found, err := p.mine(ctx, k)
		if err != nil {
			return Plan{}, err
		}
		isLast := kind == "function" && len(found) > 0 && len(found) == len(p.Functions)
		if isLast {
			if err := p.purge(ctx, &plan, accounts); err != nil {
				return Plan{}, err
			}
		}
		for _, o := range found {
			plan.add(p.deletion(k, o))
		}
		if kind == "function" && len(found) < len(p.Functions) {
			plan.note("functions stay that something else made, such as Terraform")
		}
	}
	for _, d := range p.databases {
		if silence := p.silent("eventarc", d.Get("locationId")); silence != nil {
			return Plan{}, p.Unreadable("eventarc", "the triggers", silence)
		}
	}

	if err := p.takeRoles(ctx, &plan, known().Kinds["project"], "projects/"+p.ID, accounts); err != nil {
		return Plan{}, err
	}
	for _, o := range accounts {
		plan.add(p.deletion(known().Kinds["service account"], o))
	}
	plan.tellSilences(p)
	return plan, nil
}

// purge takes the queue from the functions, which are deleted next, and deletes its tasks. The
// queue stays, because Cloud Tasks blocks the name of a deleted queue for days:
// https://cloud.google.com/tasks/docs/reference/rest/v2/projects.locations.queues/delete
func (p *Project) purge(ctx context.Context, plan *Plan, accounts []Object) error {
	k, name := known().Kinds["queue"], p.Variables()["TALLY_QUEUE"]
	isTallys := strings.HasPrefix(name, "projects/"+p.ID+"/") && path.Base(name) == "tally"
	if !isTallys {
		return nil
	}
	queue, err := p.find(ctx, k, name)
	if err != nil {
		return p.Unreadable("cloudtasks", "the queues", err)
	}
	if queue == nil {
		return nil
	}

	if err := p.takeRoles(ctx, plan, k, name, accounts); err != nil {
		return err
	}
	s := &Step{Does: "purge", Of: k.Noun, Name: name, Title: "purge queue tally",
		Reasons: []string{"it stays, empty: Cloud Tasks blocks the name of a deleted queue for days, and the names of its tasks for up to 24 hours"}}
	s.do = func(ctx context.Context) error {
		return p.Call(ctx, http.MethodPost, k.address(name)+":purge", Object{}, new(Object))
	}
	plan.add(s)
	return nil
}

// takeRoles takes the roles on a resource that stays from accounts that are deleted, because a
// policy keeps the roles of an account that is gone. Roles on other resources go with those.
func (p *Project) takeRoles(ctx context.Context, plan *Plan, k *Kind, on string, accounts []Object) error {
	given, err := p.policy(ctx, k, on)
	if err != nil && !p.absent(err) {
		return p.Unreadable(k.api(), "the "+k.Many, err)
	}

	var take []Grant
	s := &Step{Does: "update", Of: k.Noun, Name: on, Title: "update " + k.Noun + " " + path.Base(on)}
	for _, g := range given.grants() {
		isTheirs := func(o Object) bool { return g.Member == "serviceAccount:"+path.Base(o.name()) }
		if slices.ContainsFunc(accounts, isTheirs) {
			take = append(take, g)
			s.Reasons = append(s.Reasons, "take "+g.taken())
		}
	}
	s.do = func(ctx context.Context) error { return p.change(ctx, k, on, nil, take) }
	if len(take) > 0 {
		plan.add(s)
	}
	return nil
}
