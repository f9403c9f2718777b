package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/firestore-tally/tally/internal/billing"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/shards"
	"github.com/spf13/cobra"
)

// counterCommands returns the commands on counters.
func counterCommands() []*cobra.Command {
	return []*cobra.Command{
		createCommand(), incrementCommand(), getCommand(), watchCommand(), listCommand(), resizeCommand(),
		setCommand(), importCommand(), carryCommand(), freezeCommand(), unfreezeCommand(), deleteCommand(), auditCommand(), dashboardCommand(),
	}
}

func createCommand() *cobra.Command {
	t := target{makes: true, adds: true, endless: true}
	var n int
	var oncePerUser, yes bool
	c := &cobra.Command{
		Use:   "create COUNTER",
		Short: "Create a counter and its shards",
		Long: `Create a counter with all its shards, each 0. A counter that exists loses nothing, and one with another number of shards is refused.
Apps that create shards when they are first needed do not need it, but for votes: with --once-per-user, firestore.rules let each user write one
shard, the user's own, to 1 and back to 0.`,
		Example: `  tally create likes
  tally create likes --num-shards 50
  tally create posts/7/counters/likes --routes 'posts/{post}/counters/{name}/shards/{shard} -> posts/{post}/rollups/{name} : count'
  tally create votes --once-per-user`,
	}
	c.Flags().IntVar(&n, "num-shards", shards.DefaultNumShards, "number of shards; each sustains about one increment a second")
	c.Flags().BoolVar(&oncePerUser, "once-per-user", false, "a counter of votes: each user has one; not for a counter that has counted anything")
	c.Flags().BoolVar(&yes, "yes", false, fmt.Sprintf("create more than %d shards without a question", manyShards))
	c.MarkFlagsMutuallyExclusive("num-shards", "once-per-user")
	return t.sourceCommand(c, func(ctx context.Context, c counter, r *rollup.Route, _ []string) error {
		if oncePerUser {
			if err := t.shards(c, r, r.Totals[0].Field, n).CreateOncePerUser(ctx); err != nil {
				return err
			}
			return t.print(map[string]any{"counter": c.path, "once_per_user": true}, "%s\tonce per user", c.path)
		}
		fields := r.Fields()
		cost := billing.Counts{Reads: 1, Writes: int64(n*len(fields) + 1)}
		if err := t.mayGrow(ctx, yes, c, r, n, cost); err != nil {
			return err
		}
		for _, field := range fields {
			t.begin("creating shards", "shards", n, "The counter counts already. The same command makes the rest.")
			if err := t.shards(c, r, field, n, shards.Progress(t.report)).Create(ctx, n); err != nil {
				return err
			}
		}
		return t.print(map[string]any{"counter": c.path, "num_shards": n}, "%s\t%d shards", c.path, n)
	})
}

// mayGrow asks before a counter gets many shards at that cost.
func (t *target) mayGrow(ctx context.Context, yes bool, c counter, r *rollup.Route, n int, cost billing.Counts) error {
	return t.confirm(ctx, yes || n <= manyShards, "%s would get %d shards: %d writes, $%.4f at list price; and each roll-up, up to one a second while the counter changes, would bill %d reads. Go on?",
		c.path, n, cost.Writes, cost.Cost(), (n+indexEntriesPerRead-1)/indexEntriesPerRead*len(r.Fields()))
}

// manyShards is beyond how many shards create and resize ask: 1,000 carry about 1,000 increments a
// second, and are a read for each roll-up.
const manyShards = 1000

// indexEntriesPerRead is how many shards an aggregation reads for the price of one document.
const indexEntriesPerRead = 1000

func incrementCommand() *cobra.Command {
	t := target{adds: true}
	var by, token string
	c := &cobra.Command{
		Use:   "increment COUNTER",
		Short: "Add to a counter",
		Long: `Add to one shard of a counter, picked at random, and show the total of all. With --once, however often the command is repeated with one token, the counter is
incremented once. The total bills one read per 1,000 shards.`,
		Example: `  tally increment likes
  tally increment likes --by -3
  tally increment likes --once order-4711
  tally increment posts/7 --total views --routes 'posts/{post}/shards/{shard} -> posts/{post} : likes, views : existing'`,
	}
	c.Flags().StringVar(&by, "by", "1", "how much to add; an integer, or a decimal with a point, such as 0.5, which makes the total a double")
	c.Flags().StringVar(&token, "once", "", "token of this increment; it is remembered for a week, and longer without a TTL policy on increment_tokens")
	once := c.Flags().Lookup("once")
	return t.totalCommand(c, func(ctx context.Context, c counter, s *shards.Counter, _ []string) error {
		amount, err := numberIn(by)
		if err != nil {
			return fmt.Errorf("--by %s: %w", by, err)
		}
		var committed time.Time
		applied := true
		n, integer := amount.(int64)
		switch {
		case once.Changed && !integer: // an empty token too: it may be a variable that is not set
			return fmt.Errorf("--by %s: --once takes integers only", by)
		case once.Changed:
			applied, committed, err = s.IncrementOnce(ctx, token, n)
			if errors.Is(err, shards.ErrToken) {
				err = fmt.Errorf("--once %q: %w", token, err)
			}
		case integer:
			committed, err = s.Increment(ctx, n)
		default:
			committed, err = s.IncrementFloat(ctx, amount.(float64))
		}
		if err != nil {
			return err
		}
		note := cells("")
		if !applied {
			note = "\tbefore: the token was known"
		}
		total := any("not known") // which is no failure: it is added, and must not be added again
		if sum, err := s.Get(ctx); err == nil {
			total = number(sum)
		}
		return t.print(map[string]any{"counter": c.path, "total": total, "by": amount, "applied": applied, "committed": committed},
			"%s\t%v\tadded %v\tcommitted %s%s", c.path, total, amount, committed.Format(time.RFC3339Nano), note)
	})
}

// numberIn returns the int64 or the float64 that text is. A double has a point: a total that was an
// integer is not to become a double for the way a number is written, as by 1e3.
func numberIn(text string) (any, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !strings.Contains(text, ".") {
		return nil, errors.New("want an integer within 64 bits, or a decimal with a point, such as 0.5")
	}
	return f, nil
}

func getCommand() *cobra.Command {
	var t target
	c := &cobra.Command{
		Use:   "get COUNTER",
		Short: "Show a counter's totals and its roll-up",
		Long: `Show what a counter's shards add up to now, or how many documents there are, and what its roll-up says, all in one snapshot. It bills
one read per 1,000 shards for each total, and a few more.`,
		Example: `  tally get likes
  tally get posts/7 --routes 'posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing'
  tally get likes --json | jq .totals.count`,
	}
	return t.counterCommand(c, viewer, func(ctx context.Context, c counter, _ []string) error {
		store, err := t.store(ctx, slog.New(slog.NewTextHandler(t.logs, nil)))
		if err != nil {
			return err
		}
		defer store.Close()
		snapshot, err := store.View(ctx, c.Counter)
		if err != nil {
			return err
		}
		sum, err := snapshot.Sum(ctx)
		if err != nil {
			return err
		}
		note, text := cells(""), cells("none; do Tally's functions run?")
		if sum.Malformed > 0 {
			note = cells(fmt.Sprintf("\twithout %d that are no finite numbers", sum.Malformed))
		}
		lack, err := t.lacking(ctx, c, sum)
		if err != nil {
			return err
		}
		note += lack
		if c.frozen {
			note += "\tfrozen"
		}
		r := rollUpOf(snapshot.RollUp(), snapshot.ReadTime())
		if r != nil {
			text = r.cells()
		}
		return t.print(map[string]any{"counter": c.path, "totals": totals(sum.Sums), "malformed": sum.Malformed, "frozen": c.frozen, "rollup": r},
			"%s\t%v%s\nroll-up\t%s", c.path, totals(sum.Sums), note, text)
	})
}

// lacking says which fields no shard has, of sources that have shards all the same.
func (t *target) lacking(ctx context.Context, c counter, sum rollup.Totals) (note cells, err error) {
	for i, r := range c.Template.Routes {
		if r.Counts() || sum.Shards[i] > 0 {
			continue
		}
		shard, err := t.client.Collection(r.Shards(c.Counter)).Limit(1).Documents(ctx).GetAll()
		if err != nil {
			return "", err
		}
		if len(shard) > 0 {
			has := slices.Sorted(maps.Keys(shard[0].Data()))
			note += "\t" + cells(shown(fmt.Sprintf("no shard has the field %s; one has %s", strings.Join(r.Fields(), " or "), cmp.Or(strings.Join(has, ", "), "none"))))
		}
	}
	return note, nil
}

func resizeCommand() *cobra.Command {
	t := target{endless: true}
	var renumber, yes bool
	c := &cobra.Command{
		Use:   "resize COUNTER NUM_SHARDS",
		Short: "Change the number of shards, up or down",
		Long: `Change a counter's number of shards while clients go on incrementing. The total never changes. Downwards, each surplus shard is folded into
another. Clients must know the new number: firestore.rules refuse them other shards. Under other rules they may create a surplus shard again, which counts, and which resizing again folds. Shards with other ids than
numbers stay, but with --renumber they are folded too: for apps in which each client writes a shard of its own, such as those of Firebase's firestore-counter
extension.`,
		Example: `  tally resize likes 50
  tally resize pages/hello 10 --renumber --routes 'pages/{page}/_counter_shards_/{shard} -> page_totals/{page} : visits'`,
	}
	c.Flags().BoolVar(&yes, "yes", false, fmt.Sprintf("grow beyond %d shards without a question", manyShards))
	c.Flags().BoolVar(&renumber, "renumber", false, "fold all shards but 0 to NUM_SHARDS-1, whatever their ids")
	return t.sourceCommand(c, func(ctx context.Context, c counter, r *rollup.Route, args []string) error {
		n, err := strconv.Atoi(args[0])
		if err != nil {
			return fmt.Errorf("%q is not a number of shards", args[0])
		}
		s := t.shards(c, r, r.Totals[0].Field, n, shards.Progress(t.report))
		was := 0
		if above(r.Shards(c.Counter)) != "" { // else no document knows
			was, _ = s.NumShards(ctx) // what is no number is replaced
			if err := t.mayGrow(ctx, yes || n <= was, c, r, n, billing.Counts{Reads: int64(n + 1), Writes: int64(n - was + 1)}); err != nil {
				return err
			}
		}
		t.begin("resizing: shards", "shards", unknown, "The total is right at every step, and so it is now. The same command goes on from here.")
		resize := s.Resize
		if renumber {
			resize = s.Renumber
		}
		if err := resize(ctx, n); err != nil {
			return err
		}
		note := cells("")
		if was > 0 {
			note = cells(fmt.Sprintf("\twas %d", was))
		}
		return t.print(map[string]any{"counter": c.path, "num_shards": n, "was": was}, "%s\t%d shards%s", c.path, n, note)
	})
}

// printReplacement prints what became of a total.
func (t *target) printReplacement(c counter, r shards.Replacement) error {
	return t.print(map[string]any{"counter": c.path, "was": number(r.Was), "total": number(r.Now), "as_of": r.AsOf},
		"%s\t%v\twas %v\tas of %s", c.path, r.Now, r.Was, r.AsOf.Format(time.RFC3339Nano))
}

// replaceKept is what is true of a total that was being replaced.
const replaceKept = "The total may be one in between, until the same command has come to its end."

const replaceLong = ` Increments that land meanwhile count on top. Atomic up to 498 shards; a larger counter shows
totals in between until it is done.`

func setCommand() *cobra.Command {
	t := target{endless: true}
	var yes bool
	c := &cobra.Command{
		Use:   "set COUNTER NUMBER",
		Short: "Give a counter another total",
		Long: `Give a counter another total, an integer or a decimal with a point, by compensating increments, and say what it was. Of a counter that is once per user, 0
deletes all votes.` + replaceLong,
		Example: `  tally set likes 1200
  tally set likes 0 --yes
  tally set likes -5`,
	}
	c.Flags().BoolVar(&yes, "yes", false, "set a total to 0 without a question")
	return t.totalCommand(c, func(ctx context.Context, c counter, s *shards.Counter, args []string) error {
		total, err := numberIn(args[0])
		if err != nil {
			return fmt.Errorf("%q is not a total: %w", args[0], err)
		}
		if total == int64(0) || total == 0.0 {
			was, err := s.Get(ctx)
			if err != nil {
				return err
			}
			if was.Float64() != 0 {
				if err := t.confirm(ctx, yes, "%s of project %s is %v, and would be 0. Go on?", c.path, t.project, was); err != nil {
					return err
				}
			}
		}
		t.begin("setting: writes", "writes", unknown, replaceKept)
		var r shards.Replacement
		if n, ok := total.(int64); ok {
			r, err = s.Set(ctx, n)
		} else {
			r, err = s.SetFloat(ctx, total.(float64))
		}
		if err != nil {
			return err
		}
		return t.printReplacement(c, r)
	})
}
