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

// ErrNotFolded is returned by [Counter.Resize] and [Counter.Renumber] when surplus shards were left
// where they are, because folding them would lose something. They count as before. The text of the
// error names each, and says why.
var ErrNotFolded = errors.New("shards: surplus shard not folded")

// Resize changes the number of shards, up or down, while clients go on incrementing. The counter's
// total stays the same in every snapshot, and so in every roll-up.
//
// To go up, Resize first creates the new shards, each with the integer 0, for clients that only
// update. Then it writes num_shards. Clients that still use the old number lose nothing.
//
// To go down, Resize first writes num_shards. Then it folds each surplus shard, whose id is a
// decimal number from numShards on, into a shard below that number. One commit deletes the surplus
// shard, if it is still as it was read, and adds what it held to the other shard. It adds all its
// fields, also those of other counters in the same shards. Resize leaves alone shards with other
// ids, which are an app's own. [Counter.Renumber] folds them, too.
//
// A client that still uses the old number and sets with merge, as this package does for up to a
// minute, creates a surplus shard again. That shard counts like any other, and the next Resize with
// the same number folds it. A client that only updates shards gets NOT_FOUND for a shard that is
// gone, and has to read num_shards again.
//
// Resize does not fold a shard if that could lose something. That is so if one of its fields is not
// a finite number. It is also so if no shard below the new number can take it, because each would
// come to an integer beyond ±2^62, or holds something else than a number. Then Resize folds all
// others, and returns an error that matches [ErrNotFolded]. Subcollections of shards stay. Integers
// stay integers. A sum of doubles is rounded as always.
//
// After an error some shards may be created or folded, and the total is right. Calling again with
// the same number is harmless, and finishes the work. A fold cannot be applied twice. Concurrent
// calls with different numbers leave the total right, and one of the numbers in the counter
// document. Call again once they are done. If a surplus shard is written all the time, Resize tries
// until ctx ends.
//
// Resize writes the number to num_shards or numShards, whichever the counter document has, or to
// both. With [NumShards] it does not write the counter document. Then it only folds, and its
// argument must be the number given there. A counter of votes is refused with [ErrOncePerUser].
//
// Resize bills one read and one write for the counter document, one write per new shard, and one
// read per shard. For each shard that it folds, it bills two reads, one write and one delete.
func (c *Counter) Resize(ctx context.Context, numShards int) error {
	return c.resize(ctx, numShards, false)
}

// Renumber does what [Counter.Resize] does, and also folds shards whose ids are not numbers.
// Afterwards all shards are 0 to numShards-1. Clients may have written others meanwhile. Those
// count, and the next call folds them. It is for counters whose shards have random ids, more with
// each client, such as those of Firebase's firestore-counter extension.
//
// The extension's own partial sums are documents whose field _updates_ lists amounts. Renumber
// folds what they add up to. It leaves alone a shard with anything but finite numbers, such as
// nested fields, and names it in the error that matches [ErrNotFolded]. Uninstall the extension
// first. Otherwise it takes the numbered shards away as well, and nothing is lost then either.
func (c *Counter) Renumber(ctx context.Context, numShards int) error {
	return c.resize(ctx, numShards, true)
}

// resize has the counter document say the number of shards, and folds surplus shards. These are the
// shards with numbers from numShards on, and if every is true, also shards whose ids are not
// decimal numbers.
func (c *Counter) resize(ctx context.Context, numShards int, every bool) error {
	n := int64(numShards)
	err := c.checkNumShards("resize", n)
	if err != nil {
		return err
	}
	if c.fixed == 0 {
		err := c.redeclare(ctx, n)
		if err != nil {
			return c.failed("resize", err)
		}
	}

	all, err := c.list(ctx)
	if err != nil {
		return c.failed("resize", err)
	}
	surplus := slices.DeleteFunc(all, func(shard *firestore.DocumentSnapshot) bool {
		number, decimal := shardNumber(shard.Ref)
		if decimal {
			return number < n
		}
		return !every
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

// redeclare creates the new shards, and then has the counter document say that there are n shards.
func (c *Counter) redeclare(ctx context.Context, n int64) error {
	docs, err := c.client.GetAll(ctx, []*firestore.DocumentRef{c.doc})
	if err != nil {
		return err
	}
	err = c.notVotes(docs[0])
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

	_, err = c.doc.Set(ctx, numShardsFields(docs[0], n), firestore.MergeAll)
	if err != nil {
		return err
	}
	c.numShards.keep(n, c.numShards.now())
	return nil
}

// numShardsFields returns the fields by which a counter document says that there are n shards:
// num_shards and numShards, whichever it has, or num_shards if it has neither.
func numShardsFields(doc *firestore.DocumentSnapshot, n int64) map[string]any {
	fields := map[string]any{}
	for _, name := range []string{document.NumShardsField, document.NumShardsCamelField} {
		_, has := doc.Data()[name]
		if has {
			fields[name] = n
		}
	}

	if len(fields) == 0 {
		fields[document.NumShardsField] = n
	}
	return fields
}

// shardNumber returns the number that is a shard's id. It returns false if the id is not a decimal
// number.
func shardNumber(shard *firestore.DocumentRef) (int64, bool) {
	number, err := strconv.ParseInt(shard.ID, 10, 64)
	return number, err == nil && number >= 0 && strconv.FormatInt(number, 10) == shard.ID
}

// foldAttempts is how often a fold may fail. Attempts in which a client was faster do not count.
const foldAttempts = 3

// fold moves what a surplus shard holds into a shard below n. It tries shard i modulo n first, so
// that folded shards are spread over all others. Then it tries the next ones, until a shard can
// take it.
func (c *Counter) fold(ctx context.Context, surplus *firestore.DocumentRef, i, n int64) error {
	failures, skipped := 0, int64(0)
	for {
		kept := c.shard((i + skipped) % n)
		docs, err := c.client.GetAll(ctx, []*firestore.DocumentRef{surplus, kept})
		if err != nil {
			return err
		}
		if !docs[0].Exists() {
			return nil // it is folded
		}

		amounts, err := numbers(docs[0])
		if err != nil {
			return err
		}
		increments, err := increments(amounts, docs[1])
		if err != nil {
			skipped++
			if skipped == n {
				return fmt.Errorf("%w: %s: no shard below %d can take it: %w", ErrNotFolded, surplus.Path, n, err)
			}
			continue
		}

		err = c.move(ctx, docs[0], kept, increments)
		if err == nil {
			return nil
		}
		if overtaken(err) {
			continue
		}
		failures++
		if failures == foldAttempts || ctx.Err() != nil {
			return err
		}
	}
}

// move deletes a surplus shard and increments another in one commit. Firestore refuses the commit
// unless the surplus shard is still as it was read.
func (c *Counter) move(ctx context.Context, surplus *firestore.DocumentSnapshot, kept *firestore.DocumentRef, increments map[string]any) error {
	return c.transact(ctx, func(tx *firestore.Transaction) error {
		err := tx.Delete(surplus.Ref, firestore.LastUpdateTime(surplus.UpdateTime))
		if err != nil || len(increments) == 0 {
			return err
		}
		return tx.Set(kept, increments, firestore.MergeAll)
	})
}

// overtaken reports whether a commit was refused because the shard had changed since it was read.
// Either a client was faster, or the commit was applied before and that answer was lost.
func overtaken(err error) bool {
	switch status.Code(err) {
	case codes.FailedPrecondition, codes.NotFound, codes.Aborted:
		return true
	}
	return false
}

// numbers returns the numbers in the fields of a surplus shard. If it is a partial sum of the
// extension, it returns what that adds up to. Otherwise all fields must be finite numbers.
func numbers(surplus *firestore.DocumentSnapshot) (map[string]Total, error) {
	sums, isPartialSum := partialSum(surplus)
	if isPartialSum {
		return sums, nil
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
		content, has := kept.Data()[field]
		held, isNumber := value.Number(content)
		if has && !isNumber {
			return nil, fmt.Errorf("field %q of %s is not a number", field, kept.Ref.Path)
		}
		_, err := plus(held, amount)
		if err != nil {
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

// partialSum returns what a partial sum of the extension adds up to, by field. It leaves out sums
// that are 0. It returns false if the document is not a partial sum, or if one of its amounts is
// not a number.
func partialSum(doc *firestore.DocumentSnapshot) (map[string]Total, bool) {
	updates, ok := doc.Data()[fieldUpdates].([]any)
	if !ok || len(doc.Data()) != 1 {
		return nil, false
	}

	sums := map[string]Total{}
	for _, u := range updates {
		update, _ := u.(map[string]any)
		data, isMap := update[fieldData].(map[string]any)
		if !isMap {
			return nil, false
		}
		for field, v := range data {
			amount, isNumber := value.Number(v)
			if !isNumber {
				return nil, false
			}
			sums[field] = value.Plus(sums[field], amount)
		}
	}
	maps.DeleteFunc(sums, func(_ string, sum Total) bool { return sum.Float64() == 0 })
	return sums, true
}
