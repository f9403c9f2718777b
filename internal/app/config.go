package app

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
	"github.com/firestore-tally/tally/internal/telemetry"
	"github.com/firestore-tally/tally/rollup"
)

// Config is what the functions take from their environment. docs/config.md lists it; a test keeps
// the two equal.
type Config struct {
	// Routes say which shards make up which counter; see rollup.ParseRoutes.
	Routes rollup.Routes `env:"TALLY_ROUTES" envDefault:"counters/{counter}/shards/{shard} -> rollups/{counter} : count"`

	// Cadence is how often a counter is rolled up for ever, and Burst how many roll-ups may follow
	// each other at once after a quiet time.
	Cadence time.Duration `env:"TALLY_CADENCE" envDefault:"1s"`
	Burst   int           `env:"TALLY_BURST" envDefault:"5"`

	// HoldLimit is how long an event may wait for its roll-up before it fails and is delivered
	// again.
	HoldLimit time.Duration `env:"TALLY_HOLD_LIMIT" envDefault:"8s"`

	LogLevel slog.Level `env:"TALLY_LOG_LEVEL" envDefault:"INFO"`

	// Project and Databases are what the functions serve. Events of others are dropped.
	Project   string   `env:"GOOGLE_CLOUD_PROJECT"`
	Databases []string `env:"TALLY_DATABASES" envDefault:"(default)"`

	// SchedulePeriod is how often RollUpOnSchedule is called. A call keeps the routes that say
	// "every" until the next.
	SchedulePeriod time.Duration `env:"TALLY_SCHEDULE_PERIOD" envDefault:"10m"`

	// AuditReads is how many document reads one call of RollUpOnSchedule may be billed for in each
	// database. At a call every ten minutes, 50,000 are at most 7.2 million reads a day, 2.16
	// dollars at the list price of us-central1; 16,000 counters take about as many.
	AuditReads int64 `env:"TALLY_AUDIT_READS_PER_TICK" envDefault:"50000"`

	// KeepReads is how many document reads one call of RollUpOnSchedule may be billed for in each
	// database for the routes that say "every". It is what 150 counters with one total take that
	// say "every 1s", about as many as the deployed third of a processor keeps, for ten minutes,
	// and half as many again: at most 0.09 dollars a call, at the list price of us-central1.
	KeepReads int64 `env:"TALLY_KEEP_READS_PER_TICK" envDefault:"300000"`

	// Telemetry is where metrics and traces go, and TelemetryInterval the least time between two
	// exports of a process, in milliseconds.
	Telemetry         telemetry.Destination `env:"TALLY_TELEMETRY" envDefault:"off"`
	TelemetryInterval int                   `env:"OTEL_METRIC_EXPORT_INTERVAL" envDefault:"60000"`

	// EmulatorHost is the host:port of an emulator to use instead of Firestore.
	EmulatorHost string `env:"FIRESTORE_EMULATOR_HOST"`

	// UsageFile keeps the count of billed operations, for tally dev and tally demo.
	UsageFile string `env:"TALLY_USAGE_FILE"`

	// FunctionTimeout is the function's timeout in seconds, set by Cloud Run.
	FunctionTimeout int `env:"CLOUD_RUN_TIMEOUT_SECONDS"`
}

// A problem is what is wrong with a variable. Its text begins with the variable's name.
type problem struct {
	variable string
	err      error // what follows the name
}

func (p *problem) Error() string    { return p.variable + p.err.Error() }
func (p *problem) Unwrap() error    { return p.err }
func (p *problem) Variable() string { return p.variable }

// LoadConfig reads the configuration from environment, which maps variables to values. The error
// joins every problem, each naming its variable, which its method Variable returns, too.
func LoadConfig(environment map[string]string) (Config, error) {
	if environment == nil {
		environment = make(map[string]string) // the package takes nil for this process's own
	}
	var c Config
	var problems []error
	report := func(variable, format string, args ...any) {
		problems = append(problems, &problem{variable, fmt.Errorf(format, args...)})
	}
	unread := make(map[string]bool) // variables whose values are not understood
	if err := env.ParseWithOptions(&c, env.Options{Environment: environment}); err != nil {
		var all env.AggregateError
		if !errors.As(err, &all) {
			return Config{}, err
		}
		for _, err := range all.Errors {
			if parse, ok := errors.AsType[env.ParseError](err); ok {
				field, _ := reflect.TypeFor[Config]().FieldByName(parse.Name)
				name := field.Tag.Get("env")
				unread[name] = true
				err = &problem{name, fmt.Errorf("=%q: %w", environment[name], parse.Err)}
				if field.Type == reflect.TypeFor[rollup.Routes]() { // the error shows the place
					err = &problem{name, fmt.Errorf(": %w", parse.Err)}
				}
			}
			problems = append(problems, err)
		}
	}
	if c.Project == "" {
		report("GOOGLE_CLOUD_PROJECT", " is not set; want the id of the project whose events the functions serve, as tally deploy sets it")
	}
	check := func(holds bool, variable string, value any, want string) {
		if !holds && !unread[variable] {
			report(variable, "=%v: want %s", value, want)
		}
	}
	check(c.Cadence > 0, "TALLY_CADENCE", c.Cadence, "more than 0")
	check(c.Burst >= 1, "TALLY_BURST", c.Burst, "at least 1")
	check(c.SchedulePeriod > 0, "TALLY_SCHEDULE_PERIOD", c.SchedulePeriod, "more than 0")
	check(c.AuditReads > 0, "TALLY_AUDIT_READS_PER_TICK", c.AuditReads, "more than 0")
	check(c.KeepReads > 0, "TALLY_KEEP_READS_PER_TICK", c.KeepReads, "more than 0")
	check(c.TelemetryInterval > 0, "OTEL_METRIC_EXPORT_INTERVAL", c.TelemetryInterval, "more than 0 milliseconds")
	longest := rollup.LongestCadence(c.HoldLimit)
	check(longest > 0, "TALLY_HOLD_LIMIT", c.HoldLimit, "more than 5s, of which Firestore and redelivery take that much")
	if longest > 0 && c.Cadence > longest {
		report("TALLY_CADENCE", "=%v: want at most %v, the longest through which TALLY_HOLD_LIMIT=%v can hold an event, (limit - 5s) / 3; for a slower roll-up add \": every %v\" to the route",
			c.Cadence, longest, c.HoldLimit, c.Cadence)
	}
	if !unread["TALLY_HOLD_LIMIT"] && c.FunctionTimeout != 0 {
		problems = append(problems, c.CheckHoldLimit(time.Duration(c.FunctionTimeout)*time.Second))
	}
	for i, id := range c.Databases {
		id = strings.TrimSpace(id)
		c.Databases[i] = id
		if id != firestore.DefaultDatabaseID && (!databaseID.MatchString(id) || uuid.MatchString(id)) {
			report("TALLY_DATABASES", "=%q: %q is no database id: want (default), or 4 to 63 lower-case letters, digits and hyphens, a letter first, no hyphen last, and no UUID",
				environment["TALLY_DATABASES"], id)
		} else if slices.Contains(c.Databases[:i], id) {
			report("TALLY_DATABASES", "=%q: names %s twice", environment["TALLY_DATABASES"], id)
		}
	}
	if err := errors.Join(problems...); err != nil {
		return Config{}, err
	}
	return c, nil
}

// What the id of a database looks like, other than the default one
// (https://cloud.google.com/firestore/docs/manage-databases#database_id).
var (
	databaseID = regexp.MustCompile(`^[a-z][a-z0-9-]{2,61}[a-z0-9]$`)
	uuid       = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
)
