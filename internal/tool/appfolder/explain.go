package appfolder

import (
	"errors"
	"fmt"

	"github.com/firestore-tally/tally/internal/tool/mistakes"
)

// variableNames are the variables of the functions that keys of tally.yaml set.
var variableNames = map[string]string{"routes": "TALLY_ROUTES", "cadence": "TALLY_CADENCE", "reads_per_second": "TALLY_READS_PER_SECOND", "audit": "TALLY_AUDIT", "databases": "TALLY_DATABASES", "edition": "TALLY_EDITION"}

// A variableProblem is an error of a variable, as config.Load returns it.
type variableProblem interface {
	error
	Variable() string
	Unwrap() error // the text without the variable's name
}

// A placed error is one in the text of routes, as route.Parse returns it.
type placed interface {
	error
	Place() (line, column int, ok bool)
}

// Explain adds places in tally.yaml to an error about the variables in an environment. Each part of
// the error is about one variable. If the variable's value comes from tally.yaml, the part gets the
// place of that value. Mistakes in routes are said in sentences.
func (f *Folder) Explain(err error, environment map[string]string) error {
	if err == nil {
		return nil
	}

	own := f.ofSettings()
	var all []error
	for _, err := range parts(err) {
		p, ok := errors.AsType[variableProblem](err)
		if !ok {
			all = append(all, err)
			continue
		}

		value, set := own[p.Variable()]
		if set && value == environment[p.Variable()] {
			err = f.locate(p)
		}
		all = append(all, mistakes.Explain(err))
	}
	return errors.Join(all...)
}

// locate returns what is wrong with a value of tally.yaml, with its place.
func (f *Folder) locate(p variableProblem) error {
	key := "env." + p.Variable()
	for name, variable := range variableNames {
		_, has := f.places.keys[name]
		if has && variable == p.Variable() {
			key = name
		}
	}
	if key != "routes" {
		return fmt.Errorf("%s%w", f.Place(key), p.Unwrap())
	}

	reason := errors.Unwrap(p.Unwrap()) // without the colon before it
	if reason == nil {
		reason = p.Unwrap()
	}

	var all []error
	for _, err := range parts(reason) {
		all = append(all, fmt.Errorf("%s%w", f.routePlace(err).in(f.File), err))
	}
	return errors.Join(all...)
}

// routePlace returns where a problem of routes is; where the routes begin if the problem has no
// place in them.
func (f *Folder) routePlace(err error) place {
	routes := f.places.keys["routes"]
	p, ok := errors.AsType[placed](err)
	if !ok {
		return routes
	}
	line, column, ok := p.Place()
	if !ok || line > len(f.places.routes) {
		return routes
	}

	at := f.places.routes[line-1]
	at.column += column - 1
	return at
}

// parts returns the errors that an error joins; the error itself if it joins none.
func parts(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}
