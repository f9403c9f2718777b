package deploy

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	oldRoute = "old/{o}/shards/{s} -> olds/{o} : n"
	newRoute = "posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing"
)

// Events of a new route come only when the functions know it, and events of an old one only while
// they do. What is written meanwhile is audited.
func TestOrder(t *testing.T) {
	d := oneCounter(t)
	databases := d.options.Databases
	d.options = options(t, likes+"; "+oldRoute)
	d.options.Databases = databases
	d.deploy()
	d.options = options(t, likes+"; "+newRoute)
	d.options.Databases, d.options.Prune = databases, true

	var got []string
	var last time.Time
	_, err := d.tryDeploy(with(func(r *http.Request, _ *http.Response) error {
		isChange := r.Method != http.MethodGet && !strings.HasSuffix(r.URL.Path, "Policy") && !strings.HasSuffix(r.URL.Path, "UploadUrl")
		kind := path.Base(path.Dir(r.URL.Path))
		if !isChange || kind != "functions" && kind != "triggers" && kind != "jobs" && path.Base(r.URL.Path) != "triggers" {
			return nil
		}
		if !last.IsZero() && time.Since(last) >= redelivery {
			got = append(got, fmt.Sprint("wait ", time.Since(last).Truncate(time.Minute)))
		}
		last = time.Now()
		got = append(got, r.Method+" "+path.Base(r.URL.Path)+r.URL.Query().Get("triggerId"))
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"DELETE tally-old-shards-8b0b1f", "wait 10m0s",
		"PATCH tally-on-write", "PATCH tally-on-schedule",
		"POST triggerstally-posts-likes-444ec8", "POST tally:run",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A trigger whose retries are off is replaced. The functions stay as they are, so only a note has
// them audit what changes meanwhile.
func TestRetriesOn(t *testing.T) {
	d := oneCounter(t)
	d.deploy()
	const note = "projects/my-project/databases/(default)/documents/rollup_audit/note-all"
	if d.google.Get(note) != nil {
		t.Error("new functions need no note")
	}
	name := d.google.Names("triggers")[0]
	d.google.Set(name, []string{"retryPolicy"}, map[string]any{"maxAttempts": 1})
	said := d.deploy()
	if got := read(t, d.google, name).Get("retryPolicy.maxAttempts"); got != "" || !strings.Contains(said, "replace trigger tally-counters-shards-78fea5") {
		t.Errorf("it has %s attempts after\n%s", got, said)
	}
	if got, want := read(t, d.google, note).Get("fields"), `{"counters":{"nullValue":null}}`; got != want {
		t.Errorf("the note holds %s, want %s, after\n%s", got, want, said)
	}
}

// What others made stays, also where it calls Tally's functions, and even with prune.
func TestOthersStay(t *testing.T) {
	d := oneCounter(t)
	d.deploy()
	theirs := map[string]string{d.google.Names("triggers")[0]: "labels", d.google.Names("jobs")[0]: "description"}
	for name, mark := range theirs {
		made := d.google.Get(name)
		d.google.Put(name+"-mine", made)
		d.google.Set(name+"-mine", []string{mark}, nil)
	}
	d.options.Prune = true
	if said := d.deploy(); said != "" {
		t.Errorf("it does something about others' resources:\n%s", said)
	}
	for name := range theirs {
		if d.google.Get(name+"-mine") == nil {
			t.Errorf("%s-mine is gone", name)
		}
	}
}

// A metric and a dashboard of Tally's names that others made are refused by name. An undeployment
// leaves them.
func TestOthersWatch(t *testing.T) {
	d := newProject(t)
	d.deploy()
	const metric = "projects/my-project/metrics/tally_drift"
	dashboard := d.google.Names("dashboards")[0]
	d.google.Set(metric, []string{"description"}, "mine")
	d.google.Set(dashboard, []string{"labels"}, map[string]any{})

	said, err := d.tryDeploy(nil)
	for _, of := range []string{"metric tally_drift", "dashboard Tally"} {
		if err == nil || !strings.Contains(err.Error(), of+" was not made by tally deploy") || said != "" {
			t.Errorf("%v, want that %s is somebody else's; it did\n%s", err, of, said)
		}
	}
	d.undeploy()
	if d.google.Get(metric) == nil || d.google.Get(dashboard) == nil {
		t.Error("an undeployment took what others made")
	}
}

// A role, or a region, that is missing for several resources is told once.
func TestProblemsAreToldOnce(t *testing.T) {
	d := newProject(t)
	d.deploy()
	d.google.Closed = []string{"us-central1"}
	_, err := d.tryDeploy(nil)
	if err == nil || strings.Count(err.Error(), "the project may not use the location") != 1 {
		t.Errorf("got %v, want the location's remedy once", err)
	}
}

// Without alerts one counter takes some two dozen steps, and nothing watches. A second plan is
// empty. Two people who planned at the same time make everything once.
func TestTwoPeople(t *testing.T) {
	d := oneCounter(t)
	first, second := d.read(), d.read()
	inBubble(t, func(ctx context.Context) {
		ours, err := first.Plan(ctx, true)
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := second.Plan(ctx, true)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(ours.Steps); n != 20 || len(theirs.Steps) != n {
			t.Errorf("%d and %d steps", n, len(theirs.Steps))
		}
		if err := first.Do(ctx, ours); err != nil {
			t.Fatal(err)
		}
		d.google.Requests()
		if err := second.Do(ctx, theirs); err != nil {
			t.Fatal(err)
		}
	})
	for _, r := range d.google.Requests() {
		isChange := r.Verb == "PATCH" || r.Verb == "PUT" || r.Verb == "DELETE" || strings.HasSuffix(r.At, ":setIamPolicy")
		isCreation := r.Verb == "POST" && !strings.Contains(path.Base(r.At), ":")
		if isChange || isCreation {
			t.Errorf("the second sends %s %s", r.Verb, r.At)
		}
	}
	for _, of := range []string{"metrics", "alertPolicies", "dashboards"} {
		if names := d.google.Names(of); len(names) > 0 {
			t.Errorf("no one asked for %v", names)
		}
	}
}

// Somebody else's change of a policy in between is kept: the etag has IAM refuse ours, which looks
// again.
func TestPolicyChangesMeanwhile(t *testing.T) {
	d := oneCounter(t)
	reads := 0
	_, err := d.tryDeploy(with(func(r *http.Request, _ *http.Response) error {
		if r.URL.Path == "/v3/projects/my-project:getIamPolicy" && len(d.google.Names("serviceAccounts")) > 0 {
			reads++ // the first tells what is missing, and the second is written back
		}
		if reads == 2 {
			reads++
			p := d.google.Policy("projects/my-project")
			p.Etag = []byte("theirs")
			p.Bindings = append(p.Bindings, ownerBinding)
			d.google.SetPolicy("projects/my-project", p)
		}
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	if p := d.google.Policy("projects/my-project"); !slices.ContainsFunc(p.Bindings, isOwner) || len(p.Bindings) < 7 {
		t.Errorf("%v", p)
	}
}

// A policy keeps the roles of an account that somebody deleted. They go when the new account gets
// them.
func TestGone(t *testing.T) {
	d := oneCounter(t)
	d.deploy()
	d.google.Delete("projects/my-project/serviceAccounts/tally-functions@my-project.iam.gserviceaccount.com")
	if p := fmt.Sprint(d.google.Policy("projects/my-project")); !strings.Contains(p, "deleted:serviceAccount:tally-functions@") {
		t.Fatalf("the policy does not keep it: %s", p)
	}
	d.deploy()
	if p := fmt.Sprint(d.google.Policy("projects/my-project")); strings.Contains(p, "deleted:") {
		t.Errorf("the policy keeps it: %s", p)
	}
}

// States in which Google's resources are for a while, or answer in a way of their own. In each a
// deployment gets through, and a second finds nothing to do.
func TestStates(t *testing.T) {
	for name, of := range map[string]struct {
		before func(*testProject)
		says   string // of the deployment
	}{
		"accounts that were deleted": {func(d *testProject) {
			d.deploy()
			d.undeploy()
		}, "create service account tally-trigger"},
		"accounts that are some seconds old": {func(d *testProject) { d.google.Young = 1 }, "a new service account is not known everywhere yet; trying again in 30s"},
		"an account that somebody made just now": {func(d *testProject) {
			d.google.Enable("iam.googleapis.com")
			d.google.Young = 1
			account := Object{"accountId": "tally-trigger", "serviceAccount": Object{"displayName": "Tally: delivers events to RollUpOnWrite"}}
			err := d.read().Call(d.Context(), http.MethodPost, "iam.googleapis.com/v1/projects/my-project/serviceAccounts", account, new(Object))
			if err != nil {
				d.Fatal(err)
			}
		}, "update service account tally-trigger"},
		"a queue that takes minutes":      {func(d *testProject) { d.google.Young = 3 }, "Cloud Tasks is still making the queue; trying again in 30s"},
		"a queue without its zero fields": {func(*testProject) {}, "create queue tally"},
	} {
		t.Run(name, func(t *testing.T) {
			d := oneCounter(t)
			of.before(d)
			if said := d.deploy(); !strings.Contains(said, of.says) {
				t.Errorf("it does not say %q:\n%s", of.says, said)
			}
			if again := d.deploy(); again != "" {
				t.Errorf("something is left to do:\n%s", again)
			}
		})
	}
}

// The name of a queue that was deleted is blocked: Cloud Tasks seems to make it, and there is none.
func TestTombstone(t *testing.T) {
	d := oneCounter(t)
	d.deploy()
	d.google.Delete("projects/my-project/locations/us-central1/queues/tally")
	said, err := d.tryDeploy(nil)
	if err == nil || !strings.Contains(err.Error(), "blocks its name for 3 to 7 days") || strings.Count(said, "trying again") != 20 {
		t.Errorf("%v\n%s", err, said)
	}
}

// Each answer that passes is given once to each call that changes something, before the call has an
// effect, and to each GET. The deployment gets through, and nothing is left to do.
func TestEachAnswerOnce(t *testing.T) {
	for _, answer := range []struct {
		code         int
		status, text string
		of           string // the API; "": any
	}{
		{409, "ABORTED", "unable to queue the operation", ""},
		{429, "RESOURCE_EXHAUSTED", "Quota exceeded for quota metric 'Write requests' and limit 'Write requests per minute'", ""},
		{500, "INTERNAL", "Internal error encountered.", ""},
		{502, "", "Bad Gateway", ""},
		{503, "UNAVAILABLE", "The service is currently unavailable.", ""},
		{504, "DEADLINE_EXCEEDED", "Deadline expired before operation could complete.", ""},
		{403, "PERMISSION_DENIED", "Permission 'iam.serviceAccounts.getIamPolicy' denied on resource (or it may not exist).", "iam.googleapis.com"},
		{404, "NOT_FOUND", "Not found; Gaia id not found for email tally-trigger@p.iam.gserviceaccount.com", "iam.googleapis.com"},
		{400, "FAILED_PRECONDITION", "Queue does not exist. If you just created the queue, wait at least a minute for the queue to initialize.", "cloudtasks.googleapis.com"},
		{404, "NOT_FOUND", "Requested entity was not found.", "cloudtasks.googleapis.com"},
		{404, "NOT_FOUND", "Unknown service account", "iam.googleapis.com"},
		{403, "PERMISSION_DENIED", "Quota exceeded for quota metric 'Queries' and limit 'Queries per minute' of service", ""},
		{403, "PERMISSION_DENIED", "Permission 'iam.serviceaccounts.actAs' denied on service account tally-functions@p.iam.gserviceaccount.com", "run.googleapis.com"},
		{403, "PERMISSION_DENIED", `The principal (user or service account) lacks IAM permission "iam.serviceAccounts.actAs" for the resource "tally-scheduler@p.iam.gserviceaccount.com" (or the resource may not exist).`, "cloudscheduler.googleapis.com"},
		{403, "PERMISSION_DENIED", "Missing necessary permission iam.serviceAccounts.actAs for $MEMBER on the service account tally-functions@p.iam.gserviceaccount.com", "cloudfunctions.googleapis.com"},
		{400, "FAILED_PRECONDITION", "Unable to retrieve the repository metadata for projects/p/locations/l/repositories/tally. Ensure that the Cloud Functions service account has access.", "cloudfunctions.googleapis.com"},
		{403, "PERMISSION_DENIED", "Access to bucket gcf-v2-sources-1-us-central1 denied. You must grant Storage Object Viewer permission to tally-build@p.iam.gserviceaccount.com. If you are using VPC Service Controls, you must also grant it access to your service perimeter.", "cloudfunctions.googleapis.com"},
		{400, "INVALID_ARGUMENT", "Permission denied while using the Eventarc Service Agent.", "eventarc.googleapis.com"},
	} {
		d := oneCounter(t)
		given := make(map[string]bool)
		said, err := d.tryDeploy(func(ctx context.Context, wanted *Deployment) context.Context {
			wanted.client.Transport = &answering{wanted.client.Transport, func(r *http.Request) *http.Response {
				isRead := r.Method == http.MethodGet || strings.HasSuffix(r.URL.Path, ":getIamPolicy")
				passesForReads := answer.code >= 500 || answer.code == 429
				at := r.Method + r.URL.Host + r.URL.Path
				if given[at] || answer.of != "" && answer.of != r.URL.Host || isRead && !(passesForReads && r.Method == http.MethodGet) || r.URL.Host == "storage.googleapis.com" {
					return nil
				}
				given[at] = true
				return refused(r, answer.code, answer.status, answer.text)
			}}
			return ctx
		})
		if err != nil {
			t.Errorf("%d %s: %v\n%s", answer.code, answer.text, err, said)
			continue
		}
		if again := d.deploy(); again != "" || len(given) == 0 {
			t.Errorf("%d %s, given %d times: something is left to do:\n%s", answer.code, answer.text, len(given), again)
		}
	}
}

// The plan of a new project has no update that changes nothing.
func TestNoEmptyUpdate(t *testing.T) {
	d := newProject(t)
	described, err := Describe(NewProject("my-project", []string{"(default)", "orders"}, "nam5"), d.options, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := described.Plan(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range p.Steps {
		isEmpty := func(r *Resource) bool {
			return s.Name == r.Name && s.Of == r.Kind() && (len(r.Orders) > 0 || len(r.Want)+len(r.Grants) == 0)
		}
		if s.Does == "update" && slices.ContainsFunc(described.Resources, isEmpty) {
			t.Errorf("%s: nothing changes", s.Title)
		}
	}
}

// What is compared with something unread is not looked at: it would only seem to differ.
func TestUnreadIsNotCompared(t *testing.T) {
	d := oneCounter(t)
	d.deploy()
	wanted := d.read()
	d.google.Fail("cloudfunctions.googleapis.com", "GetFunction", status.Error(codes.PermissionDenied, "no"), -1)
	lacks, _, problems := wanted.Differences(t.Context())
	if len(lacks) > 0 || len(problems) != 1 {
		t.Errorf("lacks %v, problems %v", lacks, problems)
	}
}
