package googletest

import (
	"encoding/json"
	"net/http"
	"path"
	"regexp"
	"strings"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
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

// ownPaths are those of which Go has no protobuf messages.
var ownPaths = []struct {
	api, verb string
	path      *regexp.Regexp
	answer    func(g *Google, values []string, body []byte) (any, error)
}{
	{"cloudresourcemanager", "GET", regexp.MustCompile(`^/v1/projects/([^/:]+)$`), (*Google).projectV1},
	{"serviceusage", "POST", regexp.MustCompile(`^/v1beta1/projects/[^/]+/services/([^/]+):generateServiceIdentity$`), (*Google).identity},
	{"firebaserules", "GET", regexp.MustCompile(`^/v1/projects/[^/]+/releases/(.+)$`), (*Google).release},
	{"firebaserules", "POST", regexp.MustCompile(`^/v1/projects/[^/]+/rulesets/(.+):test$`), (*Google).testRules},
}

// ownREST returns what answers the request, if no protobuf method does.
func (g *Google) ownREST(api string, r *http.Request) func(body []byte) (any, error) {
	for _, p := range ownPaths {
		if values := p.path.FindStringSubmatch(r.URL.Path); values != nil && p.api+".googleapis.com" == api && p.verb == r.Method {
			return func(body []byte) (any, error) {
				g.mu.Lock()
				defer g.mu.Unlock()
				if err := g.enter(api, ""); err != nil {
					return nil, err
				}
				return p.answer(g, values[1:], body)
			}
		}
	}
	return nil
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
	_ = longrunningpb.Operation{}
	return map[string]any{"name": "operations/1", "done": true, "response": map[string]any{
		"@type": "type.googleapis.com/google.api.serviceusage.v1beta1.ServiceIdentity", "email": email, "uniqueId": "1"}}, nil
}

func (g *Google) release(values []string, _ []byte) (any, error) {
	if g.Rules == nil || g.Rules(values[0], RulesCase{}) == nil {
		return nil, status.Error(codes.NotFound, "Requested entity was not found.")
	}
	name := "projects/" + g.project
	return &firebaserules.Release{Name: name + "/releases/" + values[0], RulesetName: name + "/rulesets/" + strings.ReplaceAll(values[0], "/", "~")}, nil
}

func (g *Google) testRules(values []string, body []byte) (any, error) {
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

var _ = path.Base
