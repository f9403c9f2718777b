package deploy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"

	"cloud.google.com/go/artifactregistry/apiv1/artifactregistrypb"
	"cloud.google.com/go/cloudtasks/apiv2/cloudtaskspb"
	"cloud.google.com/go/eventarc/apiv1/eventarcpb"
	"cloud.google.com/go/firestore/apiv1/admin/adminpb"
	"cloud.google.com/go/functions/apiv2/functionspb"
	iamadminpb "cloud.google.com/go/iam/admin/apiv1/adminpb"
	"cloud.google.com/go/iam/apiv1/iampb"
	"cloud.google.com/go/logging/apiv2/loggingpb"
	"cloud.google.com/go/monitoring/apiv3/v2/monitoringpb"
	"cloud.google.com/go/monitoring/dashboard/apiv1/dashboardpb"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/resourcemanager/apiv3/resourcemanagerpb"
	"cloud.google.com/go/run/apiv2/runpb"
	"cloud.google.com/go/scheduler/apiv1/schedulerpb"
	"cloud.google.com/go/serviceusage/apiv1/serviceusagepb"
	"github.com/firestore-tally/tally/internal/test/googletest"
	"golang.org/x/oauth2"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// protobufs are Google's own protocol buffers of the kinds.
var protobufs = map[string]proto.Message{
	"API": new(serviceusagepb.Service), "index": new(adminpb.Index), "service account": new(iamadminpb.ServiceAccount),
	"project": new(resourcemanagerpb.Project), "repository": new(artifactregistrypb.Repository), "queue": new(cloudtaskspb.Queue),
	"field": new(adminpb.Field), "field index": new(adminpb.Field), "time to live": new(adminpb.Field), "log exclusion": new(loggingpb.LogExclusion),
	"function": new(functionspb.Function), "service": new(runpb.Service), "trigger": new(eventarcpb.Trigger),
	"subscription": new(pubsubpb.Subscription), "job": new(schedulerpb.Job), "metric": new(loggingpb.LogMetric),
	"notification channel": new(monitoringpb.NotificationChannel), "alert": new(monitoringpb.AlertPolicy), "dashboard": new(dashboardpb.Dashboard),
}

// Each resource of the manifest is one of Google's, to the last field: what Google does not know
// fails, and so does a value of another type.
func TestManifestIsGoogles(t *testing.T) {
	seen := make(map[string]bool)
	p := newProject(t)
	p.options.Config.Routes = options(t, p.options.Config.Routes.String()+"\n"+strings.ReplaceAll(acrossRoute, "posts/", "articles/")).Config.Routes
	for _, r := range p.read().Resources {
		seen[r.Kind()] = true
		message := protobufs[r.Kind()]
		if message == nil {
			t.Fatalf("no message of %s", r.Kind())
		}
		for _, of := range []Object{r.Want, r.Once} {
			sent := toJSON(merge(nil, nil, map[string]any(of)))
			if err := protojson.Unmarshal([]byte(sent), proto.Clone(message)); err != nil {
				t.Errorf("%v: %v", r, err)
			}
		}
	}
	if len(seen) != len(known().Kinds) {
		t.Errorf("the manifest has only %d of %d kinds", len(seen), len(known().Kinds))
	}

	if err := protojson.Unmarshal([]byte(`{"scedule": "x"}`), new(schedulerpb.Job)); err == nil {
		t.Error("a misspelled field passes")
	}
}

// What an id or a variable holds does not get out of its place in the manifest.
func TestManifestQuotes(t *testing.T) {
	plain := described(t, options(t, likes))
	for _, nasty := range []string{`a"b`, "a\nb: c", "{{.Project}}", "# x", "${x}", "a: [b]", `\`, "'", "é\u2028", "%s", "`", "a\x00b", "- kind: x"} {
		o := options(t, likes)
		o.Env = map[string]string{"TALLY_X": nasty, "TALLY_" + nasty: "x"}
		o.Alerts = []string{nasty}
		o.Databases[0].ID = nasty
		d := described(t, o)
		env := asObject(d.OfKind("function")[0].Want.at([]string{"serviceConfig", "environmentVariables"}))
		channels := d.OfKind("alert")[0].Want["notificationChannels"].([]any)
		if env["TALLY_X"] != nasty || env["TALLY_"+nasty] != "x" || channels[0] != nasty || filter(d.OfKind("trigger")[0].Want, "database") != nasty {
			t.Errorf("%q: %v, %v", nasty, env, d.OfKind("trigger")[0].Want)
		}
		if extra := len(d.OfKind("alert")) + len(d.OfKind("metric")) + len(d.OfKind("dashboard")); len(d.Resources) != len(plain.Resources)+extra {
			t.Errorf("%q: %d resources", nasty, len(d.Resources))
		}
	}
}

// Fields that others have set survive an update, of each kind that has updates.
func TestForeignFieldsSurvive(t *testing.T) {
	d := newProject(t)
	d.deploy()
	const p, here = "projects/my-project/", "projects/my-project/locations/us-central1/"
	alert, subscription := d.alert("lag"), d.google.Names("subscriptions")[0]
	field := p + "databases/(default)/collectionGroups/increment_tokens/fields/expire_at"
	ttl, _ := d.google.Get(field).(*adminpb.Field)
	ttl.TtlConfig = nil
	d.google.Put(field, ttl)

	for _, of := range []struct {
		name, ours string // what somebody changes of Tally's
		value      any
		foreign    string // what somebody else has set
		theirs     any
	}{
		{p + "serviceAccounts/tally-trigger@my-project.iam.gserviceaccount.com", "displayName", "x", "description", "Made by tally deploy"},
		{here + "repositories/tally", "cleanupPolicyDryRun", true, "cleanupPolicies.mine", map[string]any{"id": "mine", "action": "KEEP"}},
		{here + "repositories/tally", "cleanupPolicies.tally-keep.mostRecentVersions.keepCount", 9, "labels.mine", "1"},
		{here + "queues/tally", "retryConfig.maxAttempts", 9, "retryConfig.maxDoublings", 16},
		{here + "functions/tally-on-write", "serviceConfig.timeoutSeconds", 7, "serviceConfig.environmentVariables.MINE", "1"},
		{here + "functions/tally-on-write", "serviceConfig.environmentVariables.TALLY_BURST", "9", "labels.mine", "1"},
		{here + "services/tally-on-write", "template.containers.0.resources.cpuIdle", false, "template.containers.0.env", []any{map[string]any{"name": "MINE", "value": "1"}}},
		{p + "locations/nam5/triggers/tally-counters-shards-78fea5", "eventDataContentType", "x", "labels.mine", "1"},
		{subscription, "ackDeadlineSeconds", 10, "labels.mine", "1"},
		{here + "jobs/tally", "retryConfig.retryCount", 9, "httpTarget.headers.X-Mine", "1"},
		{here + "jobs/tally", "schedule", "* * * * *", "state", "PAUSED"},
		{p + "exclusions/tally-on-write-requests", "filter", "x", "disabled", true},
		{p + "metrics/tally_drift", "filter", "x", "labelExtractors.mine", "EXTRACT(x)"},
		{alert, "severity", "CRITICAL", "userLabels.mine", "1"},
		{alert, "conditions.0.conditionPrometheusQueryLanguage.query", "x", "conditions.0.conditionPrometheusQueryLanguage.labels.mine", "1"},
		{alert, "documentation.content", "x", "notificationChannels.1", nil},
		{d.google.Names("dashboards")[0], "mosaicLayout.columns", 12, "labels.mine", "1"},
		{field, "", nil, "indexConfig", map[string]any{}},
	} {
		ours, foreign := strings.Split(of.ours, "."), strings.Split(of.foreign, ".")
		if of.ours != "" {
			d.google.Set(of.name, ours, of.value)
		}
		if of.foreign == "notificationChannels.1" {
			googletest.Change(d.google, of.name, func(a *monitoringpb.AlertPolicy) {
				a.NotificationChannels = append(a.NotificationChannels, "projects/p/notificationChannels/mine")
			})
			of.theirs = "projects/p/notificationChannels/mine"
		} else if of.ours != "" {
			d.google.Set(of.name, foreign, of.theirs)
		}
		d.deploy()

		now := read(t, d.google, of.name)
		if got := now.at(foreign); toJSON(got) != toJSON(of.theirs) {
			t.Errorf("%s: after an update of %s, %s is %s, want %s", of.name, of.ours, of.foreign, toJSON(got), toJSON(of.theirs))
		}
		if of.ours != "" && toJSON(now.at(ours)) == toJSON(of.value) {
			t.Errorf("%s: %s was not fixed", of.name, of.ours)
		}
	}
	if said := d.deploy(); said != "" {
		t.Errorf("something is left to do:\n%s", said)
	}
}

// read returns a resource as JSON has it.
func read(t *testing.T, g *googletest.Google, name string) (o Object) {
	t.Helper()
	text, err := protojson.Marshal(g.Get(name))
	if err == nil {
		err = json.Unmarshal(text, &o)
	}
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// After a deployment nothing is left to do, and a change of routes comes in its order.
func TestDeployTwice(t *testing.T) {
	d := newProject(t)
	first := d.deploy()
	if second := d.deploy(); second != "" || !strings.Contains(first, "create function tally-on-write") {
		t.Errorf("the first time\n%s\nthe second time\n%s", first, second)
	}
	for _, of := range []string{"functions", "triggers", "jobs", "alertPolicies", "dashboards"} {
		if len(d.google.Names(of)) == 0 {
			t.Errorf("no %s", of)
		}
	}
	d.undeploy()
	for _, of := range []string{"functions", "triggers", "jobs", "alertPolicies", "dashboards", "repositories", "exclusions", "metrics"} {
		if left := d.google.Names(of); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	}
}

// The queue outlasts an undeployment: without its tasks, and no one may add any.
func TestQueueStays(t *testing.T) {
	d := newProject(t)
	d.deploy()
	const name = "projects/my-project/locations/us-central1/queues/tally"
	if len(d.google.Policy(name).Bindings) != 2 {
		t.Errorf("deployed: %v", d.google.Policy(name))
	}

	d.undeploy()
	queue, _ := d.google.Get(name).(*cloudtaskspb.Queue)
	if queue.GetPurgeTime() == nil || len(d.google.Policy(name).Bindings) != 0 {
		t.Errorf("undeployed: %v, %v", queue, d.google.Policy(name))
	}
	d.deploy()
	if said := d.deploy(); said != "" {
		t.Errorf("deployed again, something is left to do:\n%s", said)
	}
}

// An answer to a POST that is lost is looked up: what was made is not made a second time.
func TestLostAnswers(t *testing.T) {
	d := newProject(t)
	lost := make(map[string]bool)
	said, err := d.tryDeploy(with(func(r *http.Request, response *http.Response) error {
		at := r.URL.Host + r.URL.Path + r.URL.RawQuery
		isRead := strings.HasSuffix(at, ":getIamPolicy") // which is planned, too
		if r.Method != http.MethodPost || isRead || lost[at] || response.StatusCode != http.StatusOK {
			return nil
		}
		lost[at] = true
		return io.ErrUnexpectedEOF
	}))
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	if len(lost) < 20 || !strings.Contains(said, "the answer was lost; trying again in 30s") {
		t.Errorf("%d answers were lost:\n%s", len(lost), said)
	}
	if again := d.deploy(); again != "" {
		t.Errorf("something is left to do:\n%s", again)
	}
	for of, want := range map[string]int{"alertPolicies": 14, "dashboards": 1, "notificationChannels": 1, "indexes": 2, "triggers": 6} {
		if got := len(d.google.Names(of)); got != want {
			t.Errorf("%d %s, want %d", got, of, want)
		}
	}
}

// What never passes ends after ten minutes, with the reason and the remedy.
func TestNeverPasses(t *testing.T) {
	d := newProject(t)
	d.google.Fail("cloudfunctions.googleapis.com", "CreateFunction", status.Error(codes.Aborted, "unable to queue the operation"), -1)
	said, err := d.tryDeploy(nil)
	if err == nil || !strings.Contains(err.Error(), "create function tally-on-write: unable to queue the operation") {
		t.Errorf("%v", err)
	}
	if n := strings.Count(said, "something else is changing the same resource; trying again in 30s"); n != 20 {
		t.Errorf("it was tried again %d times:\n%s", n, said)
	}
	if uploads := slices.DeleteFunc(d.google.Requests(), func(r googletest.Request) bool { return !strings.HasSuffix(r.At, ":generateUploadUrl") }); len(uploads) != 21 {
		t.Errorf("%d addresses were asked for, want one for each try", len(uploads))
	}
}

// After Ctrl-C the next run waits for the build that goes on, and does not build a second time.
func TestAfterCtrlC(t *testing.T) {
	d := newProject(t)
	d.deploy()
	const name = "projects/my-project/locations/us-central1/functions/tally-on-write"
	d.google.Set(name, []string{"serviceConfig", "timeoutSeconds"}, 7)

	stopped := errors.New("interrupted")
	var cancel context.CancelCauseFunc
	_, err := d.tryDeploy(func(ctx context.Context, wanted *Deployment) context.Context {
		ctx, cancel = context.WithCancelCause(ctx)
		return with(func(r *http.Request, _ *http.Response) error {
			if r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/functions/") {
				cancel(stopped)
				return stopped
			}
			return nil
		})(ctx, wanted)
	})
	if !errors.Is(err, stopped) {
		t.Errorf("after Ctrl-C: %v", err)
	}
	d.google.Set(name, []string{"serviceConfig", "timeoutSeconds"}, 7) // not built yet

	// The build that was begun goes on: for a minute the function is being deployed.
	googletest.Change(d.google, name, func(f *functionspb.Function) { f.State = functionspb.Function_DEPLOYING })
	d.google.Requests()
	looks := 0
	said, err := d.tryDeploy(with(func(r *http.Request, _ *http.Response) error {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/functions/tally-on-write") {
			looks++
		}
		if looks == 3 { // the plan looks, too
			googletest.Change(d.google, name, func(f *functionspb.Function) {
				f.State, f.ServiceConfig.TimeoutSeconds = functionspb.Function_ACTIVE, 60
			})
		}
		return nil
	}))
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	if !strings.Contains(said, "another command is building it; trying again in 30s") {
		t.Errorf("it did not wait:\n%s", said)
	}
	for _, r := range d.google.Requests() {
		if r.Verb == http.MethodPatch && strings.Contains(r.At, "/functions/") {
			t.Errorf("it builds once more: %s", r.At)
		}
	}
}

// A list has all pages, and names the regions that did not answer.
func TestList(t *testing.T) {
	d := newProject(t)
	d.deploy() // googletest has one resource on a page
	d.google.Unreachable = []string{"asia-east1"}
	p := d.read()
	all, err := p.List(t.Context(), "eventarc.googleapis.com/v1/projects/my-project/locations/-/triggers")
	if silence := (Silence{"eventarc", "asia-east1"}); len(all) != 6 || err != nil || !slices.Contains(p.silences, silence) {
		t.Errorf("%d triggers, %v, %v", len(all), p.silences, err)
	}
}

// someone signs in with credentials of a file.
func (d *testProject) someone(file string) *Project {
	d.Helper()
	base := d.read().client.Transport
	o := signedIn(oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "token"}), []byte(file), base)
	p, err := open(d.Context(), "my-project", o)
	if err != nil {
		d.Fatal(err)
	}
	return p
}

// A person's calls are counted for the project, or the one that the environment names, and a
// service account's for its own. The upload has neither a project nor credentials; googletest
// refuses both.
func TestQuotaProject(t *testing.T) {
	for _, of := range []struct{ file, env, want string }{
		{`{"type": "authorized_user", "quota_project_id": "other"}`, "", "my-project"},
		{`{"type": "external_account_authorized_user"}`, "", "my-project"},
		{`{"type": "service_account", "client_email": "robot@p.iam.example.com"}`, "", ""},
		{"", "", ""},           // of a machine
		{"", "shell", "shell"}, // of a person in Cloud Shell
		{`{"type": "authorized_user"}`, "other", "other"},
	} {
		t.Setenv("GOOGLE_CLOUD_QUOTA_PROJECT", "")
		d := oneCounter(t)
		d.google.Enable(slices.Sorted(maps.Keys(apis()))...)
		d.google.Put("projects/my-project/serviceAccounts/tally-functions@my-project.iam.gserviceaccount.com", new(iamadminpb.ServiceAccount))
		d.google.Put("projects/my-project/serviceAccounts/tally-build@my-project.iam.gserviceaccount.com", new(iamadminpb.ServiceAccount))
		wanted := d.read()
		t.Setenv("GOOGLE_CLOUD_QUOTA_PROJECT", of.env)
		wanted.Project = d.someone(of.file)
		d.google.Requests()

		if err := wanted.apply(t.Context(), wanted.OfKind("function")[0]); err != nil {
			t.Fatal(err)
		}
		for _, q := range d.google.Requests() {
			isUpload := strings.HasPrefix(q.At, "storage.")
			if got := q.Header.Get(quotaHeader); got != of.want && !isUpload || got != "" && isUpload {
				t.Errorf("%s: %s %s is counted for %q, want %q", of.file, q.Verb, q.At, got, of.want)
			}
			if signed := q.Header.Get("Authorization") != ""; signed == isUpload {
				t.Errorf("%s: %s %s is signed: %t", of.file, q.Verb, q.At, signed)
			}
		}
	}
}

// That an API is off in the project means that nothing is there. That it is off in another project,
// for which the credentials have calls counted, tells nothing.
func TestDisabledElsewhere(t *testing.T) {
	for consumer, isAbsent := range map[string]bool{"projects/my-project": true, "projects/" + googletest.Number: true, "projects/764086051850": false, "": false} {
		d := newProject(t)
		d.google.FailDisabled("eventarc.googleapis.com", "", consumer, -1)
		wanted := d.read()
		_, err := wanted.Look(t.Context(), wanted.OfKind("trigger")[0])
		if (err == nil) != isAbsent {
			t.Errorf("off in %q: %v", consumer, err)
		}
	}
}

// Where the project's Service Usage API is off, or the account may not have calls counted for it,
// the first calls are counted for no project.
func TestUncounted(t *testing.T) {
	t.Setenv("GOOGLE_CLOUD_QUOTA_PROJECT", "")
	denied, err := status.New(codes.PermissionDenied, "Caller does not have required permission to use project my-project.").WithDetails(
		&errdetails.ErrorInfo{Reason: "USER_PROJECT_DENIED", Domain: "googleapis.com"})
	if err != nil {
		t.Fatal(err)
	}
	for name, fail := range map[string]func(*googletest.Google){
		"the API is off": func(g *googletest.Google) {
			g.FailDisabled("serviceusage.googleapis.com", "ListServices", "projects/"+googletest.Number, 1)
		},
		"the account may not use the project": func(g *googletest.Google) {
			g.Fail("serviceusage.googleapis.com", "ListServices", denied.Err(), 1)
		},
	} {
		d := oneCounter(t)
		base := d.read().client.Transport
		fail(d.google)
		d.google.Requests()
		p, err := open(t.Context(), "my-project", signedIn(oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "token"}), []byte(`{"type": "authorized_user"}`), base))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var headers []string
		for _, r := range d.google.Requests() {
			headers = append(headers, path.Base(r.At)+" "+r.Header.Get(quotaHeader))
		}
		if got := fmt.Sprint(headers); got != "[services my-project services  my-project ]" {
			t.Errorf("%s: the first calls are counted for %s", name, got)
		}
		if err := p.enable(t.Context(), []string{"serviceusage.googleapis.com"}); err != nil || p.quotaProject() != "my-project" {
			t.Errorf("%s: after an API is enabled calls are counted for %q, %v", name, p.quotaProject(), err)
		}
	}
}

// At most 20 APIs are enabled by a call.
func TestManyAPIs(t *testing.T) {
	d := newProject(t)
	p := d.read()
	var all []string
	for i := range 42 { // of a third call two, because one alone is enabled by another method
		all = append(all, fmt.Sprintf("a%d.googleapis.com", i))
	}
	d.google.Requests()
	if err := p.enable(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	calls := 0
	for _, r := range d.google.Requests() {
		if strings.HasSuffix(r.At, ":batchEnable") {
			calls++
		}
	}
	if calls != 3 || d.google.Get("projects/my-project/services/a40.googleapis.com") == nil {
		t.Errorf("%d calls", calls)
	}
}

// A role is given in addition to those of others.
func TestPolicyOfOthers(t *testing.T) {
	d := newProject(t)
	others := []*iampb.Binding{{Role: "roles/owner", Members: []string{"user:me@example.com"}}, {Role: "roles/logging.logWriter", Members: []string{"user:me@example.com"}}}
	d.google.SetPolicy("projects/my-project", &iampb.Policy{Bindings: others})
	d.deploy()
	p := d.google.Policy("projects/my-project")
	for _, want := range others {
		if !slices.ContainsFunc(p.Bindings, func(b *iampb.Binding) bool {
			return b.Role == want.Role && slices.Contains(b.Members, "user:me@example.com")
		}) {
			t.Errorf("%s is gone: %v", want.Role, p)
		}
	}
}
