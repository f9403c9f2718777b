package shards

import (
	"context"
	"errors"
	"fmt"

	"cloud.google.com/go/firestore"
)

// ErrOncePerUser is returned by the methods that add to a counter or fold its shards, if it
// is once per user: they would mix amounts with its votes. Nothing was changed.
var ErrOncePerUser = errors.New("shards: the counter is once per user")

// ErrNotOncePerUser is returned by [Counter.CreateOncePerUser] for a counter that cannot
// become one of votes. Nothing was changed.
var ErrNotOncePerUser = errors.New("shards: the counter cannot become once per user")

// fieldOncePerUser of the counter document says that each user has one vote. Tally's
// firestore.rules know it.
const fieldOncePerUser = "once_per_user"

// CreateOncePerUser makes a counter of votes: it writes once_per_user: true into the counter
// document. Each user's vote is the shard whose id is the user's, and holds 1, or 0 once the
// vote is taken back:
//
//	counters/votes              once_per_user: true
//	counters/votes/shards/ann   count: 1
//
// Tally's firestore.rules let a user write that one document and no other, so the total is the
// number of users whose vote is 1. A vote that is sent twice counts once.
//
// A counter that has any shard is refused with an error that matches [ErrNotOncePerUser], unless
// it is once per user already: what it has counted is no user's vote. So is one with [NumShards],
// which has no counter document. Calling again is harmless.
//
// [Counter.Get], [Counter.RollUp], [Counter.Verify] and [Counter.Delete] work as for any counter.
// [Counter.Set] to 0 deletes all votes. The methods that would mix other amounts with the votes
// return an error that matches [ErrOncePerUser]. A Counter with [NumShards] does not know that, nor,
// for up to a minute, one that read the counter document before.
//
// A server votes for a user by a plain Set of the user's shard, and takes the vote of an account
// that is gone back by deleting it.
//
// CreateOncePerUser bills two reads and one write.
func (c *Counter) CreateOncePerUser(ctx context.Context) error {
	if c.err != nil {
		return c.err
	}
	if c.fixed != 0 {
		return fmt.Errorf("%w: by option %s has no counter document to say it in", ErrNotOncePerUser, c.doc.Path)
	}
	err := c.client.RunTransaction(ctx, func(_ context.Context, tx *firestore.Transaction) error {
		docs, err := tx.GetAll([]*firestore.DocumentRef{c.doc})
		if err != nil || isOncePerUser(docs[0]) {
			return err
		}
		counted, err := tx.Documents(c.shards.Select().Limit(1)).GetAll()
		if err != nil {
			return err
		}
		if len(counted) > 0 {
			return fmt.Errorf("%w: it has the shard %s, which is no user's vote; delete the counter first, or take another name", ErrNotOncePerUser, counted[0].Ref.ID)
		}
		return tx.Set(c.doc, map[string]any{fieldOncePerUser: true}, firestore.MergeAll)
	})
	if err != nil {
		return fmt.Errorf("shards: create %s once per user: %w", c.doc.Path, err)
	}
	return nil
}

// isOncePerUser reports whether a counter document says that each user has one vote.
func isOncePerUser(doc *firestore.DocumentSnapshot) bool {
	return doc.Data()[fieldOncePerUser] == true
}

// notVotes returns ErrOncePerUser if the counter document says that each user has one vote.
func (c *Counter) notVotes(doc *firestore.DocumentSnapshot) error {
	if !isOncePerUser(doc) {
		return nil
	}
	return fmt.Errorf("%w: each shard of %s is the vote of the user whose id it has; set that to 0 or 1, or the counter to 0, which deletes all votes",
		ErrOncePerUser, c.doc.Path)
}
