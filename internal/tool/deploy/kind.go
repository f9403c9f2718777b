package deploy

import (
	"path"
	"slices"
	"strings"
)

// A Kind is a kind of resources that one of Google's APIs has: how people call them, and what is
// not alike in the requests of all APIs.
type Kind struct {
	Noun   string // of one, such as "function"
	plural string // empty: the noun's

	api        Source
	version    string // of the API, in its addresses
	collection string // the last part of the name of a resource's parent, such as "functions"

	// How a new resource gets its id: by a query parameter, or by a field of the body. If both are
	// empty, the body has the name, or the API makes one up.
	idParameter, idField string

	wrap  string // field of the body that holds the resource; empty: the body is the resource
	put   bool   // an update replaces the resource as a whole, by PUT
	whole bool   // an update replaces the resource as a whole, by PATCH
	top   bool   // the mask of an update names top-level fields
	short bool   // the API names the resource by its id alone

	// key returns what tells a resource from others if the API makes up its name; nil: the name does.
	key func(Object) string

	// tidy brings a resource that was read into the form in which the manifest has it.
	tidy func(Object)

	// absent is a resource as it first appears, if it needs no making; nil: it has to be made.
	absent Object

	// outputs are fields that are compared and never sent.
	outputs []string

	// fixed are fields that the API cannot change, so the resource is made once more.
	fixed []string

	// begun says that a change of the resource is only begun, and not waited for.
	begun bool
}

// The kinds, each after those that its resources need.
var (
	API   = &Kind{Noun: "API", api: servicesAPI, version: "v1", collection: "services"}
	Index = &Kind{Noun: "index", plural: "the indexes", api: firestoreAPI, version: "v1", collection: "indexes",
		key: indexKey, begun: true}
	Account = &Kind{Noun: "service account", api: accountsAPI, version: "v1", collection: "serviceAccounts",
		idField: "accountId", wrap: "serviceAccount"}
	Project    = &Kind{Noun: "project", plural: "the project", api: projectsAPI, version: "v3"}
	Repository = &Kind{Noun: "repository", plural: "the repositories", api: repositoriesAPI, version: "v1",
		collection: "repositories", idParameter: "repositoryId"}
	Queue = &Kind{Noun: "queue", api: tasksAPI, version: "v2", collection: "queues"}
	Field = &Kind{Noun: "field", plural: "the databases and their fields", api: firestoreAPI, version: "v1",
		collection: "fields", top: true, begun: true, absent: Object{"indexConfig": Object{"indexes": inBothOrders}}}
	TTL = &Kind{Noun: "time to live", plural: "the times to live", api: firestoreAPI, version: "v1",
		collection: "fields", top: true, begun: true, absent: Object{}}
	Exclusion = &Kind{Noun: "log exclusion", api: LoggingAPI, version: "v2", collection: "exclusions", short: true}
	Function  = &Kind{Noun: "function", api: functionsAPI, version: "v2", collection: "functions",
		idParameter: "functionId", outputs: []string{"state"}}
	Service = &Kind{Noun: "service", api: runAPI, version: "v2", collection: "services", whole: true,
		absent: Object{"template": Object{"containers": []any{Object{"resources": Object{"cpuIdle": true}}}}}}
	Trigger = &Kind{Noun: "trigger", api: eventarcAPI, version: "v1", collection: "triggers",
		idParameter: "triggerId", tidy: tidyTrigger, fixed: []string{"eventFilters"}}
	Subscription = &Kind{Noun: "subscription", api: pubsubAPI, version: "v1", collection: "subscriptions",
		wrap: "subscription", tidy: expiring, absent: Object{"ackDeadlineSeconds": 10, "expirationPolicy": byDefault}}
	Job    = &Kind{Noun: "job", api: schedulerAPI, version: "v1", collection: "jobs"}
	Metric = &Kind{Noun: "metric", api: LoggingAPI, version: "v2", collection: "metrics", put: true, short: true}

	Channel = &Kind{Noun: "notification channel", api: MonitoringAPI, version: "v3", collection: "notificationChannels",
		key: func(o Object) string { return o.Get("labels.email_address") }}
	Alert = &Kind{Noun: "alert", api: MonitoringAPI, version: "v3", collection: "alertPolicies",
		key: func(o Object) string { return o.Get("userLabels." + purposeLabel) }}
	Dashboard = &Kind{Noun: "dashboard", api: MonitoringAPI, version: "v1", collection: "dashboards", whole: true, key: dashboardKey}
)

var kinds = []*Kind{API, Index, Account, Project, Repository, Queue, Field, TTL, Exclusion, Function,
	Service, Trigger, Subscription, Job, Metric, Channel, Alert, Dashboard}

// kindOf returns the kind of a noun; nil if there is none.
func kindOf(noun string) *Kind {
	i := slices.IndexFunc(kinds, func(k *Kind) bool { return k.Noun == noun })
	if i < 0 {
		return nil
	}
	return kinds[i]
}

// All returns the kind's resources in words, such as "the functions".
func (k *Kind) All() string {
	if k.plural != "" {
		return k.plural
	}
	return "the " + k.Noun + "s"
}

// String returns the noun.
func (k *Kind) String() string { return k.Noun }

// MarshalText returns the noun.
func (k *Kind) MarshalText() ([]byte, error) { return []byte(k.Noun), nil }

// is reports whether a resource that was read is the one that the manifest names.
func (k *Kind) is(o Object, name string) bool {
	switch {
	case k == Index:
		return k.key(o) == name
	case k.key != nil:
		return k.key(o) == path.Base(name)
	}
	return o.name() == name
}

// label returns a resource as people tell it from the others of its kind, by its name in the
// manifest.
func (k *Kind) label(name string) string {
	r, isRef := parseRef(name)
	switch {
	case isRef:
		return path.Base(r.name)
	case k == Field || k == TTL:
		return segment(name, "collectionGroups") + "." + id(name) + " in " + segment(name, "databases")
	}
	return path.Base(name)
}

// labelOf returns a resource that was read as people tell it from the others of its kind.
func (k *Kind) labelOf(o Object) string {
	switch {
	case k == Index:
		return indexLabel(o.name(), o["fields"])
	case k.key != nil && k.key(o) != "":
		return k.key(o)
	}
	return k.label(o.name())
}

// id returns the last part of a name. Ids of indexes and fields may hold slashes.
func id(name string) string {
	for _, collection := range []string{"/indexes/", "/fields/"} {
		_, id, found := strings.Cut(name, collection)
		if found {
			return id
		}
	}
	return path.Base(name)
}

// parent returns the name of the collection that a resource is in.
func parent(name string) string { return strings.TrimSuffix(name, "/"+id(name)) }

// address returns where the API has a resource, or a collection.
func (k *Kind) address(name string) string { return k.version + "/" + name }

// anyField is an index of one field, whatever its name.
func anyField(order string) Object {
	return Object{"queryScope": collectionScope, "fields": []any{Object{"fieldPath": "*", "order": order}}}
}

// inBothOrders is how Firestore indexes a field by default, as far as sums need it.
var inBothOrders = []any{anyField(ascending), anyField(descending)}

// byDefault is after how long without use Pub/Sub deletes a subscription that has no policy of its
// own: 31 days.
var byDefault = Object{"ttl": "2678400s"}

// expiring gives a subscription without a policy the default one. An empty policy means never:
// https://cloud.google.com/pubsub/docs/reference/rest/v1/projects.subscriptions#expirationpolicy
func expiring(subscription Object) {
	if subscription["expirationPolicy"] == nil {
		subscription["expirationPolicy"] = byDefault
	}
}

// tidyTrigger sorts the filters of a trigger, and replaces the names of captures.
func tidyTrigger(trigger Object) {
	filters, _ := trigger["eventFilters"].([]any)
	order := []string{"type", "database", "document"}
	slices.SortStableFunc(filters, func(a, b any) int {
		at := func(f any) int { return slices.Index(order, asObject(f).Get("attribute")) }
		return at(a) - at(b)
	})
	for _, f := range filters {
		filter := asObject(f)
		if filter.Get("attribute") == "document" {
			filter["value"] = anonymous(filter.Get("value"))
		}
	}
}

// filter returns the value of one of a trigger's filters.
func filter(trigger Object, attribute string) string {
	filters, _ := trigger["eventFilters"].([]any)
	for _, f := range filters {
		if asObject(f).Get("attribute") == attribute {
			return asObject(f).Get("value")
		}
	}
	return ""
}

// dashboardKey returns the title of a dashboard. Dashboards without Tally's label are others'.
func dashboardKey(o Object) string {
	labels := asObject(o["labels"])
	if labels[purposeLabel] == nil {
		return ""
	}
	return o.Get("displayName")
}
