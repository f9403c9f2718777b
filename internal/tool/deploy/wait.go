package deploy

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/googleapis/gax-go/v2"
)

// A wait is what a step waits for. It changes nothing.
type wait interface {
	// until returns nil when the wait is over, or an error if it cannot end well. It writes what it
	// waits for to progress, and again whenever that has changed.
	until(ctx context.Context, progress io.Writer) error
}

// A pause waits for a time.
type pause time.Duration

func (p pause) until(ctx context.Context, _ io.Writer) error { return sleep(ctx, time.Duration(p)) }

// sleep returns after a time, or when ctx ends, with the reason.
func sleep(ctx context.Context, d time.Duration) error {
	err := gax.Sleep(ctx, d)
	if err != nil {
		return context.Cause(ctx)
	}
	return nil
}

// regions sees that what is to be made can be made in its region.
type regions struct {
	description *Description
	state       *State
}

func (r *regions) until(ctx context.Context, _ io.Writer) error {
	for _, k := range placed {
		if _, err := r.state.locations(ctx, k, "projects/"+r.state.Project); err != nil {
			return err
		}
	}
	return r.description.checkRegion(r.state)
}

// indexLook is how often a wait looks at the indexes.
const indexLook = 30 * time.Second

// A readiness waits until the indexes of a database are ready.
type readiness struct {
	description *Description
	database    Database
	state       *State
}

// until waits for a build, which may take hours. It is an error if an index cannot become ready, or
// if the indexes cannot be read.
func (r *readiness) until(ctx context.Context, progress io.Writer) error {
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
		if err := sleep(ctx, indexLook); err != nil {
			return err
		}
	}
}

// waiting returns the database's indexes, in words, that are being built. It is an error if one is
// not ready and not being built.
func (r *readiness) waiting() (waiting []string, err error) {
	for _, u := range r.description.unready(r.state) {
		if segment(u.Name, "databases") != r.database.ID {
			continue
		}
		if u.have.Get("state") != indexBuilding {
			return nil, fmt.Errorf("index %v; run tally deploy again: it makes the index once more", u)
		}
		waiting = append(waiting, u.String())
	}
	return waiting, nil
}
