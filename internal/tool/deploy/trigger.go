package deploy

import (
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/firestore-tally/tally/rollup/route"
)

// Trigger is the kind of Eventarc's triggers.
var Trigger Kind = &common{noun: "trigger", from: eventarcAPI, api: "v1", group: "eventarc triggers", place: "--location"}

// A trigger has RollUpOnWrite called for each write of some documents.
type trigger struct {
	wanted
	anew []string // why the one that is there must be made anew
}

// triggers adds a trigger for each pattern of live routes and each database, with the subscription
// through which its events go. Routes with the same pattern share a trigger. Routes that say
// "every" have none, because the schedule keeps them: so no event is billed for their writes.
// https://cloud.google.com/eventarc/docs/run/create-trigger-cloud-firestore
func (d *Description) triggers(have *State) {
	for _, database := range d.Databases {
		made := make(map[string]bool)
		for _, r := range d.Config.Routes.Live() {
			name := d.in(database.Location, "triggers", TriggerName(database.ID, r))
			if made[name] {
				continue
			}
			made[name] = true

			d.trigger(name, database, r, have)
			d.subscription(name, have)
		}
	}
}

// trigger adds the trigger of a route in a database.
func (d *Description) trigger(name string, database Database, r *route.Route, have *State) {
	const written = "google.cloud.firestore.document.v1.written" // any change of a document, its deletion included
	filter := func(flag, attribute, want string) Setting {
		return Setting{Path: "eventFilters." + attribute, Want: want, Arg: flag + "=" + attribute + "=" + want, Fixed: true}
	}

	anew := d.whyAnew(database, have.Find(Trigger, name), have)
	d.add(&trigger{anew: anew, wanted: d.want(Trigger, name,
		filter("--event-filters", "type", written),
		filter("--event-filters", "database", database.ID),
		filter("--event-filters-path-pattern", "document", anonymous(r.Pattern().String())),
		// The functions read protobuf:
		// https://cloud.google.com/eventarc/docs/run/create-trigger-cloud-firestore
		value("eventDataContentType", "application/protobuf", "--event-data-content-type"),
		value("destination.cloudRun.service", OnWriteName, "--destination-run-service"),
		value("destination.cloudRun.region", d.region(), "--destination-run-region"),
		value("serviceAccount", d.email(triggerAccount), "--service-account"),
		Setting{Path: "labels." + purposeLabel, Want: "on-write", Arg: "--labels=" + purposeLabel + "=on-write"},
		Setting{Arg: "--labels=" + madeByLabel + "=true"},
	)})
}

func (g *trigger) renewal(Object) []string { return g.anew }

func (g *trigger) terraform(t *terraform) {
	id := path.Base(g.name)
	b := settingsOf(g)
	delete(b, "event_filters")
	b["location"], b["name"] = segment(g.name, "locations"), id
	b["matching_criteria"] = g.criteria()
	b["destination"] = block{"cloud_run_service": b["destination"].(block)["cloud_run"]}
	t.add(triggerType, id, b)
}

// criteria returns the trigger's filters as the provider takes them.
func (g *trigger) criteria() []block {
	var criteria []block
	for _, s := range g.settings {
		attribute, ok := strings.CutPrefix(s.Path, "eventFilters.")
		if !ok {
			continue
		}

		_, value, _ := strings.Cut(s.Arg, attribute+"=")
		c := block{"attribute": attribute, "value": literal(value)}
		if attribute == "document" {
			c["operator"] = "match-path-pattern"
		}
		criteria = append(criteria, c)
	}
	return criteria
}

// whyAnew returns why a trigger must be made anew although its settings are right; nil if it need
// not. gcloud has no command that would mend it in place.
func (d *Description) whyAnew(database Database, trigger Object, have *State) (reasons []string) {
	if trigger == nil {
		return nil
	}

	// Triggers that are made on the console's page of Cloud Run have one attempt:
	// https://docs.cloud.google.com/functions/docs/writing/retries
	attempts := trigger.Get("retryPolicy.maxAttempts")
	if attempts != "" && attempts != "0" {
		reasons = append(reasons, "retryPolicy.maxAttempts: "+attempts+", want none: its retries are off, so an event that fails is lost with all that it stands for")
	}

	// Neither the trigger nor its events name the database's uid, so the times decide:
	// https://cloud.google.com/firestore/docs/eventarc#limitations
	since := have.Databases[database.ID].Get("createTime")
	if before(trigger.Get("createTime"), since) {
		reasons = append(reasons, "it is older than the database "+database.ID+", which was deleted and made again under its id at "+since+": it delivers nothing")
	}

	problem := d.misled(trigger, have)
	if problem != "" {
		reasons = append(reasons, problem)
	}
	return reasons
}

// before reports whether a time is before another, as APIs write times. It reports false if either
// is no time.
func before(a, b string) bool {
	first, err := time.Parse(time.RFC3339, a)
	if err != nil {
		return false
	}
	second, err := time.Parse(time.RFC3339, b)
	return err == nil && first.Before(second)
}

// tidy turns the filters of a trigger, which the API has as a list, into an object by attributes.
func tidy(trigger Object) {
	filters, ok := trigger["eventFilters"].([]any)
	if !ok {
		return
	}

	by := make(map[string]any)
	for _, f := range filters {
		filter := Object(f.(map[string]any))
		by[filter.Get("attribute")] = filter.Get("value")
	}
	by["document"] = anonymous(fmt.Sprint(by["document"]))
	trigger["eventFilters"] = by
}
