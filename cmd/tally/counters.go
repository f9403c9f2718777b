package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/cloud/billing"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/tool/terminal"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/firestore-tally/tally/shards"
	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func counterCommands() []*cobra.Command {
	return []*cobra.Command{
		createCommand(), incrementCommand(), getCommand(), explainCommand(), watchCommand(), listCommand(), resizeCommand(), setCommand(),
		migrateCommand(), deleteCommand(), auditCommand(), dashboardCommand(),
	}
}

// manyShards is the number of shards above which create and resize ask first. 1,000 shards carry
// about 1,000 increments a second, and cost each roll-up one read.
const manyShards = 1000

func createCommand() *cobra.Command {
	var n numShards
	c := newCommand("create COUNTER")
	c.Flags().Var(&n, "num-shards", fmt.Sprintf("number of shards; each sustains about one increment a second; auto: %d, and more when they are needed", shards.DefaultNumShards))
	return databaseCommand{
		writes:  true,
		endless: true,
		asks:    fmt.Sprintf("create more than %d shards without a question", manyShards),
		run: func(ctx context.Context, s *session, args []string) error {
			if n == auto {
				return createAuto(ctx, s, args[0], c.Flags().Changed("num-shards"))
			}
			return create(ctx, s, args[0], int(n))
		},
	}.define(c)
}

// numShards is a number of shards as the user gives it.
type numShards int

// wantedShards says in words what numShards takes.
const wantedShards = "a number from 1 to 100000, or auto"

// mostShards is the greatest number of shards that a counter gets. To create them costs $0.18, and
// each roll-up bills 100 reads. A database takes no more writes a second to one collection.
const mostShards = 100_000

// auto is the number of a counter whose shards grow by themselves.
const auto numShards = 0

func (n *numShards) Type() string { return "number" }

func (n *numShards) String() string {
	if *n == auto {
		return "auto"
	}
	return strconv.Itoa(int(*n))
}

func (n *numShards) Set(text string) error {
	if text == "auto" {
		*n = auto
		return nil
	}
	number, err := strconv.Atoi(text)
	if err != nil || number < 1 || number > mostShards {
		return errors.New("want " + wantedShards)
	}
	*n = numShards(number)
	return nil
}

// createAuto creates a counter whose shards grow by themselves. Unless the user has asked for auto,
// it creates one with a fixed number if they cannot grow, and leaves a counter that exists at the
// number that somebody gave it.
func createAuto(ctx context.Context, s *session, arg string, asked bool) error {
	c, r, err := creatable(ctx, s, arg)
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
		docs, err := s.client.GetAll(ctx, []*firestore.DocumentRef{s.client.Doc(above(r.Shards(c.Counter)))})
		if err != nil {
			return err
		}
		if !isFixed(docs[0].Data()) {
			return growByThemselves(ctx, s, c, r)
		}
	}

	n, err := s.shards(c, r, r.Totals[0].Field, shards.DefaultNumShards).NumShards(ctx)
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
func canGrow(c counter, r *route.Route) error {
	switch {
	case above(r.Shards(c.Counter)) == "":
		return fmt.Errorf("the shards of %s cannot grow by themselves: no document is above them that could tell their number", c.path)
	case r.Template.Scheduled():
		return fmt.Errorf("the shards of %s cannot grow by themselves: its route says every, so nothing sees how often they are written", c.path)
	}
	return nil
}

// growByThemselves creates the shards of a source, and has them grow by themselves from then on.
func growByThemselves(ctx context.Context, s *session, c counter, r *route.Route) error {
	n := 0
	for _, field := range r.Fields() {
		s.begin("creating", "shards", terminal.Unknown, "The counter counts already. The same command makes the rest.")
		source := s.shards(c, r, field, shards.DefaultNumShards)
		err := source.CreateAuto(ctx)
		if err != nil {
			return err
		}
		n, err = source.NumShards(ctx)
		if err != nil {
			return err
		}
	}
	return s.print(map[string]any{"counter": c.path, "num_shards": n, "auto_shards": true}, "%s\t%s\tauto", c.path, plural(n, "shard"))
}

func create(ctx context.Context, s *session, arg string, n int) error {
	c, r, err := creatable(ctx, s, arg)
	if err != nil {
		return err
	}
	fields := r.Fields()
	cost := billing.Counts{Reads: 1, Writes: int64(n*len(fields) + 1)}
	if err := mayGrow(ctx, s, c, r, growth{0, n, cost}); err != nil {
		return err
	}

	for _, field := range fields {
		s.begin("creating", "shards", n, "The counter counts already. The same command makes the rest.")
		if err := s.shards(c, r, field, n).Create(ctx, n); err != nil {
			return err
		}
	}
	return s.print(map[string]any{"counter": c.path, "num_shards": n}, "%s\t%s", c.path, plural(n, "shard"))
}

// creatable returns the counter that an argument names, and its source. The counter need not exist.
// But it is an error if the app has to create the counter's document, and has not done so.
func creatable(ctx context.Context, s *session, arg string) (counter, *route.Route, error) {
	c, err := s.counter(arg)
	if err != nil {
		return counter{}, nil, err
	}
	r, err := c.source()
	if err != nil {
		return counter{}, nil, err
	}

	if c.Template.Existing && c.path == c.RollUp {
		_, err := s.client.Doc(c.path).Get(ctx)
		if status.Code(err) == codes.NotFound {
			return counter{}, nil, fmt.Errorf("%s is the app's own document, and there is none: the app creates it first", c.path)
		}
	}
	return c, r, nil
}

// indexEntriesPerRead is how many shards an aggregation reads for the price of one document.
const indexEntriesPerRead = 1000

// A growth is a change of a counter's number of shards, and what it costs.
type growth struct {
	was, n int
	cost   billing.Counts
}

// mayGrow asks before a counter gets many shards.
func mayGrow(ctx context.Context, s *session, c counter, r *route.Route, g growth) error {
	if g.n <= max(g.was, manyShards) {
		return nil
	}
	reads := (g.n + indexEntriesPerRead - 1) / indexEntriesPerRead * len(r.Fields())
	return s.confirm(ctx, "%s would get %d shards: %d writes, $%.4f at list price in %s; and each roll-up, up to one a second while the counter changes, would bill %d reads. Go on?",
		c.path, g.n, g.cost.Writes, g.cost.Cost(), billing.PriceRegion, reads)
}

func incrementCommand() *cobra.Command {
	var by string
	var once onceFlag
	c := newCommand("increment COUNTER")
	f := c.Flags()
	f.StringVar(&by, "by", "1", "how much to add; an integer, or a decimal with a point, such as 0.5, which makes the total a double")
	f.StringVar(&once.token, "once", "", "token of this increment; it is remembered for a week, and longer without a TTL policy on increment_tokens")
	total := totalFlag(c)
	return databaseCommand{writes: true, run: func(ctx context.Context, s *session, args []string) error {
		once.given = f.Changed("once") // with an empty token too: a shell's variable may be unset
		return increment(ctx, s, args[0], *total, by, once)
	}}.define(c)
}

// A onceFlag is the token of an increment, if one was given.
type onceFlag struct {
	token string
	given bool
}

func increment(ctx context.Context, s *session, arg, name, by string, once onceFlag) error {
	c, total, err := s.existingTotal(ctx, arg, name)
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
	if c.frozen {
		fmt.Fprintf(s.logs, "tally: %s is frozen: its rules refuse clients, and this command is none\n", terminal.Shown(c.path))
	}

	applied, committed, err := add(ctx, total, amount, once)
	if err != nil {
		return err
	}

	sum := any("not known") // not a failure: the amount is added, and must not be added again
	if now, err := total.Get(ctx); err == nil {
		sum = numeral{now}
	}
	note := cells("")
	if !applied {
		note = "\tbefore: the token was known"
	}
	return s.print(map[string]any{"counter": c.path, "total": sum, "by": amount, "applied": applied, "committed": committed},
		"%s\t%v\tadded %v\tcommitted %s%s", c.path, sum, amount, stamp(committed), note)
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

func resizeCommand() *cobra.Command {
	return databaseCommand{
		writes:  true,
		endless: true,
		asks:    fmt.Sprintf("grow beyond %d shards without a question", manyShards),
		run: func(ctx context.Context, s *session, args []string) error {
			return resize(ctx, s, args[0], args[1])
		},
	}.define(newCommand("resize COUNTER NUM_SHARDS"))
}

func resize(ctx context.Context, s *session, arg, number string) error {
	c, r, err := s.existingSource(ctx, arg)
	if err != nil {
		return err
	}
	var wanted numShards
	err = wanted.Set(number)
	if err != nil {
		return fmt.Errorf("%q is not a number of shards: %w", number, err)
	}

	n := int(wanted)
	if wanted == auto {
		err := canGrow(c, r)
		if err != nil {
			return err
		}
		return growByThemselves(ctx, s, c, r)
	}

	source := s.shards(c, r, r.Totals[0].Field, n)
	was, _ := source.NumShards(ctx)                              // on an error 0: resizing replaces a value that is not a number
	cost := billing.Counts{Reads: 2, Writes: int64(n - was + 1)} // it reads the counter document twice
	if err := mayGrow(ctx, s, c, r, growth{was, n, cost}); err != nil {
		return err
	}

	s.begin("resizing", "shards", terminal.Unknown, "The total is right at every step, and so it is now. The same command goes on from here.")
	err = source.Resize(ctx, n)
	if err != nil {
		return err
	}
	if n < was && r.Documents {
		fmt.Fprintf(s.logs, "tally: the %s from %d on stay, and count; the route says documents, so each roll-up goes on reading each of them\n", plural(was-n, "shard"), n)
	}
	return s.print(map[string]any{"counter": c.path, "num_shards": n, "was": was}, "%s\t%s\twas %d", c.path, plural(n, "shard"), was)
}

func setCommand() *cobra.Command {
	c := newCommand("set COUNTER NUMBER")
	total := totalFlag(c)
	return databaseCommand{
		writes:  true,
		endless: true,
		asks:    "replace a total without a question",
		run: func(ctx context.Context, s *session, args []string) error {
			return set(ctx, s, args[0], *total, args[1])
		},
	}.define(c)
}

func set(ctx context.Context, s *session, arg, name, number string) error {
	c, total, err := s.existingTotal(ctx, arg, name)
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
		if err := s.confirm(ctx, "%s of project %s is %v, and would be %v. Go on?", c.path, s.project, was, wanted); err != nil {
			return err
		}
	}

	s.begin("setting", "writes", terminal.Unknown, replaceKept)
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
const replaceKept = "The total may be one in between, until the same command has come to its end."

func printReplacement(s *session, c counter, r shards.Replacement) error {
	return s.print(map[string]any{"counter": c.path, "was": numeral{r.Was}, "total": numeral{r.Now}, "as_of": r.AsOf},
		"%s\t%v\twas %v\tas of %s", c.path, r.Now, r.Was, stamp(r.AsOf))
}
