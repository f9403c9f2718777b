package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/firestore-tally/tally/shards"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
)

func watchCommand() *cobra.Command {
	t := target{endless: true}
	c := &cobra.Command{
		Use:   "watch COUNTER...",
		Short: "Print counters' roll-ups whenever they change, until Ctrl-C",
		Long: `Print a line for each version of the counters' roll-ups: the total, as of when, and how old that was when the version came. It bills one read for
each. A counter without a roll-up is waited for.`,
		Example: `  tally watch likes
  tally watch likes views --json | jq .rollup.total`,
		Args: cobra.MinimumNArgs(1),
	}
	return t.command(c, viewer, func(ctx context.Context, args []string) error {
		counters, ctx := errgroup.WithContext(ctx)
		var mu sync.Mutex // lines are not mixed
		for _, arg := range args {
			c := t.counter(arg)
			if c.rollUp == "" {
				return fmt.Errorf("no roll-up is known for %s: --rollup names it", c.path)
			}
			if _, err := t.known(ctx, arg); errors.Is(err, errUnknown) {
				fmt.Fprintf(t.logs, "tally: %v; waiting for it\n", err)
			} else if err != nil {
				return err
			}
			counters.Go(func() error { return t.watch(ctx, c, &mu) })
		}
		return counters.Wait()
	})
}

// watch prints a counter's roll-ups until ctx ends, which is no error.
func (t *target) watch(ctx context.Context, c counter, mu *sync.Mutex) error {
	for r, err := range c.RollUps(ctx) {
		if ctx.Err() != nil {
			return nil
		}
		line := struct {
			Counter string  `json:"counter"`
			RollUp  *rollUp `json:"rollup"`
		}{c.path, nil}
		text := "no roll-up yet"
		switch {
		case err == nil:
			line.RollUp, text = rollUpJSON(r), rollUpText(r)
		case !errors.Is(err, shards.ErrNoRollUp):
			return err
		}
		mu.Lock()
		err = t.print(line, "%s\t%s", c.path, text)
		mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}
