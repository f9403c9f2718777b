package doctor

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/deploy"
	"github.com/firestore-tally/tally/internal/app"
	"github.com/firestore-tally/tally/internal/appfolder"
	"google.golang.org/api/firebaserules/v1"
	"google.golang.org/api/option"
)

// Read reads what is deployed in the project of an app, until ctx is done. The options are those of
// Google's clients: of the one of the Rules API, and of all others. The error says why not even the
// functions could be read; findings tell what else could not.
func Read(ctx context.Context, project string, f *appfolder.Folder, apis, rulesAPI []option.ClientOption) (*Deployment, error) {
	have, err := deploy.Read(ctx, project, apis...)
	if err != nil {
		return nil, err
	}
	if u := have.Unread[deploy.Function]; u != nil {
		return nil, u
	}
	rules, err := firebaserules.NewService(ctx, rulesAPI...)
	if err != nil {
		return nil, deploy.ReadError(deploy.RulesAPI, project, "the rules", err)
	}
	d := &Deployment{AsOf: time.Now(), Have: have, rules: rules}
	if d.describe(f); d.described != nil {
		have.ReadFor(ctx, d.described)
		d.mend, d.surplus = d.described.Mend(have), d.described.Surplus(have)
	}
	return d, nil
}

// describe describes the deployment as tally deploy would have it, by tally.yaml or by the
// variables of its functions.
func (d *Deployment) describe(f *appfolder.Folder) {
	env := d.Have.Env()
	if len(env) > 0 {
		env = d.Have.Wanted(f)
	}
	if d.config, d.invalid = app.LoadConfig(env); d.invalid != nil {
		return
	}
	var databases []deploy.Database
	databases, d.noDatabase = d.Have.Locate(d.config.Databases)
	if len(databases) == 0 {
		return
	}
	described, err := deploy.Describe(deploy.Options{Project: d.Have.Project, Region: cmp.Or(f.Settings.Region, d.Have.Region()), Databases: databases, Config: d.config, Env: env, Billing: cmp.Or(f.Settings.Billing, d.Have.Billing())}, d.Have.Number, "")
	if err != nil {
		d.invalid = err
		return
	}
	described.Monitor(d.Have, f.Settings.AlertEmail)
	d.described = described
}

// What is asked of Cloud Monitoring (https://cloud.google.com/monitoring/api/metrics_gcp_p_z).
const (
	drifted   = "logging.googleapis.com/user/tally_drift"
	late      = "logging.googleapis.com/user/tally_events_late"
	requests  = "run.googleapis.com/request_count"
	billable  = "run.googleapis.com/container/billable_instance_time"
	instances = "run.googleapis.com/container/instance_count"
)

const day = 24 * time.Hour

// measure returns the sum of a metric's series over the last day, of Cloud Run's those of
// RollUpOnWrite. It notes that they could not be read.
func (e *examination) measure(ctx context.Context, metric string) (sum float64) {
	filter := fmt.Sprintf("metric.type = %q", metric)
	if strings.HasPrefix(metric, "run.") {
		filter += fmt.Sprintf(" AND resource.labels.service_name = %q", deploy.OnWriteName)
	}
	aligner := "ALIGN_SUM"
	if metric == instances {
		aligner = "ALIGN_MEAN"
	}
	query := url.Values{
		"filter":                       {filter},
		"interval.startTime":           {e.AsOf.Add(-day).Format(time.RFC3339Nano)},
		"interval.endTime":             {e.AsOf.Format(time.RFC3339Nano)},
		"aggregation.alignmentPeriod":  {fmt.Sprintf("%.0fs", day.Seconds())},
		"aggregation.perSeriesAligner": {aligner},
	}
	all, err := e.Have.List(ctx, deploy.MonitoringAPI, "v3/projects/"+e.Have.Project+"/timeSeries?"+query.Encode())
	if err != nil && !deploy.NotFound(err) { // or there is no such metric yet
		e.unknown(deploy.ReadError(deploy.MonitoringAPI, e.Have.Project, "the metric "+metric, err))
		return 0
	}
	for _, series := range all { // each has one point, for the day
		const value = "points.0.value."
		number, _ := strconv.ParseFloat(cmp.Or(series.Get(value+"doubleValue"), series.Get(value+"int64Value")), 64)
		sum += number
	}
	return sum
}

// try tries the rules of a database on the cases, and returns the result of each. It is an error if
// no rules are deployed, of which deploy.NotFound tells.
func (d *Deployment) try(ctx context.Context, database string, cases []RuleCase) ([]*firebaserules.TestResult, error) {
	release := "projects/" + d.Have.Project + "/releases/cloud.firestore"
	if database != firestore.DefaultDatabaseID {
		release += "/" + database
	}
	deployed, err := d.rules.Projects.Releases.Get(release).Context(ctx).Do()
	if err != nil || len(cases) == 0 {
		return nil, err
	}
	suite := new(firebaserules.TestSuite)
	for _, c := range cases {
		suite.TestCases = append(suite.TestCases, c.trial(database, time.Now()))
	}
	request := &firebaserules.TestRulesetRequest{TestSuite: suite}
	answer, err := d.rules.Projects.Test(deployed.RulesetName, request).Context(ctx).Do()
	if err != nil {
		return nil, err
	}
	if len(answer.TestResults) != len(cases) {
		return nil, fmt.Errorf("%d cases were tried, and %d results came", len(cases), len(answer.TestResults))
	}
	return answer.TestResults, nil
}

// trial returns the case as the Firebase Rules API takes it.
func (c *RuleCase) trial(database string, now time.Time) *firebaserules.TestCase {
	request := map[string]any{"method": c.Method, "path": "/databases/" + database + "/documents/" + c.Path, "time": now.UTC().Format(time.RFC3339Nano)}
	if c.SignedIn {
		request["auth"] = map[string]any{"uid": someID, "token": map[string]any{"sub": someID}}
	}
	if c.After != nil {
		request["resource"] = map[string]any{"data": c.After}
	}
	t := &firebaserules.TestCase{Request: request, Expectation: "DENY", PathEncoding: "PLAIN"}
	if c.Allow {
		t.Expectation = "ALLOW"
	}
	if c.Before != nil {
		t.Resource = map[string]any{"data": c.Before}
	}
	return t
}
