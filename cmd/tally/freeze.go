package main

import (
	"context"
	"fmt"
	"path"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/tool/terminal"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/spf13/cobra"
)

func freezeCommand() *cobra.Command {
	run := func(ctx context.Context, s *session, args []string) error { return setFrozen(ctx, s, args[0], true) }
	return databaseCommand{writes: true, run: run}.define(newCommand("freeze COUNTER"))
}

func unfreezeCommand() *cobra.Command {
	run := func(ctx context.Context, s *session, args []string) error { return setFrozen(ctx, s, args[0], false) }
	return databaseCommand{writes: true, run: run}.define(newCommand("unfreeze COUNTER"))
}

// setFrozen freezes a counter, or opens it again.
func setFrozen(ctx context.Context, s *session, arg string, frozen bool) error {
	c, r, err := freezable(ctx, s, arg)
	if err != nil {
		return err
	}

	source := s.shards(c, r, r.Totals[0].Field, 0)
	state := "open"
	if frozen {
		state = "frozen"
		err = source.Freeze(ctx)
	} else {
		err = source.Unfreeze(ctx)
	}
	if err != nil {
		return err
	}

	warnOfRules(s, c)
	return s.print(map[string]any{"counter": c.path, document.FrozenField: frozen}, "%s\t%s", c.path, state)
}

// freezable returns the counter that an argument names, and its source. It is an error if the
// counter has no document that can say that it is frozen.
func freezable(ctx context.Context, s *session, arg string) (counter, *route.Route, error) {
	c, err := s.existing(ctx, arg)
	if err != nil {
		return counter{}, nil, err
	}
	collection := c.sources[0].Shards(c.Counter)
	if len(c.sources) == 1 && c.sources[0].Counts() {
		return counter{}, nil, fmt.Errorf("%s holds documents of the app, which are counted: close it by your own security rules", collection)
	}
	r, err := c.source()
	if err != nil {
		return counter{}, nil, err
	}
	if above(collection) == "" {
		return counter{}, nil, fmt.Errorf("no document is above %s that could say it is frozen: close it by your own security rules", collection)
	}
	return c, r, nil
}

// warnOfRules warns that only the app's own rules can refuse clients, if Tally's firestore.rules do
// not cover the counter.
func warnOfRules(s *session, c counter) {
	collection := c.sources[0].Shards(c.Counter)
	shipped, _ := path.Match("counters/*/shards", collection)
	if !shipped {
		fmt.Fprintf(s.logs, "clients are bound only if your rules for %s read %q in %s: docs/security-rules.md#frozen\n", terminal.Shown(collection), document.FrozenField, terminal.Shown(c.path))
	}
}
