package deploy

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// A Resource is one thing that a deployment wants to be there, with its settings. Each kind has a
// type of its own. Nothing changes a Resource once it is described.
type Resource interface {
	Kind() Kind
	Name() string // as the API has it, such as "projects/p/locations/us-central1/jobs/tally"
	Settings() []Setting

	// label returns the resource as people tell it from the others of its kind.
	label() string

	// absent returns the resource as it first appears, if nobody has to create it: a trigger makes
	// its subscription, and each field has the database's default. It returns nil if the resource
	// must be created.
	absent() Object

	// renewal returns why the resource that the project has must be deleted and made anew, although
	// its settings may be right; nil if it may stay.
	renewal(have Object) []string

	create() Command
	update(have Object, changes []Change) Command

	// exists returns the command that prints something if the resource is there; nil if it may be
	// created twice.
	exists() *Command

	// terraform adds the resource to a configuration of Terraform's.
	terraform(t *terraform)
}

// A wanted is the part that all types of resources are built on. By itself it is a resource that
// must be created, that is changed rather than made anew, and that has the commands of its kind.
type wanted struct {
	kind     Kind
	project  string
	name     string
	settings []Setting
}

// want returns a resource of the description's project.
func (d *Description) want(k Kind, name string, settings ...Setting) wanted {
	return wanted{k, d.Project, name, settings}
}

func (w *wanted) Kind() Kind { return w.kind }

func (w *wanted) Name() string { return w.name }

func (w *wanted) Settings() []Setting { return w.settings }

func (w *wanted) label() string { return path.Base(w.name) }

func (w *wanted) absent() Object { return nil }

func (w *wanted) renewal(Object) []string { return nil }

func (w *wanted) create() Command {
	return w.kind.Command(w.project, "create", w.name, w.creating()...)
}

func (w *wanted) update(have Object, changes []Change) Command {
	return w.kind.Command(w.project, "update", cmp.Or(have.name(), w.name), w.changing(changes)...)
}

func (w *wanted) exists() *Command {
	c := w.kind.Command(w.project, "describe", w.name, "--format=value(name)")
	return &c
}

// listed returns the command that prints the names of the resources for which the filter is true.
func (w *wanted) listed(filter string) *Command {
	c := w.kind.Command(w.project, "list", "", "--filter="+filter, "--format=value(name)")
	return &c
}

// creating returns the arguments that give a new resource all its settings.
func (w *wanted) creating() []string {
	var args []string
	for _, s := range w.settings {
		says := s.Path == "" || s.Want != "" // a new resource has nothing that could be taken away
		if s.Arg != "" && says {
			args = append(args, s.Arg)
		}
	}
	return join(args)
}

// changing returns the arguments that make the changes.
func (w *wanted) changing(changes []Change) []string {
	var args []string
	for _, s := range w.settings {
		changed := slices.ContainsFunc(changes, func(c Change) bool { return c.Path == s.Path })
		if s.Arg != "" && (s.Always || changed) {
			args = append(args, updating.Replace(s.Arg))
		}
	}
	return join(args)
}

// updating replaces flags that have other names in updates.
var updating = strings.NewReplacer("--labels=", "--update-labels=", "--user-labels=", "--update-user-labels=",
	"--notification-channels=", "--set-notification-channels=", "--add-exclusion=", "--update-exclusion=")

// pairs are flags that a command may have only once. Their values are lists of pairs or of names.
var pairs = []string{"--update-env-vars", "--update-labels", "--labels", "--user-labels", "--update-user-labels", "--channel-labels",
	"--event-filters", "--event-filters-path-pattern", "--remove-env-vars",
	"--add-exclusion", "--update-exclusion"}

// join returns the arguments, each once, and with the pairs of one flag together.
func join(args []string) []string {
	var joined []string
	values := make(map[string][]string)
	for _, a := range args {
		flag, value, _ := strings.Cut(a, "=")
		if slices.Contains(pairs, flag) {
			values[flag] = append(values[flag], value)
			a = flag
		}
		if !slices.Contains(joined, a) {
			joined = append(joined, a)
		}
	}

	for i, flag := range joined {
		if values[flag] != nil {
			joined[i] = flag + "=" + dict(values[flag])
		}
	}
	return joined
}
