package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"sync/atomic"

	"github.com/firestore-tally/tally/internal/billing"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/firestorestore"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/shards"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
)

// A deletion is one run of tally delete.
type deletion struct {
	target
	meter       *billing.Meter
	pattern     string
	dryRun, yes bool
}

func deleteCommand() *cobra.Command {
	d := deletion{meter: billing.NewMeter(nil)}
	d.target = target{endless: true, dial: d.meter.DialOptions(), reads: func() bool { return d.dryRun }}
	c := &cobra.Command{
		Use:   "delete [COUNTER]",
		Short: "Delete a counter and its shards, or all counters of a pattern",
		Long: `Delete a counter's document and all its shards. Its roll-up goes to 0 by Tally's functions, which remove it an hour later. An increment that comes later creates a
shard again and counts, so freeze the counter first; it is frozen until its document is deleted, after the shards.

--matching deletes all counters whose path, as tally ls prints it, matches a pattern, in which * stands for any text in one id (the syntax is that of Go's path.Match). Counters
without a roll-up are found too; those with several sources are not. It lists them with what their shards add up to, says what it costs, and asks once.

Nothing is deleted on routes that are assumed.` + counterLong + changesLong,
		Example: `  tally delete likes
  tally delete --matching 'counters/spam-*' --dry-run`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) > 1 || (len(args) == 1) == (d.pattern != ""):
				return errors.New("name a COUNTER, or counters by --matching")
			case d.dryRun && d.pattern == "":
				return errors.New("--dry-run is for --matching")
			}
			return nil
		},
	}
	f := c.Flags()
	f.BoolVar(&d.yes, "yes", false, "do not ask")
	f.StringVar(&d.pattern, "matching", "", "all counters whose paths match, such as 'counters/spam-*'")
	f.BoolVar(&d.dryRun, "dry-run", false, "list the counters that match, and delete nothing")
	return d.command(c, user, func(ctx context.Context, args []string) error {
		if d.pattern != "" {
			return d.deleteMatching(ctx)
		}
		return d.deleteOne(ctx, args[0])
	})
}

func (d *deletion) deleteOne(ctx context.Context, arg string) error {
	c, err := d.named(ctx, arg)
	if err != nil {
		return err
	}
	r, err := c.source()
	if err != nil {
		return err
	}
	what := "the counter %s of project %s with all documents of %s"
	if c.Template.Existing {
		what = "the shards of %s of project %s, all documents of %s"
	}
	if err := d.confirm(ctx, d.yes, "Delete "+what+", for ever?", c.path, d.project, r.Shards(c.Counter)); err != nil {
		return err
	}
	d.begin("deleting shards", "shards", unknown, "The total is that of the rest. The same command goes on from here.")
	n, declared, err := d.shards(c, r, r.Totals[0].Field, 1, shards.Progress(d.report)).Delete(ctx)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("deleted\t%d shards", n)
	if n == 0 && !declared {
		text = "nothing was left to delete"
	}
	return d.print(map[string]any{"counter": c.path, "deleted": n > 0 || declared, "shards": n}, "%s\t%s", c.path, cells(text))
}

// A deleted is what tally delete --matching answers in JSON.
type deleted struct {
	Counters []listed       `json:"counters"` // that match, with what their shards add up to
	Cost     billing.Counts `json:"cost"`     // of their deletion
	Dollars  float64        `json:"dollars"`  // list price of the cost
	DryRun   bool           `json:"dry_run"`
	Deleted  int64          `json:"deleted"` // counters
	Shards   int64          `json:"shards"`  // of these
	Billed   billing.Counts `json:"billed"`  // in all
}

// deletedAtOnce is how many counters are in work at once.
const deletedAtOnce = 16

// deleteMatching deletes the counters that match the pattern.
func (d *deletion) deleteMatching(ctx context.Context) error {
	if _, err := path.Match(d.pattern, ""); err != nil {
		return fmt.Errorf("--matching %q: %w", d.pattern, err)
	}
	found, err := d.find(ctx)
	if err != nil {
		return err
	}
	if len(found) == 0 && !d.json {
		return d.print(nil, "no counter with shards matches %s", d.pattern)
	}
	counters, text := d.table(found)
	result := deleted{Counters: counters, DryRun: d.dryRun}
	var numShards int64
	for _, f := range found {
		n := f.RollUp.Tally.NumShards
		numShards += n
		result.Cost = result.Cost.Add(billing.Counts{Reads: n + 1, Deletes: n + 1})
	}
	result.Dollars = result.Cost.Cost()
	deletes, out := len(found) > 0 && !d.dryRun, d.out
	if d.json {
		out = d.logs
	}
	if !d.json || deletes && !d.yes {
		if _, err := fmt.Fprintf(out, "%s\n%d counters with %d shards; to delete them bills %s, without the roll-ups that follow\n",
			table(string(text)), len(found), numShards, price(result.Cost)); err != nil {
			return err
		}
	}
	if deletes {
		if err = d.confirm(ctx, d.yes, "Delete these %d counters of project %s, for ever?", len(found), d.project); err != nil {
			return err
		}
		result.Deleted, result.Shards, err = d.deleteAll(ctx, found)
	}
	if result.Billed = d.meter.Counts(); d.dryRun && !d.json {
		return nil
	}
	return errors.Join(err, d.print(result, "deleted\t%d counters\t%d shards\nbilled\t%s", result.Deleted, result.Shards, price(result.Billed)))
}

// find returns the counters that match the pattern, each with what its shards add up to for a roll-up.
func (d *deletion) find(ctx context.Context) ([]rollup.Found, error) {
	store, err := d.store(ctx, slog.New(slog.NewTextHandler(d.logs, nil)))
	if err != nil {
		return nil, err
	}
	defer store.Close()
	d.begin("looking through counters", "counters", unknown, "Looking changes nothing.")
	defer d.stop()
	looked := 0
	var matching []rollup.Found
	for _, r := range d.config.Routes {
		if len(r.Template.Routes) > 1 || r.Counts() {
			continue // no command deletes their counters as a whole
		}
		for from, more := "", true; more; {
			page, err := store.Counters(ctx, r, from, 300)
			if err != nil {
				return nil, err
			}
			for _, f := range page.Found {
				if ok, _ := path.Match(d.pattern, d.name(f.Counter)); ok {
					matching = append(matching, f)
				}
			}
			looked += len(page.Found)
			d.report(looked, unknown)
			from, more = page.Next, page.Next != ""
		}
	}
	d.begin("summing counters", "counters", len(matching), "Looking changes nothing.")
	var done atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(deletedAtOnce)
	for i := range matching {
		group.Go(func() error {
			if err := sum(ctx, store, &matching[i]); err != nil {
				return err
			}
			d.report(int(done.Add(1)), len(matching))
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	counted := matching[:0]
	for _, f := range matching {
		if f.RollUp.Tally.NumShards > 0 { // else it is gone
			counted = append(counted, f)
		}
	}
	return counted, nil
}

// sum notes what a counter's shards add up to as its roll-up.
func sum(ctx context.Context, store *firestorestore.Store, f *rollup.Found) error {
	snapshot, err := store.View(ctx, f.Counter)
	if err != nil {
		return err
	}
	totals, err := snapshot.Sum(ctx)
	f.RollUp = rollup.RollUp{Sums: totals.Sums, Tally: document.Tally{AsOf: snapshot.ReadTime(), NumShards: totals.NumShards(), Totals: f.Template.Totals()}}
	return err
}

// deleteAll deletes counters, and returns how many, with how many shards. When ctx ends it finishes those in work.
func (d *deletion) deleteAll(ctx context.Context, found []rollup.Found) (counters, numShards int64, err error) {
	d.begin("deleting counters", "counters", len(found), "None is deleted by half. The same command goes on from here.")
	defer d.stop()
	var done, gone atomic.Int64
	var group errgroup.Group
	group.SetLimit(deletedAtOnce)
	for _, f := range found {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			c := newCounter(f.Counter, f.Template.Routes...)
			n, _, err := d.shards(c, c.sources[0], c.sources[0].Totals[0].Field, 1).Delete(context.WithoutCancel(ctx))
			if err != nil {
				return err
			}
			gone.Add(int64(n))
			d.report(int(done.Add(1)), len(found))
			return nil
		})
	}
	err = group.Wait()
	switch left := len(found) - int(done.Load()); {
	case err != nil:
		err = fmt.Errorf("%d of %d counters are left; the same command goes on from here: %w", left, len(found), err)
	case left > 0:
		err = context.Cause(ctx)
	}
	return done.Load(), gone.Load(), err
}
