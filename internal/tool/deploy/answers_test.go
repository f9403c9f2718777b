package deploy

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/functions/apiv2/functionspb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// What Google may answer to the first deployment of a project, or in the middle of one.

// Service Usage refuses some first calls, which Terraform repeats: magic-modules,
// ServiceUsageServiceBeingActivated and handleServiceUsageRetryablePreconditionError.
func TestActivationInProgress(t *testing.T) {
	for _, err := range []error{
		status.Error(codes.FailedPrecondition, "Precondition check failed."),
		status.Error(codes.InvalidArgument, "Precondition check failed."),
		status.Error(codes.FailedPrecondition, "Another activation or deactivation is in progress for the following service(s): [run.googleapis.com]. Please wait."),
	} {
		d := oneCounter(t)
		d.google.Fail("serviceusage.googleapis.com", "BatchEnableServices", err, 1)
		if said, failed := d.tryDeploy(nil); failed != nil {
			t.Errorf("%v: %v\n%s", err, failed, said)
		}
	}
}

// One API is not enabled by batchEnable, which may want two at least.
func TestEnableOneAPI(t *testing.T) {
	d := oneCounter(t)
	d.deploy()
	d.google.Delete("projects/my-project/services/cloudtasks.googleapis.com")
	if said := d.deploy(); !strings.HasPrefix(said, "[1/2] enable APIs") {
		t.Error(said)
	}
}

// Service Usage may refuse to make an agent that is there. That is said, and the deployment goes
// on. If the agent is not there, the policy says so, and the next run asks for the agent again.
func TestRefusedAgent(t *testing.T) {
	for _, api := range []string{"cloudtasks", "cloudscheduler", "eventarc", "pubsub"} {
		for _, isThere := range []bool{true, false} {
			d := oneCounter(t)
			said, err := d.tryDeploy(func(ctx context.Context, wanted *Deployment) context.Context {
				base := wanted.client.Transport
				wanted.client.Transport = &answering{base, func(r *http.Request) *http.Response {
					if !strings.HasSuffix(r.URL.Path, "/services/"+api+".googleapis.com:generateServiceIdentity") {
						return nil
					}
					if isThere {
						response, err := base.RoundTrip(r)
						if err != nil {
							t.Error(err)
							return nil
						}
						response.Body.Close()
					}
					return refused(r, 400, "INVALID_ARGUMENT", "Service identity is not supported for service "+api+".googleapis.com")
				}}
				return ctx
			})
			if (err == nil) != isThere || strings.Count(said, "Google did not create "+api+"'s service agent: ") != 1 {
				t.Errorf("%s, there: %t: %v\n%s", api, isThere, err, said)
			}
			if said, err := d.tryDeploy(nil); err != nil {
				t.Errorf("%s: the next run: %v\n%s", api, err, said)
			}
		}
	}
}

// An answer to a deletion of an account is lost. The account is gone, and IAM answers the second
// deletion as if a role were missing. If the account is there, a role is missing.
func TestDeletionTwice(t *testing.T) {
	for _, isGone := range []bool{true, false} {
		d := oneCounter(t)
		d.deploy()
		synctest.Test(t, func(t *testing.T) {
			wanted, ctx := d.in(t).read(), t.Context()
			plan, err := wanted.Undeploy(ctx)
			if err != nil {
				t.Fatal(err)
			}
			lost := false
			wanted.client.Transport = &answering{wanted.client.Transport, func(r *http.Request) *http.Response {
				if r.Method != http.MethodDelete || !strings.Contains(r.URL.Path, "/serviceAccounts/tally-build") {
					return nil
				}
				if lost {
					return refused(r, 403, "PERMISSION_DENIED", "Permission 'iam.serviceAccounts.delete' denied on resource (or it may not exist).")
				}
				lost = true
				if isGone {
					d.google.Delete("projects/my-project/serviceAccounts/" + path.Base(r.URL.Path))
				}
				return refused(r, 504, "DEADLINE_EXCEEDED", "Deadline expired before operation could complete.")
			}}
			if err := wanted.Do(ctx, plan); (err == nil) != isGone {
				t.Errorf("gone: %t: %v", isGone, err)
			}
		})
	}
}

// An operation that lasts is told every five minutes, and given up after an hour if it builds a
// function, after 20 minutes else.
func TestOperationThatLasts(t *testing.T) {
	for collection, want := range map[string]struct {
		after time.Duration
		told  int
	}{"repositories": {20 * time.Minute, 3}, "functions": {time.Hour, 11}} {
		d := oneCounter(t)
		synctest.Test(t, func(t *testing.T) {
			wanted, ctx := d.in(t).read(), t.Context()
			var said strings.Builder
			wanted.Progress = &said
			began := time.Now()
			wanted.client.Transport = &answering{wanted.client.Transport, func(r *http.Request) *http.Response {
				isOperation := strings.HasSuffix(r.URL.Path, "/operations/mine")
				if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/"+collection) {
					began, isOperation = time.Now(), true
				}
				if isOperation {
					return answered(r, 200, Object{"name": "projects/my-project/locations/us-central1/operations/mine"})
				}
				return nil
			}}
			plan, err := wanted.Plan(ctx, true)
			if err != nil {
				t.Fatal(err)
			}
			err = wanted.Do(ctx, plan)
			took := time.Since(began)
			if err == nil || !strings.Contains(err.Error(), "gave up after ") || took != want.after {
				t.Errorf("%s: after %v, want %v: %v", collection, took, want.after, err)
			}
			if n := strings.Count(said.String(), "  still waiting after "); n != want.told {
				t.Errorf("%s: told %d times, want %d:\n%s", collection, n, want.told, &said)
			}
		})
	}
}

// While a command waits for indexes, which may take hours, the API may fail for minutes.
func TestWaitSurvivesAnOutage(t *testing.T) {
	for code, state := range map[int]string{500: "INTERNAL", 503: "UNAVAILABLE"} {
		d := newProject(t)
		d.google.Builds = 60
		var from time.Time
		said, err := d.tryDeploy(func(ctx context.Context, wanted *Deployment) context.Context {
			looks := 0
			wanted.client.Transport = &answering{wanted.client.Transport, func(r *http.Request) *http.Response {
				if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/indexes") {
					return nil
				}
				if looks++; looks == 12 {
					from = time.Now()
				}
				if from.IsZero() || time.Since(from) > 15*time.Minute {
					return nil
				}
				return refused(r, code, state, "The service is currently unavailable.")
			}}
			return ctx
		})
		if err != nil || strings.Count(said, "could not read the indexes; trying again") != 1 {
			t.Errorf("%d: %v\n%s", code, err, said)
		}
	}
}

// A variable of the app's own is a text, also "0".
func TestLiteralVariables(t *testing.T) {
	for _, value := range []string{"false", "0", "/", "0s", "60.0"} {
		d := oneCounter(t)
		d.deploy()
		d.options.Env = map[string]string{"TALLY_X": value}
		said := d.deploy()
		f, _ := d.google.Get("projects/my-project/locations/us-central1/functions/tally-on-write").(*functionspb.Function)
		if got := f.GetServiceConfig().GetEnvironmentVariables()["TALLY_X"]; got != value {
			t.Errorf("want TALLY_X=%q, deployed %q: %s", value, got, said)
		}
		if again := d.deploy(); again != "" {
			t.Errorf("%q is deployed once more: %s", value, again)
		}
	}
}

// Each call that changes something fails with an unknown answer, one at a time. The next
// run goes on from there, and leaves nothing to do.
func TestStopAnywhere(t *testing.T) {
	changes := func(r *http.Request) bool {
		return r.Method != http.MethodGet && !strings.HasSuffix(r.URL.Path, ":getIamPolicy") && r.URL.Host != "storage.googleapis.com"
	}
	var calls []string
	_, err := oneCounter(t).tryDeploy(with(func(r *http.Request, _ *http.Response) error {
		if changes(r) {
			calls = append(calls, r.Method+" "+r.URL.Path)
		}
		return nil
	}))
	if err != nil || len(calls) < 20 {
		t.Fatal(calls, err)
	}

	for i, call := range calls {
		d := oneCounter(t)
		n := 0
		said, err := d.tryDeploy(func(ctx context.Context, wanted *Deployment) context.Context {
			wanted.client.Transport = &answering{wanted.client.Transport, func(r *http.Request) *http.Response {
				if !changes(r) {
					return nil
				}
				n++
				if n != i+1 {
					return nil
				}
				return refused(r, 400, "INVALID_ARGUMENT", "no")
			}}
			return ctx
		})
		if err == nil {
			t.Errorf("%s: no error\n%s", call, said)
		}
		if said, err := d.tryDeploy(nil); err != nil {
			t.Errorf("%s: the next run: %v\n%s", call, err, said)
		}
		if again := d.deploy(); again != "" {
			t.Errorf("%s: left to do %s", call, again)
		}
	}
}

// Functions that others made stay as they are.
func TestForeignFunctions(t *testing.T) {
	d := oneCounter(t)
	for i := range 40 {
		d.google.Put(fmt.Sprintf("projects/my-project/locations/us-central1/functions/other%d", i),
			&functionspb.Function{ServiceConfig: &functionspb.ServiceConfig{MaxInstanceCount: 100}})
	}
	d.deploy()
	if again := d.deploy(); again != "" {
		t.Error(again)
	}
	d.undeploy()
	if n := len(d.google.Names("functions")); n != 40 {
		t.Errorf("%d functions are left of 40", n)
	}
}

// A service of a function's name, without the function, is told at once.
func TestServiceOfThatName(t *testing.T) {
	d := oneCounter(t)
	d.google.Fail("cloudfunctions.googleapis.com", "CreateFunction",
		status.Error(codes.AlreadyExists, "Could not create Cloud Run service tally-on-write. A Cloud Run service with this name already exists. Please redeploy the function with a different name."), -1)
	said, err := d.tryDeploy(nil)
	if err == nil || strings.Contains(said, "trying again") || !strings.Contains(err.Error(), "gcloud run services delete tally-on-write --region=us-central1 --project=my-project") {
		t.Errorf("%v\n%s", err, said)
	}
}

// A build of another command may take as long as one of this one.
func TestBuildOfAnother(t *testing.T) {
	_, within := new(Project).mayPass(errDeploying)
	if within != time.Hour {
		t.Errorf("tried for %v", within)
	}
}
