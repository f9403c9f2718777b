package shards

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/document"
)

// ErrNumShards is returned by [Counter.Create] when the counter already has another number of
// shards, and by [Counter.Resize] when [NumShards] says another. The text of the error names both
// numbers.
var ErrNumShards = errors.New("shards: the counter has another number of shards")

// Create makes the counter: it writes num_shards into the counter document and creates the shards
// "0" to numShards-1, each with the integer 0. It is for apps whose clients update shards that must
// exist, or learn the number of shards from the counter document. An app that only increments
// through this package needs it only for another number of shards than [DefaultNumShards].
//
// A counter that exists loses nothing: Create adds 0 to each shard, and the counter document keeps
// its other fields. Calling Create again with the same number is harmless, and finishes what a
// failed call left unfinished. If the counter document has another number, or one that grows by
// itself, Create writes nothing and returns an error that matches [ErrNumShards] ([Counter.Resize]
// changes the number). With [NumShards] there is no counter document to read or write; numShards
// must be the number given there.
//
// The counter document and the first 499 shards are one transaction, and each 499 further shards
// are another, in order. If a transaction fails, the ones before it are done, it may be done
// itself, and the ones after it are not. The counter works in that state.
//
// Create costs one read and one write for the counter document, and one write per shard. It costs
// more if a transaction meets another and has to run again.
func (c *Counter) Create(ctx context.Context, numShards int) error {
	n := int64(numShards)
	err := c.checkNumShards("create", n)
	if err != nil {
		return err
	}

	declare := func(tx *firestore.Transaction) error { return c.declare(tx, n) }
	if c.fixed != 0 {
		declare = nil
	}
	return c.failed("create", c.createShards(ctx, 0, n, declare))
}

// CreateAuto makes a counter whose shards grow by themselves. It is [Counter.Create] with
// [DefaultNumShards], and also writes auto_shards: true into the counter document:
//
//	counters/visitors           num_shards: 10   auto_shards: true
//
// While the shards are written more than about twice a second each, Tally's functions create more
// of them, and raise num_shards. The number never goes down by itself.
//
// A counter that has a number of shards keeps it, and grows from there. Calling CreateAuto again is
// harmless. [Counter.Resize] ends the growing. CreateAuto returns an error for a counter with
// [NumShards], whose number is in the app's code.
//
// CreateAuto bills one read more than Create.
func (c *Counter) CreateAuto(ctx context.Context) error {
	if c.err != nil {
		return c.err
	}
	if c.fixed != 0 {
		return c.failed("create", errors.New("the number of shards is in the app's code, so it cannot grow"))
	}

	docs, err := c.client.GetAll(ctx, []*firestore.DocumentRef{c.doc})
	if err != nil {
		return c.failed("create", err)
	}
	n, err := numShardsIn(docs[0])
	if err != nil {
		return c.failed("create", err)
	}
	return c.failed("create", c.createShards(ctx, 0, cmp.Or(n, DefaultNumShards), c.declareAuto))
}

// declareAuto has the counter document say that its shards grow by themselves. If the document says
// no number yet, there are DefaultNumShards.
func (c *Counter) declareAuto(tx *firestore.Transaction) error {
	n, _, err := c.readDeclared(tx)
	if err != nil {
		return err
	}

	fields := map[string]any{document.AutoShardsField: true}
	if n == 0 {
		fields[document.NumShardsField] = DefaultNumShards
	}
	return tx.Set(c.doc, fields, firestore.MergeAll)
}

// readDeclared returns how many shards the counter document says there are, or 0, and whether they
// grow by themselves.
func (c *Counter) readDeclared(tx *firestore.Transaction) (n int64, grows bool, err error) {
	docs, err := tx.GetAll([]*firestore.DocumentRef{c.doc})
	if err != nil {
		return 0, false, err
	}
	n, err = numShardsIn(docs[0])
	return n, docs[0].Data()[document.AutoShardsField] == true, err
}

// checkNumShards returns an error if the counter cannot be given n shards by the operation.
func (c *Counter) checkNumShards(operation string, n int64) error {
	switch {
	case c.err != nil:
		return c.err
	case n < 1:
		return c.failed(operation, fmt.Errorf("number of shards is %d, want at least 1", n))
	case c.fixed != 0 && c.fixed != n:
		return fmt.Errorf("%w: %s has %d by option, not %d", ErrNumShards, c.doc.Path, c.fixed, n)
	}
	return nil
}

// createShards creates the missing ones of the shards first to n-1, each with the integer 0. The
// first commit also calls declare, unless that is nil.
func (c *Counter) createShards(ctx context.Context, first, n int64, declare func(*firestore.Transaction) error) error {
	var zeros []addition
	for number := first; number < n; number++ {
		zeros = append(zeros, addition{shard: c.shard(number)})
	}

	return inCommits(c, int(first), zeros, func(some []addition) error {
		err := c.transact(ctx, func(tx *firestore.Transaction) error {
			if declare == nil {
				return c.add(tx, some...)
			}
			err := declare(tx)
			if err != nil {
				return err
			}
			return c.add(tx, some...)
		})
		declare = nil // only the first commit declares; if it failed, no other follows
		return err
	})
}

// declare has the counter document say that there are n shards.
func (c *Counter) declare(tx *firestore.Transaction, n int64) error {
	has, grows, err := c.readDeclared(tx)
	switch {
	case err != nil:
		return err
	case grows:
		return fmt.Errorf("%w: it has %d, and its shards grow by themselves", ErrNumShards, has)
	case has == n:
		return nil
	case has != 0:
		return fmt.Errorf("%w: it has %d, not %d", ErrNumShards, has, n)
	}
	return tx.Set(c.doc, map[string]any{document.NumShardsField: n}, firestore.MergeAll)
}
