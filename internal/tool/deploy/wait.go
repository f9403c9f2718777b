package deploy

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/googleapis/gax-go/v2"
)

// A Wait is what a step waits for. It changes nothing.
type Wait interface {
	// Until returns nil when the wait is over, or an error if it cannot end well. It writes what it
	// waits for to progress, and again whenever that has changed.
	Until(ctx context.Context, progress io.Writer) error

	// Command returns a command that waits for the same in a script.
	Command() Command
}

// A pause waits for a time.
type pause time.Duration

// Until implements Wait.
func (p pause) Until(ctx context.Context, _ io.Writer) error {
	err := gax.Sleep(ctx, time.Duration(p))
	if err != nil {
		return context.Cause(ctx)
	}
	return nil
}

// Command implements Wait.
func (p pause) Command() Command { return Command{Args: []string{"sleep", number(time.Duration(p))}} }

// indexLook is how often a wait looks at the indexes.
const indexLook = 30 * time.Second

// A readiness waits until the indexes of a database are ready.
type readiness struct {
	description *Description
	database    Database
	state       *State
}

// Until implements Wait. A build may take hours. It is an error if an index cannot become ready, or
// if the indexes cannot be read.
func (r *readiness) Until(ctx context.Context, progress io.Writer) error {
	said := ""
	for {
		if err := r.state.ReadIndexes(ctx, r.description.Databases); err != nil {
			return err
		}

		waiting, err := r.waiting()
		if err != nil {
			return err
		}
		if len(waiting) == 0 {
			return nil
		}

		text := "  " + strings.Join(waiting, "\n  ") + "\n"
		if text != said {
			said = text
			fmt.Fprint(progress, text)
		}

		err = gax.Sleep(ctx, indexLook)
		if err != nil {
			return context.Cause(ctx)
		}
	}
}

// waiting returns the database's indexes, in words, that are being built. It is an error if one is
// not ready and not being built.
func (r *readiness) waiting() (waiting []string, err error) {
	for _, u := range r.description.unready(r.state) {
		if segment(u.name, "databases") != r.database.ID {
			continue
		}
		if u.have.Get("state") != indexBuilding {
			return nil, fmt.Errorf("index %v; run tally deploy again: it makes the index anew", u)
		}
		waiting = append(waiting, u.String())
	}
	return waiting, nil
}

// Command implements Wait. A script waits until no index is being built.
func (r *readiness) Command() Command {
	list := Index.Command(r.state.Project, "list", "/databases/"+r.database.ID+"/", "--filter=state="+indexBuilding, "--format=value(name)")
	loop := `until building=$(` + list.String() + `) || exit 1; [ -z "$building" ]; do sleep ` + number(indexLook) + `; done`
	return Command{Args: []string{"sh", "-c", loop}}
}
