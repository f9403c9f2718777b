package events

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/firestore-tally/tally/rollup/internal/note"
	"github.com/firestore-tally/tally/rollup/internal/roll"
	"github.com/firestore-tally/tally/rollup/route"
)

// Concurrency is how many events a process should serve at once, the most that Cloud Run allows
// (https://cloud.google.com/run/docs/about-concurrency). docs/design/rules.md#hold-limit says why.
const Concurrency = 1000

// A Store is the database that events are rolled up on.
type Store interface {
	roll.Store
	note.Store
}

// A Coalescer turns the events of one database into roll-ups (docs/design/events.md). Each counter
// keeps its pace, however many instances serve it. It may be used by many goroutines at once.
type Coalescer struct {
	roller  roll.Roller
	store   Store
	options roll.Options
	notes   *note.Notes
	name    string // of this instance, in its claims

	mu         sync.Mutex
	counters   map[string]*counterState // by path of the roll-up document
	deliveries map[string]*delivery     // that are held, by the event's id

	// The read time of the newest snapshot, and when its look was sent, by the local clock.
	// Together they tell what time it is at the server.
	newest time.Time
	sent   time.Time
}

// NewCoalescer returns a Coalescer that rolls up on store.
func NewCoalescer(store Store, o roll.Options) *Coalescer {
	roller := roll.New(store, o)
	return &Coalescer{
		roller:     roller,
		store:      store,
		options:    roller.Options,
		notes:      note.New(store),
		name:       rand.Text(),
		counters:   make(map[string]*counterState),
		deliveries: make(map[string]*delivery),
	}
}

// freshFor is how old an event that changes no total may be, by its commit, to be acknowledged at
// once: less than any redelivery (docs/design/rules.md#unchanged-young).
const freshFor = 5 * time.Second

// state returns what this instance knows of a counter. The mutex is held.
func (c *Coalescer) state(counter route.Counter) *counterState {
	s := c.counters[counter.RollUp]
	if s == nil {
		s = &counterState{counter: counter, step: c.roller.Step(counter.Template)}
		c.counters[counter.RollUp] = s
	}
	return s
}

// isFresh reports whether less than freshFor has passed since a commit, by the server's time.
// Before the first look that time is not known, and nothing is fresh. The mutex is held.
func (c *Coalescer) isFresh(commit time.Time) bool {
	now := c.serverNow()
	return !now.IsZero() && now.Sub(commit) < freshFor
}

// withHoldLimit returns ctx, limited to the time for which an event may be held.
func (c *Coalescer) withHoldLimit(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.options.Hold <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.options.Hold)
}

// serverNow returns an upper bound on the server's time. Before the first look it is not
// known, and now returns zero. The mutex is held.
func (c *Coalescer) serverNow() time.Time {
	if c.newest.IsZero() {
		return time.Time{}
	}
	return c.newest.Add(time.Since(c.sent))
}

// An Ending says how an event ended.
type Ending struct {
	// Held reports whether the event was held until each of its counters was done with it, or until
	// it failed. An event that was not held was acknowledged at once.
	Held bool

	// AsOf is the as_of of the roll-up that covers an event that was held. If the event concerns
	// several counters, it is the latest. It is zero if the event failed, or if no roll-up covers
	// it.
	AsOf time.Time

	// Deferred reports whether one of the counters is done with the event although no roll-up covers
	// it yet, because an alarm stands for it.
	Deferred bool

	// Unkept reports whether one of the counters is done with the event although no roll-up covers
	// it, because the counter is unkept: see ErrUnkept. The change is rolled up by a later audit or
	// event.
	Unkept bool
}

// A delivery is an event that is held for at least one of its counters. Its copies wait for done.
type delivery struct {
	done   chan struct{} // closed when all of its counters are done with it or have failed it
	ending Ending        // valid after done
	err    error         // valid after done
}
