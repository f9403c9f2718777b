package shards

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/document"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var (
	// ErrNumShards is returned by [Counter.Create] when the counter already has another number of
	// shards, and by [Counter.Resize] when [NumShards] says another. The text of the error names
	// both numbers.
	ErrNumShards = errors.New("shards: the counter has another number of shards")

	// ErrOncePerUser is returned by methods that add to a counter or create shards, when the counter
	// is once per user. They would mix other amounts with its votes. Nothing was changed.
	ErrOncePerUser = errors.New("shards: the counter is once per user")

	// ErrNotOncePerUser is returned by [Counter.CreateOncePerUser] for a counter that cannot become
	// one of votes. Nothing was changed.
	ErrNotOncePerUser = errors.New("shards: the counter cannot become once per user")
)

// Create makes the counter: it writes num_shards into the counter document and creates the shards
// "0" to numShards-1, each with the integer 0. It is for apps whose clients update shards that must
// exist, or learn the number of shards from the counter document. An app that only increments
// through this package needs it only for another number of shards than [DefaultNumShards].
//
// A counter that exists loses nothing: Create adds 0 to each shard, and the counter document keeps
// its other fields. Calling Create again with the same number is harmless, and finishes what a
// failed call left unfinished. If the counter document has another number, or one that grows by
// itself, Create writes nothing and returns an error that matches [ErrNumShards] ([Counter.Resize]
// changes the number). A counter of votes is refused with [ErrOncePerUser]. With [NumShards] there
// is no counter document to read or write; numShards must be the number given there.
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
	n, _, err := c.declared(tx)
	if err != nil {
		return err
	}

	fields := map[string]any{document.AutoShardsField: true}
	if n == 0 {
		fields[document.NumShardsField] = DefaultNumShards
	}
	return tx.Set(c.doc, fields, firestore.MergeAll)
}

// declared returns how many shards the counter document says there are, or 0, and whether they grow
// by themselves. It returns an error if the counter's shards are votes.
func (c *Counter) declared(tx *firestore.Transaction) (n int64, grows bool, err error) {
	docs, err := tx.GetAll([]*firestore.DocumentRef{c.doc})
	if err != nil {
		return 0, false, err
	}
	err = c.notVotes(docs[0])
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
	has, grows, err := c.declared(tx)
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

// CreateOncePerUser makes a counter of votes: it writes once_per_user: true into the counter
// document. Each user's vote is the shard whose id is the user's, and holds 1, or 0 once the vote
// is taken back:
//
//	counters/votes              once_per_user: true
//	counters/votes/shards/ann   count: 1
//
// Tally's firestore.rules let a user write that one document and no other, so the total is the
// number of users whose vote is 1. A vote that is sent twice counts once. A server votes for a user
// by a plain Set of the user's shard, and deletes the shard of an account that is gone.
// [Counter.Set] to 0 deletes all votes.
//
// If the counter has any shard, CreateOncePerUser returns an error that matches
// [ErrNotOncePerUser], because that shard is not a user's vote. It does the same for a counter with
// [NumShards], which has no counter document. If the counter is once per user already, it changes
// nothing. Calling again is harmless.
//
// The methods that would mix other amounts with the votes return an error that matches
// [ErrOncePerUser]. A Counter with [NumShards] does not know that. For up to a minute, a Counter
// that read the counter document before does not know it either.
//
// CreateOncePerUser bills two reads and one write.
func (c *Counter) CreateOncePerUser(ctx context.Context) error {
	if c.err != nil {
		return c.err
	}
	if c.fixed != 0 {
		return fmt.Errorf("%w: %s has a fixed number of shards, and so no counter document that could say it", ErrNotOncePerUser, c.doc.Path)
	}
	return c.failed("create once per user", c.transact(ctx, c.declareOncePerUser))
}

// declareOncePerUser has the counter document say that each user has one vote, if the counter has
// no shard yet.
func (c *Counter) declareOncePerUser(tx *firestore.Transaction) error {
	docs, err := tx.GetAll([]*firestore.DocumentRef{c.doc})
	if err != nil || isOncePerUser(docs[0]) {
		return err
	}

	counted, err := tx.Documents(c.shards.Select().Limit(1)).GetAll()
	if err != nil {
		return err
	}
	if len(counted) > 0 {
		return fmt.Errorf("%w: it has the shard %s, which is not a user's vote; delete the counter first, or take another name", ErrNotOncePerUser, counted[0].Ref.ID)
	}
	return tx.Set(c.doc, map[string]any{document.OncePerUserField: true}, firestore.MergeAll)
}

// isOncePerUser reports whether a counter document says that each user has one vote.
func isOncePerUser(doc *firestore.DocumentSnapshot) bool {
	return doc.Data()[document.OncePerUserField] == true
}

// notVotes returns ErrOncePerUser if the counter document says that each user has one vote.
func (c *Counter) notVotes(doc *firestore.DocumentSnapshot) error {
	if !isOncePerUser(doc) {
		return nil
	}
	return fmt.Errorf("%w: each shard of %s is the vote of the user whose id it has; set the shard to 0 or 1, or the counter to 0, which deletes all votes",
		ErrOncePerUser, c.doc.Path)
}

// Freeze closes the counter to clients: it writes frozen: true into the counter document, and
// creates that if it is missing. Tally's firestore.rules then refuse every client's write to the
// shards, increments and votes alike; an app's own rules must read the counter document. Totals
// stay readable. Rules do not bind servers: this package and the Admin SDKs go on writing.
//
// A client's write that is committed before Freeze returns may still be accepted, and counts. A
// write that a device kept while it was offline is refused when it is sent.
//
// If Freeze and [Counter.Unfreeze] are called at once, the last call to be committed decides. After
// an error the counter may be frozen or not. [Counter.Delete] opens the counter. Freeze returns an
// error for a counter with [NumShards], which has no counter document.
//
// Freeze bills one write.
func (c *Counter) Freeze(ctx context.Context) error {
	err := c.checkFreezable("freeze")
	if err != nil {
		return err
	}

	_, err = c.doc.Set(ctx, map[string]any{document.FrozenField: true}, firestore.MergeAll)
	return c.failed("freeze", err)
}

// Unfreeze opens the counter to clients again. It takes away what [Counter.Freeze] wrote. The
// counter document stays. A counter that is not frozen stays as it is. Unfreeze bills one write.
func (c *Counter) Unfreeze(ctx context.Context) error {
	err := c.checkFreezable("unfreeze")
	if err != nil {
		return err
	}

	_, err = c.doc.Update(ctx, []firestore.Update{{Path: document.FrozenField, Value: firestore.Delete}})
	if status.Code(err) == codes.NotFound {
		return nil // without a document it is open
	}
	return c.failed("unfreeze", err)
}

// checkFreezable returns an error if the counter has no document that could say that it is frozen.
func (c *Counter) checkFreezable(operation string) error {
	if c.err == nil && c.fixed != 0 {
		return c.failed(operation, errors.New("the counter has a fixed number of shards, and so no counter document that could say it"))
	}
	return c.err
}
