package deploy

import (
	"path"
	"slices"

	"github.com/firestore-tally/tally/rollup/route"
)

// Undeploy returns the steps that delete the resources that Deploy's steps made, except indexes.
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
		if k == Account {
			p.takeRoles(have, mine)
		}
		for _, o := range mine {
			p.remove(k, o)
		}
	}
	p.Notes = append(p.Notes, have.Unreached()...)
	return p, nil
}

// takeRoles takes the project's roles from accounts that are deleted next, because a policy keeps
// the roles of an account that is gone. Roles on other resources go with those.
func (p *Plan) takeRoles(have *State, accounts []Object) {
	project := "projects/" + have.Project
	step := Step{Does: Grants, Of: Project, Name: project, Title: "change roles on " + have.Project}
	for _, g := range have.given[project] {
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
