package deploy

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Step is one command of a plan.
type Step struct {
	Title   string   // such as "create service account tally-build"
	Reasons []string // of an update: what differs
	Command Command
}

// A Plan is what is to be done.
type Plan struct {
	Steps []Step
	Notes []string // what the user should know or do
}

func (p *Plan) add(title string, c Command, reasons ...string) {
	p.Steps = append(p.Steps, Step{Title: title, Reasons: reasons, Command: c})
}

func (p *Plan) note(format string, args ...any) {
	p.Notes = append(p.Notes, fmt.Sprintf(format, args...))
}

// Marks of what deploy made, which undeploy goes by.
const (
	madeBy      = "Made by tally deploy"
	sourceLabel = "tally-source" // of functions: which source
	fileLabel   = "tally"        // of alert policies: which file; of channels: what for
	hashLabel   = "tally-hash"   // of alert policies: which content
)

// Roles that are given on one resource.
const (
	invokerRole      = "roles/run.invoker"
	tokenCreatorRole = "roles/iam.serviceAccountTokenCreator"
	eventarcRole     = "roles/eventarc.serviceAgent"
)

func accountEmail(id, project string) string { return id + "@" + project + ".iam.gserviceaccount.com" }

// PlanDeploy returns the commands that make the state into the settings, in an order in which each
// finds what it needs. source is the hash of the functions' source, prune whether functions and jobs
// that the settings do not have are deleted. It is an error if what something else made has the name of
// a function or of the job.
func PlanDeploy(s *Settings, have *State, m *Monitoring, source, alertEmail string, prune bool) (Plan, error) {
	if err := foreign(s, have); err != nil {
		return Plan{}, err
	}
	var p Plan
	p.apis(s, have)
	p.identities(s, have)
	for _, database := range s.Databases {
		for _, f := range s.Fields {
			p.field(s, have, database, f)
		}
	}
	for _, f := range s.Functions() {
		p.function(s, have, f, source)
	}
	p.job(s, have)
	p.monitoring(s.Project, have, m, alertEmail)
	p.gone(s, have, prune)
	return p, nil
}

// foreign refuses what tally deploy would overwrite and did not make. The job may be somebody's own if
// it calls RollUpOnSchedule.
func foreign(s *Settings, have *State) error {
	var problems []error
	for _, f := range s.Functions() {
		if slices.ContainsFunc(have.Others, func(h function) bool { return h.id() == f.Name && h.region() == f.Region }) {
			problems = append(problems, fmt.Errorf("function %s in %s was not made by tally deploy: go on with what made it, such as Terraform, or delete it first", f.Name, f.Region))
		}
	}
	if j := have.job(s.Job.Region); j != nil && j.Description != madeBy {
		if f := have.function(s.Job.Region, OnScheduleName); f == nil || !j.calls(f) {
			problems = append(problems, fmt.Errorf("job %s in %s was not made by tally deploy, and calls %s: rename or delete it first", JobName, s.Job.Region, orNone(j.HTTPTarget.URI)))
		}
	}
	return errors.Join(problems...)
}

// calls reports whether the job calls the function.
func (j *job) calls(f *function) bool {
	return f.ServiceConfig.URI != "" && strings.TrimSuffix(j.HTTPTarget.URI, "/") == strings.TrimSuffix(f.ServiceConfig.URI, "/")
}

func (p *Plan) apis(s *Settings, have *State) {
	var missing []string
	for _, api := range s.APIs {
		if !slices.Contains(have.APIs, api) {
			missing = append(missing, api)
		}
	}
	if len(missing) > 0 {
		p.add("enable APIs", gcloud(append([]string{"services", "enable"}, missing...)...).in(s.Project))
	}
}

// identities are the service accounts, Google's own included, and what they may.
func (p *Plan) identities(s *Settings, have *State) {
	agent := func(service string) string {
		return fmt.Sprintf("serviceAccount:service-%s@gcp-sa-%s.iam.gserviceaccount.com", have.ProjectNumber, service)
	}
	// Eventarc makes its service agent when it is first needed, and the first trigger fails until the
	// agent's role is known everywhere. Made here, it has the time of a build.
	// https://cloud.google.com/eventarc/docs/access-control
	if !have.Policy.has(eventarcRole, agent("eventarc")) {
		p.add("create Eventarc's service agent", gcloud("beta", "services", "identity", "create", "--service=eventarc.googleapis.com").in(s.Project))
		p.bind(s.Project, "Eventarc's service agent", agent("eventarc"), eventarcRole)
	}
	for _, a := range s.ServiceAccounts {
		i := slices.IndexFunc(have.ServiceAccounts, func(h account) bool { return h.Email == a.Email })
		switch {
		case i < 0:
			p.add("create service account "+a.ID,
				gcloud("iam", "service-accounts", "create", a.ID, "--display-name="+a.DisplayName, "--description="+madeBy).in(s.Project))
		case have.ServiceAccounts[i].Description != madeBy:
			p.note("service account %s was not made by tally deploy; it is used as it is, and undeploy leaves it", a.Email)
		}
		for _, role := range a.Roles {
			if !have.Policy.has(role, a.Member()) {
				p.bind(s.Project, a.ID, a.Member(), role)
			}
		}
	}
	// Pub/Sub signs the tokens that its pushes carry. Where its agent is from before April 2021 it needs
	// to be told so: https://cloud.google.com/eventarc/docs/roles-permissions. Here it may do that as the
	// trigger, not as every account of the project.
	if !have.TriggerPolicy.has(tokenCreatorRole, agent("pubsub")) {
		p.add("create Pub/Sub's service agent", gcloud("beta", "services", "identity", "create", "--service=pubsub.googleapis.com").in(s.Project))
		p.add("let Pub/Sub sign as "+triggerAccount, gcloud("iam", "service-accounts", "add-iam-policy-binding",
			accountEmail(triggerAccount, s.Project), "--member="+agent("pubsub"), "--role="+tokenCreatorRole).in(s.Project))
	}
}

// bind gives a role in the project. Without --condition gcloud asks which, if the policy has any.
func (p *Plan) bind(project, name, member, role string) {
	p.add("give "+name+" "+role, gcloud("projects", "add-iam-policy-binding", project, "--member="+member, "--role="+role, "--condition=None"))
}

// field touches the one field only, and leaves alone what somebody else has decided about it.
func (p *Plan) field(s *Settings, have *State, database Database, f Field) {
	exempt, indexed, expires := false, false, false
	for _, h := range have.Fields[database.ID] {
		if segment(h.Name, "collectionGroups") != f.CollectionGroup || segment(h.Name, "fields") != f.Path {
			continue
		}
		if h.IndexConfig != nil && !h.IndexConfig.UsesAncestorConfig {
			exempt, indexed = true, len(h.IndexConfig.Indexes) > 0
		}
		expires = expires || h.TTLConfig != nil
	}
	name := f.CollectionGroup + "." + f.Path
	where := []string{"--collection-group=" + f.CollectionGroup, "--database=" + database.ID}
	if indexed {
		p.note("%s has indexes of its own in %s, which stay; Tally needs none: firestore.indexes.json", name, database.ID)
	}
	if !exempt {
		p.add("no index for "+name+" in "+database.ID,
			gcloud("firestore", "indexes", "fields", "update", f.Path).with(where...).with("--disable-indexes").in(s.Project))
	}
	if f.TTL && !expires {
		// It takes minutes or more, and nothing here waits for it.
		p.add("time to live by "+name+" in "+database.ID,
			gcloud("firestore", "fields", "ttls", "update", f.Path).with(where...).with("--enable-ttl", "--async").in(s.Project))
	}
}

func (p *Plan) function(s *Settings, have *State, f Function, source string) {
	h := have.function(f.Region, f.Name)
	reasons := f.differs(h, source)
	invokers := have.Invokers[f.Region+"/"+f.Name]
	if h != nil && f.anew(h) {
		p.add("delete "+f.Name+", to deploy it anew", deleteFunction(s.Project, h), reasons...)
		h, invokers = nil, policy{}
	}
	for _, anyone := range []string{"allUsers", "allAuthenticatedUsers"} {
		if invokers.has(invokerRole, anyone) {
			p.add("no call of "+f.Name+" by "+anyone,
				gcloud("run", "services", "remove-iam-policy-binding", f.Name, "--region="+f.Region, "--member="+anyone, "--role="+invokerRole).in(s.Project))
		}
	}
	switch {
	case h == nil:
		p.add("deploy "+f.Name, f.deploy(source).in(s.Project))
	case len(reasons) > 0:
		p.add("update "+f.Name, f.deploy(source).in(s.Project), reasons...)
	}
	if member := "serviceAccount:" + f.Invoker; !invokers.has(invokerRole, member) {
		name, _, _ := strings.Cut(f.Invoker, "@")
		p.add("let "+name+" call "+f.Name,
			gcloud("run", "services", "add-iam-policy-binding", f.Name, "--region="+f.Region, "--member="+member, "--role="+invokerRole).in(s.Project))
	}
}

// deploy returns the command that creates the function, or makes it what it is to be. Variables that
// it does not name stay.
func (f *Function) deploy(source string) Command {
	var env []string
	for _, name := range slices.Sorted(maps.Keys(f.Env)) {
		env = append(env, name+"="+f.Env[name])
	}
	c := gcloud("functions", "deploy", f.Name, "--gen2", "--runtime="+f.Runtime, "--region="+f.Region, "--source=.", "--entry-point="+f.EntryPoint,
		"--service-account="+f.ServiceAccount,
		"--build-service-account="+f.buildServiceAccount(),
		"--concurrency="+strconv.Itoa(f.Concurrency), "--cpu="+strconv.Itoa(f.CPU), fmt.Sprintf("--memory=%dMi", f.MemoryMiB), "--timeout="+seconds(f.Timeout),
		"--min-instances="+strconv.Itoa(f.MinInstances), "--max-instances="+strconv.Itoa(f.MaxInstances),
		"--update-env-vars="+dict(env),
		"--update-labels="+dict([]string{Label + "=" + f.Kind, sourceLabel + "=" + source}),
		"--no-allow-unauthenticated")
	if f.Trigger == nil {
		return c.with("--trigger-http")
	}
	c = c.with("--trigger-location="+f.Trigger.Location, "--trigger-service-account="+f.Trigger.ServiceAccount,
		"--trigger-event-filters=type="+f.Trigger.EventType,
		"--trigger-event-filters=database="+f.Trigger.Database,
		"--trigger-event-filters-path-pattern="+dict([]string{"document=" + f.Trigger.Pattern}))
	if f.Trigger.Retry {
		c = c.with("--retry")
	}
	return c
}

// buildServiceAccount returns the account as Cloud Build has it.
func (f *Function) buildServiceAccount() string {
	_, host, _ := strings.Cut(f.BuildServiceAccount, "@")
	return "projects/" + strings.TrimSuffix(host, ".iam.gserviceaccount.com") + "/serviceAccounts/" + f.BuildServiceAccount
}

func seconds(d time.Duration) string { return strconv.Itoa(int(d/time.Second)) + "s" }

// anew reports whether what is deployed cannot be made into what is to be: a trigger keeps its kind of
// event and its place, and a function with one keeps it.
func (f *Function) anew(h *function) bool {
	if f.Trigger == nil || h.EventTrigger == nil {
		return (f.Trigger == nil) != (h.EventTrigger == nil)
	}
	return h.EventTrigger.EventType != f.Trigger.EventType || h.EventTrigger.TriggerRegion != f.Trigger.Location
}

// differs returns what is not as the settings have it.
func (f *Function) differs(h *function, source string) []string {
	if h == nil {
		return nil
	}
	var reasons []string
	check := func(what string, got, want any) {
		if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
			reasons = append(reasons, fmt.Sprintf("%s: %s, want %s", what, orNone(g), w))
		}
	}
	check("state", h.State, "ACTIVE")
	check("runtime", h.BuildConfig.Runtime, f.Runtime)
	check("entry point", h.BuildConfig.EntryPoint, f.EntryPoint)
	check("build service account", h.BuildConfig.ServiceAccount, f.buildServiceAccount())
	check("service account", h.ServiceConfig.ServiceAccountEmail, f.ServiceAccount)
	check("concurrency", h.ServiceConfig.MaxInstanceRequestConcurrency, f.Concurrency)
	check("CPUs", h.ServiceConfig.AvailableCPU, f.CPU)
	check("memory", strings.TrimSuffix(h.ServiceConfig.AvailableMemory, "i"), fmt.Sprintf("%dM", f.MemoryMiB))
	check("timeout", fmt.Sprintf("%ds", h.ServiceConfig.TimeoutSeconds), seconds(f.Timeout))
	check("least instances", h.ServiceConfig.MinInstanceCount, f.MinInstances)
	check("most instances", h.ServiceConfig.MaxInstanceCount, f.MaxInstances)
	for _, name := range slices.Sorted(maps.Keys(f.Env)) {
		check(name, h.ServiceConfig.EnvironmentVariables[name], f.Env[name])
	}
	check("label "+Label, h.Labels[Label], f.Kind)
	check("source", h.Labels[sourceLabel], source)
	switch t := h.EventTrigger; {
	case f.Trigger == nil && t != nil:
		reasons = append(reasons, "trigger: events, want HTTP")
	case f.Trigger != nil && t == nil:
		reasons = append(reasons, "trigger: HTTP, want events")
	case f.Trigger != nil:
		retry := "RETRY_POLICY_DO_NOT_RETRY"
		if f.Trigger.Retry {
			retry = "RETRY_POLICY_RETRY"
		}
		check("event type", t.EventType, f.Trigger.EventType)
		check("trigger location", t.TriggerRegion, f.Trigger.Location)
		check("trigger service account", t.ServiceAccountEmail, f.Trigger.ServiceAccount)
		check("retry policy", t.RetryPolicy, retry)
		database, pattern := "", ""
		for _, filter := range t.EventFilters {
			switch filter.Attribute {
			case "database":
				database = filter.Value
			case "document":
				pattern = filter.Value
			}
		}
		check("database", database, f.Trigger.Database)
		if !samePattern(pattern, f.Trigger.Pattern) {
			check("pattern", pattern, f.Trigger.Pattern)
		}
	}
	return reasons
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func (p *Plan) job(s *Settings, have *State) {
	j := s.Job
	h := have.job(j.Region)
	flags := []string{
		"--location=" + j.Region, "--schedule=" + j.Schedule, "--time-zone=" + j.TimeZone, "--http-method=" + j.Method,
		"--oidc-service-account-email=" + j.ServiceAccount, "--attempt-deadline=" + seconds(j.AttemptDeadline),
		"--max-retry-attempts=" + strconv.Itoa(j.MaxRetryAttempts), "--min-backoff=" + seconds(j.MinBackoff), "--max-backoff=" + seconds(j.MaxBackoff),
		"--description=" + madeBy,
	}
	uri, lookup := Placeholder, gcloud("functions", "describe", OnScheduleName, "--region="+j.Region, "--format=value(serviceConfig.uri)").in(s.Project)
	if f := have.function(j.Region, OnScheduleName); f != nil && f.ServiceConfig.URI != "" {
		uri = f.ServiceConfig.URI
	}
	command := func(verb string) Command {
		c := gcloud("scheduler", "jobs", verb, "http", j.Name).with(flags...).with("--uri=" + uri).in(s.Project)
		if uri == Placeholder {
			c.Output = &lookup
		}
		return c
	}
	if h == nil {
		p.add("create job "+j.Name, command("create"))
		return
	}
	var reasons []string
	check := func(what string, got, want any) {
		if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
			reasons = append(reasons, fmt.Sprintf("%s: %s, want %s", what, orNone(g), w))
		}
	}
	check("schedule", h.Schedule, j.Schedule)
	check("time zone", h.TimeZone, j.TimeZone)
	check("method", h.HTTPTarget.HTTPMethod, j.Method)
	check("service account", h.HTTPTarget.OIDCToken.ServiceAccountEmail, j.ServiceAccount)
	check("attempt deadline", h.AttemptDeadline, seconds(j.AttemptDeadline))
	check("retries", h.RetryConfig.RetryCount, j.MaxRetryAttempts)
	check("least backoff", h.RetryConfig.MinBackoffDuration, seconds(j.MinBackoff))
	check("longest backoff", h.RetryConfig.MaxBackoffDuration, seconds(j.MaxBackoff))
	if f := have.function(j.Region, OnScheduleName); f == nil || !h.calls(f) {
		reasons = append(reasons, "address: "+orNone(h.HTTPTarget.URI)+", want that of "+OnScheduleName)
	}
	if len(reasons) > 0 {
		p.add("update job "+j.Name, command("update"), reasons...)
	}
	if h.State == "PAUSED" {
		p.note("the job is paused, and stays so: nothing is audited until you run\n  %s",
			gcloud("scheduler", "jobs", "resume", j.Name, "--location="+j.Region).in(s.Project))
	}
}

// gone are the functions and jobs that were deployed and that the settings do not have: those of a
// route or a database that is not named any more, or of a region that was left. They go on as they
// are, because to stop rolling up a counter without being asked would be to let its readers see an
// old total for ever, and a route is left out by a slip more often than on purpose.
func (p *Plan) gone(s *Settings, have *State, prune bool) {
	wanted := make(map[string]bool)
	for _, f := range s.Functions() {
		wanted[f.Region+"/"+f.Name] = true
	}
	for i := range have.Functions {
		f := &have.Functions[i]
		if wanted[f.region()+"/"+f.id()] {
			continue
		}
		what := f.id() + " in " + f.region()
		if !prune {
			p.note("%s is deployed, but not asked for: %s. It goes on with what it was deployed with; --prune deletes it", what, f.purpose())
			continue
		}
		if j := have.job(f.region()); f.scheduled() && j != nil && (j.Description == madeBy || j.calls(f)) {
			p.add("delete job "+JobName+" in "+j.region(), deleteJob(s.Project, j))
		}
		p.add("delete "+what, deleteFunction(s.Project, f))
	}
}

// purpose says what a deployed function serves.
func (f *function) purpose() string {
	if f.scheduled() {
		return "the schedule"
	}
	if f.EventTrigger == nil {
		return "no events"
	}
	var parts []string
	for _, filter := range f.EventTrigger.EventFilters {
		parts = append(parts, filter.Attribute+" "+filter.Value)
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

func deleteFunction(project string, f *function) Command {
	return gcloud("functions", "delete", f.id(), "--region="+f.region()).in(project)
}

func deleteJob(project string, j *job) Command {
	return gcloud("scheduler", "jobs", "delete", path.Base(j.Name), "--location="+j.region()).in(project)
}

// PlanUndeploy returns the commands that take away what PlanDeploy's made, and nothing else: no
// document, no rule, no index, no database, no API and no service agent.
func PlanUndeploy(project string, have *State, m *Monitoring) Plan {
	var p Plan
	for i := range have.Jobs {
		if j := &have.Jobs[i]; path.Base(j.Name) == JobName && j.Description == madeBy {
			p.add("delete job "+JobName+" in "+j.region(), deleteJob(project, j))
		}
	}
	for i := range have.Functions {
		f := &have.Functions[i]
		p.add("delete "+f.id()+" in "+f.region(), deleteFunction(project, f))
	}
	kept := false
	for i := range have.Others {
		if f := &have.Others[i]; f.labelled() {
			p.note("%s in %s was not made by tally deploy: it stays, with the metrics, dashboard and channel that it may use", f.id(), f.region())
			kept = true
		}
	}
	p.removeAlerts(project, have)
	if !kept {
		p.removeMonitoring(project, have, m)
	}
	for _, a := range have.ServiceAccounts {
		id, _, _ := strings.Cut(a.Email, "@")
		ours := []string{functionsAccount, triggerAccount, schedulerAccount, buildAccount}
		if a.Description != madeBy || a.Email != accountEmail(id, project) || !slices.Contains(ours, id) {
			continue
		}
		// First the roles: a policy keeps those of an account that is gone.
		for _, b := range have.Policy.Bindings {
			if slices.Contains(b.Members, "serviceAccount:"+a.Email) {
				p.add("take "+b.Role+" from "+id, gcloud("projects", "remove-iam-policy-binding", project,
					"--member=serviceAccount:"+a.Email, "--role="+b.Role, "--condition=None"))
			}
		}
		p.add("delete service account "+id, gcloud("iam", "service-accounts", "delete", a.Email).in(project))
	}
	return p
}
