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
	"github.com/firestore-tally/tally/internal/test/googletest"
	"github.com/firestore-tally/tally/internal/tool/deploy"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

var denied = status.Error(codes.PermissionDenied, "The caller does not have permission")

// run returns a run of a trial on what Google has.
func runOn(t *testing.T, g *googletest.Google, routes ...string) *run {
	t.Helper()
	d := of(t, routes...)
	on, err := deploy.Open(t.Context(), "my-project", g.REST()...)
	if err != nil {
		t.Fatal(err)
	}
	was, err := on.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d.on, d.was = on, was
	if err := d.readTriggers(t.Context()); err != nil {
		t.Fatal(err)
	}
	made, err := New(d, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &run{Trial: made}
}

// Without events nothing can be asked about them.
func TestSpacesWithoutEvents(t *testing.T) {
	r := runOn(t, googletest.Start(t, "my-project"), defaults+" : every 1m")
	expect(t, "spaces", r.spaces(t.Context()), "not looked: "+noEvents)
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
