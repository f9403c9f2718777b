package rollup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/firestore-tally/tally/rollup/route"
)

// UntoldNotes writes notes for audits. A note says that events came without their documents,
// because the documents were too large for them. Such an event does not tell which counter its
// document has left. The totals of that counter are wrong until an audit repairs them, although no
// event was lost. An audit that finds a note does not call the difference drift.
//
// It may be used by many goroutines at once.
type UntoldNotes struct {
	store AuditStore

	mu    sync.Mutex
	noted map[*route.Template]time.Time // when the last note was sent, by the local clock
}

// NewUntoldNotes returns an UntoldNotes that writes to the store.
func NewUntoldNotes(store AuditStore) *UntoldNotes {
	return &UntoldNotes{store: store, noted: make(map[*route.Template]time.Time)}
}

// untoldEvery is the least time between two writes of a template's note. Somebody may write large
// documents all the time, but a note takes about one write a second.
const untoldEvery = time.Minute

// Note notes that an event of the source came without its document. If it returns an error, the
// event must be delivered again.
func (u *UntoldNotes) Note(ctx context.Context, s route.Source) error {
	for _, t := range s.Grouped() {
		err := u.note(ctx, t)
		if err != nil {
			return fmt.Errorf("rollup: noting that an event of %s has no room for its document: %w", s.Path(), err)
		}
	}
	return nil
}

func (u *UntoldNotes) note(ctx context.Context, t *route.Template) error {
	sent := time.Now()

	u.mu.Lock()
	last, noted := u.noted[t]
	u.mu.Unlock()
	if noted && sent.Sub(last) < untoldEvery {
		return nil
	}

	c, err := u.store.LoadCursor(ctx, untoldOf(t))
	if err != nil {
		return err
	}
	_, err = u.store.SaveCursor(ctx, untoldOf(t), Cursor{Tick: sent, UpdateTime: c.UpdateTime})
	if err != nil && !errors.Is(err, ErrConflict) { // refused: another instance has just noted it
		return err
	}

	u.mu.Lock()
	defer u.mu.Unlock()
	u.noted[t] = sent
	return nil
}

// untoldOf returns the Work whose cursor is a template's note. The note says nothing but when it
// was saved.
func untoldOf(t *route.Template) Work { return Work("untold-" + t.Hash()) }

// untold reports whether events of the counter's template came without their documents since an
// instant. A note is not written again within untoldEvery. So a note that is older than the instant
// by less than that may stand for a later event.
func (a *audit) untold(ctx context.Context, c route.Counter, since time.Time) bool {
	byGroups := slices.ContainsFunc(c.Template.Routes, func(r *route.Route) bool { return r.By != "" })
	if !byGroups {
		return false
	}

	ctx, cancel := context.WithTimeout(ctx, a.options.Timeout)
	defer cancel()
	note, err := a.store.LoadCursor(ctx, untoldOf(c.Template))
	if err != nil {
		a.options.Logger.WarnContext(ctx, "the note about events without their documents was not read; the difference counts as drift", "counter", c.RollUp, "error", err)
		return false
	}
	return note.UpdateTime.After(since.Add(-untoldEvery))
}
