package deploy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/googleapis/gax-go/v2/apierror"
	"google.golang.org/api/googleapi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A verdict is about an error whose remedy is known, or that passes. It is about errors of one of
// the codes, for one of the reasons, or with the text. Google may change its prose, so text is for
// what has nothing else.
type verdict struct {
	codes   []codes.Code
	reasons []string // of google.rpc.ErrorInfo
	text    *regexp.Regexp

	again  string // why it passes within minutes; empty: it does not
	soon   bool   // it passes within two minutes, or never
	remedy string // PROJECT is the project, and $1 what the text's parentheses match
	source string // where the error was seen, or is documented
}

// disabled is the reason that an API gives if it is not enabled.
const disabled = "SERVICE_DISABLED"

// Parts of several verdicts.
const (
	describePolicy = "What it says of the project:\n  gcloud org-policies describe $1 --effective --project=PROJECT"
	fewerAllowed   = "Cloud Run lets the project have fewer instances in this region. Write into tally.yaml, and run tally deploy again:\n  max_instances: %s\nOr ask for a higher quota: https://cloud.google.com/run/quotas"
	newAccount     = "a new service account is not known everywhere yet"
	newBuildRoles  = "roles of the build's account are not known everywhere yet"
	terraform      = "https://github.com/hashicorp/terraform-provider-google/"
)

// verdicts are in the order in which they are tried.
var verdicts = []verdict{
	// What the credentials or the project lack.
	{
		codes:  []codes.Code{codes.Unauthenticated},
		text:   regexp.MustCompile(`default credentials|invalid_rapt|invalid_grant|cannot fetch token|[Rr]eauthentication`), // invalid_rapt: an organization wants people to sign in once more
		remedy: "Sign in:\n  gcloud auth application-default login",
		source: "https://cloud.google.com/docs/authentication/troubleshoot-adc",
	},
	{
		text:   regexp.MustCompile(`requires a quota project`),
		remedy: "The credentials name no project for the API's quota:\n  gcloud auth application-default set-quota-project PROJECT",
		source: "https://cloud.google.com/docs/quotas/set-quota-project",
	},
	{
		reasons: []string{"USER_PROJECT_DENIED"},
		remedy: "The account may not have calls counted for PROJECT. It needs roles/serviceusage.serviceUsageConsumer there:\n" +
			"  gcloud projects add-iam-policy-binding PROJECT --member=user:YOU --role=roles/serviceusage.serviceUsageConsumer --condition=None",
		source: "https://cloud.google.com/docs/quotas/quota-project",
	},
	{
		reasons: []string{"BILLING_DISABLED", "UREQ_PROJECT_BILLING_NOT_FOUND", "UREQ_PROJECT_BILLING_NOT_OPEN"},
		text:    regexp.MustCompile(`(?i)billing (account|must be enabled|is disabled)|enable billing`),
		remedy:  "The project needs a billing account, of those that the first command lists:\n  gcloud billing accounts list\n  gcloud billing projects link PROJECT --billing-account=ACCOUNT",
		source:  "https://github.com/googleapis/googleapis/blob/master/google/api/error_reason.proto",
	},
	{
		reasons: []string{disabled},
		text:    regexp.MustCompile(`API has not been used in project \S+ before or it is disabled`),
		again:   "an API that was just enabled is not known everywhere yet",
		remedy:  "tally deploy enables the API, which takes some minutes to be known everywhere. Run it again: it goes on from here.",
		source:  "https://cloud.google.com/apis/docs/troubleshooting",
	},

	// What an organization or a quota forbids.
	{
		reasons: []string{"LOCATION_POLICY_VIOLATED"},
		remedy:  "Google does not let the project use this location. Write another region into tally.yaml, and run tally deploy again:\n  region: us-central1",
		source:  "https://github.com/firezone/firezone/pull/7711",
	},
	{
		text:   regexp.MustCompile(`permission "\S+" for the resource "projects/[^/]+/locations/([^/"]+)" \(or the resource may not exist\)`),
		remedy: "Either your account lacks the role, or the API is not in $1. Then write another region into tally.yaml, and run tally deploy again:\n  region: us-central1",
		source: terraform + "issues/7001",
	},
	{ // Cloud Build's text names perimeters, and means a role.
		text:   regexp.MustCompile(`Access to bucket (gcf-v2-sources-\S+) denied\. You must grant Storage Object Viewer permission to (\S+@\S+\w)`),
		again:  newBuildRoles,
		remedy: "$2 lacks roles/storage.objectViewer on the bucket $1. tally deploy gives it; if it is there, wait some minutes, and run tally deploy again.",
		source: terraform + "issues/20571",
	},
	{
		reasons: []string{"SECURITY_POLICY_VIOLATED"},
		text:    regexp.MustCompile(`vpcServiceControlsUniqueIdentifier|Request is prohibited by organization's policy`),
		remedy:  "A perimeter of VPC Service Controls keeps this call out, and a role does not help: ask your organization's administrators, who find the reason by the identifier above.",
		source:  "https://cloud.google.com/vpc-service-controls/docs/troubleshooting",
	},
	{
		text:   regexp.MustCompile(`[cC]onstraints/(\w+(?:\.\w+)*)`), // customConstraints, too
		remedy: "The organization's policy $1 forbids it, and a role does not help: ask your organization's administrators for an exception. " + describePolicy,
		source: "https://cloud.google.com/resource-manager/docs/organization-policy/org-policy-constraints",
	},
	{
		text: regexp.MustCompile(`do not belong to a permitted customer`),
		remedy: "The organization's policy iam.allowedPolicyMemberDomains lets no accounts of this project, or of Google's, have roles: ask your organization's administrators for an exception. " +
			strings.ReplaceAll(describePolicy, "$1", "iam.allowedPolicyMemberDomains"),
		source: "https://cloud.google.com/resource-manager/docs/organization-policy/restricting-domains",
	},
	{
		text:   regexp.MustCompile(`(?:maxScale may not exceed|Max instances must be set to|may not have more than) (\d+)`),
		remedy: fmt.Sprintf(fewerAllowed, "$1"),
		source: "https://github.com/firebase/firebase-tools/pull/5867, https://github.com/jspsych/datapipe/issues/238",
	},
	{
		text:   regexp.MustCompile(`Quota exceeded for total allowable CPU per project per region`),
		remedy: fmt.Sprintf(fewerAllowed, "5"),
		source: "https://github.com/firebase/firebase-tools/issues/11001",
	},
	{
		text:   regexp.MustCompile(`(?i)maximum number of|a maximum of \d+`),
		remedy: "The project has as many of these as Google allows. Delete some that nothing needs, or ask for a higher quota:\n  https://console.cloud.google.com/iam-admin/quotas?project=PROJECT",
		source: "https://cloud.google.com/iam/quotas, https://cloud.google.com/monitoring/quotas, https://cloud.google.com/firestore/quotas",
	},
	{ // In these regions every project may build: https://cloud.google.com/build/docs/locations
		text: regexp.MustCompile(`cannot run builds in this region|[Bb]uilds? .*not (?:allowed|permitted) in (?:this )?region`),
		remedy: "The project may not build in this region. Write another one into tally.yaml, of asia-east1, australia-southeast1, europe-west1, southamerica-east1, us-central1, us-west2, and run tally deploy again:\n" +
			"  region: us-central1\nOr ask Google's support to let it build here",
		source: "https://github.com/google-github-actions/deploy-cloudrun/issues/480",
	},
	{
		text:   regexp.MustCompile(`not a supported runtime`),
		remedy: "The region does not have the Go version of the functions. Write another region into tally.yaml, of those that have it:\n  https://cloud.google.com/run/docs/runtimes/go",
		source: "https://cloud.google.com/functions/docs/runtime-support",
	},
	{
		text: regexp.MustCompile(`[Cc]loud Run service (\S+?),? Container Healthcheck failed`),
		remedy: "The function was built, and did not start. Its log says why:\n" +
			"  gcloud logging read 'resource.labels.service_name=\"$1\" AND severity>=WARNING' --limit=20 --project=PROJECT",
		source: "https://cloud.google.com/run/docs/troubleshooting#container-failed-to-start",
	},
	{
		text: regexp.MustCompile(`Email '(\S+)' is not the primary email address for unique ID|deleted member '(\S+)'`),
		remedy: "The policy still names an account that was deleted, and IAM takes no policy that does. Remove that member:\n" +
			"  gcloud projects remove-iam-policy-binding PROJECT --all --member='deleted:serviceAccount:$1?uid=…', as\n  gcloud projects get-iam-policy PROJECT\nshows it",
		source: terraform + "issues/16505",
	},

	// A queue that is new, and one that somebody deleted: Cloud Tasks may only seem to make it again.
	{
		text:   regexp.MustCompile(`queue with this name existed`),
		remedy: deletedQueue,
		source: "https://cloud.google.com/tasks/docs/reference/rest/v2/projects.locations.queues/delete",
	},
	{
		text:   regexp.MustCompile(`If you just created the queue`),
		again:  "Cloud Tasks is still making the queue",
		source: "https://cloud.google.com/tasks/docs/creating-queues",
	},

	// What the account may not do, unless it, or a role of it, is some seconds old.
	{ // of Cloud Functions, of Cloud Run, and of Cloud Scheduler and Cloud Tasks
		text:  regexp.MustCompile(`(?i)iam\.serviceAccounts\.actAs\b.*?(?:service account|for the resource) "?(\S+@[\w.-]*\w)`),
		again: "roles on a service account are not known everywhere yet",
		soon:  true,
		remedy: "Your account may not have functions run as $1. It needs roles/iam.serviceAccountUser, which somebody who may give roles can give:\n" +
			"  gcloud iam service-accounts add-iam-policy-binding $1 --member=user:YOU --role=roles/iam.serviceAccountUser --project=PROJECT",
		source: "https://cloud.google.com/iam/docs/service-accounts-actas",
	},
	{
		text:   regexp.MustCompile(`iam\.serviceAccounts\.(?:get|getIamPolicy|setIamPolicy|update)\b`),
		again:  newAccount,
		soon:   true,
		remedy: "Either the service account is gone, or your account lacks roles/iam.serviceAccountAdmin: docs/operations.md lists the roles.",
		source: "https://github.com/GoogleCloudPlatform/magic-modules/pull/10813, " + terraform + "issues/15042",
	},

	// What passes.
	{
		text:   regexp.MustCompile(`Eventarc Service Agent|eventarc\.events\.receiveEvent`),
		again:  "Eventarc is new to this project, which takes it some minutes",
		source: "https://cloud.google.com/eventarc/docs/troubleshooting",
	},
	{
		text:   regexp.MustCompile(`(?i)service account \S+ (does not exist|was not found)|Unknown service account|serviceAccount\S* not found|Gaia id not found`),
		again:  newAccount,
		source: "https://github.com/firebase/firebase-tools/issues/8841, " + terraform + "issues/9249",
	},
	{
		text:   regexp.MustCompile(`missing permission on the build service account|does not have permission to write logs|"artifactregistry\.repositories\.uploadArtifacts" denied`),
		again:  newBuildRoles,
		source: "https://github.com/GoogleCloudPlatform/magic-modules/pull/11324",
	},
	{
		text:   regexp.MustCompile(`Unable to retrieve the (?:repository metadata|service account details)|must have permission to read the image`),
		again:  "Google's accounts are new to this project, and their roles are not known everywhere yet",
		source: "https://github.com/firebase/firebase-tools/issues/5244, https://cloud.google.com/run/docs/troubleshooting",
	},
	{
		text:   regexp.MustCompile(`Cloud Run service \S+ was not found`),
		again:  "a new service is not known everywhere yet",
		source: "https://cloud.google.com/eventarc/docs/troubleshooting",
	},
	{
		text:   regexp.MustCompile(`(?i)cannot find metric that matches`),
		again:  "a new metric is not known everywhere yet",
		source: "https://cloud.google.com/monitoring/alerts/log-based-alerts",
	},
	{
		text:   regexp.MustCompile(`(?i)too much contention|cross-transaction contention|underlying data changed`),
		again:  "Firestore is beginning another change of indexes",
		source: "https://github.com/firebase/firebase-tools/issues/1119, " + terraform + "issues/16664",
	},
	{
		codes:  []codes.Code{codes.Aborted, codes.AlreadyExists},
		text:   regexp.MustCompile(`(?i)unable to queue the operation|concurrent policy changes|operation in progress|currently being (changed|updated)`),
		again:  "something else is changing the same",
		source: "https://google.aip.dev/154, https://google.aip.dev/133, https://github.com/firebase/firebase-tools/blob/master/src/deploy/functions/release/executor.ts",
	},
	{
		codes:  []codes.Code{codes.ResourceExhausted, codes.Unavailable},
		text:   regexp.MustCompile(`Quota exceeded for quota metric .* per minute`),
		again:  "the API is busy",
		source: "https://cloud.google.com/docs/quotas/troubleshoot",
	},
	{
		codes:  []codes.Code{codes.Internal},
		again:  "the API failed by itself",
		soon:   true,
		source: terraform + "blob/main/google/transport/error_retry_predicates.go",
	},
	{
		text:   regexp.MustCompile(`Requested entity was not found`),
		again:  "something that was just made is not known everywhere yet",
		soon:   true,
		source: "https://cloud.google.com/tasks/docs/creating-queues",
	},
	{
		codes:  []codes.Code{codes.DeadlineExceeded},
		text:   lost,
		again:  "the answer was lost",
		source: "https://google.aip.dev/194, https://pkg.go.dev/net/http#RoundTripper",
	},
	{
		text:   regexp.MustCompile(`no such host|connection refused|network is unreachable|no route to host`),
		again:  "Google cannot be reached from here",
		soon:   true,
		source: "https://pkg.go.dev/net#DNSError",
	},
	{
		codes:  []codes.Code{codes.PermissionDenied},
		remedy: "Either there is no project PROJECT, or the account lacks a role in it: docs/operations.md lists them.",
		source: "https://cloud.google.com/iam/docs/permission-error-messages",
	},
}

const deletedQueue = "Somebody deleted the queue, and Cloud Tasks blocks its name for 3 to 7 days. Until then, write another region into tally.yaml, and run tally deploy again:\n  region: us-central1"

// lost matches the messages that a connection broke before the answer came.
var lost = regexp.MustCompile(`context deadline exceeded|connection reset|unexpected EOF|EOF$|broken pipe|TLS handshake timeout|i/o timeout|GOAWAY`)

// verdictOn returns what is known of an error; nil: nothing.
func verdictOn(err error) *verdict {
	text := fullText(err)
	i := slices.IndexFunc(verdicts, func(v verdict) bool {
		return slices.Contains(v.codes, code(err)) || slices.Contains(v.reasons, reason(err)) || v.text != nil && v.text.MatchString(text)
	})
	if i < 0 {
		return nil
	}
	return &verdicts[i]
}

// fullText returns all that an error says.
func fullText(err error) string { return err.Error() + "\n" + message(err) }

// remedy returns what helps against an error; "" if that is not known.
func (p *Project) remedy(err error) string {
	v := verdictOn(err)
	switch {
	case errors.Is(err, errNoQueue):
		return deletedQueue
	case p.elsewhere(err):
		return "Calls are counted for " + metadata(err, "consumer") + ", where the API is not enabled:\n  gcloud auth application-default set-quota-project " + p.ID
	case v == nil:
		return ""
	}

	remedy, text := v.remedy, fullText(err)
	if v.text != nil && v.text.MatchString(text) {
		remedy = string(v.text.ExpandString(nil, remedy, text, v.text.FindStringSubmatchIndex(text)))
	}
	return strings.ReplaceAll(remedy, "PROJECT", p.ID)
}

// Tries go on for so long after the first that failed.
const (
	longest = 10 * time.Minute
	brief   = 2 * time.Minute
)

// soon returns why something that failed may succeed soon, and for how long to try; "" if it may
// not.
func (p *Project) soon(err error) (again string, within time.Duration) {
	if errors.Is(err, errNotYet) || errors.Is(err, errDeploying) {
		return err.Error(), longest
	}
	v := verdictOn(err)
	switch {
	case v == nil || p.elsewhere(err) || v.again == "":
		return "", 0
	case v.soon:
		return v.again, brief
	}
	return v.again, longest
}

// elsewhere reports whether an API says that it is not enabled in another project, which calls are
// counted for.
func (p *Project) elsewhere(err error) bool {
	return reason(err) == disabled && metadata(err, "consumer") != "" && !p.absent(err)
}

// failed returns the error of a step as people read it: what an API said, and the remedy.
func (p *Project) failed(err error) error {
	remedy := p.remedy(err)
	switch {
	case remedy != "":
		return errors.New(message(err) + "\n\n" + remedy)
	case code(err) == codes.Unknown: // no API said it
		return err
	}
	return errors.New(message(err))
}

// An Unread says why something could not be read, and the remedy, if one is known.
type Unread struct{ What, Why string }

func (u *Unread) Error() string { return "could not read " + u.What + ": " + u.Why }

// Unreadable says why something of an API could not be read, and how it can.
func (p *Project) Unreadable(api, what string, err error) *Unread {
	u := new(Unread)
	if errors.As(err, &u) {
		return u
	}

	why, remedy := message(err), p.remedy(err)
	v := verdictOn(err)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		why = api + ".googleapis.com did not answer in time"
	case v != nil && slices.Contains(v.codes, codes.PermissionDenied) && !p.elsewhere(err): // no more is known than that a role is missing
		access := known().APIs[api]
		why = "the account needs " + access.Reads + ": " + why
		remedy = fmt.Sprintf("  gcloud projects add-iam-policy-binding %s --member=user:YOU --role=%s --condition=None", p.ID, access.Role)
	}
	if remedy != "" {
		why += "\n" + remedy
	}
	return &Unread{what, why}
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
	return byHTTP[refused.Code]
}

// byHTTP are codes by the status of HTTP:
// https://github.com/googleapis/googleapis/blob/master/google/rpc/code.proto
var byHTTP = map[int]codes.Code{
	http.StatusBadRequest: codes.InvalidArgument, http.StatusUnauthorized: codes.Unauthenticated, http.StatusForbidden: codes.PermissionDenied,
	http.StatusNotFound: codes.NotFound, http.StatusConflict: codes.Aborted, http.StatusTooManyRequests: codes.ResourceExhausted,
	http.StatusInternalServerError: codes.Internal, http.StatusBadGateway: codes.Unavailable,
	http.StatusServiceUnavailable: codes.Unavailable, http.StatusGatewayTimeout: codes.DeadlineExceeded,
}

// NotFound reports whether an error of an API says that there is no such thing.
func NotFound(err error) bool { return code(err) == codes.NotFound }

// absent reports whether an error says that there is nothing of the kind in the project. That is so
// if the API is not enabled there. But an API also says so of another project, if the credentials
// have calls counted for that.
func (p *Project) absent(err error) bool {
	if NotFound(err) {
		return true
	}
	consumer := path.Base(metadata(err, "consumer"))
	return reason(err) == disabled && (consumer == p.ID || consumer == p.Number && p.Number != "")
}

// passing reports whether a call failed by no fault of its own.
func passing(err error) bool {
	refused := new(googleapi.Error)
	if !errors.As(err, &refused) {
		return lost.MatchString(err.Error())
	}
	v := verdictOn(err)
	return (v == nil || v.again != "") && (refused.Code == http.StatusTooManyRequests || refused.Code >= http.StatusInternalServerError)
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
