package deploy

import (
	"path"
	"slices"
)

// Mend returns the steps after which the project has all that the description wants. It leaves out
// kinds that could not be read. It deletes a resource only to make it anew; Surplus has those that
// the description does not want.
func (d *Description) Mend(have *State) Plan {
	var p Plan
	p.enable(d, have)

	for _, k := range kinds {
		if have.Unread[k] != nil {
			continue
		}

		for _, r := range d.Resources {
			if r.Kind() == k {
				p.mend(r, have)
			}
		}
		p.grants(d, k, have)
	}
	return p
}

// enable adds the step that enables the APIs that are not.
func (p *Plan) enable(d *Description, have *State) {
	enabled := func(api string) bool {
		return slices.ContainsFunc(have.have[API], func(o Object) bool { return path.Base(o.name()) == api })
	}
	missing := slices.DeleteFunc(slices.Clone(d.APIs), enabled)
	if len(missing) == 0 {
		return
	}

	args := append([]string{"services", "enable"}, missing...)
	p.add(Step{
		Does:    Enable,
		Of:      API,
		Title:   "enable APIs",
		Reasons: missing,
		Command: gcloud(args...).in(d.Project),
	})
}

// mend adds the steps that make the resource, or change it.
func (p *Plan) mend(r Resource, have *State) {
	h := have.Find(r.Kind(), r.Name())
	s, ok := r.(*subscription)
	if ok && p.has(Delete, Trigger, s.trigger) {
		r, h = s.renamed(), nil // the old subscription is deleted with its trigger
	}
	if h == nil {
		h = r.absent()
	}

	changes := differences(r.Settings(), h)
	anew := r.renewal(h)
	reasons := why(changes, anew)

	fixed := slices.ContainsFunc(changes, func(c Change) bool { return c.Fixed })
	if h != nil && (fixed || len(anew) > 0) {
		p.remove(have.Project, r.Kind(), h, reasons...)
		h = nil
	}

	switch {
	case h == nil:
		p.create(r)
	case len(changes) > 0:
		p.update(r, h, changes, reasons)
	}
}

// why returns the reasons for a change, in words.
func why(changes []Change, anew []string) []string {
	var reasons []string
	for _, c := range changes {
		reasons = append(reasons, c.String())
	}
	return append(reasons, anew...)
}

// create adds the step that makes the resource.
func (p *Plan) create(r Resource) {
	command := r.create()
	p.add(Step{
		Does:    Create,
		Of:      r.Kind(),
		Name:    r.Name(),
		Title:   "create " + r.Kind().Noun() + " " + r.label(),
		Command: command,
		Exists:  r.exists(),
		Again:   command.repeatable(),
	})
}

// update adds the step that changes what the project has.
func (p *Plan) update(r Resource, have Object, changes []Change, reasons []string) {
	command := r.update(have, changes)
	p.add(Step{
		Does:    Update,
		Of:      r.Kind(),
		Name:    r.Name(),
		Title:   "update " + r.Kind().Noun() + " " + r.label(),
		Reasons: reasons,
		Command: command,
		Again:   command.repeatable(),
	})
}

// remove adds the step that deletes what the project has.
func (p *Plan) remove(project string, k Kind, o Object, reasons ...string) {
	p.add(Step{
		Does:    Delete,
		Of:      k,
		Name:    o.name(),
		Title:   "delete " + k.Noun() + " " + k.label(o),
		Reasons: reasons,
		Command: k.Command(project, "delete", o.name()),
	})
}
