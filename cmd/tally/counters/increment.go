package counters

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/firestore-tally/tally/cmd/tally/command"
	"github.com/firestore-tally/tally/cmd/tally/session"
	"github.com/firestore-tally/tally/internal/tool/terminal"
	"github.com/firestore-tally/tally/shards"
	"github.com/spf13/cobra"
)

func incrementCommand() *cobra.Command {
	var by string
	var once onceFlag
	c := command.New("increment COUNTER")
	f := c.Flags()
	f.StringVar(&by, "by", "1", "how much to add; an integer, or a decimal with a point, such as 0.5, which makes the total a double")
	f.StringVar(&once.token, "once", "", "token of this increment; it is remembered for a week, and longer without a TTL policy on increment_tokens")
	total := session.TotalFlag(c)
	return session.Command{Writes: true, Run: func(ctx context.Context, s *session.Session, args []string) error {
		once.given = f.Changed("once") // with an empty token too: a shell's variable may be unset
		return increment(ctx, s, args[0], *total, by, once)
	}}.Define(c)
}

// A onceFlag is the token of an increment, if one was given.
type onceFlag struct {
	token string
	given bool
}

func increment(ctx context.Context, s *session.Session, arg, name, by string, once onceFlag) error {
	c, total, err := s.ExistingTotal(ctx, arg, name)
	if err != nil {
		return err
	}
	amount, err := numberIn(by)
	if err != nil {
		return fmt.Errorf("--by %s: %w", by, err)
	}
	_, integer := amount.(int64)
	if once.given && !integer {
		return fmt.Errorf("--by %s: --once takes integers only", by)
	}
	if c.Frozen {
		fmt.Fprintf(s.Logs, "tally: %s is frozen: security rules refuse increments of clients, but not of this command\n", terminal.Shown(c.Path))
	}

	applied, committed, err := add(ctx, total, amount, once)
	if err != nil {
		return err
	}

	sum := any("not known") // not a failure: the amount is added, and must not be added again
	if now, err := total.Get(ctx); err == nil {
		sum = numeral{now}
	}
	note := terminal.Cells("")
	if !applied {
		note = "\tbefore: the token was known"
	}
	return s.Print(map[string]any{"counter": c.Path, "total": sum, "by": amount, "applied": applied, "committed": committed},
		"%s\t%v\tadded %v\tcommitted %s%s", c.Path, sum, amount, stamp(committed), note)
}

// add adds an amount, an int64 or a float64, to a total. With a token the amount must be an int64.
// applied is false if the same token has added its amount before. committed is when it was added.
func add(ctx context.Context, total *shards.Counter, amount any, once onceFlag) (applied bool, committed time.Time, err error) {
	n, integer := amount.(int64)
	if once.given {
		applied, committed, err = total.IncrementOnce(ctx, once.token, n)
		if errors.Is(err, shards.ErrToken) {
			err = fmt.Errorf("--once %q: %w", once.token, err)
		}
		return applied, committed, err
	}

	if integer {
		committed, err = total.Increment(ctx, n)
	} else {
		committed, err = total.IncrementFloat(ctx, amount.(float64))
	}
	return true, committed, err
}

// numberIn returns the int64 or the float64 that text is. Only a number with a point is a float64:
// adding one makes an integer total a double, and 1e3 is not to do that by its spelling.
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
