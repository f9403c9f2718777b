package main

import (
	"context"
	"fmt"
	"path"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/shards"
	"github.com/spf13/cobra"
)

func freezeCommand() *cobra.Command {
	return frozenCommand(true, (*shards.Counter).Freeze, &cobra.Command{
		Use:   "freeze COUNTER",
		Short: "Close a counter to clients",
		Long: `Close a counter to clients: write frozen: true into its document, which is created if it is missing.
Tally's rules then refuse every client's write to the shards, at once. Rules of your own do so if they read
that field (docs/recipes.md). Totals stay readable. Rules do not bind servers and this command line.`,
		Example: `  tally freeze votes`,
	})
}

func unfreezeCommand() *cobra.Command {
	return frozenCommand(false, (*shards.Counter).Unfreeze, &cobra.Command{
		Use:     "unfreeze COUNTER",
		Short:   "Open a frozen counter to clients again",
		Long:    "Open a counter to clients again that tally freeze has closed.",
		Example: `  tally unfreeze votes`,
	})
}

func frozenCommand(frozen bool, say func(*shards.Counter, context.Context) error, c *cobra.Command) *cobra.Command {
	t := target{adds: true}
	return t.counterCommand(c, user, func(ctx context.Context, c counter, _ []string) error {
		r, err := c.source()
		collection := c.sources[0].Shards(c.Counter)
		switch {
		case c.sources[0].Counts() && len(c.sources) == 1:
			return fmt.Errorf("%s holds documents of the app, which are counted: close it by your own security rules", collection)
		case err != nil:
			return err
		case above(collection) == "":
			return fmt.Errorf("no document is above %s that could say it is frozen: close it by your own security rules", collection)
		}
		if err := say(t.shards(c, r, r.Totals[0].Field, 0), ctx); err != nil {
			return err
		}
		if shipped, _ := path.Match("counters/*/shards", collection); !shipped {
			fmt.Fprintf(t.logs, "clients are bound only if your rules for %s read %q in %s: docs/recipes.md\n", shown(collection), document.FrozenField, shown(c.path))
		}
		return t.print(map[string]any{"counter": c.path, document.FrozenField: frozen}, "%s\t%s", c.path, map[bool]string{true: "frozen", false: "open"}[frozen])
	})
}
