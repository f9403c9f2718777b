package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/firestore-tally/tally/internal/billing"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/shards"
	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func counterCommands() []*cobra.Command {
	return []*cobra.Command{
		createCommand(), incrementCommand(), getCommand(), watchCommand(), listCommand(), resizeCommand(), setCommand(),
		importCommand(), carryCommand(), deleteCommand(), auditCommand(), dashboardCommand(),
		freezeCommand("freeze COUNTER", true, (*shards.Counter).Freeze), freezeCommand("unfreeze COUNTER", false, (*shards.Counter).Unfreeze),
	}
}

func createCommand() *cobra.Command {
	t := target{makes: true, adds: true, endless: true}
	var n int
	var oncePerUser bool
	c := newCommand("create COUNTER")
	c.Flags().IntVar(&n, "num-shards", shards.DefaultNumShards, "number of shards; each sustains about one increment a second")
	c.Flags().BoolVar(&oncePerUser, "once-per-user", false, "a counter of votes: each user has one; not for a counter that has counted anything")
	t.asks(c, fmt.Sprintf("create more than %d shards without a question", manyShards))
	c.MarkFlagsMutuallyExclusive("num-shards", "once-per-user")
	return t.sourceCommand(c, func(ctx context.Context, c counter, r *rollup.Route, _ []string) error {
		if c.Template.Existing && c.path == c.RollUp {
			if _, err := t.client.Doc(c.path).Get(ctx); status.Code(err) == codes.NotFound {
				return fmt.Errorf("%s is the app's own document, and there is none: the app creates it first", c.path)
			}
		}
		if oncePerUser {
			if err := t.shards(c, r, r.Totals[0].Field, n).CreateOncePerUser(ctx); err != nil {
				return err
			}
			return t.print(map[string]any{"counter": c.path, "once_per_user": true}, "%s\tonce per user", c.path)
		}
		fields := r.Fields()
		if err := t.mayGrow(ctx, c, r, 0, n, billing.Counts{Reads: 1, Writes: int64(n*len(fields) + 1)}); err != nil {
			return err
		}
		for _, field := range fields {
			t.begin("creating", "shards", n, "The counter counts already. The same command makes the rest.")
			if err := t.shards(c, r, field, n).Create(ctx, n); err != nil {
				return err
			}
		}
		return t.print(map[string]any{"counter": c.path, "num_shards": n}, "%s\t%d shards", c.path, n)
	})
}

// manyShards is beyond how many shards create and resize ask: 1,000 carry about 1,000 increments a
// second, and are a read for each roll-up.
const manyShards = 1000

// indexEntriesPerRead is how many shards an aggregation reads for the price of one document.
const indexEntriesPerRead = 1000

// mayGrow asks before a counter that has some shards gets many at that cost.
func (t *target) mayGrow(ctx context.Context, c counter, r *rollup.Route, was, n int, cost billing.Counts) error {
	if n <= max(was, manyShards) {
		return nil
	}
	return t.confirm(ctx, "%s would get %d shards: %d writes, $%.4f at list price; and each roll-up, up to one a second while the counter changes, would bill %d reads. Go on?",
		c.path, n, cost.Writes, cost.Cost(), (n+indexEntriesPerRead-1)/indexEntriesPerRead*len(r.Fields()))
}

func incrementCommand() *cobra.Command {
	t := target{adds: true}
	var by, token string
	c := newCommand("increment COUNTER")
	c.Flags().StringVar(&by, "by", "1", "how much to add; an integer, or a decimal with a point, such as 0.5, which makes the total a double")
	c.Flags().StringVar(&token, "once", "", "token of this increment; it is remembered for a week, and longer without a TTL policy on increment_tokens")
	once := c.Flags().Lookup("once")
	return t.totalCommand(c, func(ctx context.Context, c counter, s *shards.Counter, _ []string) error {
		amount, err := numberIn(by)
		if err != nil {
			return fmt.Errorf("--by %s: %w", by, err)
		}
		if c.frozen {
			fmt.Fprintf(t.logs, "tally: %s is frozen: its rules refuse clients, and this command is none\n", shown(c.path))
		}
		var committed time.Time
		applied, note := true, cells("")
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
		if !applied {
			note = "\tbefore: the token was known"
		}
		total := any("not known") // which is no failure: it is added, and must not be added again
		if sum, err := s.Get(ctx); err == nil {
			total = numeral{sum}
		}
		return t.print(map[string]any{"counter": c.path, "total": total, "by": amount, "applied": applied, "committed": committed},
			"%s\t%v\tadded %v\tcommitted %s%s", c.path, total, amount, stamp(committed), note)
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
	c := newCommand("get COUNTER")
	return t.counterCommand(c, viewer, func(ctx context.Context, c counter, _ []string) error {
		snapshot, err := t.store.View(ctx, c.Counter)
		if err != nil {
			return err
		}
		sum, err := snapshot.Sum(ctx)
		if err != nil {
			return err
		}
		note, err := t.lacking(ctx, c, sum)
		if err != nil {
			return err
		}
		if sum.Malformed > 0 {
			note = cells(fmt.Sprintf("\twithout %d that are no finite numbers", sum.Malformed)) + note
		}
		if c.frozen {
			note += "\tfrozen"
		}
		r, text := rollUpOf(snapshot.RollUp(), snapshot.ReadTime()), cells("none; do Tally's functions run?")
		if r != nil {
			text = r.cells(c.Template)
		}
		all := totalsOf(sum.Values)
		return t.print(map[string]any{"counter": c.path, "totals": all, "malformed": sum.Malformed, "frozen": c.frozen, "rollup": r},
			"%s\t%v%s\nroll-up\t%s", c.path, all, note, text)
	})
}

// lacking says which fields no shard has, of sources that have shards all the same.
func (t *target) lacking(ctx context.Context, c counter, sum rollup.Totals) (note cells, err error) {
	for i, r := range c.Template.Routes {
		if r.Counts() || sum.Shards[i] > 0 {
			continue
		}
		shard, err := t.documents(c, r).Limit(1).Documents(ctx).GetAll()
		if err != nil {
			return "", err
		}
		if len(shard) > 0 && !hasAny(shard[0].Data(), r.Fields()) {
			has := cmp.Or(strings.Join(slices.Sorted(maps.Keys(shard[0].Data())), ", "), "none")
			note += "\t" + cells(shown(fmt.Sprintf("no shard has the field %s; one has %s", either(r.Fields()), has)))
		}
	}
	return note, nil
}

// hasAny reports whether a document has one of the fields.
func hasAny(found map[string]any, fields []document.Field) bool {
	return slices.ContainsFunc(fields, func(f document.Field) bool { _, has := f.In(found); return has })
}

// either returns fields in a sentence.
func either(fields []document.Field) string {
	spelt := make([]string, len(fields))
	for i, f := range fields {
		spelt[i] = string(f)
	}
	return strings.Join(spelt, " or ")
}

func resizeCommand() *cobra.Command {
	t := target{endless: true}
	var renumber bool
	c := newCommand("resize COUNTER NUM_SHARDS")
	t.asks(c, fmt.Sprintf("grow beyond %d shards without a question", manyShards))
	c.Flags().BoolVar(&renumber, "renumber", false, "fold all shards but 0 to NUM_SHARDS-1, whatever their ids")
	return t.sourceCommand(c, func(ctx context.Context, c counter, r *rollup.Route, args []string) error {
		n, err := strconv.Atoi(args[0])
		if err != nil {
			return fmt.Errorf("%q is not a number of shards", args[0])
		}
		s := t.shards(c, r, r.Totals[0].Field, n)
		was, note := 0, cells("")
		if above(r.Shards(c.Counter)) != "" { // else no document knows
			was, _ = s.NumShards(ctx) // what is no number is replaced
			if err := t.mayGrow(ctx, c, r, was, n, billing.Counts{Reads: int64(n + 1), Writes: int64(n - was + 1)}); err != nil {
				return err
			}
			note = cells(fmt.Sprintf("\twas %d", was))
		}
		t.begin("resizing", "shards", unknown, "The total is right at every step, and so it is now. The same command goes on from here.")
		resize := s.Resize
		if renumber {
			resize = s.Renumber
		}
		if err := resize(ctx, n); err != nil {
			return err
		}
		return t.print(map[string]any{"counter": c.path, "num_shards": n, "was": was}, "%s\t%d shards%s", c.path, n, note)
	})
}

func (t *target) printReplacement(c counter, r shards.Replacement) error {
	return t.print(map[string]any{"counter": c.path, "was": numeral{r.Was}, "total": numeral{r.Now}, "as_of": r.AsOf},
		"%s\t%v\twas %v\tas of %s", c.path, r.Now, r.Was, stamp(r.AsOf))
}

// replaceKept is what is true of a total that was being replaced.
const replaceKept = "The total may be one in between, until the same command has come to its end."

func setCommand() *cobra.Command {
	t := target{endless: true}
	c := newCommand("set COUNTER NUMBER")
	t.asks(c, "replace a total without a question")
	return t.totalCommand(c, func(ctx context.Context, c counter, s *shards.Counter, args []string) error {
		total, err := numberIn(args[0])
		if err != nil {
			return fmt.Errorf("%q is not a total: %w", args[0], err)
		}
		was, err := s.Get(ctx)
		if err != nil {
			return err
		}
		if was.Float64() != 0 && was.String() != fmt.Sprint(total) {
			if err := t.confirm(ctx, "%s of project %s is %v, and would be %v. Go on?", c.path, t.project, was, total); err != nil {
				return err
			}
		}
		t.begin("setting", "writes", unknown, replaceKept)
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
