package deploy

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"path"
	"strings"

	"github.com/firestore-tally/tally/rollup"
)

// triggers are one for each source of a live route and database, all of them RollUpOnWrite's: the
// schedule keeps the routes that say "every", so that their writes are billed no event.
// https://cloud.google.com/eventarc/docs/run/create-trigger-cloud-firestore
func (d *Description) triggers(have *State) {
	const written = "google.cloud.firestore.document.v1.written" // any change of a document, its deletion included
	for _, database := range d.Databases {
		for _, r := range d.Config.Routes.Live() {
			name := d.in(database.Location, "triggers", TriggerName(database.ID, r))
			filter := func(flag, attribute, want, say string) Setting {
				return Setting{Path: "eventFilters." + attribute, Want: want, Arg: flag + "=" + attribute + "=" + say, Fixed: true}
			}
			d.add(Resource{Kind: Trigger, Name: name, Settings: []Setting{
				filter("--event-filters", "type", written, written),
				filter("--event-filters", "database", database.ID, database.ID),
				filter("--event-filters-path-pattern", "document", anonymous(r.Pattern().String()), r.Pattern().String()),
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
			d.add(Resource{Kind: Subscription, Name: subscription, of: path.Base(name), lookup: &lookup, Settings: []Setting{value("ackDeadlineSeconds", number(deadline), "--ack-deadline")}})
		}
	}
}

// anonymous returns a pattern without the names of its captures, which say nothing.
func anonymous(pattern string) string {
	segments := strings.Split(pattern, "/")
	for i, s := range segments {
		if strings.HasPrefix(s, "{") && strings.HasSuffix(s, "}") && !strings.Contains(s, "**") || s == "*" {
			segments[i] = "{}"
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
	hash := sha256.Sum256([]byte(database + "/" + anonymous(r.Pattern().String())))
	const prefix, suffix = "tally", 6 // hexadecimal digits: 16 million, for some dozens of triggers
	readable := strings.Join(strings.FieldsFunc(strings.ToLower(words), func(r rune) bool { return !('a' <= r && r <= 'z' || '0' <= r && r <= '9') }), "-")
	readable = strings.TrimSuffix(readable[:min(len(readable), maxName-len(prefix)-1-1-suffix)], "-")
	if readable != "" {
		readable = "-" + readable
	}
	return prefix + readable + "-" + hex.EncodeToString(hash[:])[:suffix]
}
