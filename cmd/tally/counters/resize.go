package counters

import (
	"context"
	"fmt"

	"github.com/firestore-tally/tally/cmd/tally/command"
	"github.com/firestore-tally/tally/cmd/tally/session"
	"github.com/firestore-tally/tally/internal/cloud/billing"
	"github.com/firestore-tally/tally/internal/tool/terminal"
	"github.com/spf13/cobra"
)

func resizeCommand() *cobra.Command {
	return session.Command{
		Writes:  true,
		Endless: true,
		Asks:    fmt.Sprintf("grow beyond %d shards without a question", manyShards),
		Run: func(ctx context.Context, s *session.Session, args []string) error {
			return resize(ctx, s, args[0], args[1])
		},
	}.Define(command.New("resize COUNTER NUM_SHARDS"))
}

func resize(ctx context.Context, s *session.Session, arg, number string) error {
	c, r, err := s.ExistingSource(ctx, arg)
	if err != nil {
		return err
	}
	var wanted NumShards
	err = wanted.Set(number)
	if err != nil {
		return fmt.Errorf("%q is not a number of shards: %w", number, err)
	}

	n := int(wanted)
	if wanted == Auto {
		err := canGrow(c, r)
		if err != nil {
			return err
		}
		return growByThemselves(ctx, s, c, r)
	}

	source := s.Shards(c, r, r.Totals[0].Field, n)
	was, _ := source.NumShards(ctx)                                                   // on an error 0: resizing replaces a value that is not a number
	cost := billing.Counts{Reads: 2, Writes: int64(n - was + 1)}.On(s.Config.Edition) // it reads the counter document twice
	if err := confirmGrowth(ctx, s, c, r, growth{was, n, cost}); err != nil {
		return err
	}

	s.Begin("resizing", "shards", terminal.Unknown, "The total is right. Run the same command again to continue.")
	err = source.Resize(ctx, n)
	if err != nil {
		return err
	}
	if n < was && r.Documents {
		fmt.Fprintf(s.Logs, "tally: the %s from %d on remain and still count; the route says documents, so each roll-up still reads each of them\n", terminal.Plural(was-n, "shard"), n)
	}
	return s.Print(map[string]any{"counter": c.Path, "num_shards": n, "was": was}, "%s\t%s\twas %d", c.Path, terminal.Plural(n, "shard"), was)
}
