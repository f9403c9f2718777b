package counters

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/firestore-tally/tally/cmd/tally/session"
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/tool/mistakes"
	"github.com/firestore-tally/tally/internal/tool/terminal"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
	"golang.org/x/sync/errgroup"
)

// removedTemplates returns the templates of routes that are gone. text has these routes. It is an
// error if a route that runs still writes to documents of such a template.
func removedTemplates(routes route.Routes, text string) ([]*route.Template, error) {
	if text == "" {
		return nil, nil
	}
	removed, err := mistakes.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("--removed: %w", err)
	}

	for _, template := range removed.Templates() {
		for _, running := range routes.Templates() {
			if overlap(running.Segments(), template.Segments()) {
				return nil, fmt.Errorf("--removed: %s belongs to a running route, %s; without --removed, audit --prune finds what earlier routes left there",
					template, running.Routes[0])
			}
		}
	}
	return removed.Templates(), nil
}

// overlap reports whether a document may be at both paths.
func overlap(a, b route.Path) bool {
	return slices.EqualFunc(a, b, func(s, t route.Segment) bool { return s.Capture || t.Capture || s.Name == t.Name })
}

// removedPage is how many documents are read at once.
const removedPage = 300

// errMeanwhile says that the app wrote documents while their totals were being taken away.
var errMeanwhile = errors.New("some documents were written meanwhile, and keep their totals; run the same command again to continue")

// withdraw finds the documents of templates that no route has any more. They still have the totals
// and the field tally that their routes left. Unless it is a dry run, withdraw takes these away,
// and deletes a document of Tally's own that holds nothing else. It returns how many documents it
// found, without those that somebody wrote meanwhile: they keep their totals.
func withdraw(ctx context.Context, s *session.Session, templates []*route.Template, dryRun bool, concurrency int) (int, error) {
	done, refused := 0, 0
	for _, template := range templates {
		next := ""
		for {
			page, err := s.Store.RollUps(ctx, template, next, removedPage)
			if err != nil {
				return done, fmt.Errorf("finding the documents %s: %w", template, err)
			}
			isNone := func(f rollup.FoundCounter) bool { return f.RollUp.Tally.AsOf.IsZero() }
			left := slices.DeleteFunc(page.Found, isNone)

			conflicts := 0
			if !dryRun {
				conflicts, err = remove(ctx, s.Store, left, concurrency)
			}
			if err != nil {
				return done, err
			}
			done, refused = done+len(left)-conflicts, refused+conflicts
			s.Report(done, terminal.Unknown)

			if page.Next == "" {
				break
			}
			next = page.Next
		}
	}

	if refused > 0 {
		return done, fmt.Errorf("%d %w", refused, errMeanwhile)
	}
	return done, nil
}

// remove takes away what Tally wrote into documents. It returns how many it left as they were,
// because somebody had written them meanwhile.
func remove(ctx context.Context, store *firestorestore.Store, found []rollup.FoundCounter, concurrency int) (refused int, err error) {
	var conflicts atomic.Int64
	var work errgroup.Group
	work.SetLimit(concurrency)
	for _, f := range found {
		work.Go(func() error {
			err := store.Remove(ctx, f.Counter, allFormer(f))
			if errors.Is(err, rollup.ErrConflict) {
				conflicts.Add(1)
				return nil
			}
			return err
		})
	}
	err = work.Wait()
	return int(conflicts.Load()), err
}

// allFormer returns the roll-up of a document that is to lose everything of Tally's. Store.Remove
// takes away the template's totals and the former ones. So allFormer lists all other totals that
// Tally ever kept there as former.
func allFormer(f rollup.FoundCounter) rollup.RollUp {
	r, names := f.RollUp, f.Counter.Template.Totals()
	r.Tally.Former = slices.DeleteFunc(slices.Concat(r.Tally.Former, r.Tally.Totals), func(name string) bool { return slices.Contains(names, name) })
	slices.Sort(r.Tally.Former)
	r.Tally.Former = slices.Compact(r.Tally.Former)
	return r
}
