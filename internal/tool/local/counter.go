package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/tool/lag"
	"github.com/firestore-tally/tally/shards"
	"github.com/googleapis/gax-go/v2"
)

// A History is all that is known of a counter. Its times can be compared, because the emulator's
// clock is this machine's.
type History struct {
	Acknowledged []time.Time  // when each increment was committed
	InDoubt      int          // increments that may have been applied: the answer was lost
	RollUps      []lag.RollUp // in the order in which they were seen; the listener may miss some
}

// A Counter is a counter of the default route that is incremented while its roll-up is listened to.
type Counter struct {
	*shards.Counter
	ID string

	watch *lag.Watch

	mu      sync.Mutex
	commits []time.Time // of the acknowledged increments
	doubts  int         // increments in doubt
}

// NewCounter returns a counter, and listens to its roll-up until ctx ends. If the listener fails
// before that, it calls fail with the error.
func NewCounter(ctx context.Context, fail func(error), client *firestore.Client, id string) (*Counter, error) {
	watch, err := lag.Listen(ctx, fail, client, "rollups/"+id, "count")
	if err != nil {
		return nil, err
	}
	return &Counter{Counter: shards.New(client, "counters/"+id), ID: id, watch: watch}, nil
}

// History returns a copy of all that is known by now.
func (c *Counter) History() History {
	c.mu.Lock()
	defer c.mu.Unlock()
	return History{slices.Clone(c.commits), c.doubts, c.watch.Seen()}
}

// retryPause is the time between an increment that Firestore refused and the next try.
const retryPause = 200 * time.Millisecond

// Add adds 1. If Firestore has refused the increment for sure, Add sends it again, until ctx ends.
// An increment in doubt is noted, and is no error.
func (c *Counter) Add(ctx context.Context) error {
	for {
		committed, err := c.Increment(ctx, 1)
		if err == nil {
			c.acknowledged(committed)
			return nil
		}
		if errors.Is(err, shards.ErrInDoubt) {
			c.inDoubt()
			return nil
		}

		stopped := gax.Sleep(ctx, retryPause)
		if stopped != nil {
			return fmt.Errorf("%w: increments of counters/%s are refused: %w", context.Cause(ctx), c.ID, err)
		}
	}
}

// acknowledged notes an increment that was committed at a time.
func (c *Counter) acknowledged(committed time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.commits = append(c.commits, committed)
}

// inDoubt notes an increment that may have been applied.
func (c *Counter) inDoubt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.doubts++
}

// awaitAll waits until a roll-up was seen that covers every acknowledged increment, or until any
// roll-up was seen if there was no increment.
func (c *Counter) awaitAll(ctx context.Context) error {
	acknowledged := append(c.History().Acknowledged, time.Time{}) // MaxFunc wants one at least
	return c.watch.Await(ctx, slices.MaxFunc(acknowledged, time.Time.Compare))
}

// last returns the last roll-up that was seen, the zero value if there is none.
func (h History) last() lag.RollUp {
	if len(h.RollUps) == 0 {
		return lag.RollUp{}
	}
	return h.RollUps[len(h.RollUps)-1]
}

// lags returns the lag of each increment that was committed before a time: how long after its
// commit the first roll-up that covers it was seen.
func (h History) lags(until time.Time) []time.Duration {
	var lags []time.Duration
	for _, committed := range h.Acknowledged {
		covering, covered := lag.Covering(h.RollUps, committed)
		if covered && committed.Before(until) {
			lags = append(lags, covering.Seen.Sub(committed))
		}
	}
	return lags
}

// mostWithin returns the most roll-ups that were written within any window of length d.
func mostWithin(d time.Duration, rollUps []lag.RollUp) (most int) {
	for i, first := range rollUps {
		n := 0
		for n < len(rollUps)-i && rollUps[i+n].Written.Sub(first.Written) < d {
			n++
		}
		most = max(most, n)
	}
	return most
}
