package schedule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/firestore-tally/tally/rollup/internal/note"
	"github.com/firestore-tally/tally/rollup/internal/roll"
	"github.com/firestore-tally/tally/rollup/route"
)

// wasUnkept reports whether a counter was unkept after an instant. An instance acknowledges events
// for up to a pause after its note. So a note that is older than the instant by less than that
// counts, too.
func (a *examiner) wasUnkept(ctx context.Context, c route.Counter, since time.Time) bool {
	return a.wasNoted(ctx, c, note.UnkeptSince, since.Add(-note.LongestUnkept))
}

// untold reports whether events of the counter's template came without their documents since an
// instant.
func (a *examiner) untold(ctx context.Context, c route.Counter, since time.Time) bool {
	isNoted := slices.ContainsFunc(c.Template.Routes, func(r *route.Route) bool { return r.By != nil || r.Circular() })
	return isNoted && a.wasNoted(ctx, c, note.UntoldSince, since.Add(-note.Every))
}

// wasNoted reports whether a note about a counter was written after an instant. The function read
// returns when it was written last.
func (a *examiner) wasNoted(ctx context.Context, c route.Counter, read func(context.Context, note.Store, route.Counter) (time.Time, error), after time.Time) bool {
	ctx, cancel := context.WithTimeout(ctx, a.Options.Timeout)
	defer cancel()
	at, err := read(ctx, a.store, c)
	if err != nil {
		a.Options.Logger.WarnContext(ctx, "a note was not read; the difference counts as drift", "counter", c.RollUp, "error", err)
		return false
	}
	return at.After(after)
}

// loadNotes loads the notes that this audit works on. Notes of unkept counters may be more than a
// query returns, so a second query goes on after those that the last audit has read.
func (a *audit) loadNotes(ctx context.Context) {
	if a.o.DryRun {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, a.Options.Timeout)
	defer cancel()

	notes, err := a.store.Notes(ctx, "", note.Most)
	if err != nil {
		a.problems = append(a.problems, fmt.Errorf("rollup: reading the notes for audits: %w", err))
		return
	}
	a.notes = notes
	for _, n := range notes {
		if len(n.Counters) == 0 {
			a.noted = roll.Later(a.noted, n.UpdateTime)
		}
	}
	if len(notes) < note.Most {
		a.setNoted("")
		return
	}

	after := max(a.cursor.Noted, notes[len(notes)-1].ID)
	more, err := a.store.Notes(ctx, after, note.Most)
	if err != nil {
		a.problems = append(a.problems, fmt.Errorf("rollup: reading the notes for audits: %w", err))
		return
	}
	a.notes = append(a.notes, more...)
	if len(more) < note.Most {
		a.setNoted("")
	} else {
		a.setNoted(more[len(more)-1].ID)
	}
}

// setNoted notes in the cursor up to where the notes were read.
func (a *audit) setNoted(id string) {
	if a.cursor.Noted != id {
		a.cursor.Noted, a.changed = id, true
	}
}

// examineNoted examines the counters that the notes name. They may use half of the audit's reads
// and time.
func (a *audit) examineNoted(ctx context.Context) {
	a.share = 0.5
	a.examined = make(map[string]bool)
	var work sync.WaitGroup
	defer work.Wait()

	for _, n := range a.notes {
		for path, at := range n.Counters {
			c, served := a.routes.Counter(path)
			if !served { // by no route that events serve
				continue
			}

			d := a.newDoubt(FoundCounter{Counter: c}, -1)
			d.left = a.timeIsUp(ctx) || a.readsUsedUp()
			a.named = append(a.named, d)
			if d.left {
				continue
			}
			d.left = time.Since(at) < note.MissingFor // if its document is missing
			a.examined[path] = true
			a.slots <- struct{}{}
			work.Go(func() {
				defer func() { <-a.slots }()
				a.examine(ctx, d)
			})
		}
	}
}

// settleNotes takes away what the audit is done with: the names of counters that it has compared,
// and the notes about all counters since which a lap of each kind has begun and ended. An audit
// from the first counter has no later one that goes on, so those stay if it leaves any counter.
func (a *audit) settleNotes(ctx context.Context) {
	if ctx.Err() != nil || a.overlapped {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, a.Options.Timeout)
	defer cancel()

	left := make(map[string]bool)
	a.mu.Lock()
	for _, d := range a.named {
		left[d.Counter.RollUp] = d.left
	}
	a.mu.Unlock()

	for _, n := range a.notes {
		err := a.settle(ctx, n, left)
		if err != nil && !errors.Is(err, roll.ErrConflict) { // refused: it was written meanwhile, and the next audit reads it
			a.problems = append(a.problems, fmt.Errorf("rollup: taking the note %s away: %w", n.ID, err))
		}
	}
}

// settle takes away what the audit is done with of one note. An unkept counter's note is left for
// as long as an instance may pause because of it.
func (a *audit) settle(ctx context.Context, n note.Note, left map[string]bool) error {
	if len(n.Counters) == 0 {
		before := roll.Sooner(a.cursor.RollUps.Began, a.cursor.Shards.Began)
		done := complete(a.cursor.Places) && n.UpdateTime.Before(before.Add(-note.Every))
		leaves := a.report.Failed+a.report.Unkept+a.report.Differing > 0
		if !done || a.o.FromFirst && leaves {
			return nil
		}
		return a.store.DeleteNote(ctx, n)
	}

	if n.IsUnkept() {
		for path := range n.Counters {
			if left[path] || !n.UpdateTime.Before(a.cursor.ReadTime.Add(-note.LongestUnkept)) {
				return nil
			}
		}
		return a.store.DeleteNote(ctx, n)
	}

	return note.RemoveNames(ctx, a.store, n, left)
}
