package deploy

// A tile is a chart of the dashboard, or a text.
type tile struct {
	title         string
	width, height int // of 48 columns; tiles stand in rows
	plot, unit    string
	lines         []line
	text          string
}

// A line is a query in PromQL. Its legend names the result; without a legend the labels do.
type line struct{ query, legend string }

const (
	bars    = "STACKED_BAR"
	areas   = "STACKED_AREA"
	curves  = "LINE"
	columns = 48

	// interval is the variable that holds a chart's resolution.
	interval = "${__interval}"
)

// perSecond returns the query for how often something is counted.
func perSecond(by, metric string) string {
	return "sum by (" + by + `) (rate({"` + metric + `"}[` + interval + "]))"
}

// quantiles returns the median and the 99th percentile of a histogram of telemetry's.
func quantiles(metric string) []line { return quantilesOf(perSecond("le", metric)) }

// quantilesOf returns the median and the 99th percentile by a query for a histogram.
func quantilesOf(of string) []line {
	return []line{{"histogram_quantile(0.5, " + of + ")", "p50"}, {"histogram_quantile(0.99, " + of + ")", "p99"}}
}

var tiles = []tile{
	{"Ticks that succeeded", 12, 14, bars, "1", []line{{increased("tally_ticks", interval), "ticks"}}, ""},
	{"Drift, dropped events, malformed shards, unkept counters", 12, 14, bars, "1", []line{
		{increased("tally_drift", interval), "drift"},
		{increased("tally_events_dropped", interval), "dropped"},
		{increased("tally_malformed_shards", interval), "malformed"},
		{increased("tally_unkept", interval), "unkept"},
	}, ""},
	{"Failed deliveries, late roll-ups, calls that keep late", 12, 14, bars, "1", []line{
		{"sum(increase(" + pushed("count", unacknowledged) + "[" + interval + "]))", "failed"},
		{increased("tally_events_late", interval), "late"},
		{increased("tally_kept_late", interval), "kept late"},
	}, ""},
	{"Mean push latency", 12, 14, curves, "s", []line{{"sum(rate(" + pushed("latencies_sum") + "[" + interval + "])) / " +
		"sum(rate(" + pushed("latencies_count") + "[" + interval + "])) / 1e6", "mean"}}, ""},
	{"Lag: commit to as_of, sampled", 16, 14, curves, "s", quantilesOf(
		`sum by (le) (rate(logging_googleapis_com:user_tally_lag_bucket{monitored_resource="cloud_run_revision"}[` + interval + "]))"), ""},
	{"Age of the oldest event that waits", 16, 14, curves, "s", []line{{oldestEvent, ""}}, ""},
	{"Busy instances of RollUpOnWrite", 16, 14, curves, "1", []line{{busyInstances, "busy"}}, ""},
	{"With telemetry", columns, 5, "", "", nil, "The charts above come from the logs, Pub/Sub and Cloud Run. Those below stay " +
		"empty unless `TALLY_TELEMETRY=gcp`: https://" + module + "/blob/main/docs/operations.md"},
	{"Events a second, by outcome", 16, 16, areas, "1/s", []line{{perSecond("outcome", "tally.events"), ""}}, ""},
	{"Lag of held events: commit to as_of", 16, 16, curves, "s", quantiles("tally.lag"), ""},
	{"Time that events are held", 16, 16, curves, "s", quantiles("tally.held"), ""},
	{"Roll-ups a second, by outcome", 16, 16, areas, "1/s", []line{{perSecond("outcome", "tally.rollups"), ""}}, ""},
	{"Failed calls of Firestore a second", 16, 16, curves, "1/s",
		[]line{{perSecond(`operation, "error.type"`, "tally.errors"), ""}}, ""},
	{"Billed operations a second", 16, 16, areas, "1/s", []line{{perSecond("kind", "tally.billed"), ""}}, ""},
	{"Ticks", 16, 16, bars, "1", []line{{`sum by (outcome) (increase({"tally.ticks"}[` + interval + "]))", ""}}, ""},
	{"Audited counters, drift", 32, 16, bars, "1", []line{
		{`sum by (outcome) (increase({"tally.audited"}[` + interval + "]))", ""},
		{`sum(increase({"tally.drift"}[` + interval + "]))", "drift"},
	}, ""},
}
