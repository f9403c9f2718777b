package deploy

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup"
)

// Options are what the user decides.
type Options struct {
	Project string

	// Region is where the functions run. Empty, each RollUpOnWrite runs where its database is, and
	// RollUpOnSchedule where the first database is; see FunctionRegion.
	Region string

	Databases  []Database // at least one
	Routes     rollup.Routes
	Cadence    time.Duration
	Burst      int // roll-ups of a counter that may follow each other at once
	HoldLimit  time.Duration
	AuditReads int64  // document reads that one call of RollUpOnSchedule may be billed for in a database
	LogLevel   string // DEBUG, INFO, WARN or ERROR

	// Env are further variables of both functions, such as those of telemetry. The options above
	// take precedence.
	Env map[string]string
}

// A Database is a Firestore database.
type Database struct {
	ID       string // such as "(default)"
	Location string // such as "nam5" or "europe-west1"
}

// Settings are all that a deployment consists of.
type Settings struct {
	Project         string
	APIs            []string
	ServiceAccounts []ServiceAccount
	OnWrite         []Function // one for each database and route, in this order
	OnSchedule      Function
	Job             Job
	Fields          []Field // of every database
	Databases       []Database
}

// Functions returns all functions.
func (s *Settings) Functions() []Function {
	return append(slices.Clone(s.OnWrite), s.OnSchedule)
}

// A ServiceAccount is an identity that the deployment uses.
type ServiceAccount struct {
	ID          string // before the @
	Email       string
	DisplayName string
	Roles       []string // in the project
}

// Member returns the account as policies name it.
func (a ServiceAccount) Member() string { return "serviceAccount:" + a.Email }

// A Function is a Cloud Run function (2nd gen).
type Function struct {
	Name                string // also of its Cloud Run service
	Region              string
	EntryPoint          string
	Kind                string // value of the label Label
	Runtime             string
	Concurrency         int
	CPU                 int
	MemoryMiB           int
	Timeout             time.Duration
	MinInstances        int
	MaxInstances        int
	ServiceAccount      string // email: what it runs as
	BuildServiceAccount string // email: what builds it
	Invoker             string // email: who alone may call it
	Env                 map[string]string
	Trigger             *Trigger // nil: called by HTTP, or a RollUpOnWrite of a route that says "every"
}

// A Trigger is an Eventarc trigger on writes of documents.
type Trigger struct {
	EventType      string
	Location       string // the database's
	Database       string
	Pattern        string // such as "counters/{counter}/shards/{shard}"
	Retry          bool
	ServiceAccount string // email
}

// A Job is a Cloud Scheduler job that calls RollUpOnSchedule.
type Job struct {
	Name             string
	Region           string
	Schedule         string // as crontab has it
	TimeZone         string
	Method           string
	AttemptDeadline  time.Duration
	MaxRetryAttempts int
	MinBackoff       time.Duration
	MaxBackoff       time.Duration
	ServiceAccount   string // email, of the OIDC token
}

// A Field is a field of a collection group that needs no index, and whose time may be that at which
// Firestore deletes the document.
type Field struct {
	CollectionGroup, Path string
	TTL                   bool
}

// Label is the label of the functions. Its values are KindOnWrite and KindOnSchedule.
const (
	Label          = "tally"
	KindOnWrite    = "on-write"
	KindOnSchedule = "on-schedule"
)

// EventType is what RollUpOnWrite is triggered by: any change of a document, its deletion included.
const EventType = "google.cloud.firestore.document.v1.written"

// Names of what there is one of in a project.
const (
	OnScheduleName = "tally-on-schedule"
	JobName        = "tally"
)

// Ids of the service accounts. Each may do one thing, so that none that leaks opens another.
const (
	functionsAccount = "tally-functions"
	triggerAccount   = "tally-trigger"
	schedulerAccount = "tally-scheduler"
	buildAccount     = "tally-build"
)

// apis are the services that the project needs.
var apis = []string{
	"artifactregistry.googleapis.com", // keeps the functions' container images
	"cloudbuild.googleapis.com",       // builds them
	"cloudfunctions.googleapis.com",
	"cloudresourcemanager.googleapis.com", // tally doctor reads the project's policy
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

// Fields returns the fields that are exempt from indexing: times, which only grow. No query asks for
// them, and their index would limit a collection group to about 500 writes a second
// (https://firebase.google.com/docs/firestore/solutions/shard-timestamp). They are the expiry of tokens
// of IncrementOnce, which Firestore then deletes, and what Tally adds to the roll-ups of each route.
func Fields(routes rollup.Routes) []Field {
	fields := []Field{{CollectionGroup: document.TokensCollection, Path: "expire_at", TTL: true}}
	for _, t := range routes.Templates() {
		template := t.Segments()
		f := Field{CollectionGroup: template[len(template)-2].Name, Path: document.TallyField}
		if !slices.Contains(fields, f) {
			fields = append(fields, f)
		}
	}
	return fields
}

const (
	// runtime is the Go version of go.mod (https://cloud.google.com/run/docs/runtimes/go).
	runtime = "go126"

	// onWriteConcurrency is how many events an instance serves at once, the most that Cloud Run allows.
	// Nearly all are absorbed and take microseconds; those that are held, up to 4 of a counter, take a
	// slot and no processor time. With the platform's 80 slots, a thousand counters make more instances,
	// each of which reads every counter once more per cadence (docs/scale.md).
	onWriteConcurrency = 1000

	// cpu is the least that allows a concurrency above 1
	// (https://cloud.google.com/run/docs/configuring/services/cpu).
	cpu = 1

	// memoryMiB is the least of Cloud Run's second generation execution environment
	// (https://cloud.google.com/run/docs/configuring/services/memory-limits).
	memoryMiB = 512

	// onWriteTimeout is above any TALLY_HOLD_LIMIT below 60 s; the limit, not the timeout, ends an
	// event. It leaves time for a cold start.
	onWriteTimeout = 60 * time.Second

	// onWriteMaxInstances bounds the bill of a run-away client, and the reads of a hot counter: one
	// for each instance and cadence. 100 instances were simulated (docs/scale.md). What they cannot
	// take is delivered again.
	onWriteMaxInstances = 100

	// schedule is how often RollUpOnSchedule is called, and schedulePeriod the same.
	schedule       = "*/10 * * * *"
	schedulePeriod = 10 * time.Minute

	// onScheduleTimeout lets a call keep the routes that say "every" until the next is due, and end
	// what it has begun then, for which it reserves 45 s. Cloud Scheduler delays the next call until
	// this one has ended (https://cloud.google.com/scheduler/docs/reference/rest/v1/projects.locations.jobs).
	onScheduleTimeout = schedulePeriod + time.Minute

	// onScheduleConcurrency and onScheduleMaxInstances have a call that overlaps another meet it in
	// the same instance, where it ends at once. More would only read the same.
	onScheduleConcurrency  = 10
	onScheduleMaxInstances = 1

	// minInstances 0 costs nothing while nothing happens. A cold start delays the first event, and
	// loses none.
	minInstances = 0

	// The job tries a call that failed again, twice, soon; the next one is due anyway.
	maxRetryAttempts = 2
	minBackoff       = 10 * time.Second
	maxBackoff       = time.Minute
)

// multiRegions are the regions for functions on databases in multi-regions: those that Eventarc maps
// them to (https://firebase.google.com/docs/firestore/eventarc, "Eventarc and Firestore locations").
// It says nothing of nam7; the region is the one that the Firebase CLI takes.
var multiRegions = map[string]string{
	"nam5": "us-central1",
	"nam7": "us-central1",
	"eur3": "europe-west4",
}

// FunctionRegion returns the region for functions on databases in the location: the nearest.
func FunctionRegion(location string) string { return cmp.Or(multiRegions[location], location) }

// New returns the settings for the options. The error joins every problem.
func New(o Options) (Settings, error) {
	var problems []error
	if o.Project == "" {
		problems = append(problems, errors.New("no project: name it by --project"))
	}
	if len(o.Databases) == 0 {
		problems = append(problems, errors.New("no database"))
	}
	if o.HoldLimit >= onWriteTimeout {
		problems = append(problems, fmt.Errorf("TALLY_HOLD_LIMIT=%v: want less than the timeout of the function, %v", o.HoldLimit, onWriteTimeout))
	}
	if err := errors.Join(problems...); err != nil {
		return Settings{}, err
	}

	email := func(id string) string { return id + "@" + o.Project + ".iam.gserviceaccount.com" }
	s := Settings{
		Project: o.Project,
		APIs:    slices.Clone(apis),
		ServiceAccounts: []ServiceAccount{
			// Reads and writes documents; Firestore has no narrower role that may write.
			{ID: functionsAccount, DisplayName: "Tally: runs the functions", Roles: []string{"roles/datastore.user"}},
			// Receives Firestore's events. It may invoke the services of RollUpOnWrite, nothing else:
			// https://cloud.google.com/eventarc/docs/roles-permissions
			{ID: triggerAccount, DisplayName: "Tally: delivers events to RollUpOnWrite", Roles: []string{"roles/eventarc.eventReceiver"}},
			// May invoke the service of RollUpOnSchedule, nothing else.
			{ID: schedulerAccount, DisplayName: "Tally: calls RollUpOnSchedule"},
			// What a build needs. Projects since July 2024 have no default account that may:
			// https://cloud.google.com/functions/docs/securing/build-custom-sa
			{ID: buildAccount, DisplayName: "Tally: builds the functions",
				Roles: []string{"roles/artifactregistry.writer", "roles/logging.logWriter", "roles/storage.objectViewer"}},
		},
		Fields:    Fields(o.Routes),
		Databases: slices.Clone(o.Databases),
	}
	if o.Env["TALLY_TELEMETRY"] == "gcp" {
		// https://cloud.google.com/stackdriver/docs/otlp/overview
		s.APIs = append(s.APIs, "telemetry.googleapis.com")
		s.ServiceAccounts[0].Roles = append(s.ServiceAccounts[0].Roles, "roles/telemetry.writer")
	}
	for i := range s.ServiceAccounts {
		s.ServiceAccounts[i].Email = email(s.ServiceAccounts[i].ID)
	}
	env := o.env()
	base := Function{
		Runtime: runtime, CPU: cpu, MemoryMiB: memoryMiB, MinInstances: minInstances, Env: env,
		ServiceAccount: email(functionsAccount), BuildServiceAccount: email(buildAccount),
	}
	for _, database := range o.Databases {
		for _, route := range o.Routes {
			f := base
			f.Name = OnWriteName(database.ID, route)
			f.Region = cmp.Or(o.Region, FunctionRegion(database.Location))
			f.EntryPoint, f.Kind = "RollUpOnWrite", KindOnWrite
			f.Concurrency, f.MaxInstances, f.Timeout = onWriteConcurrency, onWriteMaxInstances, onWriteTimeout
			f.Invoker = email(triggerAccount)
			f.Env = maps.Clone(env)
			if route.Template.Every == 0 { // the schedule keeps the others, so that their writes are billed no event
				f.Trigger = &Trigger{
					EventType: EventType, Location: database.Location, Database: database.ID, Pattern: Pattern(route),
					// Without it a failed event is dropped, and an event that is held relies on being
					// delivered again.
					Retry:          true,
					ServiceAccount: email(triggerAccount),
				}
			}
			s.OnWrite = append(s.OnWrite, f)
		}
	}
	f := base
	f.Name, f.Region = OnScheduleName, cmp.Or(o.Region, FunctionRegion(o.Databases[0].Location))
	f.EntryPoint, f.Kind = "RollUpOnSchedule", KindOnSchedule
	f.Concurrency, f.MaxInstances, f.Timeout = onScheduleConcurrency, onScheduleMaxInstances, onScheduleTimeout
	f.Invoker = email(schedulerAccount)
	s.OnSchedule = f
	s.Job = Job{
		Name: JobName, Region: f.Region, Schedule: schedule,
		TimeZone: "Etc/UTC", // knows no summer time, so that no hour comes twice or never
		Method:   "POST",
		// The job waits as long as the function may take, or it would call it again.
		AttemptDeadline:  onScheduleTimeout,
		MaxRetryAttempts: maxRetryAttempts, MinBackoff: minBackoff, MaxBackoff: maxBackoff,
		ServiceAccount: email(schedulerAccount),
	}
	return s, nil
}

// Variables returns the names of the variables that the options stand for.
func Variables() []string {
	return []string{"TALLY_ROUTES", "TALLY_CADENCE", "TALLY_BURST", "TALLY_HOLD_LIMIT", "TALLY_LOG_LEVEL", "TALLY_DATABASES", "TALLY_AUDIT_READS_PER_TICK"}
}

// env returns the variables of both functions. All are said, so that a default which changes with a
// version of Tally changes when that is deployed.
func (o *Options) env() map[string]string {
	var routes, databases []string
	for _, r := range o.Routes {
		routes = append(routes, r.String())
	}
	for _, d := range o.Databases {
		databases = append(databases, d.ID)
	}
	env := make(map[string]string)
	maps.Copy(env, o.Env)
	maps.Copy(env, map[string]string{
		"GOOGLE_CLOUD_PROJECT":       o.Project,
		"TALLY_ROUTES":               strings.Join(routes, "; "),
		"TALLY_CADENCE":              o.Cadence.String(),
		"TALLY_BURST":                strconv.Itoa(o.Burst),
		"TALLY_HOLD_LIMIT":           o.HoldLimit.String(),
		"TALLY_LOG_LEVEL":            cmp.Or(o.LogLevel, "INFO"),
		"TALLY_DATABASES":            strings.Join(databases, ","),
		"TALLY_SCHEDULE_PERIOD":      schedulePeriod.String(),
		"TALLY_AUDIT_READS_PER_TICK": strconv.FormatInt(o.AuditReads, 10),
	})
	return env
}

// Pattern returns the pattern of the route's source, as a trigger and a route spell it.
func Pattern(r *rollup.Route) string {
	var segments []string
	for _, s := range r.Pattern() {
		segments = append(segments, s.String())
	}
	return strings.Join(segments, "/")
}

// maxName is how long the name of a Cloud Run service can be
// (https://cloud.google.com/run/docs/deploying), and a function has the name of its service.
const maxName = 49

// OnWriteName returns the name of the RollUpOnWrite function of a database and a route, such as
// "tally-on-write-counters-shards-1a2b3c". It depends on nothing but the database's id and on which
// documents are the route's shards: not on other routes or their order, on fields, on where the
// roll-ups are, nor on how captures are named.
func OnWriteName(database string, r *rollup.Route) string {
	identity, words := database, ""
	if database != "(default)" {
		words = database
	}
	for _, s := range r.Pattern() {
		name := s.Name
		if s.Capture {
			name = "{}"
		} else {
			words += "-" + name
		}
		identity += "/" + name
	}
	hash := sha256.Sum256([]byte(identity))
	const prefix, suffix = "tally-" + KindOnWrite, 6 // hexadecimal digits: 16 million, for some dozens of routes
	readable := strings.Join(strings.FieldsFunc(strings.ToLower(words), func(r rune) bool { return !('a' <= r && r <= 'z' || '0' <= r && r <= '9') }), "-")
	readable = strings.TrimSuffix(readable[:min(len(readable), maxName-len(prefix)-1-1-suffix)], "-")
	if readable != "" {
		readable = "-" + readable
	}
	return prefix + readable + "-" + hex.EncodeToString(hash[:])[:suffix]
}
