package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/shards"
)

// A watched counter is one whose roll-up document is listened to while it is incremented.
type watched struct {
	id     string
	shards *shards.Counter

	mu           sync.Mutex
	acknowledged int64
	inDoubt      int64           // increments of which nobody knows whether they were applied
	refusal      error           // of the last increment, if it was not applied
	asOf         time.Time       // of the latest roll-up seen
	seen         time.Time       // when, by the local clock
	uncovered    []time.Time     // commits later than asOf
	lags         []time.Duration // of the commits that are covered
	updates      []time.Time     // of the roll-up document, by Firestore's clock; the listener may miss some
	changed      chan struct{}   // closed at the next roll-up
}

// incremented notes an increment. The clock of the emulator is this machine's, so commit times and
// local times compare.
func (w *watched) incremented(committed time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acknowledged++
	w.refusal = nil
	if committed.After(w.asOf) {
		w.uncovered = append(w.uncovered, committed)
	} else {
		w.lags = append(w.lags, w.seen.Sub(committed)) // the roll-up was faster than the acknowledgement
	}
}

// doubted notes an increment that was applied or not.
func (w *watched) doubted() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inDoubt++
}

// wasRefused notes an increment that was not applied.
func (w *watched) wasRefused(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refusal = err
}

// forgetRollUps has the roll-ups counted from now on.
func (w *watched) forgetRollUps() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.updates = nil
}

// listen follows the roll-up document until ctx ends. It calls started after the first snapshot, or when
// it ends.
func (w *watched) listen(ctx context.Context, client *firestore.Client, started func()) error {
	defer started()
	snapshots := client.Doc("rollups/" + w.id).Snapshots(ctx)
	defer snapshots.Stop()
	for {
		doc, err := snapshots.Next()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("listening to rollups/%s: %w", w.id, err)
		}
		if r, err := shards.RollUpIn(doc, "count"); err == nil { // else it is not one yet
			w.rolledUp(r.AsOf, doc.UpdateTime)
		}
		started()
	}
}

// rolledUp notes a roll-up.
func (w *watched) rolledUp(asOf, updated time.Time) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asOf, w.seen = asOf, now
	w.updates = append(w.updates, updated)
	w.uncovered = slices.DeleteFunc(w.uncovered, func(committed time.Time) bool {
		if committed.After(asOf) {
			return false
		}
		w.lags = append(w.lags, now.Sub(committed))
		return true
	})
	if w.changed != nil {
		close(w.changed)
		w.changed = nil
	}
}

// awaitCovered waits until there is a roll-up and it covers every increment noted so far.
func (w *watched) awaitCovered(ctx context.Context) error {
	for {
		w.mu.Lock()
		if !w.asOf.IsZero() && len(w.uncovered) == 0 {
			w.mu.Unlock()
			return nil
		}
		if w.changed == nil {
			w.changed = make(chan struct{})
		}
		changed := w.changed
		w.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waiting for rollups/%s: %w", w.id, context.Cause(ctx))
		}
	}
}

// missing is how many increments were acknowledged, and what a roll-up that covers them lacks.
func (w *watched) missing() (acknowledged int, what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.refusal != nil:
		what = fmt.Sprintf("increments of counters/%s are refused: %v", w.id, w.refusal)
	case w.asOf.IsZero():
		what = fmt.Sprintf("no roll-up rollups/%s was seen", w.id)
	case len(w.uncovered) > 0:
		what = fmt.Sprintf("rollups/%s is as of %s and does not cover %d increments, the first of %s",
			w.id, w.asOf.UTC().Format(time.RFC3339Nano), len(w.uncovered), w.uncovered[0].UTC().Format(time.RFC3339Nano))
	}
	return int(w.acknowledged), what
}

// lastRollUp is when the latest roll-up was seen.
func (w *watched) lastRollUp() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen
}

// takeLags returns the lags noted since it was last called.
func (w *watched) takeLags() []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	lags := w.lags
	w.lags = nil
	return lags
}

// mostWithin returns the most updates seen of the roll-up document that fall into any window of length
// d.
func (w *watched) mostWithin(d time.Duration) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	var most int
	for i := range w.updates {
		n := 0
		for n < len(w.updates)-i && w.updates[i+n].Sub(w.updates[i]) < d {
			n++
		}
		most = max(most, n)
	}
	return most
}
