package counters

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/firestore-tally/tally/cmd/tally/command"
	"github.com/firestore-tally/tally/cmd/tally/session"
	"github.com/firestore-tally/tally/internal/cloud/alarm"
	"github.com/firestore-tally/tally/internal/cloud/billing"
	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/internal/tool/terminal"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/spf13/cobra"
)

// How audit ends when a roll-up is left as it is, although it is not right.
var (
	errDiffering = errors.New("roll-ups differ from their shards; tally audit --repair repairs them")
	errUnkept    = errors.New("counters cannot be rolled up until someone fixes them; the lines above say why")
	errPaced     = errors.New("some counters were rolled up less than a cadence ago, so they were not repaired; run the same command again after a cadence")
	errUnwritten = errors.New("totals that no roll-up wrote were left alone, because no functions run these routes; RollUpOnSchedule repairs them once it runs these routes")
	errRerouted  = errors.New("roll-ups that other routes made were left alone; RollUpOnSchedule updates those of its own routes")
)

// auditResult is tally audit's answer in JSON.
type auditResult struct {
	rollup.Report
	Foreign []foreign    `json:"foreign,omitempty"`
	DryRun  bool         `json:"dry_run"`
	Billed  billing.Bill `json:"billed"`
	Dollars float64      `json:"dollars"` // list price in billing.PriceRegion
	Seconds float64      `json:"seconds"`
}

// A foreign counts documents of a route that belong to no counter, because a reference in the field
// of a key leads to another database.
type foreign struct {
	Route     string `json:"route"`
	Field     string `json:"field"`
	Documents int64  `json:"documents"`
	Example   string `json:"example"` // path of one of them
}

// auditFlags is what the flags of tally audit say.
type auditFlags struct {
	repair, prune bool
	removed       string // routes
	grace         time.Duration
	graceGiven    bool
	concurrency   int
	verbose       bool
}

func auditCommand() *cobra.Command {
	meter := billing.NewMeter(nil)
	var a auditFlags
	c := command.New("audit")
	f := c.Flags()
	f.BoolVar(&a.repair, "repair", false, "repair what differs")
	f.BoolVar(&a.prune, "prune", false, "also list totals of removed routes; --repair deletes them: first make sure that no revision still runs those routes, and that the app does not use the fields")
	f.StringVar(&a.removed, "removed", "", "with --prune: the removed routes, as they were written, if no route writes those documents any more")
	f.DurationVar(&a.grace, "grace", 0, "how long to wait for the event of a difference; 0: repair it at once (default: from TALLY_CADENCE and TALLY_HOLD_LIMIT)")
	f.Lookup("grace").DefValue = "" // the text says it
	f.BoolVar(&a.verbose, "verbose", false, "print each number of the audit, too, and its log as programs read it")
	f.IntVar(&a.concurrency, "concurrency", config.AuditConcurrency, "counters in work at once")
	return session.Command{Endless: true, Dial: meter.DialOptions(), Run: func(ctx context.Context, s *session.Session, _ []string) error {
		a.graceGiven = f.Changed("grace")
		return a.run(ctx, s, meter)
	}}.Define(c)
}

// run audits, and prints what came of it. The meter counts what the command bills.
func (a auditFlags) run(ctx context.Context, s *session.Session, meter *billing.Meter) error {
	gone, err := a.check(s)
	if err != nil {
		return err
	}

	o, err := a.options(s)
	if err != nil {
		return err
	}

	s.Begin("auditing", "counters", terminal.Unknown, "Each is compared, or brought up to date, in one step. The same command begins with the first again.")
	began := time.Now()
	r, err := audit(ctx, s, s.Config.Routes, o)
	if err == nil || errors.Is(err, errDiffering) {
		r, err = a.withdraw(ctx, s, gone, r, err)
	}

	outcome := a.outcome(r, err)

	answer := auditResult{Report: r, DryRun: !a.repair}
	if err == nil || errors.Is(err, errDiffering) {
		answer.Foreign, err = countForeign(ctx, s)
		outcome = errors.Join(outcome, err)
	}
	answer.Billed, answer.Seconds = meter.Usage().On(s.Config.Edition), time.Since(began).Seconds()
	answer.Dollars = answer.Billed.CostIn(billing.PriceRegion)
	return errors.Join(outcome, printAudited(s, answer, a.verbose))
}

// countForeign counts the references to other databases, by route, and says where some are. No
// total has their documents. Those that a clone or an import brought made no event, so the
// functions' log does not name them.
func countForeign(ctx context.Context, s *session.Session) ([]foreign, error) {
	var all []foreign
	for _, r := range s.Config.Routes {
		for _, k := range r.By {
			if k.Function != route.Reference {
				continue
			}
			n, example, err := s.Store.Foreign(ctx, r, k.Field)
			if err != nil {
				return all, err
			}
			if n > 0 {
				all = append(all, foreign{r.String(), string(k.Field), n, example})
				fmt.Fprintf(s.Logs, "left out: %s of %s, such as %s, because %s refers to a document of another database, as after a clone or an import; let your server write the reference again\n",
					terminal.Plural(n, "document"), r, example, k.Field)
			}
		}
	}
	return all, nil
}

// check checks the flags, tells the user the routes, and returns the templates that --removed
// names. It is an error if the flags do not go together, or if they ask for more than is allowed.
func (a auditFlags) check(s *session.Session) ([]*route.Template, error) {
	if a.concurrency < 1 || a.grace < 0 {
		return nil, fmt.Errorf("--concurrency %d, --grace %v: want at least 1, and no less than 0", a.concurrency, a.grace)
	}
	printRoutes(s.Logs, s.Decision)
	if a.repair {
		s.Writes = true
		if s.Refusal != nil {
			return nil, s.Refusal
		}
	}
	if a.removed != "" && !a.prune {
		return nil, errors.New("--removed is for --prune")
	}
	return removedTemplates(s.Config.Routes, a.removed)
}

func (a auditFlags) options(s *session.Session) (rollup.AuditOptions, error) {
	o := auditOptions(s.Config, s.Logger(a.verbose))
	o.Concurrency, o.DryRun, o.Prune, o.KeepUnwritten = a.concurrency, !a.repair, a.prune, !s.Served
	if a.graceGiven {
		o.Grace = a.grace
	}
	if !a.repair {
		return o, nil
	}

	var err error
	o.Alarms, err = openAlarms(s)
	return o, err
}

// openAlarms opens the queue of the functions, if totals have windows. Who writes such a roll-up
// makes the alarm that has the next document leave.
func openAlarms(s *session.Session) (rollup.Alarms, error) {
	c := s.Config
	if len(c.Routes.Windowed()) == 0 {
		return nil, nil
	}
	err := c.CheckAlarms()
	if err != nil {
		return nil, fmt.Errorf("nothing was changed: %w", err)
	}

	queue, err := alarm.Open(alarm.Options{Queue: c.Queue, URL: c.QueueURL, Account: c.QueueAccount, Emulator: c.QueueHost})
	if err != nil {
		return nil, err
	}
	return queue.ForDatabase("projects/" + s.Project + "/databases/" + s.Database), nil
}

// withdraw takes away what routes that are gone have left in documents, or in a dry run only counts
// it. It returns the audit's report and error with that added.
func (a auditFlags) withdraw(ctx context.Context, s *session.Session, gone []*route.Template, r rollup.Report, before error) (rollup.Report, error) {
	left, err := withdraw(ctx, s, gone, !a.repair, a.concurrency)
	r.Counters += left
	r.Outdated += left
	if err != nil {
		return r, err
	}
	if a.repair {
		r.Removed += left
		return r, before
	}

	r.Differing += left
	if left > 0 {
		return r, errDiffering
	}
	return r, before
}

// outcome returns the error with which the command ends.
func (a auditFlags) outcome(r rollup.Report, err error) error {
	switch {
	case err != nil:
		return err
	case a.repair && r.Differing > r.Paced && r.Rerouted == 0 && r.Unwritten > 0:
		return errUnwritten
	case a.repair && r.Differing > r.Paced:
		return errRerouted
	case a.repair && r.Paced > 0:
		return errPaced
	case r.Unkept > 0:
		return errUnkept
	default:
		return nil
	}
}

// verdict returns in a sentence whether the roll-ups are right, and what is wrong with those that
// are not.
func (a auditResult) verdict() string {
	var wrong []string
	add := func(n int, what string) {
		if n > 0 {
			wrong = append(wrong, terminal.Plural(n, "counter")+" "+what)
		}
	}
	differing := fmt.Sprintf("of %d left alone", a.Counters)
	done := ""
	if repaired := a.RolledUp + a.Removed; repaired > 0 {
		done = fmt.Sprintf("; brought up to date or removed: %d%s", repaired, a.kindsText())
	}
	if a.DryRun {
		differing = fmt.Sprintf("of %d not right%s", a.Counters, a.kindsText())
	}
	add(a.Differing, differing)
	add(a.Unkept, "unkept: not rolled up until someone fixes the cause")
	add(a.Failed, "failed: they could not be looked at")
	add(a.ForeignKind, "without some of the totals, whose fields hold values of the app's")
	add(a.Malformed, "with values that do not count as finite numbers, so no sum has them")

	switch {
	case wrong != nil:
		return strings.Join(wrong, "; ") + done + "."
	case a.Counters == 0:
		return "There are no counters."
	case a.Counters == 1:
		return "The only counter is right" + done + "."
	default:
		return fmt.Sprintf("All %d counters are right%s.", a.Counters, done)
	}
}

// kindsText says in parentheses what differences there are, or were before the repair.
func (a auditResult) kindsText() string {
	var kinds []string
	for _, kind := range []struct {
		n    int
		name string
	}{{a.Drift, "drift"}, {a.Lapsed, "lapsed"}, {a.Late, "late"}, {a.Missing, "missing"}, {a.Orphaned, "orphaned"}, {a.Rerouted, "rerouted"}, {a.Outdated, "outdated"}, {a.Unwritten, "unwritten"}} {
		if kind.n > 0 {
			kinds = append(kinds, fmt.Sprintf("%s %d", kind.name, kind.n))
		}
	}
	if kinds == nil {
		return ""
	}
	return " (" + strings.Join(kinds, ", ") + ")"
}

// printAudited prints a sentence, and if verbose each number.
func printAudited(s *session.Session, a auditResult, verbose bool) error {
	unwritten := terminal.Cells("")
	if a.Unwritten > 0 {
		unwritten += terminal.Cells(fmt.Sprintf("unwritten\t%d\tsuch as %s, which no roll-up wrote\n", a.Unwritten, terminal.Shown(a.UnwrittenExample)))
	}
	if a.ForeignKind > 0 {
		unwritten += terminal.Cells(fmt.Sprintf("foreign kind\t%d\tsuch as %s; give the total another name by \"as\", or clear the field\n", a.ForeignKind, terminal.Shown(a.ForeignKindExample)))
	}
	if !verbose {
		return s.Print(a, "%s\n%sbilled %s", a.verdict(), unwritten, price(a.Billed))
	}
	note := terminal.Cells("")
	if a.DryRun && a.Missing > 0 { // only writing it tells which of the two it is
		note = "\tnew, or a document without room for totals: --repair tells"
	}
	left := terminal.Cells("")
	if a.Paced > 0 {
		left = terminal.Cells(fmt.Sprintf("\t%d of them were rolled up less than a cadence ago", a.Paced))
	}
	var elsewhere int64
	for _, f := range a.Foreign {
		elsewhere += f.Documents
	}
	return s.Print(a, "%s\n\ncounters\t%d\nrolled up\t%d\nunchanged\t%d\nremoved\t%d\ndiffering\t%d%s\nfailed\t%d\n\n"+
		"drift\t%d\nlapsed\t%d\nlate\t%d\nmissing\t%d%s\norphaned\t%d\nrerouted\t%d\noutdated\t%d\nmalformed\t%d\nunkept\t%d\nforeign\t%d\n%s\nbilled\t%s",
		a.verdict(), a.Counters, a.RolledUp, a.Unchanged, a.Removed, a.Differing, left, a.Failed,
		a.Drift, a.Lapsed, a.Late, a.Missing, note, a.Orphaned, a.Rerouted, a.Outdated, a.Malformed, a.Unkept, elsewhere, unwritten, price(a.Billed))
}

// auditOptions returns the options of an audit by a command. It works as RollUpOnSchedule's does,
// with two exceptions: it begins with the first counter, and it leaves roll-ups alone that other
// routes made.
func auditOptions(c config.Config, logger *slog.Logger) rollup.AuditOptions {
	o := c.AuditOptions(logger)
	o.KeepRerouted, o.FromFirst = true, true
	return o
}

// audit compares all roll-ups of the routes with their shards. In a dry run the error is
// errDiffering if any differs.
func audit(ctx context.Context, s *session.Session, routes route.Routes, o rollup.AuditOptions) (rollup.Report, error) {
	defer s.Stop()
	var waiting sync.Once
	o.Progress = func(r rollup.Report) {
		if r.Waiting > 0 {
			waiting.Do(func() {
				fmt.Fprintf(s.Logs, "some roll-ups differ, perhaps because their events are on the way: looking again in %v (--grace of tally audit sets another time)\n", o.Grace)
			})
			s.Progress.Describe(fmt.Sprintf("auditing; %d that differ are looked at again", r.Waiting))
		}
		s.Report(r.Counters, terminal.Unknown)
	}

	r, err := rollup.Audit(ctx, s.Store, routes, o)
	if err == nil && o.DryRun && r.Differing > 0 {
		err = errDiffering
	}
	return r, err
}

// printRoutes tells the routes that a command works by, unless its notice has told them.
func printRoutes(logs io.Writer, d session.Decision) {
	if !d.Assumed {
		fmt.Fprintf(logs, "routes, %s: %s\n", d.From, strings.ReplaceAll(d.Config.Routes.String(), "\n", "; "))
	}
}
