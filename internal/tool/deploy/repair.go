package deploy

import (
	"fmt"
	"path"
	"slices"
	"time"
)

// Repair returns the steps after which the project has all that the description wants. It leaves
// out kinds that could not be read. It deletes a resource only to make it once more; Surplus has
// those that the description does not want.
func (d *Description) Repair(have *State) Plan {
	var p Plan
	p.enable(d, have)
	for _, r := range d.Resources {
		if r.Kind == API || have.Unread[r.Kind] != nil {
			continue
		}
		if r.Kind != Project {
			p.repair(d, r, have)
		}
		p.access(r, have)
	}
	return p
}

// enable adds the step that enables the APIs that are not.
func (p *Plan) enable(d *Description, have *State) {
	var missing []string
	for _, r := range d.of(API) {
		if !have.enabled(path.Base(r.Name)) {
			missing = append(missing, path.Base(r.Name))
		}
	}
	if len(missing) > 0 && have.Unread[API] == nil {
		p.add(Step{Does: Enable, Of: API, Title: "enable APIs", Reasons: missing})
	}
}

// enabled reports whether an API is enabled.
func (s *State) enabled(api string) bool {
	return slices.ContainsFunc(s.have[API], func(o Object) bool { return path.Base(o.name()) == api })
}

// repair adds the steps that make the resource, or change it.
func (p *Plan) repair(d *Description, r *Resource, have *State) {
	h := have.Find(r.Kind, r.Name)
	if p.remakes(r) { // the old subscription is deleted with its trigger
		r, h = r.unfilled, nil
	}
	if h == nil {
		h = r.Kind.absent
	}

	changes := r.differences(h)
	reasons := d.whyReplace(r, h, have)
	fixed := slices.ContainsFunc(changes, func(c Change) bool { return slices.Contains(r.Kind.fixed, c.at[0]) })
	if h != nil && (fixed || len(reasons) > 0) {
		p.add(Step{Does: Delete, Of: r.Kind, Name: r.at(h), Title: "delete " + r.Kind.Noun + " " + r.Kind.labelOf(h),
			Changes: changes, Reasons: reasons})
		h = nil
	}

	step := Step{Of: r.Kind, Name: readable(r.Name), Why: r.Why(""), resource: r}
	title := " " + r.Kind.Noun + " " + r.label()
	switch {
	case h == nil:
		step.Does, step.Title, step.Want = Create, "create"+title, r.shown()
		p.add(step)
	case len(changes) > 0:
		step.Does, step.Title, step.Changes = Update, "update"+title, changes
		p.add(step)
	}
}

// remakes reports whether the plan deletes the trigger whose subscription the resource is.
func (p *Plan) remakes(r *Resource) bool {
	if r.Kind != Subscription {
		return false
	}
	of, isRef := parseRef(r.unfilled.Name)
	return isRef && p.has(Delete, Trigger, of.name)
}

// shown returns what is created as people may see it: without secrets.
func (r *Resource) shown() Object {
	body, _ := merged(nil, merged(nil, nil, r.Once), r.Want).(Object)
	variables, _ := asObject(body["serviceConfig"])["environmentVariables"].(Object)
	for name := range variables {
		if secret(name) {
			variables[name] = notShown
		}
	}
	return inWords(body).(Object)
}

// inWords replaces the refs in a value by words.
func inWords(v any) any {
	switch v := v.(type) {
	case string:
		return readable(v)
	case []any:
		all := make([]any, 0, len(v))
		for _, element := range v {
			all = append(all, inWords(element))
		}
		return all
	case Object:
		all := make(Object, len(v))
		for name, value := range v {
			all[name] = inWords(value)
		}
		return all
	}
	return v
}

// grants returns a step that changes no role yet.
func grants(on *Kind, name string) Step {
	return Step{Does: Grants, Of: on, Name: name, Title: "change roles on " + on.Noun + " " + path.Base(name)}
}

// access adds the step that gives the roles on a resource that are missing. It takes away roles
// that are given to everybody, and wanted roles that are given on another condition.
func (p *Plan) access(r *Resource, have *State) {
	if len(r.Grants) == 0 {
		return
	}

	step := grants(r.Kind, r.Name)
	given := have.given[r.Name]
	for _, g := range r.Grants {
		if !slices.Contains(given, g) {
			step.give = append(step.give, g)
			step.Reasons = append(step.Reasons, "give "+g.String())
		}
	}
	for _, g := range given {
		if r.unwanted(g) {
			step.take = append(step.take, g)
			step.Reasons = append(step.Reasons, "take "+taken(g))
		}
	}
	if len(step.Reasons) > 0 {
		p.add(step)
	}
}

// unwanted reports whether a role that is given must be taken away.
func (r *Resource) unwanted(g Grant) bool {
	if slices.Contains(r.Grants, g) {
		return false
	}
	public := r.Kind != Project && (g.Member == "allUsers" || g.Member == "allAuthenticatedUsers")
	otherwise := slices.ContainsFunc(r.Grants, func(w Grant) bool { return w.Role == g.Role && w.Member == g.Member })
	return public || otherwise
}

// taken returns a grant that is taken away in words.
func taken(g Grant) string {
	return fmt.Sprintf("%s from %s (condition: %s)", g.Role, short(g.Member), orNone(g.If))
}

// whyReplace returns why the resource that the project has must be deleted and made once more,
// although its settings may be right; nil if it may stay.
func (d *Description) whyReplace(r *Resource, h Object, have *State) (reasons []string) {
	switch {
	case h == nil:
		return nil
	case r.Kind == Index && h.Get("state") == indexBroken:
		return []string{"its build failed, and it never becomes ready"}
	case r.Kind != Trigger:
		return nil
	}

	// Triggers that are made on the console's page of Cloud Run have one attempt:
	// https://docs.cloud.google.com/functions/docs/writing/retries
	attempts := h.Get("retryPolicy.maxAttempts")
	if attempts != "" && attempts != "0" {
		reasons = append(reasons, "retryPolicy.maxAttempts: "+attempts+", want none: its retries are off, so an event that fails is lost with all that it stands for")
	}

	// Neither the trigger nor its events name the database's uid, so the times decide:
	// https://cloud.google.com/firestore/docs/eventarc#limitations
	database := filter(r.Want, "database")
	since := have.Databases[database].Get("createTime")
	if before(h.Get("createTime"), since) {
		reasons = append(reasons, "it is older than the database "+database+", which was deleted and made again under its id at "+since+": it delivers nothing")
	}

	problem := d.pushesElsewhere(h, have)
	if problem != "" {
		reasons = append(reasons, problem)
	}
	return reasons
}

// before reports whether a time is before another, as APIs write times. It reports false if either
// is no time.
func before(a, b string) bool {
	first, err := time.Parse(time.RFC3339, a)
	if err != nil {
		return false
	}
	second, err := time.Parse(time.RFC3339, b)
	return err == nil && first.Before(second)
}
