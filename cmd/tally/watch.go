package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/firestore-tally/tally/rollup"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
)

func watchCommand() *cobra.Command {
	t := target{endless: true}
	c := newCommand("watch COUNTER...")
	return t.command(c, viewer, func(ctx context.Context, args []string) error {
		counters, ctx := errgroup.WithContext(ctx)
		var mu sync.Mutex // lines are not mixed
		for _, arg := range args {
			c, err := t.counter(arg)
			if err != nil {
				return err
			}
			if err := t.exists(ctx, &c); errors.Is(err, errUnknown) {
				fmt.Fprintf(t.logs, "tally: %s; waiting for it\n", said(err))
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
	versions := t.client.Doc(c.RollUp).Snapshots(ctx)
	defer versions.Stop()
	var last time.Time // the app may have written another part of the document
	for first := true; ; first = false {
		doc, err := versions.Next()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("listening to %s: %w", c.RollUp, err)
		}
		version := rollup.RollUpOf(c.Template, doc.Data(), doc.UpdateTime)
		if !first && version.Tally.AsOf.Equal(last) {
			continue
		}
		last = version.Tally.AsOf
		r, text := rollUpOf(version, doc.ReadTime), cells("no roll-up yet")
		if r != nil {
			text = r.cells(c.Template)
		}
		mu.Lock()
		err = t.print(map[string]any{"counter": c.path, "rollup": r}, "%s\t%s", c.path, text)
		mu.Unlock()
		if err != nil {
			return err
		}
	}
}
