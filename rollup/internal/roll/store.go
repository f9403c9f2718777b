package roll

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup/route"
)

// A Claim says that an instance is summing a counter whose sums take long.
type Claim struct {
	document.Claim

	// UpdateTime is when the document was last written, as Firestore says; zero when it does not
	// exist. It is the precondition of the claim that replaces what was read.
	UpdateTime time.Time
}

// ErrConflict is returned by the methods of a Store that write if the document was not as expected,
// or if Firestore aborted the write. It proves nothing about what the document holds now.
var ErrConflict = errors.New("rollup: the roll-up document changed since it was read")

// ErrUnkept is returned by Snapshot.Sum and Store.Write if this one counter cannot be rolled up,
// and waiting does not help. For example, its document has no room for the totals, or an index is
// missing and the counter has too many shards to read one by one. Nothing was written. A Store must
// not return ErrUnkept for a mistake of Tally's own, because every event would be acknowledged.
var ErrUnkept = errors.New("rollup: the counter cannot be rolled up until someone fixes it")

// MaxUnindexed is the most documents that a Store reads one by one because an index is missing. An
// aggregation that costs 2 reads must not cost 200,000.
const MaxUnindexed = 1000

// TooManyUnindexed is the error of a counter that lacks one of the indexes and has more than
// MaxUnindexed documents by the route. It is ErrUnkept.
func TooManyUnindexed(r *route.Route, c route.Counter, indexes []route.Index) error {
	return fmt.Errorf("%w: a query of %s lacks its index, and %s has more than %d documents there; %s",
		ErrUnkept, r.Shards(c), c.RollUp, MaxUnindexed, r.Remedy(indexes))
}

// UnindexedKeys is the error of a counter whose documents cannot even be read one by one, because
// the indexes of the route's keys are missing: a field is exempt from indexing, or a day lacks its
// composite index. It is ErrUnkept.
func UnindexedKeys(r *route.Route, c route.Counter) error {
	indexes, why := r.KeyIndexes(), ""
	if len(indexes) == 1 && indexes[0].IsAutomatic() {
		why = fmt.Sprintf(", because the field %s is exempt from indexing", indexes[0].Fields[0].Field)
	}
	return fmt.Errorf("%w: a query of %s lacks its index, and the documents of %s cannot be found without one%s; %s",
		ErrUnkept, r.Shards(c), c.RollUp, why, r.Remedy(indexes))
}

// A Store is the database that the engine runs on. Its methods may be called by many goroutines at
// once, and end when their context does. Any error other than ErrConflict and ErrUnkept means that
// the outcome is unknown: the operation may have happened, may still happen, or may not.
type Store interface {
	// View opens a read-only snapshot of the database, and reads the counter's roll-up document in
	// it, and whether its owner exists. The snapshot's instant lies between the call and the
	// return. A snapshot takes no locks. It need not be closed, because it expires.
	View(ctx context.Context, c route.Counter) (Snapshot, error)

	// Write writes r's values and tally to c's roll-up document, and deletes the fields r.Gone. It
	// leaves the other fields as they are. The precondition is that the document's update time is
	// still r.UpdateTime, or if that is zero, that the document does not exist. Write returns
	// ErrConflict if Firestore refuses, and ErrUnkept if no such document can be written.
	Write(ctx context.Context, c route.Counter, r RollUp) error

	// WriteLocked writes as Write does, on another precondition: c's roll-up document exists, its
	// tally is still seen, and r can be WrittenOver what it holds. So r.UpdateTime has no meaning,
	// and a concurrent write to other fields of the document does not make Firestore refuse this
	// write. The document is locked from when its tally and totals are read to the write, and others
	// who write it wait meanwhile.
	WriteLocked(ctx context.Context, c route.Counter, r RollUp, seen document.Tally) error

	// Remove takes away the totals of c's roll-up document, including former ones, and tally. It puts
	// back what r.Tally.Before holds of them. If nothing is left, it deletes the document, unless that
	// is the app's own. r is what the document held. The precondition is the same as for Write. Remove
	// returns ErrConflict if Firestore refuses.
	Remove(ctx context.Context, c route.Counter, r RollUp) error

	// Claim writes a claim of the counter. The precondition is that the update time of the claim's
	// document is still claim.UpdateTime, or if that is zero, that the document does not exist.
	// Claim returns ErrConflict if Firestore refuses.
	Claim(ctx context.Context, c route.Counter, claim Claim) error
}

// A Snapshot is the database at one instant. It shows one counter.
type Snapshot interface {
	// ReadTime is the snapshot's instant as Firestore gives it, truncated to microseconds. The
	// snapshot has every write that was committed at or before it, and none after it.
	ReadTime() time.Time

	// RollUp is the roll-up document.
	RollUp() RollUp

	// Ownerless reports whether the counter has an owner, and that document is missing.
	Ownerless() bool

	// Sum totals the counter's documents as the template's routes say; see Aggregate. The snapshot's
	// instant is the time now of windows. Sum returns ErrUnkept if waiting cannot help.
	Sum(ctx context.Context) (route.Totals, error)

	// SumAsOf does what Sum does, of the documents in this snapshot, with one exception: windows are
	// as they were at another instant.
	SumAsOf(ctx context.Context, instant time.Time) (route.Totals, error)

	// Magnitude returns what the total of that name would be if all numbers were positive. The
	// total must be a sum or an average of doubles, and Sum must have been called. Magnitude
	// returns 0 if the order in which the numbers are added up makes no difference.
	Magnitude(ctx context.Context, name string) (float64, error)

	// Malformed names shards that Sum has left out, as MalformedShard does. If there are more than
	// the number most, it leaves out the others. Sum must have been called.
	Malformed(ctx context.Context, most int) ([]string, error)

	// Claim reads the counter's claim. View must have opened the snapshot. If there is no claim,
	// the result has no By.
	Claim(ctx context.Context) (Claim, error)
}

// An Alarm is a call of RollUpOnWrite at a later time. Two alarms with the same fields are one.
type Alarm struct {
	RollUp string    // path of the roll-up document below the database's root
	Routes string    // Template.Hash of the counter's routes
	At     time.Time // the earliest time at which it rings, in microseconds
	Last   bool      // no further alarm is made for it
	Salt   string    // random for alarms of audits and commands; "" otherwise

	// Missing counts the alarms of a counter whose document is missing, from 1 on; 0 for all others.
	// None of them stands for an event.
	Missing int
}

// Alarms makes the alarms of one database. It must be safe for concurrent use.
type Alarms interface {
	// Create makes sure that the alarm stands, or has already rung, at its time or later. An error
	// proves nothing: the alarm may stand or not.
	Create(ctx context.Context, a Alarm) error
}
