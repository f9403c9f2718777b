package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/firestore-tally/tally/internal/tool/terminal"
	"github.com/firestore-tally/tally/rollup"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
)

func watchCommand() *cobra.Command {
	return databaseCommand{endless: true, run: watch}.define(newCommand("watch COUNTER..."))
}

// watch prints the roll-ups of counters until ctx ends, which is not an error. It waits for those
// that do not exist.
func watch(ctx context.Context, s *session, args []string) error {
	watching, ctx := errgroup.WithContext(ctx)
	var mu sync.Mutex // lines are not mixed
	for _, arg := range args {
		c, err := s.counter(arg)
		if err != nil {
			return err
		}
		_, err = exists(ctx, s.client, c)
		if err != nil && !errors.Is(err, errUnknown) {
			return err
		}
		if err != nil {
			fmt.Fprintf(s.logs, "tally: %s; waiting for it\n", terminal.Said(err))
		}

		watching.Go(func() error {
			return rollUps(ctx, s, c, func(r *rollUp) error {
				mu.Lock()
				defer mu.Unlock()
				return printRollUp(s, c, r)
			})
		})
	}
	return watching.Wait()
}

// rollUps calls each with the counter's roll-up as it is, and again whenever the counter was rolled
// up; nil: there is no roll-up. It goes on until ctx ends, which is not an error.
func rollUps(ctx context.Context, s *session, c counter, each func(*rollUp) error) error {
	versions := s.client.Doc(c.RollUp).Snapshots(ctx)
	defer versions.Stop()

	seen := false
	var last time.Time
	for {
		doc, err := versions.Next()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("listening to %s: %w", c.RollUp, err)
		}

		version := rollup.RollUpOf(c.Template, doc.Data(), doc.UpdateTime)
		if seen && version.Tally.AsOf.Equal(last) {
			continue // the app has written another part of the document
		}
		seen, last = true, version.Tally.AsOf
		if err := each(rollUpOf(s.config, c.Template, version, doc.ReadTime)); err != nil {
			return err
		}
	}
}

func printRollUp(s *session, c counter, r *rollUp) error {
	text := cells("no roll-up yet")
	if r != nil {
		text = r.cells(c.Template)
	}
	return s.print(map[string]any{"counter": c.path, "rollup": r}, "%s\t%s", c.path, text)
}
