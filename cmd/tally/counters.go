package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

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
	t := target{makes: true}
	var n int
	var oncePerUser bool
	c := &cobra.Command{
		Use:   "create COUNTER",
		Short: "Create a counter and its shards",
		Long: `Create a counter with all its shards, each 0. A counter that exists loses nothing, and one with another number of shards is refused.
Apps that create shards when they are first needed do not need it, but for votes: with --once-per-user, firestore.rules let each user write one
shard, the user's own, to 1 and back to 0.`,
		Example: `  tally create likes
  tally create posts/7/counters/likes --num-shards 50
  tally create votes --once-per-user`,
		Args: cobra.ExactArgs(1),
	}
	c.Flags().IntVar(&n, "num-shards", shards.DefaultNumShards, "number of shards; each sustains about one increment a second")
	c.Flags().BoolVar(&oncePerUser, "once-per-user", false, "a counter of votes: each user has one; not for a counter that has counted anything")
	c.MarkFlagsMutuallyExclusive("num-shards", "once-per-user")
	return t.sourceCommand(c, func(ctx context.Context, c counter, r *rollup.Route, _ []string) error {
		if oncePerUser {
			if err := t.shards(c, r, r.Totals[0].Field, n).CreateOncePerUser(ctx); err != nil {
				return err
			}
			return t.print(map[string]any{"counter": c.path, "once_per_user": true}, "%s\tonce per user", c.path)
		}
		for _, field := range r.Fields() {
			if err := t.shards(c, r, field, n).Create(ctx, n); err != nil {
				return err
			}
		}
		return t.print(map[string]any{"counter": c.path, "num_shards": n}, "%s\t%d shards", c.path, n)
	})
}

func incrementCommand() *cobra.Command {
	var t target
	var by, token string
	c := &cobra.Command{
		Use:   "increment COUNTER",
		Short: "Add to a counter",
		Long:  `Add to one shard of a counter, picked at random. With --once, however often the command is repeated with one token, the counter is incremented once.`,
		Example: `  tally increment likes
  tally increment likes --by -3
  tally increment likes --once order-4711
  tally increment posts/7/counters/reactions --total views`,
		Args: cobra.ExactArgs(1),
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
		note := ""
		if !applied {
			note = "\tbefore: the token was known"
		}
		return t.print(map[string]any{"counter": c.path, "by": amount, "applied": applied, "committed": committed},
			"%s\tadded %v\tcommitted %s%s", c.path, amount, committed.Format(time.RFC3339Nano), note)
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
		Args: cobra.ExactArgs(1),
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
		note, text := "", "none; do Tally's functions run?"
		if sum.Malformed > 0 {
			note = fmt.Sprintf("\twithout %d that are no finite numbers", sum.Malformed)
		}
		if c.frozen {
			note += "\tfrozen"
		}
		r := rollUpOf(snapshot.RollUp(), snapshot.ReadTime())
		if r != nil {
			text = r.String()
		}
		return t.print(map[string]any{"counter": c.path, "totals": totals(sum.Sums), "malformed": sum.Malformed, "frozen": c.frozen, "rollup": r},
			"%s\t%v%s\nroll-up\t%s", c.path, totals(sum.Sums), note, text)
	})
}

func resizeCommand() *cobra.Command {
	var t target
	var renumber bool
	c := &cobra.Command{
		Use:   "resize COUNTER NUM_SHARDS",
		Short: "Change the number of shards, up or down",
		Long: `Change a counter's number of shards while clients go on incrementing. The total never changes. Downwards, each surplus shard is folded into
another; a client that still uses the old number may create one again, which counts, and which resizing again folds. Shards with other ids than
numbers stay, but with --renumber they are folded too: for apps in which each client writes a shard of its own, such as those of Firebase's firestore-counter
extension.`,
		Example: `  tally resize likes 50
  tally resize pages/hello 10 --renumber`,
		Args: cobra.ExactArgs(2),
	}
	c.Flags().BoolVar(&renumber, "renumber", false, "fold all shards but 0 to NUM_SHARDS-1, whatever their ids")
	return t.sourceCommand(c, func(ctx context.Context, c counter, r *rollup.Route, args []string) error {
		n, err := strconv.Atoi(args[0])
		if err != nil {
			return fmt.Errorf("%q is not a number of shards", args[0])
		}
		s := t.shards(c, r, r.Totals[0].Field, n)
		resize := s.Resize
		if renumber {
			resize = s.Renumber
		}
		if err := resize(ctx, n); err != nil {
			return err
		}
		return t.print(map[string]any{"counter": c.path, "num_shards": n}, "%s\t%d shards", c.path, n)
	})
}

// printReplacement prints what became of a total.
func (t *target) printReplacement(c counter, r shards.Replacement) error {
	return t.print(map[string]any{"counter": c.path, "was": number(r.Was), "total": number(r.Now), "as_of": r.AsOf},
		"%s\t%v\twas %v\tas of %s", c.path, r.Now, r.Was, r.AsOf.Format(time.RFC3339Nano))
}

const replaceLong = ` Increments that land meanwhile count on top. Atomic up to 498 shards; a larger counter shows
totals in between until it is done.`

func setCommand() *cobra.Command {
	var t target
	c := &cobra.Command{
		Use:   "set COUNTER NUMBER",
		Short: "Give a counter another total",
		Long: `Give a counter another total, an integer or a decimal with a point, by compensating increments, and say what it was. Of a counter that is once per user, 0
deletes all votes.` + replaceLong,
		Example: `  tally set likes 1200
  tally set likes 0
  tally set likes -- -5`,
		Args: cobra.ExactArgs(2),
	}
	return t.totalCommand(c, func(ctx context.Context, c counter, s *shards.Counter, args []string) error {
		total, err := numberIn(args[0])
		if err != nil {
			return fmt.Errorf("%q is not a total: %w", args[0], err)
		}
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
