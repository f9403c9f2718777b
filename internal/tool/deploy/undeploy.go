package deploy

import (
	"context"
	"errors"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/rollup/route"
)

// monitored are the kinds that watch the functions, in the order in which they are deleted.
var monitored = []string{"alert", "dashboard", "metric", "notification channel"}

// mine returns the resources of a kind that tally deploy made, in all regions. Jobs and
// repositories have no list of all regions, so it looks for them where the functions are. If
// regions did not answer, it also returns a Silence.
func (p *Project) mine(ctx context.Context, k *Kind, was *Deployed) (all []Object, err error) {
	project, id := "projects/"+p.ID, "/"+path.Base(k.At)
	collections := []string{project + id}
	switch k.Noun {
	case "function":
		collections, all = nil, slices.Clone(was.Functions)
	case "trigger":
		collections = []string{project + "/locations/-" + id}
	case "job", "repository":
		collections = nil
		for _, region := range was.regions() {
			collections = append(collections, project+"/locations/"+region+id)
		}
	}

	for _, collection := range collections {
		found, unread := p.List(ctx, k.address(collection))
		all = append(all, found...)
		if unread != nil && !p.absent(unread) {
			err = unread
			break
		}
	}
	all = slices.DeleteFunc(all, func(o Object) bool {
		isOurs := made(o) || k.Noun == "metric" && isOurMetric(o.name()) || k.Only != "" && k.keyOf(o) == "Tally"
		return !isOurs
	})
	for _, o := range all {
		k.tidy(o, p.ID)
	}
	return all, err
}

// isOurMetric reports whether monitoring.yaml has the metric. Metrics have no labels.
func isOurMetric(name string) bool {
	name = path.Base(name)
	return strings.Contains(monitoringText, `"metric" (list . "`+name+`"`) || strings.Contains(monitoringText, `/metrics/`+name+`"`)
}

// Undeploy returns the steps that delete the resources that tally deploy made, except indexes and
// the queue. It deletes no document, no rule and no database, and leaves fields, APIs and service
// agents as they are.
func (p *Project) Undeploy(ctx context.Context, was *Deployed) (Plan, error) {
	var plan Plan
	others := slices.ContainsFunc(was.Functions, func(o Object) bool { return !made(o) })
	if others {
		plan.note("functions stay that something else made, such as Terraform, with the metrics and the dashboard that they may use")
	}
	routes, err := route.Parse(was.Env()["TALLY_ROUTES"])
	if err == nil && len(routes.Indexes()) > 0 {
		plan.note("the indexes that the routes needed stay, because queries of your app may use them: Firestore's page of the console lists them")
	}
	const whenItDoes = "%v. Run tally undeploy again when it does, if something of Tally's may be there"
	if was.silence != nil {
		if len(was.Functions) == 0 { // they may be there
			return Plan{}, p.Unreadable("cloudfunctions", "the functions", was.silence)
		}
		plan.note(whenItDoes, was.silence)
	}

	accounts, err := p.mine(ctx, known().Kinds["service account"], was)
	if err != nil {
		return Plan{}, p.Unreadable("iam", "the service accounts", err)
	}
	for _, kind := range []string{"job", "trigger", "repository", "function", "alert", "dashboard", "metric", "log exclusion", "notification channel"} {
		if others && (kind == "metric" || kind == "dashboard") {
			continue
		}
		k := known().Kinds[kind]
		found, err := p.mine(ctx, k, was)
		silence := new(Silence)
		isSilent := errors.As(err, &silence)
		if err != nil && (!isSilent || p.hasDatabaseIn(silence.Regions)) {
			return Plan{}, p.Unreadable(k.api(), "the "+k.Many, err)
		}
		if isSilent {
			plan.note(whenItDoes, silence)
		}
		if kind == "function" && len(found) > 0 && !others {
			if err := p.purge(ctx, &plan, was, accounts); err != nil {
				return Plan{}, err
			}
		}
		for _, o := range found {
			plan.add(p.deletion(k, o))
		}
	}

	if err := p.takeRoles(ctx, &plan, known().Kinds["project"], "projects/"+p.ID, accounts); err != nil {
		return Plan{}, err
	}
	for _, o := range accounts {
		plan.add(p.deletion(known().Kinds["service account"], o))
	}
	return plan, nil
}

// hasDatabaseIn reports whether a database is in one of the regions, where its triggers are.
func (p *Project) hasDatabaseIn(regions []string) bool {
	for _, d := range p.databases {
		if slices.Contains(regions, d.Get("locationId")) {
			return true
		}
	}
	return false
}

// purge takes the queue from the functions, which are deleted next, and deletes its tasks. The
// queue stays, because Cloud Tasks blocks the name of a deleted queue for days:
// https://cloud.google.com/tasks/docs/reference/rest/v2/projects.locations.queues/delete
func (p *Project) purge(ctx context.Context, plan *Plan, was *Deployed, accounts []Object) error {
	k, name := known().Kinds["queue"], was.Env()["TALLY_QUEUE"]
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
	s := &Step{Does: "purge", Of: k.Noun, Name: name, Title: "purge queue tally", takes: true,
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
	s := &Step{Does: "update", Of: k.Noun, Name: on, Title: "change roles on " + k.Noun + " " + path.Base(on), takes: true}
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
