package deploy

import "strings"

// logged returns the filter of the functions' log lines with a message.
func logged(message string) string {
	return `resource.type="cloud_run_revision" AND jsonPayload.message="` + message + `"`
}

// Log lines that are counted and alerted on.
var (
	driftLogged   = logged("drift: no event of a change came in time")
	droppedLogged = logged("event dropped; a retry cannot help")
)

// logMetrics count log lines. Cloud Logging makes a metric without a descriptor a counter:
// https://cloud.google.com/logging/docs/reference/v2/rest/v2/projects.metrics
var logMetrics = []struct{ name, description, filter string }{
	{"tally_drift", "Roll-ups that lacked a change for longer than an event may take, and were repaired.", driftLogged},
	{"tally_events_dropped", "Events that no retry could help: of no route, or malformed.", droppedLogged},
	{"tally_events_late", "Held events whose roll-up came later than an event that fails once may take.",
		logged("rolled up late")},
	{"tally_malformed_shards", "Sums that left shards out, because these hold no finite number. " +
		"A process tells at most once in ten minutes of a counter, and each audit once.",
		logged("shards left out of the sum")},
	{"tally_ticks", "Calls of RollUpOnSchedule that did all they could: no errors, no dry run.",
		logged("audited") + " AND jsonPayload.report.dry_run=false AND NOT jsonPayload.report.errors:*"},
}

// increased returns the query for how much a metric of logMetrics increased within a time.
func increased(metric, within string) string {
	return "sum(increase(logging_googleapis_com:user_" + metric + `{monitored_resource="cloud_run_revision"}[` + within + "]))"
}

// pushed returns a metric of Pub/Sub's pushes, of the subscriptions that Eventarc makes for Tally's
// triggers.
func pushed(metric string, also ...string) string {
	labels := append([]string{`subscription_id=~"eventarc-[a-z]+(-[a-z]+)?[0-9]+-tally-.+"`}, also...)
	return "pubsub_googleapis_com:subscription_push_request_" + metric + "{" + strings.Join(labels, ",") + "}"
}

// rateByTrigger returns the query for a metric's increase per second, by subscription.
func rateByTrigger(metric, within string) string {
	return "sum by (subscription_id) (rate(" + metric + "[" + within + "]))"
}

const unacknowledged = `response_class!="ack"`

// An alert is a policy of Cloud Monitoring. docs/playbooks has a page of its name.
type alert struct {
	name, title, severity string
	says, condition       string
	filter                string // of log lines, each of which alerts; or
	query, lasting        string // in PromQL, and how long it must have a result
}

var alerts = []alert{
	{name: "deliveries-failing", title: "deliveries failing", severity: "ERROR",
		says: "More than 1 % of the push requests of a trigger's subscription are not acknowledged. " +
			"Pub/Sub delivers them again, and may delay all counters of the trigger.",
		condition: "More than 1 % not acknowledged within 15 minutes, for 20 minutes",
		query: rateByTrigger(pushed("count", unacknowledged), "15m") + " / " +
			rateByTrigger(pushed("count"), "15m") + " > 0.01",
		lasting: "1200s"},
	{name: "drift", title: "drift", severity: "ERROR",
		says: "A roll-up lacked a change for longer than an event may take. It was repaired. " +
			"Events are being lost, or come very late.",
		condition: "An audit found drift",
		filter:    driftLogged},
	{name: "events-dropped", title: "events dropped", severity: "ERROR",
		says: "An event was acknowledged without effect, because no retry could help: " +
			"it is of no route, or malformed.",
		condition: "An event was dropped",
		filter:    droppedLogged},
	{name: "lag", title: "lag", severity: "WARNING",
		says:      "Roll-ups come later than an event that fails once may take.",
		condition: "Late roll-ups within 5 minutes, for 10 minutes",
		query:     increased("tally_events_late", "5m") + " > 0",
		lasting:   "600s"},
	{name: "malformed-shards", title: "malformed shards", severity: "WARNING",
		says:      "Shards hold something else than a finite number, and are left out of their counters' totals.",
		condition: "Shards left out of a sum within an hour",
		query:     increased("tally_malformed_shards", "1h") + " > 0",
		lasting:   "0s"},
	{name: "no-tick", title: "no successful tick", severity: "ERROR",
		says: "RollUpOnSchedule has not succeeded for about three periods of its schedule, " +
			"which is taken to be ten minutes.",
		condition: "No successful tick in 20 minutes, for 12 minutes",
		query:     "(" + increased("tally_ticks", "20m") + " or vector(0)) < 1",
		lasting:   "720s"},
	{name: "push-latency", title: "push latency", severity: "WARNING",
		says: "The push requests of a trigger's subscription take nearly 1 s in the mean, and more than 1,000 are " +
			"outstanding. Above 1 s Pub/Sub lets only 3,000 be outstanding, and the other events wait.",
		condition: "Mean above 0.8 s with more than 1,000 outstanding, for 10 minutes",
		query: rateByTrigger(pushed("latencies_sum"), "10m") + " / " + rateByTrigger(pushed("latencies_count"), "10m") +
			" / 1e6 > 0.8 and " + rateByTrigger(pushed("latencies_sum"), "10m") + " / 1e6 > 1000",
		lasting: "600s"},
}

// policy returns the alert as Cloud Monitoring has it.
func (a *alert) policy() Object {
	strategy := Object{"autoClose": "86400s"}
	condition := Object{"displayName": a.condition}
	if a.filter != "" {
		// https://cloud.google.com/logging/docs/alerting/log-based-alerts: it must be limited.
		strategy["notificationRateLimit"] = Object{"period": "3600s"}
		condition["conditionMatchedLog"] = Object{"filter": a.filter}
	} else {
		// A metric that was created just before is not known yet, and the policy would be refused.
		condition["conditionPrometheusQueryLanguage"] = Object{"query": a.query, "duration": a.lasting,
			"evaluationInterval": "60s", "disableMetricValidation": true}
	}
	return Object{
		"displayName": "Tally: " + a.title,
		"userLabels":  Object{label: a.name},
		"severity":    a.severity,
		"documentation": Object{"mimeType": "text/markdown",
			"content": a.says + "\n\nWhat to do: https://" + module + "/blob/main/docs/playbooks/" + a.name + ".md"},
		"combiner":      "OR",
		"conditions":    []any{condition},
		"alertStrategy": strategy,
	}
}
