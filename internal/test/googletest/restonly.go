package googletest

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"

	"cloud.google.com/go/run/apiv2/runpb"
	"google.golang.org/api/cloudbuild/v1"
	"google.golang.org/api/cloudresourcemanager/v1"
	"google.golang.org/api/firebaserules/v1"
	"google.golang.org/api/run/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A RulesCase is a test case of the Rules API: what a client requests, and whether that is expected
// to be allowed.
type RulesCase struct {
	Expectation string
	Request     struct {
		Method, Path string
		Auth         *struct{ UID string }
		Resource     *struct{ Data map[string]any }
	}
	Resource      *struct{ Data map[string]any }
	FunctionMocks []struct{ Function string }
}

// A RulesResult is the answer of the rules to a case.
type RulesResult struct {
	Allow bool
	Asks  bool   // the rules ask for another document
	Gets  string // the document that the rules get; they refuse if the case does not mock it
}

// A restMethod is one of which Go has no protobuf messages.
type restMethod struct {
	name, pattern string
	answer        func(*http.Request) (any, error)
}

// restOnly returns the methods of which Go has no protobuf messages.
func (g *Google) restOnly() []restMethod {
	empty := func(*http.Request) (any, error) { return struct{}{}, nil }
	noRevisions := func(*http.Request) (any, error) { return &run.ListRevisionsResponse{Metadata: &run.ListMeta{}}, nil }

	return []restMethod{
		{"GetDefaultServiceAccount", "GET cloudbuild.googleapis.com/v1/projects/{project}/locations/{location}/defaultServiceAccount", g.buildAccount},
		{"GetProjectBillingInfo", "GET cloudbilling.googleapis.com/v1/projects/{project}/billingInfo", g.billingInfo},
		{"GetProject", "GET cloudresourcemanager.googleapis.com/v1/projects/{project}", g.projectV1},
		{"GetRelease", "GET firebaserules.googleapis.com/v1/projects/{project}/releases/{release...}", g.release},
		{"GetRuleset", "GET firebaserules.googleapis.com/v1/projects/{project}/rulesets/{ruleset}", g.ruleset},
		{"TestRuleset", "POST firebaserules.googleapis.com/v1/projects/{project}/rulesets/{ruleset}", g.testRules},
		{"ListLogEntries", "POST logging.googleapis.com/v2/entries:list", g.entries},
		{"GenerateServiceIdentity", "POST serviceusage.googleapis.com/v1beta1/projects/{project}/services/{service}", g.identity},
		{"ListConsumerQuotaMetrics", "GET serviceusage.googleapis.com/v1beta1/projects/{project}/services/{service}/consumerQuotaMetrics", g.quotas},
		{"Upload", "PUT storage.googleapis.com/{object}", g.upload},

		// Cloud Run's older API, at hosts of regions.
		{"GetService", "GET /apis/serving.knative.dev/v1/namespaces/{project}/services/{service}", g.serviceV1},
		{"ListServices", "GET /apis/serving.knative.dev/v1/namespaces/{project}/services", empty},
		{"UpdateService", "PUT /apis/serving.knative.dev/v1/namespaces/{project}/services/{service}", g.serviceV1},
		{"ListRevisions", "GET /apis/serving.knative.dev/v1/namespaces/{project}/revisions", noRevisions},
	}
}

// handleRESTOnly has the mux serve the methods of which Go has no protobuf messages.
func (g *Google) handleRESTOnly(mux *http.ServeMux) {
	for _, m := range g.restOnly() {
		mux.HandleFunc(m.pattern, func(w http.ResponseWriter, r *http.Request) {
			g.mu.Lock()
			err := g.refused(apiOf(r.Host), m.name)
			g.mu.Unlock()
			if err != nil {
				reply(w, nil, err)
				return
			}

			response, err := m.answer(r)
			reply(w, response, err)
		})
	}
}

// projectV1 is the project of resourcemanager v3.
func (g *Google) projectV1(r *http.Request) (any, error) {
	if r.PathValue("project") != g.project {
		return nil, status.Errorf(codes.PermissionDenied, "The caller does not have permission")
	}
	return &cloudresourcemanager.Project{ProjectId: g.project, ProjectNumber: 123456789, LifecycleState: "ACTIVE"}, nil
}

// entries returns the log entries that a filter finds.
func (g *Google) entries(r *http.Request) (any, error) {
	var request struct{ Filter string }
	err := json.NewDecoder(r.Body).Decode(&request)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if g.Entries == nil {
		return struct{}{}, nil
	}
	return map[string]any{"entries": g.Entries(request.Filter)}, nil
}

// identity makes a service agent: serviceusage v1beta1.
func (g *Google) identity(r *http.Request) (any, error) {
	api, _, _ := strings.Cut(r.PathValue("service"), ".")
	email := "service-" + Number + "@gcp-sa-" + api + ".iam.gserviceaccount.com"

	g.mu.Lock()
	defer g.mu.Unlock()
	g.agents[email] = true
	return map[string]any{"name": "operations/1", "done": true, "response": map[string]any{
		"@type": "type.googleapis.com/google.api.serviceusage.v1beta1.ServiceIdentity", "email": email, "uniqueId": "1"}}, nil
}

// quotas are those of Cloud Run, in short: serviceusage v1beta1.
func (g *Google) quotas(*http.Request) (any, error) {
	bucket := map[string]any{"effectiveLimit": strconv.Itoa(g.CPUs), "dimensions": map[string]any{"region": "us-central1"}}
	limit := map[string]any{"name": "CpuAllocPerProjectRegion", "quotaBuckets": []any{bucket}}
	return map[string]any{"metrics": []any{map[string]any{"metric": "run.googleapis.com/cpu_allocation", "consumerQuotaLimits": []any{limit}}}}, nil
}

// buildAccount is the service account that Cloud Build uses in a new project.
// https://cloud.google.com/build/docs/cloud-build-service-account-updates
func (g *Google) buildAccount(*http.Request) (any, error) {
	return &cloudbuild.DefaultServiceAccount{ServiceAccountEmail: "projects/" + g.project + "/serviceAccounts/" + Number + "-compute@developer.gserviceaccount.com"}, nil
}

// release finds the rules that are in force for a database.
func (g *Google) release(r *http.Request) (any, error) {
	release := r.PathValue("release")
	if g.Rules == nil || g.Rules(release, RulesCase{}) == nil {
		return nil, status.Error(codes.NotFound, "Requested entity was not found.")
	}
	return &firebaserules.Release{RulesetName: "projects/" + g.project + "/rulesets/" + strings.ReplaceAll(release, "/", "~")}, nil
}

// ruleset returns the text of rules.
func (g *Google) ruleset(*http.Request) (any, error) {
	file := &firebaserules.File{Name: "firestore.rules", Content: g.RulesText}
	return &firebaserules.Ruleset{Source: &firebaserules.Source{Files: []*firebaserules.File{file}}}, nil
}

// testRules tries cases on rules.
func (g *Google) testRules(r *http.Request) (any, error) {
	var request struct {
		TestSuite struct{ TestCases []RulesCase }
	}
	err := json.NewDecoder(r.Body).Decode(&request)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}

	release := strings.ReplaceAll(strings.TrimSuffix(r.PathValue("ruleset"), ":test"), "~", "/")
	response := &firebaserules.TestRulesetResponse{}
	for _, c := range request.TestSuite.TestCases {
		response.TestResults = append(response.TestResults, testResult(c, g.Rules(release, c)))
	}
	return response, nil
}

// testResult returns the Rules API's form of an answer to a case. It names the calls of get, also
// those that the case mocks.
func testResult(c RulesCase, says *RulesResult) *firebaserules.TestResult {
	result := &firebaserules.TestResult{State: "FAILURE"}
	allowed := says.Allow && (says.Gets == "" || len(c.FunctionMocks) > 0)
	if allowed == (c.Expectation == "ALLOW") {
		result.State = "SUCCESS"
	}

	if says.Asks {
		result.FunctionCalls = append(result.FunctionCalls, &firebaserules.FunctionCall{Function: "get"})
	}
	if says.Gets != "" {
		result.FunctionCalls = append(result.FunctionCalls, &firebaserules.FunctionCall{Function: "get", Args: []any{says.Gets}})
	}
	return result
}

// throttling is the annotation with which run v1 says whether an instance has its CPU only during
// requests: https://cloud.google.com/run/docs/configuring/billing-settings.
const throttling = "run.googleapis.com/cpu-throttling"

// serviceV1 answers for a service of Cloud Run over the older API, run v1. The store has services
// of run v2. A PUT sets when the CPU is allocated, and the traffic.
func (g *Google) serviceV1(r *http.Request) (any, error) {
	region, _, _ := strings.Cut(r.Host, "-run.")
	id := r.PathValue("service")

	g.mu.Lock()
	defer g.mu.Unlock()
	m, err := g.find("projects/" + g.project + "/locations/" + region + "/services/" + id)
	if err != nil {
		return nil, err
	}
	service := m.(*runpb.Service)

	if r.Method == http.MethodPut {
		return g.putServiceV1(service, r.Body)
	}
	return serviceAsV1(id, service), nil
}

// putServiceV1 changes a service to what run v1 wants, and returns that.
func (g *Google) putServiceV1(service *runpb.Service, body io.Reader) (any, error) {
	var wanted run.Service
	decoder := json.NewDecoder(body)
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&wanted)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}

	// gcloud writes "False", as Python does.
	throttled := !strings.EqualFold(wanted.Spec.Template.Metadata.Annotations[throttling], "false")
	service.Template.Containers[0].Resources.CpuIdle = throttled
	g.setTraffic(service, wanted.Spec.Traffic)
	return &wanted, nil
}

// serviceAsV1 returns a service as run v1 has it, as far as gcloud reads it.
func serviceAsV1(id string, service *runpb.Service) *run.Service {
	container := service.Template.Containers[0]
	annotations := make(map[string]string)
	if container.Resources != nil && !container.Resources.CpuIdle {
		annotations[throttling] = "false"
	}

	traffic := trafficV1(service)
	return &run.Service{
		ApiVersion: "serving.knative.dev/v1", Kind: "Service", Metadata: &run.ObjectMeta{Name: id, Namespace: Number},
		Spec: &run.ServiceSpec{Template: &run.RevisionTemplate{
			Metadata: &run.ObjectMeta{Annotations: annotations},
			Spec:     &run.RevisionSpec{Containers: []*run.Container{{Image: container.Image}}},
		}, Traffic: traffic},
		Status: &run.ServiceStatus{Conditions: []*run.GoogleCloudRunV1Condition{{Type: "Ready", Status: "True"}}, Traffic: traffic},
	}
}
