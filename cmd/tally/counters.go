package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/firestore-tally/tally/internal/firestorestore"
	"github.com/firestore-tally/tally/shards"
	"github.com/spf13/cobra"
)

// counterCommands returns the commands on counters.
func counterCommands() []*cobra.Command {
	return []*cobra.Command{
		createCommand(), incrementCommand(), getCommand(), watchCommand(), listCommand(), resizeCommand(),
		renumberCommand(), setCommand(), resetCommand(), importCommand(), carryCommand(), verifyCommand(), deleteCommand(), auditCommand(),
		dashboardCommand(),
	}
}

// shardsFlag adds the flag that names the shards' collection.
func (t *target) shardsFlag(c *cobra.Command) {
	c.Flags().StringVar(&t.shardsIn, "shards-in", "", "collection that holds the shards (default the counter's subcollection shards)")
}

// oneCounter makes c a command on a counter that exists.
func (t *target) oneCounter(c *cobra.Command, role string, run func(ctx context.Context, c counter, args []string) error) *cobra.Command {
	t.shardsFlag(c)
	return t.command(c, role, func(ctx context.Context, args []string) error {
		known, err := t.known(ctx, args[0])
		if err != nil {
			return err
		}
		return run(ctx, known, args[1:])
	})
}

func createCommand() *cobra.Command {
	var t target
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
	t.shardsFlag(c)
	return t.command(c, user, func(ctx context.Context, args []string) error {
		made := t.counter(args[0])
		if oncePerUser {
			if err := made.CreateOncePerUser(ctx); err != nil {
				return err
			}
			return t.print(map[string]any{"counter": made.path, "once_per_user": true}, "%s\tonce per user", made.path)
		}
		if err := made.Create(ctx, n); err != nil {
			return err
		}
		return t.print(map[string]any{"counter": made.path, "num_shards": n}, "%s\t%d shards", made.path, n)
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
  tally increment likes --once order-4711`,
		Args: cobra.ExactArgs(1),
	}
	c.Flags().StringVar(&by, "by", "1", "how much to add; an integer, or a decimal with a point, such as 0.5, which makes the total a double")
	c.Flags().StringVar(&token, "once", "", "token of this increment; it is remembered for a week, and longer without a TTL policy on increment_tokens")
	once := c.Flags().Lookup("once")
	return t.oneCounter(c, user, func(ctx context.Context, c counter, _ []string) error {
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
			applied, committed, err = c.IncrementOnce(ctx, token, n)
			if errors.Is(err, shards.ErrToken) {
				err = fmt.Errorf("--once %q: %w", token, err)
			}
		case integer:
			committed, err = c.Increment(ctx, n)
		default:
			committed, err = c.IncrementFloat(ctx, amount.(float64))
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
		Short: "Show a counter's total and its roll-up",
		Long:  `Show the sum of a counter's shards now, and what its roll-up says. It bills one read per 1,000 shards and a few more.`,
		Example: `  tally get likes
  tally get posts/7/counters/likes --rollup 'posts/7/rollups/{counter}'
  tally get likes --json | jq .total`,
		Args: cobra.ExactArgs(1),
	}
	return t.oneCounter(c, viewer, func(ctx context.Context, c counter, _ []string) error {
		total, err := c.Get(ctx)
		if err != nil {
			return err
		}
		var r *rollUp
		text := "unknown; --rollup names it"
		if c.rollUp != "" {
			got, err := c.RollUp(ctx)
			switch {
			case errors.Is(err, shards.ErrNoRollUp):
				text = "none; do Tally's functions run?"
			case err != nil:
				return err
			default:
				r, text = rollUpJSON(got), rollUpText(got)
			}
		}
		return t.print(map[string]any{"counter": c.path, "total": number(total), "rollup": r}, "%s\t%v\nroll-up\t%s", c.path, total, text)
	})
}

func resizeCommand() *cobra.Command {
	var t target
	c := &cobra.Command{
		Use:   "resize COUNTER NUM_SHARDS",
		Short: "Change the number of shards, up or down",
		Long: `Change a counter's number of shards while clients go on incrementing. The total never changes. Downwards, each surplus shard is folded into
another; a client that still uses the old number may create one again, which counts, and which resizing again folds. Shards with other ids than
numbers stay; tally renumber folds them too.`,
		Example: `  tally resize likes 50`,
		Args:    cobra.ExactArgs(2),
	}
	return t.resize(c, func(ctx context.Context, c counter, n int) error { return c.Resize(ctx, n) })
}

func renumberCommand() *cobra.Command {
	var t target
	c := &cobra.Command{
		Use:   "renumber COUNTER NUM_SHARDS",
		Short: "Fold shards with random ids into numbered ones",
		Long: `Resize a counter, and fold shards with any other ids too, so that they are 0 to NUM_SHARDS-1 afterwards: for apps in which each client writes a shard of its own, such
as those of Firebase's firestore-counter extension. The total never changes. A client that goes on writing such a shard creates it again, which counts.`,
		Example: `  tally renumber pages/hello 10 --shards-in pages/hello/_counter_shards_ --field visits`,
		Args:    cobra.ExactArgs(2),
	}
	return t.resize(c, func(ctx context.Context, c counter, n int) error { return c.Renumber(ctx, n) })
}

// resize makes c a command that changes the number of shards.
func (t *target) resize(c *cobra.Command, resize func(ctx context.Context, c counter, n int) error) *cobra.Command {
	return t.oneCounter(c, user, func(ctx context.Context, c counter, args []string) error {
		n, err := strconv.Atoi(args[0])
		if err != nil {
			return fmt.Errorf("%q is not a number of shards", args[0])
		}
		if err := resize(ctx, c, n); err != nil {
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
		Use:   "set COUNTER TOTAL",
		Short: "Give a counter another total",
		Long:  `Give a counter another total, an integer or a decimal with a point, by compensating increments.` + replaceLong,
		Example: `  tally set likes 1200
  tally set likes -- -5`,
		Args: cobra.ExactArgs(2),
	}
	return t.oneCounter(c, user, func(ctx context.Context, c counter, args []string) error {
		return t.set(ctx, c, args[0])
	})
}

// set sets a counter to a number in text.
func (t *target) set(ctx context.Context, c counter, text string) error {
	total, err := numberIn(text)
	if err != nil {
		return fmt.Errorf("%q is not a total: %w", text, err)
	}
	var r shards.Replacement
	if n, ok := total.(int64); ok {
		r, err = c.Set(ctx, n)
	} else {
		r, err = c.SetFloat(ctx, total.(float64))
	}
	if err != nil {
		return err
	}
	return t.printReplacement(c, r)
}

func resetCommand() *cobra.Command {
	var t target
	c := &cobra.Command{
		Use:     "reset COUNTER",
		Short:   "Set a counter to 0",
		Long:    `Set a counter to 0 by compensating increments, and say what it was.` + replaceLong,
		Example: `  tally reset likes`,
		Args:    cobra.ExactArgs(1),
	}
	return t.oneCounter(c, user, func(ctx context.Context, c counter, _ []string) error { return t.set(ctx, c, "0") })
}

func deleteCommand() *cobra.Command {
	var t target
	var yes bool
	c := &cobra.Command{
		Use:   "delete COUNTER",
		Short: "Delete a counter and its shards",
		Long: `Delete a counter's document and all its shards. Its roll-up goes to 0 by Tally's functions. An increment that comes later creates a shard
again and counts, so stop the clients first.`,
		Example: `  tally delete likes --yes`,
		Args:    cobra.ExactArgs(1),
	}
	c.Flags().BoolVar(&yes, "yes", false, "delete it; required, except on an emulator")
	return t.oneCounter(c, user, func(ctx context.Context, c counter, _ []string) error {
		if !yes && os.Getenv(firestorestore.EmulatorHost) == "" {
			return fmt.Errorf("%s of project %s would be deleted for ever; say --yes", c.path, t.project)
		}
		if err := c.Delete(ctx); err != nil {
			return err
		}
		return t.print(map[string]any{"counter": c.path, "deleted": true}, "%s\tdeleted", c.path)
	})
}
