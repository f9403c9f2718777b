package trial

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/firestore-tally/tally/internal/deploy"
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

// deadline asks whether Pub/Sub waits for an answer for as long as RollUpOnWrite may hold an event.
func (d *Deployment) deadline(context.Context) finding {
	want := int(d.Config.AckDeadline().Seconds())
	f := finding{expected: fmt.Sprintf("at least %d s for an answer", want)}
	if unread := d.state.Unread[deploy.Trigger]; unread != nil {
		return f.unread(unread)
	}
	if unread := d.state.Unread[deploy.Subscription]; unread != nil {
		return f.unread(unread)
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
		if seconds < want {
			wrong = append(wrong, fmt.Sprintf("%d s at %s", seconds, path.Base(id)))
		}
		seen = append(seen, fmt.Sprintf("%d s", seconds))
	}
	if len(wrong) > 0 {
		return f.no("%s", strings.Join(wrong, ", "))
	}
	return f.yes("%s", strings.Join(slices.Compact(seen), ", "))
}
