package main

import (
	"context"
	"fmt"
	"path"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/shards"
	"github.com/spf13/cobra"
)

// freezeCommand returns the command freeze or unfreeze, which say does.
func freezeCommand(use string, frozen bool, say func(*shards.Counter, context.Context) error) *cobra.Command {
	t := target{adds: true}
	return t.counterCommand(newCommand(use), user, func(ctx context.Context, c counter, _ []string) error {
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
