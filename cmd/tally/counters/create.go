package counters

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/cmd/tally/command"
	"github.com/firestore-tally/tally/cmd/tally/counter"
	"github.com/firestore-tally/tally/cmd/tally/session"
	"github.com/firestore-tally/tally/internal/cloud/billing"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/tool/terminal"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/firestore-tally/tally/shards"
	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// manyShards is the number of shards above which create and resize ask first. 1,000 shards carry
// about 1,000 increments a second, and cost each roll-up one read.
const manyShards = 1000

func createCommand() *cobra.Command {
	var n NumShards
	c := command.New("create COUNTER")
	c.Flags().Var(&n, "num-shards", fmt.Sprintf("number of shards; each sustains about one increment a second; auto: %d, and more when they are needed", shards.DefaultNumShards))
	return session.Command{
		Writes:  true,
		Endless: true,
		Asks:    fmt.Sprintf("create more than %d shards without a question", manyShards),
		Run: func(ctx context.Context, s *session.Session, args []string) error {
			if n == Auto {
				return createAuto(ctx, s, args[0], c.Flags().Changed("num-shards"))
			}
			return create(ctx, s, args[0], int(n))
		},
	}.Define(c)
}

// NumShards is a number of shards as the user gives it.
type NumShards int

// wantedShards says in words what numShards takes.
const wantedShards = "a number from 1 to 100000, or auto"

// mostShards is the greatest number of shards that a counter gets. To create them costs $0.18, and
// each roll-up bills 100 reads. A database takes no more writes a second to one collection.
const mostShards = 100_000

// Auto is the number of a counter whose shards grow by themselves.
const Auto NumShards = 0

func (n *NumShards) Type() string { return "number" }

func (n *NumShards) String() string {
	if *n == Auto {
		return "auto"
	}
	return strconv.Itoa(int(*n))
}

func (n *NumShards) Set(text string) error {
	if text == "auto" {
		*n = Auto
		return nil
	}
	number, err := strconv.Atoi(text)
	if err != nil || number < 1 || number > mostShards {
		return errors.New("want " + wantedShards)
	}
	*n = NumShards(number)
	return nil
}

// createAuto creates a counter whose shards grow by themselves. Unless the user has asked for auto,
// it creates one with a fixed number if they cannot grow, and leaves a counter that exists at the
// number that somebody gave it.
func createAuto(ctx context.Context, s *session.Session, arg string, asked bool) error {
	c, r, err := counterToCreate(ctx, s, arg)
	if err != nil {
		return err
	}

	cannot := canGrow(c, r)
	if asked && cannot != nil {
		return cannot
	}
	if asked {
		return growByThemselves(ctx, s, c, r)
	}

	if cannot == nil {
		docs, err := s.Client.GetAll(ctx, []*firestore.DocumentRef{s.Client.Doc(counter.Above(r.Shards(c.Counter)))})
		if err != nil {
			return err
		}
		if !isFixed(docs[0].Data()) {
			return growByThemselves(ctx, s, c, r)
		}
	}

	n, err := s.Shards(c, r, r.Totals[0].Field, shards.DefaultNumShards).NumShards(ctx)
	if err != nil {
		return err
	}
	return create(ctx, s, arg, n)
}

// isFixed reports whether a counter's document tells a number of shards that does not grow by
// itself.
func isFixed(fields map[string]any) bool {
	_, tells := document.NumShards(fields)
	return tells != "" && fields[document.AutoShardsField] != true
}

// canGrow returns an error if the shards of a source cannot grow by themselves.
func canGrow(c counter.Counter, r *route.Route) error {
	switch {
	case counter.Above(r.Shards(c.Counter)) == "":
		return fmt.Errorf("the shards of %s cannot grow by themselves: there is no document above them to hold their number", c.Path)
	case r.Template.Scheduled():
		return fmt.Errorf("the shards of %s cannot grow by themselves: its route says every, so nothing sees how often they are written", c.Path)
	}
	return nil
}

// growByThemselves creates the shards of a source, and has them grow by themselves from then on.
func growByThemselves(ctx context.Context, s *session.Session, c counter.Counter, r *route.Route) error {
	n := 0
	for _, field := range r.Fields() {
		s.Begin("creating", "shards", terminal.Unknown, "The counter already works. Run the same command again to create the rest.")
		source := s.Shards(c, r, field, shards.DefaultNumShards)
		err := source.CreateAuto(ctx)
		if err != nil {
			return err
		}
		n, err = source.NumShards(ctx)
		if err != nil {
			return err
		}
	}
	return s.Print(map[string]any{"counter": c.Path, "num_shards": n, "auto_shards": true}, "%s\t%s\tauto", c.Path, terminal.Plural(n, "shard"))
}

func create(ctx context.Context, s *session.Session, arg string, n int) error {
	c, r, err := counterToCreate(ctx, s, arg)
	if err != nil {
		return err
	}
	fields := r.Fields()
	cost := billing.Counts{Reads: 1, Writes: int64(n*len(fields) + 1)}.On(s.Config.Edition)
	if err := confirmGrowth(ctx, s, c, r, growth{0, n, cost}); err != nil {
		return err
	}

	for _, field := range fields {
		s.Begin("creating", "shards", n, "The counter already works. Run the same command again to create the rest.")
		if err := s.Shards(c, r, field, n).Create(ctx, n); err != nil {
			return err
		}
	}
	return s.Print(map[string]any{"counter": c.Path, "num_shards": n}, "%s\t%s", c.Path, terminal.Plural(n, "shard"))
}

// counterToCreate returns the counter that an argument names, and its source. The counter need not
// exist. But it is an error if the app has to create the counter's document, and has not done so.
func counterToCreate(ctx context.Context, s *session.Session, arg string) (counter.Counter, *route.Route, error) {
	c, err := s.Counter(arg)
	if err != nil {
		return counter.Counter{}, nil, err
	}
	r, err := c.Source()
	if err != nil {
		return counter.Counter{}, nil, err
	}

	if c.Template.Existing && c.Path == c.RollUp {
		_, err := s.Client.Doc(c.Path).Get(ctx)
		if status.Code(err) == codes.NotFound {
			return counter.Counter{}, nil, fmt.Errorf("%s does not exist, and it is the app's own document: the app must create it first", c.Path)
		}
	}
	return c, r, nil
}

// A growth is a change of a counter's number of shards, and what it costs.
type growth struct {
	was, n int
	cost   billing.Bill
}

// confirmGrowth asks before a counter gets many shards.
func confirmGrowth(ctx context.Context, s *session.Session, c counter.Counter, r *route.Route, g growth) error {
	if g.n <= max(g.was, manyShards) {
		return nil
	}
	rollUp := billing.Sum(int64(g.n)).Times(int64(len(r.Fields()))).On(s.Config.Edition)
	return s.Confirm(ctx, "%s would get %d shards: %s; and each roll-up, up to one a second while the counter changes, would bill %v. Go on?",
		c.Path, g.n, price(g.cost), rollUp)
}
