package rollup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup/route"
)

// A Note tells audits that counters need one, although no cycle may be due:
// docs/design/schedule.md#what-does-not-wait-for-the-cycle says why. Each ID begins with
// document.NotePrefix.
type Note struct {
	ID string

	// Counters are the roll-ups' paths of the counters that the note names. The times tell two
	// notes of one counter apart. They are of local clocks, so nothing else follows from them. A
	// note without names is about all counters.
	Counters map[string]time.Time

	// UpdateTime is when the note was last written, as Firestore says; zero when it does not exist.
	// It is the precondition of the write that replaces it.
	UpdateTime time.Time
}

const (
	// noteAll is the ID of the note that all counters need an audit.
	noteAll = document.NotePrefix + "all"

	// noteCounters is the ID of the note that names counters.
	noteCounters = document.NotePrefix + "counters"
)

// untoldOf returns the ID of a template's note that events came without their documents.
func untoldOf(t *route.Template) string { return document.NotePrefix + "left-" + t.Hash() }

// unkeptPrefix begins the ID of each note that a counter is unkept. It comes after all others, so
// that these do not hide the others from a query that has a limit.
const unkeptPrefix = document.NotePrefix + "unkept-"

// unkeptOf returns the ID of the note that a counter is unkept.
func unkeptOf(c route.Counter) string { return unkeptPrefix + document.IDOf(c.RollUp) }

const (
	// noteEvery is the least time between two writes of a note that has no names, by one instance.
	// Events that need one may come all the time, but a document takes about one write a second. So
	// a note that is older than an instant by less than that may stand for a later event.
	noteEvery = time.Minute

	// maxNoted is how many counters a note names at most. If there are more, all counters are
	// noted.
	maxNoted = 100

	// noteTries is how often the writing of a note is tried that others write, too.
	noteTries = 5
)

// Notes writes notes for audits. It may be used by many goroutines at once.
type Notes struct {
	store Store

	mu    sync.Mutex
	noted map[string]time.Time // when a note without names was last sent, by ID and the local clock
}

// NewNotes returns a Notes that writes to the store.
func NewNotes(store Store) *Notes { return &Notes{store: store, noted: make(map[string]time.Time)} }

// All notes that all counters need an audit. If it returns an error, nothing was noted.
func (n *Notes) All(ctx context.Context) error { return n.note(ctx, noteAll) }

// Untold notes that an event of the source came without its documents, because they were too large
// for it. Such an event does not tell which counter its document has left. The totals of that
// counter are wrong until an audit repairs them, although no event was lost. An audit that finds
// the note does not call the difference drift. If Untold returns an error, the event must be
// delivered again.
func (n *Notes) Untold(ctx context.Context, s route.Source) error {
	for _, t := range s.Keyed() {
		err := n.note(ctx, untoldOf(t))
		if err != nil {
			return fmt.Errorf("rollup: noting that an event of %s has no room for its document: %w", s.Path(), err)
		}
	}
	return nil
}

// note writes a note without names, unless this instance has just done that.
func (n *Notes) note(ctx context.Context, id string) error {
	sent := time.Now()

	n.mu.Lock()
	last, noted := n.noted[id]
	n.mu.Unlock()
	if noted && sent.Sub(last) < noteEvery {
		return nil
	}

	err := renew(ctx, n.store, Note{ID: id})
	if err != nil {
		return err
	}

	n.mu.Lock()
	defer n.mu.Unlock()
	n.noted[id] = sent
	return nil
}

// renew writes a note over what its document holds. If another instance has just written it, that
// counts as done.
func renew(ctx context.Context, store Store, n Note) error {
	old, err := store.LoadNote(ctx, n.ID)
	if err != nil {
		return err
	}
	n.UpdateTime = old.UpdateTime
	err = store.SaveNote(ctx, n)
	if errors.Is(err, ErrConflict) {
		return nil
	}
	return err
}

// noteUntold notes the circular counters about which an event came without its documents. Such an
// event may be of a roll-up, so another roll-up must not follow, or of a change.
func (c *Coalescer) noteUntold(ctx context.Context, concerns []route.Concern) error {
	isUntold := func(concern route.Concern) bool { return concern.Untold }
	if !slices.ContainsFunc(concerns, isUntold) { // nearly always
		return nil
	}

	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	for _, concern := range concerns {
		if !concern.Untold {
			continue
		}
		err := c.notes.note(ctx, untoldOf(concern.Template))
		if err == nil {
			err = c.notes.Counter(ctx, concern.Counter)
		}
		if err != nil {
			return fmt.Errorf("rollup: noting that an event came without its documents: %w", err)
		}
	}
	return nil
}

// Counter notes that a counter needs an audit. If the note names as many counters as it can, all
// counters are noted. If Counter returns an error, nothing was noted.
func (n *Notes) Counter(ctx context.Context, c route.Counter) error {
	full := false
	err := editNote(ctx, n.store, noteCounters, func(counters map[string]time.Time) bool {
		_, named := counters[c.RollUp]
		full = !named && len(counters) >= maxNoted
		if !full {
			counters[c.RollUp] = time.Now()
		}
		return !full
	})
	if err == nil && full {
		err = n.All(ctx)
	}
	if err != nil {
		return fmt.Errorf("rollup: noting that %s needs an audit: %w", c.RollUp, err)
	}
	return nil
}

// editNote changes the names of a note. The function edit is given the present ones, and reports
// whether to save them. It is called again if others have written the note meanwhile.
func editNote(ctx context.Context, store Store, id string, edit func(map[string]time.Time) bool) error {
	for try := 1; ; try++ {
		note, err := store.LoadNote(ctx, id)
		if err != nil {
			return err
		}

		counters := make(map[string]time.Time)
		maps.Copy(counters, note.Counters)
		if !edit(counters) {
			return nil
		}

		note.Counters = counters
		if len(counters) == 0 {
			err = store.DeleteNote(ctx, note)
		} else {
			err = store.SaveNote(ctx, note)
		}
		if !errors.Is(err, ErrConflict) || try == noteTries {
			return err
		}
	}
}

// noteUnkept notes for audits that the counter is unkept, before its events are acknowledged. So
// each call of the schedule tries the counter, and none calls the difference drift that the events
// leave behind. The cycle would find it, too, so an error is only logged. Each try of an unkept
// counter notes it; after some pauses that is once a minute.
func (c *Coalescer) noteUnkept(ctx context.Context, counter route.Counter, eventID string) {
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()

	note := Note{ID: unkeptOf(counter), Counters: map[string]time.Time{counter.RollUp: time.Now()}}
	err := renew(ctx, c.store, note)
	if err != nil {
		c.options.Logger.WarnContext(ctx, "an unkept counter was not noted; an audit may call it drift", "counter", counter.RollUp, "event_id", eventID, "error", err)
	}
}

// UnkeptSince returns when the counter was last noted as unkept; zero if it was not, or was kept
// since and an audit has seen that.
func UnkeptSince(ctx context.Context, store Store, c route.Counter) (time.Time, error) {
	note, err := store.LoadNote(ctx, unkeptOf(c))
	return note.UpdateTime, err
}

// wasUnkept reports whether a counter was unkept after an instant. An instance acknowledges events
// for up to a pause after its note. So a note that is older than the instant by less than that
// counts, too.
func (a *audit) wasUnkept(ctx context.Context, c route.Counter, since time.Time) bool {
	note, err := a.loadNote(ctx, unkeptOf(c))
	if err != nil {
		a.options.Logger.WarnContext(ctx, "the note about an unkept counter was not read; the difference counts as drift", "counter", c.RollUp, "error", err)
		return false
	}
	return note.UpdateTime.After(since.Add(-longestUnkept))
}

// untold reports whether events of the counter's template came without their documents since an
// instant.
func (a *audit) untold(ctx context.Context, c route.Counter, since time.Time) bool {
	noted := slices.ContainsFunc(c.Template.Routes, func(r *route.Route) bool { return r.By != nil || r.Circular() })
	if !noted {
		return false
	}

	note, err := a.loadNote(ctx, untoldOf(c.Template))
	if err != nil {
		a.options.Logger.WarnContext(ctx, "the note about events without their documents was not read; the difference counts as drift", "counter", c.RollUp, "error", err)
		return false
	}
	return note.UpdateTime.After(since.Add(-noteEvery))
}

func (a *audit) loadNote(ctx context.Context, id string) (Note, error) {
	ctx, cancel := context.WithTimeout(ctx, a.options.Timeout)
	defer cancel()
	return a.store.LoadNote(ctx, id)
}

// loadNotes loads the notes that this audit works on. Notes of unkept counters may be more than a
// query returns, so a second query goes on after those that the last audit has read.
func (a *audit) loadNotes(ctx context.Context) {
	if a.o.DryRun {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, a.options.Timeout)
	defer cancel()

	notes, err := a.store.Notes(ctx, "", maxNoted)
	if err != nil {
		a.problems = append(a.problems, fmt.Errorf("rollup: reading the notes for audits: %w", err))
		return
	}
	a.notes = notes
	for _, n := range notes {
		if len(n.Counters) == 0 {
			a.noted = later(a.noted, n.UpdateTime)
		}
	}
	if len(notes) < maxNoted {
		a.moveNoted("")
		return
	}

	after := max(a.cursor.Noted, notes[len(notes)-1].ID)
	more, err := a.store.Notes(ctx, after, maxNoted)
	if err != nil {
		a.problems = append(a.problems, fmt.Errorf("rollup: reading the notes for audits: %w", err))
		return
	}
	a.notes = append(a.notes, more...)
	if len(more) < maxNoted {
		a.moveNoted("")
	} else {
		a.moveNoted(more[len(more)-1].ID)
	}
}

// moveNoted notes in the cursor up to where the notes were read.
func (a *audit) moveNoted(id string) {
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
			c, kept := a.routes.Counter(path)
			if !kept { // by no route that events serve
				continue
			}

			d := a.doubt(FoundCounter{Counter: c}, -1)
			d.left = a.ended(ctx) || a.spent()
			a.named = append(a.named, d)
			if d.left {
				continue
			}
			d.left = time.Since(at) < missingAfter[len(missingAfter)-1] // if its document is missing
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
	ctx, cancel := context.WithTimeout(ctx, a.options.Timeout)
	defer cancel()

	left := make(map[string]bool)
	a.mu.Lock()
	for _, d := range a.named {
		left[d.Counter.RollUp] = d.left
	}
	a.mu.Unlock()

	for _, n := range a.notes {
		err := a.settle(ctx, n, left)
		if err != nil && !errors.Is(err, ErrConflict) { // refused: it was written meanwhile, and the next audit reads it
			a.problems = append(a.problems, fmt.Errorf("rollup: taking the note %s away: %w", n.ID, err))
		}
	}
}

// settle takes away what the audit is done with of one note. An unkept counter's note is left for
// as long as an instance may pause because of it.
func (a *audit) settle(ctx context.Context, n Note, left map[string]bool) error {
	if len(n.Counters) == 0 {
		before := sooner(a.cursor.RollUps.Began, a.cursor.Shards.Began)
		done := complete(a.cursor.Places) && n.UpdateTime.Before(before.Add(-noteEvery))
		leaves := a.report.Failed+a.report.Unkept+a.report.Differing > 0
		if !done || a.o.FromFirst && leaves {
			return nil
		}
		return a.store.DeleteNote(ctx, n)
	}

	if n.ID != noteCounters {
		for path := range n.Counters {
			if left[path] || !n.UpdateTime.Before(a.cursor.ReadTime.Add(-longestUnkept)) {
				return nil
			}
		}
		return a.store.DeleteNote(ctx, n)
	}

	return editNote(ctx, a.store, n.ID, func(counters map[string]time.Time) bool {
		before := len(counters)
		for path, at := range n.Counters {
			if !left[path] && counters[path].Equal(at) {
				delete(counters, path)
			}
		}
		return len(counters) < before
	})
}
