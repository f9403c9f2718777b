package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"sync/atomic"

	"github.com/firestore-tally/tally/internal/cloud/billing"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/tool/terminal"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/firestore-tally/tally/shards"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
)

func deleteCommand() *cobra.Command {
	meter := billing.NewMeter(nil)
	var pattern string
	var dryRun bool
	c := newCommand("delete [COUNTER]")
	c.Args = func(_ *cobra.Command, args []string) error {
		if len(args) > 1 || (len(args) == 1) == (pattern != "") {
			return errors.New("name a COUNTER, or counters by --matching")
		}
		if dryRun && pattern == "" {
			return errors.New("--dry-run is for --matching")
		}
		return nil
	}

	c.Flags().StringVar(&pattern, "matching", "", "all counters whose paths match, such as 'counters/spam-*'")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "list the counters that match, and delete nothing")
	return databaseCommand{
		writes:  true,
		dry:     &dryRun,
		asks:    "do not ask",
		endless: true,
		dial:    meter.DialOptions(),
		run: func(ctx context.Context, s *session, args []string) error {
			if pattern != "" {
				return deleteMatching(ctx, s, pattern, dryRun, meter)
			}
			return deleteOne(ctx, s, args[0])
		},
	}.define(c)
}

func deleteOne(ctx context.Context, s *session, arg string) error {
	c, r, err := s.existingSource(ctx, arg)
	if err != nil {
		return err
	}
	what := "the counter %s of project %s with all documents of %s"
	if c.Template.Existing {
		what = "the shards of %s of project %s, all documents of %s"
	}
	if err := s.confirm(ctx, "Delete "+what+", forever?", c.path, s.project, r.Shards(c.Counter)); err != nil {
		return err
	}

	s.begin("deleting", "shards", terminal.Unknown, "The total is that of the rest. The same command goes on from here.")
	n, declared, err := s.deleteShards(ctx, c, r)
	if err != nil {
		return err
	}

	text := "deleted\t" + plural(n, "shard")
	if n == 0 && !declared {
		text = "nothing was left to delete"
	}
	return s.print(map[string]any{"counter": c.path, "deleted": n > 0 || declared, "shards": n}, "%s\t%s", c.path, cells(text))
}

// deleteShards deletes the shards of a counter's source, and the counter's document with them. If
// another source below that document has shards, the document says how many these are, too, so it
// stays as it is.
func (s *session) deleteShards(ctx context.Context, c counter, r *route.Route, options ...shards.Option) (n int, declared bool, err error) {
	other, err := s.sharing(ctx, r.Shards(c.Counter))
	if err != nil {
		return 0, false, err
	}
	if other != "" {
		fmt.Fprintf(s.logs, "tally: %s still says how many shards there are, because %s has some\n", above(other), other)
		options = append(options, shards.NumShards(1)) // any number: Delete then leaves the document alone
	}
	return s.shards(c, r, r.Totals[0].Field, 1, options...).Delete(ctx)
}

// sharing returns another collection of shards that is below the same document as a collection and
// is not empty; "" if there is none.
func (s *session) sharing(ctx context.Context, collection string) (string, error) {
	doc := above(collection)
	if doc == "" {
		return "", nil
	}

	for _, r := range s.config.Routes {
		pattern := r.Pattern()
		other := doc + "/" + pattern[len(pattern)-2].Name
		_, ok := r.Counter(other)
		if !ok || !r.HasShards() || other == collection {
			continue
		}

		docs, err := s.client.Collection(other).Select().Limit(1).Documents(ctx).GetAll()
		if err != nil {
			return "", err
		}
		if len(docs) > 0 {
			return other, nil
		}
	}
	return "", nil
}

// deleted is the answer of tally delete --matching in JSON.
type deleted struct {
	Counters []listed       `json:"counters"` // that match, with what their shards add up to
	Cost     billing.Counts `json:"cost"`     // of their deletion
	Dollars  float64        `json:"dollars"`  // list price of the cost in billing.PriceRegion
	DryRun   bool           `json:"dry_run"`
	Deleted  int64          `json:"deleted"` // counters
	Shards   int64          `json:"shards"`  // of these
	Billed   billing.Counts `json:"billed"`  // in all
}

// deletedAtOnce is how many counters are in work at once.
const deletedAtOnce = 16

// deleteMatching deletes the counters that match a pattern. The meter counts what the command
// bills.
func deleteMatching(ctx context.Context, s *session, pattern string, dryRun bool, meter *billing.Meter) error {
	if _, err := path.Match(pattern, ""); err != nil {
		return fmt.Errorf("--matching %q: %w", pattern, err)
	}
	found, err := findMatching(ctx, s, pattern)
	if err != nil {
		return err
	}
	if len(found) == 0 && !s.json {
		return s.print(nil, "no counter with shards matches %s", pattern)
	}

	var numShards int64
	for _, f := range found {
		numShards += f.RollUp.Tally.NumShards
	}
	documents := numShards + int64(len(found))
	cost := billing.Counts{Reads: documents, Deletes: documents}
	result := deleted{Counters: listedOf(s.config, found), Cost: cost, DryRun: dryRun}
	result.Dollars = result.Cost.Cost()

	deletes := len(found) > 0 && !dryRun
	if !s.json || deletes && !s.yes { // the user sees what the question is about
		fmt.Fprintf(s.text(), "%s\n%s with %s; to delete them bills %s, without the roll-ups that follow\n",
			terminal.Table(string(tableOf(found, result.Counters))), plural(len(found), "counter"), plural(numShards, "shard"), price(result.Cost))
	}
	if deletes {
		err := s.confirm(ctx, "Delete %s of project %s, forever?", plural(len(found), "counter"), s.project)
		if err != nil {
			return err
		}
		result.Deleted, result.Shards, err = deleteAll(ctx, s, found)
		if err != nil {
			return errors.Join(err, printDeleted(s, result, meter))
		}
	}

	if dryRun && !s.json {
		return nil
	}
	return printDeleted(s, result, meter)
}

func printDeleted(s *session, r deleted, meter *billing.Meter) error {
	r.Billed = meter.Counts()
	return s.print(r, "deleted\t%s\t%s\nbilled\t%s", plural(r.Deleted, "counter"), plural(r.Shards, "shard"), price(r.Billed))
}

// findMatching returns the counters that match a pattern and have shards. The roll-up of each is
// what its shards add up to.
func findMatching(ctx context.Context, s *session, pattern string) (matching []rollup.FoundCounter, err error) {
	s.begin("looking through", "counters", terminal.Unknown, "Looking changes nothing.")
	defer s.stop()
	looked := 0
	for _, r := range s.config.Routes {
		if len(r.Template.Routes) > 1 || !r.HasShards() {
			continue // no command deletes their counters as a whole
		}
		next := ""
		for {
			page, err := s.store.Counters(ctx, r, next, 300)
			if err != nil {
				return nil, err
			}
			looked += len(page.Found)
			counters := slices.DeleteFunc(page.Found, func(f rollup.FoundCounter) bool {
				matches, _ := path.Match(pattern, nameOf(s.config.Routes, f.Counter))
				return !matches
			})
			if err := sumAll(ctx, s.store, counters); err != nil {
				return nil, err
			}
			matching = append(matching, counters...)
			s.report(looked, terminal.Unknown)

			if page.Next == "" {
				break
			}
			next = page.Next
		}
	}

	isGone := func(f rollup.FoundCounter) bool { return f.RollUp.Tally.NumShards == 0 }
	return slices.DeleteFunc(matching, isGone), nil
}

// sumAll replaces each counter's roll-up by the sums of its shards.
func sumAll(ctx context.Context, store rollup.Store, counters []rollup.FoundCounter) error {
	summing, ctx := errgroup.WithContext(ctx)
	summing.SetLimit(deletedAtOnce)
	for i := range counters {
		summing.Go(func() (err error) {
			counters[i].RollUp, err = sumOf(ctx, store, counters[i].Counter)
			return err
		})
	}
	return summing.Wait()
}

// sumOf returns a roll-up with the sums of a counter's shards.
func sumOf(ctx context.Context, store rollup.Store, c route.Counter) (rollup.RollUp, error) {
	snapshot, err := store.View(ctx, c)
	if err != nil {
		return rollup.RollUp{}, err
	}
	totals, err := snapshot.Sum(ctx)
	if err != nil {
		return rollup.RollUp{}, err
	}
	tally := document.Tally{AsOf: snapshot.ReadTime(), NumShards: totals.NumShards(), Totals: c.Template.Totals()}
	return rollup.RollUp{Values: totals.Values, Tally: tally}, nil
}

// deleteAll deletes the counters. It returns how many counters and shards it deleted. When ctx
// ends, it finishes the counters in work and begins no other.
func deleteAll(ctx context.Context, s *session, found []rollup.FoundCounter) (counters, numShards int64, err error) {
	s.begin("deleting", "counters", len(found), "None is deleted by half. The same command goes on from here.")
	defer s.stop()
	var done, gone atomic.Int64
	var deleting errgroup.Group
	deleting.SetLimit(deletedAtOnce)
	for _, f := range found {
		if ctx.Err() != nil {
			break
		}
		deleting.Go(func() error {
			c := newCounter(f.Counter, f.Template.Routes...)
			n, _, err := s.deleteShards(context.WithoutCancel(ctx), c, c.sources[0], shards.Progress(func(int, int) {}))
			if err != nil {
				return err
			}
			gone.Add(int64(n))
			s.report(int(done.Add(1)), len(found))
			return nil
		})
	}
	err = deleting.Wait()

	left := len(found) - int(done.Load())
	if err != nil {
		err = fmt.Errorf("%d of %d counters are left; the same command goes on from here: %w", left, len(found), err)
	} else if left > 0 {
		err = context.Cause(ctx)
	}
	return done.Load(), gone.Load(), err
}
