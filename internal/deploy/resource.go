package deploy

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/firestore-tally/tally/rollup"
)

// A Resource is one thing that a deployment consists of: a resource of one of Google's APIs, with
// what is to be said of it.
type Resource struct {
	*Kind
	Name     string // as the API has it, such as "projects/p/locations/us-central1/jobs/tally"
	Settings []Setting

	Content Object // all that it has, if one argument says all of it

	index rollup.Index // of an index: what it is
	of    string       // of a subscription: the name of its trigger
	anew  []string     // why it is made anew, whatever its settings
	input string       // of its commands

	// lookup is a command whose output stands in arguments where Placeholder does.
	lookup *Command
}

// whyAnew returns why the resource must be made anew, whatever its settings.
func (r *Resource) whyAnew(have Object) []string {
	if r.Kind == Index && have.Get("state") == indexBroken {
		return []string{"its build failed, and it never becomes ready"}
	}
	return r.anew
}

// renewed returns a subscription as it is when its trigger has been made anew: under a name that
// Eventarc will give.
func (r *Resource) renewed() *Resource {
	renewed := *r
	renewed.Name = Placeholder + r.of
	return &renewed
}

// A Setting is one field of a resource.
type Setting struct {
	// Path is where the API has it, in JSON: "serviceConfig.timeoutSeconds". A number is an index
	// in a list, and # the list's length. Empty: it is said of what is new, and not compared.
	Path string

	Want string // without quotes; empty, 0 and false may also be absent
	Arg  string // gcloud's argument that sets it; empty: none does

	Fixed  bool // the API cannot change it: the resource is made anew
	Always bool // every update says it
}

// A Kind is a kind of resources, and how gcloud calls them.
type Kind struct {
	Noun   string // such as "function"
	many   string // how all of them are called; empty: "the" and the noun's plural
	group  string // gcloud's words for it
	create string // the verb, with any words before the id; empty: it appears with another resource
	update string
	remove string
	place  string   // flag of where it is; empty: it is nowhere
	always []string // arguments of create and update

	// key tells resources apart, if not by their names; see State.Find.
	key func(Object) string

	// missing stands for a resource that does not exist yet, but will appear together with another.
	missing Object

	terraform string // type; empty: it has none
	api       Source // that it is read from
	version   string // of the API, in the addresses of its REST interface
	list      string // the collection of a project's resources; empty: they are read otherwise
}

// Kinds of resources, in the order in which each finds what it needs.
var (
	API     = &Kind{Noun: "API", api: servicesAPI, version: "v1", list: "services?filter=state:ENABLED"}
	Account = &Kind{Noun: "service account", terraform: "google_service_account",
		api: accountsAPI, version: "v1", list: "serviceAccounts",
		group: "iam service-accounts", create: "create", update: "update", remove: "delete"}
	Project    = &Kind{Noun: "project", many: "the project", api: projectsAPI, version: "v3", group: "projects"}
	Repository = &Kind{Noun: "repository", many: "the repositories", terraform: "google_artifact_registry_repository",
		api: repositoriesAPI, version: "v1",
		group: "artifacts repositories", create: "create", remove: "delete", place: "--location"}
	Cleanup = &Kind{Noun: "clean-up of repository", many: "the repositories", terraform: "google_artifact_registry_repository",
		api: repositoriesAPI, version: "v1", missing: Object{},
		group: "artifacts repositories", update: "set-cleanup-policies", place: "--location"}
	Field = &Kind{Noun: "indexes of", many: "the databases and their fields", terraform: "google_firestore_field",
		api:   firestoreAPI,
		group: "firestore indexes fields", update: "update", missing: Object{"indexed": true, "summable": true, "sortable": true}}
	TTL = &Kind{Noun: "time to live by", api: firestoreAPI, terraform: "google_firestore_field",
		group: "firestore fields ttls", update: "update", missing: Object{}}
	Function = &Kind{Noun: "function", terraform: "google_cloudfunctions2_function",
		api: functionsAPI, version: "v2", list: "locations/-/functions",
		group: "functions", create: "deploy", update: "deploy", remove: "delete", place: "--region",
		always: []string{"--gen2", "--source=.", "--trigger-http", "--no-allow-unauthenticated"}}
	Service = &Kind{Noun: "service", group: "run services", update: "update", place: "--region",
		api: runAPI, version: "v2",
		missing: Object{"template": Object{"containers": []any{Object{"resources": Object{"cpuIdle": true}}}}}}
	Trigger = &Kind{Noun: "trigger", terraform: "google_eventarc_trigger",
		api: eventarcAPI, version: "v1", list: "locations/-/triggers",
		group: "eventarc triggers", create: "create", update: "update", remove: "delete", place: "--location"}
	Subscription = &Kind{Noun: "subscription", group: "pubsub subscriptions", update: "update",
		api: pubsubAPI, version: "v1", list: "subscriptions",
		missing: Object{"ackDeadlineSeconds": "10"}}
	Job = &Kind{Noun: "job", api: schedulerAPI, version: "v1", terraform: "google_cloud_scheduler_job",
		group: "scheduler jobs", create: "create http", update: "update http", remove: "delete", place: "--location"}
	Metric = &Kind{Noun: "metric", terraform: "google_logging_metric",
		api: loggingAPI, version: "v2", list: "metrics",
		group: "logging metrics", create: "create", update: "update", remove: "delete"}
	Channel = &Kind{Noun: "notification channel", terraform: "google_monitoring_notification_channel",
		api: MonitoringAPI, version: "v3", list: "notificationChannels",
		group: "beta monitoring channels", create: "create", remove: "delete",
		key: func(o Object) string { return o.Get("labels.email_address") }}
	Alert = &Kind{Noun: "alert", terraform: "google_monitoring_alert_policy",
		api: MonitoringAPI, version: "v3", list: "alertPolicies",
		group: "alpha monitoring policies", create: "create", update: "update", remove: "delete",
		key: func(o Object) string { return o.Get("userLabels.tally") }}
	Dashboard = &Kind{Noun: "dashboard", terraform: "google_monitoring_dashboard",
		api: MonitoringAPI, version: "v1", list: "dashboards",
		group: "monitoring dashboards", create: "create", update: "update", remove: "delete",
		key: func(o Object) string {
			if labels, _ := o["labels"].(map[string]any); labels[label] == nil {
				return "" // somebody's own, of whatever name
			}
			return o.Get("displayName")
		}}

	kinds = []*Kind{API, Index, Account, Project, Repository, Cleanup, Field, TTL, Exclusion, Function, Service, Trigger, Subscription, Job,
		Metric, Channel, Alert, Dashboard}
)

// all returns how all resources of the kind are called.
func (k *Kind) all() string { return cmp.Or(k.many, "the "+k.Noun+"s") }

// An Object is a resource as an API of Google's has it, in JSON.
type Object map[string]any

// Get returns what is at the path, without quotes; a list's elements with commas between them.
func (o Object) Get(path string) string {
	var at any = map[string]any(o)
	for path != "" {
		var name string
		name, path, _ = strings.Cut(path, ".")
		switch in := at.(type) {
		case map[string]any:
			at = in[name]
		case Object:
			at = in[name]
		case []any:
			if name == "#" {
				return strconv.Itoa(len(in))
			}
			i, err := strconv.Atoi(name)
			if err != nil || i >= len(in) {
				return ""
			}
			at = in[i]
		default:
			return ""
		}
	}

	switch v := at.(type) {
	case nil:
		return ""
	case []any:
		return strings.ReplaceAll(strings.Trim(fmt.Sprint(v), "[]"), " ", ",")
	}
	return fmt.Sprint(at)
}

// label returns the resource's id, as people tell resources apart.
func (r *Resource) label() string {
	if r.Kind == Index {
		return r.index.String() + " in " + segment(r.Name, "databases")
	}
	id := path.Base(r.Name)
	if group := segment(r.Name, "collectionGroups"); group != "" {
		return group + "." + id + " in " + segment(r.Name, "databases")
	}
	return strings.TrimPrefix(id, Placeholder)
}

// name returns the resource's name.
func (o Object) name() string { return o.Get("name") }

// segment returns the id after the collection's name in a resource's name.
func segment(name, collection string) string {
	_, rest, _ := strings.Cut(name, "/"+collection+"/")
	id, _, _ := strings.Cut(rest, "/")
	return id
}

// A Change is a setting that is not as it is to be.
type Change struct {
	Setting
	Have string
}

func (c Change) String() string {
	return fmt.Sprintf("%s: %s, want %s", c.Path, orNone(c.Have), orNone(c.Want))
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return strings.ReplaceAll(s, Placeholder, "(looked up)")
}

// differs returns the settings that are not as they are to be.
func (r *Resource) differs(have Object) []Change {
	var changes []Change
	for _, s := range r.Settings {
		got := strings.TrimSuffix(have.Get(s.Path), "/") // which Cloud Scheduler adds to addresses
		if s.Path == "" || got == s.Want || got == "" && (s.Want == "0" || s.Want == "false") || s.Want == "" && (got == "0" || got == "false") {
			continue
		}
		changes = append(changes, Change{s, got})
	}
	return changes
}

// Command returns gcloud's command on a resource of the kind; verb is one of the kind's.
func (k *Kind) Command(project, verb, name string, args ...string) Command {
	id := path.Base(name)
	switch {
	case k == Account && verb == k.create:
		id, _, _ = strings.Cut(id, "@")
	case k == Subscription && strings.HasPrefix(name, Placeholder):
		id = Placeholder // Eventarc names it
	case k == Exclusion:
		id = "" // the arguments name it, and the sink is in the verb
	case k == Index && verb != k.remove:
		id = "" // the server gives it
	case k == Alert || k == Channel || k == Dashboard:
		id = name
		if verb == k.create {
			id = "" // the server gives it
		}
	}

	c := gcloud(strings.Fields(k.group + " " + verb)...)
	if id != "" {
		c = c.with(id)
	}
	if k.place != "" {
		c = c.with(k.place + "=" + segment(name, "locations"))
	}
	if k == Index {
		c = c.with("--database=" + segment(name, "databases"))
	}
	if k != Project { // a project's id has been given already
		c = c.in(project)
	}
	return c.with(args...)
}

// command returns the command that makes the resource, or that changes its settings.
func (r *Resource) command(project string, have Object, changes []Change) Command {
	verb, name := r.create, r.Name
	if have != nil {
		verb, name = r.update, cmp.Or(have.name(), r.Name)
	}

	args := slices.Clone(r.always)
	for _, s := range r.Settings {
		say := s.Path == "" || s.Want != "" // nothing is taken away from what is new
		if have != nil {
			say = s.Always || slices.ContainsFunc(changes, func(c Change) bool { return c.Path == s.Path })
		}
		if s.Arg != "" && say {
			args = append(args, s.Arg)
		}
	}
	if have != nil {
		for i := range args {
			args[i] = updating.Replace(args[i])
		}
	}

	c := r.Kind.Command(project, verb, name, join(args)...)
	c.Output, c.Input = r.lookup, r.input
	return c
}

// exists returns the command that prints the name of the resource if there is one; nil if it may be
// created twice.
func (r *Resource) exists(project string) *Command {
	c := r.Kind.Command(project, "describe", r.Name)
	switch r.Kind {
	case Function: // which are deployed, whether they exist or not
		return nil
	case Channel:
		c = r.Kind.Command(project, "list", "", fmt.Sprintf("--filter=labels.email_address=%q AND userLabels.%s=%q", r.Name, label, "alerts"))
	case Alert:
		c = r.Kind.Command(project, "list", "", fmt.Sprintf("--filter=userLabels.%s=%q", label, r.Name))
	case Dashboard:
		c = r.Kind.Command(project, "list", "", fmt.Sprintf("--filter=displayName=%q AND labels:%s", r.Name, label))
	case Exclusion:
		c = r.Kind.Command(project, "list", "", "--filter=exclusions.name="+r.Name)
	case Index:
		c = indexExists(project, r)
	}
	c = c.with("--format=value(name)")
	return &c
}

// updating are flags that have other names in updates.
var updating = strings.NewReplacer("--labels=", "--update-labels=", "--user-labels=", "--update-user-labels=",
	"--notification-channels=", "--set-notification-channels=", "--add-exclusion=", "--update-exclusion=")

// pairs are flags whose values are pairs: said once, with all of them.
var pairs = []string{"--update-env-vars", "--update-labels", "--labels", "--user-labels", "--update-user-labels", "--channel-labels",
	"--event-filters", "--event-filters-path-pattern", "--remove-env-vars",
	"--add-exclusion", "--update-exclusion"}

// join returns the arguments, each once, and with the pairs of one flag together.
func join(args []string) []string {
	var joined []string
	values := make(map[string][]string)
	for _, a := range args {
		if flag, value, _ := strings.Cut(a, "="); slices.Contains(pairs, flag) {
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
