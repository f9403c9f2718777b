package schedule

import (
	"time"

	"github.com/firestore-tally/tally/rollup/internal/roll"
)

// AuditOptions configure an audit.
type AuditOptions struct {
	roll.Options

	// Concurrency is how many counters are in work at once. It must be positive.
	Concurrency int

	// Grace is how long the audit leaves a difference to an event that may be on its way; see the
	// function Grace. Zero means that it repairs at once, and calls nothing drift. Routes that say
	// "every" have no grace.
	Grace time.Duration

	// Cycle returns how long a cycle takes at least, if the last one was billed so many reads; 0:
	// unknown. Its reads are spread over audits, which follow each other by Every. Nil or a result
	// of 0: each audit goes on as far as it can, and begins with the first counter again when the
	// last one has come to the end.
	Cycle func(reads int64) time.Duration
	Every time.Duration

	// Revision names the revision of the functions, and Database the database. While either of them
	// or the routes are new, cycles follow each other and are not spread, until one has begun ten
	// minutes after that. Cycles follow from the stored cursor, and so does what is new.
	Revision string
	Database string

	// Queue names the queue of the alarms. Another name than that of the last audit counts as a purge:
	// alarms that stood in the other queue may ring nowhere.
	Queue string

	// Purged is when somebody last deleted all alarms, by a server's clock; zero: never. Stopped
	// reports whether none rings now. Both make a cycle due, like a note about all counters. After a
	// purge the audit makes each alarm again that a roll-up relies on.
	Purged  time.Time
	Stopped bool

	// Until is when to stop. What is in work then is finished, or given up soon enough that the
	// audit has saved its cursor within Options.Timeout. Zero: only the context ends the audit.
	Until time.Time

	// MaxReads bounds the reads that are billed, as Reads counts them. The counters that are in
	// work when it is reached are finished. Zero: no bound.
	MaxReads int64
	Reads    func() int64 // must not be nil when MaxReads is positive

	// DryRun reports, and changes nothing, not even the cursor.
	DryRun bool

	// KeepRerouted leaves alone the roll-ups that other routes made. A caller that does not know
	// the routes of the deployed functions must set it. Otherwise the audit takes their roll-ups
	// for wrong.
	KeepRerouted bool

	// KeepUnwritten leaves alone the documents that hold totals that no roll-up wrote. A caller must
	// set it unless it works by the routes of functions that run: by others it would replace values
	// of the app's that no function replaces.
	KeepUnwritten bool

	// Prune takes away totals that earlier routes kept. It must not be set while a revision that
	// still keeps them runs, because the totals would come and go.
	Prune bool

	// FromFirst walks from the first counter, and leaves the stored cursor alone.
	FromFirst bool

	// Progress, unless nil, is called with the report so far, one call at a time.
	Progress func(Report)
}

// redelivery is how long it takes until an event that failed comes again. Eventarc waits for 10 s
// at least. The rest is for the way.
const redelivery = 15 * time.Second

// Grace returns how long a difference must last to be called drift. By then an event has had the
// time to be held, to fail, to come again and to be held again. Only an event that failed twice
// comes later.
func Grace(cadence, holdLimit time.Duration) time.Duration { return cadence + 2*holdLimit + redelivery }

// sumsTake returns how much later than other events those of a counter are rolled up because its
// sums take long. A change may have to wait for the alarm to which its event was deferred, for a
// sum that had begun before it, and for its own.
func sumsTake(r roll.RollUp) time.Duration { return 3 * r.TookAtMost() }

// FittingGrace returns the grace that an audit with this much time left keeps: the whole grace if
// that is at most half of the time, else none.
func FittingGrace(grace, left time.Duration) time.Duration {
	if left < 2*grace {
		return 0
	}
	return grace
}
