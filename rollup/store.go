package rollup

import (
	"context"
	"errors"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/value"
)

// A RollUp is a roll-up document.
type RollUp struct {
	Values map[string]value.Value // of the totals, by name, without those that the document lacks or whose value is no total's
	Tally  document.Tally
	Gone   []string // names of totals that a write takes away; nil of one that was read

	// UpdateTime is when the document was last written, as Firestore says; zero when it does not
	// exist. It is the precondition of the write that replaces what was read.
	UpdateTime time.Time
}

// RollUpOf returns the roll-up that a document holds, whose fields are as the Firestore SDK decodes
// them.
func RollUpOf(t *Template, fields map[string]any, updateTime time.Time) RollUp {
	r := RollUp{
		Values:     make(map[string]value.Value),
		Tally:      document.DecodeTally(fields[document.TallyField]),
		UpdateTime: updateTime,
	}
	for _, name := range t.names {
		field, there := fields[name]
		v, ok := value.Of(field)
		if there && ok {
			r.Values[name] = v
		}
	}
	return r
}

// Exists reports whether the document existed when it was read.
func (r RollUp) Exists() bool { return !r.UpdateTime.IsZero() }

// A Claim says who sums a counter whose sums take long.
type Claim struct {
	document.Claim

	// UpdateTime is when the document was last written, as Firestore says; zero when it does not
	// exist. It is the precondition of the claim that replaces what was read.
	UpdateTime time.Time
}

// ErrConflict is what Store.Write returns if the roll-up document was not as expected, or if
// Firestore aborted the write. It proves nothing about what the document holds now.
var ErrConflict = errors.New("rollup: the roll-up document changed since it was read")

// ErrUnkept is what Snapshot.Sum and Store.Write return if this one counter cannot be rolled up,
// and waiting does not help: its document has no room for the totals, or an index is missing and
// the counter has too many shards to read. Nothing was written. A mistake of Tally's own must not
// come as ErrUnkept, or it would have every event acknowledged.
var ErrUnkept = errors.New("rollup: the counter cannot be rolled up until somebody mends it")

// A Store is the database that the engine runs on. Its methods may be called by many goroutines at
// once, and end when their context does. Any error other than ErrConflict and ErrUnkept means that
// the outcome is unknown: the operation may have happened, may still happen, or may not.
type Store interface {
	// View opens a read-only snapshot of the database, fixed at an instant between the call and the
	// return, and reads the counter's roll-up document in it. It takes no locks, and nobody need
	// close it: it expires.
	View(ctx context.Context, c Counter) (Snapshot, error)

	// Write writes r's values and tally to c's roll-up document, deletes the fields r.Gone, and
	// leaves its other fields as they are, on the precondition that the document's update time is
	// still r.UpdateTime (when that is zero, that the document does not exist). It returns
	// ErrConflict when Firestore refuses, and ErrUnkept when no such document can be written.
	Write(ctx context.Context, c Counter, r RollUp) error

	// Claim writes a claim of the counter, on the precondition that the claim's document is still
	// of claim.UpdateTime (when that is zero, that it does not exist). It returns ErrConflict when
	// Firestore refuses.
	Claim(ctx context.Context, c Counter, claim Claim) error
}

// A Snapshot is the database at one instant, as far as one counter is concerned.
type Snapshot interface {
	// ReadTime is the snapshot's instant as Firestore gives it, truncated to microseconds. Every
	// write committed at or before it is seen, and none after it.
	ReadTime() time.Time

	// RollUp is the roll-up document.
	RollUp() RollUp

	// Sum totals the counter's documents as the template's routes say; see Aggregate. It returns
	// ErrUnkept if Firestore can never answer.
	Sum(ctx context.Context) (Totals, error)

	// Magnitude is what a total would be if all numbers were positive. The total is a sum or an
	// average of doubles that Sum has told before. Magnitude is 0 if the order in which the numbers
	// are added up makes no difference.
	Magnitude(ctx context.Context, name string) (float64, error)

	// Malformed names up to most of the shards that Sum, which was called before, left out, as
	// MalformedShard does.
	Malformed(ctx context.Context, most int) ([]string, error)

	// Claim reads the counter's claim in a snapshot that View opened; one without By when there is
	// none.
	Claim(ctx context.Context) (Claim, error)
}

// An AuditStore is a Store that an audit can walk.
type AuditStore interface {
	Store

	// RollUps returns up to limit documents at paths that the template gives, from a place on; ""
	// is the first. They need not be roll-ups. The order is the store's own and does not change.
	// Documents that come or go meanwhile may be missed. A page may hold fewer than limit, or none,
	// although more follow. It is one query.
	RollUps(ctx context.Context, template *Template, from string, limit int) (Page, error)

	// All returns likewise all counters of the template: those whose roll-up has a tally, and those
	// that have shards by one of its routes, whether or not the shards' parent documents exist.
	// Each comes once, with what its roll-up document held. Finding the shards takes a query for
	// each counter, several at once. A page may hold up to three times limit.
	All(ctx context.Context, template *Template, from string, limit int) (Page, error)

	// Sources opens a snapshot as View does, but does not read the roll-up document: RollUp is the
	// zero RollUp. It makes no call, so ReadTime is known only after Sum.
	Sources(ctx context.Context, c Counter) Snapshot

	// Remove takes r, which c's roll-up document held, away: the totals, former ones too, and
	// tally, and the document if it holds nothing else and is not the app's own. The precondition
	// is Write's. It returns ErrConflict when Firestore refuses.
	Remove(ctx context.Context, c Counter, r RollUp) error

	// LoadCursor returns what SaveCursor saved last for this kind of work; the zero Cursor when
	// there is nothing.
	LoadCursor(ctx context.Context, of Work) (Cursor, error)

	// SaveCursor saves c on the precondition that what was saved last is still what c.UpdateTime
	// says. It returns the new update time, or ErrConflict when Firestore refuses.
	SaveCursor(ctx context.Context, of Work, c Cursor) (time.Time, error)
}

// A Work is one of the works that go on where they stopped. A store keeps one Cursor for each. On
// Firestore it is the id of the cursor's document.
type Work string

// The works beside notes of an Untold.
const (
	Auditing Work = "cursor"
	Keeping  Work = "keep"
)

// A Page is a part of a walk.
type Page struct {
	Found []Found
	Next  string // the place where the walk goes on; "" when it is at its end

	// ReadTime is when the roll-ups were read, as Firestore gives it. Zero if none was.
	ReadTime time.Time
}

// A Found is a counter that a walk found.
type Found struct {
	Counter
	RollUp RollUp
	Next   string // the place behind it; "" when it is the last
}
