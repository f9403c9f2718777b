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
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// protobufs are Google's own protocol buffers of the kinds.
var protobufs = map[*Kind]proto.Message{
	API: new(serviceusagepb.Service), Index: new(adminpb.Index), Account: new(iamadminpb.ServiceAccount),
	Project: new(resourcemanagerpb.Project), Repository: new(artifactregistrypb.Repository), Queue: new(cloudtaskspb.Queue),
	Field: new(adminpb.Field), TTL: new(adminpb.Field), Exclusion: new(loggingpb.LogExclusion),
	Function: new(functionspb.Function), Service: new(runpb.Service), Trigger: new(eventarcpb.Trigger),
	Subscription: new(pubsubpb.Subscription), Job: new(schedulerpb.Job), Metric: new(loggingpb.LogMetric),
	Channel: new(monitoringpb.NotificationChannel), Alert: new(monitoringpb.AlertPolicy), Dashboard: new(dashboardpb.Dashboard),
}

// Each resource of the manifest is one of Google's, to the last field: what Google does not know
// fails, and so does a value of another type.
func TestManifestIsGoogles(t *testing.T) {
	_, d := newProject(t).read()
	seen := make(map[*Kind]bool)
	for _, r := range d.Resources {
		seen[r.Kind] = true
		message := protobufs[r.Kind]
		if message == nil {
			t.Fatalf("no message of %s", r.Kind)
		}
		for _, of := range []Object{r.Want, r.Once} {
			o, _ := merged(nil, nil, of).(Object) // as it is sent
			if err := protojson.Unmarshal([]byte(o.text()), proto.Clone(message)); err != nil {
				t.Errorf("%s %s: %v", r.Kind, r.Name, err)
			}
		}
	}
	if len(seen) != len(kinds) {
		t.Errorf("the manifest has only %d of %d kinds", len(seen), len(kinds))
	}

	if err := protojson.Unmarshal([]byte(`{"scedule": "x"}`), new(schedulerpb.Job)); err == nil {
		t.Error("a misspelled field passes")
	}
}

// What an id or a variable holds does not get out of its place in the manifest.
func TestManifestQuotes(t *testing.T) {
	plain, err := Describe(options(t, likes), newState("p"), "abc")
	if err != nil {
		t.Fatal(err)
	}
	for _, nasty := range []string{`a"b`, "a\nb: c", "{{.Project}}", "# x", "${x}", "a: [b]", `\`, "'", "é\u2028", "%s", "`", "a\x00b", "- kind: x"} {
		o := options(t, likes)
		o.Env = map[string]string{"TALLY_X": nasty, "TALLY_" + nasty: "x"}
		o.AlertEmail = nasty
		o.Databases[0].ID = nasty
		d, err := Describe(o, newState("p"), "abc")
		if err != nil {
			t.Fatalf("%q: %v", nasty, err)
		}
		f := d.of(Function)[0]
		env, _ := f.Want.at([]string{"serviceConfig", "environmentVariables"}).(Object)
		if env["TALLY_X"] != nasty || env["TALLY_"+nasty] != "x" || d.of(Channel)[0].Once.Get("labels.email_address") != nasty || filter(d.of(Trigger)[0].Want, "database") != nasty {
			t.Errorf("%q: %v, %v", nasty, env, d.of(Trigger)[0].Want)
		}
		if len(d.Resources) != len(plain.Resources)+1 { // the channel
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
		{p + "exclusions/tally-on-write-requests", "filter", "x", "description", "theirs"},
		{here + "functions/tally-on-write", "serviceConfig.timeoutSeconds", 7, "serviceConfig.environmentVariables.MINE", "1"},
		{here + "functions/tally-on-write", "serviceConfig.environmentVariables.TALLY_BURST", "9", "labels.mine", "1"},
		{here + "services/tally-on-write", "template.containers.0.resources.cpuIdle", false, "template.containers.0.env", []any{map[string]any{"name": "MINE", "value": "1"}}},
		{p + "locations/nam5/triggers/tally-counters-shards-78fea5", "eventDataContentType", "x", "labels.mine", "1"},
		{subscription, "ackDeadlineSeconds", 10, "labels.mine", "1"},
		{here + "jobs/tally", "retryConfig.retryCount", 9, "httpTarget.headers.X-Mine", "1"},
		{here + "jobs/tally", "schedule", "* * * * *", "state", "PAUSED"},
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

// A faulty transport does what a test says before or after a request.
type faulty struct {
	http.RoundTripper
	after func(*http.Request, *http.Response) error
}

func (f *faulty) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := f.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if lost := f.after(r, response); lost != nil {
		response.Body.Close()
		return nil, lost
	}
	return response, nil
}

// The queue outlasts an undeployment: without its tasks, and no one may add any.
func TestQueueStays(t *testing.T) {
	d := newProject(t)
	d.deploy()
	const name = "projects/my-project/locations/us-central1/queues/tally"
	if len(d.google.Policy(name).Bindings) != 1 {
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
	said, err := d.tryDeploy(func(_ context.Context, r *Run) {
		r.State.client.Transport = &faulty{r.State.client.Transport, func(r *http.Request, response *http.Response) error {
			at := r.URL.Host + r.URL.Path + r.URL.RawQuery
			if r.Method != http.MethodPost || lost[at] || response.StatusCode != http.StatusOK {
				return nil
			}
			lost[at] = true
			return io.ErrUnexpectedEOF
		}}
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	if len(lost) < 20 || !strings.Contains(said, "the answer was lost; once more in 30s") {
		t.Errorf("%d answers were lost:\n%s", len(lost), said)
	}
	if again := d.deploy(); again != "" {
		t.Errorf("something is left to do:\n%s", again)
	}
	for of, want := range map[string]int{"alertPolicies": 13, "dashboards": 1, "notificationChannels": 1, "indexes": 2, "triggers": 6} {
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
	if err == nil || !strings.Contains(err.Error(), "create function tally-on-write: Aborted: unable to queue the operation") {
		t.Errorf("%v", err)
	}
	if n := strings.Count(said, "something else is changing the same; once more in 30s"); n != 19 {
		t.Errorf("it was tried again %d times:\n%s", n, said)
	}
	if uploads := slices.DeleteFunc(d.google.Requests(), func(r googletest.Request) bool { return !strings.HasSuffix(r.At, ":generateUploadUrl") }); len(uploads) != 20 {
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
	_, err := d.tryDeployIn(func(ctx context.Context) (inner context.Context) {
		inner, cancel = context.WithCancelCause(ctx)
		return inner
	}, func(_ context.Context, r *Run) {
		r.State.client.Transport = &faulty{r.State.client.Transport, func(r *http.Request, _ *http.Response) error {
			if r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/functions/") {
				cancel(stopped)
				return stopped
			}
			return nil
		}}
	})
	if !errors.Is(err, stopped) {
		t.Errorf("after Ctrl-C: %v", err)
	}
	d.google.Set(name, []string{"serviceConfig", "timeoutSeconds"}, 7) // not built yet

	// The build that was begun goes on: for a minute the function is being deployed.
	googletest.Change(d.google, name, func(f *functionspb.Function) { f.State = functionspb.Function_DEPLOYING })
	d.google.Requests()
	looks := 0
	said, err := d.tryDeploy(func(_ context.Context, r *Run) {
		r.State.client.Transport = &faulty{r.State.client.Transport, func(r *http.Request, _ *http.Response) error {
			if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/functions/tally-on-write") {
				looks++
			}
			if looks == 2 {
				googletest.Change(d.google, name, func(f *functionspb.Function) {
					f.State, f.ServiceConfig.TimeoutSeconds = functionspb.Function_ACTIVE, 60
				})
			}
			return nil
		}}
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	if !strings.Contains(said, "another command is building it; once more in 30s") {
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
	s, _ := d.read()
	all, err := s.List(t.Context(), eventarcAPI, "v1/projects/my-project/locations/-/triggers")
	unread := new(unreachable)
	if len(all) != 6 || !errors.As(err, &unread) || !slices.Equal(unread.regions, []string{"asia-east1"}) {
		t.Errorf("%d triggers, %v", len(all), err)
	}
}

// An operation that fails ends with its code and its details.
func TestOperationError(t *testing.T) {
	err := operationError(Object{"name": "operations/1", "done": true, "error": Object{"code": 8, "message": "too much",
		"details": []any{Object{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "RATE_LIMIT_EXCEEDED", "domain": "googleapis.com"}}}})
	if code(err) != codes.ResourceExhausted || reason(err) != "RATE_LIMIT_EXCEEDED" || message(err) != "too much" {
		t.Errorf("%v %q %q", code(err), reason(err), message(err))
	}
	unknown := operationError(Object{"error": Object{"code": 9, "message": "no", "details": []any{Object{"@type": "type.googleapis.com/x.Y", "z": 1}}}})
	if code(unknown) != codes.FailedPrecondition || message(unknown) != "no" {
		t.Errorf("%v", unknown)
	}
	if err := operationError(Object{"done": true, "response": Object{}}); err != nil {
		t.Error(err)
	}
}

// someone signs in with credentials of a file.
func (d *testProject) someone(file string) *State {
	d.Helper()
	base := googletestTransport(d.google)
	o := signedIn(oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "token"}), []byte(file), base)
	s, err := connect(d.Context(), d.options.Project, o)
	if err != nil {
		d.Fatal(err)
	}
	return s
}

func googletestTransport(g *googletest.Google) http.RoundTripper {
	s, err := connect(context.Background(), "p", g.REST())
	if err != nil {
		panic(err)
	}
	return s.client.Transport
}

// A person's calls are counted for the project, and a service account's for its own. The upload has
// neither a project nor credentials; googletest refuses both.
func TestQuotaProject(t *testing.T) {
	for file, want := range map[string]string{
		`{"type": "authorized_user", "quota_project_id": "other"}`:               "my-project",
		`{"type": "external_account_authorized_user"}`:                           "my-project",
		`{"type": "service_account", "client_email": "robot@p.iam.example.com"}`: "",
		"": "", // of a machine
	} {
		d := newProject(t)
		s := d.someone(file)
		d.google.Enable(slices.Sorted(maps.Keys(apis()))...)
		d.google.Put("projects/my-project/serviceAccounts/tally-functions@my-project.iam.gserviceaccount.com", new(iamadminpb.ServiceAccount))
		d.google.Put("projects/my-project/serviceAccounts/tally-build@my-project.iam.gserviceaccount.com", new(iamadminpb.ServiceAccount))
		have, described := d.read()
		have.client, have.quota = s.client, s.quota
		upload, _ := OwnUpload(source, "")
		d.google.Requests()

		r := &Run{State: have, Description: described, Upload: upload, Progress: io.Discard}
		if err := r.apply(t.Context(), described.of(Function)[0]); err != nil {
			t.Fatal(err)
		}
		for _, q := range d.google.Requests() {
			isUpload := strings.HasPrefix(q.At, "storage.")
			if got := q.Header.Get(quotaHeader); got != want && !isUpload || got != "" && isUpload {
				t.Errorf("%s: %s %s is counted for %q, want %q", file, q.Verb, q.At, got, want)
			}
			if signed := q.Header.Get("Authorization") != ""; signed == isUpload {
				t.Errorf("%s: %s %s is signed: %t", file, q.Verb, q.At, signed)
			}
		}
	}
}

// Who is signed in is said by the file, or by Google.
func TestAccount(t *testing.T) {
	for file, want := range map[string]string{
		`{"type": "authorized_user"}`:                                            "me@example.com",
		`{"type": "service_account", "client_email": "robot@p.iam.example.com"}`: "robot@p.iam.example.com",
		`{"type": "impersonated_service_account", "service_account_impersonation_url": "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/a@b.example.com:generateAccessToken"}`: "a@b.example.com",
	} {
		if got := newProject(t).someone(file).Account(t.Context()); got != want {
			t.Errorf("%s: %q, want %q", file, got, want)
		}
	}
}

// That an API is off in the project means that nothing is there. That it is off in another project,
// for which the credentials have calls counted, tells nothing.
func TestDisabledElsewhere(t *testing.T) {
	for consumer, isAbsent := range map[string]bool{"projects/my-project": true, "projects/" + googletest.Number: true, "projects/764086051850": false, "": false} {
		d := newProject(t)
		d.google.FailDisabled("eventarc.googleapis.com", "", consumer, -1)
		have, err := Read(t.Context(), "my-project", d.google.REST()...)
		if err != nil {
			t.Fatal(err)
		}
		if u := have.Unread[Trigger]; (u == nil) != isAbsent {
			t.Errorf("off in %q: %v", consumer, u)
		}
	}
}

// Where the project's Service Usage API is off, the first calls are counted for no project.
func TestServiceUsageOff(t *testing.T) {
	d := newProject(t)
	s := d.someone(`{"type": "authorized_user"}`)
	d.google.FailDisabled("serviceusage.googleapis.com", "ListServices", "projects/"+googletest.Number, 1)
	s.number(t.Context())
	var headers []string
	for _, r := range d.google.Requests() {
		headers = append(headers, path.Base(r.At)+" "+r.Header.Get(quotaHeader))
	}
	if got := fmt.Sprint(headers); got != "[services my-project services  my-project  my-project:getIamPolicy ]" {
		t.Errorf("the first calls are counted for %s", got)
	}
	if err := s.enable(t.Context(), []string{"serviceusage.googleapis.com"}); err != nil || s.quotaProject() != "my-project" {
		t.Errorf("after the API is enabled calls are counted for %q, %v", s.quotaProject(), err)
	}
}

// At most 20 APIs are enabled by a call.
func TestManyAPIs(t *testing.T) {
	d := newProject(t)
	s, _ := d.read()
	var all []string
	for i := range 41 {
		all = append(all, fmt.Sprintf("a%d.googleapis.com", i))
	}
	d.google.Requests()
	if err := s.enable(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	calls := 0
	for _, r := range d.google.Requests() {
		if strings.HasSuffix(r.At, ":batchEnable") {
			calls++
		}
	}
	if calls != 3 || !s.reallyEnabled(t, "a40.googleapis.com") {
		t.Errorf("%d calls", calls)
	}
}

func (s *State) reallyEnabled(t *testing.T, api string) bool {
	t.Helper()
	all, err := s.List(t.Context(), servicesAPI, "v1/projects/"+s.Project+"/services?filter=state:ENABLED")
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(all, func(o Object) bool { return path.Base(o.name()) == api })
}

// A role is given besides those of others, on the policy's own etag.
func TestPolicyOfOthers(t *testing.T) {
	d := newProject(t)
	others := []*iampb.Binding{{Role: "roles/owner", Members: []string{"user:me@example.com"}}, {Role: "roles/logging.logWriter", Members: []string{"user:me@example.com"}}}
	d.google.SetPolicy("projects/my-project", &iampb.Policy{Bindings: others, Etag: []byte("abc")})
	d.deploy()
	p := d.google.Policy("projects/my-project")
	for _, want := range others {
		if !slices.ContainsFunc(p.Bindings, func(b *iampb.Binding) bool {
			return b.Role == want.Role && slices.Contains(b.Members, "user:me@example.com")
		}) {
			t.Errorf("%s is gone: %v", want.Role, p)
		}
	}
	if string(p.Etag) != "abc" {
		t.Errorf("the etag was not sent: %s", p.Etag)
	}
}

// A build that resets how instances are billed is followed by a change back, without another plan.
func TestBillingAfterABuild(t *testing.T) {
	d := newProject(t)
	d.options.Billing = ByInstance
	d.deploy()
	const here = "projects/my-project/locations/us-central1/"
	d.google.Set(here+"functions/tally-on-write", []string{"serviceConfig", "timeoutSeconds"}, 7)
	said, err := d.tryDeploy(func(_ context.Context, r *Run) {
		r.State.client.Transport = &faulty{r.State.client.Transport, func(r *http.Request, _ *http.Response) error {
			if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/functions/tally-on-write") {
				googletest.Change(d.google, here+"services/tally-on-write", func(s *runpb.Service) { s.Template.Containers[0].Resources.CpuIdle = true })
			}
			return nil
		}}
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	if s := d.google.Get(here + "services/tally-on-write").(*runpb.Service); s.Template.Containers[0].Resources.CpuIdle {
		t.Errorf("it is billed by request:\n%s", said)
	}
}
