package deploy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/googleapis/gax-go/v2/apierror"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A Source is an API that Tally reads, with the permissions that this takes and a role that has
// them.
type Source struct {
	name, permissions, role string
}

var (
	projectsAPI     = Source{"cloudresourcemanager", "resourcemanager.projects.get, resourcemanager.projects.getIamPolicy", "roles/iam.securityReviewer"}
	servicesAPI     = Source{"serviceusage", "serviceusage.services.list", "roles/serviceusage.serviceUsageViewer"}
	accountsAPI     = Source{"iam", "iam.serviceAccounts.list, iam.serviceAccounts.getIamPolicy", "roles/iam.securityReviewer"}
	repositoriesAPI = Source{"artifactregistry", "artifactregistry.repositories.get, artifactregistry.repositories.getIamPolicy", "roles/artifactregistry.reader"}
	firestoreAPI    = Source{"firestore", "datastore.databases.list, datastore.indexes.get, datastore.indexes.list", "roles/datastore.viewer"}
	functionsAPI    = Source{"cloudfunctions", "cloudfunctions.functions.list, cloudfunctions.locations.list", "roles/cloudfunctions.viewer"}
	runAPI          = Source{"run", "run.services.get, run.services.getIamPolicy", "roles/run.viewer"}
	eventarcAPI     = Source{"eventarc", "eventarc.triggers.list, eventarc.locations.list", "roles/eventarc.viewer"}
	pubsubAPI       = Source{"pubsub", "pubsub.subscriptions.list", "roles/pubsub.viewer"}
	schedulerAPI    = Source{"cloudscheduler", "cloudscheduler.locations.list, cloudscheduler.jobs.list", "roles/cloudscheduler.viewer"}
	loggingAPI      = Source{"logging", "logging.logMetrics.list, logging.sinks.get", "roles/logging.viewer"}
	MonitoringAPI   = Source{"monitoring", "monitoring.alertPolicies.list, monitoring.notificationChannels.list, monitoring.dashboards.list, monitoring.timeSeries.list", "roles/monitoring.viewer"}
	BillingAPI      = Source{"cloudbilling", "resourcemanager.projects.get", "roles/iam.securityReviewer"}
	RulesAPI        = Source{"firebaserules", "firebaserules.releases.get, firebaserules.rulesets.get, firebaserules.rulesets.test", "roles/firebaserules.viewer"}
)

// Sources are all APIs that Tally reads.
var Sources = []Source{projectsAPI, servicesAPI, accountsAPI, repositoriesAPI, firestoreAPI, functionsAPI, runAPI,
	eventarcAPI, pubsubAPI, schedulerAPI, loggingAPI, MonitoringAPI, BillingAPI, RulesAPI}

// String returns the API's name, the permissions, and the role.
func (a Source) String() string {
	return a.name + ".googleapis.com: " + a.permissions + " (in " + a.role + ")"
}

// An Unread says why something could not be read.
type Unread struct {
	What   string // such as "the triggers"
	Why    string
	Remedy []Command // commands that may mend it; none: nobody knows any
}

// Error makes an Unread an error, with its remedy.
func (u *Unread) Error() string {
	text := u.What + " could not be read: " + u.Why
	for _, c := range u.Remedy {
		text += "\n" + c.String()
	}
	return text
}

// ReadError says why something could not be read, and how it can.
func ReadError(a Source, project, what string, err error) *Unread {
	why, remedy := a.explain(project, err)
	u := &Unread{What: what, Why: why}
	if remedy != nil {
		u.Remedy = []Command{{Args: remedy}}
	}
	return u
}

// explain returns why a call of the API failed, and the arguments of the command that mends it; nil
// if no command is known.
func (a Source) explain(project string, err error) (why string, remedy []string) {
	why = message(err)
	api, code := a.name+".googleapis.com", status.Code(err)

	// These come first, because the error may have any code: for example, if no token could be
	// fetched.
	switch {
	case code == codes.Unavailable || says(err, "no such host", "connection refused", "network is unreachable",
		"no route to host", "i/o timeout"):
		return api + " cannot be reached: " + why, nil

	case errors.Is(err, context.DeadlineExceeded) || code == codes.DeadlineExceeded:
		return api + " did not answer in time; --timeout gives it longer", nil

	case says(err, quotaProject):
		return "the credentials name no project for the API's quota",
			[]string{"gcloud", "auth", "application-default", "set-quota-project", project}

	case code == codes.Unauthenticated || says(err, "default credentials", "invalid_grant", "cannot fetch token"):
		return "there are no valid credentials: " + why, []string{"gcloud", "auth", "login"}
	}

	switch reason(err) {
	case disabled:
		return "the API " + api + " is not enabled", []string{"gcloud", "services", "enable", api, "--project=" + project}

	case "BILLING_DISABLED":
		// https://github.com/googleapis/googleapis/blob/master/google/api/error_reason.proto
		return "the billing of project " + project + " is off: " + why, LinkBilling(project).Args

	case "CONSUMER_INVALID", "USER_PROJECT_DENIED":
		return noProject(project)
	}
	if code == codes.NotFound {
		return noProject(project)
	}

	switch {
	case reason(err) == "LOCATION_POLICY_VIOLATED":
		return "Google does not let the project use the location; if the functions are to be there, write another region into tally.yaml: " + why, nil

	case reason(err) == "SECURITY_POLICY_VIOLATED" || perimeter.MatchString(why):
		return "a perimeter of VPC Service Controls keeps the call out, and a role does not help; ask your organization's administrators: " + why, nil

	case constraint.MatchString(why):
		policy := constraint.FindStringSubmatch(why)[1]
		return "the organization's policy " + policy + " forbids it, and a role does not help; ask your organization's administrators: " + why,
			[]string{"gcloud", "org-policies", "describe", policy, "--effective", "--project=" + project}

	case code == codes.PermissionDenied:
		return fmt.Sprintf("the account needs %s: %s", a.permissions, why),
			[]string{"gcloud", "projects", "add-iam-policy-binding", project, "--member=user:YOU", "--role=" + a.role, "--condition=None"}
	}
	return why, nil
}

// noProject explains that the project is not there, as far as the account can tell.
func noProject(project string) (why string, remedy []string) {
	return "there is no project " + project + ", or the account may not see it", []string{"gcloud", "projects", "list"}
}

// LinkBilling returns the command that gives the project a billing account, which the user names.
func LinkBilling(project string) Command {
	return Command{Args: []string{"gcloud", "billing", "projects", "link", project, "--billing-account=ACCOUNT"}}
}

// disabled is the reason that an API gives if it is not enabled.
const disabled = "SERVICE_DISABLED"

// reason returns the reason that an API gives for an error; "" if it gives none.
func reason(err error) string {
	a := new(apierror.APIError)
	if !errors.As(err, &a) {
		return ""
	}
	return a.Reason()
}

// NotFound reports whether an error of an API says that there is no such thing.
func NotFound(err error) bool { return status.Code(err) == codes.NotFound }

// absent reports whether an error says that there is nothing of the kind. That is so if the API is
// not enabled. But an API also says so if the credentials name no quota project, and means gcloud's
// own project then.
func absent(err error) bool {
	return NotFound(err) || reason(err) == disabled && !says(err, quotaProject)
}

// quotaProject is in the text of an error if the credentials name no project for the API's quota.
const quotaProject = "quota project"

// says reports whether an error's text has one of the parts.
func says(err error, parts ...string) bool {
	return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(err.Error(), p) })
}

// message returns an error's message on one line, without the codes that clients put before it.
func message(err error) string {
	text := cmp.Or(status.Convert(err).Message(), err.Error())

	u := new(url.Error)
	if errors.As(err, &u) { // its address says no more than the API's name
		text = u.Err.Error()
	}
	return strings.Join(strings.Fields(text), " ")
}
