package deploy

// Metric is the kind of metrics that are made of log lines.
var Metric Kind = &common{noun: "metric", from: loggingAPI, api: "v2", group: "logging metrics"}

// A logMetric counts log lines. Cloud Logging makes a metric without a descriptor a counter:
// https://cloud.google.com/logging/docs/reference/v2/rest/v2/projects.metrics
type logMetric struct{ name, description, filter string }

// lagMetric is the distribution of a number in log lines. From it comes a 99th percentile of lag
// without telemetry.
var lagMetric = Object{
	"name":           "tally_lag",
	"description":    "Seconds from a change's commit to as_of of the roll-up that covers it, of one event in ten seconds of each instance.",
	"filter":         logged("lag sampled"),
	"valueExtractor": "EXTRACT(jsonPayload.lag_seconds)",
	"metricDescriptor": Object{
		"metricKind": "DELTA", "valueType": "DISTRIBUTION", "unit": "s",
	},
	// From 10 ms to about two hours, each bound 1.4 times the one before.
	"bucketOptions": Object{
		"exponentialBuckets": Object{"scale": 0.01, "growthFactor": 1.4, "numFiniteBuckets": 40},
	},
}

var logMetrics = []logMetric{
	{"tally_drift", "Roll-ups that lacked a change for longer than an event may take, and were repaired.", driftLogged},
	{"tally_events_dropped", "Events that no retry could help: of no route, or malformed.", droppedLogged},
	{"tally_events_late", "Held events whose roll-up came later than an event that fails once may take.", logged("rolled up late")},
	{"tally_kept_late", "Calls of RollUpOnSchedule that found a roll-up of an every route twenty times as old as the route says.", logged("kept late")},
	{"tally_malformed_shards", "Sums that left out shards that hold no finite number.", logged("shards left out of the sum")},
	{"tally_unkept", "Counters that cannot be rolled up until somebody mends them, each logged at most once in ten minutes by an instance.", unkeptLogged},
	{"tally_ticks", "Calls of RollUpOnSchedule that did all they could: no errors, no dry run.",
		logged("audited") + " AND jsonPayload.report.dry_run=false AND NOT jsonPayload.report.errors:*"},
}

// A metric is one of logMetrics, or lagMetric.
type metric struct {
	wanted
	config string // all of it, for gcloud's input; "": the flags say it
}

// metrics adds the metrics that alerts and the dashboard ask for.
func (d *Description) metrics() {
	for _, m := range logMetrics {
		d.add(&metric{wanted: d.want(Metric, m.name,
			value("description", m.description, "--description"),
			value("filter", m.filter, "--log-filter"),
		)})
	}

	// gcloud has no flags for a distribution.
	d.add(&metric{d.want(Metric, lagMetric.name(), leaves("", lagMetric, "--config-from-file=-")...), lagMetric.text()})
}

func (m *metric) create() Command {
	c := m.wanted.create()
	c.Input = m.config
	return c
}

func (m *metric) update(have Object, changes []Change) Command {
	c := m.wanted.update(have, changes)
	c.Input = m.config
	return c
}

func (m *metric) terraform(t *terraform) {
	b := settingsOf(m)
	b["name"] = m.name
	t.add(metricType, m.name, b)
}
