package shards

import (
	"context"

	"cloud.google.com/go/firestore"
)

// Renumber is [Counter.Resize] that folds shards of every id: afterwards all shards are 0 to
// numShards-1, but for those that clients have written since. It is for counters whose shards
// have random ids, more with each client, such as those of Firebase's firestore-counter
// extension. A client that goes on writing such a shard creates it again; it counts, and the next
// Renumber folds it.
//
// The extension's own partial sums, documents whose field _updates_ lists amounts, are folded as
// what they add up to. Whatever else is not made of finite numbers, a map with nested fields say,
// is left where it is, and named by the error that matches [ErrNotFolded].
//
// The extension must not be installed any more, or it takes the numbered shards away as well;
// nothing is lost then either.
func (c *Counter) Renumber(ctx context.Context, numShards int) error {
	return c.resize(ctx, numShards, true)
}

// A partial sum of the extension
// (https://github.com/firebase/extensions/blob/next/firestore-counter/functions/src/aggregator.ts)
// is a document with this field alone, a list of maps with an id and the amounts by field.
const (
	fieldUpdates = "_updates_"
	fieldData    = "_data_"
)

// partialSum returns the amounts of a partial sum of the extension, without those that are 0, and
// false if the document is none, or has other amounts than numbers.
func partialSum(doc *firestore.DocumentSnapshot) (map[string]Total, bool) {
	updates, ok := doc.Data()[fieldUpdates].([]any)
	if !ok || len(doc.Data()) != 1 {
		return nil, false
	}
	sums := map[string]Total{}
	for _, u := range updates {
		update, _ := u.(map[string]any)
		data, ok := update[fieldData].(map[string]any)
		if !ok {
			return nil, false
		}
		for field, v := range data {
			amount, ok := totalOf(v)
			if !ok {
				return nil, false
			}
			sums[field] = sums[field].plus(amount)
		}
	}
	for field, sum := range sums {
		if sum.Float64() == 0 {
			delete(sums, field)
		}
	}
	return sums, true
}
