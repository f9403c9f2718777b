package deploy

import (
	"path"
	"slices"
)

// Mend returns the commands that turn the state into the description. It leaves out resources that
// could not be read, and what Tally has too much of.
func (d *Description) Mend(have *State) Plan {
	var p Plan
	p.enable(d, have)

	for _, k := range kinds {
		if have.Unread[k] != nil {
			continue
		}

		for i := range d.Resources {
			r := &d.Resources[i]
			if r.Kind == k {
				p.resource(d.Project, r, have)
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

// resource adds the steps that make the resource, or change it.
func (p *Plan) resource(project string, r *Resource, have *State) {
	h := have.Find(r.Kind, r.Name)
	if r.Kind == Subscription && p.has(Delete, Trigger, r.of) {
		r, h = r.renewed(), r.missing // it goes with its trigger
	}

	changes := r.differs(h)
	var reasons []string
	for _, c := range changes {
		reasons = append(reasons, c.String())
	}
	anew := r.whyAnew(h)
	reasons = append(reasons, anew...)

	fixed := slices.ContainsFunc(changes, func(c Change) bool { return c.Fixed })
	if h != nil && (fixed || len(anew) > 0) {
		p.remove(project, r.Kind, h, reasons...)
		h = nil
	}

	switch {
	case h == nil:
		p.add(Step{
			Does:    Create,
			Of:      r.Kind,
			Name:    r.Name,
			Title:   "create " + r.Noun + " " + r.label(),
			Command: r.command(project, nil, nil),
			Exists:  r.exists(project),
			Again:   true,
		})

	case len(changes) > 0:
		p.add(Step{
			Does:    Update,
			Of:      r.Kind,
			Name:    r.Name,
			Title:   "update " + r.Noun + " " + r.label(),
			Reasons: reasons,
			Command: r.command(project, h, changes),
			Again:   r.input == "", // an input can be read only once
		})
	}
}

// remove adds the step that deletes what the project has.
func (p *Plan) remove(project string, k *Kind, o Object, reasons ...string) {
	label := path.Base(o.name())
	if k.key != nil {
		label = k.key(o)
	}
	if k == Index {
		label = indexLabel(o)
	}

	p.add(Step{
		Does:    Delete,
		Of:      k,
		Name:    o.name(),
		Title:   "delete " + k.Noun + " " + label,
		Reasons: reasons,
		Command: k.Command(project, k.remove, o.name()),
	})
}
