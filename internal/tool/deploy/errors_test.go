package deploy

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/googleapis/gax-go/v2/apierror"
	"google.golang.org/api/googleapi"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// refusal is how an API refuses over REST.
func refusal(code int, state, text string, details ...string) error {
	body := fmt.Sprintf(`{"error": {"code": %d, "status": %q, "message": %q, "details": [%s]}}`, code, state, text, strings.Join(details, ","))
	e := &googleapi.Error{Code: code, Message: text, Body: body}
	parsed, ok := apierror.FromError(e)
	if ok {
		return parsed
	}
	return e
}

// info is a google.rpc.ErrorInfo in JSON.
func info(reason string) string {
	return fmt.Sprintf(`{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": %q, "domain": "googleapis.com"}`, reason)
}

// TestErrors feeds the table the texts of Google's, as the sources in the table show them.
func TestErrors(t *testing.T) {
	const bucket = "Access to bucket gcf-v2-sources-123456789-us-central1 denied. You must grant Storage Object Viewer permission to tally-build@my-project.iam.gserviceaccount.com. " +
		"If you are using VPC Service Controls, you must also grant it access to your service perimeter."
	used := make(map[*verdict]bool)
	for _, test := range []struct {
		err    error
		again  string // why it passes; "": it does not
		remedy string // a part of it; "": there is none
	}{
		// Roles that are missing, and what only looks like it.
		{refusal(400, "FAILED_PRECONDITION", bucket), "roles of the build's account", "tally-build@my-project.iam.gserviceaccount.com lacks roles/storage.objectViewer on the bucket gcf-v2-sources-123456789-us-central1."},
		{status.Error(codes.InvalidArgument, "Build failed: "+bucket), "roles of the build's account", "lacks roles/storage.objectViewer"},
		{refusal(403, "PERMISSION_DENIED", "Request is prohibited by organization's policy. vpcServiceControlsUniqueIdentifier: VQQnKfXtZ16NHnOmdJAy0E92tVT"), "", "A perimeter of VPC Service Controls"},
		{refusal(403, "PERMISSION_DENIED", "Denied", info("SECURITY_POLICY_VIOLATED")), "", "A perimeter of VPC Service Controls"},
		{refusal(400, "FAILED_PRECONDITION", "Constraint constraints/cloudfunctions.allowedIngressSettings violated for projects/p"), "", "gcloud org-policies describe cloudfunctions.allowedIngressSettings --effective --project=p"},
		{refusal(403, "PERMISSION_DENIED", "Permission denied on 'locations/me-central2' (or it may not exist).", info("LOCATION_POLICY_VIOLATED")), "", "another region"},
		{refusal(403, "PERMISSION_DENIED", `The principal (user or service account) lacks IAM permission "cloudscheduler.jobs.create" for the resource "projects/p/locations/europe-west9" (or the resource may not exist).`), "", "the API is not in europe-west9"},
		{refusal(400, "FAILED_PRECONDITION", "The queue cannot be created because a queue with this name existed too recently."), "", "blocks its name for 3 to 7 days"},
		{refusal(403, "PERMISSION_DENIED", "The caller does not have permission"), "", "docs/operations.md lists them"},
		{refusal(403, "PERMISSION_DENIED", "Permission 'iam.serviceaccounts.actAs' denied on service account tally-functions@p.iam.gserviceaccount.com (or it may not exist)."), "roles on a service account", "--member=user:YOU --role=roles/iam.serviceAccountUser --project=p"},
		{status.Error(codes.InvalidArgument, `Permission "artifactregistry.repositories.uploadArtifacts" denied on resource "projects/p/locations/l/repositories/tally" (or it may not exist)`), "roles of the build's account", ""},
		{status.Error(codes.InvalidArgument, "Could not build the function due to a missing permission on the build service account."), "roles of the build's account", ""},

		// What passes.
		{refusal(409, "ABORTED", "unable to queue the operation"), "something else is changing the same", ""},
		{refusal(409, "", "unable to queue the operation"), "something else is changing the same", ""},
		{refusal(409, "ALREADY_EXISTS", "Resource 'x' already exists"), "something else is changing the same", ""},
		{refusal(429, "RESOURCE_EXHAUSTED", "Quota exceeded for quota metric 'Read requests'"), "the API is busy", ""},
		{refusal(503, "UNAVAILABLE", "The service is currently unavailable."), "the API is busy", ""},
		{status.Error(codes.ResourceExhausted, "try later"), "the API is busy", ""},
		{refusal(409, "ABORTED", "There were concurrent policy changes. Please retry the whole read-modify-write with exponential backoff."), "something else is changing the same", ""},
		{refusal(400, "INVALID_ARGUMENT", `Invalid resource state for "": Permission denied while using the Eventarc Service Agent.`), "Eventarc is new", ""},
		{refusal(403, "PERMISSION_DENIED", `Permission "eventarc.events.receiveEvent" denied on "tally-trigger@p.iam.gserviceaccount.com"`), "Eventarc is new", ""},
		{refusal(404, "NOT_FOUND", "Service account projects/-/serviceAccounts/a@p.iam.gserviceaccount.com was not found."), "a new service account", ""},
		{refusal(400, "INVALID_ARGUMENT", "Service account a@p.iam.gserviceaccount.com does not exist."), "a new service account", ""},
		{refusal(403, "PERMISSION_DENIED", "Cloud Run Admin API has not been used in project 1 before or it is disabled.", info("SERVICE_DISABLED")), "an API that was just enabled", "Run it again"},
		{refusal(403, "PERMISSION_DENIED", "Eventarc API has not been used in project 1 before or it is disabled. Enable it by visiting"), "an API that was just enabled", "Run it again"},
		{status.Error(codes.Internal, "Unable to retrieve the repository metadata for projects/p/locations/l/repositories/tally. Ensure that the Cloud Functions service account has 'artifactregistry.repositories.get'"), "Google's accounts are new", ""},
		{status.Error(codes.PermissionDenied, "Google Cloud Run Service Agent must have permission to read the image"), "Google's accounts are new", ""},
		{refusal(404, "NOT_FOUND", "Cannot find metric that matches type = \"logging.googleapis.com/user/tally_drift\""), "a new metric", ""},
		{refusal(409, "ABORTED", "Aborted due to cross-transaction contention."), "Firestore is beginning another change", ""},
		{&url.Error{Op: "Post", URL: "https://x", Err: errors.New("read: connection reset by peer")}, "the answer was lost", ""},
		{&url.Error{Op: "Post", URL: "https://x", Err: errors.New("unexpected EOF")}, "the answer was lost", ""},
		{context.DeadlineExceeded, "the answer was lost", ""},
		{refusal(504, "DEADLINE_EXCEEDED", "Deadline expired before operation could complete."), "the answer was lost", ""},

		// Quotas.
		{refusal(400, "INVALID_ARGUMENT", "For the specified value, maxScale may not exceed 10.\nConsider running your workload in a region with greater capacity"), "", "max_instances: 10\n"},
		{refusal(400, "INVALID_ARGUMENT", "Max instances must be set to 200 or fewer in order to set the requested total CPU."), "", "max_instances: 200\n"},
		{refusal(429, "RESOURCE_EXHAUSTED", "Quota exceeded for total allowable CPU per project per region."), "", "max_instances: 5\n"},

		// What a project or the credentials lack.
		{refusal(403, "PERMISSION_DENIED", "This API method requires billing to be enabled.", info("BILLING_DISABLED")), "", "gcloud billing projects link p"},
		{refusal(400, "FAILED_PRECONDITION", "Billing account for project '1' is not found. Billing must be enabled for activation of service(s) 'run.googleapis.com' to proceed."), "", "gcloud billing projects link p"},
		{refusal(400, "FAILED_PRECONDITION", "failed precondition: due to quota restrictions, cannot run builds in this region. Please contact support"), "", "region: us-central1"},
		{refusal(400, "INVALID_ARGUMENT", "runtime: go126 is not a supported runtime on GCF 2nd Gen"), "", "docs/runtimes/go"},
		{refusal(401, "UNAUTHENTICATED", "Request had invalid authentication credentials."), "", "gcloud auth application-default login"},
		{errors.New(`oauth2: "invalid_grant" "reauth related error (invalid_rapt)" "https://support.google.com/a/answer/9368756"`), "", "gcloud auth application-default login"},

		// What an operator found in public sources.
		{refusal(403, "PERMISSION_DENIED", "Permission 'iam.serviceAccounts.getIamPolicy' denied on resource (or it may not exist).", info("IAM_PERMISSION_DENIED")), "a new service account", "roles/iam.serviceAccountAdmin"},
		{refusal(403, "PERMISSION_DENIED", "Permission iam.serviceAccounts.get is required to perform this operation on service account projects/p/serviceAccounts/tally-trigger@p.iam.gserviceaccount.com."), "a new service account", "roles/iam.serviceAccountAdmin"},
		{refusal(404, "NOT_FOUND", "Not found; Gaia id not found for email tally-trigger@p.iam.gserviceaccount.com"), "a new service account", ""},
		{refusal(403, "PERMISSION_DENIED", `The principal (user or service account) lacks IAM permission "iam.serviceAccounts.actAs" for the resource "tally-scheduler@p.iam.gserviceaccount.com" (or the resource may not exist).`), "roles on a service account", "gcloud iam service-accounts add-iam-policy-binding tally-scheduler@p.iam.gserviceaccount.com "},
		{refusal(403, "PERMISSION_DENIED", "Could not create Cloud Run service dev. Permission 'iam.serviceaccounts.actAs' denied on service account tally-functions@p.iam.gserviceaccount.com (or it may not exist)."), "roles on a service account", "add-iam-policy-binding tally-functions@p.iam.gserviceaccount.com "},
		{refusal(403, "PERMISSION_DENIED", "Missing necessary permission iam.serviceAccounts.actAs for $MEMBER on the service account tally-functions@p.iam.gserviceaccount.com."), "roles on a service account", "add-iam-policy-binding tally-functions@p.iam.gserviceaccount.com "},
		{refusal(403, "PERMISSION_DENIED", "Caller does not have required permission to use project p. Grant the caller the roles/serviceusage.serviceUsageConsumer role, or a custom role with the serviceusage.services.use permission, by visiting https://console.developers.google.com/iam-admin/iam/project?project=p and then retry. Propagation of the new permission may take a few minutes.", info("USER_PROJECT_DENIED")), "", "--role=roles/serviceusage.serviceUsageConsumer"},
		{refusal(400, "FAILED_PRECONDITION", "The queue no longer exists, though a queue with this name existed recently."), "", "blocks its name for 3 to 7 days"},
		{refusal(400, "FAILED_PRECONDITION", "Queue does not exist. If you just created the queue, wait at least a minute for the queue to initialize."), "Cloud Tasks is still making the queue", ""},
		{refusal(404, "NOT_FOUND", "Requested entity was not found."), "something that was just made", ""},
		{refusal(429, "RESOURCE_EXHAUSTED", "Maximum number of service accounts on project reached."), "", "as many of these as Google allows"},
		{refusal(429, "RESOURCE_EXHAUSTED", "Quota exceeded: a maximum of 2000 alerting policies is allowed per metrics scope."), "", "as many of these as Google allows"},
		{refusal(400, "FAILED_PRECONDITION", "One or more users named in the policy do not belong to a permitted customer, perhaps due to an organization policy."), "", "gcloud org-policies describe iam.allowedPolicyMemberDomains --effective --project=p"},
		{refusal(400, "INVALID_ARGUMENT", "Email 'a@p.iam.gserviceaccount.com' is not the primary email address for unique ID '1' of deleted member 'a@p.iam.gserviceaccount.com?uid=1'."), "", "--member='deleted:serviceAccount:a@p.iam.gserviceaccount.com?uid=…'"},
		{refusal(409, "ABORTED", "sync mutate calls cannot be queued"), "something else is changing the same", ""},
		{refusal(409, "ABORTED", "Too many concurrent edits to the project configuration. Please try again."), "something else is changing the same", ""},
		{refusal(500, "INTERNAL", "Internal error encountered."), "the API failed by itself", ""},
		{status.Error(codes.Internal, "An internal error has occurred"), "the API failed by itself", ""},
		{status.Error(codes.Internal, "Failed to create or update the Cloud Run service."), "the API failed by itself", ""},
		{refusal(403, "PERMISSION_DENIED", "Unable to retrieve the service account details. Please ensure that service-1@gcf-admin-robot.iam.gserviceaccount.com has the Cloud Functions Service Agent role."), "Google's accounts are new", ""},
		{refusal(400, "FAILED_PRECONDITION", "Request is prohibited by organization's policy. vpcServiceControlsUniqueIdentifier: x"), "", "A perimeter of VPC Service Controls"},
		{refusal(412, "FAILED_PRECONDITION", "Operation denied by org policy on resource 'projects/1': [\"constraints/gcp.resourceLocations\":\"The org policy violated: constraints/gcp.resourceLocations\"]"), "", "gcloud org-policies describe gcp.resourceLocations"},
		{refusal(403, "PERMISSION_DENIED", "Operation denied by custom org policies: [\"customConstraints/custom.x\": \"no\"]."), "", "The organization's policy custom.x forbids it"},
		{status.Error(codes.Internal, "Could not create or update Cloud Run service tally-on-write, Container Healthcheck failed. The user-provided container failed to start and listen on the port defined provided by the PORT=8080 environment variable within the allocated timeout."), "", `gcloud logging read 'resource.labels.service_name="tally-on-write"`},
		{refusal(403, "PERMISSION_DENIED", "Quota exceeded for quota metric 'Read requests' and limit 'Read requests per minute' of service 'iam.googleapis.com' for consumer 'project_number:1'."), "the API is busy", ""},
		{refusal(400, "INVALID_ARGUMENT", "Database '(default)' does not exist in region 'us-central1'. Did you mean region 'nam5'?"), "", ""},
		{refusal(404, "NOT_FOUND", "Cloud Run service projects/p/locations/us-central1/services/tally-on-write was not found."), "a new service is not known", ""},
		{refusal(409, "ABORTED", "Please retry, underlying data changed"), "Firestore is beginning another change", ""},
		{refusal(409, "ALREADY_EXISTS", "index already exists"), "something else is changing the same", ""},
		{refusal(400, "FAILED_PRECONDITION", "The maximum number of field configurations 500 has been reached."), "", "as many of these as Google allows"},
		{errors.New("Post \"https://x\": read tcp: connection reset by peer"), "the answer was lost", ""},
		{errors.New("Post \"https://x\": http2: server sent GOAWAY and closed the connection; LastStreamID=1, ErrCode=NO_ERROR"), "the answer was lost", ""},
		{errors.New("Post \"https://x\": dial tcp: lookup x: no such host"), "Google cannot be reached", ""},
		{refusal(400, "INVALID_ARGUMENT", "You may not have more than 32 total max instances in your project."), "", "max_instances: 32\n"},
		{refusal(403, "PERMISSION_DENIED", "Your application is authenticating by using local Application Default Credentials. The firebaserules.googleapis.com API requires a quota project, which is not set by default.", info("SERVICE_DISABLED")), "", "set-quota-project p"},

		// What a new project says of its first calls.
		{refusal(400, "FAILED_PRECONDITION", "Precondition check failed."), "Google is still enabling APIs", ""},
		{refusal(400, "FAILED_PRECONDITION", "Another activation or deactivation is in progress for the following service(s): [run.googleapis.com]. Please wait."), "Google is still enabling APIs", ""},
		{status.Error(codes.InvalidArgument, "[dataflow activation failed] with failed services [dataflow.googleapis.com]"), "Google is still enabling APIs", ""},
		{status.Error(codes.Internal, "[Error in service: encountered internal error, code 160009] with failed services [pubsub.googleapis.com]"), "the API failed by itself", ""},
		{refusal(400, "FAILED_PRECONDITION", "Cloud Pub/Sub did not find a valid organization policy for the project; please retry this operation"), "Google is still enabling APIs", ""},
		{refusal(409, "ABORTED", "Could not fulfill the request"), "something else is changing the same", ""},
		{status.Error(codes.Internal, "Failed to initialize region (action ID: 1): Failed to initialize the project"), "the API failed by itself", ""},
		{status.Error(codes.PermissionDenied, "Unable to retrieve the repository metadata for projects/p/locations/us-central1/repositories/tally."), "Google's accounts are new", ""},
		{refusal(403, "PERMISSION_DENIED", "Permission denied on 'locations/europe-southwest1' (or it may not exist)"), "", "another region into tally.yaml, of us-central1, "},

		// How a build ends, and what may be in its way.
		{status.Error(codes.InvalidArgument, `Build failed with status: FAILURE and message: denied: Permission "artifactregistry.repositories.downloadArtifacts" denied on resource "projects/p/locations/l/repositories/tally" (or it may not exist).`), "roles of the build's account", ""},
		{status.Error(codes.InvalidArgument, "Failed to retrieve function source code"), "roles of the build's account", ""},
		{status.Error(codes.Internal, "Build failed with status: FAILURE and message: undefined: x"), "", "did not compile"},
		{status.Error(codes.Internal, "Build failed with status: INTERNAL_ERROR"), "the API failed by itself", ""},
		{refusal(409, "ALREADY_EXISTS", "Could not create Cloud Run service tally-on-write. A Cloud Run service with this name already exists. Please redeploy the function with a different name."), "", "gcloud run services delete tally-on-write "},
		{refusal(400, "INVALID_ARGUMENT", "The runtime go126 is decommissioned and no longer allowed."), "", "Install a newer tally"},

		// What is not known is said as it is.
		{errors.New("x509: certificate signed by unknown authority"), "", ""},
	} {
		p := &Project{ID: "p", Number: "1"}
		again, _ := p.mayPass(test.err)
		said := p.failed(test.err).Error()
		if !strings.HasPrefix(again, test.again) || (again == "") != (test.again == "") {
			t.Errorf("%v\ntried again: %q, want %q", test.err, again, test.again)
		}
		if !strings.Contains(said, test.remedy) || strings.Contains(said, "\n\n") != (test.remedy != "") {
			t.Errorf("%v\nsays\n%s\nwant %q", test.err, said, test.remedy)
		}
		if k := verdictOn(test.err); k != nil {
			used[k] = true
		}
	}
	for i := range verdicts() {
		if k := &verdicts()[i]; !used[k] || k.Source == "" || k.Again == "" && k.Remedy == "" {
			t.Errorf("no text is of %v %v %v, which is of %q", k.Codes, k.Reasons, k.Text, k.Source)
		}
	}
}

// A message that an API gives for people goes before the one for programs.
func TestLocalizedMessage(t *testing.T) {
	s, err := status.New(codes.InvalidArgument, "field 3 is out of range").WithDetails(&errdetails.LocalizedMessage{Locale: "en", Message: "There are too many instances."})
	if err != nil {
		t.Fatal(err)
	}
	if got := new(Project).failed(s.Err()).Error(); got != "There are too many instances." {
		t.Errorf("%q", got)
	}
}

// What passes within minutes is tried for ten; what may never pass, for two.
func TestHowLong(t *testing.T) {
	for err, want := range map[error]time.Duration{
		refusal(409, "ABORTED", "unable to queue the operation"):                                                                    longest,
		refusal(500, "INTERNAL", "Internal error encountered."):                                                                     brief,
		refusal(403, "PERMISSION_DENIED", "Permission 'iam.serviceAccounts.getIamPolicy' denied on resource"):                       brief,
		refusal(403, "PERMISSION_DENIED", "API has not been used in project 1 before or it is disabled.", info("SERVICE_DISABLED")): longest,
	} {
		if _, within := new(Project).mayPass(err); within != want {
			t.Errorf("%v: tried for %v, want %v", err, within, want)
		}
	}
}

// An API that is not enabled in another project, which calls are counted for, never gets known
// here.
func TestCountedElsewhere(t *testing.T) {
	detail := `{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "SERVICE_DISABLED", "domain": "googleapis.com", "metadata": {"consumer": "projects/618104708054", "service": "run.googleapis.com"}}`
	err := refusal(403, "PERMISSION_DENIED", "Cloud Run Admin API has not been used in project 618104708054 before or it is disabled.", detail)
	p := &Project{ID: "p", Number: "1"}
	again, _ := p.mayPass(err)
	if said := p.failed(err).Error(); again != "" || !strings.Contains(said, "set-quota-project p") {
		t.Errorf("again %q, says %s", again, said)
	}
}
