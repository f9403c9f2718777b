package deploy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/firestore-tally/tally/rollup/route"
)

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

// whyRemake returns why a resource that is there must be deleted and made once more. The settings
// of an index whose build failed may be right, and so may those of a trigger that delivers nothing.
func (d *Deployment) whyRemake(ctx context.Context, c *Change) (why []string, err error) {
	r := c.Of
	for _, differs := range c.Differs {
		if slices.Contains(r.kind.Remake, differs.at[0]) {
			why = append(why, "its "+differs.at[0]+" cannot be changed")
			break
		}
	}
	switch r.kind.Noun {
	case "index":
		if r.have.Get("state") == indexBroken {
			why = append(why, "its build failed, and it never becomes ready")
		}
	case "trigger":
		mute, err := d.whyMute(ctx, r)
		return append(why, mute...), err
	}
	return why, nil
}

// whyMute returns why a trigger loses events, or has none.
func (d *Deployment) whyMute(ctx context.Context, r *Resource) (why []string, err error) {
	// Triggers that are made on the console's page of Cloud Run have one attempt:
	// https://docs.cloud.google.com/functions/docs/writing/retries
	attempts := r.have.Get("retryPolicy.maxAttempts")
	if canonical(attempts) != "" {
		why = append(why, "retryPolicy.maxAttempts: "+attempts+", want none: without retries an event that fails is lost, with all that it stands for")
	}

	// Neither the trigger nor its events name the database's uid, so the times decide:
	// https://cloud.google.com/firestore/docs/eventarc#limitations
	database := filter(r.have, "database")
	since := d.databases[database].Get("createTime")
	if isBefore(r.have.Get("createTime"), since) {
		why = append(why, "database "+database+" was recreated at "+since+", after this trigger, so the trigger delivers nothing")
	}

	name := r.have.Get("transport.pubsub.subscription")
	elsewhere := r.have.Get("destination.cloudRun.service") != OnWriteName || r.have.Get("destination.cloudRun.region") != d.Place()
	if name == "" || elsewhere { // an update fixes a trigger that names another service
		return why, nil
	}
	subscription, err := d.find(ctx, known().Kinds["subscription"], name)
	if err != nil {
		return why, d.Unreadable("pubsub", "the subscriptions", err)
	}
	if subscription == nil { // https://cloud.google.com/pubsub/docs/subscription-properties#expiration_period
		why = append(why, "its subscription "+path.Base(name)+" is gone: its events go nowhere")
	}
	return why, nil
}

// isBefore reports whether a time is before another, as APIs write times. It reports false if
// either is no time.
func isBefore(a, b string) bool {
	first, err := time.Parse(time.RFC3339, a)
	if err != nil {
		return false
	}
	second, err := time.Parse(time.RFC3339, b)
	return err == nil && first.Before(second)
}

// anonymous returns a pattern with * for each capture. The captures' names mean nothing to
// Eventarc, and it may refuse some that Tally takes:
// https://cloud.google.com/eventarc/docs/path-patterns. A trigger that was made with names has the
// same events.
func anonymous(pattern string) string { return replaceCaptures(pattern, "*") }

// replaceCaptures returns a pattern with by in place of each capture of one segment.
func replaceCaptures(pattern, by string) string {
	segments := strings.Split(pattern, "/")
	for i, s := range segments {
		if strings.HasPrefix(s, "{") && strings.HasSuffix(s, "}") && !strings.Contains(s, "**") {
			segments[i] = by
		}
	}
	return strings.Join(segments, "/")
}

// documentsOf returns the pattern of the documents of which a route has the events, as its trigger
// spells it.
func documentsOf(r *route.Route) string { return anonymous(spelled(r)) }

// spelled returns the pattern of a route's documents. Those of one across parents are at any depth.
func spelled(r *route.Route) string {
	pattern := r.Pattern()
	for i, s := range pattern {
		if s.Deep {
			pattern[i] = route.Segment{Name: "{path=**}"}
		}
	}
	return pattern.String()
}

// maxName is how long the name of a trigger can be
// (https://cloud.google.com/eventarc/docs/reference/rest/v1/projects.locations.triggers/create).
const maxName = 63

// TriggerName returns the name of the trigger of a database and a route, such as
// "tally-counters-shards-1a2b3c". It depends on nothing but the database's id and on which
// documents are the route's shards: not on other routes or their order, on fields, on where the
// roll-ups are, nor on how captures are named.
func TriggerName(database string, r *route.Route) string {
	words := strings.TrimPrefix(database, "(default)")
	for _, s := range r.Pattern() {
		if !s.Capture {
			words += "-" + s.Name
		}
	}

	const prefix, suffix = "tally", 6 // hexadecimal digits: 16 million, for some dozens of triggers
	hash := sha256.Sum256([]byte(database + "/" + replaceCaptures(spelled(r), "{}")))
	digits := hex.EncodeToString(hash[:])[:suffix]

	other := func(r rune) bool { return !('a' <= r && r <= 'z' || '0' <= r && r <= '9') }
	readable := strings.Join(strings.FieldsFunc(strings.ToLower(words), other), "-")
	readable = strings.TrimSuffix(readable[:min(len(readable), maxName-len(prefix)-1-1-suffix)], "-")
	if readable != "" {
		readable = "-" + readable
	}
	return prefix + readable + "-" + digits
}
