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
	"github.com/googleapis/gax-go/v2"
)

// A RollUp is a version of a roll-up document that a listener saw.
type RollUp struct {
	shards.RollUp
	Written time.Time // by Firestore's clock
	Seen    time.Time // by the local clock
}

// A History is all that is known of a counter. Its times can be compared, because the emulator's
// clock is this machine's.
type History struct {
	Acknowledged []time.Time // when each increment was committed
	InDoubt      int         // increments that may have been applied: the answer was lost
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

// NewCounter returns a counter, and listens to its roll-up until ctx ends. If the listener fails
// before that, it calls fail with the error.
func NewCounter(ctx context.Context, fail func(error), client *firestore.Client, id string) (*Counter, error) {
	c := &Counter{Counter: shards.New(client, "counters/"+id), ID: id, changed: make(chan struct{})}

	// The emulator does not tell a new listener of a commit that falls into its beginning. So the
	// first snapshot is awaited before anybody increments.
	snapshots := client.Doc("rollups/" + id).Snapshots(ctx)
	first, err := snapshots.Next()
	if err != nil {
		snapshots.Stop()
		return nil, fmt.Errorf("listening to rollups/%s: %w", id, err)
	}
	c.see(first)

	go func() {
		defer snapshots.Stop()
		for {
			doc, err := snapshots.Next()
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
		return // there is no roll-up yet
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	c.history.RollUps = append(c.history.RollUps, RollUp{r, doc.UpdateTime, time.Now()})
	close(c.changed)
	c.changed = make(chan struct{})
}

// History returns a copy of all that is known by now.
func (c *Counter) History() History {
	c.mu.Lock()
	defer c.mu.Unlock()
	return History{slices.Clone(c.history.Acknowledged), c.history.InDoubt, slices.Clone(c.history.RollUps)}
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
	c.history.Acknowledged = append(c.history.Acknowledged, committed)
}

// inDoubt notes an increment that may have been applied.
func (c *Counter) inDoubt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history.InDoubt++
}

// Await waits until a roll-up as of t or later was seen.
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
			continue
		case <-ctx.Done():
		}
		if last.AsOf.IsZero() {
			return fmt.Errorf("%w: no roll-up rollups/%s was seen", context.Cause(ctx), c.ID)
		}
		return fmt.Errorf("%w: rollups/%s is as of %s, before %s", context.Cause(ctx), c.ID, inUTC(last.AsOf), inUTC(t))
	}
}

// awaitAll waits until a roll-up was seen that covers every acknowledged increment, or until any
// roll-up was seen if there was no increment.
func (c *Counter) awaitAll(ctx context.Context) error {
	acknowledged := append(c.History().Acknowledged, time.Time{}) // MaxFunc wants one at least
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

// lags returns the lag of each increment that was committed before a time: how long after its
// commit the first roll-up that covers it was seen.
func (h History) lags(until time.Time) []time.Duration {
	byAsOf := func(r RollUp, t time.Time) int { return r.AsOf.Compare(t) }

	var lags []time.Duration
	for _, committed := range h.Acknowledged {
		n, _ := slices.BinarySearchFunc(h.RollUps, committed, byAsOf)
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
