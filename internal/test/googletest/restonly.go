package googletest

import (
	"encoding/json"
	"net/http"
	"path"
	"slices"
	"strings"

	"google.golang.org/api/cloudbilling/v1"
	"google.golang.org/api/firebaserules/v1"
	"google.golang.org/genproto/googleapis/cloud/location"
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
	return []restMethod{
		{"GetProjectBillingInfo", "GET cloudbilling.googleapis.com/v1/projects/{project}/billingInfo", g.billingInfo},
		{"GetRelease", "GET firebaserules.googleapis.com/v1/projects/{project}/releases/{release...}", g.release},
		{"GetRuleset", "GET firebaserules.googleapis.com/v1/projects/{project}/rulesets/{ruleset}", func(*http.Request) (any, error) {
			return &firebaserules.Ruleset{Source: &firebaserules.Source{Files: []*firebaserules.File{{Name: "firestore.rules", Content: g.RulesText}}}}, nil
		}},
		{"TestRuleset", "POST firebaserules.googleapis.com/v1/projects/{project}/rulesets/{ruleset}", g.testRules},
		{"RunQuery", "POST firestore.googleapis.com/v1/projects/{project}/databases/{database}/documents:runQuery", g.runQuery},
		{"ListLogEntries", "POST logging.googleapis.com/v2/entries:list", g.entries},
		{"GenerateServiceIdentity", "POST serviceusage.googleapis.com/v1beta1/projects/{project}/services/{service}", g.identity},
		{"ListLocations", "GET cloudfunctions.googleapis.com/v2/projects/{project}/locations", g.locations},
		{"ListLocations", "GET cloudscheduler.googleapis.com/v1/projects/{project}/locations", g.locations},
		{"ListLocations", "GET cloudtasks.googleapis.com/v2/projects/{project}/locations", g.locations},
		{"Upload", "PUT storage.googleapis.com/{object}", g.upload},
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

// billingInfo says whether the project has a billing account that is open:
// https://cloud.google.com/billing/docs/reference/rest/v1/projects/getBillingInfo.
func (g *Google) billingInfo(r *http.Request) (any, error) {
	if g.NoBilling {
		return &cloudbilling.ProjectBillingInfo{ProjectId: g.project}, nil
	}
	return &cloudbilling.ProjectBillingInfo{ProjectId: g.project, BillingAccountName: "billingAccounts/012345-567890-ABCDEF", BillingEnabled: true}, nil
}

// runQuery finds documents, and answers as Firestore does if there are none.
func (g *Google) runQuery(r *http.Request) (any, error) {
	var request struct {
		StructuredQuery struct {
			From []struct{ CollectionID string }
		}
	}
	err := json.NewDecoder(r.Body).Decode(&request)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}

	found := []map[string]any{}
	for _, path := range g.Found {
		if strings.HasPrefix(path, request.StructuredQuery.From[0].CollectionID+"/") {
			name := "projects/" + g.project + "/databases/" + r.PathValue("database") + "/documents/" + path
			found = append(found, map[string]any{"document": map[string]any{"name": name}})
		}
	}
	if len(found) == 0 {
		found = append(found, map[string]any{"readTime": "2026-01-02T03:04:05Z"})
	}
	return found, nil
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

// locations lists where an API is: https://docs.cloud.google.com/tasks/docs/reference/rest/v2/projects.locations/list
func (g *Google) locations(r *http.Request) (any, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := []map[string]any{}
	for name, m := range g.resources {
		_, isLocation := m.(*location.Location)
		if isLocation && !slices.Contains(g.Lacks[apiOf(r.Host)], path.Base(name)) {
			all = append(all, map[string]any{"name": name, "locationId": path.Base(name)})
		}
	}
	return map[string]any{"locations": all}, nil
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

// release finds the rules that are in force for a database.
func (g *Google) release(r *http.Request) (any, error) {
	release := r.PathValue("release")
	if g.Rules == nil || g.Rules(release, RulesCase{}) == nil {
		return nil, status.Error(codes.NotFound, "Requested entity was not found.")
	}
	return &firebaserules.Release{RulesetName: "projects/" + g.project + "/rulesets/" + strings.ReplaceAll(release, "/", "~")}, nil
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
