package shards

import (
	"context"
	"errors"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/document"
)

// Resize changes the number of shards, up or down, while clients go on incrementing. The counter's
// total stays the same in every snapshot, and so in every roll-up. From then on the number is the
// one that was given: if the counter's shards grew by themselves, as [Counter.CreateAuto] says,
// they do not any more.
//
// To go up, Resize first creates the new shards, each with the integer 0, for clients that only
// update. Then it writes the number. Clients that still use the old number lose nothing.
//
// To go down, Resize writes the number, and nothing else. The surplus shards stay, and count like
// all others. They cost next to nothing, because a sum costs one read for 1,000 shards. Tally's
// security rules refuse writes to them from then on. So a device that was offline loses increments
// that it has queued for them. To have none of these refused, keep the number, or have the rules
// allow the old one for as long as devices may be offline.
//
// After an error some shards may be created, and the total is right. Calling again with the same
// number is harmless, and finishes the work. Concurrent calls with different numbers leave the
// total right, and one of the numbers in the counter document.
//
// Resize writes the number to num_shards or numShards, whichever the counter document has, or to
// both. It returns an error for a counter with [NumShards], whose number is in the app's code:
// [Counter.Create] makes shards for a higher one.
//
// Resize bills one read and one write for the counter document, and one write per new shard.
func (c *Counter) Resize(ctx context.Context, numShards int) error {
	n := int64(numShards)
	err := c.checkNumShards("resize", n)
	if err != nil {
		return err
	}
	if c.fixed != 0 {
		return c.failed("resize", errors.New("the number of shards is in the app's code, and no counter document says it"))
	}
	return c.failed("resize", c.redeclare(ctx, n))
}

// redeclare creates the new shards, and then has the counter document say that there are n shards.
func (c *Counter) redeclare(ctx context.Context, n int64) error {
	docs, err := c.client.GetAll(ctx, []*firestore.DocumentRef{c.doc})
	if err != nil {
		return err
	}

	has, err := numShardsIn(docs[0])
	if err != nil {
		has = 0 // it says no valid number, and is overwritten
	}
	err = c.createShards(ctx, has, n, nil)
	if err != nil {
		return err
	}

	fields := document.NumShardsFields(docs[0].Data(), n)
	fields[document.AutoShardsField] = firestore.Delete
	_, err = c.doc.Set(ctx, fields, firestore.MergeAll)
	if err != nil {
		return err
	}
	c.numShards.set(n, c.numShards.now())
	return nil
}
