package googletest

import (
	"context"
	"errors"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"

	eventarc "cloud.google.com/go/eventarc/apiv1"
	"cloud.google.com/go/eventarc/apiv1/eventarcpb"
	firestoreadmin "cloud.google.com/go/firestore/apiv1/admin"
	"cloud.google.com/go/firestore/apiv1/admin/adminpb"
	functions "cloud.google.com/go/functions/apiv2"
	"cloud.google.com/go/functions/apiv2/functionspb"
	iamadmin "cloud.google.com/go/iam/admin/apiv1"
	iamadminpb "cloud.google.com/go/iam/admin/apiv1/adminpb"
	"cloud.google.com/go/iam/apiv1/iampb"
	logging "cloud.google.com/go/logging/apiv2"
	"cloud.google.com/go/logging/apiv2/loggingpb"
	monitoring "cloud.google.com/go/monitoring/apiv3/v2"
	"cloud.google.com/go/monitoring/apiv3/v2/monitoringpb"
	dashboard "cloud.google.com/go/monitoring/dashboard/apiv1"
	"cloud.google.com/go/monitoring/dashboard/apiv1/dashboardpb"
	pubsub "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	resourcemanager "cloud.google.com/go/resourcemanager/apiv3"
	"cloud.google.com/go/resourcemanager/apiv3/resourcemanagerpb"
	run "cloud.google.com/go/run/apiv2"
	"cloud.google.com/go/run/apiv2/runpb"
	scheduler "cloud.google.com/go/scheduler/apiv1"
	"cloud.google.com/go/scheduler/apiv1/schedulerpb"
	serviceusage "cloud.google.com/go/serviceusage/apiv1"
	"cloud.google.com/go/serviceusage/apiv1/serviceusagepb"
	"github.com/googleapis/gax-go/v2/apierror"
	resourcemanagerv1 "google.golang.org/api/cloudresourcemanager/v1"
	eventarcv1 "google.golang.org/api/eventarc/v1"
	"google.golang.org/api/firebaserules/v1"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/iterator"
	"google.golang.org/api/option"
	pubsubv1 "google.golang.org/api/pubsub/v1"
	runv2 "google.golang.org/api/run/v2"
	"google.golang.org/genproto/googleapis/api/metric"
	"google.golang.org/genproto/googleapis/cloud/location"
	"google.golang.org/genproto/googleapis/type/expr"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
)

const (
	here     = "projects/" + project + "/locations/us-central1"
	function = here + "/functions/tally"
	service  = here + "/services/tally"
)

// deployed is a Google with one or two of everything.
func deployed(t *testing.T) *Google {
	g := Start(t, project)
	for _, api := range apis {
		g.Enable(api + ".googleapis.com")
	}
	for _, email := range []string{"a@" + project + ".iam.gserviceaccount.com", "b@" + project + ".iam.gserviceaccount.com"} {
		g.Put("projects/"+project+"/serviceAccounts/"+email, &iamadminpb.ServiceAccount{})
	}
	g.SetPolicy("projects/"+project, &iampb.Policy{Bindings: []*iampb.Binding{{Role: "roles/eventarc.eventReceiver", Members: []string{"serviceAccount:a@" + project + ".iam.gserviceaccount.com"}}}})
	g.Put(function, &functionspb.Function{})
	g.Put(function+"-2", &functionspb.Function{EventTrigger: &functionspb.EventTrigger{TriggerRegion: "nam5", EventType: "t"}})
	g.Put(here+"/triggers/x", &eventarcpb.Trigger{})
	g.Put(here+"/jobs/j", &schedulerpb.Job{})
	g.Put("projects/"+project+"/metrics/m", &loggingpb.LogMetric{Filter: "f"})
	g.Put("projects/"+project+"/alertPolicies/1", &monitoringpb.AlertPolicy{DisplayName: "Lag"})
	g.Put("projects/"+project+"/notificationChannels/1", &monitoringpb.NotificationChannel{Labels: map[string]string{"email_address": "a"}})
	g.Put("projects/"+project+"/notificationChannels/2", &monitoringpb.NotificationChannel{Labels: map[string]string{"email_address": "b"}})
	g.Put("projects/"+project+"/dashboards/1", &dashboardpb.Dashboard{DisplayName: "Tally"})
	g.Series = []*monitoringpb.TimeSeries{{Metric: &metric.Metric{Type: "a"}}, {Metric: &metric.Metric{Type: "b"}}, {Metric: &metric.Metric{Type: "a"}}}
	return g
}

// client opens one of Google's clients.
func client[C interface{ Close() error }](t *testing.T, g *Google, open func(context.Context, ...option.ClientOption) (C, error)) C {
	t.Helper()
	c, err := open(t.Context(), g.GRPC()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// all reads all pages of a list.
func all[T any](t *testing.T, next func() (T, error)) []T {
	t.Helper()
	var list []T
	for {
		item, err := next()
		if errors.Is(err, iterator.Done) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, item)
	}
}

// must returns what a call answered.
func must[T any](answer T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
}

func TestClientsRead(t *testing.T) {
	g, ctx := deployed(t), t.Context()
	check := func(what string, got, want any) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	f := client(t, g, functions.NewFunctionClient)
	check("functions", len(all(t, f.ListFunctions(ctx, &functionspb.ListFunctionsRequest{Parent: "projects/" + project + "/locations/-"}).Next)), 2)
	check("functions elsewhere", len(all(t, f.ListFunctions(ctx, &functionspb.ListFunctionsRequest{Parent: "projects/" + project + "/locations/nam5"}).Next)), 0)
	check("service of a function", must(f.GetFunction(ctx, &functionspb.GetFunctionRequest{Name: function}))(t).ServiceConfig.Service, service)

	pages := f.ListFunctions(ctx, &functionspb.ListFunctionsRequest{Parent: "projects/" + project + "/locations/-"})
	must(pages.Next())(t)
	check("next page", pages.PageInfo().Token, "1")
	g.Unreachable = []string{"asia-east1"}
	must(pages.Next())(t)
	check("unreachable", strings.Join(pages.Response.(*functionspb.ListFunctionsResponse).Unreachable, " "), "asia-east1")

	s := client(t, g, run.NewServicesClient)
	check("address", must(s.GetService(ctx, &runpb.GetServiceRequest{Name: service}))(t).Uri, "https://tally-abc123-uc.a.run.app")
	check("invokers", len(must(s.GetIamPolicy(ctx, &iampb.GetIamPolicyRequest{Resource: service}))(t).Bindings), 0)

	e := client(t, g, eventarc.NewClient)
	triggers := all(t, e.ListTriggers(ctx, &eventarcpb.ListTriggersRequest{Parent: "projects/" + project + "/locations/-"}).Next)
	check("triggers", len(triggers), 2)
	check("destination", triggers[0].GetDestination().GetCloudFunction(), function+"-2")

	p := client(t, g, pubsub.NewSubscriptionAdminClient)
	subscription := triggers[1].GetTransport().GetPubsub().GetSubscription()
	check("deadline", must(p.GetSubscription(ctx, &pubsubpb.GetSubscriptionRequest{Subscription: subscription}))(t).AckDeadlineSeconds, int32(10))

	j := client(t, g, scheduler.NewCloudSchedulerClient)
	check("jobs", len(all(t, j.ListJobs(ctx, &schedulerpb.ListJobsRequest{Parent: here}).Next)), 1)
	check("locations", len(all(t, j.ListLocations(ctx, &location.ListLocationsRequest{Name: "projects/" + project}).Next)), 2)

	i := client(t, g, iamadmin.NewIamClient)
	check("accounts", len(all(t, i.ListServiceAccounts(ctx, &iamadminpb.ListServiceAccountsRequest{Name: "projects/" + project}).Next)), 2)

	r := client(t, g, resourcemanager.NewProjectsClient)
	check("project", must(r.GetProject(ctx, &resourcemanagerpb.GetProjectRequest{Name: "projects/" + project}))(t).Name, "projects/"+Number)
	check("roles", must(r.GetIamPolicy(ctx, &iampb.GetIamPolicyRequest{Resource: "projects/" + project}))(t).Bindings[0].Role, "roles/eventarc.eventReceiver")

	u := client(t, g, serviceusage.NewClient)
	check("APIs", len(all(t, u.ListServices(ctx, &serviceusagepb.ListServicesRequest{Parent: "projects/" + project, Filter: "state:ENABLED"}).Next)), len(apis))

	d := client(t, g, firestoreadmin.NewFirestoreAdminClient)
	check("databases", must(d.ListDatabases(ctx, &adminpb.ListDatabasesRequest{Parent: "projects/" + project}))(t).Databases[0].LocationId, "nam5")
	field := must(d.GetField(ctx, &adminpb.GetFieldRequest{Name: "projects/" + project + "/databases/(default)/collectionGroups/c/fields/f"}))(t)
	check("field by default", field.IndexConfig.UsesAncestorConfig, true)

	l := client(t, g, logging.NewMetricsClient)
	check("log metric", all(t, l.ListLogMetrics(ctx, &loggingpb.ListLogMetricsRequest{Parent: "projects/" + project}).Next)[0].Name, "m")

	a := client(t, g, monitoring.NewAlertPolicyClient)
	check("alert", all(t, a.ListAlertPolicies(ctx, &monitoringpb.ListAlertPoliciesRequest{Name: "projects/" + project}).Next)[0].DisplayName, "Lag")
	n := client(t, g, monitoring.NewNotificationChannelClient)
	check("channel", all(t, n.ListNotificationChannels(ctx, &monitoringpb.ListNotificationChannelsRequest{Name: "projects/" + project, Filter: `labels.email_address="b"`}).Next)[0].Name,
		"projects/"+project+"/notificationChannels/2")
	m := client(t, g, monitoring.NewMetricClient)
	check("series", len(all(t, m.ListTimeSeries(ctx, &monitoringpb.ListTimeSeriesRequest{Name: "projects/" + project, Filter: `metric.type = "a"`}).Next)), 2)
	b := client(t, g, dashboard.NewDashboardsClient)
	check("dashboard", all(t, b.ListDashboards(ctx, &dashboardpb.ListDashboardsRequest{Parent: "projects/" + project}).Next)[0].DisplayName, "Tally")
}

// TestRESTClients reads as those of Google's clients do that have no gRPC.
func TestRESTClients(t *testing.T) {
	g, ctx := deployed(t), t.Context()
	projects := must(resourcemanagerv1.NewService(ctx, g.REST()...))(t)
	if p := must(projects.Projects.GetIamPolicy(project, &resourcemanagerv1.GetIamPolicyRequest{}).Do())(t); p.Bindings[0].Role != "roles/eventarc.eventReceiver" {
		t.Errorf("policy: %v", p.Bindings)
	}
	e := must(eventarcv1.NewService(ctx, g.REST()...))(t)
	trigger := must(e.Projects.Locations.Triggers.Get(here + "/triggers/x").Do())(t)
	p := must(pubsubv1.NewService(ctx, g.REST()...))(t)
	if s := must(p.Projects.Subscriptions.Get(trigger.Transport.Pubsub.Subscription).Do())(t); s.AckDeadlineSeconds != 10 {
		t.Errorf("deadline: %d", s.AckDeadlineSeconds)
	}
	r := must(runv2.NewService(ctx, g.REST()...))(t)
	if s := must(r.Projects.Locations.Services.Get(service).Do())(t); !slices.Contains(s.Urls, "https://tally-"+Number+".us-central1.run.app") {
		t.Errorf("addresses: %q", s.Urls)
	}
	if _, err := r.Projects.Locations.Services.Get(service + "-3").Do(); !isHTTP(err, 404, "NOT_FOUND") {
		t.Errorf("no such service: %v", err)
	}
	if _, err := r.Projects.Locations.Services.Patch(service, &runv2.GoogleCloudRunV2Service{}).UpdateMask("nothing").Do(); !isHTTP(err, 400, "INVALID_ARGUMENT") {
		t.Errorf("unknown field: %v", err)
	}
}

// TestRequestsMustFit sends what the API's message has no field for.
func TestRequestsMustFit(t *testing.T) {
	c := http.Client{Transport: toServer{deployed(t).rest}}
	for body, want := range map[string]int{`{"schedule": "* * * * *", "name": "` + here + `/jobs/new"}`: 200, `{"scedule": "* * * * *"}`: 400, `{"state": "NONE"}`: 400} {
		answer := must(c.Post("http://cloudscheduler.googleapis.com/v1/"+here+"/jobs", "application/json", strings.NewReader(body)))(t)
		if err := answer.Body.Close(); err != nil || answer.StatusCode != want {
			t.Errorf("%s: %s, %v, want %d", body, answer.Status, err, want)
		}
	}
}

func isHTTP(err error, code int, status string) bool {
	var e *googleapi.Error
	return errors.As(err, &e) && e.Code == code && strings.Contains(e.Body, status)
}

func TestRules(t *testing.T) {
	g := Start(t, project)
	g.Enable("firebaserules.googleapis.com")
	g.Rules = func(release string, c RulesCase) *RulesResult {
		g.Get(release) // no call waits for this one
		if release != "cloud.firestore/orders" {
			return nil
		}
		return &RulesResult{Allow: c.Request.Method == "get" && c.Request.Auth.UID == "u", Asks: c.Request.Path == "/asks"}
	}
	rules := must(firebaserules.NewService(t.Context(), g.REST()...))(t)
	if _, err := rules.Projects.Releases.Get("projects/" + project + "/releases/cloud.firestore").Do(); !isHTTP(err, 404, "NOT_FOUND") {
		t.Errorf("no such release: %v", err)
	}
	release := must(rules.Projects.Releases.Get("projects/" + project + "/releases/cloud.firestore/orders").Do())(t)
	var cases []*firebaserules.TestCase
	for _, request := range []map[string]any{
		{"method": "get", "path": "/a", "auth": map[string]any{"uid": "u"}},
		{"method": "update", "path": "/asks", "auth": map[string]any{"uid": "u"}},
	} {
		cases = append(cases, &firebaserules.TestCase{Expectation: "ALLOW", Request: request})
	}
	answer := must(rules.Projects.Test(release.RulesetName, &firebaserules.TestRulesetRequest{TestSuite: &firebaserules.TestSuite{TestCases: cases}}).Do())(t)
	if r := answer.TestResults; r[0].State != "SUCCESS" || r[1].State != "FAILURE" || len(r[0].FunctionCalls) != 0 || len(r[1].FunctionCalls) != 1 {
		t.Errorf("results: %+v, %+v", r[0], r[1])
	}
}

func TestFailures(t *testing.T) {
	g, ctx := deployed(t), t.Context()
	d := client(t, g, firestoreadmin.NewFirestoreAdminClient)
	create := func(id string) error {
		_, err := d.CreateDatabase(ctx, &adminpb.CreateDatabaseRequest{Parent: "projects/" + project, DatabaseId: id, Database: &adminpb.Database{LocationId: "eur3"}})
		return err
	}
	const api = "firestore.googleapis.com"
	g.Fail(api, "CreateDatabase", status.Error(codes.ResourceExhausted, "too many"), 1)
	if err := create("a"); status.Code(err) != codes.ResourceExhausted || g.Get("projects/"+project+"/databases/a") != nil {
		t.Errorf("failed: %v, %v", err, g.Get("projects/"+project+"/databases/a"))
	}
	if err := create("a"); err != nil {
		t.Errorf("after it failed: %v", err)
	}
	g.Lose(api, "", status.Error(codes.Internal, "lost"), -1)
	for _, id := range []string{"b", "c"} {
		if err := create(id); status.Code(err) != codes.Internal || g.Get("projects/"+project+"/databases/"+id) == nil {
			t.Errorf("lost: %v, %v", err, g.Get("projects/"+project+"/databases/"+id))
		}
	}
	g.Mend()
	if err := create("d"); err != nil {
		t.Errorf("mended: %v", err)
	}
	if err := create("d"); status.Code(err) != codes.AlreadyExists {
		t.Errorf("twice: %v", err)
	}
	want := "CreateDatabase projects/" + project + "/databases/"
	if got := g.Changes(); !slices.Equal(got, []string{want + "a", want + "b", want + "c", want + "d"}) {
		t.Errorf("changes: %q", got)
	}

	off := Start(t, project)
	_, err := client(t, off, scheduler.NewCloudSchedulerClient).GetJob(ctx, &schedulerpb.GetJobRequest{Name: here + "/jobs/j"})
	var detailed *apierror.APIError
	if !errors.As(err, &detailed) || detailed.Reason() != "SERVICE_DISABLED" || detailed.Metadata()["service"] != "cloudscheduler.googleapis.com" || status.Code(err) != codes.PermissionDenied {
		t.Errorf("not enabled: %v", err)
	}
}

func TestPolicies(t *testing.T) {
	g, ctx := deployed(t), t.Context()
	c := client(t, g, resourcemanager.NewProjectsClient)
	read := func(version int32) *iampb.Policy {
		return must(c.GetIamPolicy(ctx, &iampb.GetIamPolicyRequest{Resource: "projects/" + project, Options: &iampb.GetPolicyOptions{RequestedPolicyVersion: version}}))(t)
	}
	write := func(p *iampb.Policy) error {
		_, err := c.SetIamPolicy(ctx, &iampb.SetIamPolicyRequest{Resource: "projects/" + project, Policy: p})
		return err
	}
	old := read(3)
	p := proto.CloneOf(old)
	p.Bindings = append(p.Bindings, &iampb.Binding{Role: "roles/viewer", Members: []string{"user:u@example.com"}})
	if err := write(p); err != nil {
		t.Fatal(err)
	}
	if err := write(old); status.Code(err) != codes.Aborted {
		t.Errorf("from an old policy: %v", err)
	}
	p = read(3)
	p.Bindings, p.Version = append(p.Bindings, &iampb.Binding{Role: "roles/viewer", Members: []string{"user:v@example.com"}, Condition: &expr.Expr{Title: "c"}}), 3
	if err := write(p); err != nil {
		t.Fatal(err)
	}
	if got := read(0); got.Version != 1 || got.Bindings[2].Condition != nil || got.Bindings[2].Role == "roles/viewer" || read(3).Version != 3 {
		t.Errorf("read as of old: %v", got)
	}
	if err := write(read(0)); status.Code(err) != codes.InvalidArgument {
		t.Errorf("written as of old: %v", err)
	}
	p = read(3)
	p.Bindings[0].Members = append(p.Bindings[0].Members, "serviceAccount:gone@"+project+".iam.gserviceaccount.com")
	if err := write(p); status.Code(err) != codes.InvalidArgument {
		t.Errorf("of an account that does not exist: %v", err)
	}
	g.Delete("projects/" + project + "/serviceAccounts/a@" + project + ".iam.gserviceaccount.com")
	if got := read(3).Bindings[0].Members[0]; !strings.HasPrefix(got, "deleted:serviceAccount:a@") {
		t.Errorf("member of a deleted account: %s", got)
	}
	if err := write(read(3)); err != nil {
		t.Errorf("with a deleted account: %v", err)
	}
}

func TestFunctionThatIsNotBuilt(t *testing.T) {
	g, ctx := deployed(t), t.Context()
	g.Build = func(*functionspb.Function) error { return status.Error(codes.InvalidArgument, "Build failed") }
	c := client(t, g, functions.NewFunctionClient)
	op := must(c.CreateFunction(ctx, &functionspb.CreateFunctionRequest{Parent: here, FunctionId: "new", Function: &functionspb.Function{}}))(t)
	if _, err := op.Wait(ctx); status.Code(err) != codes.InvalidArgument {
		t.Errorf("new: %v", err)
	}
	if f := g.Get(here + "/functions/new").(*functionspb.Function); f.State != functionspb.Function_FAILED || f.ServiceConfig.Uri != "" || g.Get(here+"/services/new") != nil {
		t.Errorf("new: %v, %v", f, g.Get(here+"/services/new"))
	}
	update := &functionspb.UpdateFunctionRequest{
		Function:   &functionspb.Function{Name: function, ServiceConfig: &functionspb.ServiceConfig{AvailableMemory: "2Gi"}},
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"service_config.available_memory"}},
	}
	if _, err := must(c.UpdateFunction(ctx, update))(t).Wait(ctx); status.Code(err) != codes.InvalidArgument {
		t.Errorf("update: %v", err)
	}
	if f := g.Get(function).(*functionspb.Function); f.State != functionspb.Function_ACTIVE || f.ServiceConfig.AvailableMemory != "256M" {
		t.Errorf("update: %v", f)
	}
	g.Build = nil
	if f := must(must(c.UpdateFunction(ctx, update))(t).Wait(ctx))(t); f.ServiceConfig.AvailableMemory != "2Gi" || f.ServiceConfig.TimeoutSeconds != 60 {
		t.Errorf("built: %v", f)
	}
	Change(g, function, func(f *functionspb.Function) { f.State = functionspb.Function_DELETING })
	update.Function.EventTrigger, update.UpdateMask.Paths[0] = &functionspb.EventTrigger{EventType: "t"}, "event_trigger"
	if _, err := c.UpdateFunction(ctx, update); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a trigger: %v", err)
	}
	update.Function.Name += "-2"
	update.Function.EventTrigger.TriggerRegion, update.Function.EventTrigger.EventType = "nam5", "u"
	if _, err := c.UpdateFunction(ctx, update); status.Code(err) != codes.InvalidArgument {
		t.Errorf("another event type: %v", err)
	}
}

// TestMachinesGcloud runs the machine's gcloud itself.
func TestMachinesGcloud(t *testing.T) {
	g := Start(t, project)
	cmd := exec.Command("gcloud", "--project="+project, "firestore", "databases", "list", "--format=value(name)")
	cmd.Env = g.Environ()
	out, err := cmd.CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "projects/"+project+"/databases/(default)" {
		t.Errorf("gcloud: %v\n%s", err, out)
	}
}
