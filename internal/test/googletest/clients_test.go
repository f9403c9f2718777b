package googletest

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"cloud.google.com/go/firestore/apiv1/admin/adminpb"
	functions "cloud.google.com/go/functions/apiv2"
	"cloud.google.com/go/functions/apiv2/functionspb"
	iamadminpb "cloud.google.com/go/iam/admin/apiv1/adminpb"
	"cloud.google.com/go/iam/apiv1/iampb"
	scheduler "cloud.google.com/go/scheduler/apiv1"
	"cloud.google.com/go/scheduler/apiv1/schedulerpb"
	"github.com/googleapis/gax-go/v2/apierror"
	"google.golang.org/api/firebaserules/v1"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/iterator"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
)

const (
	project  = "my-project"
	here     = "projects/" + project + "/locations/us-central1"
	function = here + "/functions/tally"
	service  = here + "/services/tally"
	account  = "a@" + project + ".iam.gserviceaccount.com"
)

// client opens one of Google's clients.
func client[C interface{ Close() error }](t *testing.T, g *Google, open func(context.Context, ...option.ClientOption) (C, error)) C {
	t.Helper()
	c, err := open(t.Context(), g.REST()...)
	check(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// must returns what a call answered.
func must[T any](answer T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		check(t, err)
		return answer
	}
}

func TestPages(t *testing.T) {
	g, ctx := Start(t, project), t.Context()
	g.Enable("cloudfunctions.googleapis.com")
	g.Put(function, &functionspb.Function{})
	g.Put(function+"-2", &functionspb.Function{})
	g.Unreachable = []string{"asia-east1"}
	c := client(t, g, functions.NewFunctionRESTClient)
	it := c.ListFunctions(ctx, &functionspb.ListFunctionsRequest{Parent: "projects/" + project + "/locations/-"})
	for _, want := range []string{function, function + "-2"} {
		f := must(it.Next())(t)
		page := it.Response.(*functionspb.ListFunctionsResponse)
		if f.Name != want || len(page.Functions) != 1 || !slices.Equal(page.Unreachable, g.Unreachable) {
			t.Errorf("%s in %v, want %s", f.Name, page, want)
		}
	}
	if f, err := it.Next(); !errors.Is(err, iterator.Done) {
		t.Errorf("after the last: %v, %v", f, err)
	}
	if f, err := c.ListFunctions(ctx, &functionspb.ListFunctionsRequest{Parent: "projects/" + project + "/locations/europe-west1"}).Next(); !errors.Is(err, iterator.Done) {
		t.Errorf("elsewhere: %v, %v", f, err)
	}
}

// TestRequestsMustFit sends what the API's message has no field for.
func TestRequestsMustFit(t *testing.T) {
	g := Start(t, project)
	g.Enable("cloudscheduler.googleapis.com")
	g.Put(here+"/jobs/j", &schedulerpb.Job{})
	for _, r := range []struct {
		query, body string
		want        int
	}{
		{"", `{"schedule": "* * * * *"}`, 200},
		{"updateMask=retryConfig.retryCount&$alt=json", `{"retryConfig": {"retryCount": 2}}`, 200},
		{"", `{"scedule": "* * * * *"}`, 400},
		{"", `{"state": "NONE"}`, 400},
		{"mask=schedule", `{}`, 400},
		{"updateMask=scedule", `{}`, 400},
	} {
		request := must(http.NewRequestWithContext(t.Context(), "PATCH", "http://cloudscheduler.googleapis.com/v1/"+here+"/jobs/j?"+r.query, strings.NewReader(r.body)))(t)
		answer := must(g.client().Do(request))(t)
		if err := answer.Body.Close(); err != nil || answer.StatusCode != r.want {
			t.Errorf("?%s %s: %s, %v, want %d", r.query, r.body, answer.Status, err, r.want)
		}
	}
	if j := g.Get(here + "/jobs/j").(*schedulerpb.Job); j.Schedule != "* * * * *" || j.RetryConfig.GetRetryCount() != 2 {
		t.Errorf("job: %v", j)
	}
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
	var e *googleapi.Error
	if _, err := rules.Projects.Releases.Get("projects/" + project + "/releases/cloud.firestore").Do(); !errors.As(err, &e) || e.Code != 404 || !strings.Contains(e.Body, "NOT_FOUND") {
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

// answered returns the status of HTTP with which a call was refused.
func answered(err error) int {
	e := new(googleapi.Error)
	errors.As(err, &e)
	return e.Code
}

func TestFail(t *testing.T) {
	g, ctx := Start(t, project), t.Context()
	c := client(t, g, scheduler.NewCloudSchedulerRESTClient)
	run := func() error {
		_, err := c.RunJob(ctx, &schedulerpb.RunJobRequest{Name: here + "/jobs/j"})
		return err
	}
	var detailed *apierror.APIError
	if err := run(); !errors.As(err, &detailed) || detailed.Reason() != "SERVICE_DISABLED" || detailed.Metadata()["service"] != "cloudscheduler.googleapis.com" {
		t.Errorf("not enabled: %v", err)
	}
	g.Enable("cloudscheduler.googleapis.com")
	g.Put(here+"/jobs/j", &schedulerpb.Job{})
	g.Fail("cloudscheduler.googleapis.com", "RunJob", status.Error(codes.ResourceExhausted, "too many"), 1)
	if err := run(); answered(err) != http.StatusTooManyRequests || g.Get(here+"/jobs/j").(*schedulerpb.Job).LastAttemptTime != nil {
		t.Errorf("failed: %v, %v", err, g.Get(here+"/jobs/j"))
	}
	if err := run(); err != nil || g.Get(here+"/jobs/j").(*schedulerpb.Job).LastAttemptTime == nil {
		t.Errorf("after it failed: %v, %v", err, g.Get(here+"/jobs/j"))
	}
	g.Fail("cloudscheduler.googleapis.com", "", status.Error(codes.Internal, "broken"), -1)
	for range 2 {
		if err := run(); answered(err) != http.StatusInternalServerError {
			t.Errorf("always: %v", err)
		}
	}
}

// TestOthers changes what other resources say.
func TestOthers(t *testing.T) {
	g := Start(t, project)
	g.Put("projects/"+project+"/serviceAccounts/"+account, &iamadminpb.ServiceAccount{})
	g.SetPolicy("projects/"+project, &iampb.Policy{Bindings: []*iampb.Binding{{Role: "roles/viewer", Members: []string{"serviceAccount:" + account}}}})
	g.Delete("projects/-/serviceAccounts/" + account)
	if got := g.Policy("projects/" + Number).Bindings[0].Members[0]; !strings.HasPrefix(got, "deleted:serviceAccount:"+account+"?uid=") {
		t.Errorf("member of a deleted account: %s", got)
	}
	ancestor := "projects/" + project + "/databases/(default)/collectionGroups/__default__/fields/*"
	field := strings.NewReplacer("__default__", "c", "*", "f").Replace(ancestor)
	for _, want := range []int{2, 0} {
		g.Put(field, &adminpb.Field{})
		if f := g.Get(field).(*adminpb.Field); f.IndexConfig.AncestorField != ancestor || len(f.IndexConfig.Indexes) != want {
			t.Errorf("by a default with %d indexes: %v", want, f)
		}
		g.Put(ancestor, &adminpb.Field{IndexConfig: &adminpb.Field_IndexConfig{}})
	}
}

func TestFunctionThatIsNotBuilt(t *testing.T) {
	g, ctx := Start(t, project), t.Context()
	g.Enable("cloudfunctions.googleapis.com")
	g.Put(function, &functionspb.Function{})
	g.Build = func(*functionspb.Function) error { return status.Error(codes.InvalidArgument, "Build failed") }
	c := client(t, g, functions.NewFunctionRESTClient)
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
	if f := g.Get(function).(*functionspb.Function); f.State != functionspb.Function_ACTIVE || f.ServiceConfig.AvailableMemory != "" {
		t.Errorf("update: %v", f)
	}
	g.Build = nil
	if f := must(must(c.UpdateFunction(ctx, update))(t).Wait(ctx))(t); f.ServiceConfig.AvailableMemory != "2Gi" || f.ServiceConfig.Service != service {
		t.Errorf("built: %v", f)
	}
}
