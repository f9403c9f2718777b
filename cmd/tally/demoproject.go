package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/firestore-tally/tally/cmd/tally/counters"
	"github.com/firestore-tally/tally/cmd/tally/session"
	"github.com/firestore-tally/tally/cmd/tally/settings"
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/tool/terminal"
	"github.com/firestore-tally/tally/internal/tool/trial"
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
	f.DurationVar(&p.timeout, "timeout", 10*time.Minute, "with --project: how long the functions may take for a roll-up, which right after a deployment may be ten minutes; Firestore has a tenth of it for a write")
}

// Flags of one of the two demos, which the other has no use for.
var (
	onProject     = []string{"yes", "timeout"}
	onThisMachine = []string{"counters", "kill", "duplicates", "lost-acks", "seed", "firestore-port", "functions-port", "instances", "rules"}
)

// checkFlags refuses the flags of the other demo.
func (p *projectDemo) checkFlags(c *cobra.Command) error {
	there := c.Flags().Changed("project")
	useless, why := onProject, "only with --project"
	if there {
		useless, why = onThisMachine, "not with --project"
	}
	for _, name := range useless {
		if c.Flags().Changed(name) {
			return fmt.Errorf("--%s: %s", name, why)
		}
	}

	if p.timeout <= 0 {
		return fmt.Errorf("--timeout %v: want more than 0", p.timeout)
	}
	host := os.Getenv(firestorestore.EmulatorHost)
	if there && host != "" {
		return fmt.Errorf("%s=%s: --project is not for an emulator; unset the variable", firestorestore.EmulatorHost, host)
	}
	return nil
}

// What a demo on a project writes unless the flags say otherwise.
const (
	projectIncrements = 150
	projectRate       = 5
)

// runOnProject tries the functions that are deployed in a project.
func (d *demo) runOnProject(c *cobra.Command, p projectDemo) error {
	if !c.Flags().Changed("increments") {
		d.load.Increments = projectIncrements
	}
	if !c.Flags().Changed("rate") {
		d.load.Rate = projectRate
	}
	err := d.check()
	if err != nil {
		return err
	}
	if d.load.Shards == int(counters.Auto) {
		return errors.New("--num-shards auto: not with --project")
	}
	_, chosen, err := settings.RealProject(d.stack.settings, p.project, d.logs)
	if err != nil {
		return err
	}

	ctx, project := c.Context(), chosen.ID
	t, err := d.trial(ctx, project, p)
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	fmt.Fprint(d.logs, t)
	err = terminal.Confirm(ctx, c.InOrStdin(), d.logs, p.yes, "Go on?")
	if err != nil {
		return err
	}

	progress := terminal.NewProgress(d.logs, "beginning", "writes", d.load.Increments)
	t.Stage, t.Progress = progress.Describe, func(done int) { progress.At(done, d.load.Increments) }
	report, err := t.Run(ctx)
	progress.Stop()
	return d.reportProject(t, report, err)
}

// trial reads what is deployed in the project, and returns the trial of it.
func (d *demo) trial(ctx context.Context, project string, p projectDemo) (*trial.Trial, error) {
	at := settings.EndpointsOf(ctx)
	o, err := at.SignIn(ctx)
	if err != nil {
		return nil, err
	}

	fmt.Fprintf(d.logs, "reading what there is in %s\n", project)
	deployed, err := trial.Read(ctx, project, o...)
	if err != nil {
		return nil, err
	}
	return trial.New(deployed, trial.Options{
		Load: d.load.Load, Shards: d.load.Shards, Timeout: p.timeout, Address: at.Firestore, Dial: at.Dial,
	})
}

// reportProject prints the report of a trial that ended with err. One that failed, or that is not
// exact, is an error.
func (d *demo) reportProject(t *trial.Trial, r trial.Report, err error) error {
	err = withRemedy(t, r, err)
	if err != nil {
		r.Error = err.Error()
	}

	var unprinted error
	switch {
	case d.json:
		unprinted = json.NewEncoder(d.out).Encode(r)
	case len(r.Parts) > 0: // it came as far as that
		_, unprinted = io.WriteString(d.out, terminal.Table(projectTable(r)))
	}
	if err == nil && !r.Exact {
		err = errInexact
	}
	return cmp.Or(err, unprinted)
}

// withRemedy returns the error of a trial with what fixes it.
func withRemedy(t *trial.Trial, r trial.Report, err error) error {
	err = session.Explain(err, r.Project, true)
	if errors.Is(err, trial.ErrSilent) {
		err = errors.Join(err, fmt.Errorf("this tells why:\n  tally doctor --project=%s", r.Project))
	}
	if len(r.Left) == 0 {
		return err
	}

	commands := new(strings.Builder)
	for _, c := range t.Delete(r.Left) {
		fmt.Fprintf(commands, "\n  %v", c)
	}
	return errors.Join(err, fmt.Errorf("%d of the demo's documents may be left; this deletes them:%s", len(r.Left), commands))
}

// projectTable returns the report in lines of cells.
func projectTable(r trial.Report) string {
	w := new(strings.Builder)
	fmt.Fprintln(w, "ROLL-UP\tTOTAL\tWRITTEN\tROLLED UP")
	for _, p := range r.Parts {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\n", p.RollUp, p.Total, p.Written, p.RolledUp, mark(p))
	}
	return w.String()
}

// mark says whether a total is right.
func mark(p trial.PartResult) string {
	switch {
	case !p.Exact:
		return "WRONG"
	case p.InDoubt > 0:
		return fmt.Sprintf("exact except for %d increments in doubt", p.InDoubt)
	}
	return "exact"
}
