package trial

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/eventarc/apiv1/eventarcpb"
	"cloud.google.com/go/functions/apiv2/functionspb"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/scheduler/apiv1/schedulerpb"
	"github.com/firestore-tally/tally/internal/test/googletest"
	"github.com/firestore-tally/tally/internal/tool/deploy"
	"github.com/firestore-tally/tally/internal/tool/lag"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
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
			googletest.Change(g, subscription, func(s *pubsubpb.Subscription) {
				s.AckDeadlineSeconds, s.ExpirationPolicy = seconds, new(pubsubpb.ExpirationPolicy)
			})
		}
	}
	expiring := func(policy *pubsubpb.ExpirationPolicy) func(*googletest.Google) {
		return func(g *googletest.Google) {
			with(nil, 60)(g)
			googletest.Change(g, g.Names("subscriptions")[0], func(s *pubsubpb.Subscription) { s.ExpirationPolicy = policy })
		}
	}

	for _, test := range []struct {
		name     string
		has      func(*googletest.Google)
		routes   string
		retries  string // answer and what was seen
		deadline string
	}{
		{"all is well", with(nil, 60), defaults, "yes: none at 1 trigger", "yes: 60 s, no expiry"},
		{"one attempt", with(&eventarcpb.Trigger_RetryPolicy{MaxAttempts: 1}, 60), defaults, "no: at most 1 at " + name, "yes: 60 s, no expiry"},
		{"a short deadline", with(nil, 9), defaults, "yes: none at 1 trigger", "no: 9 s, no expiry at eventarc-"},
		{"the default expiry", expiring(nil), defaults, "yes: none at 1 trigger", "no: 60 s, expiry after 2678400s at eventarc-"},
		{"an expiry", expiring(&pubsubpb.ExpirationPolicy{Ttl: durationpb.New(24 * time.Hour)}), defaults, "yes: none at 1 trigger", "no: 60 s, expiry after 86400s at eventarc-"},
		{"no trigger", func(*googletest.Google) {}, defaults, "no: there is no trigger " + name, "not looked: the subscription of trigger " + name + " was not found"},
		{"no subscription", with(nil, 0), defaults, "yes: none at 1 trigger", "not looked: the subscription of trigger " + name + " was not found"},
		{"triggers cannot be read", func(g *googletest.Google) {
			with(nil, 60)(g)
			g.Fail("eventarc.googleapis.com", "ListTriggers", denied, -1)
		}, defaults, "not looked: the triggers could not be read: the account needs eventarc.triggers.list", "not looked: the triggers could not be read: "},
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
			expect(t, "subscriptions", r.subscriptions(t.Context()), test.deadline)
			if strings.HasSuffix(test.routes, "1m") {
				expect(t, "spaces", r.spaces(t.Context()), test.retries)
			}
		})
	}
}

// The job's answer is the report that RollUpOnSchedule logs after the job was run, not an older
// one. Without a report it is how the job's call ended.
func TestTick(t *testing.T) {
	const job = "projects/my-project/locations/us-central1/jobs/tally"
	line := func(payload string) []json.RawMessage {
		return []json.RawMessage{json.RawMessage(`{"timestamp": "2026-11-21T10:00:00Z", "jsonPayload": ` + payload + `}`)}
	}
	well := line(`{"message": "audited", "report": {"seconds": 1.2345678, "databases": {}}}`)

	for _, test := range []struct {
		name string
		has  func(*googletest.Google)
		logs []json.RawMessage // that the log has once the job was run
		want string
	}{
		{"a report", nil, well, "yes: that, of a call of 1.23 s"},
		{"a report with errors", nil, line(`{"message": "audited", "report": {"seconds": 1, "errors": ["it fails"]}}`), "no: a report with errors: it fails"},
		{"no report", nil, nil, "not looked: tally-on-schedule logged no line \"audited\" within 1ms"},
		{"no report, for the call failed", func(g *googletest.Google) {
			googletest.Change(g, job, func(j *schedulerpb.Job) { j.Status = status.New(codes.PermissionDenied, "it may not").Proto() })
		}, nil, "no: the job's call failed: 7 it may not"},
		{"no job", func(g *googletest.Google) { g.Delete(job) }, well, "no: there is no job"},
		{"the job may not be run", func(g *googletest.Google) { g.Fail("cloudscheduler.googleapis.com", "RunJob", denied, -1) }, well,
			"not looked: the job was not run, which takes roles/cloudscheduler.jobRunner: "},
		{"the log cannot be read", func(g *googletest.Google) { g.Fail("logging.googleapis.com", "ListLogEntries", denied, -1) }, well,
			"not looked: reading the log, which takes roles/logging.viewer: "},
		{"jobs cannot be read", func(g *googletest.Google) { g.Fail("cloudscheduler.googleapis.com", "ListJobs", denied, -1) }, well,
			"not looked: the jobs could not be read: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := googletest.Start(t, "my-project")
			g.Enable("cloudscheduler.googleapis.com", "logging.googleapis.com")
			g.Put(job, &schedulerpb.Job{Name: job})
			before := time.Now()
			g.Entries = func(filter string) []json.RawMessage {
				last := g.Get(job).(*schedulerpb.Job).LastAttemptTime
				_, from, _ := strings.Cut(filter, `AND timestamp>=`)
				at, err := time.Parse(`"`+time.RFC3339Nano+`"`, from)
				if last == nil || err != nil || at.Before(before.Add(-2*clocksDiffer)) || !strings.Contains(filter, `service_name="tally-on-schedule" AND jsonPayload.message="audited"`) {
					t.Errorf("the filter is %s, after a run at %v", filter, last)
				}
				return test.logs
			}
			if test.has != nil {
				test.has(g)
			}

			r := runOn(t, g, defaults)
			r.job, r.Timeout = job, time.Millisecond
			if test.logs != nil {
				r.Timeout = time.Minute
			}
			expect(t, "tick", r.tick(t.Context()), test.want)
		})
	}
}

// The first roll-up is waited for until ten minutes after the youngest trigger or function was
// made, and as long as any other if all are older. Meanwhile the demo writes again and again.
func TestPatience(t *testing.T) {
	const timeout = time.Minute
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		name              string
		trigger, function time.Duration // how old they are; 0: there is none
		want              time.Duration
		says              string // of the youngest
	}{
		{"all are new", 40 * time.Second, 3 * time.Minute, 9*time.Minute + 20*time.Second, "tally-counters-shards-78fea5 is 40s old. "},
		{"the functions are the youngest", time.Hour, 4 * time.Minute, 6 * time.Minute, "tally-on-write is 4m0s old. "},
		{"almost old", 9*time.Minute + 30*time.Second, time.Hour, timeout, "tally-counters-shards-78fea5 is 9m30s old. "},
		{"old", time.Hour, 10 * time.Minute, timeout, ""},
		{"nothing is known", 0, 0, timeout, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := googletest.Start(t, "my-project")
			g.Enable("eventarc.googleapis.com", "pubsub.googleapis.com", "cloudfunctions.googleapis.com")
			if test.trigger > 0 {
				name := "projects/my-project/locations/nam5/triggers/" + deploy.TriggerName("(default)", of(t, defaults).Config.Routes[0])
				g.Put(name, new(eventarcpb.Trigger))
				googletest.Change(g, name, func(m *eventarcpb.Trigger) {
					m.CreateTime, m.UpdateTime = timestamppb.New(now.Add(-test.trigger)), timestamppb.New(now.Add(-test.trigger))
				})
			}
			if test.function > 0 {
				const name = "projects/my-project/locations/us-central1/functions/tally-on-write"
				g.Put(name, &functionspb.Function{Labels: map[string]string{"tally": "true", "tally-function": "on-write"}})
				googletest.Change(g, name, func(m *functionspb.Function) {
					m.CreateTime, m.UpdateTime = timestamppb.New(now.Add(-time.Hour)), timestamppb.New(now.Add(-test.function))
				})
			}

			r := runOn(t, g, defaults)
			r.Timeout = timeout
			p := r.parts[0]
			if got := r.patience(p, now); got != test.want {
				t.Errorf("it waits for %v, want %v", got, test.want)
			}
			if got := r.waits(now); !strings.HasPrefix(got, test.says) || (got == "") != (test.says == "") {
				t.Errorf("it says %q, want %q", got, test.says)
			}

			p.watch = new(lag.Watch) // sees nothing
			synctest.Test(t, func(t *testing.T) {
				began, writes := time.Now(), 0
				write := func(context.Context) error {
					writes++
					time.Sleep(time.Millisecond)
					return nil
				}
				err := r.rouse(t.Context(), p, r.patience(p, now), write)
				if waited := time.Since(began); waited != test.want || !errors.Is(err, ErrSilent) {
					t.Errorf("it waited for %v: %v; want %v", waited, err, test.want)
				}
				if want := int(math.Ceil(test.want.Minutes())); writes != want {
					t.Errorf("it wrote %d times, want %d, once a minute", writes, want)
				}
			})
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
