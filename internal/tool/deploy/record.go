package deploy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/api/googleapi"
)

// An exchange is a call of an API, and what it answered.
type exchange struct {
	Verb   string `json:"verb"`
	At     string `json:"at"`               // the address without https://
	Answer any    `json:"answer,omitempty"` // in JSON, decoded
	Error  any    `json:"error,omitempty"`  // as the API has it, or a text
}

// remember keeps the answer to a call, or its error, for Recording.
func (s *State) remember(verb, address string, answer []byte, err error) {
	e := exchange{Verb: verb, At: strings.TrimPrefix(address, "https://")}
	if err == nil {
		e.Answer = decoded(answer)
	} else {
		e.Error = message(err)
		refused := new(googleapi.Error)
		if errors.As(err, &refused) && decoded([]byte(refused.Body)) != nil {
			e.Error = decoded([]byte(refused.Body))
		}
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	s.exchanges = append(s.exchanges, e)
}

// decoded returns what JSON holds, with numbers as they are spelled; nil if it is none.
func decoded(text []byte) (content any) {
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	if d.Decode(&content) != nil {
		return nil
	}
	return content
}

// asked are permissions that tally deploy needs to make something of each kind.
var asked = []string{
	"serviceusage.services.enable", "resourcemanager.projects.setIamPolicy", "iam.serviceAccounts.create", "iam.serviceAccounts.actAs",
	"artifactregistry.repositories.create", "cloudtasks.queues.create", "cloudfunctions.functions.create", "run.services.setIamPolicy", "eventarc.triggers.create",
	"pubsub.subscriptions.update", "cloudscheduler.jobs.create", "datastore.indexes.create", "datastore.indexes.update",
	"logging.logMetrics.create", "logging.sinks.update", "monitoring.alertPolicies.create", "monitoring.notificationChannels.create",
	"monitoring.dashboards.create",
}

// Recording returns, in JSON, all that the APIs have answered so far, and two more answers: which
// permissions the account has of those that tally deploy needs, and Cloud Run's quotas. It has
// neither documents nor secrets; see clean. googletest.Load plays a project from it.
func (s *State) Recording(ctx context.Context) ([]byte, error) {
	permissions, err := json.Marshal(Object{"permissions": asked})
	if err != nil {
		return nil, err
	}

	// Errors are in the recording.
	_ = s.Call(ctx, projectsAPI, http.MethodPost, "v3/projects/"+s.Project+":testIamPermissions", string(permissions), new(Object))
	_ = s.Call(ctx, servicesAPI, http.MethodGet, "v1beta1/projects/"+s.Project+"/services/run.googleapis.com/consumerQuotaMetrics", "", new(Object))

	s.mu.Lock()
	defer s.mu.Unlock()

	var all []exchange
	for _, e := range s.exchanges {
		if strings.HasPrefix(e.At, RulesAPI.name+".") { // rules are the app's own
			continue
		}
		e.Answer = s.clean(e.Answer)
		all = append(all, e)
	}
	slices.SortStableFunc(all, func(a, b exchange) int { return cmp.Or(strings.Compare(a.At, b.At), strings.Compare(a.Verb, b.Verb)) })

	text, err := json.MarshalIndent(Object{"project": s.Project, "number": s.Number, "exchanges": all}, "", "  ")
	return addresses.ReplaceAllFunc(append(text, '\n'), anonymousAddress), err
}

// addresses matches e-mail addresses. anonymousAddress replaces those of people.
var addresses = regexp.MustCompile(`[\w.%+'-]+@[\w-]+(\.[\w-]+)+`)

func anonymousAddress(address []byte) []byte {
	if strings.HasSuffix(string(address), "gserviceaccount.com") {
		return address
	}
	return []byte("someone@example.com")
}

// lists are the lists in answers of which only Tally's part is kept whole.
var lists = []string{"accounts", "functions", "triggers", "subscriptions", "jobs", "metrics", "notificationChannels",
	"alertPolicies", "dashboards", "exclusions"}

// loose are fields that may hold anything, such as a token.
var loose = []string{"headers", "body", "data", "attributes", "secretEnvironmentVariables"}

// clean returns an answer without what no one should pass on. Of resources that are not Tally's it
// keeps the names. It takes away members that are neither Tally's nor Google's, the values of
// variables that are not Tally's, the queries of addresses, and what the fields in loose hold.
func (s *State) clean(content any) any {
	switch c := content.(type) {
	case []any:
		kept := make([]any, 0, len(c))
		for _, element := range c {
			kept = append(kept, s.clean(element))
		}
		return kept

	case map[string]any:
		kept := make(map[string]any)
		for key, value := range c {
			if !slices.Contains(loose, key) {
				kept[key] = s.cleanField(key, value)
			}
		}
		return kept
	}
	return content
}

// cleanField is clean for the value of a field.
func (s *State) cleanField(key string, value any) any {
	list, isList := value.([]any)
	switch {
	case isList && slices.Contains(lists, key):
		return s.clean(s.namesOfOthers(list))

	case isList && key == "bindings":
		isEmpty := func(binding any) bool { return Object(binding.(map[string]any)).Get("members") == "" }
		return slices.DeleteFunc(s.clean(list).([]any), isEmpty)

	case isList && key == "members":
		return slices.DeleteFunc(slices.Clone(list), func(member any) bool { return !s.known(member.(string)) })

	case key == "environmentVariables":
		return withoutValues(value)

	case key == "pushEndpoint" || key == "uri":
		return withoutQuery(value)
	}
	return s.clean(value)
}

// namesOfOthers returns the resources, with nothing but the names of those that say nothing of
// Tally.
func (s *State) namesOfOthers(list []any) []any {
	var all []any
	for _, element := range list {
		o, isObject := element.(map[string]any)
		own := strings.Contains(strings.ReplaceAll(Object(o).text(), s.Project, ""), "tally")
		if isObject && !own {
			element = map[string]any{"name": o["name"]}
		}
		all = append(all, element)
	}
	return all
}

// known reports whether a member is a service account of Tally's, an agent of Google's, or
// everybody.
func (s *State) known(member string) bool {
	return strings.HasPrefix(member, "serviceAccount:tally-") || strings.Contains(member, "@gcp-sa-") || strings.HasPrefix(member, "all")
}

// withoutValues hides the values of variables that may be secrets: all that Tally does not set.
func withoutValues(variables any) any {
	kept := make(map[string]any)
	all, _ := variables.(map[string]any)
	for name, value := range all {
		plain := strings.HasPrefix(name, "TALLY_") ||
			slices.Contains([]string{"GOOGLE_CLOUD_PROJECT", "GOMEMLIMIT", "LOG_EXECUTION_ID"}, name)
		if !plain {
			value = "hidden"
		}
		kept[name] = value
	}
	return kept
}

// withoutQuery takes the query of an address away, unless it is the one that Eventarc gives.
func withoutQuery(address any) any {
	text, _ := address.(string)
	u, err := url.Parse(text)
	if err != nil {
		return "hidden"
	}
	if u.RawQuery != "__GCP_CloudEventsMode=CE_PUBSUB_BINDING" {
		u.RawQuery = ""
	}
	return u.String()
}
