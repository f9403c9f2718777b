package shards

import (
	"context"
	"fmt"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/document"
)

// Delete deletes every document of the shards' collection, and then the counter document. If the
// counter document has fields of the app's own, it stays, and loses only what it says about the
// counter. With [NumShards] Delete leaves the counter document alone, because it may be anything.
//
// The roll-up document stays. Tally's functions bring it to a total of 0 and 0 shards, and may
// remove it later. Do not delete it yourself, because a roll-up that is on its way could bring an
// old total back. Tokens of [Counter.IncrementOnce] and [Counter.Set] stay until they expire. The
// notes of [Counter.Carry] stay, and so do documents below the counter that are not Tally's.
//
// Each commit deletes up to 499 shards, and one more commit then deletes the counter document.
// Between commits a snapshot shows the sum of the shards that are left. After an error some commits
// may have been applied. Calling again deletes what is left.
//
// An increment that is committed before its shard is deleted is deleted with it. A later increment
// creates its shard again, and is rolled up. Delete does not find that shard. So stop the clients
// of a counter first: frozen: true in the counter document has Tally's security rules refuse them.
//
// Delete returns how many shards it deleted, and whether the counter document said anything about
// the counter. After an error it returns 0 and false, although some shards may be deleted. It costs
// one read and one delete per document.
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

// undeclare deletes the counter document. If that has fields of the app's own, it deletes only what
// the document says about the counter. It reports whether there was anything to delete.
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
