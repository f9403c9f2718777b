package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/cmd/tally/command"
	"github.com/firestore-tally/tally/cmd/tally/counters"
	"github.com/firestore-tally/tally/cmd/tally/court"
	"github.com/firestore-tally/tally/internal/tool/load"
	"github.com/firestore-tally/tally/internal/tool/local"
	"github.com/firestore-tally/tally/internal/tool/terminal"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/firestore-tally/tally/shards"
	"github.com/spf13/cobra"
)

func demoCommand() *cobra.Command {
	var d demo
	var p projectDemo
	n := counters.NumShards(shards.DefaultNumShards)

	c := command.New("demo")
	c.RunE = func(c *cobra.Command, _ []string) error {
		d.out, d.logs = c.OutOrStdout(), c.ErrOrStderr()
		err := p.checkFlags(c)
		if err != nil {
			return err
		}
		d.load.Shards = int(n)
		if c.Flags().Changed("project") {
			return d.runOnProject(c, p)
		}
		return d.run(c.Context())
	}

	d.stack.define(c)
	p.define(c)

	f := c.Flags()
	f.IntVar(&d.load.Counters, "counters", 5, "counters")
	f.Var(&n, "num-shards", "shards of each counter; auto: 10, and more when they are needed")
	f.IntVar(&d.load.Increments, "increments", 2000, "increments in all, each by 1; with --project 150 by default")
	f.IntVar(&d.load.Clients, "clients", 16, "clients that write at once")
	f.Float64Var(&d.load.Rate, "rate", 200, "increments a second, of all clients together; with --project 5 by default")

	f.BoolVar(&d.load.Kill, "kill", false, "kill -9 one functions process in the middle of the load, and start another")
	f.Float64Var(&d.stack.Faults.Duplicates, "duplicates", 0, "chance that an event is delivered twice")
	f.Float64Var(&d.stack.Faults.LostAcks, "lost-acks", 0, "chance that an acknowledgement is lost, and the event is delivered again")
	f.Uint64Var(&d.stack.Faults.Seed, "seed", 1, "seed of the faults")

	f.BoolVar(&d.json, "json", false, "print one JSON object instead of a table, and nothing else on standard output")
	return c
}

// A demo is one run of the demo command.
type demo struct {
	stack     stackFlags
	load      local.Load
	json      bool
	out, logs io.Writer
}

func (d *demo) check() error {
	l := d.load
	for _, flag := range []struct {
		name  string
		value int
	}{{"counters", l.Counters}, {"increments", l.Increments}, {"clients", l.Clients}} {
		if flag.value < 1 {
			return fmt.Errorf("--%s %d: want at least 1", flag.name, flag.value)
		}
	}

	if !(l.Rate > 0) {
		return fmt.Errorf("--rate %v: want more than 0 increments a second", l.Rate)
	}
	seconds := float64(l.Increments) / l.Rate
	if seconds > 24*60*60 {
		return fmt.Errorf("--rate %v: %d increments would take %.0f s; want at most a day", l.Rate, l.Increments, seconds)
	}

	if l.Kill && l.Increments-l.LoneIncrements() < 2 {
		return fmt.Errorf("--kill: %d of %d increments are lone ones; want at least 2 more, to kill a process in the middle of them", l.LoneIncrements(), l.Increments)
	}

	for name, chance := range map[string]float64{"duplicates": d.stack.Faults.Duplicates, "lost-acks": d.stack.Faults.LostAcks} {
		if !(chance >= 0 && chance < 1) {
			return fmt.Errorf("--%s %v: want a chance, at least 0 and below 1", name, chance)
		}
	}
	return nil
}

var errInexact = errors.New("some roll-ups differ from what was acknowledged")

func (d *demo) run(ctx context.Context) error {
	if err := d.check(); err != nil {
		return err
	}
	folder, err := d.stack.settings.Here(d.logs)
	if err != nil {
		return err
	}

	project := "demo-tally-" + strings.ToLower(rand.Text()[:8]) // new, so it has no documents
	variables := map[string]string{"TALLY_ROUTES": route.Default, "TALLY_DATABASES": firestore.DefaultDatabaseID}
	d.stack.logs, d.stack.lines.out = d.logs, d.logs
	if err := d.stack.configure(ctx, folder, project, "WARN", variables); err != nil { // what goes well needs no line
		return err
	}

	defer d.stack.lines.close()
	d.stack.Downloads = court.Downloads(d.logs)
	d.stack.Say = func(format string, args ...any) { fmt.Fprintf(d.logs, "tally: "+format+"\n", args...) }
	seconds := float64(d.load.Increments) / d.load.Rate
	fmt.Fprintf(d.logs, "%s; then %d increments, at %v a second, take %.0f s\n", d.stack.startText(), d.load.Increments, d.load.Rate, seconds)
	s, err := local.Start(ctx, d.stack.Options)
	if err != nil {
		return cmp.Or(context.Cause(ctx), err) // an interrupted start fails in many ways
	}
	defer s.Stop()
	ctx, cancel := s.WhileUp(ctx)
	defer cancel()

	p := terminal.NewProgress(d.logs, "creating counters", "increments", d.load.Increments)
	d.load.Stage, d.load.Progress = p.Describe, func(done int) { p.At(done, d.load.Increments) }
	r, err := d.load.Run(ctx, s)
	p.Stop()
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	return d.report(r)
}

// report prints a result, as a table unless as JSON. One that is not exact is an error.
func (d *demo) report(r local.Result) error {
	write := d.printTable
	if d.json {
		write = func(r local.Result) error { return json.NewEncoder(d.out).Encode(r) }
	}
	if err := write(r); err != nil {
		return err
	}

	if !r.Exact {
		return errInexact
	}
	return nil
}

func (d *demo) printTable(r local.Result) error {
	w := new(strings.Builder)
	fmt.Fprintln(w, "COUNTER\tINCREMENTS\tROLLED UP")
	for _, id := range slices.Sorted(maps.Keys(r.Expected)) {
		mark := "exact"
		switch {
		case r.Wrong[id]:
			mark = "WRONG"
		case r.Expected[id] != r.RolledUp[id]:
			mark = "exact except for increments in doubt"
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\n", id, r.Expected[id], r.RolledUp[id], mark)
	}

	fmt.Fprintln(w)
	fmt.Fprintf(w, "increments\t%d of %d acknowledged; the load took %.1f s\n", r.Acknowledged, r.Increments, r.Seconds)
	if r.InDoubt > 0 {
		fmt.Fprintf(w, "in doubt\t%d increments, of which no answer tells whether they were applied; a roll-up may hold them or not\n", r.InDoubt)
	}

	quiet := ""
	if r.QuietLag != (load.Lag{}) {
		quiet = fmt.Sprintf("; of a lone increment p50 %.0f ms", r.QuietLag.P50)
	}
	fmt.Fprintf(w, "lag\tp50 %.0f ms, p99 %.0f ms, at most %.0f ms%s\n", r.Lag.P50, r.Lag.P99, r.Lag.Max, quiet)

	fmt.Fprintf(w, "events\t%d, redelivered %d times\n", r.Events, r.Redelivered)
	fmt.Fprintf(w, "billed\t%d reads, %d writes: %.2f reads and %.2f writes per increment\n", r.Reads, r.RollUps,
		float64(r.Reads)/float64(r.Acknowledged), float64(r.RollUps)/float64(r.Acknowledged))
	fmt.Fprintf(w, "roll-ups\t%d of %d seen by listeners; of those at most %d of a counter within a second\n", r.Seen, r.RollUps, r.WritesPerSecond)
	_, err := io.WriteString(d.out, terminal.Table(w.String()))
	return err
}
