package counters

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/cmd/tally/command"
	"github.com/firestore-tally/tally/cmd/tally/counter"
	"github.com/firestore-tally/tally/cmd/tally/session"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/tool/terminal"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/spf13/cobra"
)

func getCommand() *cobra.Command {
	run := func(ctx context.Context, s *session.Session, args []string) error { return getCounter(ctx, s, args[0]) }
	return session.Command{Run: run}.Define(command.New("get COUNTER"))
}

func getCounter(ctx context.Context, s *session.Session, arg string) error {
	c, err := s.Existing(ctx, arg)
	if err != nil {
		return err
	}
	snapshot, err := s.Store.View(ctx, c.Counter)
	if err != nil {
		return err
	}
	sum, err := snapshot.Sum(ctx)
	if err != nil {
		return err
	}
	unsummed, err := unsummedSources(ctx, s.Client, c, sum)
	if err != nil {
		return err
	}

	notes := terminal.Cells("")
	if sum.Malformed > 0 {
		notes = terminal.Cells(fmt.Sprintf("\twithout %d that are not finite numbers", sum.Malformed))
	}
	for _, u := range unsummed {
		notes += u.cell()
	}
	if c.Frozen {
		notes += "\tfrozen"
	}

	home, missing := c.RollUp, c.Template.Existing && !snapshot.RollUp().Exists()
	if snapshot.Ownerless() && snapshot.RollUp().Tally.AsOf.IsZero() {
		home, missing = c.Owner(), true
	}
	r, text := rollUpOf(s.Config, c.Template, snapshot.RollUp(), snapshot.ReadTime()), terminal.Cells("none; do Tally's functions run?")
	if s.Served {
		text = "none yet: the counter's next change, or the next audit, makes one"
	}
	switch {
	case missing:
		text = terminal.Cells(terminal.Shown(fmt.Sprintf("none: the document %s does not exist; Tally writes its totals once the app has created it", home)))
	case r != nil:
		r.Left, err = differsByWindow(ctx, snapshot, c.Template, sum)
		if err != nil {
			return err
		}
		text = r.cells(c.Template)
	}
	all := totalsOf(sum.Values)
	object := map[string]any{"counter": c.Path, "totals": all, "malformed": sum.Malformed, "frozen": c.Frozen, "missing": missing, "rollup": r}
	return s.Print(object, "%s\t%v%s\nroll-up\t%s", c.Path, all, notes, text)
}

// differsByWindow reports whether a roll-up differs from the sum of its shards only because
// documents have left a window since.
func differsByWindow(ctx context.Context, snapshot rollup.Snapshot, t *route.Template, sum route.Totals) (bool, error) {
	r := snapshot.RollUp()
	says := func(sum route.Totals) bool {
		return r.Tally.NumShards == sum.NumShards() && totalsOf(r.Values).list() == totalsOf(sum.Values).list()
	}
	if !t.Windowed() || r.Tally.Routes != t.Hash() || says(sum) {
		return false, nil
	}

	then, err := snapshot.SumAsOf(ctx, r.Tally.AsOf)
	return err == nil && says(then), err
}

// An unsummedSource has shards, but none of them has a field that its route sums. The route may
// name the wrong field.
type unsummedSource struct {
	route  *route.Route
	fields []string // the fields of one of its shards
}

// unsummedSources returns the counter's sources that are unsummed.
func unsummedSources(ctx context.Context, client *firestore.Client, c counter.Counter, sum route.Totals) (sources []unsummedSource, err error) {
	for i, r := range c.Template.Routes {
		if r.Counts() || sum.Shards[i] > 0 {
			continue
		}
		shard, err := session.Documents(client, c, r).Limit(1).Documents(ctx).GetAll()
		if err != nil {
			return nil, err
		}
		if len(shard) == 0 || hasAny(shard[0].Data(), r.Fields()) {
			continue
		}

		sources = append(sources, unsummedSource{r, slices.Sorted(maps.Keys(shard[0].Data()))})
	}
	return sources, nil
}

// cell returns a cell that says which field is missing.
func (u unsummedSource) cell() terminal.Cells {
	has := cmp.Or(strings.Join(u.fields, ", "), "none")
	return "\t" + terminal.Cells(terminal.Shown(fmt.Sprintf("no shard has the field %s; one has %s", joinOr(u.route.Fields()), has)))
}

// hasAny reports whether a document has one of the fields.
func hasAny(found map[string]any, fields []document.Field) bool {
	return slices.ContainsFunc(fields, func(f document.Field) bool { _, has := f.In(found); return has })
}

// joinOr returns fields in a sentence.
func joinOr(fields []document.Field) string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = string(f)
	}
	return strings.Join(names, " or ")
}
