package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/shards"
)

// A RollUp is a version of a roll-up document that a listener saw.
type RollUp struct {
	shards.RollUp
	Written time.Time // by Firestore's clock
	Seen    time.Time // by the local clock
}

// A History is all that is known of a counter. The clock of the emulator is this machine's, so all
// its times compare.
type History struct {
	Acknowledged []time.Time // when each increment was committed
	InDoubt      int         // increments of which nobody knows whether they were applied
	RollUps      []RollUp    // in the order in which they were seen; the listener may miss some
}

// A Counter is a counter of the default route that is incremented while its roll-up is listened to.
type Counter struct {
	*shards.Counter
	ID string

	mu      sync.Mutex
	history History
	changed chan struct{} // closed when the listener sees something more
}

// Listen returns a counter whose roll-up is listened to until ctx ends. If the listener fails
// before that, it says so by fail.
func Listen(ctx context.Context, fail func(error), client *firestore.Client, id string) (*Counter, error) {
	c := &Counter{Counter: shards.New(client, "counters/"+id), ID: id, changed: make(chan struct{})}
	snapshots := client.Doc("rollups/" + id).Snapshots(ctx)
	// The emulator tells a listener nothing of a commit that falls into its beginning.
	first, err := snapshots.Next()
	if err != nil {
		snapshots.Stop()
		return nil, fmt.Errorf("listening to rollups/%s: %w", id, err)
	}
	go func() {
		defer snapshots.Stop()
		for doc, err := first, error(nil); ; doc, err = snapshots.Next() {
			if err != nil {
				fail(fmt.Errorf("listening to rollups/%s: %w", id, err))
				return
			}
			c.see(doc)
		}
	}()
	return c, nil
}

// see notes what the listener sees.
func (c *Counter) see(doc *firestore.DocumentSnapshot) {
	r, err := shards.RollUpIn(doc, "count")
	if err != nil {
		return // it is not one yet
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history.RollUps = append(c.history.RollUps, RollUp{r, doc.UpdateTime, time.Now()})
	close(c.changed)
	c.changed = make(chan struct{})
}

// History returns all that is known by now.
func (c *Counter) History() History {
	c.mu.Lock()
	defer c.mu.Unlock()
	return History{slices.Clone(c.history.Acknowledged), c.history.InDoubt, slices.Clone(c.history.RollUps)}
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
			c.history.Acknowledged = append(c.history.Acknowledged, committed)
		case errors.Is(err, shards.ErrInDoubt):
			c.history.InDoubt++
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

// Await waits until a roll-up as of t or later is seen.
func (c *Counter) Await(ctx context.Context, t time.Time) error {
	for {
		c.mu.Lock()
		last, changed := c.history.last(), c.changed
		c.mu.Unlock()
		if !last.AsOf.IsZero() && !last.AsOf.Before(t) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if last.AsOf.IsZero() {
				return fmt.Errorf("%w: no roll-up rollups/%s was seen", context.Cause(ctx), c.ID)
			}
			return fmt.Errorf("%w: rollups/%s is as of %s, before %s", context.Cause(ctx), c.ID, inUTC(last.AsOf), inUTC(t))
		}
	}
}

// covered waits until a roll-up is seen that covers every increment.
func (c *Counter) covered(ctx context.Context) error {
	acknowledged := append(c.History().Acknowledged, time.Time{}) // one at least
	return c.Await(ctx, slices.MaxFunc(acknowledged, time.Time.Compare))
}

func inUTC(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// last returns the last roll-up that was seen, the zero value if there is none.
func (h History) last() RollUp {
	if len(h.RollUps) == 0 {
		return RollUp{}
	}
	return h.RollUps[len(h.RollUps)-1]
}

// lags returns, of each increment committed before a time, how long after its commit a roll-up was
// seen that covers it.
func (h History) lags(until time.Time) []time.Duration {
	var lags []time.Duration
	for _, committed := range h.Acknowledged {
		n, _ := slices.BinarySearchFunc(h.RollUps, committed, func(r RollUp, t time.Time) int { return r.AsOf.Compare(t) })
		if n < len(h.RollUps) && committed.Before(until) {
			lags = append(lags, h.RollUps[n].Seen.Sub(committed))
		}
	}
	return lags
}

// mostWithin returns the most roll-ups that were written within any window of length d.
func mostWithin(d time.Duration, rollUps []RollUp) (most int) {
	for i, first := range rollUps {
		n := 0
		for n < len(rollUps)-i && rollUps[i+n].Written.Sub(first.Written) < d {
			n++
		}
		most = max(most, n)
	}
	return most
}
