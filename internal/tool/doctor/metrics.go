package doctor

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/firestore-tally/tally/internal/tool/deploy"
)

// Metrics of Cloud Monitoring (https://cloud.google.com/monitoring/api/metrics_gcp_p_z).
const (
	pushes   = "pubsub.googleapis.com/subscription/push_request_count"
	waiting  = "pubsub.googleapis.com/subscription/num_undelivered_messages"
	attempts = "cloudtasks.googleapis.com/queue/task_attempt_count"
	delays   = "cloudtasks.googleapis.com/queue/task_attempt_delays"
	oldest   = "pubsub.googleapis.com/subscription/oldest_unacked_message_age"
)

const day = 24 * time.Hour

// A question asks for the time series of a metric.
type question struct {
	metric  string
	where   string        // a further filter of Cloud Monitoring's; empty: none
	aligner string        // how the values become one
	within  time.Duration // how long ago they begin
}

// ask returns the series. If they cannot be read, it notes that and returns none.
func (e *examination) ask(ctx context.Context, q question) []deploy.Object {
	filter := fmt.Sprintf("metric.type = %q", q.metric)
	if q.where != "" {
		filter += " AND " + q.where
	}
	query := url.Values{
		"filter":                       {filter},
		"interval.startTime":           {e.AsOf.Add(-q.within).Format(time.RFC3339Nano)},
		"interval.endTime":             {e.AsOf.Format(time.RFC3339Nano)},
		"aggregation.alignmentPeriod":  {fmt.Sprintf("%.0fs", q.within.Seconds())},
		"aggregation.perSeriesAligner": {q.aligner},
	}

	all, err := e.Project.List(ctx, "monitoring.googleapis.com/v3/projects/"+e.Project.ID+"/timeSeries?"+query.Encode())
	if err != nil && !deploy.NotFound(err) { // NotFound: there is no such metric yet
		e.unknown(e.Project.Unreadable("monitoring", "the metric "+q.metric, err))
		return nil
	}
	return all
}

// point returns the newest point of a series, 0 if there is none.
func point(series deploy.Object) float64 {
	const value = "points.0.value."
	number, _ := strconv.ParseFloat(cmp.Or(series.Get(value+"doubleValue"), series.Get(value+"int64Value")), 64)
	return number
}
