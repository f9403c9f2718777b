package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/lag"
	"github.com/firestore-tally/tally/shards"
)

// A History is all that is known of a counter. The clock of the emulator is this machine's, so all
// its times compare.
type History struct {
	Acknowledged []time.Time  // when each increment was committed
	InDoubt      int          // increments of which nobody knows whether they were applied
	RollUps      []lag.RollUp // in the order in which they were seen; the listener may miss some
}

// A Counter is a counter of the default route that is incremented while its roll-up is listened to.
type Counter struct {
	*shards.Counter
	ID string

	watch *lag.Watch

	mu           sync.Mutex
	acknowledged []time.Time
	inDoubt      int
}

// Listen returns a counter whose roll-up is listened to until ctx ends. If the listener fails
// before that, it says so by fail.
func Listen(ctx context.Context, fail func(error), client *firestore.Client, id string) (*Counter, error) {
	watch, err := lag.Listen(ctx, fail, client, "rollups/"+id, "count")
	if err != nil {
		return nil, err
	}
	return &Counter{Counter: shards.New(client, "counters/"+id), ID: id, watch: watch}, nil
}

// History returns all that is known by now.
func (c *Counter) History() History {
	c.mu.Lock()
	defer c.mu.Unlock()
	return History{slices.Clone(c.acknowledged), c.inDoubt, c.watch.Seen()}
}

// retryPause is the time between an increment that Firestore refused and the next try.
const retryPause = 200 * time.Millisecond

// Add adds 1. What Firestore refused for sure is sent again until ctx ends.
func (c *Counter) Add(ctx context.Context) error {
	for {
		committed, err := c.Increment(ctx, 1)
		c.mu.Lock()
		switch {
		case err == nil:
			c.acknowledged = append(c.acknowledged, committed)
		case errors.Is(err, shards.ErrInDoubt):
			c.inDoubt++
			err = nil
		}
		c.mu.Unlock()
		if err == nil {
			return nil
		}
		if cause := Sleep(ctx, retryPause); cause != nil {
			return fmt.Errorf("%w: increments of counters/%s are refused: %w", cause, c.ID, err)
		}
	}
}

// covered waits until a roll-up is seen that covers every increment.
func (c *Counter) covered(ctx context.Context) error {
	acknowledged := append(c.History().Acknowledged, time.Time{}) // one at least
	return c.watch.Await(ctx, slices.MaxFunc(acknowledged, time.Time.Compare))
}

// last returns the last roll-up that was seen, the zero value if there is none.
func (h History) last() lag.RollUp {
	if len(h.RollUps) == 0 {
		return lag.RollUp{}
	}
	return h.RollUps[len(h.RollUps)-1]
}

// lags returns, of each increment committed before a time, how long after its commit a roll-up was
// seen that covers it.
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
