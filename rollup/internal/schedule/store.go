package schedule

import (
	"cmp"
	"context"
	"time"

	"github.com/firestore-tally/tally/rollup/internal/note"
	"github.com/firestore-tally/tally/rollup/internal/roll"
	"github.com/firestore-tally/tally/rollup/route"
)

// An Store is a Store that an audit can walk.
type Store interface {
	roll.Store
	note.Store

	// RollUps returns up to limit documents at paths that the template gives, from a place on. The
	// place "" is the beginning. The documents need not be roll-ups. But if the counters are
	// FoundByHomes, those without a tally are left out unless they have shards or Unwritten totals;
	// the page counts those of them that hold a foreign kind. Their order is the
	// store's own, and does not change. Documents that come or go meanwhile may be missed. A page
	// may hold fewer than limit, or none, although more follow. It takes one query, and for each
	// home without a tally a further one for each route, until one finds a shard. Once half of ctx's
	// time is over, it makes no further ones, and the page ends.
	RollUps(ctx context.Context, template *route.Template, from string, limit int) (Page, error)

	// Recent is RollUps of a template of days, weeks or months, but leaves out those that ended before
	// an instant, at the cost of a constant number of reads for each collection of them. since says
	// for the path of such a collection which instant that is; zero: none is left out. None is left
	// out either if the document is missing within which Tally makes the collection's roll-ups. It
	// takes two queries for each collection.
	Recent(ctx context.Context, template *route.Template, since func(collection string) time.Time, from string, limit int) (Page, error)

	// Missing returns counters without a roll-up in the same way. They must not be FoundByHomes.
	// Those are the counters that have shards by the route, whether or not the shards' parent
	// documents exist, and whose roll-up has no tally. If the route has a day or a month as a key,
	// those that ended before since are left out. Counters that also have shards by an earlier
	// route of the template are left out, because a walk of that route finds them. So the walks of
	// all routes of a template find each counter once. Missing looks at up to limit counters, with
	// or without a roll-up. Each takes a query, and the read of its roll-up. A page makes no further
	// query once half of ctx's time is over, so that what it has found is not lost.
	Missing(ctx context.Context, route *route.Route, since time.Time, from string, limit int) (Page, error)

	// Sources returns a snapshot for the counter's documents only. Its RollUp, its Ownerless and
	// its Claim must not be used. It makes no call, so Sum opens the snapshot, and ReadTime is
	// known only after that.
	Sources(ctx context.Context, c route.Counter) roll.Snapshot

	// LoadCursor returns what SaveCursor saved last for this work. If there is nothing, it returns
	// the zero Cursor.
	LoadCursor(ctx context.Context, of Work) (Cursor, error)

	// SaveCursor saves c. The precondition is that the cursor that was saved last has the update
	// time c.UpdateTime, or if that is zero, that there is none. It returns the new update time, or
	// ErrConflict if Firestore refuses.
	SaveCursor(ctx context.Context, of Work, c Cursor) (time.Time, error)

	// Notes returns up to limit notes whose IDs come after an ID, in their order. It takes one
	// query.
	Notes(ctx context.Context, after string, limit int) ([]note.Note, error)
}

// A Work names a kind of work that goes on where it stopped. A store keeps one Cursor for each. On
// Firestore, the name is the id of the cursor's document.
type Work string

// These are all works.
const (
	Auditing Work = "cursor"
	Keeping  Work = "keep"
)

// A Page is a part of a walk.
type Page struct {
	Found []FoundCounter
	Next  string // the place where the walk goes on; "" when it is at its end

	// ReadTime is when the roll-ups were read, as Firestore says. It is zero if none was read.
	ReadTime time.Time

	// Foreign counts the documents that were left out and hold a value of the app's in the field of a
	// total. ForeignExample says what one of them holds.
	Foreign        int
	ForeignExample string

	// Reads is how many reads finding the page was billed, including reads of documents that belong
	// to no counter.
	Reads int64
}

// isLeftOut reports whether a document is left to the walks of the shards, because it has neither a
// tally nor Unwritten totals.
func (p *Page) isLeftOut(f FoundCounter) bool {
	if !f.RollUp.Tally.AsOf.IsZero() || len(f.RollUp.Unwritten()) > 0 {
		return false
	}
	p.LeaveOut(f)
	return true
}

// LeaveOut notes that a document is left out of the page.
func (p *Page) LeaveOut(f FoundCounter) {
	example := f.RollUp.ForeignExample(f.Counter.RollUp)
	if example != "" {
		p.Foreign++
		p.ForeignExample = cmp.Or(p.ForeignExample, example)
	}
}

// A FoundCounter is a counter that a walk found.
type FoundCounter struct {
	route.Counter
	RollUp    roll.RollUp
	Ownerless bool   // its owner is missing; RollUps says so, and Missing does not
	Next      string // the place behind it; "" when it is the last
}
