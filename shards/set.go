package shards

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/value"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ErrOutOfRange is returned by [Counter.Set], [Counter.SetFloat], [Counter.Import] and
// [Counter.Carry] when increments cannot bring the counter to the wanted total without losing
// something. Nothing was changed.
var ErrOutOfRange = errors.New("shards: out of range")

// A Replacement is the result of [Counter.Set], [Counter.SetFloat] and [Counter.Import]. At AsOf
// the counter's total was Was. Now replaces that: it stands for every increment that was committed
// at or before AsOf, and every later one is added to it.
type Replacement struct {
	Was  Total
	Now  Total
	AsOf time.Time // of Firestore's own clock, to the microsecond
}

// Set gives the counter another total, while clients go on incrementing. It reads all shards in one
// snapshot, adds to each shard the amount that brings it to 0, and adds total to one of them. An
// increment that lands meanwhile counts on top of total, as the [Replacement] says.
//
// If up to 498 shards are not 0, one commit changes the counter. A snapshot then shows the old
// total or the new one, and so does the roll-up. If there are more, each 499 shards take a commit,
// and snapshots show other totals until the last.
//
// Each commit creates a token document like those of [Counter.IncrementOnce], with a random id. So
// it is applied at most once, and Set sends it again if the answer is lost. If Set returns an error
// all the same, for example because ctx has ended, some of the commits may have been applied. Then
// call again: that takes a new snapshot, whose time is the new AsOf. Concurrent calls with
// different totals leave a total that is neither of them. Call again once they are done.
//
// [ErrOutOfRange] says that nothing was sent, because something could be lost. A total beyond ±2^62
// leaves increments too little room in an int64. No increment can bring a shard to 0 that holds the
// smallest int64, NaN or infinity. It must be overwritten or deleted. A field that is not a number
// counts as 0.
//
// A shard that holds a double is a double 0 afterward, and so the counter's total is a double.
// Doubles are rounded: a shard that is incremented meanwhile may be off in the last digits.
//
// Set costs one read per shard and one more. It costs one write per shard that is not 0, one for
// total, and one for each commit's token. When a token expires, that costs a delete.
func (c *Counter) Set(ctx context.Context, total int64) (Replacement, error) {
	return c.set(ctx, value.Int(total))
}

// SetFloat is [Counter.Set] to a double. NaN and infinite totals are refused with [ErrOutOfRange].
func (c *Counter) SetFloat(ctx context.Context, total float64) (Replacement, error) {
	return c.set(ctx, value.Double(total))
}

func (c *Counter) set(ctx context.Context, total Total) (Replacement, error) {
	constant := Source{func(context.Context, *firestore.Transaction) (Total, error) { return total, nil }}
	return c.replace(ctx, constant)
}

// Import is [Counter.Set] to the source's number. It is for an app that counted in another way
// before it had a distributed counter.
//
// Import reads the source in the same snapshot as the shards. So if clients already write the
// source's documents and the shards in one transaction or batch, counter and source agree from then
// on. If clients write them one after the other, an increment that is under way at AsOf may be
// counted in neither or in both: stop the clients, or [Counter.Verify] and import again at a quiet
// time. Importing again is harmless, because it replaces and never adds.
//
// Import calls each check once, after the snapshot and before it writes anything, with what it is
// about to do. If a check returns an error, Import changes nothing and returns that error.
func (c *Counter) Import(ctx context.Context, source Source, checks ...func(Replacement) error) (Replacement, error) {
	return c.replace(ctx, source, checks...)
}

// A replacing is a replacement that is about to be made.
type replacing struct {
	Replacement
	additions []addition // that bring the shards to the new total
}

// replace gives the counter the total that the source says, if the checks return no error.
func (c *Counter) replace(ctx context.Context, source Source, checks ...func(Replacement) error) (Replacement, error) {
	var r replacing
	err := c.snapshot(ctx, func(ctx context.Context, tx *firestore.Transaction, doc *firestore.DocumentSnapshot) (err error) {
		r, err = c.prepare(ctx, tx, doc, source)
		return err
	})
	if err != nil {
		return Replacement{}, err
	}

	for _, check := range checks {
		err := check(r.Replacement)
		if err != nil {
			return Replacement{}, err
		}
	}

	err = inCommits(c, 0, r.additions, func(some []addition) error {
		_, err := c.commitOnce(ctx, c.tokens.Doc("set-"+rand.Text()), map[string]any{}, some...)
		if status.Code(err) == codes.AlreadyExists {
			return nil // an earlier sending was applied
		}
		return err
	})
	if err != nil {
		return Replacement{}, c.failed("replace the total of", err)
	}
	return r.Replacement, nil
}

// prepare reads in a snapshot what replace needs, and returns what it is about to do. doc is the
// counter document.
func (c *Counter) prepare(ctx context.Context, tx *firestore.Transaction, doc *firestore.DocumentSnapshot, source Source) (replacing, error) {
	now, err := source.read(ctx, tx)
	if err != nil {
		return replacing{}, err
	}
	docs, err := tx.Documents(c.shards.SelectPaths(firestore.FieldPath{c.field})).GetAll()
	if err != nil {
		return replacing{}, fmt.Errorf("shards: read %s: %w", c.shards.Path, err)
	}

	r := replacing{Replacement: Replacement{Now: now, AsOf: readTime(doc)}}
	r.Was, r.additions, err = c.additionsTo(now, docs)
	return r, err
}

// additionsTo returns the sum of the shards, and the additions that bring it to total. They bring
// each shard to 0, and add total to the first shard that holds a number. If none does, they add it
// to shard 0.
func (c *Counter) additionsTo(total Total, shards []*firestore.DocumentSnapshot) (was Total, additions []addition, err error) {
	_, err = plus(total, Total{})
	if err != nil {
		return Total{}, nil, fmt.Errorf("%w: %s cannot be set to %v", err, c.doc.Path, total)
	}

	var first *firestore.DocumentRef
	for _, shard := range shards {
		held, isNumber := value.Number(shard.Data()[c.field])
		if !isNumber {
			continue
		}
		if !held.Finite() || held == smallest {
			return Total{}, nil, fmt.Errorf("%w: field %q of shard %s is %v, which no increment brings to 0", ErrOutOfRange, c.field, shard.Ref.Path, held)
		}

		was = value.Plus(was, held)
		first = cmp.Or(first, shard.Ref)
		if held.Float64() != 0 {
			additions = append(additions, addition{shard.Ref, value.Negative(held)})
		}
	}

	if total.Float64() != 0 {
		additions = append(additions, addition{cmp.Or(first, c.shard(0)), total})
	}
	return was, additions, nil
}
