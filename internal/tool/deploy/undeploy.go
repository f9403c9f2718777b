package deploy

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"path"
	"regexp"
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

// isTallys reports whether a function is of Tally, no matter which tool made it.
func isTallys(function Object) bool { return function.Get("labels."+purposeLabel) != "" }

// madeByDeploy reports whether tally deploy made a resource.
func madeByDeploy(o Object) bool {
	isLabeled := o.at([]string{"labels", madeByLabel}) != nil || o.at([]string{"userLabels", madeByLabel}) != nil
	return isLabeled || strings.HasSuffix(o.Get("description"), madeBy)
}

// sources matches a condition that a bucket of functions' sources is in a region.
var sources = regexp.MustCompile(`/buckets/gcf-v2-sources-\d+-([a-z0-9-]+)"`)

// sourcesIn returns the region whose sources a grant lets an account read; "" if it is no such
// grant.
func (g Grant) sourcesIn() string {
	of := sources.FindStringSubmatch(g.If)
	if of == nil {
		return ""
	}
	return of[1]
}

// regions returns the regions in which Tally may have something: those of its functions, and those
// whose sources the build's account may read. A deployment gives that role before it makes anything
// in a region, and only --prune and undeploy take it away.
func (p *Project) regions(ctx context.Context) (all []string, err error) {
	for _, f := range p.Functions {
		all = append(all, segment(f.name(), "locations"))
	}
	k := known().Kinds["project"]
	given, err := p.policy(ctx, k, "projects/"+p.ID)
	if err != nil && !p.isAbsent(err) {
		return nil, p.Unreadable(k.api(), "the "+k.Many, err)
	}
	for _, g := range given.grants() {
		if g.Member == "serviceAccount:"+email(p.ID, buildAccount) && g.sourcesIn() != "" {
			all = append(all, g.sourcesIn())
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(all))), nil
}

// ownResources returns the resources of a kind that tally deploy made. Of those that have no list
// of all regions, these are the ones in the regions.
func (p *Project) ownResources(ctx context.Context, k *Kind, regions []string) (all []Object, err error) {
	collection := "/" + path.Base(k.At)
	collections := []string{collection}
	switch k.Noun {
	case "queue":
		return p.queues(ctx, regions)
	case "function":
		all, collections = slices.Clone(p.Functions), nil
	case "trigger":
		collections = []string{"/locations/-" + collection}
	case "job", "repository":
		collections = nil
		for _, region := range regions {
			collections = append(collections, "/locations/"+region+collection)
		}
	}

	for _, collection := range collections {
		found, err := p.List(ctx, k.address("projects/"+p.ID+collection))
		if err != nil && !p.isAbsent(err) {
			return nil, p.Unreadable(k.api(), "the "+k.Many, err)
		}
		all = append(all, found...)
	}
	all = slices.DeleteFunc(all, func(o Object) bool { return !madeByDeploy(o) })
	for _, o := range all {
		k.tidy(o, p.ID)
	}
	return all, nil
}

// queues returns Tally's queues in the regions, which carry no mark. One stays out whose tasks call
// functions that something else made, such as Terraform.
func (p *Project) queues(ctx context.Context, regions []string) (all []Object, err error) {
	k := known().Kinds["queue"]
	for _, region := range regions {
		isOthers := func(f Object) bool { return segment(f.name(), "locations") == region && !madeByDeploy(f) }
		if slices.ContainsFunc(p.Functions, isOthers) {
			continue
		}
		queue, err := p.find(ctx, k, "projects/"+p.ID+"/locations/"+region+"/queues/tally")
		if err != nil {
			return nil, p.Unreadable(k.api(), "the "+k.Many, err)
		}
		if queue != nil {
			all = append(all, queue)
		}
	}
	return all, nil
}

// deletion returns the step that deletes what the project has.
func (p *Project) deletion(k *Kind, o Object, reasons ...string) *Step {
	s := &Step{Does: "delete", Of: k.Noun, Name: o.name(), Reasons: reasons}
	s.Title = "delete " + k.Noun + " " + path.Base(cmp.Or(k.keyOf(o, p.edition), o.name()))
	s.do = func(ctx context.Context) error { return p.remove(ctx, k, o.name()) }
	return s
}

// monitored are the kinds that watch the functions, in the order in which they are deleted.
var monitored = []string{"alert", "dashboard", "metric", "notification channel"}

// surplus returns the steps that take away what tally deploy made, and the deployment does not want
// any more; with Prune also monitoring that no one asks for.
func (d *Deployment) surplus(ctx context.Context) (all []*Step, err error) {
	if d.planned {
		return nil, nil
	}
	regions, err := d.regions(ctx)
	if err != nil {
		return nil, err
	}
	kinds := []string{"trigger", "job", "queue", "function", "repository"}
	if d.Prune && !d.KeepAlerts && len(d.Alerts) == 0 {
		kinds = append(kinds, monitored...)
	}

	for _, kind := range kinds {
		k := known().Kinds[kind]
		found, err := d.ownResources(ctx, k, regions)
		if err != nil {
			return nil, err
		}
		for _, o := range found {
			isWanted := slices.ContainsFunc(d.Resources, func(r *Resource) bool { return r.kind == k && r.Name == o.name() })
			if isWanted {
				continue
			}
			steps, err := d.unneeded(ctx, k, o)
			if err != nil {
				return nil, err
			}
			all = append(all, steps...)
		}
	}

	isElsewhere := func(g Grant) bool { return g.sourcesIn() != "" && g.sourcesIn() != d.Place() && isOwnGrant(g, d.ID) }
	roles, err := d.takeRoles(ctx, known().Kinds["project"], "projects/"+d.ID, isElsewhere)
	return append(all, roles...), err
}

// unneeded returns the steps that take away a resource of Tally's that the deployment does not
// want.
func (d *Deployment) unneeded(ctx context.Context, k *Kind, o Object) ([]*Step, error) {
	switch {
	case k.Noun == "trigger":
		document, database := filter(o, "document"), filter(o, "database")
		s := d.deletion(k, o, fmt.Sprintf("no route needs events of %s in database %s", document, database))
		s.ofDropped = d.routeOf(document) == nil || !d.hasDatabase(database)
		return []*Step{s}, nil
	case k.Noun == "queue":
		return d.emptyQueue(ctx, o, "nothing needs it in "+segment(o.name(), "locations"))
	case slices.Contains(monitored, k.Noun):
		return []*Step{d.deletion(k, o, "alerts in tally.yaml names no one")}, nil
	}
	return []*Step{d.deletion(k, o, "nothing needs it in "+segment(o.name(), "locations"))}, nil
}

// Undeploy returns the steps that delete the resources that tally deploy made, except indexes and
// the queue. It deletes no document, no rule and no database, and leaves fields, APIs and service
// agents as they are.
func (p *Project) Undeploy(ctx context.Context) (Plan, error) {
	if err := p.checkSilence(); err != nil {
		return Plan{}, err
	}
	regions, err := p.regions(ctx)
	if err != nil {
		return Plan{}, err
	}

	var plan Plan
	kinds := slices.Concat([]string{"job", "trigger", "repository", "queue", "function"}, monitored, []string{"log exclusion", "service account"})
	for _, kind := range kinds {
		k := known().Kinds[kind]
		found, err := p.ownResources(ctx, k, regions)
		if err != nil {
			return Plan{}, err
		}
		if kind == "function" && len(found) < len(p.Functions) {
			plan.note("functions that another tool made, such as Terraform, stay")
		}
		if kind == "service account" { // a policy keeps the roles of an account that is gone
			roles, err := p.takeRoles(ctx, known().Kinds["project"], "projects/"+p.ID, func(g Grant) bool {
				return slices.ContainsFunc(found, func(o Object) bool { return g.Member == "serviceAccount:"+path.Base(o.name()) })
			})
			if err != nil {
				return Plan{}, err
			}
			plan.Steps = append(plan.Steps, roles...)
		}
		for _, o := range found {
			if kind != "queue" {
				plan.add(p.deletion(k, o))
				continue
			}
			steps, err := p.emptyQueue(ctx, o)
			if err != nil {
				return Plan{}, err
			}
			plan.Steps = append(plan.Steps, steps...)
		}
	}
	for _, d := range p.databases {
		if silence := p.silenceOf("eventarc", d.Get("locationId")); silence != nil {
			return Plan{}, p.Unreadable("eventarc", "the triggers", silence)
		}
	}
	plan.tellSilences(p)
	return plan, nil
}

// emptyQueue returns the steps that take a queue from the functions, which are deleted next, and
// delete its tasks: they would call the functions for up to 31 days. The queue stays, because Cloud
// Tasks blocks the name of a deleted queue for days:
// https://cloud.google.com/tasks/docs/reference/rest/v2/projects.locations.queues/delete
func (p *Project) emptyQueue(ctx context.Context, queue Object, reasons ...string) ([]*Step, error) {
	k, name := known().Kinds["queue"], queue.name()
	steps, err := p.takeRoles(ctx, k, name, func(g Grant) bool { return isOwnGrant(g, p.ID) })
	if err != nil {
		return nil, err
	}
	purge := &Step{Does: "purge", Of: k.Noun, Name: name, Title: "purge queue tally"}
	purge.Reasons = append(reasons, "it stays, empty: Cloud Tasks blocks the name of a deleted queue for days, and the names of its tasks for up to 24 hours")
	purge.do = func(ctx context.Context) error {
		return p.Call(ctx, http.MethodPost, k.address(name)+":purge", Object{}, new(Object))
	}
	return append(steps, purge), nil
}

// isOwnGrant reports whether a grant is one of an account that tally deploy makes.
func isOwnGrant(g Grant, project string) bool {
	return strings.HasPrefix(g.Member, "serviceAccount:tally-") && strings.HasSuffix(g.Member, "@"+project+".iam.gserviceaccount.com")
}

// takeRoles returns the step that takes roles on a resource that stays. There is none if no role is
// one of those.
func (p *Project) takeRoles(ctx context.Context, k *Kind, on string, isOne func(Grant) bool) ([]*Step, error) {
	given, err := p.policy(ctx, k, on)
	if err != nil && !p.isAbsent(err) {
		return nil, p.Unreadable(k.api(), "the "+k.Many, err)
	}

	take := slices.DeleteFunc(given.grants(), func(g Grant) bool { return !isOne(g) })
	if len(take) == 0 {
		return nil, nil
	}
	s := &Step{Does: "update", Of: k.Noun, Name: on, Title: "update " + k.Noun + " " + path.Base(on)}
	for _, g := range take {
		s.Reasons = append(s.Reasons, "take "+g.revokedText())
	}
	s.do = func(ctx context.Context) error { return p.change(ctx, k, on, nil, take) }
	return []*Step{s}, nil
}
