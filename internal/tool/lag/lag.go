// Package lag tells how late roll-ups are: how long after a write's commit a listener sees a
// roll-up that covers it.
//
// A [Watch] listens to one roll-up document and remembers each version that it sees. [Covering]
// finds the first of them that covers a write. A [Lag] sums up how long that took for many writes.
package lag

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/shards"
)

// A Lag says how late roll-ups are: the time from a write's commit until a listener sees a roll-up
// that covers it, in milliseconds.
type Lag struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// Of returns the lags that half, 99 % and all of the durations do not exceed; zeros if there are
// none. It sorts the durations.
func Of(lags []time.Duration) Lag {
	if len(lags) == 0 {
		return Lag{}
	}

	slices.Sort(lags)
	at := func(share float64) float64 {
		n := int(math.Ceil(share * float64(len(lags))))
		return float64(lags[max(n, 1)-1].Microseconds()) / 1000
	}
	return Lag{P50: at(0.50), P99: at(0.99), Max: at(1)}
}

// A RollUp is a version of a roll-up document that a listener saw.
type RollUp struct {
	shards.RollUp
	Written time.Time // by Firestore's clock
	Seen    time.Time // by the local clock
}

// Covering returns the first of the versions, in the order in which they were seen, that covers a
// write committed at a time. It reports false if none does.
func Covering(seen []RollUp, committed time.Time) (RollUp, bool) {
	byAsOf := func(r RollUp, t time.Time) int { return r.AsOf.Compare(t) }
	n, _ := slices.BinarySearchFunc(seen, committed, byAsOf)
	if n == len(seen) {
		return RollUp{}, false
	}
	return seen[n], true
}

// A Watch listens to a roll-up document. It may be used by many goroutines at once.
type Watch struct {
	path, total string

	mu      sync.Mutex
	seen    []RollUp
	changed chan struct{} // closed when the listener sees something more
}

// Listen listens to the roll-up document at path (below the database's root), which has the total,
// until ctx ends. If the listener fails before that, it calls fail with the error.
func Listen(ctx context.Context, fail func(error), client *firestore.Client, path, total string) (*Watch, error) {
	w := &Watch{path: path, total: total, changed: make(chan struct{})}

	// The emulator does not tell a new listener of a commit that falls into its beginning. So the
	// first snapshot is awaited before anybody writes.
	snapshots := client.Doc(path).Snapshots(ctx)
	first, err := snapshots.Next()
	if err != nil {
		snapshots.Stop()
		return nil, fmt.Errorf("listening to %s: %w", path, err)
	}
	w.see(first)

	go func() {
		defer snapshots.Stop()
		for {
			doc, err := snapshots.Next()
			if err != nil {
				fail(fmt.Errorf("listening to %s: %w", path, err))
				return
			}
			w.see(doc)
		}
	}()
	return w, nil
}

// see notes what the listener sees.
func (w *Watch) see(doc *firestore.DocumentSnapshot) {
	r, err := shards.RollUpIn(doc, w.total)
	if err != nil {
		return // there is no roll-up yet
	}

	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, RollUp{r, doc.UpdateTime, time.Now()})
	close(w.changed)
	w.changed = make(chan struct{})
}

// Seen returns all versions that were seen by now, in their order. The listener may have missed
// some.
func (w *Watch) Seen() []RollUp {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.seen)
}

// Last returns the version that was seen last, the zero value if there is none, and a channel that
// is closed when another is seen.
func (w *Watch) Last() (RollUp, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.seen) == 0 {
		return RollUp{}, w.changed
	}
	return w.seen[len(w.seen)-1], w.changed
}

// Await waits until a roll-up as of t or later was seen. If ctx ends before that, the error says
// what was seen last.
func (w *Watch) Await(ctx context.Context, t time.Time) error {
	for {
		last, changed := w.Last()
		if !last.AsOf.IsZero() && !last.AsOf.Before(t) {
			return nil
		}

		select {
		case <-changed:
			continue
		case <-ctx.Done():
		}
		if last.AsOf.IsZero() {
			return fmt.Errorf("%w: no roll-up %s was seen", context.Cause(ctx), w.path)
		}
		return fmt.Errorf("%w: %s is as of %s, before %s", context.Cause(ctx), w.path, inUTC(last.AsOf), inUTC(t))
	}
}

func inUTC(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
