package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/firestore-tally/tally/internal/firestorestore"
	"github.com/firestore-tally/tally/internal/trial"
	"github.com/spf13/cobra"
)

// A projectDemo is what the flags of demo say for deployed functions.
type projectDemo struct {
	project string
	yes     bool
	timeout time.Duration
}

func (p *projectDemo) define(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&p.project, "project", "", "try the functions that are deployed in this project; without it nothing leaves this machine")
	f.BoolVar(&p.yes, "yes", false, "with --project: do not ask")
	f.DurationVar(&p.timeout, "timeout", time.Minute, "with --project: how long the functions may take for a roll-up")
}

// onThisMachine are the flags that --project has no use for.
var onThisMachine = []string{"orders", "counters", "kill", "duplicates", "lost-acks", "seed", "firestore-port", "functions-port", "instances", "rules"}

// What a demo on a project does unless the flags say otherwise: it costs less than a cent.
const (
	projectIncrements = 150
	projectRate       = 5
)

var errUnlike = errors.New("the project does not do all that Tally expects; tally doctor tells more")

// runOnProject tries the deployed functions.
func (d *demo) runOnProject(c *cobra.Command, p projectDemo) error {
	ctx, flags := c.Context(), c.Flags()
	for _, name := range onThisMachine {
		if flags.Changed(name) {
			return fmt.Errorf("--%s is for the demo on this machine, not for --project", name)
		}
	}
	if os.Getenv(firestorestore.EmulatorHost) != "" {
		return fmt.Errorf("%s names an emulator; unset it, or leave --project out", firestorestore.EmulatorHost)
	}
	if !flags.Changed("increments") {
		d.load.Increments = projectIncrements
	}
	if !flags.Changed("rate") {
		d.load.Rate = projectRate
	}
	if err := d.check(); err != nil {
		return err
	}
	if p.timeout <= 0 {
		return fmt.Errorf("--timeout %v: want more than 0", p.timeout)
	}

	_, project, err := realProject(d.stack.settings, p.project, d.logs)
	if err != nil {
		return err
	}
	at := endpointsOf(ctx)
	o, err := at.signIn(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(d.logs, "reading what there is in %s\n", project)
	deployed, err := trial.Read(ctx, project, o...)
	if err != nil {
		return err
	}

	shown := newProgress(io.Discard, "", "writes", d.load.Increments)
	t, err := trial.New(deployed, trial.Options{
		Increments: d.load.Increments, Rate: d.load.Rate, Clients: d.load.Clients, Shards: d.load.Shards, Timeout: p.timeout,
		Address: at.firestore, Dial: at.dial,
		Stage:    func(name string) { shown.describe(name) },
		Progress: func(done int) { shown.at(done, d.load.Increments) },
	})
	if err != nil {
		return err
	}
	fmt.Fprint(d.logs, t)
	if err := confirm(ctx, c.InOrStdin(), d.logs, p.yes, "Go on?"); err != nil {
		return err
	}

	shown = newProgress(d.logs, "", "writes", d.load.Increments)
	report, err := t.Run(ctx)
	shown.stop()
	if len(report.Left) > 0 {
		err = errors.Join(err, fmt.Errorf("%d documents may be left; these commands delete them:\n%s", len(report.Left), t.Delete(report.Left)))
	}
	if err != nil {
		return err
	}
	return d.reportProject(ctx, report)
}

// reportProject prints the report. One that is not exact, or in which production says no, is an error.
func (d *demo) reportProject(_ context.Context, r trial.Report) error {
	var err error
	if d.json {
		err = json.NewEncoder(d.out).Encode(r)
	} else {
		_, err = io.WriteString(d.out, table(projectTable(r)))
	}
	if err != nil {
		return err
	}

	if !r.Exact {
		return errInexact
	}
	for _, q := range r.Questions {
		if q.Answer == trial.No {
			return errUnlike
		}
	}
	return nil
}

// projectTable returns the report in lines of cells.
func projectTable(r trial.Report) string {
	w := new(strings.Builder)
	fmt.Fprintln(w, "ROLL-UP\tTOTAL\tWRITTEN\tROLLED UP")
	for _, p := range r.Parts {
		mark := "exact"
		if !p.Exact {
			mark = "WRONG"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\n", p.RollUp, p.Total, p.Written, p.RolledUp, mark)
	}
	for _, s := range r.Skipped {
		fmt.Fprintf(w, "%s\tskipped: %s. This one would let it run: %s\n", s.Kind, s.Why, s.Would)
	}

	fmt.Fprintf(w, "\nlag\tp50 %.0f ms, p99 %.0f ms, at most %.0f ms, each ± %.0f ms\n", r.Lag.P50, r.Lag.P99, r.Lag.Max, r.Clock)
	fmt.Fprintf(w, "billed\there %d reads, %d writes, %d deletes; the functions at least %d reads, %d writes for %d roll-ups that were seen: $%.4f\n\n",
		r.Billed.Reads, r.Billed.Writes, r.Billed.Deletes, r.Functions.Reads, r.Functions.Writes, r.RollUps, r.Dollars)
	for _, q := range r.Questions {
		if q.Answer == trial.NotLooked {
			fmt.Fprintf(w, "%s\t%s: %s\n", q.Asks, q.Answer, q.Seen)
			continue
		}
		fmt.Fprintf(w, "%s\t%s\texpected: %s; seen: %s\n", q.Asks, q.Answer, q.Expected, q.Seen)
	}
	return w.String()
}
