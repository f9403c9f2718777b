package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/firestore-tally/tally/internal/app"
	"github.com/firestore-tally/tally/internal/billing"
	"github.com/firestore-tally/tally/internal/firestorestore"
	"github.com/firestore-tally/tally/rollup"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
)

// errDiffering is how audit ends when a roll-up differs and stays so.
var errDiffering = errors.New("roll-ups differ from their shards; --repair repairs them")

// audited is tally audit's answer in JSON.
type audited struct {
	rollup.Report
	DryRun  bool           `json:"dry_run"`
	Billed  billing.Counts `json:"billed"`
	Dollars float64        `json:"dollars"` // list price
	Seconds float64        `json:"seconds"`
}

func auditCommand() *cobra.Command {
	meter := billing.NewMeter(nil)
	t := target{endless: true, byRoutes: true, dial: meter.DialOptions()}
	var repair bool
	var routes string
	var grace time.Duration
	var concurrency int
	c := &cobra.Command{
		Use:   "audit",
		Short: "Compare all roll-ups with their shards, and repair them",
		Long: `Compare the roll-up of every counter with its shards, each in one snapshot, as the scheduled function does, from the first counter to the last. It names what
differs and exits with status 1; with --repair it brings that up to date, and removes roll-ups of counters that have been gone for over an hour. It bills about 5
reads a counter.

A difference may be a change whose event is on its way, so it is looked at again when --grace is over. With --repair the account needs the role ` + user + `.`,
		Example: `  tally audit
  tally audit --project my-project --repair
  tally audit --routes 'posts/{post}/counters/{name}/shards/{shard} -> posts/{post}/rollups/{name} : likes, views'
  tally audit --json | jq .drift`,
		Args: cobra.NoArgs,
	}
	f := c.Flags()
	f.BoolVar(&repair, "repair", false, "repair what differs")
	routesFlag(c, &routes)
	f.DurationVar(&grace, "grace", 0, "how long a difference is left to its event; 0: it is repaired at once (default by TALLY_CADENCE and TALLY_HOLD_LIMIT)")
	f.IntVar(&concurrency, "concurrency", 32, "counters in work at once")
	return t.command(c, viewer, func(ctx context.Context, _ []string) error {
		if concurrency < 1 || grace < 0 {
			return fmt.Errorf("--concurrency %d, --grace %v: want at least 1, and no less than 0", concurrency, grace)
		}
		if repair {
			t.role = user
		}
		config, err := configuration(routes)
		if err != nil {
			return err
		}
		if !f.Changed("grace") {
			grace = rollup.Grace(config.Cadence, config.HoldLimit)
		}
		return t.audit(ctx, meter, config, rollup.AuditOptions{Concurrency: concurrency, Grace: grace, DryRun: !repair, Whole: true})
	})
}

// routesFlag adds the flag that names the routes.
func routesFlag(c *cobra.Command, routes *string) {
	c.Flags().StringVar(routes, "routes", "", "routes, separated by semicolons (default $TALLY_ROUTES, else "+rollup.DefaultRoute+")")
}

// configuration returns the functions' configuration as this process's environment has it, with these
// routes unless they are "".
func configuration(routes string) (app.Config, error) {
	environment := make(map[string]string)
	for _, variable := range os.Environ() {
		name, value, _ := strings.Cut(variable, "=")
		environment[name] = value
	}
	if routes != "" {
		environment["TALLY_ROUTES"] = routes
	}
	config, err := app.LoadConfig(environment)
	if err != nil {
		return config, fmt.Errorf("configuration: %w", err)
	}
	return config, nil
}

func (t *target) audit(ctx context.Context, meter *billing.Meter, config app.Config, o rollup.AuditOptions) error {
	// What the scheduled function walked the last time is about what there is.
	last, err := firestorestore.New(t.client, slog.New(slog.DiscardHandler)).LoadCursor(ctx)
	if err != nil {
		return err
	}
	total := cmp.Or(last.Whole, -1) // -1: unknown
	bar := progressbar.NewOptions64(total, progressbar.OptionSetWriter(t.logs), progressbar.OptionSetVisibility(isTerminal(t.logs)),
		progressbar.OptionSetDescription("auditing"), progressbar.OptionSetItsString("documents"), progressbar.OptionShowIts(),
		progressbar.OptionShowCount(), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
	logger := slog.New(slog.NewTextHandler(beside{t.logs, bar}, nil))
	o.Options = rollup.Options{Cadence: config.Cadence, Timeout: config.HoldLimit / 2, Logger: logger}
	o.Progress = func(r rollup.Report) {
		if r.Waiting > 0 {
			bar.Describe(fmt.Sprintf("auditing; %d that differ are looked at again", r.Waiting))
		}
		if total > 0 && r.Walked > bar.GetMax64() {
			bar.ChangeMax64(r.Walked)
		}
		_ = bar.Set64(r.Walked)
	}
	store := firestorestore.New(t.client, logger)
	o.Marked = store.Marked // what is marked waits for the schedule, whatever the cadence is there
	began := time.Now()
	r, err := rollup.Audit(ctx, store, config.Routes, o)
	_ = bar.Finish()
	a := audited{Report: r, DryRun: o.DryRun, Billed: meter.Counts(), Seconds: time.Since(began).Seconds()}
	a.Dollars = a.Billed.Cost()
	printed := t.print(a, "counters\t%d\nrolled up\t%d\nunchanged\t%d\nremoved\t%d\ndiffering\t%d\nfailed\t%d\n\ndrift\t%d\nmissing\t%d\norphaned\t%d\nmalformed\t%d shards\n\nbilled\t%d reads, %d writes, %d deletes: $%.4f at list price",
		r.Counters, r.RolledUp, r.Unchanged, r.Removed, r.Differing, r.Failed, r.Drift, r.Missing, r.Orphaned, r.Malformed,
		a.Billed.Reads, a.Billed.Writes, a.Billed.Deletes, a.Dollars)
	if err == nil && r.Differing > 0 {
		err = errDiffering
	}
	return errors.Join(err, printed)
}

// beside writes lines where a progress bar is.
type beside struct {
	io.Writer
	bar *progressbar.ProgressBar
}

func (b beside) Write(p []byte) (int, error) {
	_ = b.bar.Clear()
	return b.Writer.Write(p)
}
