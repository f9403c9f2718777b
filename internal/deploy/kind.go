package deploy

import (
	"path"
	"strings"
)

// A Kind is a kind of resources that one of Google's APIs has. It says how people call them, how one
// is told from the others, and how gcloud is called. Each kind has a file of its own, beside the type
// of those resources that a deployment wants; see Resource.
type Kind interface {
	Noun() string // of one, such as "function"
	All() string  // of all, such as "the functions"

	// Command returns gcloud's command on a resource. verb is create, update, delete, describe, list,
	// or another one of gcloud's for the kind. name is the resource's, as the API has it.
	Command(project, verb, name string, args ...string) Command

	// key returns what tells a resource of a project from all others of its kind; see State.Find.
	key(o Object) string

	// label returns a resource of a project as people tell it from the others.
	label(o Object) string

	source() Source  // that the resources are read from
	version() string // of that API, in the addresses of its REST interface
}

// Kinds in the order in which each finds what it needs.
var kinds = []Kind{API, Index, Account, Project, Repository, Cleanup, Field, TTL, Exclusion, Function,
	Service, Trigger, Subscription, Job, Metric, Channel, Alert, Dashboard}

// A common kind is called by gcloud as most are. Its resources are told apart by their names. Other
// kinds are built on it.
type common struct {
	noun  string
	all   string // empty: "the" and the noun's plural
	from  Source
	api   string // version of the API
	group string // gcloud's words for the kind
	place string // gcloud's flag of where a resource is; empty: it is nowhere
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

// command returns the command on a resource that gcloud calls by the id; "" if it calls it by none.
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
