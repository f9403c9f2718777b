package app

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/caarlos0/env/v11"
	"github.com/firestore-tally/tally/rollup"
)

// Config is what the functions take from their environment. docs/config.md lists it; a test keeps the
// two equal.
type Config struct {
	// Routes say which shards make up which counter; see rollup.ParseRoutes.
	Routes rollup.Routes `env:"TALLY_ROUTES" envDefault:"counters/{counter}/shards/{shard} -> rollups/{counter} : count"`

	// Cadence is the least time between two roll-ups of one counter.
	Cadence time.Duration `env:"TALLY_CADENCE" envDefault:"1s"`

	// HoldLimit is how long an event may wait for its roll-up before it fails and is delivered again.
	HoldLimit time.Duration `env:"TALLY_HOLD_LIMIT" envDefault:"8s"`

	LogLevel slog.Level `env:"TALLY_LOG_LEVEL" envDefault:"INFO"`

	// Databases and Project are where RollUpOnSchedule works. RollUpOnWrite serves whichever database
	// an event comes from.
	Databases []string `env:"TALLY_DATABASES" envDefault:"(default)"`
	Project   string   `env:"GOOGLE_CLOUD_PROJECT"`

	// UsageFile keeps the count of billed operations, for tally dev and tally demo.
	UsageFile string `env:"TALLY_USAGE_FILE"`

	// FunctionTimeout is the function's timeout in seconds, set by Cloud Run.
	FunctionTimeout int `env:"CLOUD_RUN_TIMEOUT_SECONDS"`
}

// LoadConfig reads the configuration from environment, which maps variables to values. The error
// joins every problem, each naming its variable.
func LoadConfig(environment map[string]string) (Config, error) {
	var c Config
	err := env.ParseWithOptions(&c, env.Options{Environment: environment})
	var problems []error
	if err != nil {
		var all env.AggregateError
		if !errors.As(err, &all) {
			return Config{}, fmt.Errorf("configuration: %w", err)
		}
		for _, err := range all.Errors {
			problems = append(problems, problem(err, environment))
		}
		return Config{}, errors.Join(problems...)
	}
	if c.Project == "" {
		c.Project = firestore.DetectProjectID
	}
	if c.Cadence <= 0 {
		problems = append(problems, fmt.Errorf("TALLY_CADENCE=%v: want more than 0", c.Cadence))
	}
	switch longest := rollup.LongestCadence(c.HoldLimit); {
	case longest <= 0:
		problems = append(problems, fmt.Errorf("TALLY_HOLD_LIMIT=%v: want more than 5s, of which Firestore and redelivery take that much", c.HoldLimit))
	case c.Cadence > longest:
		problems = append(problems, fmt.Errorf("TALLY_CADENCE=%v: want at most %v, the longest through which TALLY_HOLD_LIMIT=%v can hold an event: (limit - 5s) / 3",
			c.Cadence, longest, c.HoldLimit))
	}
	if timeout := time.Duration(c.FunctionTimeout) * time.Second; timeout != 0 && c.HoldLimit >= timeout {
		problems = append(problems, fmt.Errorf("TALLY_HOLD_LIMIT=%v: want less than the function's timeout, %v; shorten one or lengthen the other", c.HoldLimit, timeout))
	}
	if err := errors.Join(problems...); err != nil {
		return Config{}, err
	}
	return c, nil
}

// problem says which variable an error of the env package is about.
func problem(err error, environment map[string]string) error {
	var parse env.ParseError
	if !errors.As(err, &parse) {
		return err
	}
	field, _ := reflect.TypeFor[Config]().FieldByName(parse.Name)
	name := field.Tag.Get("env")
	return fmt.Errorf("%s=%q: %w", name, environment[name], parse.Err)
}
