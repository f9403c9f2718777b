package trial

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"cloud.google.com/go/eventarc/apiv1/eventarcpb"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/firestore-tally/tally/e2e/googletest"
	"github.com/firestore-tally/tally/internal/deploy"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var denied = status.Error(codes.PermissionDenied, "The caller does not have permission")

// run returns a run of a trial on what Google has.
func runOn(t *testing.T, g *googletest.Google, routes ...string) *run {
	t.Helper()
	d := of(t, routes...)
	state, err := deploy.Read(t.Context(), "my-project", g.REST()...)
	if err != nil {
		t.Fatal(err)
	}
	d.state = state
	made, err := New(d, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &run{Trial: made}
}

// The answers about triggers and their subscriptions are those of the project's settings.
func TestEvents(t *testing.T) {
	const scheduled = defaults + " : every 1m"
	r := runOn(t, googletest.Start(t, "my-project"), defaults)
	name := deploy.TriggerName("(default)", r.Config.Routes[0])
	trigger := "projects/my-project/locations/nam5/triggers/" + name
	with := func(policy *eventarcpb.Trigger_RetryPolicy, seconds int32) func(*googletest.Google) {
		return func(g *googletest.Google) {
			g.Enable("eventarc.googleapis.com", "pubsub.googleapis.com")
			g.Put(trigger, &eventarcpb.Trigger{Name: trigger, RetryPolicy: policy}) // and with it a subscription
			subscription := g.Names("subscriptions")[0]
			if seconds == 0 {
				g.Delete(subscription)
				return
			}
			googletest.Change(g, subscription, func(s *pubsubpb.Subscription) { s.AckDeadlineSeconds = seconds })
		}
	}

	for _, test := range []struct {
		name     string
		has      func(*googletest.Google)
		routes   string
		retries  string // answer and what was seen
		deadline string
	}{
		{"all is well", with(nil, 60), defaults, "yes: none at 1 trigger", "yes: 60 s"},
		{"one attempt", with(&eventarcpb.Trigger_RetryPolicy{MaxAttempts: 1}, 60), defaults, "no: at most 1 at " + name, "yes: 60 s"},
		{"a short deadline", with(nil, 9), defaults, "yes: none at 1 trigger", "no: 9 s at eventarc-"},
		{"no trigger", func(*googletest.Google) {}, defaults, "no: there is no trigger " + name, "not looked: the subscription of trigger " + name + " was not found"},
		{"no subscription", with(nil, 0), defaults, "yes: none at 1 trigger", "not looked: the subscription of trigger " + name + " was not found"},
		{"triggers cannot be read", func(g *googletest.Google) {
			with(nil, 60)(g)
			g.Fail("eventarc.googleapis.com", "ListTriggers", denied, -1)
		}, defaults, "not looked: the triggers could not be read: the account needs eventarc.triggers.list, eventarc.locations.list: ", "not looked: the triggers could not be read: "},
		{"subscriptions cannot be read", func(g *googletest.Google) {
			with(nil, 60)(g)
			g.Fail("pubsub.googleapis.com", "ListSubscriptions", denied, -1)
		}, defaults, "yes: none at 1 trigger", "not looked: the subscriptions could not be read: the account needs pubsub.subscriptions.list: "},
		{"the schedule keeps all", with(nil, 60), scheduled, "not looked: " + noEvents, "not looked: " + noEvents},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := googletest.Start(t, "my-project")
			test.has(g)
			r := runOn(t, g, test.routes)
			expect(t, "retries", r.retries(t.Context()), test.retries)
			expect(t, "deadline", r.deadline(t.Context()), test.deadline)
			if strings.HasSuffix(test.routes, "1m") {
				expect(t, "spaces", r.spaces(t.Context()), test.retries)
			}
		})
	}
}

// The rules' answer is what Firestore does with two lists, if the rules ask for the offset at all.
func TestOffset(t *testing.T) {
	const asking = "allow list: if request.query.offset == 0;"
	for _, test := range []struct {
		name          string
		rules         string // "": none are deployed
		plain, offset int    // statuses of lists
		fails         string // method of the Rules API
		want          string
	}{
		{"refused with an offset", asking, 200, 403, "", "yes: that, of rollups"},
		{"allowed with an offset", asking, 200, 200, "", "no: both lists of rollups are allowed"},
		{"all are refused", asking, 403, 403, "", "not looked: the rules refuse every list to a client that is not signed in"},
		{"Firestore fails", asking, 200, 500, "", "not looked: listing rollups: 500 Internal Server Error: it fails"},
		{"another error", asking, 401, 403, "", "not looked: listing rollups: 401 Unauthorized: it fails"},
		{"rules that do not ask", "allow list: if true;", 200, 200, "", "not looked: the deployed rules do not ask for request.query.offset"},
		{"no rules", "", 200, 200, "", "not looked: no security rules are deployed"},
		{"no release can be read", asking, 200, 403, "GetRelease", "not looked: the security rules could not be read: the account needs firebaserules."},
		{"no text can be read", asking, 200, 403, "GetRuleset", "not looked: the security rules could not be read: the account needs firebaserules."},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := googletest.Start(t, "my-project")
			g.Enable("firebaserules.googleapis.com")
			if test.rules != "" {
				g.RulesText = test.rules
				g.Rules = func(string, googletest.RulesCase) *googletest.RulesResult { return new(googletest.RulesResult) }
			}
			if test.fails != "" {
				g.Fail("firebaserules.googleapis.com", test.fails, denied, -1)
			}

			lists := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
				var query struct {
					StructuredQuery struct {
						Limit  int
						Offset *int
					}
				}
				err := json.NewDecoder(request.Body).Decode(&query)
				if err != nil || query.StructuredQuery.Limit != 1 || request.Header.Get("Authorization") != "" {
					t.Errorf("%s: %+v, %v", request.URL, query, err)
				}
				code := test.plain
				if query.StructuredQuery.Offset != nil {
					code = test.offset
				}
				http.Error(w, "it\nfails", code)
			}))
			defer lists.Close()
			r := runOn(t, g, defaults)
			r.Address = strings.TrimPrefix(lists.URL, "http://")
			expect(t, "offset", r.offset(t.Context()), test.want)
		})
	}
}

// expect compares a finding with an answer and the beginning of what was seen.
func expect(t *testing.T, asks string, f finding, want string) {
	t.Helper()
	got := string(f.answer) + ": " + f.seen
	if !strings.HasPrefix(got, want) || f.expected == "" {
		t.Errorf("%s, where %q is expected: %s, want %s", asks, f.expected, got, want)
	}
}
