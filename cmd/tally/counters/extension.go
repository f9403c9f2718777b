package counters

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/firestore-tally/tally/cmd/tally/session"
	"github.com/firestore-tally/tally/internal/cloud/billing"
	"github.com/firestore-tally/tally/internal/tool/migration"
	"github.com/firestore-tally/tally/internal/tool/terminal"
	"github.com/firestore-tally/tally/rollup"
)

// A migrationRun is one run of tally migrate --from-extension.
type migrationRun struct {
	*session.Session
	dryRun         bool
	leaveUncounted bool
	concurrency    int

	plan     *migration.Plan
	migrated migrateResult
}

// migrateResult is its answer in JSON.
type migrateResult struct {
	Documents int                    `json:"documents"`
	ToDo      int                    `json:"to_do"` // documents with shards to fold or amounts to carry
	Fold      int                    `json:"fold"`  // shards
	Carry     totals                 `json:"carry"` // by field
	Uncounted []uncountedAmounts     `json:"uncounted"`
	Cost      billing.Bill           `json:"cost"` // as the first scan foretells it
	DryRun    bool                   `json:"dry_run"`
	Done      int                    `json:"done"` // documents
	Differing []migration.Difference `json:"differing"`
	LeftOut   int                    `json:"left_out"` // documents of which amounts are not counted
	Moved     totals                 `json:"moved"`    // by field: what clients added meanwhile
	RollUps   *rollup.Report         `json:"roll_ups"` // null: there were none to compare
	Billed    billing.Bill           `json:"billed"`
	Dollars   float64                `json:"dollars"` // list price in billing.PriceRegion
	Seconds   float64                `json:"seconds"`
}

// uncountedAmounts is a kind of amounts that no route counts, as JSON has it.
type uncountedAmounts struct {
	migration.Uncounted
	Amounts totals `json:"amounts"` // by field
}

// run migrates, and prints what came of it. The meter counts what the command bills.
func (m *migrationRun) run(ctx context.Context, meter *billing.Meter) error {
	if m.concurrency < 1 {
		return fmt.Errorf("--concurrency %d: want at least 1", m.concurrency)
	}
	if m.Assumed {
		return errors.New("name the routes, in tally.yaml or by --routes: one for each kind of document that the extension counts in")
	}
	printRoutes(m.Logs, m.Decision)

	began := time.Now()
	err := m.migrate(ctx)
	m.migrated.Billed, m.migrated.Seconds = meter.Usage().On(m.Config.Edition), time.Since(began).Seconds()
	m.migrated.Dollars = m.migrated.Billed.CostIn(billing.PriceRegion)
	return errors.Join(err, m.Print(m.migrated, "billed %s", price(m.migrated.Billed)))
}

// Why migrate does not begin, and how it ends when something differs.
var (
	errUncounted = errors.New("some amounts would not be counted: add routes for them, or leave them where they are by --leave-uncounted; nothing was changed")
	errMigrated  = errors.New("not everything is as it should be; run the command again, and see docs/migrate.md if that changes nothing")
)

func (m *migrationRun) migrate(ctx context.Context) error {
	plan, err := m.scan(ctx, "looking")
	if err != nil {
		return err
	}
	m.plan = plan
	m.notePlan()
	m.tellPlan()
	if err := m.checkStart(); err != nil || m.dryRun {
		return err
	}
	if m.migrated.ToDo == 0 {
		return m.check(ctx, plan)
	}

	err = m.Confirm(ctx, `
The extension must have been uninstalled in project %s for %v, or it takes the shards away again.
The documents' fields are not updated from now on until Tally writes them. Do not read them by the extension's client library any more: it adds its own shard.
Is the extension uninstalled?`, m.Project, migration.Wait)
	if err != nil {
		return err
	}
	if err := m.work(ctx); err != nil {
		return err
	}
	after, err := m.scan(ctx, "checking")
	if err != nil {
		return err
	}
	return m.check(ctx, after)
}

// checkStart returns an error if amounts would be left out by mistake, or if the extension has run
// lately and this is no dry run.
func (m *migrationRun) checkStart() error {
	if len(m.plan.Uncounted) > 0 && !m.leaveUncounted {
		return errUncounted
	}
	if !m.dryRun && m.plan.Idle > 0 && m.plan.Idle < migration.Wait {
		return fmt.Errorf("the extension ran %v ago: uninstall it, and begin %v after its last run; nothing was changed", m.plan.Idle.Round(time.Second), migration.Wait)
	}
	return nil
}

func (m *migrationRun) say(format string, args ...any) {
	fmt.Fprintf(m.Text(), format+"\n", terminal.Escaped(args)...)
}

func (m *migrationRun) scan(ctx context.Context, what string) (*migration.Plan, error) {
	m.Begin(what, "reads", terminal.Unknown, "They change nothing. The same command begins them again.")
	defer m.Stop()
	return migration.Scan(ctx, m.Client, m.Config.Routes, func(reads int64) { m.Report(int(reads), terminal.Unknown) })
}

// notePlan notes in the answer what there is to do.
func (m *migrationRun) notePlan() {
	a := &m.migrated
	a.DryRun, a.Cost = m.dryRun, m.plan.Cost().On(m.Config.Edition)
	a.Documents, a.ToDo, a.Carry = len(m.plan.Documents), len(m.plan.ToDo()), totalsOf(m.plan.Left())
	for _, d := range m.plan.Documents {
		a.Fold += d.Fold
	}

	a.Uncounted, a.Differing = []uncountedAmounts{}, []migration.Difference{} // no null in JSON
	for _, u := range m.plan.Uncounted {
		a.Uncounted = append(a.Uncounted, uncountedAmounts{u, totalsOf(u.Amounts)})
	}
}

// tellPlan says what there is to do; in a dry run, for each document too.
func (m *migrationRun) tellPlan() {
	if m.dryRun {
		for _, d := range m.plan.ToDo() {
			m.tellDocument(d)
		}
	}

	partials := 0
	for _, d := range m.plan.Documents {
		partials += d.Partials
	}
	m.say("documents  %d, with something left to do for %d", m.migrated.Documents, m.migrated.ToDo)
	m.say("to fold    %s, %d of them partial sums", terminal.Plural(m.migrated.Fold, "shard"), partials)
	m.say("to carry   %s", cmp.Or(m.migrated.Carry.list(), "nothing"))
	m.say("to bill    about %s, without the roll-ups that follow", price(m.migrated.Cost))
	if m.plan.Idle > 0 {
		m.say("extension  ran %v ago", m.plan.Idle.Round(time.Second))
	} else {
		m.say("extension  left no sign of when it ran")
	}

	for _, u := range m.migrated.Uncounted {
		m.say("NOT COUNTED: %s: %s (shards: %d; such as \"%s\")", u.What, cmp.Or(u.Amounts.list(), "no number"), u.Shards, u.Example)
	}
}

// tellDocument says what there is to do for a document.
func (m *migrationRun) tellDocument(d *migration.Document) {
	carry, then := make(totals), make(totals)
	for i := range d.Totals {
		t := &d.Totals[i]
		carry[t.Field], then[t.Field] = numeral{t.Left}, numeral{t.Expected()}
	}
	m.say("%s: fold %d of %s; carry %s; then %s", d.Path, d.Fold, terminal.Plural(d.Shards, "shard"), carry.list(), then.list())
}

func (m *migrationRun) work(ctx context.Context) error {
	m.Begin("migrating", "documents", m.migrated.ToDo, "Nothing is half done: each total is as it was or where it belongs. Run the same command again to continue.")
	err := m.plan.Run(ctx, m.Client, m.concurrency, func(done int) {
		m.migrated.Done = done
		m.Report(done, m.migrated.ToDo)
	})
	m.Stop()
	m.say("done       %s", terminal.Plural(m.migrated.Done, "document"))
	return err
}

// check compares what there is now with what was expected, and the roll-ups with the shards, if
// Tally's functions make any.
func (m *migrationRun) check(ctx context.Context, after *migration.Plan) error {
	c := m.plan.Compare(after)
	m.migrated.Differing = append(m.migrated.Differing, c.Differing...)
	m.migrated.Moved, m.migrated.LeftOut = totalsOf(c.By), c.LeftOut
	m.tellComparison(c)

	err := m.checkRollUps(ctx, after)
	if len(c.Differing) > 0 {
		err = errors.Join(err, errMigrated)
	}
	return err
}

func (m *migrationRun) tellComparison(c migration.Comparison) {
	for _, d := range c.Differing {
		m.say("DIFFERENT: %s: %s", d.Document, d.Why)
	}
	m.say("exact      %d of %s", c.Exact, terminal.Plural(c.Documents, "document"))
	if c.LeftOut > 0 {
		m.say("left out   amounts of %s, by the lines NOT COUNTED", terminal.Plural(c.LeftOut, "document"))
	}
	if c.Moved > 0 {
		m.say("moved      %s meanwhile, by %s", terminal.Plural(c.Moved, "document"), m.migrated.Moved.list())
	}
	if c.Rewritten > 0 {
		m.say("written    %s with random ids, by apps that still do; they count, and the next run folds them", terminal.Plural(c.Rewritten, "shard"))
	}
}

// checkRollUps compares the roll-ups with the shards, if there are any.
func (m *migrationRun) checkRollUps(ctx context.Context, after *migration.Plan) error {
	made, err := after.RolledUp(ctx, m.Client)
	if err != nil {
		return err
	}
	if !made {
		m.say("roll-ups   none yet: when Tally's functions are deployed, tally audit compares them")
		return nil
	}

	m.Begin("comparing", "roll-ups", terminal.Unknown, "All documents are done, and comparing changes nothing. The same command compares again.")
	o := auditOptions(m.Config, m.Logger(false))
	o.Concurrency, o.DryRun = m.concurrency, true
	r, err := audit(ctx, m.Session, after.Routes, o)
	m.migrated.RollUps = &r
	m.say("roll-ups   %d, of which %d differ from their shards", r.Counters, r.Differing)
	return err
}
