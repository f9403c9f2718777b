package doctor

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/firestore"
	monitoring "cloud.google.com/go/monitoring/apiv3/v2"
	"cloud.google.com/go/monitoring/apiv3/v2/monitoringpb"
	"github.com/firestore-tally/tally/deploy"
	"github.com/firestore-tally/tally/internal/app"
	"github.com/firestore-tally/tally/internal/appfolder"
	"google.golang.org/api/firebaserules/v1"
	"google.golang.org/api/option"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Read reads what there is in the project of an app, until ctx is done, with the options of
// Google's clients over gRPC and over REST. The error says why not even the functions could be
// read; all else that could not be read is said in the Deployment.
func Read(ctx context.Context, project string, f *appfolder.Folder, grpc, rest []option.ClientOption) (*Deployment, error) {
	have, err := deploy.Read(ctx, project, grpc...)
	if err != nil {
		return nil, err
	}
	if u := have.Unread[deploy.Function]; u != nil {
		return nil, u
	}
	d := &Deployment{AsOf: time.Now(), Have: have, Rules: make(map[string]Fact[Rules]), Measured: make(map[string]Fact[float64])}
	if d.describe(f); d.described == nil {
		return d, nil
	}
	have.ReadFor(ctx, d.described, grpc...)
	d.mend = d.described.Mend(have)

	rules, err := firebaserules.NewService(ctx, rest...)
	if err != nil {
		return nil, deploy.ReadError(deploy.RulesAPI, project, "the rules", err)
	}
	series, err := monitoring.NewMetricClient(ctx, grpc...)
	if err != nil {
		return nil, deploy.ReadError(deploy.MonitoringAPI, project, "the metrics", err)
	}
	defer func() { _ = series.Close() }()
	var all sync.WaitGroup
	var mu sync.Mutex
	for _, database := range d.described.Databases {
		all.Go(func() {
			tried := rulesOf(ctx, rules, project, database.ID, ruleCases(d.config.Routes))
			mu.Lock()
			defer mu.Unlock()
			d.Rules[database.ID] = tried
		})
	}
	for metric := range metrics {
		all.Go(func() {
			measured := d.measure(ctx, series, metric)
			mu.Lock()
			defer mu.Unlock()
			d.Measured[metric] = measured
		})
	}
	all.Wait()
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

// What is asked of Cloud Monitoring (https://cloud.google.com/monitoring/api/metrics_gcp_p_z), and
// how a day's values of one series become one.
const (
	drifted   = "logging.googleapis.com/user/tally_drift"
	late      = "logging.googleapis.com/user/tally_events_late"
	requests  = "run.googleapis.com/request_count"
	billable  = "run.googleapis.com/container/billable_instance_time"
	instances = "run.googleapis.com/container/instance_count"
)

var metrics = map[string]monitoringpb.Aggregation_Aligner{
	drifted: monitoringpb.Aggregation_ALIGN_SUM, late: monitoringpb.Aggregation_ALIGN_SUM, requests: monitoringpb.Aggregation_ALIGN_SUM,
	billable: monitoringpb.Aggregation_ALIGN_SUM, instances: monitoringpb.Aggregation_ALIGN_MEAN,
}

const day = 24 * time.Hour

// measure returns the sum of a metric's series over the last day, of Cloud Run's those of
// RollUpOnWrite.
func (d *Deployment) measure(ctx context.Context, c *monitoring.MetricClient, metric string) Fact[float64] {
	filter := fmt.Sprintf("metric.type = %q", metric)
	if strings.HasPrefix(metric, "run.") {
		filter += fmt.Sprintf(" AND resource.labels.service_name = %q", deploy.OnWriteName)
	}
	var sum float64
	for series, err := range c.ListTimeSeries(ctx, &monitoringpb.ListTimeSeriesRequest{
		Name: "projects/" + d.Have.Project, Filter: filter,
		Interval:    &monitoringpb.TimeInterval{StartTime: timestamppb.New(d.AsOf.Add(-day)), EndTime: timestamppb.New(d.AsOf)},
		Aggregation: &monitoringpb.Aggregation{AlignmentPeriod: durationpb.New(day), PerSeriesAligner: metrics[metric]},
	}).All() {
		if deploy.NotFound(err) { // there is no such metric yet
			break
		}
		if err != nil {
			return Fact[float64]{Unread: deploy.ReadError(deploy.MonitoringAPI, d.Have.Project, "the metric "+metric, err)}
		}
		for _, p := range series.GetPoints() {
			sum += p.GetValue().GetDoubleValue() + float64(p.GetValue().GetInt64Value())
		}
	}
	return Fact[float64]{Value: sum}
}

// rulesOf tries the rules of a database on the cases.
func rulesOf(ctx context.Context, rules *firebaserules.Service, project, database string, cases []RuleCase) Fact[Rules] {
	what := "the rules of database " + database
	release := "projects/" + project + "/releases/cloud.firestore"
	if database != firestore.DefaultDatabaseID {
		release += "/" + database
	}
	deployed, err := rules.Projects.Releases.Get(release).Context(ctx).Do()
	if deploy.NotFound(err) {
		return Fact[Rules]{}
	}
	var answer *firebaserules.TestRulesetResponse
	if err == nil {
		suite := new(firebaserules.TestSuite)
		for _, c := range cases {
			suite.TestCases = append(suite.TestCases, c.trial(database, time.Now()))
		}
		answer, err = rules.Projects.Test(deployed.RulesetName, &firebaserules.TestRulesetRequest{TestSuite: suite}).Context(ctx).Do()
	}
	if err == nil && len(answer.TestResults) != len(cases) {
		err = fmt.Errorf("%d cases were tried, and %d results came", len(cases), len(answer.TestResults))
	}
	if err != nil {
		return Fact[Rules]{Unread: deploy.ReadError(deploy.RulesAPI, project, what, err)}
	}
	tried := Rules{Deployed: true}
	for i, c := range cases {
		result := answer.TestResults[i]
		tried.Results = append(tried.Results, RuleResult{c, result.State == "SUCCESS", len(result.FunctionCalls) > 0})
	}
	return Fact[Rules]{Value: tried}
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
