package counters

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/firestore-tally/tally/cmd/tally/command"
	"github.com/firestore-tally/tally/cmd/tally/counter"
	"github.com/firestore-tally/tally/cmd/tally/session"
	"github.com/firestore-tally/tally/internal/tool/terminal"
	"github.com/firestore-tally/tally/rollup"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
)

func watchCommand() *cobra.Command {
	return session.Command{Endless: true, Run: watch}.Define(command.New("watch COUNTER..."))
}

// watch prints the roll-ups of counters until ctx ends, which is not an error. It waits for those
// that do not exist.
func watch(ctx context.Context, s *session.Session, args []string) error {
	watching, ctx := errgroup.WithContext(ctx)
	var mu sync.Mutex // lines are not mixed
	for _, arg := range args {
		c, err := s.Counter(arg)
		if err != nil {
			return err
		}
		_, err = session.Exists(ctx, s.Client, c)
		if err != nil && !errors.Is(err, session.ErrUnknown) {
			return err
		}
		if err != nil {
			fmt.Fprintf(s.Logs, "tally: %s; waiting for it\n", terminal.ErrorLines(err))
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
func rollUps(ctx context.Context, s *session.Session, c counter.Counter, each func(*rollUp) error) error {
	versions := s.Client.Doc(c.RollUp).Snapshots(ctx)
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
		if err := each(rollUpOf(s.Config, c.Template, version, doc.ReadTime)); err != nil {
			return err
		}
	}
}

func printRollUp(s *session.Session, c counter.Counter, r *rollUp) error {
	text := terminal.Cells("no roll-up yet")
	if r != nil {
		text = r.cells(c.Template)
	}
	return s.Print(map[string]any{"counter": c.Path, "rollup": r}, "%s\t%s", c.Path, text)
}
