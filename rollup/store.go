package rollup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup/route"
)

// A RollUp is a roll-up document.
type RollUp struct {
	Values map[string]value.Value // the totals by name, without totals that the document lacks, or that are not a number, a timestamp or null
	Tally  document.Tally

	// Foreign says of which kind a value of the app's is that stands in the field of a total, such
	// as "an array", by the total's name: see foreign.go. Values lacks these totals. It is nil if
	// there are none, and in what is written.
	Foreign map[string]string

	Gone []string // names of totals that a write takes away; nil after a read

	// UpdateTime is when the document was last written, as Firestore says; zero when it does not
	// exist. It is the precondition of the write that replaces what was read.
	UpdateTime time.Time
}

// RollUpOf returns the roll-up that a document with the fields holds. The fields are as the
// Firestore SDK decodes them.
func RollUpOf(t *route.Template, fields map[string]any, updateTime time.Time) RollUp {
	r := RollUp{
		Values:     make(map[string]value.Value),
		Tally:      document.DecodeTally(fields[document.TallyField]),
		UpdateTime: updateTime,
	}
	for _, name := range t.Totals() {
		field, there := fields[name]
		if !there {
			continue
		}
		if isForeign(field, t.OfTimes(name)) && !r.Tally.Wrote(name) {
			r.noteForeign(name, value.KindOf(field))
			continue
		}
		v, ok := value.Of(field)
		if ok {
			r.Values[name] = v
		}
	}
	return r
}

// Exists reports whether the document existed when it was read.
func (r RollUp) Exists() bool { return !r.UpdateTime.IsZero() }

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

// unkeptMessage is logged of an unkept counter.
const unkeptMessage = "counter unkept; no retry can help"

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
	if len(indexes) == 1 && len(indexes[0].Fields) == 1 { // Firestore makes it by itself
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
	// tally is still seen, and r can be written Over what it holds. So r.UpdateTime has no meaning,
	// and a concurrent write to other fields of the document does not make Firestore refuse this
	// write. The document is locked from when its tally and totals are read to the write, and others
	// who write it wait meanwhile.
	WriteLocked(ctx context.Context, c route.Counter, r RollUp, seen document.Tally) error

	// Claim writes a claim of the counter. The precondition is that the update time of the claim's
	// document is still claim.UpdateTime, or if that is zero, that the document does not exist.
	// Claim returns ErrConflict if Firestore refuses.
	Claim(ctx context.Context, c route.Counter, claim Claim) error

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

// An AuditStore is a Store that an audit can walk.
type AuditStore interface {
	Store

	// RollUps returns up to limit documents at paths that the template gives, from a place on. The
	// place "" is the beginning. The documents need not be roll-ups. But if the counters are
	// FoundByHomes, those without a tally are left out unless they have shards or Unwritten totals;
	// the page counts those of them that hold a foreign kind. Their order is the
	// store's own, and does not change. Documents that come or go meanwhile may be missed. A page
	// may hold fewer than limit, or none, although more follow. It takes one query, and for each
	// home without a tally a further one for each route, until one finds a shard. Once half of ctx's
	// time is over, it makes no further ones, and the page ends.
	RollUps(ctx context.Context, template *route.Template, from string, limit int) (Page, error)

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
	Sources(ctx context.Context, c route.Counter) Snapshot

	// Remove takes away the totals of c's roll-up document, including former ones, and tally. It puts
	// back what r.Tally.Before holds of them. If nothing is left, it deletes the document, unless that
	// is the app's own. r is what the
	// document held. The precondition is the same as for Write. Remove returns ErrConflict if
	// Firestore refuses.
	Remove(ctx context.Context, c route.Counter, r RollUp) error

	// LoadCursor returns what SaveCursor saved last for this work. If there is nothing, it returns
	// the zero Cursor.
	LoadCursor(ctx context.Context, of Work) (Cursor, error)

	// SaveCursor saves c. The precondition is that the cursor that was saved last has the update
	// time c.UpdateTime, or if that is zero, that there is none. It returns the new update time, or
	// ErrConflict if Firestore refuses.
	SaveCursor(ctx context.Context, of Work, c Cursor) (time.Time, error)

	// Notes returns up to limit notes whose IDs come after an ID, in their order. It takes one
	// query.
	Notes(ctx context.Context, after string, limit int) ([]Note, error)
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
	RollUp    RollUp
	Ownerless bool   // its owner is missing; RollUps says so, and Missing does not
	Next      string // the place behind it; "" when it is the last
}
