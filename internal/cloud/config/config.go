// Package config reads the environment variables that configure the functions, and computes from
// them how much time and how many reads the functions have. The command line uses it, too, to tell
// what a deployment does.
package config

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/caarlos0/env/v11"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

// Config holds the variables that configure the functions. "means" describes those that are no key
// of tally.yaml, for editors and docs/config.md.
type Config struct {
	// Routes say which shards make up which counter; see route.Parse.
	Routes route.Routes `env:"TALLY_ROUTES" envDefault:"counters/{counter}/shards/{shard} -> rollups/{counter} : count"`

	// Cadence is the least time between two roll-ups of a counter in the long run. Burst is how
	// many may follow each other at once after a quiet time.
	Cadence time.Duration `env:"TALLY_CADENCE" envDefault:"1s"`
	Burst   int           `env:"TALLY_BURST" envDefault:"5" means:"How many roll-ups of a counter may follow each other at once."`

	// ReadsPerSecond is what the sums of one counter may be billed on average, in document reads.
	// Where there is no queue, it has no effect. 0: no bound. At 50 a total of a million documents,
	// whose sum is 1,001 reads, is rolled up every 20 s, for 1.30 dollars a day at the list price of
	// us-central1. On Enterprise it is as many reads as cost the same money.
	ReadsPerSecond int64 `env:"TALLY_READS_PER_SECOND" envDefault:"50"`

	// HoldLimit is how long an event may wait for its roll-up before it fails and is delivered
	// again.
	HoldLimit time.Duration `env:"TALLY_HOLD_LIMIT" envDefault:"8s" means:"How long an event may wait for its roll-up before it fails: less than the function's timeout and the acknowledgement deadline."`

	// Queue is the resource name of the queue of Cloud Tasks that makes alarms. QueueURL is where it
	// calls RollUpOnWrite, and QueueAccount the service account whose token its calls carry.
	// QueueHost is the host:port of a stand-in. Without a queue no cadence is longer than events can
	// be held.
	Queue        string `env:"TALLY_QUEUE" means:"The queue of alarms, as projects/PROJECT/locations/REGION/queues/NAME."`
	QueueURL     string `env:"TALLY_QUEUE_URL" means:"Where the queue calls RollUpOnWrite."`
	QueueAccount string `env:"TALLY_QUEUE_ACCOUNT" means:"The service account of the queue's calls."`
	QueueHost    string `env:"CLOUD_TASKS_EMULATOR_HOST" means:"The host:port of a stand-in for Cloud Tasks."`

	LogLevel slog.Level `env:"TALLY_LOG_LEVEL" envDefault:"INFO" means:"The log's level: DEBUG (each roll-up), INFO, WARN or ERROR."`

	// Project and Databases are what the functions serve. Events of others are dropped.
	Project   string   `env:"GOOGLE_CLOUD_PROJECT" means:"The project to serve; required."`
	Databases []string `env:"TALLY_DATABASES" envDefault:"(default)"`

	// Edition is the edition of all databases.
	Edition route.Edition `env:"TALLY_EDITION" envDefault:"standard"`

	// SchedulePeriod is how often RollUpOnSchedule is called. A call keeps the routes that say
	// "every" until the next.
	SchedulePeriod time.Duration `env:"TALLY_SCHEDULE_PERIOD" envDefault:"10m" means:"How often RollUpOnSchedule is called."`

	// Audit is how long a cycle of audits takes at least; see the method Takes.
	Audit Cycle `env:"TALLY_AUDIT" envDefault:"auto"`

	// Revision is the revision of the function, set by Cloud Run.
	Revision string `env:"K_REVISION" means:"Set by Cloud Run. A new revision has audits at once."`

	// AuditReads is how many document reads one call of RollUpOnSchedule may be billed for in each
	// database. 50,000 audit about 12,500 counters. At a call every ten minutes they are at most
	// 7.2 million reads a day, or 2.16 dollars at the list price of us-central1.
	AuditReads int64 `env:"TALLY_AUDIT_READS_PER_TICK" envDefault:"50000" means:"About how many reads a call's audit of a database may bill."`

	// KeepReads is how many document reads one call of RollUpOnSchedule may be billed for in each
	// database for the routes that say "every". A third of a processor, which tally deploy gives
	// the function, keeps about 150 counters with one total that say "every 1s". The default is
	// half as much again as these counters need in ten minutes. It costs at most 0.09 dollars a
	// call, at the list price of us-central1.
	KeepReads int64 `env:"TALLY_KEEP_READS_PER_TICK" envDefault:"300000" means:"The same for routes that say every."`

	// EmulatorHost is the host:port of an emulator to use instead of Firestore.
	EmulatorHost string `env:"FIRESTORE_EMULATOR_HOST" means:"The host:port of a Firestore emulator."`

	// UsageFile is the name of a file for the count of billed operations, which tally dev and tally
	// demo show.
	UsageFile string `env:"TALLY_USAGE_FILE" means:"Where tally dev and tally demo count billed operations."`

	// FunctionTimeout is the function's timeout in seconds, set by Cloud Run.
	FunctionTimeout int `env:"CLOUD_RUN_TIMEOUT_SECONDS" means:"Set by Cloud Run: the function's timeout, else 660. RollUpOnSchedule ends 45 s or a quarter earlier."`
}

// A Cycle is how long a cycle of audits takes at least. The zero value is "auto".
type Cycle time.Duration

// Bounds of a Cycle. A call of the schedule is the shortest.
const (
	leastCycle   = SchedulePeriod
	longestCycle = 7 * 24 * time.Hour
)

// UnmarshalText takes "auto", or a duration.
func (c *Cycle) UnmarshalText(text []byte) error {
	if string(text) == "auto" {
		*c = 0
		return nil
	}
	d, err := time.ParseDuration(string(text))
	if err != nil || d < leastCycle || d > longestCycle {
		return errors.New("want auto, or 10m to 168h")
	}
	*c = Cycle(d)
	return nil
}

func (c Cycle) String() string {
	if c == 0 {
		return "auto"
	}
	return time.Duration(c).String()
}

// A problem says what is wrong with a variable. Its text begins with the variable's name.
type problem struct {
	variable string
	err      error // what follows the name
}

func (p *problem) Error() string    { return p.variable + p.err.Error() }
func (p *problem) Unwrap() error    { return p.err }
func (p *problem) Variable() string { return p.variable }

// Load reads the configuration from environment, which maps variables to values. Its error joins
// all problems. The text of each begins with the name of the variable. Its method Variable returns
// that name, too.
func Load(environment map[string]string) (Config, error) {
	if environment == nil {
		environment = make(map[string]string) // the package env takes nil for the environment of this process
	}
	l := loading{environment: environment, unread: make(map[string]bool)}

	err := l.parse()
	if err != nil {
		return Config{}, err
	}

	l.checkProject()
	l.checkRanges()
	l.checkHold()
	l.checkQueue()
	l.checkDatabases()

	err = errors.Join(l.problems...)
	if err != nil {
		return Config{}, err
	}
	return l.config, nil
}

// loading is a Config that is being read and checked.
type loading struct {
	environment map[string]string
	config      Config
	unread      map[string]bool // variables whose values are not understood
	problems    []error
}

// report adds a problem with the variable. The problem's text is the variable's name, directly
// followed by what the format makes.
func (l *loading) report(variable, format string, args ...any) {
	l.problems = append(l.problems, &problem{variable, fmt.Errorf(format, args...)})
}

// parse reads the variables. It adds a problem for each value that it does not understand. It
// returns an error only if the type Config itself is wrong.
func (l *loading) parse() error {
	err := env.ParseWithOptions(&l.config, env.Options{Environment: l.environment})
	if err == nil {
		return nil
	}

	var all env.AggregateError
	if !errors.As(err, &all) {
		return err
	}

	for _, err := range all.Errors {
		parse, ok := errors.AsType[env.ParseError](err)
		if !ok {
			l.problems = append(l.problems, err)
			continue
		}

		field, _ := reflect.TypeFor[Config]().FieldByName(parse.Name)
		name := field.Tag.Get("env")
		l.unread[name] = true

		if field.Type == reflect.TypeFor[route.Routes]() { // its error shows the value and the place
			l.report(name, ": %w", parse.Err)
		} else {
			l.report(name, "=%q: %w", l.environment[name], parse.Err)
		}
	}
	return nil
}

func (l *loading) checkProject() {
	if l.config.Project == "" {
		l.report("GOOGLE_CLOUD_PROJECT", " is not set; want the id of the project whose events the functions serve, as tally deploy sets it")
	}
}

// checkRanges checks each variable by itself.
func (l *loading) checkRanges() {
	c := &l.config
	l.check(c.Cadence > 0, "TALLY_CADENCE", c.Cadence, "more than 0")
	l.check(c.Cadence <= route.LongestCadence, "TALLY_CADENCE", c.Cadence, fmt.Sprintf("at most %v", route.LongestCadence))
	l.check(c.Burst >= 1, "TALLY_BURST", c.Burst, "at least 1")
	l.check(c.ReadsPerSecond >= 0, "TALLY_READS_PER_SECOND", c.ReadsPerSecond, "at least 0")
	l.check(c.SchedulePeriod > 0, "TALLY_SCHEDULE_PERIOD", c.SchedulePeriod, "more than 0")
	l.check(c.AuditReads > 0, "TALLY_AUDIT_READS_PER_TICK", c.AuditReads, "more than 0")
	l.check(c.KeepReads > 0, "TALLY_KEEP_READS_PER_TICK", c.KeepReads, "more than 0")
}

// check reports a variable if its value is not as wanted. A value that was not understood has been
// reported before.
func (l *loading) check(holds bool, variable string, value any, want string) {
	if !holds && !l.unread[variable] {
		l.report(variable, "=%v: want %s", value, want)
	}
}

// checkHold checks that an event can be held at all, and that the function has the time to hold it.
func (l *loading) checkHold() {
	c := &l.config
	l.check(rollup.LongestCadence(c.HoldLimit) > 0, "TALLY_HOLD_LIMIT", c.HoldLimit, "more than 5s, which Firestore and redelivery take")

	if !l.unread["TALLY_HOLD_LIMIT"] && c.FunctionTimeout != 0 {
		l.problems = append(l.problems, c.CheckHoldLimit(time.Duration(c.FunctionTimeout)*time.Second))
	}
}

// checkQueue checks that a queue has all that it needs.
func (l *loading) checkQueue() {
	c := &l.config
	if c.Queue == "" {
		return
	}

	if c.QueueURL == "" {
		l.report("TALLY_QUEUE_URL", " is not set; want the URL of RollUpOnWrite, because TALLY_QUEUE is set")
	}
	if c.QueueAccount == "" && c.QueueHost == "" {
		l.report("TALLY_QUEUE_ACCOUNT", " is not set; want the service account whose token the calls of TALLY_QUEUE carry")
	}
}

// checkDatabases checks the ids of the databases, and takes the spaces around them away.
func (l *loading) checkDatabases() {
	ids, given := l.config.Databases, l.environment["TALLY_DATABASES"]
	for i, id := range ids {
		id = strings.TrimSpace(id)
		ids[i] = id

		valid := id == firestore.DefaultDatabaseID || databaseID.MatchString(id) && !uuid.MatchString(id)
		if !valid {
			l.report("TALLY_DATABASES", "=%q: %q is not a database id: want (default), or 4 to 63 lowercase letters, digits and hyphens, a letter first, no hyphen last, and no UUID",
				given, id)
			continue
		}

		if slices.Contains(ids[:i], id) {
			l.report("TALLY_DATABASES", "=%q: names %s twice", given, id)
		}
	}
}

// A database's id, other than (default), matches databaseID and does not match uuid
// (https://cloud.google.com/firestore/docs/manage-databases#database_id).
var (
	databaseID = regexp.MustCompile(`^[a-z][a-z0-9-]{2,61}[a-z0-9]$`)
	uuid       = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
)
