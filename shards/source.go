package shards

import (
	"context"
	"fmt"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/value"
)

// A Source is a number in the same database that a counter should agree with, for [Counter.Import]
// and [Counter.Verify]: see [CountOf] and [FieldOf].
type Source struct {
	read func(context.Context, *firestore.Transaction) (Total, error)
}

// CountOf is the number of documents that a query finds, such as
//
//	shards.CountOf(client.Collection("posts/7/likes").Query)
//
// It has Firestore count them, which costs one read per 1,000 index entries.
func CountOf(q firestore.Query) Source {
	return Source{func(ctx context.Context, tx *firestore.Transaction) (Total, error) {
		count, err := aggregated(ctx, q.NewAggregationQuery().WithCount(aggregate), tx)
		if err != nil {
			return Total{}, fmt.Errorf("shards: count documents: %w", err)
		}
		return count, nil
	}}
}

// FieldOf is the number in a top-level field of a document, such as the total that an app kept
// before it had a distributed counter. It costs one read. A missing document or field is an error,
// and so is a field that is not a number.
func FieldOf(doc *firestore.DocumentRef, field string) Source {
	return Source{func(_ context.Context, tx *firestore.Transaction) (Total, error) {
		if doc == nil {
			return Total{}, fmt.Errorf("shards: nil document for field %q", field)
		}

		docs, err := tx.GetAll([]*firestore.DocumentRef{doc})
		if err != nil {
			return Total{}, fmt.Errorf("shards: read %s: %w", doc.Path, err)
		}
		return numberOf(docs[0], field)
	}}
}

// numberOf returns the number in a document's field.
func numberOf(doc *firestore.DocumentSnapshot, field string) (Total, error) {
	if !doc.Exists() {
		return Total{}, fmt.Errorf("shards: there is no document %s", doc.Ref.Path)
	}
	v, has := doc.Data()[field]
	if !has {
		return Total{}, fmt.Errorf("shards: %s has no field %q", doc.Ref.Path, field)
	}

	total, ok := value.Number(v)
	if !ok {
		return Total{}, fmt.Errorf("shards: field %q of %s is %#v, not a number", field, doc.Ref.Path, v)
	}
	return total, nil
}

// A Verification is the result of [Counter.Verify].
type Verification struct {
	Counter Total     // the sum of the shards at AsOf
	Source  Total     // the source's number at AsOf
	AsOf    time.Time // the snapshot's, by Firestore's clock, to the microsecond
}

// Equal reports whether both numbers are the same. It compares two integers exactly, and an integer
// with a double as doubles.
func (v Verification) Equal() bool {
	if v.Counter.IsDouble() != v.Source.IsDouble() {
		return v.Counter.Float64() == v.Source.Float64()
	}
	return v.Counter == v.Source
}

// Verify compares the counter with a source. It reads both in one snapshot. If the app writes the
// source's documents and the shards in one transaction or batch, the two agree in every snapshot.
//
// A difference is not an error. Verify changes nothing and takes no locks. It costs one read per
// 1,000 shards, one for the snapshot's time, and the reads of the source.
func (c *Counter) Verify(ctx context.Context, source Source) (Verification, error) {
	var v Verification
	err := c.snapshot(ctx, func(ctx context.Context, tx *firestore.Transaction, doc *firestore.DocumentSnapshot) (err error) {
		v.AsOf = readTime(doc)
		v.Source, err = source.read(ctx, tx)
		if err != nil {
			return err
		}
		v.Counter, err = c.sum(ctx, tx)
		return err
	})
	return v, err
}

// snapshot calls f with a read-only transaction and the counter document in it.
func (c *Counter) snapshot(ctx context.Context, f func(context.Context, *firestore.Transaction, *firestore.DocumentSnapshot) error) error {
	if c.err != nil {
		return c.err
	}

	return c.client.RunTransaction(ctx, func(ctx context.Context, tx *firestore.Transaction) error {
		docs, err := tx.GetAll([]*firestore.DocumentRef{c.doc})
		if err != nil {
			return fmt.Errorf("shards: read %s: %w", c.doc.Path, err)
		}
		return f(ctx, tx, docs[0])
	}, firestore.ReadOnly)
}

// readTime returns the time of the snapshot from which doc was read. Even a missing document has
// one.
func readTime(doc *firestore.DocumentSnapshot) time.Time {
	return doc.ReadTime.Truncate(time.Microsecond)
}
