package schedule

import (
	"sync"
	"time"

	"github.com/firestore-tally/tally/rollup/internal/roll"
	"github.com/firestore-tally/tally/rollup/route"
)

// KeepOptions configure Keep.
type KeepOptions struct {
	roll.Options

	// Concurrency is how many counters are in work at once. It must be positive.
	Concurrency int

	// Until is when to stop. Zero: Keep visits each counter once. The context should last some
	// seconds longer, to finish what is in work and to save the cursor.
	Until time.Time

	// MaxReads bounds the reads that are billed, as Reads counts them. When it is reached, Keep
	// finishes what is in work. It spreads the reads over its time, so that the last counters are
	// as fresh as the first. Zero: no bound.
	MaxReads int64
	Reads    func() int64 // must not be nil when MaxReads is positive
}

// A keeper is one call of Keep.
type keeper struct {
	roll.Roller
	allowance
	o            KeepOptions
	store        Store
	routes       route.Routes
	loadTime     time.Time // when the cursor was loaded, by the local clock
	loadReadTime time.Time // the same by Firestore's; zero: unknown
	finders      []*finder
	wake         chan struct{} // something ended
	work         sync.WaitGroup

	// these fields belong to the goroutine that saves
	cursor  Cursor
	unsaved bool // the cursor must not be saved: none could be loaded, or another call is at work

	mu               sync.Mutex
	report           KeepReport
	problems         []error
	known            map[string]*keptCounter // by path of the roll-up
	line             line
	newest           time.Time // read time of the newest snapshot
	newestReceived   time.Time // when it was received, by the local clock
	greatestLateness float64   // the age of the report's Oldest, as a multiple of its every
}

// next returns the counter to visit now, or when to ask again: see line. The mutex is held.
func (k *keeper) next() (e *keptCounter, at time.Time) {
	now := time.Now()
	if !k.mayRead(now) {
		return nil, now.Add(k.readsWait())
	}

	e, at = k.line.next(now)
	if e != nil && e.finder != nil {
		e.finder.waiting--
		e.finder = nil
	}
	return e, at
}

// push has a counter wait for its visit. The mutex is held.
func (k *keeper) push(e *keptCounter) {
	k.known[e.RollUp] = e
	k.line.push(e)
}

// wakeUp notes that something in work has ended. The mutex is held.
func (k *keeper) wakeUp() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// A KeepReport says what Keep did.
type KeepReport struct {
	Counters  int `json:"counters"`  // visited
	RolledUp  int `json:"rolled_up"` // roll-ups written
	Unchanged int `json:"unchanged"` // visits that found nothing to write
	Removed   int `json:"removed"`   // roll-ups that had been at zeros without shards for over an hour
	Failed    int `json:"failed"`    // counters whose last visit failed
	Unkept    int `json:"unkept"`    // counters that cannot be rolled up until someone fixes them; see ErrUnkept
	Malformed int `json:"malformed"` // counters with shards that are left out of their sums
	Left      int `json:"left"`      // counters that were due when the time or the reads were over; the next call goes on with them

	// GreatestAge is the age in seconds of the oldest roll-up, and Oldest is its path. The age is
	// measured from as_of to a visit, or to the end of the call if the counter was due then. Ages
	// are compared as multiples of the routes' "every". After a visit that finds nothing to write, the
	// roll-up's age counts from the visit for the rest of the call, although its as_of stays.
	GreatestAge float64 `json:"greatest_age_seconds"`
	Oldest      string  `json:"oldest"`

	Errors []string `json:"errors,omitempty"`

	UnkeptCounters []string `json:"unkept_counters,omitempty"` // up to ten of them, with the reason

	// Unfound names walks that no call has begun yet, or that are under way for longer than
	// lateAfter allows. Their counters have no GreatestAge.
	Unfound []string `json:"unfound,omitempty"`
}
