// Package note keeps what events leave for audits: notes that counters need one, although no cycle
// may be due (docs/design/schedule.md#what-does-not-wait-for-the-cycle).
package note

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup/internal/roll"
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

// untoldID returns the ID of a template's note that events came without their documents.
func untoldID(t *route.Template) string { return document.NotePrefix + "left-" + t.Hash() }

// unkeptPrefix begins the ID of each note that a counter is unkept. It comes after all others, so
// that these do not hide the others from a query that has a limit.
const unkeptPrefix = document.NotePrefix + "unkept-"

// IsUnkept reports whether the note is that of an unkept counter.
func (n Note) IsUnkept() bool { return strings.HasPrefix(n.ID, unkeptPrefix) }

// unkeptID returns the ID of the note that a counter is unkept.
func unkeptID(c route.Counter) string { return unkeptPrefix + document.IDOf(c.RollUp) }

const (
	// Every is the least time between two writes of a note that has no names, by one instance.
	// Events that need one may come all the time, but a document takes about one write a second. So
	// a note that is older than an instant by less than that may stand for a later event.
	Every = time.Minute

	// Most is how many counters a note names at most. If there are more, all counters are
	// noted.
	Most = 100

	// noteTries is how often the writing of a note is tried that others write, too.
	noteTries = 5
)

// LongestUnkept is the longest pause between two tries of an unkept counter. A try costs a look,
// and a sum or a write that fails.
const LongestUnkept = time.Minute

// MissingFor is how long a counter is looked at whose document is missing, by alarms or because a
// note names it.
const MissingFor = time.Hour

// A Store has the notes of a database. As for all that the engine asks of a database, the outcome
// is unknown after any error but ErrConflict.
type Store interface {
	// LoadNote returns the note with an ID. If there is none, the result has no UpdateTime.
	LoadNote(ctx context.Context, id string) (Note, error)

	// SaveNote saves n. The precondition is that the update time of the note's document is still
	// n.UpdateTime, or if that is zero, that there is none. SaveNote returns ErrConflict if
	// Firestore refuses.
	SaveNote(ctx context.Context, n Note) error

	// DeleteNote deletes n, on the precondition that its document's update time is still
	// n.UpdateTime. DeleteNote returns ErrConflict if Firestore refuses.
	DeleteNote(ctx context.Context, n Note) error
}

// Notes writes notes for audits. It may be used by many goroutines at once.
type Notes struct {
	store Store

	mu   sync.Mutex
	sent map[string]time.Time // when a note without names was last sent, by ID and the local clock
}

// New returns a Notes that writes to the store.
func New(store Store) *Notes {
	return &Notes{store: store, sent: make(map[string]time.Time)}
}

// All notes that all counters need an audit. If it returns an error, nothing was noted.
func (n *Notes) All(ctx context.Context) error { return n.write(ctx, noteAll) }

// Untold notes that an event of the source came without its documents, because they were too large
// for it. Such an event does not tell which counter its document has left. The totals of that
// counter are wrong until an audit repairs them, although no event was lost. An audit that finds
// the note does not call the difference drift. If Untold returns an error, the event must be
// delivered again.
func (n *Notes) Untold(ctx context.Context, s route.Source) error {
	for _, t := range s.Keyed() {
		err := n.write(ctx, untoldID(t))
		if err != nil {
			return fmt.Errorf("rollup: noting that an event of %s has no room for its document: %w", s.Path(), err)
		}
	}
	return nil
}

// UntoldCounter notes that an event came without its documents, and may be of a change of the
// counter. If it returns an error, the event must be delivered again.
func (n *Notes) UntoldCounter(ctx context.Context, c route.Counter) error {
	err := n.write(ctx, untoldID(c.Template))
	if err != nil {
		return err
	}
	return n.Counter(ctx, c)
}

// Unkept notes that the counter is unkept. Each such counter has a note of its own.
func (n *Notes) Unkept(ctx context.Context, c route.Counter) error {
	return renew(ctx, n.store, Note{ID: unkeptID(c), Counters: map[string]time.Time{c.RollUp: time.Now()}})
}

// write writes a note without names, unless this instance has just done that.
func (n *Notes) write(ctx context.Context, id string) error {
	sent := time.Now()

	n.mu.Lock()
	last, noted := n.sent[id]
	n.mu.Unlock()
	if noted && sent.Sub(last) < Every {
		return nil
	}

	err := renew(ctx, n.store, Note{ID: id})
	if err != nil {
		return err
	}

	n.mu.Lock()
	defer n.mu.Unlock()
	n.sent[id] = sent
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
	if errors.Is(err, roll.ErrConflict) {
		return nil
	}
	return err
}

// Counter notes that a counter needs an audit. If the note names as many counters as it can, all
// counters are noted. If Counter returns an error, nothing was noted.
func (n *Notes) Counter(ctx context.Context, c route.Counter) error {
	full := false
	err := editNote(ctx, n.store, noteCounters, func(counters map[string]time.Time) bool {
		_, named := counters[c.RollUp]
		full = !named && len(counters) >= Most
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
		if !errors.Is(err, roll.ErrConflict) || try == noteTries {
			return err
		}
	}
}

// UnkeptSince returns when the counter was last noted as unkept; zero if it was not, or was kept
// since and an audit has seen that.
func UnkeptSince(ctx context.Context, store Store, c route.Counter) (time.Time, error) {
	note, err := store.LoadNote(ctx, unkeptID(c))
	return note.UpdateTime, err
}

// UntoldSince returns when it was last noted that events of counters with the counter's template
// came without their documents; zero if it was not.
func UntoldSince(ctx context.Context, store Store, c route.Counter) (time.Time, error) {
	note, err := store.LoadNote(ctx, untoldID(c.Template))
	return note.UpdateTime, err
}

// RemoveNames takes the names of counters away from a note, except those that are left. A name
// stays if it was noted again since the note was read.
func RemoveNames(ctx context.Context, store Store, n Note, left map[string]bool) error {
	return editNote(ctx, store, n.ID, func(counters map[string]time.Time) bool {
		before := len(counters)
		for path, at := range n.Counters {
			if !left[path] && counters[path].Equal(at) {
				delete(counters, path)
			}
		}
		return len(counters) < before
	})
}
