package trial

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/firestore-tally/tally/internal/tool/deploy"
)

// triggers returns the triggers that the database is to have, by their names; nil for one that is
// not there. There is one for each pattern of live routes.
func (d *Deployment) triggers() map[string]deploy.Object {
	found := make(map[string]deploy.Object)
	for _, r := range d.Config.Routes.Live() {
		name := deploy.TriggerName(d.Database.ID, r)
		found[name] = d.state.Find(deploy.Trigger, "projects/"+d.Project+"/locations/"+d.Database.Location+"/triggers/"+name)
	}
	return found
}

// settling is how long after its creation a part of the deployment may not work yet. A trigger
// takes up to two minutes, and may deliver nothing of what was written before. A role takes up to
// seven (https://cloud.google.com/iam/docs/access-change-propagation), and then the events that
// were refused meanwhile come again.
const settling = 10 * time.Minute

// youngest returns which of the triggers and functions was made or changed last, and when; zero if
// that is not known. Nothing tells when an account was given a role, but a deployment changes a
// function, too.
func (d *Deployment) youngest() (name string, at time.Time) {
	parts := d.state.Functions()
	triggers := d.triggers()
	for _, id := range slices.Sorted(maps.Keys(triggers)) {
		parts = append(parts, triggers[id])
	}

	for _, part := range parts {
		for _, field := range []string{"createTime", "updateTime"} {
			t, err := time.Parse(time.RFC3339, part.Get(field))
			if err == nil && t.After(at) {
				name, at = path.Base(part.Get("name")), t
			}
		}
	}
	return name, at
}

// retries asks whether an event that fails is delivered again.
func (d *Deployment) retries(context.Context) finding {
	f := finding{expected: "no limit of attempts at any trigger"}
	if unread := d.state.Unread[deploy.Trigger]; unread != nil {
		return f.unread(unread)
	}
	triggers := d.triggers()
	if len(triggers) == 0 {
		return f.notLooked(noEvents)
	}

	var wrong []string
	for _, name := range slices.Sorted(maps.Keys(triggers)) {
		trigger := triggers[name]
		attempts := trigger.Get("retryPolicy.maxAttempts")
		switch {
		case trigger == nil:
			wrong = append(wrong, "there is no trigger "+name)
		case attempts != "" && attempts != "0":
			wrong = append(wrong, "at most "+attempts+" at "+name)
		}
	}
	if len(wrong) > 0 {
		return f.no("%s", strings.Join(wrong, ", "))
	}
	return f.yes("none at %s", counted(len(triggers), "trigger"))
}

// subscriptions asks whether Pub/Sub waits for an answer for as long as RollUpOnWrite may take, and
// keeps the subscriptions for ever.
func (d *Deployment) subscriptions(context.Context) finding {
	want := int(d.Config.AckDeadline().Seconds())
	f := finding{expected: fmt.Sprintf("at least %d s for an answer, and no expiry", want)}
	for _, kind := range []deploy.Kind{deploy.Trigger, deploy.Subscription} {
		if unread := d.state.Unread[kind]; unread != nil {
			return f.unread(unread)
		}
	}
	triggers := d.triggers()
	if len(triggers) == 0 {
		return f.notLooked(noEvents)
	}

	var seen, wrong []string
	for _, name := range slices.Sorted(maps.Keys(triggers)) {
		id := triggers[name].Get("transport.pubsub.subscription")
		subscription := d.state.Find(deploy.Subscription, id)
		if id == "" || subscription == nil {
			return f.notLooked("the subscription of trigger %s was not found", name)
		}

		seconds, err := strconv.Atoi(subscription.Get("ackDeadlineSeconds"))
		if err != nil {
			return f.notLooked("the subscription %s says no deadline", path.Base(id))
		}
		settings := fmt.Sprintf("%d s, %s", seconds, expiry(subscription))
		if seconds < want || expiry(subscription) != never {
			wrong = append(wrong, settings+" at "+path.Base(id))
		}
		seen = append(seen, settings)
	}
	if len(wrong) > 0 {
		return f.no("%s", strings.Join(wrong, ", "))
	}
	return f.yes("%s", strings.Join(slices.Compact(seen), ", "))
}

const never = "no expiry"

// expiry says after how long without use Pub/Sub deletes a subscription. An empty policy means
// never, and no policy means 31 days:
// https://cloud.google.com/pubsub/docs/reference/rest/v1/projects.subscriptions#expirationpolicy
func expiry(subscription deploy.Object) string {
	ttl := subscription.Get("expirationPolicy.ttl")
	switch {
	case subscription["expirationPolicy"] == nil:
		return "expiry after 2678400s"
	case ttl == "":
		return never
	}
	return "expiry after " + ttl
}
