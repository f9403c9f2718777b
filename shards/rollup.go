package shards

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/value"
)

// ErrNoRollUp is returned by [Counter.RollUp] when there is no roll-up document, or Tally has not
// written it: nothing was counted yet, the counter is gone, or no route of Tally serves it.
var ErrNoRollUp = errors.New("shards: no roll-up")

// A RollUp is the content of a counter's roll-up document.
type RollUp struct {
	// Total is what the documents added up to at AsOf. It is the sum of a counter's shards, or
	// another total.
	Total Total

	// NumShards is how many documents were counted at AsOf. 0 means that there was no counter then.
	// It need not be the number of shards that the counter document says: shards that were never
	// created are not counted, but documents of other sources of the same roll-up are.
	NumShards int

	// AsOf says how old Total is. Every write of a shard that was committed at or before AsOf is in
	// Total, and none after it. AsOf is a time of Firestore's own clock, to the microsecond. It can
	// be compared with the commit times that [Counter.Increment] returns.
	AsOf time.Time

	// ReadTime is when Firestore read the document, by the same clock. ReadTime less AsOf is how
	// old Total was then.
	ReadTime time.Time
}

// RollUp reads the counter's roll-up document, which Tally's functions keep about one second behind
// the shards (their cadence). It costs one read, whatever the number of shards.
//
// If there is no such document, or it lacks the map "tally", the error matches [ErrNoRollUp].
// RollUp also returns an error if the map does not name the total, because its as_of says nothing
// about such a total. It returns one if the total or the as_of has another type, and if it does not
// know the roll-up, because [New] got no [RollUpAt].
func (c *Counter) RollUp(ctx context.Context) (RollUp, error) {
	err := c.rollUpKnown()
	if err != nil {
		return RollUp{}, err
	}

	docs, err := c.client.GetAll(ctx, []*firestore.DocumentRef{c.rollUp})
	if err != nil {
		return RollUp{}, fmt.Errorf("shards: read roll-up %s: %w", c.rollUp.Path, err)
	}
	return RollUpIn(docs[0], c.field)
}

// rollUpKnown returns an error if the counter's roll-up document is not known.
func (c *Counter) rollUpKnown() error {
	if c.err == nil && c.rollUp == nil {
		return fmt.Errorf("shards: no roll-up is known for %s: use RollUpAt", c.doc.Path)
	}
	return c.err
}

// RollUpIn returns what a roll-up document says of the total of that name. It is for programs that
// read many roll-ups at once, query them, or have no counter of shards. A shop's revenue is an
// example. Its errors are those of [Counter.RollUp].
func RollUpIn(doc *firestore.DocumentSnapshot, field string) (RollUp, error) {
	if !doc.Exists() {
		return RollUp{}, fmt.Errorf("%w: %s", ErrNoRollUp, doc.Ref.Path)
	}
	fields := doc.Data()
	if fields[document.TallyField] == nil {
		return RollUp{}, fmt.Errorf("%w: %s has no field %q", ErrNoRollUp, doc.Ref.Path, document.TallyField)
	}

	tally := document.DecodeTally(fields[document.TallyField])
	held, there := fields[field]
	total, ok := value.Of(held)
	switch {
	case !tally.Covers(field):
		return RollUp{}, fmt.Errorf("shards: roll-up %s holds the totals %q, not %q", doc.Ref.Path, tally.Totals, field)
	case tally.AsOf.IsZero():
		return RollUp{}, fmt.Errorf("shards: roll-up %s: as_of of its %s is not a timestamp", doc.Ref.Path, document.TallyField)
	case !there:
		return RollUp{}, fmt.Errorf("shards: roll-up %s has no field %q", doc.Ref.Path, field)
	case !ok:
		return RollUp{}, fmt.Errorf("shards: roll-up %s: field %q is %#v, want a number, a timestamp or null", doc.Ref.Path, field, held)
	}
	return RollUp{Total: total, NumShards: int(tally.NumShards), AsOf: tally.AsOf, ReadTime: doc.ReadTime}, nil
}

// RollUps listens to the counter's roll-up document. It yields what the document says, at once and
// whenever it changes, until ctx ends or the caller stops. It costs one read for each version. If
// versions come faster than the caller takes them, some may be left out.
//
// While there is no roll-up document, it yields an error that matches [ErrNoRollUp], and goes on.
// If one version of the document is wrong, it yields an error as [Counter.RollUp] would return, and
// goes on. Any other error, such as the end of ctx, comes last. The SDK connects again by itself
// when the connection breaks.
func (c *Counter) RollUps(ctx context.Context) iter.Seq2[RollUp, error] {
	return func(yield func(RollUp, error) bool) {
		err := c.rollUpKnown()
		if err != nil {
			yield(RollUp{}, err)
			return
		}

		versions := c.rollUp.Snapshots(ctx)
		defer versions.Stop()
		for {
			doc, err := versions.Next()
			if err != nil {
				yield(RollUp{}, fmt.Errorf("shards: listen to roll-up %s: %w", c.rollUp.Path, errors.Join(err, ctx.Err())))
				return
			}

			more := yield(RollUpIn(doc, c.field))
			if !more {
				return
			}
		}
	}
}

// RollUpAfter waits for a roll-up that has every write committed up to an instant, such as the one
// that [Counter.Increment] returned, and returns the roll-up. It costs one read for each version of
// the document that it sees.
//
// No such roll-up may ever come, for example because no route of Tally serves the counter. So give
// ctx a deadline. When ctx ends, the error matches the error of ctx, and says what the last version
// of the document lacked.
func (c *Counter) RollUpAfter(ctx context.Context, committed time.Time) (RollUp, error) {
	return firstAfter(c.RollUps(ctx), committed)
}

// firstAfter returns the first version that is as of an instant or later. If the versions end
// before one comes, it returns their last error, and before that the error that tells why the
// version before was passed over.
func firstAfter(versions iter.Seq2[RollUp, error], committed time.Time) (RollUp, error) {
	var passed, last error
	for r, err := range versions {
		if err == nil && !r.AsOf.Before(committed) {
			return r, nil
		}

		passed, last = last, err
		if err == nil {
			last = fmt.Errorf("shards: the roll-up is as of %v, and does not have the writes up to %v yet", r.AsOf, committed)
		}
	}
	return RollUp{}, errors.Join(last, passed)
}
