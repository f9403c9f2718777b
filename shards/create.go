package shards

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"cloud.google.com/go/firestore"
)

// ErrNumShards is returned by [Counter.Create] when the counter already has another
// number of shards. The text of the error names both numbers.
var ErrNumShards = errors.New("shards: the counter has another number of shards")

// maxWritesPerCommit is the most writes that this package puts into one commit. 500 is
// the limit that Firestore's SDKs document for a batch. Firestore's own list of
// limits, https://firebase.google.com/docs/firestore/quotas, no longer has it, but
// nothing is gained from larger commits.
const maxWritesPerCommit = 500

// Create makes the counter: it writes num_shards into the counter document and
// creates the shards "0" to numShards-1, each with the integer 0.
//
// Create is for apps whose clients update shards that must exist, or are to learn
// the number of shards from the counter document. An app that only increments
// through this package needs it merely to have another number of shards than
// [DefaultNumShards].
//
// A counter that exists loses nothing: Create adds 0 to each shard instead of
// setting it, whatever others write meanwhile; a counter document that lacks
// num_shards is given it and keeps its other fields. Calling Create again with the
// same number is harmless, and finishes what a call that failed left unfinished. If
// the counter document has another number, Create writes nothing and returns an
// error that matches [ErrNumShards] ([Counter.Resize] changes the number); of two concurrent calls with different numbers,
// one gets it. A counter of votes has no number of shards: [ErrOncePerUser].
//
// The counter document and the first 499 shards are one transaction: all or none.
// Each 500 further shards are another transaction, in order. After an error, the
// transactions before it are done, its own may be, and none after it. The counter
// works in that state: increments create the shards that they need.
//
// With [NumShards] there is no counter document to read or write; numShards must be
// the number given there.
//
// Create bills one read and one write for the counter document and one write per
// shard, more if a transaction meets another and has to run again.
func (c *Counter) Create(ctx context.Context, numShards int) error {
	n := int64(numShards)
	if c.err != nil {
		return c.err
	}
	if n < 1 {
		return fmt.Errorf("shards: create %s: number of shards is %d, want at least 1", c.doc.Path, n)
	}
	if c.fixed != 0 && c.fixed != n {
		return fmt.Errorf("%w: %s has %d by option, not %d", ErrNumShards, c.doc.Path, c.fixed, n)
	}

	first := int64(0) // shard that is not created yet
	if c.fixed == 0 {
		first = min(n, maxWritesPerCommit-1)
		if err := c.client.RunTransaction(ctx, func(_ context.Context, tx *firestore.Transaction) error {
			if err := c.declare(tx, n); err != nil {
				return err
			}
			return c.addZero(tx, 0, first)
		}); err != nil {
			return fmt.Errorf("shards: create %s: %w", c.doc.Path, err)
		}
		c.progress(int(first), numShards)
	}
	return c.createShards(ctx, first, n)
}

// createShards creates those of the shards first to n-1 that are missing, each with the
// integer 0, in transactions of at most maxWritesPerCommit.
func (c *Counter) createShards(ctx context.Context, first, n int64) error {
	for first < n {
		end := min(n, first+maxWritesPerCommit)
		if err := c.client.RunTransaction(ctx, func(_ context.Context, tx *firestore.Transaction) error {
			return c.addZero(tx, first, end)
		}); err != nil {
			return fmt.Errorf("shards: create shards %d to %d of %d of %s: %w", first, end-1, n, c.doc.Path, err)
		}
		first = end
		c.progress(int(end), int(n))
	}
	return nil
}

// declare has the counter document say that there are n shards.
func (c *Counter) declare(tx *firestore.Transaction, n int64) error {
	docs, err := tx.GetAll([]*firestore.DocumentRef{c.doc})
	if err != nil {
		return err
	}
	if err := c.notVotes(docs[0]); err != nil {
		return err
	}
	switch has, err := numShardsIn(docs[0]); {
	case err != nil:
		return err
	case has != 0 && has != n:
		return fmt.Errorf("%w: it has %d, not %d", ErrNumShards, has, n)
	case has != 0:
		return nil
	}
	return tx.Set(c.doc, map[string]any{fieldNumShards: n}, firestore.MergeAll)
}

// addZero adds 0 to the shards from first to end-1, which creates those that are
// missing and changes no other.
func (c *Counter) addZero(tx *firestore.Transaction, first, end int64) error {
	for n := first; n < end; n++ {
		if err := tx.Set(c.shard(n), c.plus(int64(0)), firestore.MergeAll); err != nil {
			return err
		}
	}
	return nil
}

// shard returns the shard of the given number.
func (c *Counter) shard(n int64) *firestore.DocumentRef {
	return c.shards.Doc(strconv.FormatInt(n, 10))
}

// plus is what to merge into a shard to add amount, an int64 or a float64, to it.
func (c *Counter) plus(amount any) map[string]any {
	return map[string]any{c.field: firestore.Increment(amount)}
}
