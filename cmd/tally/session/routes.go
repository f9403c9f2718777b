package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/cmd/tally/settings"
	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/tool/appfolder"
	"github.com/firestore-tally/tally/internal/tool/deploy"
	"github.com/firestore-tally/tally/rollup/route"
)

// This file holds one rule: a command that changes totals works by the routes of the functions that
// run. Where no functions run, it works by the routes that somebody named. Otherwise it changes
// nothing, because by wrong routes it would find no shards of a counter, and set the counter's
// roll-up to 0. A command that only reads works by any routes.

// statedConfig is the configuration of the functions that the command is told.
type statedConfig struct {
	config  config.Config
	from    string // where its routes are from, such as "by --routes"; "": the default route is assumed
	forThis bool   // a flag or a variable names the routes, for this command
}

// runningFunctions is what the functions that run for a project say of themselves.
type runningFunctions struct {
	project string
	of      string         // what these functions are called
	config  *config.Config // nil: none run, or unread says why that is unknown
	unread  error          // why their configuration is unknown; nil: it was read
}

// A Decision is how a command works on a database, and whether it may change anything there.
type Decision struct {
	Config   config.Config // of the functions
	From     string        // where its routes are from, such as "of tally dev"
	Served   bool          // functions that run serve the database by these routes
	Assumed  bool          // no flag, variable or file names the routes, and no running functions are known
	Database string
	notice   string // a line that the user reads first; "": there is none
	Refusal  error  // why the command may only read; nil: it may change everything
}

// decide decides by the rule of this file. database is the one that a flag names; "": the first of
// the functions' databases.
func decide(said statedConfig, runs runningFunctions, database string) Decision {
	d := Decision{Config: said.config, From: said.from}
	known := runs.config != nil
	others := known && said.forThis && said.config.Routes.String() != runs.config.Routes.String()
	if known && !others {
		d.Config, d.From = *runs.config, "of "+runs.of
	}
	d.Database = cmp.Or(database, d.Config.Databases[0])
	if !known {
		d.withoutFunctions(said, runs)
		return d
	}

	switch {
	case others:
		d.refuse("the routes %s differ from those of %s, so this command may only read:\n%s", said.from, runs.of, runs.config.Routes)
	case !slices.Contains(runs.config.Databases, d.Database):
		d.refuse("the databases of %s are %s, not %s", runs.of, strings.Join(runs.config.Databases, ", "), d.Database)
	default:
		d.Served = true
	}
	return d
}

// withoutFunctions decides where no functions run, or that is not known.
func (d *Decision) withoutFunctions(said statedConfig, runs runningFunctions) {
	none := cmp.Or(runs.unread, errors.New("no functions run for project "+runs.project))
	if runs.unread != nil {
		d.notice = "tally: " + none.Error()
	}

	switch {
	case said.from == "":
		d.Assumed = true
		d.notice = fmt.Sprintf("routes, assumed (no %s here or above; %v): %s", appfolder.FileName, none, route.Default)
		d.refuse("the routes are assumed; tally init writes them into %s, and --routes names them", appfolder.FileName)
	case runs.unread != nil && !said.forThis:
		d.refuse("%w; --routes names the routes for sure", runs.unread)
	}
}

// refuse notes why the command may only read.
func (d *Decision) refuse(why string, args ...any) {
	d.Refusal = fmt.Errorf("nothing was changed: "+why, args...)
}

// statedBy returns the configuration of the functions that the command is told: by its flag of
// routes, by the environment, or by tally.yaml.
func statedBy(flag string, folder *appfolder.Folder, project string) (statedConfig, error) {
	_, err := folder.DatabaseIDs()
	if err != nil {
		return statedConfig{}, err
	}

	variables := settings.Variables(folder)
	var stated statedConfig
	switch {
	case flag != "":
		variables["TALLY_ROUTES"] = flag
		stated = statedConfig{from: "by --routes", forThis: true}
	case os.Getenv("TALLY_ROUTES") != "":
		stated = statedConfig{from: "by TALLY_ROUTES", forThis: true}
	case folder.File != "":
		stated = statedConfig{from: "by " + folder.File}
	}

	stated.config, err = loadConfig(variables, folder, project)
	return stated, err
}

// askFunctions asks the functions that run how they are configured: those of tally dev on an
// emulator, else those that are deployed. If they cannot be asked, unread says why, and
// askFunctions returns no error. It returns one if their configuration is invalid, or if ctx ends.
func askFunctions(ctx context.Context, project string, folder *appfolder.Folder) (runningFunctions, error) {
	runs, routes := runningFunctions{project: project, of: "the deployed functions"}, "the deployed routes"
	var variables map[string]string
	var err error
	if host := os.Getenv(firestorestore.EmulatorHost); host != "" {
		runs.of, routes = "tally dev", "the routes of tally dev"
		variables, err = DevVariables(ctx, host, project)
	} else {
		variables, err = deployedVariables(ctx, project)
	}
	if ctx.Err() != nil {
		return runs, context.Cause(ctx)
	}
	if err != nil {
		why, _, _ := strings.Cut(err.Error(), "\n")
		runs.unread = fmt.Errorf("could not read %s: %s", routes, why)
		return runs, nil
	}
	if variables == nil {
		return runs, nil
	}

	loaded, err := loadConfig(variables, folder, project)
	if err != nil {
		return runs, fmt.Errorf("%s: %w", runs.of, err)
	}
	runs.config = &loaded
	return runs, nil
}

// loadConfig returns the configuration that the variables of a project's functions say.
func loadConfig(variables map[string]string, folder *appfolder.Folder, project string) (config.Config, error) {
	variables = maps.Clone(variables)
	variables["GOOGLE_CLOUD_PROJECT"] = project
	loaded, err := config.Load(variables)
	if err != nil {
		return config.Config{}, fmt.Errorf("configuration: %w", folder.Explain(err, variables))
	}
	return loaded, nil
}

// deployedVariables returns the variables that a project's functions are deployed with, nil if
// there are no functions.
func deployedVariables(ctx context.Context, project string) (map[string]string, error) {
	on, err := deploy.OpenFunctions(ctx, project, settings.EndpointsOf(ctx).APIs...)
	if err != nil {
		return nil, err
	}
	return on.Variables(), nil
}
