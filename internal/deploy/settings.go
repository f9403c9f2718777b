package deploy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/firestore-tally/tally/internal/config"
	"github.com/firestore-tally/tally/rollup"
)

// Options are the user's decisions.
type Options struct {
	Project    string            // id
	Region     string            // where the functions run; empty: near the first database
	Databases  []Database        // at least one
	Config     config.Config     // what the functions take from their environment
	Env        map[string]string // all variables that are named; Config takes precedence
	Billing    string            // of RollUpOnWrite's instances: ByRequest or ByInstance
	AlertEmail string            // where alerts are mailed to; empty: nowhere

	// RequestLogs is which of Cloud Run's entries about RollUpOnWrite's requests are kept:
	// FailedRequests, also if it is empty, or AllRequests.
	RequestLogs string

	MaxInstances int // of RollUpOnWrite; at least 1

	Version string // of the functions' source; empty: none is known
}

// DefaultMaxInstances are enough for 20,000 events at once. Each has a processor, and a region's
// quota may be of 10 to 20 for all services of a project:
// https://cloud.google.com/run/docs/configuring/max-instances-limits
const DefaultMaxInstances = 20

// Ways to bill instances: https://cloud.google.com/run/docs/configuring/billing-settings
const (
	ByRequest  = "request"  // the time in which they serve, and each request
	ByInstance = "instance" // all of their time, at a lower rate, and no request
)

// A Database is a Firestore database.
type Database struct {
	ID       string // such as "(default)"
	Location string // such as "nam5" or "europe-west1"
}

// Names of resources that a project has one of.
const (
	OnWriteName    = "tally-on-write"
	OnScheduleName = "tally-on-schedule"
	jobName        = "tally"
	repositoryName = "tally"
)

// Ids of the service accounts. Each may do one thing, so that none that leaks opens another.
const (
	functionsAccount = "tally-functions"
	triggerAccount   = "tally-trigger"
	schedulerAccount = "tally-scheduler"
	buildAccount     = "tally-build"
)

// Labels of functions, triggers, alerts and channels, of which Terraform gives the first too, and
// the description of what tally deploy made and cannot label.
const (
	label       = "tally"        // its purpose
	madeByLabel = "tally-deploy" // its maker
	sourceLabel = "tally-source" // of functions: which source
	madeBy      = "Made by tally deploy"
)

// apis are the services that the project needs.
var apis = []string{
	"artifactregistry.googleapis.com", // keeps the functions' container images
	"cloudbilling.googleapis.com",     // tally doctor reads whether billing is on
	"cloudbuild.googleapis.com",       // builds them
	"cloudfunctions.googleapis.com",
	"cloudresourcemanager.googleapis.com", // the project's policy is read from it
	"cloudscheduler.googleapis.com",       // calls RollUpOnSchedule
	"eventarc.googleapis.com",             // calls RollUpOnWrite
	"eventarcpublishing.googleapis.com",
	"firebaserules.googleapis.com", // tally doctor reads the rules
	"firestore.googleapis.com",
	"iam.googleapis.com", // service accounts
	"logging.googleapis.com",
	"monitoring.googleapis.com",
	"pubsub.googleapis.com",  // Eventarc's transport
	"run.googleapis.com",     // runs the functions
	"storage.googleapis.com", // keeps their source
}

// runtime is the Go version of go.mod (https://cloud.google.com/run/docs/runtimes/go).
const runtime = "go126"

// LongestSilence is how long ago the job's last call may be: two periods, so that one late or
// skipped call is no alarm.
const LongestSilence = 2*config.SchedulePeriod + config.OnScheduleTimeout

// region returns the region of the functions.
func (o *Options) region() string {
	return cmp.Or(o.Region, multiRegions[o.Databases[0].Location], o.Databases[0].Location)
}

// Job returns the name of the job.
func (d *Description) Job() string { return d.in(d.region(), "jobs", jobName) }

// uri returns the address of RollUpOnSchedule, "" if it is not there.
func (d *Description) uri(have *State) string {
	return have.Find(Function, d.in(d.region(), "functions", OnScheduleName)).Get("serviceConfig.uri")
}

func (d *Description) add(r Resource) { d.Resources = append(d.Resources, r) }

func (d *Description) email(id string) string { return email(d.Project, id) }

func email(project, id string) string { return id + "@" + project + ".iam.gserviceaccount.com" }

// in returns the name of a resource in a region or location.
func (d *Description) in(location, collection, id string) string {
	return "projects/" + d.Project + "/locations/" + location + "/" + collection + "/" + id
}

// accounts adds the service accounts, and the roles of these and of Google's own.
func (d *Description) accounts(number string) {
	for _, a := range [][2]string{
		{functionsAccount, "Tally: runs the functions"},
		{triggerAccount, "Tally: delivers events to RollUpOnWrite"},
		{schedulerAccount, "Tally: calls RollUpOnSchedule"},
		{buildAccount, "Tally: builds the functions"},
	} {
		d.add(Resource{Kind: Account, Name: "projects/" + d.Project + "/serviceAccounts/" + d.email(a[0]), Settings: []Setting{
			{Path: "displayName", Want: a[1], Arg: "--display-name=" + a[1]},
			{Arg: "--description=" + madeBy},
		}})
	}

	agent := func(service string) string { // an account of Google's own
		return fmt.Sprintf("service-%s@gcp-sa-%s.iam.gserviceaccount.com", number, service)
	}
	give := func(on *Kind, name, role, account string) *Grant {
		d.Grants = append(d.Grants, Grant{On: on, Name: name, Role: role, Member: "serviceAccount:" + account})
		return &d.Grants[len(d.Grants)-1]
	}

	all, trigger, build := "projects/"+d.Project, d.email(triggerAccount), d.email(buildAccount)

	// Eventarc makes its service agent when it is first needed, and the first trigger fails until
	// the agent's role is known everywhere. Made here, the role has the time of a build to get known.
	// https://cloud.google.com/eventarc/docs/access-control
	give(Project, all, "roles/eventarc.serviceAgent", agent("eventarc"))

	// The functions read and write documents of the databases in use. Firestore has no narrower role
	// that may write. https://cloud.google.com/firestore/docs/security/iam#conditions
	var databases []string
	for _, database := range d.Databases {
		databases = append(databases, fmt.Sprintf(`resource.name == "%s/databases/%s"`, all, database.ID))
	}
	give(Project, all, "roles/datastore.user", d.email(functionsAccount)).Condition = strings.Join(databases, " || ")

	if d.Env["TALLY_TELEMETRY"] == "gcp" {
		// https://cloud.google.com/stackdriver/docs/otlp/overview
		d.APIs = append(d.APIs, "telemetry.googleapis.com")
		give(Project, all, "roles/telemetry.writer", d.email(functionsAccount))
	}

	// The trigger receives Firestore's events: https://cloud.google.com/eventarc/docs/roles-permissions
	give(Project, all, "roles/eventarc.eventReceiver", trigger)

	// A build needs these roles. Projects since July 2024 have no default account with them. Cloud
	// Functions keeps the source in the bucket:
	// https://cloud.google.com/functions/docs/securing/build-custom-sa,
	// https://cloud.google.com/functions/docs/building,
	// https://cloud.google.com/iam/docs/conditions-resource-attributes
	give(Project, all, "roles/logging.logWriter", build)
	give(Project, all, "roles/storage.objectViewer", build).Condition = fmt.Sprintf(`resource.name.startsWith("projects/_/buckets/gcf-v2-sources-%s-%s")`, number, d.region())
	give(Repository, d.in(d.region(), "repositories", repositoryName), "roles/artifactregistry.writer", build)

	// Pub/Sub's agent signs the tokens that its pushes carry. An agent from before April 2021 needs a
	// role for that: https://cloud.google.com/eventarc/docs/roles-permissions. This role lets it sign
	// for the trigger's account only, not for every account of the project.
	give(Account, all+"/serviceAccounts/"+trigger, "roles/iam.serviceAccountTokenCreator", agent("pubsub"))

	// Each service has one caller: https://cloud.google.com/run/docs/securing/managing-access
	give(Service, d.in(d.region(), "services", OnWriteName), "roles/run.invoker", trigger)
	give(Service, d.in(d.region(), "services", OnScheduleName), "roles/run.invoker", d.email(schedulerAccount))
}

// functions are RollUpOnWrite, for all live routes and databases, and RollUpOnSchedule. Their flags
// are those of https://cloud.google.com/sdk/gcloud/reference/functions/deploy.
func (d *Description) functions(source string) {
	env := d.env()
	add := func(name, entryPoint, kind string, settings ...Setting) {
		settings = append(settings,
			Setting{Path: "state", Want: "ACTIVE"},
			Setting{Path: "buildConfig.runtime", Want: runtime, Arg: "--runtime=" + runtime},
			Setting{Path: "buildConfig.entryPoint", Want: entryPoint, Arg: "--entry-point=" + entryPoint},
			// https://cloud.google.com/functions/docs/securing/build-custom-sa
			value("buildConfig.serviceAccount", "projects/"+d.Project+"/serviceAccounts/"+d.email(buildAccount), "--build-service-account"),
			// A repository of its own, which the build's account may write:
			// https://cloud.google.com/functions/docs/building#image_registry
			value("buildConfig.dockerRepository", d.in(d.region(), "repositories", repositoryName), "--docker-repository"),
			// https://cloud.google.com/functions/docs/securing/function-identity
			value("serviceConfig.serviceAccountEmail", d.email(functionsAccount), "--service-account"),
			// The least of the second generation execution environment:
			// https://cloud.google.com/run/docs/configuring/services/memory-limits
			size("serviceConfig.availableMemory", "512Mi", "--memory"),
			// No instance waits for work: that would cost, and a cold start only delays the first
			// event. https://cloud.google.com/functions/docs/configuring/min-instances
			value("serviceConfig.minInstanceCount", "0", "--min-instances"),
			// Eventarc and Cloud Scheduler call from inside; nobody else can even try:
			// https://cloud.google.com/run/docs/securing/ingress
			Setting{Path: "serviceConfig.ingressSettings", Want: "ALLOW_INTERNAL_ONLY", Arg: "--ingress-settings=internal-only"},
			// https://cloud.google.com/run/docs/rollouts-rollbacks-traffic-migration
			Setting{Path: "serviceConfig.allTrafficOnLatestRevision", Want: "true", Arg: "--serve-all-traffic-latest-revision"},
			Setting{Path: "labels." + label, Want: kind, Arg: "--update-labels=" + label + "=" + kind},
			Setting{Arg: "--update-labels=" + madeByLabel + "=true"},
		)
		if source != "" {
			settings = append(settings, Setting{Path: "labels." + sourceLabel, Want: source, Arg: "--update-labels=" + sourceLabel + "=" + source},
				// Another version of the same source is no reason to build it again.
				Setting{Arg: "--update-labels=" + versionLabel + "=" + versionValue(d.Version), Always: true})
		}
		for _, name := range slices.Sorted(maps.Keys(env)) {
			settings = append(settings, Setting{Path: "serviceConfig.environmentVariables." + name, Want: env[name], Arg: "--update-env-vars=" + name + "=" + env[name]})
		}
		for _, name := range development {
			settings = append(settings, Setting{Path: "serviceConfig.environmentVariables." + name, Arg: "--remove-env-vars=" + name})
		}
		d.add(Resource{Kind: Function, Name: d.in(d.region(), "functions", name), Settings: settings})
	}
	add(OnWriteName, "RollUpOnWrite", "on-write",
		size("serviceConfig.maxInstanceRequestConcurrency", strconv.Itoa(rollup.Concurrency), "--concurrency"),
		// The least that allows a concurrency above 1:
		// https://cloud.google.com/run/docs/configuring/services/cpu
		size("serviceConfig.availableCpu", "1", "--cpu"),
		Setting{Path: "serviceConfig.timeoutSeconds", Want: number(config.OnWriteTimeout), Arg: "--timeout=" + seconds(config.OnWriteTimeout)},
		// Bounds the bill of a run-away client, and the reads of a hot counter: one for each
		// instance and cadence. What the instances cannot take is delivered again.
		// https://cloud.google.com/run/docs/configuring/max-instances
		value("serviceConfig.maxInstanceCount", strconv.Itoa(d.MaxInstances), "--max-instances"))
	add(OnScheduleName, "RollUpOnSchedule", "on-schedule",
		// One call at a time, by one instance: more would only read the same. With one at a time an
		// instance may have less than a processor; this is what the platform gives to 512 MiB, and
		// serves some hundred roll-ups a second (docs/performance.md).
		// https://cloud.google.com/run/docs/configuring/services/cpu
		size("serviceConfig.maxInstanceRequestConcurrency", "1", "--concurrency"),
		size("serviceConfig.availableCpu", "0.333", "--cpu"),
		value("serviceConfig.maxInstanceCount", "1", "--max-instances"),
		// https://cloud.google.com/run/docs/configuring/request-timeout
		Setting{Path: "serviceConfig.timeoutSeconds", Want: number(config.OnScheduleTimeout), Arg: "--timeout=" + seconds(config.OnScheduleTimeout)})

	// Cloud Functions cannot say it.
	// https://cloud.google.com/run/docs/configuring/billing-settings
	billing := Setting{Path: "template.containers.0.resources.cpuIdle", Want: "true", Arg: "--cpu-throttling"}
	if d.Billing == ByInstance {
		billing.Want, billing.Arg = "false", "--no-cpu-throttling"
	}
	d.add(Resource{Kind: Service, Name: d.in(d.region(), "services", OnWriteName), Settings: []Setting{billing}})
}

// value is a setting that gcloud has as the API has it.
func value(path, want, flag string) Setting {
	return Setting{Path: path, Want: want, Arg: flag + "=" + want}
}

// size is a setting of an instance's size. Every update says all of it: memory decides what CPU is
// if nobody says it, and less than one serves one request at a time.
// https://cloud.google.com/run/docs/configuring/services/cpu
func size(path, want, flag string) Setting {
	s := value(path, want, flag)
	s.Always = true
	return s
}

// schedule calls RollUpOnSchedule. Its flags are those of
// https://cloud.google.com/sdk/gcloud/reference/scheduler/jobs/create/http.
func (d *Description) schedule(have *State) {
	uri := cmp.Or(d.uri(have), Placeholder)
	lookup := Function.Command(d.Project, "describe", d.in(d.region(), "functions", OnScheduleName), "--format=value(serviceConfig.uri)")
	period := func(path, flag string, want time.Duration) Setting { return value(path, seconds(want), flag) }

	d.add(Resource{Kind: Job, Name: d.Job(), lookup: &lookup, Settings: []Setting{
		value("schedule", fmt.Sprintf("*/%d * * * *", config.SchedulePeriod/time.Minute), "--schedule"),
		value("timeZone", "Etc/UTC", "--time-zone"), // knows no summer time, so that no hour comes twice or never
		value("httpTarget.uri", uri, "--uri"),
		value("httpTarget.httpMethod", "POST", "--http-method"),
		// https://cloud.google.com/scheduler/docs/http-target-auth
		{Path: "httpTarget.oidcToken.serviceAccountEmail", Want: d.email(schedulerAccount), Arg: "--oidc-service-account-email=" + d.email(schedulerAccount), Always: true},
		value("httpTarget.oidcToken.audience", uri, "--oidc-token-audience"),
		// The job waits as long as the function may take. It would call the function again otherwise.
		period("attemptDeadline", "--attempt-deadline", config.OnScheduleTimeout),
		// A call that failed is tried again, twice, soon; the next one is due anyway.
		// https://cloud.google.com/scheduler/docs/configuring/retry-jobs
		value("retryConfig.retryCount", "2", "--max-retry-attempts"),
		period("retryConfig.minBackoffDuration", "--min-backoff", 10*time.Second),
		period("retryConfig.maxBackoffDuration", "--max-backoff", time.Minute),
		{Arg: "--description=" + madeBy},
	}})
}

func seconds(d time.Duration) string { return number(d) + "s" }

func number(d time.Duration) string { return strconv.Itoa(int(d / time.Second)) }

// development are variables that deployed functions must not have.
var development = []string{"FIRESTORE_EMULATOR_HOST", "TALLY_USAGE_FILE"}

// env returns the variables of both functions. It sets all of them: so a default that a new version of
// Tally changes takes effect when that version is deployed.
func (o *Options) env() map[string]string {
	var routes, databases []string
	for _, r := range o.Config.Routes {
		routes = append(routes, r.String())
	}
	for _, d := range o.Databases {
		databases = append(databases, d.ID)
	}

	env := make(map[string]string)
	maps.Copy(env, o.Env)
	for _, name := range development {
		delete(env, name)
	}

	maps.Copy(env, map[string]string{
		"GOOGLE_CLOUD_PROJECT":       o.Project,
		"TALLY_ROUTES":               strings.Join(routes, "; "),
		"TALLY_CADENCE":              o.Config.Cadence.String(),
		"TALLY_BURST":                strconv.Itoa(o.Config.Burst),
		"TALLY_HOLD_LIMIT":           o.Config.HoldLimit.String(),
		"TALLY_LOG_LEVEL":            o.Config.LogLevel.String(),
		"TALLY_DATABASES":            strings.Join(databases, ","),
		"TALLY_SCHEDULE_PERIOD":      config.SchedulePeriod.String(),
		"TALLY_AUDIT_READS_PER_TICK": strconv.FormatInt(o.Config.AuditReads, 10),
		"TALLY_KEEP_READS_PER_TICK":  strconv.FormatInt(o.Config.KeepReads, 10),
	})
	return env
}
