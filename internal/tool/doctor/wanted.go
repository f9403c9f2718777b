package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/internal/cloud/billing"
	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/internal/tool/deploy"
	"github.com/firestore-tally/tally/internal/tool/mistakes"
	"github.com/firestore-tally/tally/rollup/route"
)

// compareDeployed finds what tally deploy would change, a problem for each difference. Each says
// what rests on the resource, in the manifest's words.
func (e *examination) compareDeployed(ctx context.Context) {
	for _, err := range e.problems {
		isForeign := new(deploy.Foreign)
		if errors.As(err, &isForeign) {
			e.wrong("", "%v", err)
		} else {
			e.unknown(err)
		}
	}
	e.addDifferences(e.lacks, e.deploy())
	e.addDifferences(e.surplus, e.deploy("--prune"))
	if e.Own != nil {
		e.note("%s", e.Own.Versions(e.Project))
	}
	for _, text := range []string{e.Project.Deprecated(e.AsOf), e.wanted.Cheaper(ctx, e.AsOf)} {
		if text != "" {
			e.note("%s", text)
		}
	}
}

// addDifferences notes a problem for each line of the steps.
func (e *examination) addDifferences(steps []*deploy.Step, remedy string) {
	for _, s := range steps {
		lines := s.Lines()
		if len(lines) == 0 {
			lines = []string{""}
		}
		for _, line := range lines {
			text := s.Title
			if s.Of == "index" {
				text = unready(text, e.wanted.Config.Edition)
			}
			if line != "" {
				text += ": " + line
			}
			p := Problem{Verdict: Wrong, Text: text, RestsOn: withoutLinks(s.Why), Remedy: remedy}
			e.finding.Problems = append(e.finding.Problems, p)
		}
	}
}

// link matches a link at the end of a sentence.
var link = regexp.MustCompile(` https://\S+`)

// withoutLinks returns a comment of the manifest without its links, which say no more to an
// operator.
func withoutLinks(comment string) string { return link.ReplaceAllString(comment, "") }

// configuration finds a function that is missing, and variables that are wrong.
func (e *examination) configuration(context.Context) {
	functions := e.Project.Functions
	for _, want := range []string{deploy.OnWriteName, deploy.OnScheduleName} {
		if !slices.ContainsFunc(functions, func(f deploy.Object) bool { return path.Base(f.Get("name")) == want }) {
			e.wrong(e.deploy(), "there is no function %s", want)
		}
	}

	for _, f := range functions {
		_, err := config.Load(deploy.Environment(f))
		for _, problem := range problems(err) {
			e.wrong(e.deploy(), "%s: %s", path.Base(f.Get("name")), problem)
		}
	}

	// Each variable may be valid by itself, and all of them together not.
	if e.invalid != nil && len(e.finding.Problems) == 0 {
		e.wrong(e.deploy(), "%v", mistakes.Explain(e.invalid))
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
		texts = append(texts, strings.ReplaceAll(mistakes.Explain(err).Error(), ":\n ", ":"))
	}
	return texts
}

// databases finds databases that Tally cannot serve. If there are others, tally deploy can serve
// those alone.
func (e *examination) databases(context.Context) {
	for _, problem := range problems(e.noDatabase) {
		if e.wanted == nil {
			e.wrong("", "%s", problem)
			continue
		}
		e.wrong(e.deploy("--prune"), "%s; write databases without it into tally.yaml", problem)
	}
}

// payment finds that the project's billing is off.
func (e *examination) payment(ctx context.Context) {
	var info deploy.Object
	err := e.Project.Call(ctx, http.MethodGet, "cloudbilling.googleapis.com/v1/projects/"+e.Project.ID+"/billingInfo", nil, &info)
	if err != nil {
		e.unknown(e.Project.Unreadable("cloudbilling", "the project's billing", err))
		return
	}

	if info.Get("billingEnabled") != "true" {
		e.wrong(deploy.Command("gcloud", "billing", "projects", "link", e.Project.ID, "--billing-account=ACCOUNT"), "the billing of project %s is off", e.Project.ID)
	}
}

// indexes finds indexes that are being built.
func (e *examination) indexes(context.Context) {
	for _, text := range e.wanted.Building() {
		e.wrong(e.deploy("--wait"), "index %s", unready(text, e.wanted.Config.Edition))
	}
}

// unready says of an index that is missing or being built what that means on an edition.
func unready(index string, on route.Edition) string {
	if on != route.Enterprise {
		return index
	}
	scans := billing.Scan(1e6, 1<<10).Times(1000).CostIn(billing.PriceRegion)
	return fmt.Sprintf("%s; until it is ready, Tally runs no query that needs it. Without it Firestore would read all documents: 1,000 queries of a million documents of 1 KiB cost $%.2f", index, scans)
}
