package deploy

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/rollup/route"
)

// refuse returns why nothing can be planned; see Deploy.
func (d *Description) refuse(have *State, prune bool) error {
	for _, k := range kinds {
		if u := have.Unread[k]; u != nil {
			return u
		}
	}

	lost := d.lost(have)
	if len(lost) > 0 && !prune {
		return fmt.Errorf("the deployed functions serve %s, which would stand still: name that too, or --prune to take it away",
			strings.Join(lost, " and "))
	}

	if err := d.foreign(have); err != nil {
		return err
	}
	if err := d.checkContinents(); err != nil {
		return err
	}
	return d.checkRegion(have)
}

// lost returns the sources that the deployed functions serve and that no route of the description
// has.
func (d *Description) lost(have *State) []string {
	env := have.Env()
	routes, err := route.Parse(env["TALLY_ROUTES"])
	if err != nil {
		return nil
	}

	var lost []string
	for _, r := range routes {
		pattern := r.Pattern().String()
		if d.routeOf(anonymous(pattern)) == nil {
			lost = append(lost, pattern)
		}
	}

	for id := range strings.SplitSeq(env["TALLY_DATABASES"], ",") {
		if id != "" && !d.serves(id) {
			lost = append(lost, "database "+id)
		}
	}
	return lost
}

// routeOf returns the first route whose documents have the anonymous pattern, nil if none has.
func (d *Description) routeOf(pattern string) *route.Route {
	for _, r := range d.Config.Routes {
		if anonymous(r.Pattern().String()) == pattern {
			return r
		}
	}
	return nil
}

// serves reports whether the functions are to serve the database.
func (d *Description) serves(database string) bool {
	return slices.ContainsFunc(d.Databases, func(has Database) bool { return has.ID == database })
}

// foreign refuses to overwrite a function, a trigger or a job that something else made. The job may
// be somebody's own if it calls RollUpOnSchedule.
func (d *Description) foreign(have *State) error {
	var problems []error
	for _, r := range d.Resources {
		if r.Kind != Function && r.Kind != Trigger && r.Kind != Job {
			continue
		}

		h := have.Find(r.Kind, r.Name)
		if h == nil || made(h) {
			continue
		}

		callsUs := r.Kind == Job && strings.TrimSuffix(h.Get("httpTarget.uri"), "/") == d.uri(have)
		if callsUs {
			continue
		}

		problems = append(problems, fmt.Errorf("%s %s in %s was not made by tally deploy: go on with what made it, such as Terraform, or delete it first",
			r.Kind.Noun, path.Base(r.Name), segment(r.Name, "locations")))
	}
	return errors.Join(problems...)
}
