package deploy

import (
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
)

// pushesElsewhere returns why the events of a trigger do not reach RollUpOnWrite, although the
// trigger names it; "" if they do, or if that cannot be told.
func (d *Description) pushesElsewhere(trigger Object, have *State) string {
	name := trigger.Get("transport.pubsub.subscription")
	function := have.Find(Function, d.in(d.region(), "functions", OnWriteName))
	unread := have.Unread[Subscription] != nil || have.Unread[Service] != nil
	elsewhere := trigger.Get("destination.cloudRun.service") != OnWriteName || trigger.Get("destination.cloudRun.region") != d.region()
	if name == "" || function == nil || unread || elsewhere { // an update fixes a trigger that names something else
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
		return "its subscription " + path.Base(name) + " pushes to no endpoint"
	}
	return ""
}

// Astray finds triggers of RollUpOnWrite whose events are pushed to none of its known addresses. It
// returns the commands that delete these triggers, by what is wrong. Deploy does not delete them:
// such addresses have never been compared on a real project, and a trigger that is made once more
// misses the writes until it is there.
func (d *Description) Astray(have *State) map[string]Command {
	function := have.Find(Function, d.in(d.region(), "functions", OnWriteName))
	known := d.hosts(function, have)
	if len(known) == 0 || have.Unread[Subscription] != nil || have.Unread[Service] != nil {
		return nil
	}

	astray := make(map[string]Command)
	for _, r := range d.of(Trigger) {
		subscription := have.Find(Subscription, have.Find(Trigger, r.Name).Get("transport.pubsub.subscription"))
		endpoint := subscription.Get("pushConfig.pushEndpoint")
		if endpoint == "" || slices.Contains(known, host(endpoint)) {
			continue
		}

		problem := "the subscription of trigger " + path.Base(r.Name) + " pushes to " + endpoint + ", which is no known address of RollUpOnWrite. If that is no service of yours either, delete the trigger and run tally deploy"
		astray[problem] = command(fmt.Sprintf("gcloud eventarc triggers delete %s --location=%s --project=%s", path.Base(r.Name), segment(r.Name, "locations"), d.Project))
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
