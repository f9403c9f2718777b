package deploy

import (
	"fmt"
	"slices"
	"strings"
)

// Project is the kind of the project itself.
var Project Kind = &projectKind{common{noun: "project", all: "the project",
	from: projectsAPI, api: "v3", group: "projects"}}

type projectKind struct{ common }

// Command implements Kind. The id says the project, and no flag is needed.
func (k *projectKind) Command(project, verb, _ string, args ...string) Command {
	return k.command(verb, project, "").with(args...)
}

// mostOperators is how many logical operators IAM allows in a condition:
// https://cloud.google.com/iam/quotas
const mostOperators = 12

// roles adds the roles of Tally's service accounts, and of Google's service agents, whose addresses
// have the project's number.
func (d *Description) roles(number string) {
	all, trigger, build := "projects/"+d.Project, d.email(triggerAccount), d.email(buildAccount)

	// Eventarc creates its service agent only with the first trigger, which fails until the agent's
	// role is known everywhere. Given here, the role gets known while the functions are built.
	// https://cloud.google.com/eventarc/docs/access-control
	d.give(Project, all, "roles/eventarc.serviceAgent", serviceAgent("eventarc", number), "")

	// Cloud Scheduler's agent makes the tokens that its calls carry. Google gives it this role when
	// the API is enabled, and an administrator may have taken it away:
	// https://cloud.google.com/scheduler/docs/http-target-auth
	d.give(Project, all, "roles/cloudscheduler.serviceAgent", serviceAgent("cloudscheduler", number), "")

	// The functions read and write documents of the databases in use. Firestore has no narrower role
	// that may write. https://cloud.google.com/firestore/docs/security/iam#conditions
	var databases []string
	for _, database := range d.Databases {
		databases = append(databases, fmt.Sprintf(`resource.name == "%s/databases/%s"`, all, database.ID))
	}
	for few := range slices.Chunk(databases, mostOperators) {
		d.give(Project, all, "roles/datastore.user", d.email(functionsAccount), strings.Join(few, " || "))
	}

	if d.Env["TALLY_TELEMETRY"] == "gcp" {
		// https://cloud.google.com/stackdriver/docs/otlp/overview
		d.APIs = append(d.APIs, "telemetry.googleapis.com")
		d.give(Project, all, "roles/telemetry.writer", d.email(functionsAccount), "")
	}

	// The trigger receives Firestore's events:
	// https://cloud.google.com/eventarc/docs/roles-permissions
	d.give(Project, all, "roles/eventarc.eventReceiver", trigger, "")

	// A build needs these roles. Projects since July 2024 have no default account with them. Cloud
	// Functions keeps the source in the bucket:
	// https://cloud.google.com/functions/docs/securing/build-custom-sa,
	// https://cloud.google.com/functions/docs/building,
	// https://cloud.google.com/iam/docs/conditions-resource-attributes
	bucket := fmt.Sprintf(`resource.name.startsWith("projects/_/buckets/gcf-v2-sources-%s-%s")`, number, d.region())
	d.give(Project, all, "roles/logging.logWriter", build, "")
	d.give(Project, all, "roles/storage.objectViewer", build, bucket)
	d.give(Repository, d.repositoryName(), "roles/artifactregistry.writer", build, "")

	// Pub/Sub's agent signs the tokens that its pushes carry. An agent from before April 2021 needs a
	// role for that: https://cloud.google.com/eventarc/docs/roles-permissions. This role lets it sign
	// for the trigger's account only, not for every account of the project.
	d.give(Account, all+"/serviceAccounts/"+trigger, "roles/iam.serviceAccountTokenCreator", serviceAgent("pubsub", number), "")

	// Each service has one caller: https://cloud.google.com/run/docs/securing/managing-access
	d.give(Service, d.in(d.region(), "services", OnWriteName), "roles/run.invoker", trigger, "")
	d.give(Service, d.in(d.region(), "services", OnScheduleName), "roles/run.invoker", d.email(schedulerAccount), "")
}

// give adds a role of an account.
func (d *Description) give(on Kind, name, role, account, condition string) {
	d.Grants = append(d.Grants, Grant{On: on, Name: name, Role: role, Member: "serviceAccount:" + account, Condition: condition})
}

// serviceAgent returns the account of Google's own through which an API acts in the project of the
// number.
func serviceAgent(api, number string) string {
	return fmt.Sprintf("service-%s@gcp-sa-%s.iam.gserviceaccount.com", number, api)
}
