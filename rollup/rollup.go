package rollup

import (
	"context"
	"time"

	"github.com/firestore-tally/tally/rollup/internal/events"
	"github.com/firestore-tally/tally/rollup/internal/note"
	"github.com/firestore-tally/tally/rollup/internal/roll"
	"github.com/firestore-tally/tally/rollup/internal/schedule"
	"github.com/firestore-tally/tally/rollup/route"
)

// What the engine asks of a database.
type (
	Store      = events.Store
	AuditStore = schedule.Store

	RollUp       = roll.RollUp
	Snapshot     = roll.Snapshot
	Claim        = roll.Claim
	Note         = note.Note
	Page         = schedule.Page
	FoundCounter = schedule.FoundCounter
	Work         = schedule.Work
	Cursor       = schedule.Cursor
	Place        = schedule.Place
	Lap          = schedule.Lap
)

// The works that have a cursor.
const (
	Auditing = schedule.Auditing
	Keeping  = schedule.Keeping
)

// MaxUnindexed is the most documents that a Store reads one by one because an index is missing.
const MaxUnindexed = roll.MaxUnindexed

// The errors of a Store.
var (
	ErrConflict = roll.ErrConflict
	ErrUnkept   = roll.ErrUnkept
)

// RollUpOf returns the roll-up that a document with the fields holds. The fields are as the
// Firestore SDK decodes them.
func RollUpOf(t *route.Template, fields map[string]any, updateTime time.Time) RollUp {
	return roll.RollUpOf(t, fields, updateTime)
}

// TooManyUnindexed is the error of a counter that lacks one of the indexes and has more than
// MaxUnindexed documents by the route. It is ErrUnkept.
func TooManyUnindexed(r *route.Route, c route.Counter, indexes []route.Index) error {
	return roll.TooManyUnindexed(r, c, indexes)
}

// UnindexedKeys is the error of a counter whose documents cannot even be read one by one. It is
// ErrUnkept.
func UnindexedKeys(r *route.Route, c route.Counter) error { return roll.UnindexedKeys(r, c) }

// What events and the schedule have in common.
type (
	Options = roll.Options
	Logged  = roll.Logged
	Alarm   = roll.Alarm
	Alarms  = roll.Alarms
)

// NewLogged returns a Logged that remembers nothing yet. cause names what caused an error, such as
// a gRPC code; nil: nothing is known of causes.
func NewLogged(cause func(error) string) *Logged { return roll.NewLogged(cause) }

// LongestCadence returns the longest cadence that is possible with a hold limit. It is zero or
// negative if the hold limit is too short for any cadence.
func LongestCadence(holdLimit time.Duration) time.Duration { return roll.LongestCadence(holdLimit) }

// Events.
type (
	Coalescer = events.Coalescer
	Event     = events.Event
	Ending    = events.Ending
)

// Concurrency is how many events a process should serve at once.
const Concurrency = events.Concurrency

// NewCoalescer returns a Coalescer that rolls up on store.
func NewCoalescer(store Store, o Options) *Coalescer { return events.NewCoalescer(store, o) }

// The schedule.
type (
	AuditOptions = schedule.AuditOptions
	Report       = schedule.Report
	KeepOptions  = schedule.KeepOptions
	KeepReport   = schedule.KeepReport
)

// Audit compares counters with their shards, and repairs those that differ.
func Audit(ctx context.Context, store AuditStore, routes route.Routes, o AuditOptions) (Report, error) {
	return schedule.Audit(ctx, store, routes, o)
}

// Keep rolls up the counters of the routes that say "every", each as often as its route says, until
// a time.
func Keep(ctx context.Context, store AuditStore, routes route.Routes, o KeepOptions) (KeepReport, error) {
	return schedule.Keep(ctx, store, routes, o)
}

// Grace returns how long a difference must last to be called drift.
func Grace(cadence, holdLimit time.Duration) time.Duration {
	return schedule.Grace(cadence, holdLimit)
}

// FittingGrace returns the grace that an audit with this much time left keeps.
func FittingGrace(grace, left time.Duration) time.Duration {
	return schedule.FittingGrace(grace, left)
}

// Notes writes notes for audits.
type Notes = note.Notes

// NewNotes returns a Notes that writes to the store.
func NewNotes(store note.Store) *Notes { return note.New(store) }

// UnkeptSince returns when the counter was last noted as unkept; zero if it was not, or was kept
// since and an audit has seen that.
func UnkeptSince(ctx context.Context, store note.Store, c route.Counter) (time.Time, error) {
	return note.UnkeptSince(ctx, store, c)
}
