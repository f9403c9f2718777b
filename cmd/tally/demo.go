package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/rollup"
	"github.com/spf13/cobra"
)

func demoCommand() *cobra.Command {
	var d demo
	c := &cobra.Command{
		Use:   "demo",
		Short: "Prove on this machine that the roll-ups are exact, under a load of increments",
		Long: `Run everything as tally dev does, increment counters from many clients through the Go SDK, and compare each roll-up with the increments that were
acknowledged. Exits with status 0 only if all are equal. The defaults take about half a minute.`,
		Example: `  tally demo
  tally demo --kill --duplicates 0.1 --lost-acks 0.1
  tally demo --counters 1 --rate 100 --json | jq .lag_ms`,
		RunE: func(c *cobra.Command, _ []string) error {
			d.out, d.stack.logs = c.OutOrStdout(), c.ErrOrStderr()
			return d.run(c.Context())
		},
	}
	d.stack.flags(c)
	f := c.Flags()
	f.IntVar(&d.counters, "counters", 5, "counters")
	f.IntVar(&d.shards, "num-shards", 10, "shards of each counter")
	f.IntVar(&d.increments, "increments", 2000, "increments in all, each by 1")
	f.IntVar(&d.clients, "clients", 16, "clients that increment at once")
	f.Float64Var(&d.rate, "rate", 200, "increments a second, of all clients together")
	f.BoolVar(&d.kill, "kill", false, "kill -9 one functions process in the middle of the load, and start another")
	f.Float64Var(&d.stack.faults.Duplicates, "duplicates", 0, "chance that an event is delivered twice")
	f.Float64Var(&d.stack.faults.LostAcks, "lost-acks", 0, "chance that an acknowledgement is lost, and the event is delivered again")
	f.Uint64Var(&d.stack.faults.Seed, "seed", 1, "seed of the faults")
	f.BoolVar(&d.json, "json", false, "print one JSON object instead of a table, and nothing else on standard output")
	return c
}

// A demo is one run of the demo command.
type demo struct {
	stack      stackOptions
	counters   int
	shards     int
	increments int
	clients    int
	rate       float64
	kill       bool
	json       bool
	out        io.Writer
}

// A result is what a demo found. Its JSON form is documented in docs/cli.md.
type result struct {
	Increments   int              `json:"increments"`
	Acknowledged int              `json:"acknowledged"`
	InDoubt      int64            `json:"in_doubt"`
	Expected     map[string]int64 `json:"expected"`
	RolledUp     map[string]int64 `json:"rolled_up"`
	Exact        bool             `json:"exact"`

	Lag      lag       `json:"lag_ms"`
	QuietLag *quietLag `json:"quiet_lag_ms,omitempty"` // nil: there were no lone increments

	Events      int   `json:"events"`
	Redelivered int   `json:"redelivered"`
	RollUps     int64 `json:"rollup_writes"`
	Reads       int64 `json:"reads"`

	Seen            int     `json:"rollups_seen"`
	WritesPerSecond int     `json:"writes_per_counter_per_second_max"` // of those seen
	Seconds         float64 `json:"seconds"`

	wrong map[string]bool // counters whose roll-up is not what it must be
}

// A lag is from an increment's commit to the moment when a listener sees a roll-up that covers it,
// in milliseconds.
type lag struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

type quietLag struct {
	P50 float64 `json:"p50"`
}

// maxSeconds bounds the load: one that takes longer is a mistake.
const maxSeconds = 24 * 60 * 60

func (d *demo) check() error {
	for _, flag := range []struct {
		name  string
		value int
	}{{"counters", d.counters}, {"num-shards", d.shards}, {"increments", d.increments}, {"clients", d.clients}} {
		if flag.value < 1 {
			return fmt.Errorf("--%s %d: want at least 1", flag.name, flag.value)
		}
	}
	if !(d.rate > 0) {
		return fmt.Errorf("--rate %v: want more than 0 increments a second", d.rate)
	}
	if d.kill && d.load() < 2 {
		return fmt.Errorf("--kill: %d of %d increments are lone ones; want at least 2 more, to kill a process in the middle of them", d.increments-d.load(), d.increments)
	}
	if d.seconds() > maxSeconds {
		return fmt.Errorf("--rate %v: %d increments would take %.0f s; want at most %d s, a day", d.rate, d.increments, d.seconds(), maxSeconds)
	}
	for _, flag := range []struct {
		name  string
		value float64
	}{{"duplicates", d.stack.faults.Duplicates}, {"lost-acks", d.stack.faults.LostAcks}} {
		if !(flag.value >= 0 && flag.value < 1) {
			return fmt.Errorf("--%s %v: want a chance, at least 0 and below 1", flag.name, flag.value)
		}
	}
	return nil
}

var errInexact = errors.New("some roll-ups differ from the acknowledged increments")

func (d *demo) run(ctx context.Context) error {
	if err := d.check(); err != nil {
		return err
	}
	var err error
	if d.stack.folder, err = here(); err != nil {
		return err
	}
	d.stack.project = "demo-tally-" + strings.ToLower(rand.Text()[:8]) // new, so it has no documents
	d.stack.variables = []string{"TALLY_ROUTES=" + rollup.DefaultRoute, "TALLY_DATABASES=" + firestore.DefaultDatabaseID}
	d.stack.billed = true
	d.stack.logLevel, d.stack.lines = "WARN", new(lines) // what goes well needs no line
	d.stack.lines.open(d.stack.logs, "")
	defer d.stack.lines.close()
	s, err := startStack(ctx, d.stack)
	defer s.stop()
	if err != nil {
		return cmp.Or(context.Cause(ctx), err) // an interrupted start fails in many ways
	}
	limit := d.limit(s.config.Cadence)
	late := fmt.Errorf("not done after %v", limit)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, late)
	defer cancel()
	ctx, down := s.whileUp(ctx)
	defer down()
	p := newProgress(d.stack.logs, "creating counters", "increments", d.increments)
	defer p.stop()
	l := newLoad(d, s, p)
	r, err := l.run(ctx)
	p.stop()
	if err != nil {
		switch cause := context.Cause(ctx); cause {
		case nil:
			return err
		case late:
			return fmt.Errorf("%w: %s", late, l.missing())
		default:
			return cause
		}
	}
	return d.report(r)
}

// limit is how long the demo may take, once all is started: twice the time that the load should
// take, the quiet increments' waits, and some for slow machines and the last roll-ups.
func (d *demo) limit(cadence time.Duration) time.Duration {
	quiet := time.Duration(d.quietRounds()*d.counters) * idleAfter(cadence)
	return 2*time.Duration(d.seconds()*float64(time.Second)) + quiet + 10*cadence + 2*time.Minute
}

// quietRounds is how many lone increments each counter gets.
func (d *demo) quietRounds() int { return min(maxQuietRounds, d.increments/d.counters) }

// load is how many increments are not lone ones.
func (d *demo) load() int { return d.increments - d.counters*d.quietRounds() }

// seconds is how long the load takes at its rate.
func (d *demo) seconds() float64 { return float64(d.increments) / d.rate }

// report prints the result, and returns an error if it is not exact.
func (d *demo) report(r result) error {
	print := d.printTable
	if d.json {
		print = func(r result) error { return json.NewEncoder(d.out).Encode(r) }
	}
	if err := print(r); err != nil {
		return err
	}
	if !r.Exact {
		return errInexact
	}
	return nil
}

func (d *demo) printTable(r result) error {
	w := new(strings.Builder)
	fmt.Fprintln(w, "COUNTER\tINCREMENTS\tROLLED UP")
	for _, id := range sortedKeys(r.Expected) {
		mark := "exact"
		switch {
		case r.wrong[id]:
			mark = "WRONG"
		case r.Expected[id] != r.RolledUp[id]:
			mark = "exact but for increments in doubt"
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\n", id, r.Expected[id], r.RolledUp[id], mark)
	}
	fmt.Fprintln(w)
	fmt.Fprintf(w, "increments\t%d of %d acknowledged; the load took %.1f s\n", r.Acknowledged, r.Increments, r.Seconds)
	if r.InDoubt > 0 {
		fmt.Fprintf(w, "in doubt\t%d increments, of which no answer tells whether they were applied; a roll-up may hold them or not\n", r.InDoubt)
	}
	var quiet string
	if r.QuietLag != nil {
		quiet = fmt.Sprintf("; of a lone increment p50 %.0f ms", r.QuietLag.P50)
	}
	fmt.Fprintf(w, "lag\tp50 %.0f ms, p99 %.0f ms, at most %.0f ms%s\n", r.Lag.P50, r.Lag.P99, r.Lag.Max, quiet)
	fmt.Fprintf(w, "events\t%d, redelivered %d times\n", r.Events, r.Redelivered)
	fmt.Fprintf(w, "billed\t%d reads, %d writes: %.2f reads and %.2f writes per increment\n", r.Reads, r.RollUps,
		float64(r.Reads)/float64(r.Acknowledged), float64(r.RollUps)/float64(r.Acknowledged))
	fmt.Fprintf(w, "roll-ups\t%d of %d seen by listeners; of those at most %d of a counter within a second\n", r.Seen, r.RollUps, r.WritesPerSecond)
	_, err := io.WriteString(d.out, table(w.String()))
	return err
}
