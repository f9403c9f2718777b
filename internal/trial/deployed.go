package trial

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/internal/appfolder"
	"github.com/firestore-tally/tally/internal/config"
	"github.com/firestore-tally/tally/internal/deploy"
	"github.com/firestore-tally/tally/rollup"
	"google.golang.org/api/option"
)

// A Deployment is what is deployed in a project, as far as a trial needs it.
type Deployment struct {
	Project  string
	Database deploy.Database // the first that the functions serve
	Config   config.Config   // of the functions

	state *deploy.State
}

// Read reads what is deployed in a project. It changes nothing. It is an error if no functions are
// deployed. The options are those of Google's clients.
func Read(ctx context.Context, project string, o ...option.ClientOption) (*Deployment, error) {
	state, err := deploy.Read(ctx, project, o...)
	if err != nil {
		return nil, err
	}
	if unread := state.Unread[deploy.Function]; unread != nil {
		return nil, unread
	}
	if len(state.Functions()) == 0 {
		return nil, fmt.Errorf("no functions are deployed in project %s; this deploys them:\n  tally deploy --project %[1]s", project)
	}

	nobody := new(appfolder.Folder) // wants something else than is deployed
	configured, err := config.Load(state.Wanted(nobody))
	if err != nil {
		return nil, fmt.Errorf("configuration of the deployed functions: %w", err)
	}
	configured.Databases = configured.Databases[:1]

	// The description names the fields that are to be read.
	described, err := deploy.Want(nobody, state, configured, nil)
	if err != nil {
		return nil, err
	}
	state.ReadFor(ctx, described)
	return &Deployment{project, described.Databases[0], configured, state}, nil
}

// exemption asks whether what only grows is kept out of the indexes.
func (d *Deployment) exemption(context.Context) finding {
	f := finding{expected: "no index"}
	if unread := d.state.Unread[deploy.Field]; unread != nil {
		return f.notLooked("%s: %s", unread.What, unread.Why)
	}

	var exempt, indexed []string
	for _, field := range deploy.Exempt(d.Config.Routes) {
		spelt := field.CollectionGroup + "." + field.Path
		name := fmt.Sprintf("projects/%s/databases/%s/collectionGroups/%s/fields/%s", d.Project, d.Database.ID, field.CollectionGroup, field.Path)
		if d.state.Find(deploy.Field, name).Get("indexed") == "false" {
			exempt = append(exempt, spelt)
		} else {
			indexed = append(indexed, spelt)
		}
	}
	f.expected += " of " + strings.Join(slices.Concat(exempt, indexed), ", ")
	if len(indexed) > 0 {
		return f.no("an index of %s", strings.Join(indexed, ", "))
	}
	return f.yes("none")
}

// triggers returns the triggers of the database by their names, nil for one that is not there. There
// is one for each pattern of live routes.
func (d *Deployment) triggers() map[string]deploy.Object {
	found := make(map[string]deploy.Object)
	for _, r := range d.Config.Routes.Live() {
		id := deploy.TriggerName(d.Database.ID, r)
		found[id] = d.state.Find(deploy.Trigger, "projects/"+d.Project+"/locations/"+d.Database.Location+"/triggers/"+id)
	}
	return found
}

// retries asks whether an event that fails is delivered again.
func (d *Deployment) retries(context.Context) finding {
	f := finding{expected: "no limit of attempts at any trigger"}
	if unread := d.state.Unread[deploy.Trigger]; unread != nil {
		return f.notLooked("%s: %s", unread.What, unread.Why)
	}
	triggers := d.triggers()
	if len(triggers) == 0 {
		return f.notLooked("%s", noEvents)
	}

	var wrong []string
	for id, trigger := range triggers {
		attempts := trigger.Get("retryPolicy.maxAttempts")
		switch {
		case trigger == nil:
			wrong = append(wrong, "no trigger "+id)
		case attempts != "" && attempts != "0":
			wrong = append(wrong, "at most "+attempts+" at "+id)
		}
	}
	if len(wrong) > 0 {
		slices.Sort(wrong)
		return f.no("%s", strings.Join(wrong, ", "))
	}
	return f.yes("none at %s", counted(len(triggers), "trigger"))
}

// deadline asks whether Pub/Sub waits for an answer for as long as an event is held.
func (d *Deployment) deadline(context.Context) finding {
	want := int(d.Config.AckDeadline().Seconds())
	f := finding{expected: fmt.Sprintf("at least %d s for an answer", want)}
	for _, kind := range []deploy.Kind{deploy.Trigger, deploy.Subscription} {
		if unread := d.state.Unread[kind]; unread != nil {
			return f.notLooked("%s: %s", unread.What, unread.Why)
		}
	}
	triggers := d.triggers()
	if len(triggers) == 0 {
		return f.notLooked("%s", noEvents)
	}

	var seen, wrong []string
	for id, trigger := range triggers {
		subscription := d.state.Find(deploy.Subscription, trigger.Get("transport.pubsub.subscription"))
		if subscription.Get("name") == "" {
			return f.notLooked("the subscription of trigger %s was not found", id)
		}
		seconds := 0
		_, _ = fmt.Sscan(subscription.Get("ackDeadlineSeconds"), &seconds) // else it is none
		if seconds < want {
			wrong = append(wrong, fmt.Sprintf("%d s at %s", seconds, path.Base(subscription.Get("name"))))
		}
		if text := fmt.Sprintf("%d s", seconds); !slices.Contains(seen, text) {
			seen = append(seen, text)
		}
	}
	if len(wrong) > 0 {
		slices.Sort(wrong)
		return f.no("%s", strings.Join(wrong, ", "))
	}
	slices.Sort(seen)
	return f.yes("%s", strings.Join(seen, ", "))
}

// noEvents is why nothing about events can be asked.
const noEvents = "the schedule keeps all routes, so there are no events"

// counted returns a number with its noun.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// queries returns how many queries a roll-up of the counter takes.
func queries(c rollup.Counter) (n int64) {
	for _, r := range c.Template.Routes {
		n += int64(len(r.Queries()))
	}
	return n
}
