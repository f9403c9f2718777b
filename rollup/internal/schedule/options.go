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

// sumDelay returns how much later than other events those of a counter are rolled up because its
// sums take long. A change may have to wait for the alarm to which its event was deferred, for a
// sum that had begun before it, and for its own.
func sumDelay(r roll.RollUp) time.Duration { return 3 * r.TookAtMost() }

// FittingGrace returns the grace that an audit with this much time left keeps: the whole grace if
// that is at most half of the time, else none.
func FittingGrace(grace, left time.Duration) time.Duration {
	if left < 2*grace {
		return 0
	}
	return grace
}

// A Report says what an audit did and found.
type Report struct {
	Counters  int `json:"counters"`  // compared with their shards, or failed
	RolledUp  int `json:"rolled_up"` // written, because they differed
	Unchanged int `json:"unchanged"` // agreed, or were brought up to date by others
	Removed   int `json:"removed"`   // had been at zeros without shards for over an hour
	Differing int `json:"differing"` // differed and were left so: by a dry run, because of KeepRerouted or KeepUnwritten, or because of their pace
	Paced     int `json:"paced"`     // differed and were left so, because their pace allowed no roll-up before Until, or for a while; some of Differing
	Failed    int `json:"failed"`    // could not be compared, repaired or removed
	Unkept    int `json:"unkept"`    // cannot be rolled up until someone fixes them; see ErrUnkept

	Drift     int `json:"drift"`     // differed for longer than the grace; like the next six, some of RolledUp and Differing
	Lapsed    int `json:"lapsed"`    // lacked changes that came while they were unkept
	Late      int `json:"late"`      // were right, until documents left a window and no alarm had them rolled up
	Missing   int `json:"missing"`   // had no roll-up, such as new counters
	Orphaned  int `json:"orphaned"`  // had a roll-up that is not zeros, and no shards
	Rerouted  int `json:"rerouted"`  // had a roll-up that other routes made
	Outdated  int `json:"outdated"`  // were right, but held totals of earlier routes, which Prune takes away
	Malformed int `json:"malformed"` // counters with shards that are left out of their sums

	Unwritten   int `json:"unwritten,omitempty"`    // held totals that no roll-up wrote; like drift, some of RolledUp and Differing
	ForeignKind int `json:"foreign_kind,omitempty"` // documents that hold values of the app's in the fields of totals, which are left out

	UnwrittenExample   string `json:"unwritten_example,omitempty"`    // such as "posts/b: likes is 1234"
	ForeignKindExample string `json:"foreign_kind_example,omitempty"` // such as "posts/a: likes is an array"

	Complete   bool     `json:"complete"`   // every walk has come to its last counter, in this audit or since the last one that was complete
	Overlapped bool     `json:"overlapped"` // it stopped because another audit was at work
	Cursor     string   `json:"cursor"`     // where the next begins: walks, and places in them
	Errors     []string `json:"errors,omitempty"`

	UnkeptCounters []string `json:"unkept_counters,omitempty"` // up to ten of them, with the reason

	Waiting int           `json:"-"` // differences that are left to the trigger until their grace is over
	Cycle   time.Duration `json:"-"` // how long the last walk of all counters took; 0: unknown
	Since   time.Duration `json:"-"` // time since the audit before began; 0: unknown
}
