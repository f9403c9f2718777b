package deploy

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/firestore-tally/tally/rollup"
)

// triggers are one for each pattern of live routes and database, all of them RollUpOnWrite's: the
// schedule keeps the routes that say "every", so that their writes are billed no event. Routes of one
// pattern share its events.
// https://cloud.google.com/eventarc/docs/run/create-trigger-cloud-firestore
func (d *Description) triggers(have *State) {
	for _, database := range d.Databases {
		made := make(map[string]bool)
		for _, r := range d.Config.Routes.Live() {
			name := TriggerName(database.ID, r)
			if made[name] {
				continue
			}
			made[name] = true
			d.trigger(database, r, have)
		}
	}
}

// trigger adds the trigger of a route in a database, and the subscription through which its events
// go.
func (d *Description) trigger(database Database, r *rollup.Route, have *State) {
	const written = "google.cloud.firestore.document.v1.written" // any change of a document, its deletion included
	name := d.in(database.Location, "triggers", TriggerName(database.ID, r))
	filter := func(flag, attribute, want string) Setting {
		return Setting{Path: "eventFilters." + attribute, Want: want, Arg: flag + "=" + attribute + "=" + want, Fixed: true}
	}

	d.add(Resource{Kind: Trigger, Name: name, anew: d.anew(database, have.Find(Trigger, name), have), Settings: []Setting{
		filter("--event-filters", "type", written),
		filter("--event-filters", "database", database.ID),
		filter("--event-filters-path-pattern", "document", anonymous(r.Pattern().String())),
		// The functions read protobuf:
		// https://cloud.google.com/eventarc/docs/run/create-trigger-cloud-firestore
		value("eventDataContentType", "application/protobuf", "--event-data-content-type"),
		value("destination.cloudRun.service", OnWriteName, "--destination-run-service"),
		value("destination.cloudRun.region", d.region(), "--destination-run-region"),
		value("serviceAccount", d.email(triggerAccount), "--service-account"),
		{Path: "labels." + label, Want: "on-write", Arg: "--labels=" + label + "=on-write"},
		{Arg: "--labels=" + madeByLabel + "=true"},
	}})

	// A delivery that lasts longer is made a second time meanwhile. Pub/Sub's longest is
	// 600 s: https://cloud.google.com/pubsub/docs/subscription-properties#ack_deadline
	deadline := d.Config.AckDeadline()
	lookup := Trigger.Command(d.Project, "describe", name, "--format=value(transport.pubsub.subscription)")
	subscription := cmp.Or(have.Find(Trigger, name).Get("transport.pubsub.subscription"), Placeholder+name)

	d.add(Resource{Kind: Subscription, Name: subscription, of: name, lookup: &lookup, Settings: []Setting{
		value("ackDeadlineSeconds", number(deadline), "--ack-deadline"),
		// A dead-letter topic takes an event away after some failures, and with it what the event
		// stands for: https://cloud.google.com/pubsub/docs/dead-letter-topics
		{Path: "deadLetterPolicy.deadLetterTopic", Arg: "--clear-dead-letter-policy"},
	}})
}

// anew returns why a trigger must be made anew although its settings are right: gcloud can mend
// none of this.
func (d *Description) anew(database Database, trigger Object, have *State) (reasons []string) {
	if trigger == nil {
		return nil
	}

	// Triggers that are made on the console's page of Cloud Run have one attempt:
	// https://docs.cloud.google.com/functions/docs/writing/retries
	if attempts := trigger.Get("retryPolicy.maxAttempts"); attempts != "" && attempts != "0" {
		reasons = append(reasons, "retryPolicy.maxAttempts: "+attempts+", want none: its retries are off, so an event that fails is lost with all that it stands for")
	}

	// Neither the trigger nor its events name the database's uid, so the times decide:
	// https://cloud.google.com/firestore/docs/eventarc#limitations
	since := have.Databases[database.ID].Get("createTime")
	if before(trigger.Get("createTime"), since) {
		reasons = append(reasons, "it is older than the database "+database.ID+", which was deleted and made again under its id at "+since+": it delivers nothing")
	}

	if problem := d.misled(trigger, have); problem != "" {
		reasons = append(reasons, problem)
	}
	return reasons
}

// before reports whether a time is before another, as APIs write them. What is no time is not.
func before(a, b string) bool {
	first, err := time.Parse(time.RFC3339, a)
	if err != nil {
		return false
	}
	second, err := time.Parse(time.RFC3339, b)
	return err == nil && first.Before(second)
}

// misled returns why the events of a trigger do not reach RollUpOnWrite although they are to go
// there, as far as that can be told; "" if they do.
func (d *Description) misled(trigger Object, have *State) string {
	name := trigger.Get("transport.pubsub.subscription")
	function := have.Find(Function, d.in(d.region(), "functions", OnWriteName))
	unread := have.Unread[Subscription] != nil || have.Unread[Service] != nil
	elsewhere := trigger.Get("destination.cloudRun.service") != OnWriteName || trigger.Get("destination.cloudRun.region") != d.region()
	if name == "" || function == nil || unread || elsewhere { // an update mends what goes elsewhere
		return ""
	}

	subscription := have.Find(Subscription, name)
	endpoint := subscription.Get("pushConfig.pushEndpoint")
	switch {
	case subscription.name() == "":
		return "its subscription " + path.Base(name) + " is gone: its events go nowhere"
	case subscription.Get("topic") == deletedTopic:
		return "the topic of its subscription " + path.Base(name) + " is gone: no event comes"
	case endpoint == "":
		return "its subscription " + path.Base(name) + " pushes to nobody"
	}
	return ""
}

// Astray returns the commands that delete the triggers of RollUpOnWrite whose events are pushed to
// none of its known addresses, by what is wrong. Deploy changes nothing of that by itself: nobody has
// compared these addresses on a real project, and a trigger that is made anew misses what is written
// meanwhile.
func (d *Description) Astray(have *State) map[string]Command {
	function := have.Find(Function, d.in(d.region(), "functions", OnWriteName))
	known := d.hosts(function, have)
	if len(known) == 0 || have.Unread[Subscription] != nil || have.Unread[Service] != nil {
		return nil
	}

	astray := make(map[string]Command)
	for _, r := range d.Resources {
		if r.Kind != Trigger {
			continue
		}
		subscription := have.Find(Subscription, have.Find(Trigger, r.Name).Get("transport.pubsub.subscription"))
		endpoint := subscription.Get("pushConfig.pushEndpoint")
		if endpoint == "" || slices.Contains(known, host(endpoint)) {
			continue
		}
		problem := "the subscription of trigger " + path.Base(r.Name) + " pushes to " + endpoint + ", which is no known address of RollUpOnWrite. If that is no service of yours either, delete the trigger and run tally deploy"
		astray[problem] = Trigger.Command(d.Project, "delete", r.Name)
	}
	return astray
}

// deletedTopic is the topic of a subscription whose topic is gone
// (https://cloud.google.com/pubsub/docs/reference/rest/v1/projects.subscriptions).
const deletedTopic = "_deleted-topic_"

// hosts returns the hosts at which RollUpOnWrite is served: a service of Cloud Run has several
// (https://cloud.google.com/run/docs/triggering/https-request).
func (d *Description) hosts(function Object, have *State) []string {
	service := have.Find(Service, d.in(d.region(), "services", OnWriteName))

	hosts := []string{host(function.Get("serviceConfig.uri")), host(service.Get("uri"))}
	for address := range strings.SplitSeq(service.Get("urls"), ",") {
		hosts = append(hosts, host(address))
	}
	return slices.DeleteFunc(hosts, func(h string) bool { return h == "" })
}

// host returns the host of an address, "" if it is none.
func host(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

// anonymous returns a pattern with * for each capture. Names say nothing to Eventarc, and it may not
// take all that Tally takes: https://cloud.google.com/eventarc/docs/path-patterns. A trigger that was
// made with names has the same events.
func anonymous(pattern string) string { return replaceCaptures(pattern, "*") }

// replaceCaptures returns a pattern with something else for each capture of one segment.
func replaceCaptures(pattern, by string) string {
	segments := strings.Split(pattern, "/")
	for i, s := range segments {
		if strings.HasPrefix(s, "{") && strings.HasSuffix(s, "}") && !strings.Contains(s, "**") {
			segments[i] = by
		}
	}
	return strings.Join(segments, "/")
}

// maxName is how long the name of a trigger can be
// (https://cloud.google.com/eventarc/docs/reference/rest/v1/projects.locations.triggers/create).
const maxName = 63

// TriggerName returns the name of the trigger of a database and a route, such as
// "tally-counters-shards-1a2b3c". It depends on nothing but the database's id and on which
// documents are the route's shards: not on other routes or their order, on fields, on where the
// roll-ups are, nor on how captures are named.
func TriggerName(database string, r *rollup.Route) string {
	words := strings.TrimPrefix(database, "(default)")
	for _, s := range r.Pattern() {
		if !s.Capture {
			words += "-" + s.Name
		}
	}
	hash := sha256.Sum256([]byte(database + "/" + replaceCaptures(r.Pattern().String(), "{}")))
	const prefix, suffix = "tally", 6 // hexadecimal digits: 16 million, for some dozens of triggers
	readable := strings.Join(strings.FieldsFunc(strings.ToLower(words), func(r rune) bool { return !('a' <= r && r <= 'z' || '0' <= r && r <= '9') }), "-")
	readable = strings.TrimSuffix(readable[:min(len(readable), maxName-len(prefix)-1-1-suffix)], "-")
	if readable != "" {
		readable = "-" + readable
	}
	return prefix + readable + "-" + hex.EncodeToString(hash[:])[:suffix]
}
