package deploy

import (
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/rollup"
)

// Function is the kind of functions.
var Function Kind = &functionKind{common{noun: "function", from: functionsAPI, api: "v2", group: "functions", place: "--region"}}

type functionKind struct{ common }

// Command implements Kind. The same command of gcloud creates a function and updates it.
func (k *functionKind) Command(project, verb, name string, args ...string) Command {
	if verb == "create" || verb == "update" {
		verb = "deploy"
		args = append([]string{"--gen2", "--source=.", "--trigger-http", "--no-allow-unauthenticated"}, args...)
	}
	return k.common.Command(project, verb, name, args...)
}

// Ids of the functions.
const (
	OnWriteName    = "tally-on-write"
	OnScheduleName = "tally-on-schedule"
)

// memory is an instance's. memoryLimit is the part of it that Go's runtime keeps to, by collecting
// garbage more often: 500 events of 500 KB at once took 568 MB without a limit, and an instance
// that needs more than its memory is killed with all that it holds. The other fifth is for what the
// runtime does not count: the program itself, and the files in /tmp, which are in memory.
// https://pkg.go.dev/runtime#hdr-Environment_Variables
const (
	memory      = "512Mi"
	memoryLimit = "410MiB"
)

// runtime is the Go version of go.mod (https://cloud.google.com/run/docs/runtimes/go).
const runtime = "go126"

// A function is RollUpOnWrite, which serves all live routes and databases, or RollUpOnSchedule.
type function struct{ wanted }

// functions adds both functions. Their flags are those of
// https://cloud.google.com/sdk/gcloud/reference/functions/deploy.
func (d *Description) functions() {
	d.function(OnWriteName, "RollUpOnWrite", "on-write",
		size("serviceConfig.maxInstanceRequestConcurrency", strconv.Itoa(rollup.Concurrency), "--concurrency"),
		// The least that allows a concurrency above 1:
		// https://cloud.google.com/run/docs/configuring/services/cpu
		size("serviceConfig.availableCpu", "1", "--cpu"),
		timeout(config.OnWriteTimeout),
		// Bounds the bill of a run-away client, and the reads of a hot counter: one for each
		// instance and cadence. What the instances cannot take is delivered again.
		// https://cloud.google.com/run/docs/configuring/max-instances
		value("serviceConfig.maxInstanceCount", strconv.Itoa(d.MaxInstances), "--max-instances"))

	d.function(OnScheduleName, "RollUpOnSchedule", "on-schedule",
		// One instance takes one call at a time, because more calls would only read the same. Such
		// an instance may have less than a processor. The platform gives this part of one to 512
		// MiB; it serves some hundred roll-ups a second (docs/performance.md).
		// https://cloud.google.com/run/docs/configuring/services/cpu
		size("serviceConfig.maxInstanceRequestConcurrency", "1", "--concurrency"),
		size("serviceConfig.availableCpu", "0.333", "--cpu"),
		value("serviceConfig.maxInstanceCount", "1", "--max-instances"),
		timeout(config.OnScheduleTimeout))
}

// timeout is the setting of how long a function may take.
// https://cloud.google.com/run/docs/configuring/request-timeout
func timeout(d time.Duration) Setting {
	return Setting{Path: "serviceConfig.timeoutSeconds", Want: number(d), Arg: "--timeout=" + seconds(d)}
}

// function adds a function: its own settings, and those of both.
func (d *Description) function(name, entryPoint, purpose string, settings ...Setting) {
	settings = append(settings,
		Setting{Path: "state", Want: "ACTIVE"},
		value("buildConfig.runtime", runtime, "--runtime"),
		value("buildConfig.entryPoint", entryPoint, "--entry-point"),
		// https://cloud.google.com/functions/docs/securing/build-custom-sa
		value("buildConfig.serviceAccount", "projects/"+d.Project+"/serviceAccounts/"+d.email(buildAccount), "--build-service-account"),
		// A repository of its own, which the build's account may write:
		// https://cloud.google.com/functions/docs/building#image_registry
		value("buildConfig.dockerRepository", d.repositoryName(), "--docker-repository"),
		// https://cloud.google.com/functions/docs/securing/function-identity
		value("serviceConfig.serviceAccountEmail", d.email(functionsAccount), "--service-account"),
		// The least of the second generation execution environment:
		// https://cloud.google.com/run/docs/configuring/services/memory-limits
		size("serviceConfig.availableMemory", memory, "--memory"),
		// No instance waits for work: that would cost, and a cold start only delays the first
		// event. https://cloud.google.com/functions/docs/configuring/min-instances
		value("serviceConfig.minInstanceCount", "0", "--min-instances"),
		// Eventarc and Cloud Scheduler call from inside; nobody else can even try:
		// https://cloud.google.com/run/docs/securing/ingress
		Setting{Path: "serviceConfig.ingressSettings", Want: "ALLOW_INTERNAL_ONLY", Arg: "--ingress-settings=internal-only"},
		// https://cloud.google.com/run/docs/rollouts-rollbacks-traffic-migration
		Setting{Path: "serviceConfig.allTrafficOnLatestRevision", Want: "true", Arg: "--serve-all-traffic-latest-revision"},
		Setting{Path: "labels." + purposeLabel, Want: purpose, Arg: "--update-labels=" + purposeLabel + "=" + purpose},
		Setting{Arg: "--update-labels=" + madeByLabel + "=true"},
	)

	settings = append(settings, d.sourceSettings()...)
	settings = append(settings, d.variables()...)
	d.add(&function{d.want(Function, d.in(d.region(), "functions", name), settings...)})
}

// sourceSettings say which source a function is built from, if that matters.
func (d *Description) sourceSettings() []Setting {
	if d.source == "" {
		return nil
	}
	return []Setting{
		{Path: "labels." + sourceLabel, Want: d.source, Arg: "--update-labels=" + sourceLabel + "=" + d.source},
		// Another version of the same source is no reason to build it again.
		{Arg: "--update-labels=" + versionLabel + "=" + versionValue(d.Version), Always: true},
	}
}

// updateVariables is the flag that sets variables, and leaves the others as they are.
const updateVariables = "--update-env-vars="

// secret reports whether the value of a variable is one, such as the key of a telemetry service in
// OTEL_EXPORTER_OTLP_HEADERS.
func secret(name string) bool {
	return strings.HasPrefix(name, "OTEL_") && strings.HasSuffix(name, "HEADERS")
}

// development are variables for a machine of a developer. Deployed functions must not have them.
var development = []string{"FIRESTORE_EMULATOR_HOST", "TALLY_USAGE_FILE"}

// variables are the settings of a function's variables.
func (d *Description) variables() []Setting {
	const at = "serviceConfig.environmentVariables."
	var settings []Setting

	env := d.env()
	for _, name := range slices.Sorted(maps.Keys(env)) {
		set := Setting{Path: at + name, Want: env[name], Arg: updateVariables + name + "=" + env[name]}
		set.Secret = secret(name)
		settings = append(settings, set)
	}
	for _, name := range development {
		settings = append(settings, Setting{Path: at + name, Arg: "--remove-env-vars=" + name})
	}
	return settings
}

// env returns the variables of both functions. It sets even those that have their defaults. So if a
// new version of Tally changes a default, that takes effect when the version is deployed.
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
		"GOMEMLIMIT":                 memoryLimit,
	})
	return env
}

func (f *function) create() Command {
	visible := *f
	visible.settings = public(f.settings)
	return hiding(f.wanted.create(), visible.wanted.create())
}

func (f *function) update(have Object, changes []Change) Command {
	visible := *f
	visible.settings = public(f.settings)
	return hiding(f.wanted.update(have, changes), visible.wanted.update(have, changes))
}

// public returns the settings that are no secrets.
func public(settings []Setting) []Setting {
	return slices.DeleteFunc(slices.Clone(settings), func(s Setting) bool { return s.Secret })
}

// hiding returns a command that gets its variables by its input if some are secrets: every user of
// a machine may see the arguments of its processes. People see the command visible, which leaves
// the secrets out, so a script of it leaves those as they are.
func hiding(c, visible Command) Command {
	if slices.Equal(c.Args, visible.Args) {
		return c
	}

	isVariables := func(arg string) bool { return strings.HasPrefix(arg, updateVariables) }
	i := slices.IndexFunc(c.Args, isVariables)
	flag, value, _ := strings.Cut(c.Args[i], "=")
	c.Args = append(slices.Delete(slices.Clone(c.Args), i, i+1), "--flags-file=-")
	c.Input = Object{flag: value}.text()
	c.Shown = &visible
	return c
}

// exists returns nil: gcloud functions deploy works whether the function exists or not.
func (f *function) exists() *Command { return nil }

func (f *function) terraform(t *terraform) {
	id := path.Base(f.name)
	b := settingsOf(f)
	delete(b, "state")
	b["location"], b["name"] = segment(f.name, "locations"), id
	set(b, "buildConfig.source.storageSource", block{
		"bucket": "${google_storage_bucket.source.name}",
		"object": "${google_storage_bucket_object.source.name}",
	})
	t.add(functionType, id, b)
}

// uri returns the address of RollUpOnSchedule, "" if it is not there.
func (d *Description) uri(have *State) string {
	return have.Find(Function, d.in(d.region(), "functions", OnScheduleName)).Get("serviceConfig.uri")
}

func seconds(d time.Duration) string { return number(d) + "s" }

func number(d time.Duration) string { return strconv.Itoa(int(d / time.Second)) }
