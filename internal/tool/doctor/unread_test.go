package doctor

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/test/googletest"
	"github.com/firestore-tally/tally/internal/tool/appfolder"
	"github.com/firestore-tally/tally/internal/tool/deploy"
	"github.com/firestore-tally/tally/internal/tool/local/freeport"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/api/option"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var denied = status.Error(codes.PermissionDenied, "The caller does not have permission")

// refuse has calls of the API's method refused, or all of the API's.
func refuse(api, method string) func(*googletest.Google) {
	return func(g *googletest.Google) { g.Fail(api+".googleapis.com", method, denied, -1) }
}

const mayDo = "gcloud projects add-iam-policy-binding my-project --member=user:YOU --role=roles/"

// unread are sound deployments of which something cannot be read, the checks that are unknown for
// it and those that are wrong, and the remedy that the first of the unknown names.
var unread = []struct {
	name           string
	unknown, wrong string
	says, remedy   string
	break_         func(*googletest.Google)
}{
	{"accounts", "as-deployed", "", "the service accounts: the account needs iam.serviceAccounts.list, iam.serviceAccounts.getIamPolicy: The caller does not have permission",
		mayDo + "iam.securityReviewer --condition=None", refuse("iam", "")},
	{"repositories", "as-deployed", "", "the repositories: the account needs artifactregistry.repositories.get, artifactregistry.repositories.list, artifactregistry.repositories.getIamPolicy: The caller does not have permission",
		mayDo + "artifactregistry.reader --condition=None", refuse("artifactregistry", "")},
	{"the queue", "as-deployed", "", "the queues: the account needs cloudtasks.queues.get, cloudtasks.queues.getIamPolicy: The caller does not have permission",
		mayDo + "cloudtasks.viewer --condition=None", refuse("cloudtasks", "")},
	{"policies of services", "as-deployed", "", "the services: the account needs run.services.get, run.services.getIamPolicy: The caller does not have permission",
		mayDo + "run.viewer --condition=None", refuse("run", "GetIamPolicy")},
	{"triggers", "as-deployed", "", "the triggers: the account needs eventarc.triggers.get, eventarc.triggers.list: The caller does not have permission",
		mayDo + "eventarc.viewer --condition=None", refuse("eventarc", "")},
	{"subscriptions", "as-deployed", "", "the subscriptions: the account needs pubsub.subscriptions.get: The caller does not have permission",
		mayDo + "pubsub.viewer --condition=None", refuse("pubsub", "")},
	{"jobs", "as-deployed", "", "the jobs: the account needs cloudscheduler.jobs.get, cloudscheduler.jobs.list: The caller does not have permission",
		mayDo + "cloudscheduler.viewer --condition=None", refuse("cloudscheduler", "")},
	{"fields", "as-deployed", "", "the fields: the account needs datastore.databases.list, datastore.indexes.get, datastore.indexes.list, datastore.entities.list: The caller does not have permission",
		mayDo + "datastore.viewer --condition=None", refuse("firestore", "GetField")},
	{"the counters", "once-per-user", "", "the counters of database (default): the account needs datastore.databases.list, datastore.indexes.get, datastore.indexes.list, datastore.entities.list: The caller does not have permission",
		mayDo + "datastore.viewer --condition=None", refuse("firestore", "RunQuery")},
	{"the log", "left-out drift late", "", "the functions' log: the account needs logging.logMetrics.get, logging.exclusions.get, logging.logEntries.list: The caller does not have permission",
		mayDo + "logging.viewer --condition=None", refuse("logging", "ListLogEntries")},
	{"the exclusions of logs", "as-deployed", "", "the log exclusions: the account needs logging.logMetrics.get, logging.exclusions.get, logging.logEntries.list: The caller does not have permission",
		mayDo + "logging.viewer --condition=None", refuse("logging", "GetExclusion")},
	{"time series", "deliveries alarms", "", "the metric " + pushes + ": the account needs monitoring.alertPolicies.list, monitoring.notificationChannels.list, " +
		"monitoring.dashboards.list, monitoring.timeSeries.list: The caller does not have permission",
		mayDo + "monitoring.viewer --condition=None", refuse("monitoring", "ListTimeSeries")},
	{"rules", "rules-increments rules", "", "the rules of database (default): the account needs firebaserules.releases.get, firebaserules.rulesets.get, firebaserules.rulesets.test: The caller does not have permission",
		mayDo + "firebaserules.viewer --condition=None", refuse("firebaserules", "TestRuleset")},
	{"an API that is not enabled", "rules-increments rules", "as-deployed", "the rules of database (default): firebaserules.googleapis.com has not been used in project 123456789 before or it is disabled.\n" +
		"tally deploy enables the API, which takes some minutes to be known everywhere. Run it again to continue.", "",
		func(g *googletest.Google) { g.Delete("projects/my-project/services/firebaserules.googleapis.com") }},
	{"credentials without a quota project", "rules-increments rules", "", "the rules of database (default): The firebaserules.googleapis.com API requires a quota project, which is not set by default.\nThe credentials name no project for the API's quota:",
		"gcloud auth application-default set-quota-project my-project", func(g *googletest.Google) {
			g.Fail("firebaserules.googleapis.com", "", status.Error(codes.PermissionDenied, "The firebaserules.googleapis.com API requires a quota project, which is not set by default."), -1)
		}},
	{"an API that asks for a quota project", "as-deployed", "", "the jobs: The cloudscheduler.googleapis.com API requires a quota project, which is not set by default.\nThe credentials name no project for the API's quota:",
		"gcloud auth application-default set-quota-project my-project", func(g *googletest.Google) {
			// As Google says it: the API is disabled in the project of gcloud itself.
			s := status.New(codes.PermissionDenied, "The cloudscheduler.googleapis.com API requires a quota project, which is not set by default.")
			s, err := s.WithDetails(&errdetails.ErrorInfo{Reason: "SERVICE_DISABLED", Domain: "googleapis.com"})
			if err != nil {
				panic(err) // not reached: it is no OK
			}
			g.Fail("cloudscheduler.googleapis.com", "", s.Err(), -1)
		}},
	{"billing", "payment", "", "the project's billing: the account needs resourcemanager.projects.get: The caller does not have permission",
		mayDo + "iam.securityReviewer --condition=None", refuse("cloudbilling", "")},
	{"increments that depend on other documents", rulesIncrements, "", "the rules of database (default): other documents decide, and a trial has none: " +
		"create counters/{counter}/shards/{shard} by count; update counters/{counter}/shards/{shard} by count", "", func(g *googletest.Google) {
		g.Rules = func(_ string, c googletest.RulesCase) *googletest.RulesResult {
			says := shipped(c)
			if says.Gets != "" && strings.Contains(c.Request.Path, "/counters/") {
				says.Gets = "/databases/(default)/documents/users/" + someID
			}
			return says
		}
	}},
	{"rules that ask for other documents", rulesJudged, "", "the rules of database (default): other documents decide, and a trial has none: update rollups/{counter}; update posts/{post}/sums/hot; update pages/{page}/sums/all",
		"", func(g *googletest.Google) {
			g.Rules = func(_ string, c googletest.RulesCase) *googletest.RulesResult {
				says := shipped(c)
				says.Asks = c.Request.Method == "update" && (strings.Contains(c.Request.Path, "/rollups/") || strings.Contains(c.Request.Path, "/sums/"))
				return says
			}
		}},
}

func TestUnread(t *testing.T) {
	for _, test := range unread {
		t.Run(test.name, func(t *testing.T) {
			g := sound(t)
			test.break_(g)
			names, findings, err := examined(t.Context(), g)
			if err != nil {
				t.Fatal(err)
			}
			delete(names, Idle) // what would have been asked of it
			want := map[Verdict]string{Unknown: test.unknown}
			if test.wrong != "" {
				want[Wrong] = test.wrong
			}
			if d := cmp.Diff(want, names); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			for _, f := range findings {
				for i, p := range f.Problems {
					if slices.ContainsFunc(f.Problems[:i], func(other Problem) bool { return other.Text == p.Text }) {
						t.Errorf("%s says twice: %s", f.Name, p.Text)
					}
				}
			}
			first, _, _ := strings.Cut(test.unknown, " ")
			says := "could not read " + test.says
			if test.remedy != "" {
				says += "\n  " + test.remedy
			}
			if said := findings[first].Problems[0].Text; said != says {
				t.Errorf("%s:\n got %s\nwant %s", first, said, says)
			}
		})
	}
}

// Without the project, its APIs, its databases and the functions nothing can be said.
func TestNothingRead(t *testing.T) {
	for _, test := range []struct {
		name   string
		want   string
		break_ func(*googletest.Google)
	}{
		{"the project", "could not read the project: the account needs resourcemanager.projects.get, resourcemanager.projects.getIamPolicy: The caller does not have permission\n  " +
			mayDo + "iam.securityReviewer --condition=None", refuse("cloudresourcemanager", "")},
		{"no such project", "could not read the project: there is no project my-project, or the account may not see it:\n  gcloud projects list",
			func(g *googletest.Google) { g.Delete("projects/my-project") }},
		{"credentials of yesterday", "could not read the APIs: Request had invalid authentication credentials.\nSign in:\n  gcloud auth application-default login",
			func(g *googletest.Google) {
				g.Fail("serviceusage.googleapis.com", "", status.Error(codes.Unauthenticated, "Request had invalid authentication credentials."), -1)
			}},
		{"databases", "could not read the databases and their fields: the account needs datastore.databases.list, datastore.indexes.get, datastore.indexes.list, datastore.entities.list: The caller does not have permission\n  " +
			mayDo + "datastore.viewer --condition=None", refuse("firestore", "")},
		{"billing that is off", "could not read the functions: This API method requires billing to be enabled.\nThe project needs a billing account, of those that the first command lists:\n  gcloud billing accounts list\n" +
			"  gcloud billing projects link my-project --billing-account=ACCOUNT", func(g *googletest.Google) {
			s := status.New(codes.PermissionDenied, "This API method requires billing to be enabled.")
			s, err := s.WithDetails(&errdetails.ErrorInfo{Reason: "BILLING_DISABLED", Domain: "googleapis.com"})
			if err != nil {
				panic(err) // not reached: it is no OK
			}
			g.Fail("cloudfunctions.googleapis.com", "", s.Err(), -1)
		}},
		{"functions", "could not read the functions: the account needs cloudfunctions.functions.get, cloudfunctions.functions.list: The caller does not have permission\n  " +
			mayDo + "cloudfunctions.viewer --condition=None", refuse("cloudfunctions", "")},
	} {
		g := sound(t)
		test.break_(g)
		if _, _, err := examined(t.Context(), g); err == nil || err.Error() != test.want {
			t.Errorf("%s:\n got %v\nwant %s", test.name, err, test.want)
		}
	}
}

// A region that does not answer is named, with its API.
func TestUnreachableRegion(t *testing.T) {
	g := sound(t)
	g.Unreachable = []string{"asia-east1"}
	names, findings, err := examined(t.Context(), g)
	if err != nil || names[Unknown] != "as-deployed" || names[Wrong] != "" {
		t.Fatalf("%v, %v", names, err)
	}
	const want = "could not read what Tally has in all regions: cloudfunctions.googleapis.com did not answer for asia-east1"
	if got := findings["as-deployed"].Problems[0].Text; got != want {
		t.Errorf("got %q, want %q", got, want)
	}

	g.Unreachable = []string{"us-central1"}
	if _, err := deploy.OpenFunctions(t.Context(), project, g.REST()...); err == nil {
		t.Error("functions that are not there are functions that were not read")
	}
}

// What answers late is unknown, and what answers is examined.
func TestLate(t *testing.T) {
	g := sound(t)
	g.Rules = func(string, googletest.RulesCase) *googletest.RulesResult {
		<-t.Context().Done() // which is before the server is stopped
		return nil
	}
	patiently(t, func(ctx context.Context) error {
		names, findings, err := examined(ctx, g)
		if err != nil {
			return err
		}
		if d := cmp.Diff(map[Verdict]string{Unknown: "rules-increments rules"}, names); d != "" {
			return fmt.Errorf("(-want +got):\n%s", d)
		}
		if got, want := findings[rulesJudged].Problems[0].Text, "could not read the rules of database (default): firebaserules.googleapis.com did not answer in time"; got != want {
			return fmt.Errorf("got %s, want %s", got, want)
		}
		return nil
	})
}

// No one listens, or no one answers.
func TestUnreachable(t *testing.T) {
	port, release, err := freeport.Hold(0)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	soon, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	for _, test := range []struct {
		ctx        context.Context
		addr, want string
	}{
		{t.Context(), fmt.Sprintf("127.0.0.1:%d", port), "dial tcp "},
		{soon, silent.Addr().String(), "cloudresourcemanager.googleapis.com did not answer in time"},
	} {
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", test.addr)
		}
		client := &http.Client{Transport: &http.Transport{DialTLSContext: dial}}
		_, err := Read(test.ctx, project, &appfolder.Folder{}, option.WithHTTPClient(client))
		if err == nil || !strings.HasPrefix(err.Error(), "could not read the project: "+test.want) {
			t.Errorf("got %v, want %s", err, test.want)
		}
	}
}

// patiently calls try with more and more time until it succeeds. Try uses all of its time, because
// it asks somebody who never answers; what does answer may take long on a machine with other work
// to do.
func patiently(t *testing.T, try func(context.Context) error) {
	t.Helper()
	const most = time.Minute
	for within := time.Second; ; within *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		err := try(ctx)
		cancel()
		if err == nil {
			return
		}
		if within > most {
			t.Fatal(err)
		}
	}
}
