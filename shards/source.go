package shards

import (
	"context"
	"fmt"

	"cloud.google.com/go/firestore"
)

// A Source is a number in the same database that a counter should agree with, for
// [Counter.Import] and [Counter.Verify]: see [CountOf] and [FieldOf].
type Source struct {
	read func(context.Context, *firestore.Transaction) (Total, error)
}

// CountOf is the number of documents that a query finds, such as
//
//	shards.CountOf(client.Collection("posts/7/likes").Query)
//
// It has Firestore count them, which bills one read per 1,000 index entries.
func CountOf(q firestore.Query) Source {
	return Source{func(ctx context.Context, tx *firestore.Transaction) (Total, error) {
		count, err := aggregated(ctx, q.NewAggregationQuery().WithCount(aggregate), tx)
		if err != nil {
			return Total{}, fmt.Errorf("shards: count documents: %w", err)
		}
		return count, nil
	}}
}

// FieldOf is the number in a top-level field of a document: the total that an app kept
// before it had a distributed counter, say. It bills one read. A document or a field that
// is missing, or is no number, is an error.
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
	v, ok := doc.Data()[field]
	if !doc.Exists() {
		return Total{}, fmt.Errorf("shards: there is no document %s", doc.Ref.Path)
	}
	if !ok {
		return Total{}, fmt.Errorf("shards: %s has no field %q", doc.Ref.Path, field)
	}
	total, ok := totalOf(v)
	if !ok {
		return Total{}, fmt.Errorf("shards: field %q of %s is %#v, not a number", field, doc.Ref.Path, v)
	}
	return total, nil
}

// constant is a number that is in no database.
func constant(t Total) Source {
	return Source{func(context.Context, *firestore.Transaction) (Total, error) { return t, nil }}
}
