package googletest

import (
	"encoding/json"
	"net/http"
	"strings"

	"cloud.google.com/go/run/apiv2/runpb"
	"google.golang.org/api/cloudbuild/v1"
	"google.golang.org/api/cloudresourcemanager/v1"
	"google.golang.org/api/firebaserules/v1"
	"google.golang.org/api/run/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A RulesCase is a case as the Rules API gets it: a test case of which the request and the resource
// are taken apart.
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

// A RulesResult is what the rules say of a case.
type RulesResult struct {
	Allow bool
	Asks  bool   // for other documents
	Gets  string // the document that the rules get; they refuse if the case does not mock it
}

// restOnly returns a mux of the methods that Go has no protobuf messages for.
func (g *Google) restOnly() *http.ServeMux {
	mux := http.NewServeMux()
	for pattern, m := range map[string]struct {
		name   string
		answer func(*http.Request) (any, error)
	}{
		"GET cloudbuild.googleapis.com/v1/projects/{project}/locations/{location}/defaultServiceAccount": {"GetDefaultServiceAccount", g.buildAccount},
		"GET cloudbilling.googleapis.com/v1/projects/{project}/billingInfo":                              {"GetProjectBillingInfo", g.billingInfo},
		"GET cloudresourcemanager.googleapis.com/v1/projects/{project}":                                  {"GetProject", g.projectV1},
		"GET firebaserules.googleapis.com/v1/projects/{project}/releases/{release...}":                   {"GetRelease", g.release},
		"POST firebaserules.googleapis.com/v1/projects/{project}/rulesets/{ruleset}":                     {"TestRuleset", g.testRules},
		"POST logging.googleapis.com/v2/entries:list":                                                    {"ListLogEntries", func(*http.Request) (any, error) { return struct{}{}, nil }},
		"POST serviceusage.googleapis.com/v1beta1/projects/{project}/services/{service}":                 {"GenerateServiceIdentity", g.identity},
		"GET /apis/serving.knative.dev/v1/namespaces/{project}/services/{service}":                       {"GetService", g.serviceV1},
		"GET /apis/serving.knative.dev/v1/namespaces/{project}/services":                                 {"ListServices", func(*http.Request) (any, error) { return struct{}{}, nil }},
		"PUT /apis/serving.knative.dev/v1/namespaces/{project}/services/{service}":                       {"UpdateService", g.serviceV1},
		"GET /apis/serving.knative.dev/v1/namespaces/{project}/revisions":                                {"ListRevisions", func(*http.Request) (any, error) { return &run.ListRevisionsResponse{Metadata: &run.ListMeta{}}, nil }},
		"PUT storage.googleapis.com/{object}":                                                            {"Upload", g.upload},
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			g.mu.Lock()
			err := g.refused(apiOf(r.Host), m.name)
			g.mu.Unlock()
			var response any
			if err == nil {
				response, err = m.answer(r)
			}
			reply(w, response, err)
		})
	}
	return mux
}

// projectV1 is the project of resourcemanager v3.
func (g *Google) projectV1(r *http.Request) (any, error) {
	if r.PathValue("project") != g.project {
		return nil, status.Errorf(codes.PermissionDenied, "The caller does not have permission")
	}
	return &cloudresourcemanager.Project{ProjectId: g.project, ProjectNumber: 123456789, LifecycleState: "ACTIVE"}, nil
}

// identity makes a service agent: serviceusage v1beta1.
func (g *Google) identity(r *http.Request) (any, error) {
	api, _, _ := strings.Cut(r.PathValue("service"), ".")
	g.mu.Lock()
	defer g.mu.Unlock()
	email := "service-" + Number + "@gcp-sa-" + api + ".iam.gserviceaccount.com"
	g.agents[email] = true
	return map[string]any{"name": "operations/1", "done": true, "response": map[string]any{
		"@type": "type.googleapis.com/google.api.serviceusage.v1beta1.ServiceIdentity", "email": email, "uniqueId": "1"}}, nil
}

// buildAccount is Cloud Build's of a new project.
// https://cloud.google.com/build/docs/cloud-build-service-account-updates
func (g *Google) buildAccount(*http.Request) (any, error) {
	return &cloudbuild.DefaultServiceAccount{ServiceAccountEmail: "projects/" + g.project + "/serviceAccounts/" + Number + "-compute@developer.gserviceaccount.com"}, nil
}

func (g *Google) release(r *http.Request) (any, error) {
	release := r.PathValue("release")
	if g.Rules == nil || g.Rules(release, RulesCase{}) == nil {
		return nil, status.Error(codes.NotFound, "Requested entity was not found.")
	}
	return &firebaserules.Release{RulesetName: "projects/" + g.project + "/rulesets/" + strings.ReplaceAll(release, "/", "~")}, nil
}

func (g *Google) testRules(r *http.Request) (any, error) {
	var request struct {
		TestSuite struct{ TestCases []RulesCase }
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	release := strings.ReplaceAll(strings.TrimSuffix(r.PathValue("ruleset"), ":test"), "~", "/")
	response := &firebaserules.TestRulesetResponse{}
	for _, c := range request.TestSuite.TestCases {
		says := g.Rules(release, c)
		result := &firebaserules.TestResult{State: "FAILURE"}
		allowed := says.Allow && (says.Gets == "" || len(c.FunctionMocks) > 0)
		if allowed == (c.Expectation == "ALLOW") {
			result.State = "SUCCESS"
		}
		if says.Asks {
			result.FunctionCalls = []*firebaserules.FunctionCall{{Function: "get"}}
		}
		if says.Gets != "" { // which are told whether they are mocked or not
			result.FunctionCalls = append(result.FunctionCalls, &firebaserules.FunctionCall{Function: "get", Args: []any{says.Gets}})
		}
		response.TestResults = append(response.TestResults, result)
	}
	return response, nil
}

// throttling is the annotation with which run v1 says whether an instance has its CPU only during
// requests: https://cloud.google.com/run/docs/configuring/billing-settings.
const throttling = "run.googleapis.com/cpu-throttling"

// serviceV1 answers with the service of run v2 as the one of run v1, as far as gcloud reads it. A
// PUT sets when its CPU is allocated, and the traffic.
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
	container := service.Template.Containers[0]
	annotations := make(map[string]string)
	if r := container.Resources; r != nil && !r.CpuIdle {
		annotations[throttling] = "false"
	}
	traffic := trafficV1(service)
	v1 := &run.Service{
		ApiVersion: "serving.knative.dev/v1", Kind: "Service", Metadata: &run.ObjectMeta{Name: id, Namespace: Number},
		Spec: &run.ServiceSpec{Template: &run.RevisionTemplate{
			Metadata: &run.ObjectMeta{Annotations: annotations},
			Spec:     &run.RevisionSpec{Containers: []*run.Container{{Image: container.Image}}},
		}, Traffic: traffic},
		Status: &run.ServiceStatus{Conditions: []*run.GoogleCloudRunV1Condition{{Type: "Ready", Status: "True"}}, Traffic: traffic},
	}
	if r.Method == http.MethodPut {
		v1 = new(run.Service)
		decoder := json.NewDecoder(r.Body)
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(v1); err != nil {
			return nil, status.Error(codes.InvalidArgument, err.Error())
		}
		// gcloud writes "False", as Python does.
		container.Resources.CpuIdle = !strings.EqualFold(v1.Spec.Template.Metadata.Annotations[throttling], "false")
		g.setTraffic(service, v1.Spec.Traffic)
	}
	return v1, nil
}
