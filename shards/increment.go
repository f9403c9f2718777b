package shards

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/value"
)

// ErrInDoubt is returned by [Counter.Increment] and [Counter.IncrementFloat] when the increment was
// sent and its answer was lost. It was applied once or not at all. Calling again may count it
// twice. Not calling again may leave it uncounted. [Counter.IncrementOnce] leaves no such doubt.
var ErrInDoubt = errors.New("shards: the increment may have been applied")

// Increment adds amount, which may be negative, to one shard picked at random, and creates the
// shard if need be. It returns the time at which Firestore committed the increment. A roll-up
// contains the increment if the roll-up's AsOf is not before that time.
//
// After an error other than [ErrInDoubt] nothing was applied, and calling again is safe. ErrInDoubt
// wraps Firestore's own error, whose code says more. The code ABORTED is the answer to more writes
// than a shard can take. It means that nothing was applied, unless the SDK had sent the commit
// before.
//
// # Why it never counts twice
//
// When a commit is answered UNAVAILABLE or RESOURCE_EXHAUSTED, the SDK sends it again by itself;
// see Commit in the default call options of cloud.google.com/go/firestore/apiv1. A lost answer also
// looks like UNAVAILABLE. A plain increment is then applied twice and reported as a success (a test
// of this package shows it). Increment commits in a transaction of its own, which can be committed
// only once. The second sending is refused, and Increment returns ErrInDoubt. The price is one more
// round trip. The transaction reads nothing. Firestore bills one write, as for a plain increment.
//
// # Number of shards
//
// The option [NumShards] gives the number. Without it Increment reads the counter document, at most
// once a minute. If that does not say a number, the number is [DefaultNumShards]. If the read
// fails, Increment returns its error. An outdated number only changes how writes spread.
//
// # Limits
//
// A shard that holds an integer stays within int64: an increment that would cross the bound leaves
// it at the bound. A field that is not a number is set to amount.
//
// Do not call Increment within a transaction of your own: it fails with the context that
// [firestore.Client.RunTransaction] hands to its function, which may run more than once. Without a
// deadline in ctx the SDK gives each request 60 s. If ctx ends during the commit, Increment may
// take up to 5 s more, in which the SDK rolls back.
func (c *Counter) Increment(ctx context.Context, amount int64) (committed time.Time, err error) {
	return c.increment(ctx, value.Int(amount))
}

// IncrementFloat is [Counter.Increment] by a double. The shard holds a double from then on, and so
// does the total; above 2^53 doubles no longer hold every integer. An amount that is NaN or
// infinite is refused before anything is sent, because no increment could ever take it away again.
func (c *Counter) IncrementFloat(ctx context.Context, amount float64) (committed time.Time, err error) {
	total := value.Double(amount)
	if !total.Finite() {
		return time.Time{}, fmt.Errorf("shards: increment by %v", amount)
	}
	return c.increment(ctx, total)
}

// increment adds amount.
func (c *Counter) increment(ctx context.Context, amount Total) (time.Time, error) {
	shard, err := c.anyShard(ctx)
	if err != nil {
		return time.Time{}, err
	}

	// A commit that is refused may be the second sending of one that was applied. So there is only
	// one attempt.
	var commit firestore.CommitResponse
	sent := false
	err = c.transact(ctx, func(tx *firestore.Transaction) error {
		err := c.add(tx, addition{shard, amount})
		sent = err == nil // the SDK commits next
		return err
	}, firestore.MaxAttempts(1), firestore.WithCommitResponseTo(&commit))

	switch {
	case err == nil:
		return commit.CommitTime(), nil
	case sent:
		return time.Time{}, fmt.Errorf("%w: %s: %w", ErrInDoubt, shard.Path, err)
	default:
		return time.Time{}, fmt.Errorf("shards: increment %s: %w", shard.Path, err)
	}
}

// anyShard returns one of the shards over which increments spread, at random.
func (c *Counter) anyShard(ctx context.Context) (*firestore.DocumentRef, error) {
	n, err := c.spread(ctx)
	if err != nil {
		return nil, err
	}
	return c.shard(rand.Int64N(n)), nil
}
