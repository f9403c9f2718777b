package doctor

import (
	"fmt"
	"slices"
	"strings"
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

	examine func(*examination)
	kinds   []*deploy.Kind // the resources that a check of settings compares
	mends   []string       // the commands that mend it, beside those of its kinds, or words
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

// A Deployment holds all that was read about a project.
type Deployment struct {
	AsOf     time.Time
	Have     *deploy.State
	Rules    map[string]Fact[Rules]   // by database
	Measured map[string]Fact[float64] // in the last day, by metric

	config     app.Config // that all is judged by: of the function that was deployed last, else of another
	invalid    error      // why no function's variables can be used; nil: they can
	noDatabase error      // why some databases cannot
	described  *deploy.Description
	mend       deploy.Plan
}

// A Fact is a value, or why it could not be read.
type Fact[T any] struct {
	Value  T
	Unread *deploy.Unread // nil: it was read
}

// Examine judges the deployment by all Checks but those whose names are skipped.
func (d *Deployment) Examine(skip []string) []Finding {
	var findings []Finding
	for i := range Checks {
		c := &Checks[i]
		if slices.Contains(skip, c.Name) {
			continue
		}
		e := &examination{d, &Finding{Check: c, Verdict: Well}}
		switch {
		case d.described != nil || c.Name == "configuration" || c.Name == "databases" && d.invalid == nil:
			c.examine(e)
		case d.invalid != nil:
			e.idle("there is no function whose variables can be used")
		default:
			e.idle("there is no database")
		}
		slices.SortStableFunc(e.finding.Problems, func(a, b Problem) int { return strings.Compare(string(b.Verdict), string(a.Verdict)) })
		if len(e.finding.Problems) > 0 {
			e.finding.Verdict = e.finding.Problems[0].Verdict
		}
		findings = append(findings, *e.finding)
	}
	return findings
}

// An examination is a check at work.
type examination struct {
	*Deployment
	finding *Finding
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
