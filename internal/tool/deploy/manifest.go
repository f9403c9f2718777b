package deploy

import (
	"bytes"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/goccy/go-yaml"
)

var (
	//go:embed manifest.yaml
	manifestText string
	//go:embed monitoring.yaml
	monitoringText string
)

// Ids of the functions.
const (
	OnWriteName    = "tally-on-write"
	OnScheduleName = "tally-on-schedule"
)

// memoryLimit is the part of an instance's memory that Go's runtime keeps to, by collecting garbage
// more often: 500 events of 500 KB at once took 568 MB without a limit, and an instance that needs
// more than its memory is killed with all that it holds. The other fifth is for what the runtime
// does not count: the program itself, and the files in /tmp, which are in memory.
// https://pkg.go.dev/runtime#hdr-Environment_Variables
const memoryLimit = "410MiB"

// mostOperators is how many logical operators IAM allows in a condition:
// https://cloud.google.com/iam/quotas
const mostOperators = 12

// A manifest is a deployment as the templates see it, whose methods fill them in.
type manifest struct{ *Deployment }

type manifestIndex struct {
	Name   string
	Scope  string
	Fields []IndexFieldConfig
}

type manifestField struct {
	Name   string
	Orders []string
	Group  bool // one of them is of the collection group
	Exempt bool
	TTL    bool
}

type manifestTrigger struct{ Name, Database, Pattern, Documents string }

// Runtime is the Go version of go.mod.
func (manifest) Runtime() string { return "go126" }

// OnWriteTimeout returns the seconds that a call of RollUpOnWrite may take.
func (manifest) OnWriteTimeout() int { return int(config.OnWriteTimeout / time.Second) }

// OnScheduleTimeout returns the seconds that a call of RollUpOnSchedule may take.
func (manifest) OnScheduleTimeout() int { return int(config.OnScheduleTimeout / time.Second) }

// Concurrency returns how many requests an instance of RollUpOnWrite serves at once.
func (manifest) Concurrency() int { return rollup.Concurrency }

// AckDeadline returns the seconds after which a delivery is made once more.
func (m manifest) AckDeadline() int { return int(m.Config.AckDeadline() / time.Second) }

// Schedule returns when the job calls, as cron says it.
func (manifest) Schedule() string {
	return fmt.Sprintf("*/%d * * * *", config.SchedulePeriod/time.Minute)
}

// Conditions returns the conditions that name all databases, each as many as IAM allows.
func (m manifest) Conditions() (all []string) {
	var databases []string
	for _, d := range m.Databases {
		databases = append(databases, fmt.Sprintf(`resource.name == "projects/%s/databases/%s"`, m.ID, d.ID))
	}
	for few := range slices.Chunk(databases, mostOperators) {
		all = append(all, strings.Join(few, " || "))
	}
	return all
}

// Environment returns the functions' variables, and without a value those that they must not have.
func (m manifest) Environment() map[string]any {
	all := make(map[string]any)
	for _, name := range development {
		all[name] = nil
	}
	for name, value := range m.env() {
		all[name] = value
	}
	return all
}

// AutoClose returns after what time without another line an alert is over that the log raises. That
// is two cycles of audits, and a week at most.
func (m manifest) AutoClose() string {
	const week = 7 * 24 * time.Hour
	return fmt.Sprintf("%.0fs", min(m.Config.TwoCycles(), week).Seconds())
}

// Email returns where alerts are mailed to; "": nowhere.
func (m manifest) Email() string {
	i := slices.IndexFunc(m.Alerts, isEmail)
	if i < 0 {
		return ""
	}
	return m.Alerts[i]
}

func isEmail(to string) bool { return strings.Contains(to, "@") }

// Channels returns the names of the alerts' notification channels, or references to them.
func (m manifest) Channels() (all []string) {
	for _, to := range m.Alerts {
		switch {
		case isEmail(to):
			all = append(all, refer("notification channel", "projects/"+m.ID+"/notificationChannels/"+to, "name"))
		case to != Console:
			all = append(all, to)
		}
	}
	return all
}

// groups returns the name under which a database has its collection groups.
func (m manifest) groups(d Database) string {
	return "projects/" + m.ID + "/databases/" + d.ID + "/collectionGroups/"
}

// IsEnterprise reports whether the databases are of the Enterprise edition.
func (m manifest) IsEnterprise() bool { return m.Config.Edition == route.Enterprise }

// Indexes returns the indexes of all databases that Firestore does not make by itself.
func (m manifest) Indexes() (all []manifestIndex) {
	for _, database := range m.Databases {
		for _, x := range m.Config.Routes.Indexes(m.Config.Edition) {
			all = append(all, manifestIndex{IndexName(m.groups(database)+x.Collection, x, m.Config.Edition), ScopeOf(x), IndexFields(x)})
		}
	}
	return all
}

// Fields returns the fields of all databases that have, or must not have, indexes of their own, and
// those by which documents expire.
func (m manifest) Fields() (all []manifestField) {
	for _, database := range m.Databases {
		for _, f := range Fields(m.Config.Routes, m.Config.Edition) {
			all = append(all, manifestField{m.groups(database) + f.CollectionGroup + "/fields/" + f.Path, f.orders(), f.Group, !m.IsEnterprise() && !f.IsNeeded(), f.TTL})
		}
	}
	return all
}

// refer returns the reference to a field of another resource, whose value the server makes up.
func refer(kind, name, field string) string { return fmt.Sprintf("${%s %s %s}", kind, name, field) }

// Triggers returns the triggers of all databases. Routes with the same pattern share a trigger, and
// so does one whose documents are among those of a route across parents. Routes that say "every"
// have none, because the schedule keeps them: so no event is billed for their writes.
func (m manifest) Triggers() (all []manifestTrigger) {
	for _, database := range m.Databases {
		for _, r := range m.Config.Routes.Triggering() {
			name := m.nameIn(database.Location, "triggers", TriggerName(database.ID, r))
			pattern := documentsOf(r)
			all = append(all, manifestTrigger{name, database.ID, pattern, oneLine(pattern)})
		}
	}
	return all
}

// oneLine returns a text that cannot end a comment.
func oneLine(text string) string { return strings.Trim(strconv.QuoteToGraphic(text), `"`) }

// apis are the services that the project needs, and why.
func apis() map[string]string {
	return map[string]string{
		"artifactregistry.googleapis.com":     "keeps the functions' container images",
		"cloudbilling.googleapis.com":         "tally doctor reads whether billing is on",
		"cloudbuild.googleapis.com":           "builds the functions",
		"cloudfunctions.googleapis.com":       "has the functions",
		"cloudresourcemanager.googleapis.com": "has the project's policy",
		"cloudscheduler.googleapis.com":       "calls RollUpOnSchedule",
		"cloudtasks.googleapis.com":           "makes alarms",
		"eventarc.googleapis.com":             "calls RollUpOnWrite",
		"eventarcpublishing.googleapis.com":   "takes the events",
		"firebaserules.googleapis.com":        "has the security rules",
		"firestore.googleapis.com":            "has the documents",
		"iam.googleapis.com":                  "has the service accounts",
		"logging.googleapis.com":              "counts log lines",
		"monitoring.googleapis.com":           "has the alerts",
		"pubsub.googleapis.com":               "carries the events",
		"run.googleapis.com":                  "runs the functions",
		"serviceusage.googleapis.com":         "has the list of these",
		"storage.googleapis.com":              "keeps the functions' source",
	}
}

// Manifest returns the manifest, filled in, as YAML. What only the server makes up stands there as
// ${kind name field}. Secrets are left out.
func (d *Deployment) Manifest() (string, error) {
	shown := *d
	shown.Env = maps.Clone(d.Env)
	for name := range shown.Env {
		if secret(name) {
			shown.Env[name] = notShown
		}
	}
	return manifest{&shown}.write()
}

// write fills in the templates.
func (m manifest) write() (string, error) {
	functions := template.FuncMap{
		"apis":       apis,
		"json":       toJSON,
		"email":      func(id string) string { return email(m.ID, id) },
		"account":    func(id string) string { return toJSON("serviceAccount:" + email(m.ID, id)) },
		"agent":      func(api string) string { return toJSON("serviceAccount:" + serviceAgent(api, m.Number)) },
		"ref":        func(kind, name, field string) string { return toJSON(refer(kind, name, field)) },
		"list":       func(elements ...any) []any { return elements },
		"words":      func(name string) string { return strings.ReplaceAll(name, "-", " ") },
		"logged":     logFilter,
		"increased":  increaseOf,
		"pushed":     pushMetric,
		"attempted":  attemptMetric,
		"ofTriggers": subscriptionMetric,
	}

	var b bytes.Buffer
	texts := []string{manifestText}
	if len(m.Alerts) > 0 {
		texts = append(texts, monitoringText)
	}
	for _, text := range texts {
		t, err := template.New("manifest").Funcs(functions).Parse(text)
		if err != nil {
			return "", err
		}
		if err := t.Execute(&b, m); err != nil {
			return "", err
		}
	}
	return b.String(), nil
}

// readManifest reads the resources of a manifest that was filled in, each with the comment above
// it.
func readManifest(text string) ([]*Resource, error) {
	var all []struct {
		Kind, Name string
		Want, Once map[string]any
		Orders     []string
		Grants     []Grant
	}
	comments := make(yaml.CommentMap)
	err := yaml.UnmarshalWithOptions([]byte(text), &all, yaml.Strict(), yaml.CommentToMap(comments))
	if err != nil {
		return nil, err
	}

	var resources []*Resource
	for i, r := range all {
		kind := known().Kinds[r.Kind]
		if kind == nil {
			return nil, fmt.Errorf("there is no kind %q", r.Kind)
		}
		resources = append(resources, &Resource{
			Name: r.Name, Want: r.Want, Once: r.Once, Orders: r.Orders, Grants: r.Grants, kind: kind,
			Why: joined(comments[fmt.Sprintf("$[%d]", i)]),
		})
	}
	return resources, nil
}

// joined returns comments on one line.
func joined(comments []*yaml.Comment) string {
	var lines []string
	for _, c := range comments {
		for _, line := range c.Texts {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return strings.Join(lines, " ")
}

// Ids of the service accounts are in the manifest. Each may do one thing, so that one that leaks
// opens nothing else.
const (
	triggerAccount = "tally-trigger"
	buildAccount   = "tally-build"
)

func email(project, id string) string { return id + "@" + project + ".iam.gserviceaccount.com" }

// serviceAgent returns the account of Google's own through which an API acts in the project of the
// number.
func serviceAgent(api, number string) string {
	return fmt.Sprintf("service-%s@gcp-sa-%s.iam.gserviceaccount.com", number, api)
}

// notShown stands for the value of a secret.
const notShown = "(not shown)"

// secret reports whether the value of a variable may be one: it may unless the variable is Tally's.
func secret(name string) bool {
	return !strings.HasPrefix(name, "TALLY_") && name != "GOOGLE_CLOUD_PROJECT" && name != "GOMEMLIMIT"
}

// development are variables for a machine of a developer. Deployed functions must not have them.
var development = []string{"FIRESTORE_EMULATOR_HOST", "CLOUD_TASKS_EMULATOR_HOST", "TALLY_USAGE_FILE"}

// env returns the variables of both functions. It sets even those that have their defaults. So if a
// new version of Tally changes a default, that takes effect when the version is deployed.
func (d *Deployment) env() map[string]string {
	var routes, databases []string
	for _, r := range d.Config.Routes {
		routes = append(routes, r.String())
	}
	for _, database := range d.Databases {
		databases = append(databases, database.ID)
	}

	env := make(map[string]string)
	maps.Copy(env, d.Env)
	maps.DeleteFunc(env, func(name, _ string) bool { return slices.Contains(development, name) })

	maps.Copy(env, map[string]string{
		"GOOGLE_CLOUD_PROJECT":       d.ID,
		"TALLY_ROUTES":               strings.Join(routes, "; "),
		"TALLY_CADENCE":              d.Config.Cadence.String(),
		"TALLY_BURST":                strconv.Itoa(d.Config.Burst),
		"TALLY_READS_PER_SECOND":     strconv.FormatInt(d.Config.ReadsPerSecond, 10),
		"TALLY_QUEUE":                d.Config.Queue,
		"TALLY_QUEUE_URL":            d.Config.QueueURL,
		"TALLY_QUEUE_ACCOUNT":        d.Config.QueueAccount,
		"TALLY_HOLD_LIMIT":           d.Config.HoldLimit.String(),
		"TALLY_LOG_LEVEL":            d.Config.LogLevel.String(),
		"TALLY_DATABASES":            strings.Join(databases, ","),
		"TALLY_EDITION":              d.Config.Edition.String(),
		"TALLY_SCHEDULE_PERIOD":      config.SchedulePeriod.String(),
		"TALLY_AUDIT":                d.Config.Audit.String(),
		"TALLY_AUDIT_READS_PER_TICK": strconv.FormatInt(d.Config.AuditReads, 10),
		"TALLY_KEEP_READS_PER_TICK":  strconv.FormatInt(d.Config.KeepReads, 10),
		"GOMEMLIMIT":                 memoryLimit,
	})
	return env
}
