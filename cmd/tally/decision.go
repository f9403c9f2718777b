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

// A sayer says who stated the routes.
type sayer int

const (
	nobody  sayer = iota // the default route is assumed
	theFile              // tally.yaml
	theUser              // a flag or a variable, which is meant for this command
)

// stated is the configuration of the functions that the command is told.
type stated struct {
	config config.Config
	by     sayer
	from   string // where its routes are from, such as "by --routes"; empty of nobody
}

// running is what the functions that run for a project say of themselves.
type running struct {
	project string
	of      string         // what these functions are called
	config  *config.Config // nil: none run, or nobody knows
	unread  error          // why nobody knows; nil: they could be asked
}

// none says that no functions are known to run.
func (r running) none() string {
	if r.unread != nil {
		return r.unread.Error()
	}
	return "no functions run for project " + r.project
}

// A decision is how a command works on a database, and what it may do there.
type decision struct {
	config   config.Config // of the functions
	from     string        // where its routes are from, such as "of tally dev"
	assumed  bool          // nobody named the routes, and no functions run that have some
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

// decide decides by which routes a command works, and what it may do by them.
//
// The command works by the routes of the functions that run. Only routes that the user names for
// this command go before them. If the stated routes differ from those that run, the command only
// reads: by wrong routes it would find no shards of a counter, and set its roll-up to 0. It also
// only reads a database that the functions do not serve.
//
// If no functions run, or nobody knows, the command works by the stated routes, else by the default
// one. It may do everything by routes that the user names for this command, or that tally.yaml says
// while no functions run. By all others it may only read and add.
//
// database is the one that a flag names; "": the first of the functions' databases.
func decide(said stated, runs running, database string) decision {
	differ := differing(said, runs)
	d := decision{config: said.config, from: said.from}
	if runs.config != nil && (differ == nil || said.by != theUser) {
		d.config, d.from = *runs.config, "of "+runs.of
	}

	d.assumed = said.by == nobody && runs.config == nil
	d.database = cmp.Or(database, d.config.Databases[0])
	d.notice = notice(d, runs)
	d.most, d.refusal = allowed(d, said, runs, errors.Join(differ, elsewhere(d.database, runs)))
	return d
}

// notice returns what the user should know first: that the routes are assumed, or that nobody could
// ask the functions for theirs; "" if neither is so.
func notice(d decision, runs running) string {
	switch {
	case d.assumed:
		return fmt.Sprintf("routes, assumed, for there is no %s here or above, and %s: %s", appfolder.FileName, runs.none(), route.Default)
	case runs.unread != nil:
		return "tally: " + runs.none()
	default:
		return ""
	}
}

// allowed returns the most that is allowed, and why no more is. differ says how the functions that
// run differ from what the command was told; nil: they do not, or nobody knows.
func allowed(d decision, said stated, runs running, differ error) (most access, refusal error) {
	switch {
	case differ != nil:
		return reads, errors.Join(differ, fmt.Errorf("nothing was changed; tally deploy brings those of %s to a project, and a new tally dev takes them", appfolder.FileName))
	case d.assumed:
		return adds, fmt.Errorf("nothing was changed, because the routes are assumed; tally init writes them into %s, and --routes names them", appfolder.FileName)
	case runs.unread != nil && said.by != theUser:
		return adds, fmt.Errorf("%w; nothing was changed; --routes names them for sure", runs.unread)
	default:
		return changes, nil
	}
}

// differing returns an error that names the routes that were stated and do not run, and those that
// run and were not stated; nil if there are none, or nothing to compare.
func differing(said stated, runs running) error {
	if said.by == nobody || runs.config == nil {
		return nil
	}

	var only error
	here, there := spelt(said.config.Routes), spelt(runs.config.Routes)
	for _, r := range here {
		if !slices.Contains(there, r) {
			only = errors.Join(only, errors.New("  only named:  "+r))
		}
	}
	for _, r := range there {
		if !slices.Contains(here, r) {
			only = errors.Join(only, errors.New("  only there:  "+r))
		}
	}
	if only == nil {
		return nil
	}
	title := fmt.Sprintf("the routes %s differ from those of %s:", said.from, runs.of)
	return errors.Join(errors.New(title), only)
}

// elsewhere returns an error if functions run, but not for the database.
func elsewhere(database string, runs running) error {
	if runs.config == nil || slices.Contains(runs.config.Databases, database) {
		return nil
	}
	return fmt.Errorf("the databases of %s are %s, not %s", runs.of, strings.Join(runs.config.Databases, ", "), database)
}

// spelt returns the routes as they are spelt, in the form that all have in common.
func spelt(routes route.Routes) []string { return strings.Split(routes.String(), "\n") }
