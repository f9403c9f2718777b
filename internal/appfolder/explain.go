package appfolder

import (
	"errors"
	"fmt"
)

// variableNames are the variables of the functions that keys of tally.yaml set.
var variableNames = map[string]string{"routes": "TALLY_ROUTES", "cadence": "TALLY_CADENCE", "databases": "TALLY_DATABASES"}

// A variableProblem is what is wrong with a variable, as app.LoadConfig tells it.
type variableProblem interface {
	error
	Variable() string
	Unwrap() error // the text without the variable's name
}

// A placed error is one in the text of routes, as rollup.ParseRoutes tells it.
type placed interface {
	error
	Place() (line, column int)
}

// Explain returns an error of the functions' variables in which each problem of a value that is
// from tally.yaml names its place there. environment is what the error is about.
func (f *Folder) Explain(err error, environment map[string]string) error {
	if err == nil {
		return nil
	}
	own := f.Variables()
	var all []error
	for _, err := range parts(err) {
		p, ok := errors.AsType[variableProblem](err)
		value, set := "", false
		if ok {
			value, set = own[p.Variable()]
		}
		if !set || value != environment[p.Variable()] {
			all = append(all, err)
			continue
		}
		all = append(all, f.locate(p))
	}
	return errors.Join(all...)
}

// locate returns what is wrong with a value of tally.yaml, with its place.
func (f *Folder) locate(p variableProblem) error {
	key := "env." + p.Variable()
	for name, variable := range variableNames {
		if _, has := f.places.keys[name]; has && variable == p.Variable() {
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

// routePlace returns where a problem of routes is, or where the routes are.
func (f *Folder) routePlace(err error) place {
	at := f.places.keys["routes"]
	p, ok := errors.AsType[placed](err)
	if !ok {
		return at
	}
	line, column := p.Place()
	if line > len(f.places.routes) {
		return at
	}
	at = f.places.routes[line-1]
	at.column += column - 1
	return at
}

// parts returns the errors that one joins, or the one.
func parts(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}
