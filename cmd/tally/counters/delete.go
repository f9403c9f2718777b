package counters

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"sync/atomic"

	"github.com/firestore-tally/tally/cmd/tally/command"
	"github.com/firestore-tally/tally/cmd/tally/counter"
	"github.com/firestore-tally/tally/cmd/tally/session"
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
	c := command.New("delete [COUNTER]")
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
	return session.Command{
		Writes:  true,
		Dry:     &dryRun,
		Asks:    "do not ask",
		Endless: true,
		Dial:    meter.DialOptions(),
		Run: func(ctx context.Context, s *session.Session, args []string) error {
			if pattern != "" {
				return deleteMatching(ctx, s, pattern, dryRun, meter)
			}
			return deleteOne(ctx, s, args[0])
		},
	}.Define(c)
}

func deleteOne(ctx context.Context, s *session.Session, arg string) error {
	c, r, err := s.ExistingSource(ctx, arg)
	if err != nil {
		return err
	}
	what := "the counter %s of project %s with all documents of %s"
	if c.Template.Existing {
		what = "the shards of %s of project %s, all documents of %s"
	}
	if err := s.Confirm(ctx, "Delete "+what+", forever?", c.Path, s.Project, r.Shards(c.Counter)); err != nil {
		return err
	}

	s.Begin("deleting", "shards", terminal.Unknown, "The total is that of the rest. Run the same command again to continue.")
	n, declared, err := deleteShards(ctx, s, c, r)
	if err != nil {
		return err
	}

	text := "deleted\t" + terminal.Plural(n, "shard")
	if n == 0 && !declared {
		text = "nothing was left to delete"
	}
	return s.Print(map[string]any{"counter": c.Path, "deleted": n > 0 || declared, "shards": n}, "%s\t%s", c.Path, terminal.Cells(text))
}

// deleteShards deletes the shards of a counter's source, and the counter's document with them. If
// another source below that document has shards, the document says how many these are, too, so it
// stays as it is.
func deleteShards(ctx context.Context, s *session.Session, c counter.Counter, r *route.Route, options ...shards.Option) (n int, declared bool, err error) {
	other, err := otherShards(ctx, s, r.Shards(c.Counter))
	if err != nil {
		return 0, false, err
	}
	if other != "" {
		fmt.Fprintf(s.Logs, "tally: %s still says how many shards there are, because %s has some\n", counter.Above(other), other)
		options = append(options, shards.NumShards(1)) // any number: Delete then leaves the document alone
	}
	return s.Shards(c, r, r.Totals[0].Field, 1, options...).Delete(ctx)
}

// otherShards returns another collection of shards that is below the same document as a collection
// and is not empty; "" if there is none.
func otherShards(ctx context.Context, s *session.Session, collection string) (string, error) {
	doc := counter.Above(collection)
	if doc == "" {
		return "", nil
	}

	for _, r := range s.Config.Routes {
		pattern := r.Pattern()
		other := doc + "/" + pattern.CollectionID()
		_, ok := r.Counter(other)
		if !ok || !r.HasShards() || other == collection {
			continue
		}

		docs, err := s.Client.Collection(other).Select().Limit(1).Documents(ctx).GetAll()
		if err != nil {
			return "", err
		}
		if len(docs) > 0 {
			return other, nil
		}
	}
	return "", nil
}

// deleteResult is the answer of tally delete --matching in JSON.
type deleteResult struct {
	Counters []listEntry  `json:"counters"` // that match, with what their shards add up to
	Cost     billing.Bill `json:"cost"`     // of their deletion
	Dollars  float64      `json:"dollars"`  // list price of the cost in billing.PriceRegion
	DryRun   bool         `json:"dry_run"`
	Deleted  int64        `json:"deleted"` // counters
	Shards   int64        `json:"shards"`  // of these
	Billed   billing.Bill `json:"billed"`  // in all
}

// deletedAtOnce is how many counters are in work at once.
const deletedAtOnce = 16

// deleteMatching deletes the counters that match a pattern. The meter counts what the command
// bills.
func deleteMatching(ctx context.Context, s *session.Session, pattern string, dryRun bool, meter *billing.Meter) error {
	if _, err := path.Match(pattern, ""); err != nil {
		return fmt.Errorf("--matching %q: %w", pattern, err)
	}
	found, err := findMatching(ctx, s, pattern)
	if err != nil {
		return err
	}
	if len(found) == 0 && !s.JSON {
		return s.Print(nil, "no counter with shards matches %s", pattern)
	}

	var numShards int64
	for _, f := range found {
		numShards += f.RollUp.Tally.NumShards
	}
	documents := numShards + int64(len(found))
	cost := billing.Counts{Reads: documents, Deletes: documents}.On(s.Config.Edition)
	result := deleteResult{Counters: listEntries(s.Config, found), Cost: cost, DryRun: dryRun}
	result.Dollars = cost.CostIn(billing.PriceRegion)

	deletes := len(found) > 0 && !dryRun
	if !s.JSON || deletes && !s.Yes { // the user sees what the question is about
		fmt.Fprintf(s.Text(), "%s\n%s with %s; deleting them bills %s, without the roll-ups that follow\n",
			terminal.Table(string(tableOf(found, result.Counters))), terminal.Plural(len(found), "counter"), terminal.Plural(numShards, "shard"), price(result.Cost))
	}
	if deletes {
		err := s.Confirm(ctx, "Delete %s of project %s, forever?", terminal.Plural(len(found), "counter"), s.Project)
		if err != nil {
			return err
		}
		result.Deleted, result.Shards, err = deleteAll(ctx, s, found)
		if err != nil {
			return errors.Join(err, printDeleted(s, result, meter))
		}
	}

	if dryRun && !s.JSON {
		return nil
	}
	return printDeleted(s, result, meter)
}

func printDeleted(s *session.Session, r deleteResult, meter *billing.Meter) error {
	r.Billed = meter.Usage().On(s.Config.Edition)
	return s.Print(r, "deleted\t%s\t%s\nbilled\t%s", terminal.Plural(r.Deleted, "counter"), terminal.Plural(r.Shards, "shard"), price(r.Billed))
}

// findMatching returns the counters that match a pattern and have shards. The roll-up of each is
// what its shards add up to.
func findMatching(ctx context.Context, s *session.Session, pattern string) (matching []rollup.FoundCounter, err error) {
	s.Begin("looking through", "counters", terminal.Unknown, "Looking changes nothing.")
	defer s.Stop()
	looked := 0
	for _, r := range s.Config.Routes {
		if len(r.Template.Routes) > 1 || !r.HasShards() {
			continue // no command deletes their counters as a whole
		}
		next := ""
		for {
			page, err := s.Store.Counters(ctx, r, next, 300)
			if err != nil {
				return nil, err
			}
			looked += len(page.Found)
			counters := slices.DeleteFunc(page.Found, func(f rollup.FoundCounter) bool {
				matches, _ := path.Match(pattern, NameOf(s.Config.Routes, f.Counter))
				return !matches
			})
			if err := sumAll(ctx, s.Store, counters); err != nil {
				return nil, err
			}
			matching = append(matching, counters...)
			s.Report(looked, terminal.Unknown)

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
func deleteAll(ctx context.Context, s *session.Session, found []rollup.FoundCounter) (counters, numShards int64, err error) {
	s.Begin("deleting", "counters", len(found), "No counter is half deleted. Run the same command again to continue.")
	defer s.Stop()
	var done, gone atomic.Int64
	var deleting errgroup.Group
	deleting.SetLimit(deletedAtOnce)
	for _, f := range found {
		if ctx.Err() != nil {
			break
		}
		deleting.Go(func() error {
			c := counter.New(f.Counter, f.Template.Routes...)
			n, _, err := deleteShards(context.WithoutCancel(ctx), s, c, c.Sources[0], shards.Progress(func(int, int) {}))
			if err != nil {
				return err
			}
			gone.Add(int64(n))
			s.Report(int(done.Add(1)), len(found))
			return nil
		})
	}
	err = deleting.Wait()

	left := len(found) - int(done.Load())
	if err != nil {
		err = fmt.Errorf("%d of %d counters are left; run the same command again to continue: %w", left, len(found), err)
	} else if left > 0 {
		err = context.Cause(ctx)
	}
	return done.Load(), gone.Load(), err
}
