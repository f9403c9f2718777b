package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/internal/tool/appfolder"
	"github.com/firestore-tally/tally/internal/tool/deploy"
	"github.com/firestore-tally/tally/internal/tool/rules"
	"github.com/firestore-tally/tally/rollup/route"
)

// A Verdict is the outcome of a check.
type Verdict string

const (
	Well    Verdict = "well"
	Wrong   Verdict = "wrong"
	Unknown Verdict = "unknown" // something could not be read
	Idle    Verdict = "idle"    // there is nothing to check; another check says that it is missing
)

// A Finding is the result of a check.
type Finding struct {
	*Check
	Verdict  Verdict   `json:"verdict"`
	Problems []Problem `json:"problems,omitempty"` // those that are Wrong first
	Notes    []string  `json:"notes,omitempty"`    // facts that are not wrong, but perhaps not intended
	Why      string    `json:"why,omitempty"`      // of Idle
}

// A Problem is something that is wrong or could not be read.
type Problem struct {
	Verdict Verdict `json:"verdict"` // Wrong or Unknown
	Text    string  `json:"text"`
	RestsOn string  `json:"rests_on,omitempty"` // unless it is the check's
	Remedy  string  `json:"remedy,omitempty"`   // a command; "": none is known
}

// A Deployment is what is deployed in a project, and what the app's folder says of it. Checks read
// for themselves what only they need.
type Deployment struct {
	AsOf    time.Time       // when it was read
	Project *deploy.Project // nil: it was not read

	// Own is the source of the program that asks, which it would deploy; nil: it carries none.
	Own *deploy.Upload

	// Judge judges rules on an emulator, by rules.Judge.All. It is called once at a time.
	Judge   func(context.Context, rules.Judge, route.Routes, map[string][]rules.Document) ([]rules.Answer, error)
	judging sync.Mutex

	folder *appfolder.Folder
	unfit  error // why the folder cannot be used
	unread error // why the project was not read

	config     config.Config // all is judged by it: that of tally.yaml, else that of the functions
	invalid    error         // why config cannot be used; nil: it can
	noDatabase error         // why Tally cannot serve some of the databases; nil: it can serve all
	wanted     *deploy.Deployment

	lacks, surplus []*deploy.Step
	problems       []error // what could not be read, or is somebody else's
}

// Examine makes all Checks at once, except those whose names are in skip. If something cannot be
// read, also because ctx ends, the finding is Unknown.
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

// An examination is a check that is being made. All of them share the Deployment, and only read it.
type examination struct {
	*Deployment
	finding *Finding
}

// run makes the check, if its need is met.
func (e *examination) run(ctx context.Context) {
	f := e.finding
	switch {
	case f.needs >= theProject && e.Project == nil:
		e.idle("the project was not read")
	case f.needs >= theVariables && e.invalid != nil:
		e.idle("there is no function whose variables can be used")
	case f.needs >= theDescription && e.wanted == nil:
		e.idle("there is no database")
	default:
		f.examine(e, ctx)
	}

	slices.SortStableFunc(f.Problems, func(a, b Problem) int { return strings.Compare(string(b.Verdict), string(a.Verdict)) })
	if len(f.Problems) > 0 {
		f.Verdict = f.Problems[0].Verdict
	}
}

// wrong notes a problem, and the command that fixes it; "": none is known.
func (e *examination) wrong(remedy string, format string, args ...any) {
	e.finding.Problems = append(e.finding.Problems, Problem{Verdict: Wrong, Text: fmt.Sprintf(format, args...), Remedy: remedy})
}

// unknown notes that something could not be read that the check needs. It notes the same only once.
func (e *examination) unknown(unread error) {
	text := unread.Error()
	if !slices.ContainsFunc(e.finding.Problems, func(p Problem) bool { return p.Text == text }) {
		e.finding.Problems = append(e.finding.Problems, Problem{Verdict: Unknown, Text: text})
	}
}

// note notes a fact that is not wrong, but perhaps not intended.
func (e *examination) note(format string, args ...any) {
	e.finding.Notes = append(e.finding.Notes, fmt.Sprintf(format, args...))
}

// idle notes that there is nothing to check.
func (e *examination) idle(why string) { e.finding.Verdict, e.finding.Why = Idle, why }

// deploy returns the command tally deploy for the project, with the flags.
func (e *examination) deploy(flags ...string) string {
	return deploy.Command(append([]string{"tally", "deploy", "--project=" + e.Project.ID}, flags...)...)
}

// logs returns the command that shows what a function has logged, from a severity on.
func (e *examination) logs(function, severity string) string {
	return deploy.Command("gcloud", "functions", "logs", "read", function, "--gen2", "--region="+e.Project.DeployedIn(),
		"--min-log-level="+severity, "--limit=20", "--project="+e.Project.ID)
}
