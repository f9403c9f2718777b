package counters

import (
	"context"
	"fmt"

	"github.com/firestore-tally/tally/cmd/tally/command"
	"github.com/firestore-tally/tally/cmd/tally/counter"
	"github.com/firestore-tally/tally/cmd/tally/session"
	"github.com/firestore-tally/tally/internal/tool/terminal"
	"github.com/firestore-tally/tally/shards"
	"github.com/spf13/cobra"
)

func setCommand() *cobra.Command {
	c := command.New("set COUNTER NUMBER")
	total := session.TotalFlag(c)
	return session.Command{
		Writes:  true,
		Endless: true,
		Asks:    "replace a total without a question",
		Run: func(ctx context.Context, s *session.Session, args []string) error {
			return set(ctx, s, args[0], *total, args[1])
		},
	}.Define(c)
}

func set(ctx context.Context, s *session.Session, arg, name, number string) error {
	c, total, err := s.ExistingTotal(ctx, arg, name)
	if err != nil {
		return err
	}
	wanted, err := numberIn(number)
	if err != nil {
		return fmt.Errorf("%q is not a total: %w", number, err)
	}

	was, err := total.Get(ctx)
	if err != nil {
		return err
	}
	if was.Float64() != 0 && was.String() != fmt.Sprint(wanted) {
		if err := s.Confirm(ctx, "%s of project %s is %v, and would be %v. Go on?", c.Path, s.Project, was, wanted); err != nil {
			return err
		}
	}

	s.Begin("setting", "writes", terminal.Unknown, replaceKept)
	var r shards.Replacement
	if n, ok := wanted.(int64); ok {
		r, err = total.Set(ctx, n)
	} else {
		r, err = total.SetFloat(ctx, wanted.(float64))
	}
	if err != nil {
		return err
	}
	return printReplacement(s, c, r)
}

// replaceKept says what is true if replacing a total was stopped.
const replaceKept = "The total may lie between the old and the new one. Run the same command again to finish."

func printReplacement(s *session.Session, c counter.Counter, r shards.Replacement) error {
	return s.Print(map[string]any{"counter": c.Path, "was": numeral{r.Was}, "total": numeral{r.Now}, "as_of": r.AsOf},
		"%s\t%v\twas %v\tas of %s", c.Path, r.Now, r.Was, stamp(r.AsOf))
}
