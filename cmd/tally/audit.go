package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/firestore-tally/tally/internal/billing"
	"github.com/firestore-tally/tally/internal/config"
	"github.com/firestore-tally/tally/rollup"
	"github.com/spf13/cobra"
)

// How audit ends when a roll-up differs and stays so.
var (
	errDiffering = errors.New("roll-ups differ from their shards; --repair repairs them")
	errUnkept    = errors.New("counters cannot be rolled up until somebody mends them; the lines above say why")
	errRerouted  = errors.New("roll-ups that other routes made are left alone; RollUpOnSchedule brings those of its routes up to date")
)

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
	t := target{endless: true, dial: meter.DialOptions()}
	var repair, prune bool
	var removed string
	var grace time.Duration
	var concurrency int
	c := newCommand("audit")
	f := c.Flags()
	f.BoolVar(&repair, "repair", false, "repair what differs")
	f.BoolVar(&prune, "prune", false, "find totals that earlier routes left too; with --repair they are deleted, so first see that no revision with those routes runs, and that the app has not taken such a field over")
	f.StringVar(&removed, "removed", "", "with --prune: routes that are gone, as they were, the last of their roll-ups' documents; their totals and tally are found there")
	f.DurationVar(&grace, "grace", 0, "how long a difference is left to its event; 0: it is repaired at once (default by TALLY_CADENCE and TALLY_HOLD_LIMIT)")
	f.IntVar(&concurrency, "concurrency", config.AuditConcurrency, "counters in work at once")
	return t.command(c, viewer, func(ctx context.Context, _ []string) error {
		if concurrency < 1 || grace < 0 {
			return fmt.Errorf("--concurrency %d, --grace %v: want at least 1, and no less than 0", concurrency, grace)
		}
		t.tellRoutes()
		if repair {
			t.role = user
			if t.forbidden != nil {
				return t.forbidden
			}
		}
		if removed != "" && !prune {
			return errors.New("--removed is for --prune")
		}
		gone, err := t.removedTemplates(removed)
		if err != nil {
			return err
		}

		o := t.auditOptions()
		o.Concurrency, o.DryRun, o.Prune = concurrency, !repair, prune
		if f.Changed("grace") {
			o.Grace = grace
		}
		t.begin("auditing", "counters", unknown, "Each is compared, or brought up to date, in one step. The same command begins with the first again.")
		began := time.Now()
		r, err := t.audit(ctx, t.config.Routes, o)
		if err == nil || errors.Is(err, errDiffering) {
			left, failed := t.withdraw(ctx, gone, !repair, concurrency)
			r.Counters, r.Outdated = r.Counters+left, r.Outdated+left
			switch {
			case failed != nil:
				err = failed
			case repair:
				r.Removed += left
			case left > 0:
				r.Differing, err = r.Differing+left, errDiffering
			}
		}
		a := audited{Report: r, DryRun: !repair, Billed: meter.Counts(), Seconds: time.Since(began).Seconds()}
		a.Dollars = a.Billed.Cost()
		if err == nil && r.Differing > 0 && repair {
			err = errRerouted
		}
		if err == nil && r.Unkept > 0 {
			err = errUnkept
		}
		note := cells("")
		if !repair && r.Missing > 0 { // nothing tells until it is written
			note = "\tnew, or a document without room for totals: --repair tells"
		}
		printed := t.print(a, "counters\t%d\nrolled up\t%d\nunchanged\t%d\nremoved\t%d\ndiffering\t%d\nfailed\t%d\n\n"+
			"drift\t%d\nmissing\t%d%s\norphaned\t%d\nrerouted\t%d\noutdated\t%d\nmalformed\t%d\nunkept\t%d\n\nbilled\t%s",
			r.Counters, r.RolledUp, r.Unchanged, r.Removed, r.Differing, r.Failed, r.Drift, r.Missing, note, r.Orphaned, r.Rerouted, r.Outdated, r.Malformed, r.Unkept, price(a.Billed))
		return errors.Join(err, printed)
	})
}

// auditOptions returns how the scheduled function audits, but from the first counter on.
func (t *target) auditOptions() rollup.AuditOptions {
	o := t.config.AuditOptions(slog.New(slog.NewTextHandler(t.logs, nil)))
	o.KeepRerouted, o.FromFirst = true, true
	return o
}

// audit compares all roll-ups of the routes with their shards. In a dry run the error is
// errDiffering if any differs.
func (t *target) audit(ctx context.Context, routes rollup.Routes, o rollup.AuditOptions) (rollup.Report, error) {
	defer t.stop()
	var waiting sync.Once
	o.Progress = func(r rollup.Report) {
		if r.Waiting > 0 {
			waiting.Do(func() {
				fmt.Fprintf(t.logs, "some roll-ups differ, perhaps by events on their way: looking again in %v, or by the --grace of tally audit\n", o.Grace)
			})
			t.progress.describe(fmt.Sprintf("auditing; %d that differ are looked at again", r.Waiting))
		}
		t.report(r.Counters, unknown)
	}
	r, err := rollup.Audit(ctx, t.store, routes, o)
	if err == nil && o.DryRun && r.Differing > 0 {
		err = errDiffering
	}
	return r, err
}

func (t *target) tellRoutes() {
	if t.from != assumed { // else configure has said so
		fmt.Fprintf(t.logs, "routes, %s: %s\n", t.from, strings.ReplaceAll(t.config.Routes.String(), "\n", "; "))
	}
}
