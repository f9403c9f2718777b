package googletest

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"

	"google.golang.org/api/cloudbuild/v1"
	"google.golang.org/api/cloudresourcemanager/v1"
	"google.golang.org/api/firebaserules/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A RulesCase is a case as the Rules API gets it: a test case of which the request and the resource are
// taken apart.
type RulesCase struct {
	Expectation string
	Request     struct {
		Method, Path string
		Auth         *struct{ UID string }
		Resource     *struct{ Data map[string]any }
	}
	Resource *struct{ Data map[string]any }
}

// A RulesResult is what the rules say of a case.
type RulesResult struct {
	Allow bool
	Asks  bool // for other documents
}

// restOnly are methods that Go has no protobuf messages for, by host and path.
var restOnly = []struct {
	name, verb string
	path       *regexp.Regexp
	answer     func(g *Google, values []string, body []byte) (any, error)
}{
	{"GetDefaultServiceAccount", "GET", regexp.MustCompile(`^cloudbuild[^/]*/v1/projects/[^/]+/locations/[^/]+/defaultServiceAccount$`), (*Google).buildAccount},
	{"GetProject", "GET", regexp.MustCompile(`^cloudresourcemanager[^/]*/v1/projects/([^/:]+)$`), (*Google).projectV1},
	{"GetRelease", "GET", regexp.MustCompile(`^firebaserules[^/]*/v1/projects/[^/]+/releases/(.+)$`), (*Google).release},
	{"TestRuleset", "POST", regexp.MustCompile(`^firebaserules[^/]*/v1/projects/[^/]+/rulesets/(.+):test$`), (*Google).testRules},
	{"GetRevision", "GET", regexp.MustCompile(`^([^/]+)-run[^/]*/apis/serving.knative.dev/v1/namespaces/[^/]+/revisions/((.+)-\d+-abc)$`), (*Google).getRevisionV1},
	{"GetService", "GET", knativeService, (*Google).getServiceV1},
	{"UpdateService", "PUT", knativeService, (*Google).updateServiceV1},
	{"GenerateServiceIdentity", "POST", regexp.MustCompile(`^serviceusage[^/]*/v1beta1/projects/[^/]+/services/([^/]+):generateServiceIdentity$`), (*Google).identity},
}

var knativeService = regexp.MustCompile(`^([^/]+)-run[^/]*/apis/serving.knative.dev/v1/namespaces/[^/]+/services/([^/:]+)$`)

// serveRESTOnly answers the request if it is for one of restOnly.
func (g *Google) serveRESTOnly(r *http.Request, body []byte) (response any, is bool, err error) {
	for _, m := range restOnly {
		values := m.path.FindStringSubmatch(r.Host + r.URL.Path)
		if values == nil || m.verb != r.Method {
			continue
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		if err := g.enter(apiOf(r.Host), m.name); err != nil {
			return nil, true, err
		}
		response, err := m.answer(g, values[1:], body)
		if err == nil {
			err = g.failing(apiOf(r.Host), m.name, true)
		}
		return response, true, err
	}
	return nil, false, nil
}

// projectV1 is the project of resourcemanager v3.
func (g *Google) projectV1(values []string, _ []byte) (any, error) {
	if g.key("projects/"+values[0]) != "projects/"+g.project {
		return nil, status.Errorf(codes.PermissionDenied, "The caller does not have permission")
	}
	return &cloudresourcemanager.Project{ProjectId: g.project, ProjectNumber: 123456789, Name: g.project, LifecycleState: "ACTIVE"}, nil
}

// identity makes a service agent: serviceusage v1beta1.
func (g *Google) identity(values []string, _ []byte) (any, error) {
	api, _, _ := strings.Cut(values[0], ".")
	email := "service-" + Number + "@gcp-sa-" + api + ".iam.gserviceaccount.com"
	g.agents[email] = true
	g.changes = append(g.changes, "GenerateServiceIdentity "+values[0])
	return map[string]any{"name": "operations/1", "done": true, "response": map[string]any{
		"@type": "type.googleapis.com/google.api.serviceusage.v1beta1.ServiceIdentity", "email": email, "uniqueId": "1"}}, nil
}

// buildAccount is Cloud Build's of a new project.
// https://cloud.google.com/build/docs/cloud-build-service-account-updates
func (g *Google) buildAccount([]string, []byte) (any, error) {
	return &cloudbuild.DefaultServiceAccount{ServiceAccountEmail: "projects/" + g.project + "/serviceAccounts/" + Number + "-compute@developer.gserviceaccount.com"}, nil
}

func (g *Google) release(values []string, _ []byte) (any, error) {
	g.mu.Unlock()
	defer g.mu.Lock()
	if g.Rules == nil || g.Rules(values[0], RulesCase{}) == nil {
		return nil, status.Error(codes.NotFound, "Requested entity was not found.")
	}
	name := "projects/" + g.project
	return &firebaserules.Release{Name: name + "/releases/" + values[0], RulesetName: name + "/rulesets/" + strings.ReplaceAll(values[0], "/", "~")}, nil
}

func (g *Google) testRules(values []string, body []byte) (any, error) {
	g.mu.Unlock()
	defer g.mu.Lock()
	var request struct {
		TestSuite struct{ TestCases []RulesCase }
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	response := &firebaserules.TestRulesetResponse{}
	for _, c := range request.TestSuite.TestCases {
		says := g.Rules(strings.ReplaceAll(values[0], "~", "/"), c)
		result := &firebaserules.TestResult{State: "FAILURE"}
		if says.Allow == (c.Expectation == "ALLOW") {
			result.State = "SUCCESS"
		}
		if says.Asks {
			result.FunctionCalls = []*firebaserules.FunctionCall{{Function: "get"}}
		}
		response.TestResults = append(response.TestResults, result)
	}
	return response, nil
}
