package rollup

import (
	"context"
	"errors"
	"time"
)

// A Counter is one counter of one database: the shards that one route matched, and the roll-up
// document that their sum goes to. Two counters never share a roll-up document, so its path names
// the counter.
type Counter struct {
	Route  *Route
	Shards string // path of the shards' collection below the database's root, such as "counters/likes/shards"
	RollUp string // path of the roll-up document below the database's root, such as "rollups/likes"
}

// Totals is what a counter's shards add up to.
type Totals struct {
	Sums      map[string]Number // one for each of the route's fields
	NumShards int64             // shard documents counted; see Snapshot.Sum
}

// A RollUp is a roll-up document.
type RollUp struct {
	Totals // as read, Sums lacks a field that the document lacks or that is no number there

	// AsOf is the document's promise: every shard write committed at or before it is in Totals, and
	// none after it. It is in microseconds, the precision of Firestore's timestamps. As read, it is
	// zero when the document lacks it or holds another type.
	AsOf time.Time

	// UpdateTime is when the document was last written, as Firestore says. It is zero when the
	// document does not exist. It is the precondition of the write that replaces what was read.
	UpdateTime time.Time
}

// Exists reports whether the document existed when it was read.
func (r RollUp) Exists() bool { return !r.UpdateTime.IsZero() }

// A Malformed is a shard whose field the sum leaves out.
type Malformed struct {
	Shard  string // path of the shard document
	Field  string
	Reason string // such as "is a string, not a number"
}

// ErrConflict is what Store.Write returns when the roll-up document was not the one expected, or
// when Firestore aborted the write. It proves nothing about what the document holds now. Check with
// errors.Is.
var ErrConflict = errors.New("rollup: the roll-up document changed since it was read")

// A Store is the database that the engine runs on. Its methods may be called by many goroutines at
// once. Any error other than ErrConflict means that the outcome is unknown: the operation may have
// happened, may still happen, or may not.
type Store interface {
	// View opens a read-only snapshot of the database, fixed at an instant between the call and the
	// return of its first read, reads the counter's roll-up document in it, and calls f once. The
	// snapshot takes no locks. View returns f's error as it is.
	View(ctx context.Context, c Counter, f func(Snapshot) error) error

	// Write writes r's totals, num_shards and as_of to c's roll-up document, leaving other fields
	// of the document as they are, on the precondition that the document's update time is still
	// r.UpdateTime (when that is zero, that the document does not exist). It returns ErrConflict
	// when Firestore refuses.
	Write(ctx context.Context, c Counter, r RollUp) error
}

// A Snapshot is the database at one instant, as far as one counter is concerned. It is valid only
// inside the function that View calls.
type Snapshot interface {
	// ReadTime is the snapshot's instant as Firestore gives it, truncated to microseconds. Every
	// write committed at or before it is seen, and none after it.
	ReadTime() time.Time

	// RollUp is the roll-up document.
	RollUp() RollUp

	// Sum adds up the shards: each of the route's fields over the shards where it is a finite
	// number. NumShards counts, on a route of one field, the shards that have the field, whatever
	// its type; on a route of several fields, all shards. The malformed are shards that were left
	// out of a sum; they are named whenever the shards themselves were read.
	Sum(ctx context.Context) (Totals, []Malformed, error)
}
