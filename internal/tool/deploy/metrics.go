package deploy

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strconv"
	"time"
)

// A Question asks for the time series of a metric of Cloud Monitoring
// (https://cloud.google.com/monitoring/api/metrics_gcp_p_z).
type Question struct {
	Metric  string
	Where   string        // a further filter of Cloud Monitoring's; empty: none
	Aligner string        // how the values become one
	Within  time.Duration // how long ago they begin
}

// Series returns the series until now. There are none of a metric that is not known yet.
func (p *Project) Series(ctx context.Context, q Question, now time.Time) ([]Object, error) {
	filter := fmt.Sprintf("metric.type = %q", q.Metric)
	if q.Where != "" {
		filter += " AND " + q.Where
	}
	query := url.Values{
		"filter":                       {filter},
		"interval.startTime":           {now.Add(-q.Within).Format(time.RFC3339Nano)},
		"interval.endTime":             {now.Format(time.RFC3339Nano)},
		"aggregation.alignmentPeriod":  {fmt.Sprintf("%.0fs", q.Within.Seconds())},
		"aggregation.perSeriesAligner": {q.Aligner},
	}

	all, err := p.List(ctx, "monitoring.googleapis.com/v3/projects/"+p.ID+"/timeSeries?"+query.Encode())
	if NotFound(err) {
		return nil, nil
	}
	return all, err
}

// Point returns the newest point of a series, 0 if there is none.
func Point(series Object) float64 {
	const value = "points.0.value."
	number, _ := strconv.ParseFloat(cmp.Or(series.Get(value+"doubleValue"), series.Get(value+"int64Value")), 64)
	return number
}
