package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/shards"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A Counter is one that is written to while its roll-up is listened to. It may be used by many
// goroutines at once.
type Counter struct {
	path, total string // of the roll-up

	mu      sync.Mutex
	writes  []Write
	inDoubt int           // writes that may have been applied: the answer was lost
	seen    []RollUp      // in their order; the listener may miss some
	changed chan struct{} // closed when the listener sees something more; nil before Listen
}

// A Write is one that Firestore acknowledged.
type Write struct {
	Committed      time.Time // by Firestore's clock
	Sent, Answered time.Time // by the local clock
}

// Listen listens to the roll-up document at path (below the database's root), which has the total,
// until ctx ends. If the listener fails before that, it calls fail with the error. Listen is called
// once, before anything else.
func (c *Counter) Listen(ctx context.Context, fail func(error), client *firestore.Client, path, total string) error {
	c.path, c.total, c.changed = path, total, make(chan struct{})

	// The emulator does not tell a new listener of a commit that falls into its beginning. So the
	// first snapshot is awaited before anybody writes.
	snapshots := client.Doc(path).Snapshots(ctx)
	first, err := snapshots.Next()
	if err != nil {
		snapshots.Stop()
		return fmt.Errorf("listening to %s: %w", path, err)
	}
	c.record(first)

	go func() {
		defer snapshots.Stop()
		for {
			doc, err := snapshots.Next()
			if err != nil {
				fail(fmt.Errorf("listening to %s: %w", path, err))
				return
			}
			c.record(doc)
		}
	}()
	return nil
}

// record notes what the listener sees.
func (c *Counter) record(doc *firestore.DocumentSnapshot) {
	r, err := shards.RollUpIn(doc, c.total)
	if err != nil {
		return // there is no roll-up yet
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = append(c.seen, RollUp{r, doc.UpdateTime, time.Now()})
	close(c.changed)
	c.changed = make(chan struct{})
}

// Add makes a write that adds 1, as Persist does. An increment in doubt is noted and not made
// again, because that could count it twice. It is an error only if ctx has ended.
func (c *Counter) Add(ctx context.Context, write func(context.Context) (committed time.Time, err error)) error {
	sent := time.Now()
	return Persist(ctx, func(ctx context.Context) error {
		committed, err := write(ctx)
		inDoubt := errors.Is(err, shards.ErrInDoubt) && status.Code(err) != codes.PermissionDenied
		if err != nil && !inDoubt {
			return err
		}

		c.mu.Lock()
		defer c.mu.Unlock()
		if !inDoubt {
			c.writes = append(c.writes, Write{committed, sent, time.Now()})
			return nil
		}
		c.inDoubt++
		if ctx.Err() != nil {
			return err
		}
		return nil
	})
}

// Writes returns the acknowledged writes, and how many are in doubt.
func (c *Counter) Writes() (writes []Write, inDoubt int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.writes), c.inDoubt
}

// LastCommit returns when the last acknowledged write was committed; zero if there is none.
func (c *Counter) LastCommit() (last time.Time) {
	writes, _ := c.Writes()
	for _, w := range writes {
		if w.Committed.After(last) {
			last = w.Committed
		}
	}
	return last
}

// Seen returns all versions of the roll-up that were seen by now, in their order.
func (c *Counter) Seen() []RollUp {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.seen)
}

// Last returns the version of the roll-up that was seen last, the zero value if there is none, and
// a channel that is closed when another is seen.
func (c *Counter) Last() (RollUp, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.seen) == 0 {
		return RollUp{}, c.changed
	}
	return c.seen[len(c.seen)-1], c.changed
}

// Total returns the last total that was seen, and reports whether it is that of the writes. A write
// in doubt may be in it or not.
func (c *Counter) Total() (total int64, exact bool) {
	last, _ := c.Last()
	total, isInteger := last.Total.Int64()
	writes, inDoubt := c.Writes()
	return total, isInteger && total >= int64(len(writes)) && total <= int64(len(writes)+inDoubt)
}

// Await waits until a roll-up was seen that covers every acknowledged write; any roll-up if there
// is none. If ctx ends before that, the error says what was seen last.
func (c *Counter) Await(ctx context.Context) error {
	wanted := c.LastCommit()
	for {
		last, changed := c.Last()
		if !last.AsOf.IsZero() && !last.AsOf.Before(wanted) {
			return nil
		}

		select {
		case <-changed:
			continue
		case <-ctx.Done():
		}
		if last.AsOf.IsZero() {
			return fmt.Errorf("%w: no roll-up %s was seen", context.Cause(ctx), c.path)
		}
		return fmt.Errorf("%w: %s is as of %s, before %s", context.Cause(ctx), c.path, inUTC(last.AsOf), inUTC(wanted))
	}
}

func inUTC(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
