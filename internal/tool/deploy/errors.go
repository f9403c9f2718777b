package deploy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/googleapis/gax-go/v2/apierror"
	"google.golang.org/api/googleapi"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
)

// A known error is one whose remedy is known, or that passes. What is set of codes, reasons and
// text must all match. text looks at prose, which Google may change, so it is for what has nothing
// else.
type known struct {
	codes   []codes.Code
	reasons []string // of google.rpc.ErrorInfo
	text    *regexp.Regexp

	again  string // why it passes within minutes; empty: it does not
	remedy string // PROJECT is the project, and $1 what the text's parentheses match
	source string // where the error was seen, or is documented
}

// disabled is the reason that an API gives if it is not enabled.
const disabled = "SERVICE_DISABLED"

var maxInstances = "Cloud Run lets the project have fewer instances in this region. Write into tally.yaml, and run tally deploy again:\n  max_instances: %s\n" +
	"Or ask for a higher quota: https://cloud.google.com/run/quotas"

// knownErrors are in the order in which they are tried.
var knownErrors = []known{
	{
		text:   noCredentials,
		remedy: "Sign in:\n  gcloud auth application-default login",
		source: "https://cloud.google.com/docs/authentication/troubleshoot-adc, https://github.com/googleapis/google-auth-library-python/issues/1109",
	}, {
		codes:  []codes.Code{codes.Unauthenticated},
		remedy: "Sign in:\n  gcloud auth application-default login",
		source: "https://cloud.google.com/docs/authentication/troubleshoot-adc",
	}, {
		reasons: []string{"BILLING_DISABLED", "UREQ_PROJECT_BILLING_NOT_FOUND", "UREQ_PROJECT_BILLING_NOT_OPEN"},
		remedy:  linkBilling,
		source:  "https://github.com/googleapis/googleapis/blob/master/google/api/error_reason.proto",
	}, {
		text:   regexp.MustCompile(`(?i)billing (account|must be enabled|is disabled)|enable billing`),
		remedy: linkBilling,
		source: "https://cloud.google.com/service-usage/docs/troubleshooting",
	}, {
		reasons: []string{disabled},
		again:   "an API that was just enabled is not known everywhere yet",
		remedy:  "An API that was enabled just now takes some minutes to be known everywhere. Run tally deploy again: it goes on from here.",
		source:  "https://cloud.google.com/apis/design/errors#error_info",
	}, {
		text:   regexp.MustCompile(`API has not been used in project \S+ before or it is disabled`),
		again:  "an API that was just enabled is not known everywhere yet",
		remedy: "An API that was enabled just now takes some minutes to be known everywhere. Run tally deploy again: it goes on from here.",
		source: "https://cloud.google.com/apis/docs/troubleshooting",
	}, {
		reasons: []string{"LOCATION_POLICY_VIOLATED"},
		remedy:  "Google does not let the project use this location. Write another region into tally.yaml, and run tally deploy again:\n  region: us-central1",
		source:  "https://github.com/firezone/firezone/pull/7711",
	}, {
		// Cloud Build's text names perimeters, and means a role.
		text:   regexp.MustCompile(`Access to bucket (gcf-v2-sources-\S+) denied\. You must grant Storage Object Viewer permission to (\S+@\S+\w)`),
		again:  "roles of the build's account are not known everywhere yet",
		remedy: "$2 lacks roles/storage.objectViewer on the bucket $1. tally deploy gives it; if it is there, wait some minutes, and run tally deploy again.",
		source: "https://github.com/hashicorp/terraform-provider-google/issues/20571",
	}, {
		reasons: []string{"SECURITY_POLICY_VIOLATED"},
		remedy:  perimeter,
		source:  "https://cloud.google.com/vpc-service-controls/docs/troubleshooting",
	}, {
		text:   regexp.MustCompile(`vpcServiceControlsUniqueIdentifier|Request is prohibited by organization's policy`),
		remedy: perimeter,
		source: "https://cloud.google.com/vpc-service-controls/docs/troubleshooting",
	}, {
		text: regexp.MustCompile(`constraints/(\w+(?:\.\w+)*)`),
		remedy: "The organization's policy $1 forbids it, and a role does not help: ask your organization's administrators for an exception. What it says of the project:\n" +
			"  gcloud org-policies describe $1 --effective --project=PROJECT",
		source: "https://cloud.google.com/resource-manager/docs/organization-policy/org-policy-constraints",
	}, {
		text:   regexp.MustCompile(`(?:maxScale may not exceed|Max instances must be set to) (\d+)`),
		remedy: fmt.Sprintf(maxInstances, "$1"),
		source: "https://github.com/firebase/firebase-tools/pull/5867, https://github.com/jspsych/datapipe/issues/238",
	}, {
		text:   regexp.MustCompile(`Quota exceeded for total allowable CPU per project per region`),
		remedy: fmt.Sprintf(maxInstances, "5"),
		source: "https://github.com/firebase/firebase-tools/issues/11001",
	}, {
		text: regexp.MustCompile(`cannot run builds in this region|[Bb]uilds? .*not (?:allowed|permitted) in (?:this )?region`),
		remedy: "The project may not build in this region. Write another one into tally.yaml, of " + strings.Join(buildRegions, ", ") + ", and run tally deploy again:\n  region: us-central1\n" +
			"Or ask Google's support to let it build here",
		source: "https://github.com/google-github-actions/deploy-cloudrun/issues/480",
	}, {
		text:   regexp.MustCompile(`not a supported runtime`),
		remedy: "The region does not have the Go version of the functions. Write another region into tally.yaml, of those that have it:\n  https://cloud.google.com/run/docs/runtimes/go",
		source: "https://cloud.google.com/functions/docs/runtime-support",
	}, {
		text:   regexp.MustCompile(`queue with this name existed (?:too )?recently`),
		remedy: "Somebody deleted the queue, and Cloud Tasks blocks its name for 7 days. Until then, write another region into tally.yaml, and run tally deploy again:\n  region: us-central1",
		source: "https://cloud.google.com/tasks/docs/quotas",
	}, {
		text: actAs,
		remedy: "Your account may not have functions run as $1. It needs roles/iam.serviceAccountUser, which somebody who may give roles can give:\n" +
			"  gcloud iam service-accounts add-iam-policy-binding $1 --member=user:YOU --role=roles/iam.serviceAccountUser --project=PROJECT",
		source: "https://cloud.google.com/iam/docs/service-accounts-actas",
	},

	// These pass.
	{
		text:   regexp.MustCompile(`Eventarc Service Agent|eventarc\.events\.receiveEvent`),
		again:  "Eventarc is new to this project, which takes it some minutes",
		source: "https://cloud.google.com/eventarc/docs/troubleshooting",
	}, {
		text:   regexp.MustCompile(`(?i)service account \S+ (does not exist|was not found)|Unknown service account|serviceAccount\S* not found`),
		again:  "a new service account is not known everywhere yet",
		source: "https://github.com/firebase/firebase-tools/issues/8841",
	}, {
		text:   regexp.MustCompile(`missing permission on the build service account|does not have permission to write logs|"artifactregistry\.repositories\.uploadArtifacts" denied`),
		again:  "roles of the build's account are not known everywhere yet",
		source: "https://github.com/GoogleCloudPlatform/magic-modules/pull/11324",
	}, {
		text:   regexp.MustCompile(`Unable to retrieve the repository metadata`),
		again:  "Cloud Functions is new to this project, and its own account's roles are not known everywhere yet",
		source: "https://github.com/firebase/firebase-tools/issues/5244",
	}, {
		text:   regexp.MustCompile(`must have permission to read the image`),
		again:  "Cloud Run is new to this project, and its own account's roles are not known everywhere yet",
		source: "https://cloud.google.com/run/docs/troubleshooting",
	}, {
		text:   regexp.MustCompile(`(?i)cannot find metric that matches`),
		again:  "a new metric is not known everywhere yet",
		source: "https://cloud.google.com/monitoring/alerts/log-based-alerts",
	}, {
		text:   regexp.MustCompile(`(?i)too much contention|cross-transaction contention|underlying data changed`),
		again:  "Firestore is beginning another change of indexes",
		source: "https://github.com/firebase/firebase-tools/issues/1119, https://github.com/hashicorp/terraform-provider-google/issues/16664",
	}, {
		text:   regexp.MustCompile(`(?i)unable to queue the operation|concurrent policy changes|operation in progress|currently being (changed|updated)`),
		again:  "something else is changing the same",
		source: "https://github.com/firebase/firebase-tools/blob/master/src/deploy/functions/release/executor.ts",
	}, {
		codes:  []codes.Code{codes.Aborted, codes.AlreadyExists},
		again:  "something else is changing the same",
		source: "https://google.aip.dev/154, https://google.aip.dev/133",
	}, {
		codes:  []codes.Code{codes.ResourceExhausted, codes.Unavailable},
		again:  "the API is busy",
		source: "https://github.com/firebase/firebase-tools/blob/master/src/deploy/functions/release/executor.ts",
	}, {
		codes:  []codes.Code{codes.DeadlineExceeded},
		again:  "the answer was lost",
		source: "https://google.aip.dev/194",
	}, {
		text:   regexp.MustCompile(`context deadline exceeded|connection reset|unexpected EOF|EOF$|broken pipe|TLS handshake timeout|i/o timeout`),
		again:  "the answer was lost",
		source: "https://pkg.go.dev/net/http#RoundTripper",
	}, {
		codes:  []codes.Code{codes.PermissionDenied},
		remedy: "Either there is no project PROJECT, or the account lacks a role in it: docs/deploy.md lists them.",
		source: "https://cloud.google.com/iam/docs/permission-error-messages",
	},
}

const (
	linkBilling = "The project needs a billing account, of those that the first command lists:\n  gcloud billing accounts list\n  gcloud billing projects link PROJECT --billing-account=ACCOUNT"
	perimeter   = "A perimeter of VPC Service Controls keeps this call out, and a role does not help: ask your organization's administrators, who find the reason by the identifier above."
)

// noCredentials matches the messages that there are no credentials, or that they are too old.
// Google says invalid_rapt if an organization wants people to sign in once more.
var noCredentials = regexp.MustCompile(`default credentials|invalid_rapt|invalid_grant|cannot fetch token|[Rr]eauthentication`)

// signedOut reports whether a call failed because of its credentials.
func signedOut(err error) bool {
	return code(err) == codes.Unauthenticated || noCredentials.MatchString(err.Error())
}

// actAs matches the message that the caller may not act as a service account. Its submatch is the
// address of that account.
var actAs = regexp.MustCompile(`(?i)iam\.serviceAccounts\.actAs\W+denied on service account (\S+@[\w.-]*\w)`)

// knownError returns what is known of an error; nil: nothing.
func knownError(err error) *known {
	text := err.Error() + "\n" + message(err)
	i := slices.IndexFunc(knownErrors, func(k known) bool {
		return (k.codes == nil || slices.Contains(k.codes, code(err))) &&
			(k.reasons == nil || slices.Contains(k.reasons, reason(err))) &&
			(k.text == nil || k.text.MatchString(text))
	})
	if i < 0 {
		return nil
	}
	return &knownErrors[i]
}

// advice returns the remedy for an error of a project; "" if none is known.
func (k *known) advice(project string, err error) string {
	remedy := k.remedy
	if k.text != nil {
		text := err.Error() + "\n" + message(err)
		found := k.text.FindStringSubmatchIndex(text)
		remedy = string(k.text.ExpandString(nil, remedy, text, found))
	}
	return strings.ReplaceAll(remedy, "PROJECT", project)
}

// failed returns the error of a step with what it means, and its remedy.
func failed(project string, err error) error {
	if err == nil {
		return nil
	}
	c, k := code(err), knownError(err)
	if c == codes.Unknown && k == nil { // no API said it
		return err
	}

	text := message(err)
	if c != codes.Unknown {
		text = c.String() + ": " + text
	}
	if k != nil && k.remedy != "" {
		text += "\n\n" + k.advice(project, err)
	}
	return &failure{text, err}
}

// A failure is why a step failed, as people read it.
type failure struct {
	text string
	err  error
}

func (f *failure) Error() string { return f.text }

func (f *failure) Unwrap() error { return f.err }

var errDeploying = errors.New("another command is building it")

// soon returns why a step that failed may succeed soon; "" if it may not.
func (r *Run) soon(err error) string {
	if errors.Is(err, errNotYet) || errors.Is(err, errDeploying) {
		return err.Error()
	}
	k := knownError(err)
	if k == nil {
		return ""
	}

	// If this run has just created the account, the caller's roles on it may not be known everywhere
	// yet. For an older account the answer would stay the same.
	as := actAs.FindStringSubmatch(message(err))
	if as != nil && slices.ContainsFunc(r.made, func(name string) bool { return path.Base(name) == as[1] }) {
		return "roles on a new service account are not known everywhere yet"
	}
	return k.again
}

// details returns what an API says of an error, which may be nothing.
func details(err error) *apierror.APIError {
	a := new(apierror.APIError)
	if errors.As(err, &a) {
		return a
	}
	a, ok := apierror.FromError(err)
	if !ok {
		return new(apierror.APIError)
	}
	return a
}

// reason returns the reason that an API gives for an error; "" if it gives none.
func reason(err error) string { return details(err).Reason() }

// metadata returns what an API adds to its reason.
func metadata(err error, key string) string { return details(err).Metadata()[key] }

// code returns the code of an error, also of REST; Unknown if it has none.
func code(err error) codes.Code {
	refused := new(googleapi.Error)
	if !errors.As(err, &refused) {
		return status.Code(err)
	}

	var body struct {
		Error struct{ Status json.RawMessage }
	}
	var c codes.Code
	if json.Unmarshal([]byte(refused.Body), &body) == nil && c.UnmarshalJSON(body.Error.Status) == nil && c != codes.OK {
		return c
	}
	return byHTTP[refused.Code]
}

// byHTTP are codes by the status of HTTP, for answers that have no other:
// https://github.com/googleapis/googleapis/blob/master/google/rpc/code.proto
var byHTTP = map[int]codes.Code{
	http.StatusInternalServerError: codes.Internal,
	http.StatusBadRequest:          codes.InvalidArgument, http.StatusUnauthorized: codes.Unauthenticated, http.StatusForbidden: codes.PermissionDenied,
	http.StatusNotFound: codes.NotFound, http.StatusConflict: codes.Aborted, http.StatusTooManyRequests: codes.ResourceExhausted,
	http.StatusBadGateway: codes.Unavailable, http.StatusServiceUnavailable: codes.Unavailable, http.StatusGatewayTimeout: codes.DeadlineExceeded,
}

// operationError returns the error with which an operation ended; nil if it ended well.
func operationError(operation Object) error {
	failure := asObject(operation["error"])
	if failure == nil {
		return nil
	}
	s := new(spb.Status)
	err := protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal([]byte(failure.text()), s)
	if err != nil { // details of an unknown type
		delete(failure, "details")
		_ = protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal([]byte(failure.text()), s)
	}
	return status.FromProto(s).Err()
}

// NotFound reports whether an error of an API says that there is no such thing.
func NotFound(err error) bool { return code(err) == codes.NotFound }

// absent reports whether an error says that there is nothing of the kind in the project. That is so
// if the API is not enabled there. But an API also says so of another project, if the credentials
// have calls counted for that.
func (s *State) absent(err error) bool {
	if NotFound(err) {
		return true
	}
	consumer := path.Base(metadata(err, "consumer"))
	return reason(err) == disabled && (consumer == s.Project || consumer == s.Number && s.Number != "")
}

// message returns an error's message on one line, without the codes that clients put before it. A
// message that an API gives for people goes first.
func message(err error) string {
	text := cmp.Or(status.Convert(err).Message(), err.Error())

	refused := new(googleapi.Error)
	if errors.As(err, &refused) && refused.Message != "" {
		text = refused.Message
	}
	if localized := details(err).Details().LocalizedMessage.GetMessage(); localized != "" {
		text = localized
	}
	u := new(url.Error)
	if errors.As(err, &u) { // its address says no more than the API's name
		text = u.Err.Error()
	}
	return strings.Join(strings.Fields(text), " ")
}

// unreachable reports whether an API could not be reached at all.
func unreachableAPI(err error) bool {
	return code(err) == codes.Unavailable || slices.ContainsFunc([]string{"no such host", "connection refused", "network is unreachable", "no route to host", "i/o timeout"},
		func(part string) bool { return strings.Contains(err.Error(), part) })
}

// late reports whether an API did not answer in time.
func late(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || code(err) == codes.DeadlineExceeded
}
