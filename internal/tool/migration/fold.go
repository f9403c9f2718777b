package migration

import (
	"context"
	"fmt"
	"strconv"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/value"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A folding moves what the documents of a collection hold into the shards 0 to n-1, while clients
// go on incrementing. The sum of the documents stays the same in every snapshot, apart from partial
// sums of the extension, whose amounts count only once they are folded.
type folding struct {
	client *firestore.Client
	shards *firestore.CollectionRef
	n      int64
}

// fold folds all documents but the shards 0 to n-1. One commit deletes a document, if it is still
// as it was read, and adds all that it held to a shard. So a fold cannot be applied twice, and
// after an error fold may be called again. Subcollections stay.
//
// It leaves a document where it is if folding could lose something. That is so if one of the
// document's fields is not a finite number. It is also so if no shard can take the document,
// because each would come to an integer beyond ±2^62, or holds something else than a number.
func (f *folding) fold(ctx context.Context) error {
	all, err := f.shards.Select().Documents(ctx).GetAll()
	if err != nil {
		return fmt.Errorf("list %s: %w", f.shards.Path, err)
	}

	next := int64(0) // folded documents are spread over all shards
	for _, doc := range all {
		if f.numbered(doc.Ref) {
			continue
		}

		err := f.foldOne(ctx, doc.Ref, next)
		if err != nil {
			return fmt.Errorf("fold %s: %w", doc.Ref.Path, err)
		}
		next++
	}
	return nil
}

// numbered reports whether a document is one of the shards 0 to n-1.
func (f *folding) numbered(doc *firestore.DocumentRef) bool {
	n, err := strconv.ParseInt(doc.ID, 10, 64)
	return err == nil && 0 <= n && n < f.n && strconv.FormatInt(n, 10) == doc.ID
}

// foldAttempts is how often a fold may fail. Attempts in which a client was faster do not count.
const foldAttempts = 3

// foldOne moves what a document holds into a shard. It tries the shard first modulo n, and then the
// next ones, until one can take it.
func (f *folding) foldOne(ctx context.Context, surplus *firestore.DocumentRef, first int64) error {
	failures, skipped := 0, int64(0)
	for {
		shard := f.shards.Doc(strconv.FormatInt((first+skipped)%f.n, 10))
		docs, err := f.client.GetAll(ctx, []*firestore.DocumentRef{surplus, shard})
		if err != nil {
			return err
		}
		if !docs[0].Exists() {
			return nil // it is folded
		}

		holds := contents(docs[0].Data())
		if !holds.whole {
			return nil // it stays
		}
		increments, ok := holds.sums.increments(docs[1].Data())
		if !ok {
			skipped++
			if skipped == f.n {
				return nil // it stays
			}
			continue
		}

		err = f.move(ctx, docs[0], shard, increments)
		if err == nil {
			return nil
		}
		if isOvertaken(err) {
			continue
		}
		failures++
		if failures == foldAttempts || ctx.Err() != nil {
			return err
		}
	}
}

// move deletes a document and increments a shard in one commit. Firestore refuses the commit unless
// the document is still as it was read.
func (f *folding) move(ctx context.Context, surplus *firestore.DocumentSnapshot, shard *firestore.DocumentRef, increments map[string]any) error {
	return f.client.RunTransaction(ctx, func(_ context.Context, tx *firestore.Transaction) error {
		err := tx.Delete(surplus.Ref, firestore.LastUpdateTime(surplus.UpdateTime))
		if err != nil || len(increments) == 0 {
			return err
		}
		return tx.Set(shard, increments, firestore.MergeAll)
	})
}

// isOvertaken reports whether a commit was refused because the document had changed since it was
// read. Either a client was faster, or the commit was applied before and that answer was lost.
func isOvertaken(err error) bool {
	switch status.Code(err) {
	case codes.FailedPrecondition, codes.NotFound, codes.Aborted:
		return true
	}
	return false
}

// increments returns the increments that add the amounts to a shard, by field. It reports false if
// that could lose something.
func (a amountsOf) increments(shard map[string]any) (map[string]any, bool) {
	fields := map[string]any{}
	for field, added := range a {
		content, has := shard[field]
		held, isNumber := value.Number(content)
		amount := added.Total()
		if has && !isNumber || !canHold(held, amount) {
			return nil, false
		}
		if amount.Float64() != 0 {
			fields[field] = firestore.Increment(amount.Firestore())
		}
	}
	return fields, true
}

// mostHeld is the largest integer that a fold makes a shard hold. From there, clients can still add
// 2^62 before they come to the bound of int64, where increments would be lost.
const mostHeld = 1 << 62

// canHold reports whether a shard that holds a number can take an amount more.
func canHold(held, amount value.Value) bool {
	sum := value.Plus(held, amount)
	n, isInteger := sum.Int64()
	overflown := !isInteger && !held.IsDouble() && !amount.IsDouble()
	return !overflown && sum.Finite() && -mostHeld <= n && n <= mostHeld
}
