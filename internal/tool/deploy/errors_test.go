package deploy

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

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
	used := make(map[*known]bool)
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
		{refusal(400, "FAILED_PRECONDITION", "The queue cannot be created because a queue with this name existed too recently."), "", "blocks its name for 7 days"},
		{refusal(403, "PERMISSION_DENIED", "The caller does not have permission"), "", "docs/deploy.md lists them"},
		{refusal(403, "PERMISSION_DENIED", "Permission 'iam.serviceaccounts.actAs' denied on service account tally-functions@p.iam.gserviceaccount.com (or it may not exist)."), "", "--member=user:YOU --role=roles/iam.serviceAccountUser --project=p"},
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
		{refusal(403, "PERMISSION_DENIED", "Cloud Run Admin API has not been used in project 1 before or it is disabled.", info("SERVICE_DISABLED")), "an API that was just enabled", "Run tally deploy again"},
		{refusal(403, "PERMISSION_DENIED", "Eventarc API has not been used in project 1 before or it is disabled. Enable it by visiting"), "an API that was just enabled", "Run tally deploy again"},
		{status.Error(codes.Internal, "Unable to retrieve the repository metadata for projects/p/locations/l/repositories/tally. Ensure that the Cloud Functions service account has 'artifactregistry.repositories.get'"), "Cloud Functions is new", ""},
		{status.Error(codes.PermissionDenied, "Google Cloud Run Service Agent must have permission to read the image"), "Cloud Run is new", ""},
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

		// What is not known is said as it is.
		{refusal(400, "INVALID_ARGUMENT", "Build failed with status: FAILURE"), "", ""},
		{refusal(500, "INTERNAL", "An internal error has occurred"), "", ""},
		{errors.New("x509: certificate signed by unknown authority"), "", ""},
	} {
		again := new(Run).soon(test.err)
		said := failed("p", test.err).Error()
		if !strings.HasPrefix(again, test.again) || (again == "") != (test.again == "") {
			t.Errorf("%v\ntried again: %q, want %q", test.err, again, test.again)
		}
		if !strings.Contains(said, test.remedy) || strings.Contains(said, "\n\n") != (test.remedy != "") {
			t.Errorf("%v\nsays\n%s\nwant %q", test.err, said, test.remedy)
		}
		if k := knownError(test.err); k != nil {
			used[k] = true
		}
	}
	for i := range knownErrors {
		if k := &knownErrors[i]; !used[k] || k.source == "" || k.again == "" && k.remedy == "" {
			t.Errorf("no text is of %v %v %v, which is of %q", k.codes, k.reasons, k.text, k.source)
		}
	}
}

// A message that an API gives for people goes before the one for programs.
func TestLocalizedMessage(t *testing.T) {
	s, err := status.New(codes.InvalidArgument, "field 3 is out of range").WithDetails(&errdetails.LocalizedMessage{Locale: "en", Message: "There are too many instances."})
	if err != nil {
		t.Fatal(err)
	}
	if got := failed("p", s.Err()).Error(); got != "InvalidArgument: There are too many instances." {
		t.Errorf("%q", got)
	}
}

// Roles on an account that this run made may not be known yet; on an older one they are missing.
func TestActAsOfNewAccount(t *testing.T) {
	err := refusal(403, "PERMISSION_DENIED", "Permission 'iam.serviceaccounts.actAs' denied on service account a@p.iam.gserviceaccount.com (or it may not exist).")
	for made, want := range map[string]string{"projects/p/serviceAccounts/a@p.iam.gserviceaccount.com": "roles on a new service account are not known everywhere yet", "projects/p/serviceAccounts/b@p.iam.gserviceaccount.com": ""} {
		r := &Run{made: []string{made}}
		if got := r.soon(err); got != want {
			t.Errorf("after %s was made: %q, want %q", made, got, want)
		}
	}
}
