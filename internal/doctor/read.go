package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/deploy"
	"github.com/firestore-tally/tally/internal/app"
	"github.com/firestore-tally/tally/internal/appfolder"
	"google.golang.org/api/option"
)

// Read reads what is deployed in the project of an app, until ctx is done. The options are those of
// Google's clients. The error says why not even the functions could be read; findings tell what
// else could not.
func Read(ctx context.Context, project string, f *appfolder.Folder, o ...option.ClientOption) (*Deployment, error) {
	have, err := deploy.Read(ctx, project, o...)
	if err != nil {
		return nil, err
	}
	if u := have.Unread[deploy.Function]; u != nil {
		return nil, u
	}
	d := &Deployment{AsOf: time.Now(), Have: have}
	if d.describe(f); d.described != nil {
		have.ReadFor(ctx, d.described)
		d.mend = d.described.Mend(have)
		lost, others := d.described.Surplus(have)
		d.surplus = slices.Concat(lost.Steps, others.Steps)
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
	d.described, d.invalid = deploy.Describe(deploy.Options{Project: d.Have.Project, Databases: databases, Config: d.config, Env: env,
		Region: cmp.Or(f.Settings.Region, d.Have.Region()), Billing: cmp.Or(f.Settings.Billing, d.Have.Billing()),
		AlertEmail: f.Settings.AlertEmail}, d.Have, "")
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

// A trialResult is what the Firebase Rules API says of a case.
type trialResult struct {
	State         string
	FunctionCalls []any // for other documents
}

// try tries the rules of a database on the cases, and returns the result of each. It is an error if
// no rules are deployed, of which deploy.NotFound tells.
func (d *Deployment) try(ctx context.Context, database string, cases []RuleCase) ([]trialResult, error) {
	name := "v1/projects/" + d.Have.Project + "/releases/cloud.firestore"
	if database != firestore.DefaultDatabaseID {
		name += "/" + database
	}
	var release struct{ RulesetName string }
	err := d.Have.Call(ctx, deploy.RulesAPI, http.MethodGet, name, "", &release)
	if err != nil || len(cases) == 0 {
		return nil, err
	}
	var trials []object
	for _, c := range cases {
		trials = append(trials, c.trial(database, d.AsOf))
	}
	suite, err := json.Marshal(object{"testSuite": object{"testCases": trials}})
	if err != nil {
		return nil, err
	}
	var answer struct{ TestResults []trialResult }
	err = d.Have.Call(ctx, deploy.RulesAPI, http.MethodPost, "v1/"+release.RulesetName+":test", string(suite), &answer)
	if err == nil && len(answer.TestResults) != len(cases) {
		err = fmt.Errorf("%d cases were tried, and %d results came", len(cases), len(answer.TestResults))
	}
	return answer.TestResults, err
}

type object = map[string]any

// trial returns the case as the Firebase Rules API takes it
// (https://firebase.google.com/docs/reference/rules/rest/v1/projects/test#testcase).
func (c *RuleCase) trial(database string, now time.Time) object {
	request := object{
		"method": c.Method, "path": "/databases/" + database + "/documents/" + c.Path, "time": now.UTC().Format(time.RFC3339Nano),
		"auth": object{"uid": someID, "token": object{"sub": someID}},
	}
	if c.After != nil {
		request["resource"] = object{"data": c.After}
	}
	trial := object{"request": request, "expectation": "DENY", "pathEncoding": "PLAIN"}
	if c.Allow {
		trial["expectation"] = "ALLOW"
	}
	if c.Before != nil {
		trial["resource"] = object{"data": c.Before}
	}
	return trial
}
