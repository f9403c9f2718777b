package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/internal/tool/appfolder"
	"github.com/firestore-tally/tally/rollup/route"
)

// stated is the configuration of the functions that the command is told.
type stated struct {
	config  config.Config
	from    string // where its routes are from, such as "by --routes"; "": the default route is assumed
	forThis bool   // a flag or a variable names the routes, for this command
}

// running is what the functions that run for a project say of themselves.
type running struct {
	project string
	of      string         // what these functions are called
	config  *config.Config // nil: none run, or unread says why that is unknown
	unread  error          // why their configuration is unknown; nil: it was read
}

// A decision is how a command works on a database, and what it may do there.
type decision struct {
	config   config.Config // of the functions
	from     string        // where its routes are from, such as "of tally dev"
	served   bool          // functions that run serve the database by these routes
	assumed  bool          // no flag, variable or file names the routes, and no running functions are known
	database string
	notice   string // a line that the user reads first; "": there is none

	most    access // that is allowed
	refusal error  // why no more is; nil: everything is allowed
}

// allows returns an error unless the access is allowed.
func (d decision) allows(a access) error {
	if a > d.most {
		return d.refusal
	}
	return nil
}

// limit allows no more than the access, and says why.
func (d *decision) limit(most access, why string, args ...any) {
	d.most, d.refusal = most, fmt.Errorf("nothing was changed: "+why, args...)
}

// decide decides by which routes a command works, and what it may do by them.
//
// Where functions run, what changes anything works by their routes: by wrong ones it would find no
// shards of a counter, and set its roll-up to 0. By other routes that are named for this command it
// only reads, and so it does in a database that the functions do not serve.
//
// Where none run, or that is not known, the command works by the stated routes. To replace a total
// they have to be named: for this command, or by tally.yaml if certainly no functions run.
//
// database is the one that a flag names; "": the first of the functions' databases.
func decide(said stated, runs running, database string) decision {
	d := decision{config: said.config, from: said.from, most: changes}
	if runs.config == nil {
		d.database = cmp.Or(database, d.config.Databases[0])
		d.withoutFunctions(said, runs)
		return d
	}

	other := said.forThis && said.config.Routes.String() != runs.config.Routes.String()
	if !other {
		d.config, d.from = *runs.config, "of "+runs.of
	}
	d.database = cmp.Or(database, d.config.Databases[0])
	switch {
	case other:
		d.limit(reads, "the routes %s are only for reading, because those of %s differ:\n%s", said.from, runs.of, runs.config.Routes)
	case !slices.Contains(runs.config.Databases, d.database):
		d.limit(reads, "the databases of %s are %s, not %s", runs.of, strings.Join(runs.config.Databases, ", "), d.database)
	default:
		d.served = true
	}
	return d
}

// withoutFunctions decides what a command may do where no functions run, or that is not known.
func (d *decision) withoutFunctions(said stated, runs running) {
	none := cmp.Or(runs.unread, errors.New("no functions run for project "+runs.project))
	if runs.unread != nil {
		d.notice = "tally: " + none.Error()
	}

	switch {
	case said.from == "":
		d.assumed = true
		d.notice = fmt.Sprintf("routes, assumed (no %s here or above; %v): %s", appfolder.FileName, none, route.Default)
		d.limit(adds, "the routes are assumed; tally init writes them into %s, and --routes names them", appfolder.FileName)
	case runs.unread != nil && !said.forThis:
		d.limit(adds, "%w; --routes names the routes for sure", runs.unread)
	}
}
