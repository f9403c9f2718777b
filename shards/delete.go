package shards

import (
	"context"
	"fmt"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/document"
)

// Delete deletes every document of the shards' collection, and then the counter document. If that
// has fields of the app's own, it stays, and only what it says about the counter goes. With
// [NumShards] it is left alone, as it may be anything.
//
// The roll-up document stays. Tally's functions bring it to a total of 0 and 0 shards; nothing else
// may delete it, because a roll-up that is on its way could bring an old total back. Tokens of
// [Counter.IncrementOnce] and [Counter.Set] stay until they expire. The notes of [Counter.Carry]
// stay, and so do documents below the counter that are not Tally's.
//
// 499 shards are deleted in one commit, and the counter document after them: who voted stays hidden
// until the last vote is deleted. Between commits a snapshot shows the sum of what is left. After
// an error some commits may have been applied. Calling again deletes what is left.
//
// An increment that is committed before its shard is deleted goes with it. A later increment
// creates its shard again, and is rolled up; this call leaves that shard alone. So stop the clients
// of a counter first.
//
// Delete returns how many shards it deleted, and whether the counter document said anything about
// the counter; 0 and false after an error, although some may be deleted. It bills one read and one
// delete per document.
func (c *Counter) Delete(ctx context.Context) (shards int, declared bool, err error) {
	if c.err != nil {
		return 0, false, c.err
	}

	all, err := c.list(ctx)
	if err != nil {
		return 0, false, c.failed("delete", err)
	}
	err = c.deleteShards(ctx, all)
	if err != nil {
		return 0, false, c.failed("delete", err)
	}
	if c.fixed != 0 {
		return len(all), false, nil // the counter document may be anything
	}

	err = c.transact(ctx, func(tx *firestore.Transaction) (err error) {
		declared, err = c.undeclare(tx)
		return err
	})
	if err != nil {
		return 0, false, c.failed("delete", err)
	}
	return len(all), declared, nil
}

// undeclare deletes the counter document, or if that has fields of the app's own, what it says
// about the counter. It reports whether there was anything to delete.
func (c *Counter) undeclare(tx *firestore.Transaction) (bool, error) {
	docs, err := tx.GetAll([]*firestore.DocumentRef{c.doc})
	if err != nil || !docs[0].Exists() {
		return false, err
	}

	left := docs[0].Data() // the app's own fields, in the end
	own := map[string]any{}
	for _, field := range document.CounterFields {
		_, has := left[field]
		if has {
			own[field] = firestore.Delete
			delete(left, field)
		}
	}

	switch {
	case len(left) == 0:
		return true, tx.Delete(c.doc)
	case len(own) == 0:
		return false, nil
	}
	return true, tx.Set(c.doc, own, firestore.MergeAll)
}

// list returns the documents of the shards' collection, without their fields.
func (c *Counter) list(ctx context.Context) ([]*firestore.DocumentSnapshot, error) {
	docs, err := c.shards.Select().Documents(ctx).GetAll()
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", c.shards.Path, err)
	}
	return docs, nil
}

// deleteShards deletes shards, in order.
func (c *Counter) deleteShards(ctx context.Context, doomed []*firestore.DocumentSnapshot) error {
	return inCommits(c, 0, doomed, func(some []*firestore.DocumentSnapshot) error {
		return c.transact(ctx, func(tx *firestore.Transaction) error {
			for _, shard := range some {
				err := tx.Delete(shard.Ref)
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
}
