package shards

import (
	"context"
	"fmt"
	"time"

	"cloud.google.com/go/firestore"
)

// A Verification is what [Counter.Verify] found.
type Verification struct {
	Counter Total     // the sum of the shards at AsOf
	Source  Total     // the source's number at AsOf
	AsOf    time.Time // the snapshot's, by Firestore's clock, to the microsecond
}

// Equal reports whether both numbers are the same; integers are compared exactly.
func (v Verification) Equal() bool {
	if v.Counter.isDouble != v.Source.isDouble {
		return v.Counter.Float64() == v.Source.Float64()
	}
	return v.Counter == v.Source
}

// Verify compares the counter with a source, both read in one snapshot, so that a
// difference is no matter of timing: if the app writes the source's documents and the
// shards in one transaction or batch, the two agree in every snapshot.
//
// A difference is no error. Verify changes nothing and takes no locks. It bills one read
// per 1,000 shards, one for the snapshot's time, and the source's.
func (c *Counter) Verify(ctx context.Context, source Source) (Verification, error) {
	if c.err != nil {
		return Verification{}, c.err
	}
	var v Verification
	err := c.snapshot(ctx, func(ctx context.Context, tx *firestore.Transaction, doc *firestore.DocumentSnapshot) error {
		v.AsOf = readTime(doc)
		var err error
		if v.Source, err = source.read(ctx, tx); err != nil {
			return err
		}
		v.Counter, err = c.sum(ctx, tx)
		return err
	})
	if err != nil {
		return Verification{}, err
	}
	return v, nil
}

// snapshot calls f with a read-only transaction and the counter document in it.
func (c *Counter) snapshot(ctx context.Context, f func(context.Context, *firestore.Transaction, *firestore.DocumentSnapshot) error) error {
	return c.client.RunTransaction(ctx, func(ctx context.Context, tx *firestore.Transaction) error {
		docs, err := tx.GetAll([]*firestore.DocumentRef{c.doc})
		if err != nil {
			return fmt.Errorf("shards: read %s: %w", c.doc.Path, err)
		}
		return f(ctx, tx, docs[0])
	}, firestore.ReadOnly)
}

// readTime is the time of the snapshot that doc is from. A missing document has one too.
func readTime(doc *firestore.DocumentSnapshot) time.Time {
	return doc.ReadTime.Truncate(time.Microsecond)
}
