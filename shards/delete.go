package shards

import (
	"context"
	"fmt"

	"cloud.google.com/go/firestore"
)

// Delete deletes the counter document and all shards: every document of the shards'
// collection, with whatever fields. Of a counter that is once per user it also deletes the
// voters, so that they may vote again in a counter that is made anew; and of one without a
// counter document, which a call that was cut short may have deleted. The roll-up document stays. It goes to a total of 0
// and 0 shards by Tally's functions, as after any other write; nothing else may delete it,
// because a roll-up that is on its way could bring an old total back. Tokens of
// [Counter.IncrementOnce] stay until they expire. The notes of [Counter.Carry] stay, and so do
// documents below the counter that are not Tally's.
//
// # Atomicity and retries
//
// The counter document and the first 499 shards are deleted in one commit; each 500
// further shards in another, and voters after them. Between commits a snapshot shows the sum of what is left.
//
// An increment that is committed before its shard is deleted goes with it. A later one
// creates its shard again, and is rolled up again rather than lost silently: to be rid of
// a counter, stop its clients first. Such a shard is left alone by the call that is under
// way, so Delete ends although clients do not.
//
// After an error some commits may have been applied. Calling again deletes what is left,
// increments that came meanwhile included.
//
// With [NumShards] the counter document is left alone, as it may be anything.
//
// Delete bills one read per shard and voter, one for the counter document, and one delete
// per document.
func (c *Counter) Delete(ctx context.Context) error {
	if c.err != nil {
		return c.err
	}
	docs, err := c.shards.Select().Documents(ctx).GetAll()
	if err != nil {
		return fmt.Errorf("shards: delete %s: list %s: %w", c.doc.Path, c.shards.Path, err)
	}
	var doomed []*firestore.DocumentRef
	if c.fixed == 0 {
		doomed = append(doomed, c.doc)
		voters, err := c.voters(ctx)
		if err != nil {
			return fmt.Errorf("shards: delete %s: list its voters: %w", c.doc.Path, err)
		}
		docs = append(docs, voters...)
	}
	for _, doc := range docs {
		doomed = append(doomed, doc.Ref)
	}
	for done := 0; done < len(doomed); done += maxWritesPerCommit {
		batch := doomed[done:min(done+maxWritesPerCommit, len(doomed))]
		err := c.client.RunTransaction(ctx, func(_ context.Context, tx *firestore.Transaction) error {
			for _, doc := range batch {
				if err := tx.Delete(doc); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("shards: delete %s: %d of %d documents are deleted, the next %d perhaps: %w", c.doc.Path, done, len(doomed), len(batch), err)
		}
	}
	return nil
}

// voters returns the documents of the voters that go with the counter.
func (c *Counter) voters(ctx context.Context) ([]*firestore.DocumentSnapshot, error) {
	docs, err := c.client.GetAll(ctx, []*firestore.DocumentRef{c.doc})
	if err != nil || docs[0].Exists() && !isOncePerUser(docs[0]) {
		return nil, err
	}
	return c.doc.Collection(voterCollection).Select().Documents(ctx).GetAll()
}
