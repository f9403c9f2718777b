package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"sync/atomic"

	"github.com/firestore-tally/tally/internal/billing"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/shards"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
)

// A deletion is one run of tally delete.
type deletion struct {
	target
	meter   *billing.Meter
	pattern string
	dryRun  bool
}

func deleteCommand() *cobra.Command {
	d := deletion{meter: billing.NewMeter(nil)}
	d.target = target{endless: true, dial: d.meter.DialOptions(), reads: func() bool { return d.dryRun }}
	c := newCommand("delete [COUNTER]")
	c.Args = func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) > 1 || (len(args) == 1) == (d.pattern != ""):
			return errors.New("name a COUNTER, or counters by --matching")
		case d.dryRun && d.pattern == "":
			return errors.New("--dry-run is for --matching")
		}
		return nil
	}
	d.asks(c, "do not ask")
	c.Flags().StringVar(&d.pattern, "matching", "", "all counters whose paths match, such as 'counters/spam-*'")
	c.Flags().BoolVar(&d.dryRun, "dry-run", false, "list the counters that match, and delete nothing")
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
	if err := d.confirm(ctx, "Delete "+what+", for ever?", c.path, d.project, r.Shards(c.Counter)); err != nil {
		return err
	}
	d.begin("deleting", "shards", unknown, "The total is that of the rest. The same command goes on from here.")
	n, declared, err := d.shards(c, r, r.Totals[0].Field, 1).Delete(ctx)
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
	var numShards int64
	for _, f := range found {
		numShards += f.RollUp.Tally.NumShards
	}
	documents := numShards + int64(len(found))
	result := deleted{Counters: counters, Cost: billing.Counts{Reads: documents, Deletes: documents}, DryRun: d.dryRun}
	result.Dollars = result.Cost.Cost()
	deletes := len(found) > 0 && !d.dryRun
	if !d.json || deletes && !d.yes {
		fmt.Fprintf(d.text, "%s\n%d counters with %d shards; to delete them bills %s, without the roll-ups that follow\n",
			table(string(text)), len(found), numShards, price(result.Cost))
	}
	if deletes {
		if err = d.confirm(ctx, "Delete these %d counters of project %s, for ever?", len(found), d.project); err != nil {
			return err
		}
		result.Deleted, result.Shards, err = d.deleteAll(ctx, found)
	}
	if result.Billed = d.meter.Counts(); d.dryRun && !d.json {
		return nil
	}
	return errors.Join(err, d.print(result, "deleted\t%d counters\t%d shards\nbilled\t%s", result.Deleted, result.Shards, price(result.Billed)))
}

// find returns the counters that match the pattern and have shards. The roll-up of each is what its
// shards add up to.
func (d *deletion) find(ctx context.Context) (matching []rollup.Found, err error) {
	d.begin("looking through", "counters", unknown, "Looking changes nothing.")
	defer d.stop()
	looked := 0
	for _, r := range d.config.Routes {
		if len(r.Template.Routes) > 1 || !hasShards(r) {
			continue // no command deletes their counters as a whole
		}
		for page, more := (rollup.Page{}), true; more; more = page.Next != "" {
			if page, err = d.store.Counters(ctx, r, page.Next, 300); err != nil {
				return nil, err
			}
			looked += len(page.Found)
			page.Found = slices.DeleteFunc(page.Found, func(f rollup.Found) bool {
				matches, _ := path.Match(d.pattern, d.name(f.Counter))
				return !matches
			})
			group, ctx := errgroup.WithContext(ctx)
			group.SetLimit(deletedAtOnce)
			for i := range page.Found {
				group.Go(func() error { return d.sum(ctx, &page.Found[i]) })
			}
			if err := group.Wait(); err != nil {
				return nil, err
			}
			matching = append(matching, page.Found...)
			d.report(looked, unknown)
		}
	}
	return slices.DeleteFunc(matching, func(f rollup.Found) bool { return f.RollUp.Tally.NumShards == 0 }), nil // they are gone
}

// sum notes what a counter's shards add up to as its roll-up.
func (d *deletion) sum(ctx context.Context, f *rollup.Found) error {
	snapshot, err := d.store.View(ctx, f.Counter)
	if err != nil {
		return err
	}
	totals, err := snapshot.Sum(ctx)
	f.RollUp = rollup.RollUp{Values: totals.Values, Tally: document.Tally{AsOf: snapshot.ReadTime(), NumShards: totals.NumShards(), Totals: f.Template.Totals()}}
	return err
}

// deleteAll deletes counters, and returns how many, with how many shards. When ctx ends it finishes
// those in work.
func (d *deletion) deleteAll(ctx context.Context, found []rollup.Found) (counters, numShards int64, err error) {
	d.begin("deleting", "counters", len(found), "None is deleted by half. The same command goes on from here.")
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
			s := d.shards(c, c.sources[0], c.sources[0].Totals[0].Field, 1, shards.Progress(func(int, int) {}))
			n, _, err := s.Delete(context.WithoutCancel(ctx))
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
