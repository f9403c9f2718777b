package deploy

import (
	"path"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/rollup/route"
)

// Undeploy returns the steps that delete the resources that Deploy's steps made, except indexes and
// the queue.
// It deletes no document, no rule and no database, and leaves fields, APIs and service agents as
// they are. It does not change the state.
func Undeploy(have *State) (Plan, error) {
	var p Plan

	others := slices.ContainsFunc(have.have[Function], func(o Object) bool { return ours(o) && !made(o) })
	if others {
		p.note("functions stay that something else made, such as Terraform, with the metrics and the dashboard that they may use")
	}

	routes, err := route.Parse(have.Env()["TALLY_ROUTES"])
	if err == nil && len(routes.Indexes()) > 0 {
		p.note("the indexes that the routes needed stay, because queries of your app may use them: Firestore's page of the console lists them")
	}

	for _, k := range []*Kind{Job, Trigger, Function, Repository, Alert, Dashboard, Metric, Exclusion, Channel, Account} {
		if u := have.Unread[k]; u != nil {
			return Plan{}, u
		}

		mine := slices.DeleteFunc(slices.Clone(have.have[k]), func(o Object) bool {
			return !made(o) && (others || !unmarked(k, o))
		})
		switch {
		case k == Function && len(mine) > 0 && !others:
			p.purge(have)
		case k == Account:
			p.takeRoles(have, "projects/"+have.Project, mine)
		}
		for _, o := range mine {
			p.remove(k, o)
		}
	}
	p.Notes = append(p.Notes, have.Unreached()...)
	return p, nil
}

// purge takes the queue from the functions, which are deleted next, and deletes its tasks. The
// queue stays, because Cloud Tasks blocks the name of a deleted queue for 7 days:
// https://cloud.google.com/tasks/docs/quotas
func (p *Plan) purge(have *State) {
	accounts := slices.DeleteFunc(slices.Clone(have.have[Account]), func(o Object) bool { return !made(o) })
	for _, q := range have.have[Queue] {
		p.takeRoles(have, q.name(), accounts)
		p.add(Step{Does: Purge, Of: Queue, Name: q.name(), Title: "purge queue " + Queue.labelOf(q),
			Reasons: []string{"it stays, empty: Cloud Tasks blocks the name of a deleted queue for 7 days"}})
	}
}

// takeRoles takes the roles on a resource that stays from accounts that are deleted, because a
// policy keeps the roles of an account that is gone. Roles on other resources go with those.
func (p *Plan) takeRoles(have *State, on string, accounts []Object) {
	kind := Project
	if strings.Contains(on, "/queues/") {
		kind = Queue
	}

	step := grants(kind, on)
	for _, g := range have.given[on] {
		isTheirs := func(o Object) bool { return g.Member == "serviceAccount:"+path.Base(o.name()) }
		if slices.ContainsFunc(accounts, isTheirs) {
			step.take = append(step.take, g)
			step.Reasons = append(step.Reasons, "take "+taken(g))
		}
	}
	if len(step.take) > 0 {
		p.add(step)
	}
}
