package deploy

import (
	"fmt"
	"slices"
	"strings"
)

// logged returns the filter of the functions' log lines with a message. It names both services,
// because other services of the project may log the same words.
func logged(message string) string {
	return `resource.type="cloud_run_revision" AND resource.labels.service_name=("` + OnWriteName + `" OR "` + OnScheduleName +
		`") AND jsonPayload.message="` + message + `"`
}

// Log lines that are counted and alerted on.
var (
	driftLogged   = logged("drift: no event of a change came in time")
	droppedLogged = logged("event dropped; a retry cannot help")
	unkeptLogged  = logged("counter unkept; no retry can help")
)

// increased returns the query for how much a metric of logMetrics increased within a time.
func increased(metric, within string) string {
	return "sum(increase(logging_googleapis_com:user_" + metric + `{monitored_resource="cloud_run_revision"}[` + within + "]))"
}

// ofTriggers returns a metric of Pub/Sub's subscriptions, limited to those of Tally's triggers.
func ofTriggers(metric string, also ...string) string {
	labels := append([]string{`subscription_id=~"eventarc-[a-z]+(-[a-z]+)?[0-9]+-tally-.+"`}, also...)
	return "pubsub_googleapis_com:subscription_" + metric + "{" + strings.Join(labels, ",") + "}"
}

// pushed returns a metric of Pub/Sub's pushes, limited to the subscriptions of Tally's triggers.
func pushed(metric string, also ...string) string { return ofTriggers("push_request_"+metric, also...) }

// Queries of what the alerts and the dashboard look at.
const busyInstances = `sum(run_googleapis_com:container_instance_count{monitored_resource="cloud_run_revision",` +
	`service_name="` + OnWriteName + `",state="active"})`

var oldestEvent = "max by (subscription_id) (" + ofTriggers("oldest_unacked_message_age") + ")"

// rateByTrigger returns the query for a metric's increase per second, by subscription.
func rateByTrigger(metric, within string) string {
	return "sum by (subscription_id) (rate(" + metric + "[" + within + "]))"
}

const unacknowledged = `response_class!="ack"`

// allAlerts returns all alerts for a RollUpOnWrite that may have so many instances.
func allAlerts(maxInstances int) []alert {
	busy := alert{name: "instances-at-limit", severity: "WARNING",
		says:    fmt.Sprintf("All %d instances that RollUpOnWrite may have were busy, for 10 minutes", maxInstances),
		query:   busyInstances + fmt.Sprintf(" >= %d", maxInstances),
		lasting: "600s"}

	return append(slices.Clone(alerts), busy)
}

// alerts are the alerts that do not depend on any option.
var alerts = []alert{
	{name: "deliveries-failing", severity: "ERROR",
		says: "More than 1 % of a trigger's push requests were not acknowledged within 15 minutes, for 20 minutes",
		query: rateByTrigger(pushed("count", unacknowledged), "15m") + " / " +
			rateByTrigger(pushed("count"), "15m") + " > 0.01",
		lasting: "1200s"},
	{name: "drift", severity: "ERROR",
		says:   "An audit found, and repaired, a roll-up that lacked a change for longer than an event may take",
		filter: driftLogged},
	{name: "events-dropped", severity: "ERROR",
		says:   "An event was acknowledged without effect, because it is of no route, or malformed",
		filter: droppedLogged},
	{name: "kept-late", severity: "WARNING",
		says:    "A roll-up of an every route was twenty times as old as its route says, for 20 minutes",
		query:   increased("tally_kept_late", "20m") + " > 0",
		lasting: "1200s"},
	{name: "lag", severity: "WARNING",
		says:    "Roll-ups came later than an event that fails once may take, for 10 minutes",
		query:   increased("tally_events_late", "5m") + " > 0",
		lasting: "600s"},
	{name: "malformed-shards", severity: "WARNING",
		says:    "Shards that hold no finite number were left out of a sum within an hour",
		query:   increased("tally_malformed_shards", "1h") + " > 0",
		lasting: "0s"},
	{name: "no-tick", severity: "ERROR",
		says:    "RollUpOnSchedule has not succeeded for about three periods of its schedule, taken to be 10 minutes",
		query:   "(" + increased("tally_ticks", "20m") + " or vector(0)) < 1",
		lasting: "720s"},
	{name: "oldest-event", severity: "ERROR",
		says:    "An event of a trigger has waited for more than 5 minutes, for 5 minutes",
		query:   oldestEvent + " > 300",
		lasting: "300s"},
	{name: "push-latency", severity: "WARNING",
		says: "A trigger's push requests took more than 0.8 s in the mean, with more than 1,000 outstanding, for 10 minutes",
		query: rateByTrigger(pushed("latencies_sum"), "10m") + " / " + rateByTrigger(pushed("latencies_count"), "10m") +
			" / 1e6 > 0.8 and " + rateByTrigger(pushed("latencies_sum"), "10m") + " / 1e6 > 1000",
		lasting: "600s"},
	{name: "unkept", severity: "ERROR",
		says:   "A counter cannot be rolled up until somebody mends it: its document is full, or it lacks an index",
		filter: unkeptLogged},
}
