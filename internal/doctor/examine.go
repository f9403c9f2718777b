package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/firestore-tally/tally/deploy"
	"github.com/firestore-tally/tally/internal/app"
)

// A Verdict is the outcome of a check.
type Verdict string

const (
	Well    Verdict = "well"
	Wrong   Verdict = "wrong"
	Unknown Verdict = "unknown" // something could not be read
	Idle    Verdict = "idle"    // nothing to check, because another check found its subject missing
)

// A Check is one thing that exactness or the price rests on.
type Check struct {
	Name    string `json:"name"`
	Claim   string `json:"claim"`    // holds if all is well
	RestsOn string `json:"rests_on"` // why the claim matters

	// Mends tells how, with semicolons between: the beginnings of commands, or words where no
	// command does it. The verbs of a group of gcloud's stand in parentheses after it.
	Mends string `json:"-"`

	examine func(*examination, context.Context)
}

// A Finding is the result of a check.
type Finding struct {
	*Check
	Verdict  Verdict   `json:"verdict"`
	Problems []Problem `json:"problems,omitempty"` // those that are Wrong first
	Why      string    `json:"why,omitempty"`      // of Idle
}

// A Problem is something that is wrong or could not be read.
type Problem struct {
	Verdict Verdict          `json:"verdict"` // Wrong or Unknown
	Text    string           `json:"text"`
	Remedy  []deploy.Command `json:"remedy,omitempty"` // none: there is none that is known
}

// A Deployment is what is deployed in a project. Checks read for themselves what only they need.
type Deployment struct {
	AsOf time.Time // when it was read
	Have *deploy.State

	config     app.Config // that all is judged by: of the function that was deployed last, else of another
	invalid    error      // why no function's variables can be used; nil: they can
	noDatabase error      // why some databases cannot
	described  *deploy.Description
	mend       deploy.Plan
	surplus    []deploy.Step
}

// Examine makes all Checks at once, but for those whose names are skipped. What cannot be read
// until ctx is done is Unknown.
func (d *Deployment) Examine(ctx context.Context, skip []string) []Finding {
	var findings []Finding
	for i := range Checks {
		if !slices.Contains(skip, Checks[i].Name) {
			findings = append(findings, Finding{Check: &Checks[i], Verdict: Well})
		}
	}
	var all sync.WaitGroup
	for i := range findings {
		all.Go(func() { (&examination{d, &findings[i]}).run(ctx) })
	}
	all.Wait()
	return findings
}

// An examination is a check at work. Several share the Deployment, and only read it.
type examination struct {
	*Deployment
	finding *Finding
}

// run makes the check, if there is what it looks at.
func (e *examination) run(ctx context.Context) {
	f := e.finding
	switch {
	case e.described != nil || f.Name == "configuration" || f.Name == "databases" && e.invalid == nil:
		f.examine(e, ctx)
	case e.invalid != nil:
		e.idle("there is no function whose variables can be used")
	default:
		e.idle("there is no database")
	}
	slices.SortStableFunc(f.Problems, func(a, b Problem) int { return strings.Compare(string(b.Verdict), string(a.Verdict)) })
	if len(f.Problems) > 0 {
		f.Verdict = f.Problems[0].Verdict
	}
}

// wrong notes a problem, and the commands that mend it.
func (e *examination) wrong(remedy []deploy.Command, format string, args ...any) {
	e.finding.Problems = append(e.finding.Problems, Problem{Wrong, fmt.Sprintf(format, args...), remedy})
}

// unknown notes that something that is needed could not be read, once in each check.
func (e *examination) unknown(u *deploy.Unread) {
	text := u.What + ": " + u.Why
	if !slices.ContainsFunc(e.finding.Problems, func(p Problem) bool { return p.Text == text }) {
		e.finding.Problems = append(e.finding.Problems, Problem{Unknown, text, u.Remedy})
	}
}

// read reports whether resources of the kinds could be read, and notes those that could not.
func (e *examination) read(kinds ...*deploy.Kind) bool {
	all := true
	for _, k := range kinds {
		if u := e.Have.Unread[k]; u != nil {
			e.unknown(u)
			all = false
		}
	}
	return all
}

// idle notes that there is nothing to check.
func (e *examination) idle(why string) { e.finding.Verdict, e.finding.Why = Idle, why }

// deploy returns tally's own command, which a clone of Tally is needed for.
func (e *examination) deploy(flags ...string) deploy.Command {
	return deploy.Command{Args: append([]string{"tally", "deploy", "--project=" + e.Have.Project}, flags...)}
}
