package deploy

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
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
	tasksAPI        = Source{"cloudtasks", "cloudtasks.locations.list, cloudtasks.queues.get, cloudtasks.queues.getIamPolicy", "roles/cloudtasks.viewer"}
	functionsAPI    = Source{"cloudfunctions", "cloudfunctions.functions.list, cloudfunctions.locations.list", "roles/cloudfunctions.viewer"}
	runAPI          = Source{"run", "run.services.get, run.services.getIamPolicy", "roles/run.viewer"}
	eventarcAPI     = Source{"eventarc", "eventarc.triggers.list, eventarc.locations.list", "roles/eventarc.viewer"}
	pubsubAPI       = Source{"pubsub", "pubsub.subscriptions.list", "roles/pubsub.viewer"}
	schedulerAPI    = Source{"cloudscheduler", "cloudscheduler.locations.list, cloudscheduler.jobs.list", "roles/cloudscheduler.viewer"}
	LoggingAPI      = Source{"logging", "logging.logMetrics.list, logging.exclusions.list, logging.logEntries.list", "roles/logging.viewer"}
	MonitoringAPI   = Source{"monitoring", "monitoring.alertPolicies.list, monitoring.notificationChannels.list, monitoring.dashboards.list, monitoring.timeSeries.list", "roles/monitoring.viewer"}
	BillingAPI      = Source{"cloudbilling", "resourcemanager.projects.get", "roles/iam.securityReviewer"}
	RulesAPI        = Source{"firebaserules", "firebaserules.releases.get, firebaserules.rulesets.get, firebaserules.rulesets.test", "roles/firebaserules.viewer"}
)

// Sources are all APIs that Tally reads.
var Sources = []Source{projectsAPI, servicesAPI, accountsAPI, repositoriesAPI, tasksAPI, firestoreAPI, functionsAPI, runAPI,
	eventarcAPI, pubsubAPI, schedulerAPI, LoggingAPI, MonitoringAPI, BillingAPI, RulesAPI}

// String returns the API's name, the permissions, and the role.
func (a Source) String() string {
	return a.name + ".googleapis.com: " + a.permissions + " (in " + a.role + ")"
}

// An Unread says why something could not be read.
type Unread struct {
	What   string // such as "the triggers"
	Why    string
	Remedy []Command // commands that may fix it; none: no fix is known
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
func (s *State) ReadError(a Source, what string, err error) *Unread {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.readError(a, what, err)
}

func (s *State) readError(a Source, what string, err error) *Unread {
	why, remedy := s.explain(a, err)
	u := &Unread{What: what, Why: why}
	if remedy != "" {
		u.Remedy = []Command{command(remedy)}
	}
	return u
}

// explain returns why a call of the API failed, and the command that fixes it; "" if none is known.
func (s *State) explain(a Source, err error) (why, remedy string) {
	api, why := a.name+".googleapis.com", message(err)
	switch {
	case errors.Is(err, errSignedOut):
		return why, ""
	case unreachableAPI(err):
		return api + " cannot be reached: " + why, ""
	case late(err):
		return api + " did not answer in time; --timeout gives it longer", ""
	case signedOut(err):
		return "there are no valid credentials: " + why, "gcloud auth application-default login"
	case reason(err) == "BILLING_DISABLED":
		return "the billing of project " + s.Project + " is off: " + why, LinkBilling(s.Project).String()
	case strings.Contains(err.Error(), "requires a quota project"):
		return "the credentials name no project for the API's quota", "gcloud auth application-default set-quota-project " + s.Project
	case reason(err) == disabled && !s.absent(err):
		consumer := metadata(err, "consumer")
		return fmt.Sprintf("calls are counted for %s, where the API %s is not enabled", consumer, api), "gcloud auth application-default set-quota-project " + s.Project
	case reason(err) == disabled:
		return "the API " + api + " is not enabled", "gcloud services enable " + api + " --project=" + s.Project
	case reason(err) == "CONSUMER_INVALID", reason(err) == "USER_PROJECT_DENIED", code(err) == codes.NotFound:
		return "there is no project " + s.Project + ", or the account may not see it", "gcloud projects list"
	}

	k := knownError(err)
	if k != nil && k.remedy != "" && (code(err) != codes.PermissionDenied || k.codes == nil) {
		return strings.TrimSuffix(why, ".") + ". " + k.advice(s.Project, err), ""
	}
	if code(err) == codes.PermissionDenied {
		return fmt.Sprintf("the account needs %s: %s", a.permissions, why),
			fmt.Sprintf("gcloud projects add-iam-policy-binding %s --member=user:YOU --role=%s --condition=None", s.Project, a.role)
	}
	return why, ""
}

// LinkBilling returns the command that gives the project a billing account, which the user names.
func LinkBilling(project string) Command {
	return command("gcloud billing projects link " + project + " --billing-account=ACCOUNT")
}
