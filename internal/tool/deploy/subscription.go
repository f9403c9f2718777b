package deploy

import (
	"cmp"
	"net/url"
	"path"
	"slices"
	"strings"
)

// Subscription is the kind of Pub/Sub's subscriptions. Eventarc makes one for each trigger, and
// makes up its name.
var Subscription Kind = &subscriptionKind{common{noun: "subscription", from: pubsubAPI, api: "v1", group: "pubsub subscriptions"}}

type subscriptionKind struct{ common }

// Command implements Kind. A subscription without a name of its own is looked up.
func (k *subscriptionKind) Command(project, verb, name string, args ...string) Command {
	id := path.Base(name)
	if strings.HasPrefix(name, Placeholder) {
		id = Placeholder
	}
	return k.command(verb, id, "").in(project).with(args...)
}

// A subscription is the one through which a trigger's events go. Until Eventarc has made up its
// name, it is called Placeholder followed by the trigger's name.
type subscription struct {
	wanted
	trigger string  // name
	lookup  Command // looks up the subscription's name
}

// subscription adds the subscription of a trigger.
func (d *Description) subscription(trigger string, have *State) {
	// A delivery that lasts longer is made a second time meanwhile. Pub/Sub's longest is
	// 600 s: https://cloud.google.com/pubsub/docs/subscription-properties#ack_deadline
	deadline := d.Config.AckDeadline()

	name := cmp.Or(have.Find(Trigger, trigger).Get("transport.pubsub.subscription"), Placeholder+trigger)
	lookup := Trigger.Command(d.Project, "describe", trigger, "--format=value(transport.pubsub.subscription)")
	d.add(&subscription{trigger: trigger, lookup: lookup, wanted: d.want(Subscription, name,
		value("ackDeadlineSeconds", number(deadline), "--ack-deadline"),
		// By default Pub/Sub deletes a subscription through which nothing went for 31 days. A route
		// whose documents rarely change would lose its events from then on:
		// https://cloud.google.com/pubsub/docs/subscription-properties#expiration_period
		Setting{Path: "expirationPolicy.ttl", Arg: "--expiration-period=never"},
		// A dead-letter topic takes an event away after some failures, and with it what the event
		// stands for: https://cloud.google.com/pubsub/docs/dead-letter-topics
		Setting{Path: "deadLetterPolicy.deadLetterTopic", Arg: "--clear-dead-letter-policy"},
	)})
}

// renamed returns the subscription as it is when its trigger has been made anew: under a name that
// Eventarc will give.
func (s *subscription) renamed() *subscription {
	renamed := *s
	renamed.name = Placeholder + s.trigger
	return &renamed
}

func (s *subscription) label() string { return strings.TrimPrefix(path.Base(s.name), Placeholder) }

func (s *subscription) absent() Object {
	return Object{"ackDeadlineSeconds": "10", "expirationPolicy": Object{"ttl": expiresByDefault}}
}

// expiresByDefault is after how long without use Pub/Sub deletes a subscription that has no policy
// of its own: 31 days.
const expiresByDefault = "2678400s"

// expiring gives a subscription without a policy the default one. An empty policy means never:
// https://cloud.google.com/pubsub/docs/reference/rest/v1/projects.subscriptions#expirationpolicy
func expiring(subscription Object) {
	if subscription["expirationPolicy"] == nil {
		subscription["expirationPolicy"] = map[string]any{"ttl": expiresByDefault}
	}
}

func (s *subscription) update(have Object, changes []Change) Command {
	return s.wanted.update(have, changes).filled(&s.lookup)
}

func (s *subscription) terraform(t *terraform) { t.afterwards(s) }

// misled returns why the events of a trigger do not reach RollUpOnWrite, although the trigger names
// it; "" if they do, or if that cannot be told.
func (d *Description) misled(trigger Object, have *State) string {
	name := trigger.Get("transport.pubsub.subscription")
	function := have.Find(Function, d.in(d.region(), "functions", OnWriteName))
	unread := have.Unread[Subscription] != nil || have.Unread[Service] != nil
	elsewhere := trigger.Get("destination.cloudRun.service") != OnWriteName || trigger.Get("destination.cloudRun.region") != d.region()
	if name == "" || function == nil || unread || elsewhere { // an update mends a trigger that names something else
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

// Astray finds triggers of RollUpOnWrite whose events are pushed to none of its known addresses. It
// returns the commands that delete these triggers, by what is wrong. Deploy does not run them:
// nobody has compared such addresses on a real project, and a trigger that is made anew misses the
// writes until it is there.
func (d *Description) Astray(have *State) map[string]Command {
	function := have.Find(Function, d.in(d.region(), "functions", OnWriteName))
	known := d.hosts(function, have)
	if len(known) == 0 || have.Unread[Subscription] != nil || have.Unread[Service] != nil {
		return nil
	}

	astray := make(map[string]Command)
	for _, r := range d.Resources {
		if r.Kind() != Trigger {
			continue
		}

		subscription := have.Find(Subscription, have.Find(Trigger, r.Name()).Get("transport.pubsub.subscription"))
		endpoint := subscription.Get("pushConfig.pushEndpoint")
		if endpoint == "" || slices.Contains(known, host(endpoint)) {
			continue
		}

		problem := "the subscription of trigger " + path.Base(r.Name()) + " pushes to " + endpoint + ", which is no known address of RollUpOnWrite. If that is no service of yours either, delete the trigger and run tally deploy"
		astray[problem] = Trigger.Command(d.Project, "delete", r.Name())
	}
	return astray
}

// deletedTopic stands for the topic of a subscription whose topic was deleted
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
