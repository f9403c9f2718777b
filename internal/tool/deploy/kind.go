package deploy

import (
	"path"
	"strings"
)

// A Kind is a kind of resources that one of Google's APIs has. It says how people call them, how to
// tell one from the others, and how to call gcloud. The file of a kind also has the type of those
// resources that a deployment wants; see Resource.
type Kind interface {
	Noun() string // of one, such as "function"
	All() string  // of all, such as "the functions"

	// Command returns gcloud's command on a resource. verb is create, update, delete, describe, list,
	// or another one of gcloud's for the kind. name is the resource's, as the API has it.
	Command(project, verb, name string, args ...string) Command

	// key returns a text that no other resource of the kind in the project has: most have names
	// that Tally knows, and others have what Tally wrote into them. See State.Find.
	key(o Object) string

	// label returns a resource of a project as people tell it from the others.
	label(o Object) string

	source() Source  // that the resources are read from
	version() string // of that API, in the addresses of its REST interface
}

// kinds are all kinds, each after those that its resources need.
var kinds = []Kind{API, Index, Account, Project, Repository, Cleanup, Field, TTL, Exclusion, Function,
	Service, Trigger, Subscription, Job, Metric, Channel, Alert, Dashboard}

// A common kind has the usual form of gcloud's commands, and its resources are told apart by their
// names. Kinds that differ are built on it.
type common struct {
	noun  string
	all   string // empty: "the" and the noun's plural
	from  Source
	api   string // version of the API
	group string // gcloud's words for the kind
	place string // gcloud's flag for the location of a resource; empty: the kind has none
}

func (k *common) Noun() string { return k.noun }

func (k *common) All() string {
	if k.all != "" {
		return k.all
	}
	return "the " + k.noun + "s"
}

func (k *common) Command(project, verb, name string, args ...string) Command {
	return k.command(verb, path.Base(name), name).in(project).with(args...)
}

// command returns gcloud's command on a resource. The id is an argument of the command; "": there
// is none. The name says the location.
func (k *common) command(verb, id, name string) Command {
	words := strings.Fields(k.group + " " + verb)
	if id != "" {
		words = append(words, id)
	}
	if k.place != "" {
		words = append(words, k.place+"="+segment(name, "locations"))
	}
	return gcloud(words...)
}

func (k *common) key(o Object) string { return o.name() }

func (k *common) label(o Object) string { return path.Base(o.name()) }

func (k *common) source() Source { return k.from }

func (k *common) version() string { return k.api }
