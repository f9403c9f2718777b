package shards

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/value"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ErrNotFolded is returned by [Counter.Resize] when shards above the new number were left where
// they are, because folding them would lose something. They count as before. The text of the error
// names each and why.
var ErrNotFolded = errors.New("shards: surplus shard not folded")

// Resize changes the number of shards, up or down, while clients go on incrementing. The counter's
// total does not change: no snapshot, and so no roll-up, ever shows another.
//
// Up: first the shards that will be new are created, each with the integer 0, for clients that only
// update; then num_shards is written. Clients that still use the old number lose nothing.
//
// Down: first num_shards is written; then each shard whose id is a decimal number from numShards on
// is folded into one below it. One commit deletes it, on the condition that it is still as it was
// read, and adds to the other shard what it held in all its fields, also those of other counters in
// the same shards. Shards with other ids, an app's own, are left alone; [Counter.Renumber] folds
// them too.
//
// A client that still uses the old number and sets with merge, as this package does for up to a
// minute, creates a surplus shard again. It counts like any other, and the next Resize with the
// same number folds it. A client that only updates a shard which is gone gets NOT_FOUND, and has to
// read num_shards again.
//
// A shard is not folded if that could lose something: if one of its fields is not a finite number
// (subcollections do not count), or if each shard below would come to an integer beyond ±2^62, or
// holds something else than a number. Resize folds all others and returns an error that matches
// [ErrNotFolded]. Integers stay integers; a sum of doubles is rounded as always.
//
// After an error some shards may be created or folded, and the total is right. Calling again with
// the same number is harmless and finishes the work. A fold cannot be applied twice. Concurrent
// calls with different numbers leave the total right and either number declared; call again once
// they are done. If a surplus shard is written all the time, Resize tries until ctx ends.
//
// The counter document gets num_shards, or numShards if that is what it has, or both. With
// [NumShards] there is none to write: numShards must be the number given there, and only the
// folding is done. A counter of votes is refused with [ErrOncePerUser].
//
// Resize bills one read and one write for the counter document; up, one write per new shard; then
// one read per shard, and for each that it folds two reads, one write and one delete.
func (c *Counter) Resize(ctx context.Context, numShards int) error {
	return c.resize(ctx, numShards, false)
}

// Renumber is [Counter.Resize] that folds shards of every id: afterwards all shards are 0 to
// numShards-1, but for those that clients have written since, which count and are folded by the
// next call. It is for counters whose shards have random ids, more with each client, such as those
// of Firebase's firestore-counter extension.
//
// The extension's own partial sums, documents whose field _updates_ lists amounts, are folded as
// what they add up to. A shard with anything but finite numbers, nested fields say, is left where
// it is, and named by the error that matches [ErrNotFolded]. Uninstall the extension first, or it
// takes the numbered shards away as well; nothing is lost then either.
func (c *Counter) Renumber(ctx context.Context, numShards int) error {
	return c.resize(ctx, numShards, true)
}

// resize folds surplus shards, and with every also those whose ids are no decimal numbers.
func (c *Counter) resize(ctx context.Context, numShards int, every bool) error {
	n := int64(numShards)
	if err := c.checkNumShards("resize", n); err != nil {
		return err
	}
	if c.fixed == 0 {
		if err := c.redeclare(ctx, n); err != nil {
			return c.failed("resize", err)
		}
	}
	surplus, err := c.list(ctx)
	if err != nil {
		return c.failed("resize", err)
	}
	surplus = slices.DeleteFunc(surplus, func(shard *firestore.DocumentSnapshot) bool {
		number, decimal := shardNumber(shard.Ref)
		return decimal && number < n || !decimal && !every
	})
	var left []error
	for i, shard := range surplus {
		err := c.fold(ctx, shard.Ref, int64(i), n)
		if err != nil && !errors.Is(err, ErrNotFolded) {
			return fmt.Errorf("shards: fold %s: %w", shard.Ref.Path, err)
		}
		left = append(left, err)
		c.progress(i+1, len(surplus))
	}
	return errors.Join(left...)
}

// redeclare creates the shards that will be new, and then has the counter document say n wherever
// it says a number of shards.
func (c *Counter) redeclare(ctx context.Context, n int64) error {
	docs, err := c.client.GetAll(ctx, []*firestore.DocumentRef{c.doc})
	if err != nil {
		return err
	}
	if err := c.notVotes(docs[0]); err != nil {
		return err
	}
	has, err := numShardsIn(docs[0])
	if err != nil {
		has = 0 // it is replaced
	}
	if err := c.createShards(ctx, has, n, nil); err != nil {
		return err
	}
	fields := map[string]any{}
	for _, name := range []string{document.NumShardsField, document.NumShardsCamelField} {
		if _, ok := docs[0].Data()[name]; ok {
			fields[name] = n
		}
	}
	if len(fields) == 0 {
		fields[document.NumShardsField] = n
	}
	if _, err := c.doc.Set(ctx, fields, firestore.MergeAll); err != nil {
		return err
	}
	c.numShards.keep(n, c.numShards.now())
	return nil
}

// shardNumber returns the number that is a shard's id, and false if the id is none.
func shardNumber(shard *firestore.DocumentRef) (int64, bool) {
	number, err := strconv.ParseInt(shard.ID, 10, 64)
	return number, err == nil && number >= 0 && strconv.FormatInt(number, 10) == shard.ID
}

// foldAttempts is how often a fold is tried when it fails for another reason than a client that was
// faster.
const foldAttempts = 3

// fold moves what a shard holds into one below n. It tries the i-th first, so that many spread.
func (c *Counter) fold(ctx context.Context, surplus *firestore.DocumentRef, i, n int64) error {
	failures := 0
	for skipped := int64(0); ; {
		kept := c.shard((i + skipped) % n)
		docs, err := c.client.GetAll(ctx, []*firestore.DocumentRef{surplus, kept})
		if err != nil {
			return err
		}
		if !docs[0].Exists() {
			return nil // folded
		}
		amounts, err := numbers(docs[0])
		if err != nil {
			return err
		}
		increments, err := increments(amounts, docs[1])
		if err != nil {
			if skipped++; skipped == n {
				return fmt.Errorf("%w: %s: no shard below %d can take it: %w", ErrNotFolded, surplus.Path, n, err)
			}
			continue
		}
		err = c.transact(ctx, func(tx *firestore.Transaction) error {
			err := tx.Delete(surplus, firestore.LastUpdateTime(docs[0].UpdateTime))
			if err != nil || len(increments) == 0 {
				return err
			}
			return tx.Set(kept, increments, firestore.MergeAll)
		})
		switch status.Code(err) {
		case codes.OK:
			return nil
		case codes.FailedPrecondition, codes.NotFound, codes.Aborted:
			// A client was faster, or the answer to a commit that was applied was lost.
		default:
			if failures++; failures == foldAttempts || ctx.Err() != nil {
				return err
			}
		}
	}
}

// numbers returns the fields of a surplus shard, all of which must be finite numbers, or the sums
// of a partial sum.
func numbers(surplus *firestore.DocumentSnapshot) (map[string]Total, error) {
	if amounts, ok := partialSum(surplus); ok {
		return amounts, nil
	}
	amounts := map[string]Total{}
	for field, v := range surplus.Data() {
		amount, ok := value.Number(v)
		if !ok || !amount.Finite() {
			return nil, fmt.Errorf("%w: %s: field %q is %#v, not a finite number", ErrNotFolded, surplus.Ref.Path, field, v)
		}
		amounts[field] = amount
	}
	return amounts, nil
}

// increments returns the fields that add the amounts to the shard kept. It returns an error if that
// could lose something.
func increments(amounts map[string]Total, kept *firestore.DocumentSnapshot) (map[string]any, error) {
	fields := map[string]any{}
	for field, amount := range amounts {
		held, ok := value.Number(kept.Data()[field])
		if _, has := kept.Data()[field]; has && !ok {
			return nil, fmt.Errorf("field %q of %s is not a number", field, kept.Ref.Path)
		}
		if _, err := plus(held, amount); err != nil {
			return nil, fmt.Errorf("field %q of %s holds %v, and %v more is out of range", field, kept.Ref.Path, held, amount)
		}
		fields[field] = firestore.Increment(amount.Firestore())
	}
	return fields, nil
}

// A partial sum of the extension
// (https://github.com/firebase/extensions/blob/next/firestore-counter/functions/src/aggregator.ts)
// is a document with this field alone, a list of maps with an id and the amounts by field.
const (
	fieldUpdates = "_updates_"
	fieldData    = "_data_"
)

// partialSum returns the sums of a partial sum of the extension, without those that are 0, and
// false if the document is none, or has other amounts than numbers.
func partialSum(doc *firestore.DocumentSnapshot) (map[string]Total, bool) {
	updates, ok := doc.Data()[fieldUpdates].([]any)
	ok = ok && len(doc.Data()) == 1
	sums := map[string]Total{}
	for _, u := range updates {
		update, _ := u.(map[string]any)
		data, isMap := update[fieldData].(map[string]any)
		ok = ok && isMap
		for field, v := range data {
			amount, isNumber := value.Number(v)
			ok = ok && isNumber
			sums[field] = value.Plus(sums[field], amount)
		}
	}
	maps.DeleteFunc(sums, func(_ string, sum Total) bool { return sum.Float64() == 0 })
	return sums, ok
}
