package rollup

import (
	"context"
	"errors"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup/route"
)

// unkeptOf returns the Work whose cursor is the note that a counter was unkept. The note says
// nothing but when it was saved.
func unkeptOf(c route.Counter) Work { return Work("unkept-" + document.IDOf(c.RollUp)) }

// noteUnkept notes for audits that the counter is unkept, before its events are acknowledged.
// Without the note, an audit would call the difference that they leave behind drift. So an error is
// only logged. Each try of an unkept counter notes it; after some pauses that is once a minute.
func (c *Coalescer) noteUnkept(ctx context.Context, counter route.Counter, eventID string) {
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()

	note, err := c.store.LoadCursor(ctx, unkeptOf(counter))
	if err == nil {
		_, err = c.store.SaveCursor(ctx, unkeptOf(counter), Cursor{Tick: time.Now(), UpdateTime: note.UpdateTime})
	}
	if err != nil && !errors.Is(err, ErrConflict) { // refused: another instance has just noted it
		c.options.Logger.WarnContext(ctx, "an unkept counter was not noted; an audit may call it drift", "counter", counter.RollUp, "event_id", eventID, "error", err)
	}
}

// wasUnkept reports whether a counter was unkept after an instant. An instance acknowledges events
// for up to a pause after its note. So a note that is older than the instant by less than that
// counts, too.
func (a *audit) wasUnkept(ctx context.Context, c route.Counter, since time.Time) bool {
	ctx, cancel := context.WithTimeout(ctx, a.options.Timeout)
	defer cancel()

	note, err := a.store.LoadCursor(ctx, unkeptOf(c))
	if err != nil {
		a.options.Logger.WarnContext(ctx, "the note about an unkept counter was not read; the difference counts as drift", "counter", c.RollUp, "error", err)
		return false
	}
	return note.UpdateTime.After(since.Add(-longestUnkept))
}
