package doctor

import (
	"context"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/internal/tool/deploy"
)

// settings returns a check of all resources of the kinds. Each step of tally deploy about them is a
// problem, which tally deploy fixes.
func settings(kinds ...*deploy.Kind) func(*examination, context.Context) {
	return func(e *examination, _ context.Context) {
		e.read(kinds...)

		for _, s := range e.repair.Steps {
			if slices.Contains(kinds, s.Of) {
				e.wrong([]deploy.Command{e.deploy()}, "%v", s)
			}
		}
	}
}

// functions finds what tally deploy would fix, and tells which version is deployed and which one
// this program would deploy.
func (e *examination) functions(ctx context.Context) {
	settings(deploy.Function)(e, ctx)

	if e.Own != nil {
		e.note("%s", e.Own.Versions(e.Have))
	}
}

// triggers finds what tally deploy would fix, and events that are pushed elsewhere.
func (e *examination) triggers(ctx context.Context) {
	settings(deploy.Trigger, deploy.Subscription)(e, ctx)

	astray := e.described.Astray(e.Have)
	for _, problem := range slices.Sorted(maps.Keys(astray)) {
		e.wrong([]deploy.Command{astray[problem]}, "%s", problem)
	}
}

// configuration finds a function that is missing, and variables that are wrong.
func (e *examination) configuration(context.Context) {
	functions := e.Have.Functions()
	for _, want := range []string{deploy.OnWriteName, deploy.OnScheduleName} {
		if !slices.ContainsFunc(functions, func(f deploy.Object) bool { return path.Base(f.Get("name")) == want }) {
			e.wrong([]deploy.Command{e.deploy()}, "there is no function %s", want)
		}
	}

	for _, f := range functions {
		_, err := config.Load(deploy.Environment(f))
		for _, problem := range problems(err) {
			e.wrong([]deploy.Command{e.deploy()}, "%s: %s", path.Base(f.Get("name")), problem)
		}
	}

	// Each variable may be valid by itself, and all of them together not.
	if e.invalid != nil && len(e.finding.Problems) == 0 {
		e.wrong([]deploy.Command{e.deploy()}, "%v", e.invalid)
	}
}

// problems returns the problems that an error joins.
func problems(err error) []string {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil
	}

	var texts []string
	for _, err := range joined.Unwrap() {
		texts = append(texts, strings.ReplaceAll(err.Error(), ":\n ", ":"))
	}
	return texts
}

// databases finds databases that Tally cannot serve. If there are others, tally deploy can serve
// those alone.
func (e *examination) databases(context.Context) {
	for _, problem := range problems(e.noDatabase) {
		if e.described == nil {
			e.wrong(nil, "%s", problem)
			continue
		}
		e.wrong([]deploy.Command{e.deploy("--prune")}, "%s; write databases without it into tally.yaml", problem)
	}
}

// nothingElse finds surplus: resources that belong to Tally and that tally deploy does not want.
func (e *examination) nothingElse(context.Context) {
	e.read(deploy.Trigger, deploy.Job, deploy.Repository)
	for _, u := range e.Have.Unreached() {
		e.note("%s", u)
	}

	for _, s := range e.surplus {
		e.wrong([]deploy.Command{e.deploy("--prune")}, "%v", s)
	}
}
