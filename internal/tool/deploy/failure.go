package deploy

import (
	"errors"
	"path"
	"regexp"
	"slices"
	"strings"
)

// A failure is a command that failed.
type failure struct {
	command       Command
	project, said string
}

func (f *failure) Error() string {
	text := f.command.String() + "\n" + f.said

	for _, r := range remedies {
		found := r.symptom.FindStringSubmatchIndex(f.said)
		if found == nil {
			continue
		}

		remedy := r.symptom.ExpandString(nil, r.remedy, f.said, found)
		return text + "\n\n" + strings.ReplaceAll(string(remedy), "PROJECT", f.project)
	}
	return text
}

// actAs matches the message that the caller may not act as a service account. Its submatch is the
// address of that account.
var actAs = regexp.MustCompile(`(?i)iam\.serviceAccounts\.actAs\W+denied on service account (\S+@[\w.-]*\w)`)

// perimeter and constraint match messages that an organization forbids the call. No role helps.
var (
	perimeter  = regexp.MustCompile(`(?i)vpcServiceControls|VPC Service Controls|prohibited by organization's policy`)
	constraint = regexp.MustCompile(`constraints/(\w+(?:\.\w+)*)`)
)

// remedies are for the problems that users meet first, by the words of gcloud and Google's APIs.
// PROJECT stands for the project, and $1 for what the symptom's parentheses match.
var remedies = []struct {
	symptom *regexp.Regexp
	remedy  string
}{
	{regexp.MustCompile(`(?i)not currently have an active account|refreshing (your )?(current )?auth tokens|reauthentication|invalid_grant`),
		"Sign in:\n  gcloud auth login"},
	{regexp.MustCompile(`(?i)billing (account|must be enabled|is disabled)|BILLING_DISABLED|enable billing`),
		"The project needs a billing account, of those that the first command lists:\n  gcloud billing accounts list\n  gcloud billing projects link PROJECT --billing-account=ACCOUNT"},
	{regexp.MustCompile(`(?i)has not been used in project|SERVICE_DISABLED|API \[?\S+\]? not enabled`),
		"An API that was enabled just now takes some minutes to be known everywhere. Run tally deploy again: it goes on from here."},
	{regexp.MustCompile(`(?i)not a supported runtime`),
		"The region does not have the Go version that go.mod asks for. Those that it has:\n  gcloud functions runtimes list --project=PROJECT"},
	{regexp.MustCompile(`(?i)(?:maxScale may not exceed|Max instances must be set to) (\d+)`),
		"Cloud Run lets the project have fewer instances in this region. Write into tally.yaml, and run tally deploy again:\n  max_instances: $1\n" +
			"Or ask for a higher quota: https://cloud.google.com/run/quotas"},
	{regexp.MustCompile(`(?i)cannot run builds in this region`),
		"The project may not build in this region. Write another one into tally.yaml, of " + strings.Join(buildRegions, ", ") + ", and run tally deploy again:\n  region: us-central1\n" +
			"Or ask Google's support to let it build here"},
	{perimeter,
		"A perimeter of VPC Service Controls keeps this call out, and a role does not help: ask your organization's administrators, who find the reason by the identifier above."},
	{constraint,
		"The organization's policy $1 forbids it, and a role does not help: ask your organization's administrators for an exception. What it says of the project:\n" +
			"  gcloud org-policies describe $1 --effective --project=PROJECT"},
	{actAs,
		"Your account may not have functions run as $1. Whoever may give roles in the project can allow it:\n" +
			"  gcloud iam service-accounts add-iam-policy-binding $1 --member=user:YOU --role=roles/iam.serviceAccountUser --project=PROJECT"},
	{regexp.MustCompile(`(?i)PERMISSION_DENIED|does not have permission|permission .* denied|forbidden`),
		"Either there is no project PROJECT, or your account lacks a role in it: docs/deploy.md lists them. Which account, and what it may:\n" +
			"  gcloud auth list\n  gcloud projects get-iam-policy PROJECT"},
	{regexp.MustCompile(`(?i)error: failed to authenticate|firebase login`),
		"Sign in:\n  firebase login"},
}

const printedNothing = "it printed nothing" // what a failure says if a look-up printed no name

// transient lists failures that pass: something is new, and not known everywhere yet.
var transient = []struct {
	symptom *regexp.Regexp
	reason  string
}{
	// https://cloud.google.com/eventarc/docs/troubleshooting
	{regexp.MustCompile(`(?i)Eventarc Service Agent|eventarc\.events\.receiveEvent`), "Eventarc is new to this project, which takes it some minutes"},
	{regexp.MustCompile(`(?i)service account \S+ (does not exist|was not found)|Unknown service account|serviceAccount\S* not found`), "a new service account is not known everywhere yet"},
	{regexp.MustCompile(`(?i)missing permission on the build service account|Access to bucket \S+ denied|does not have permission to write logs`), "roles of the build's account are not known everywhere yet"},
	// https://github.com/firebase/firebase-tools/issues/5244
	{regexp.MustCompile(`(?i)Unable to retrieve the repository metadata`), "Cloud Functions is new to this project, and its own account's roles are not known everywhere yet"},
	// https://cloud.google.com/run/docs/troubleshooting
	{regexp.MustCompile(`(?i)must have permission to read the image`), "Cloud Run is new to this project, and its own account's roles are not known everywhere yet"},
	{regexp.MustCompile(`(?i)has not been used in project|SERVICE_DISABLED|API \[?\S+\]? not enabled`), "an API that was just enabled is not known everywhere yet"},
	{regexp.MustCompile("^" + printedNothing + "$"), "what was just made is not listed yet"},
	{regexp.MustCompile(`(?i)cannot find metric that matches`), "a new metric is not known everywhere yet"},
	// Of Firestore's indexes and fields, of which several are begun at once:
	// https://github.com/firebase/firebase-tools/issues/1119,
	// https://github.com/hashicorp/terraform-provider-google/issues/16664
	{regexp.MustCompile(`(?i)too much contention|cross-transaction contention|underlying data changed`), "Firestore is beginning another change of indexes"},
	{regexp.MustCompile(`(?i)concurrent policy changes|operation in progress|ABORTED|currently being (changed|updated)`), "something else is changing the same"},
}

// soon returns why a command that failed may succeed soon; "" if it may not. made are the names of
// what was created just before.
func soon(err error, made []string) string {
	f := new(failure)
	if !errors.As(err, &f) {
		return ""
	}

	for _, r := range transient {
		if r.symptom.MatchString(f.said) {
			return r.reason
		}
	}

	// If the plan has just created the account, the caller's roles on it may not be known
	// everywhere yet. For an older account the answer would stay the same.
	as := actAs.FindStringSubmatch(f.said)
	if as != nil && slices.ContainsFunc(made, func(name string) bool { return path.Base(name) == as[1] }) {
		return "roles on a new service account are not known everywhere yet"
	}
	return ""
}
