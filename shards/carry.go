package shards

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/value"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Fields of a carried document, beside field and amount.
const (
	fieldDocument = "document" // text: the path of the document that the amount is from
	fieldFrom     = "from"     // text: its field
)

// A Carrying is the result of [Counter.Carry].
type Carrying struct {
	// Amount is how much of the counter's total was carried over from the document, by this call
	// and all before: what its field holds.
	Amount Total

	// Added is by how much this call changed the counter's total. It is 0 if nothing was left to
	// carry. It is also 0 if a commit of this call was applied and the answer to it was lost.
	Added Total
}

// Carry adds to the counter what a top-level field of a document holds, beyond what was carried
// from it before: a total that something else counted until now, a trigger or Firebase's
// firestore-counter extension, while clients already increment the shards. It adds each change of
// the field once, however often it is called. So at any time
//
//	total = what was incremented + Amount
//
// and calling it once more, after whatever counted in the document has ended for certain, leaves
// nothing behind. To be done with the field, delete it: a field set to 0 is carried too. Even after
// [Counter.Set], its kin and [Counter.Delete], which undo what was carried before, Carry adds only
// what the field has changed by since.
//
// A document or a field that is missing, or is no number, is an error, and so is an amount that is
// not finite or beyond ±2^62 ([ErrOutOfRange]), and a counter of votes ([ErrOncePerUser]); nothing
// is changed then.
//
// The shard's increment and the note of what was carried are one commit, on the condition that the
// note is as it was read. After any error calling again is safe. Concurrent calls add once. The
// note has no expiry:
//
//	counters/visitors/increment_tokens/carried-…   field: "count"   document: "pages/hello"   from: "visits"   amount: 1234
//
// Delete leaves it. Without it Carry adds everything again: delete it to carry everything to a
// counter that was made anew.
//
// Carry bills two reads, and two writes if there is something to add.
func (c *Counter) Carry(ctx context.Context, doc *firestore.DocumentRef, field string) (Carrying, error) {
	if doc == nil {
		return Carrying{}, fmt.Errorf("shards: nil document for field %q", field)
	}
	shard, err := c.anyShard(ctx)
	if err != nil {
		return Carrying{}, err
	}

	for attempt := 1; ; attempt++ {
		carried, refused, err := c.carry(ctx, doc, field, shard)
		if err != nil || refused == nil {
			return carried, err
		}

		// If the note exists, another call was faster, or the answer to this one was lost.
		hopeless := definite(refused) && status.Code(refused) != codes.AlreadyExists
		if hopeless || attempt == carryAttempts || ctx.Err() != nil {
			return Carrying{}, c.failed("carry to", refused)
		}
	}
}

// CarriedNote returns the document in which Carry notes what it carried from a document's field. It
// is for programs that look at many notes at once. It returns nil if New was given what no counter
// can have.
func (c *Counter) CarriedNote(doc *firestore.DocumentRef, field string) *firestore.DocumentRef {
	if c.err != nil {
		return nil
	}
	sum := sha256.Sum256([]byte(c.field + "\x00" + doc.Path + "\x00" + field))
	return c.tokens.Doc("carried-" + hex.EncodeToString(sum[:10]))
}

// carryAttempts is how often Carry tries. If another call was faster, the next attempt carries what
// that call left.
const carryAttempts = 10

// carry carries what there is to carry to the shard. refused is the commit's error. If another call
// carries meanwhile, the condition on the note refuses the commit.
func (c *Counter) carry(ctx context.Context, doc *firestore.DocumentRef, field string, shard *firestore.DocumentRef) (carried Carrying, refused, err error) {
	docs, err := c.client.GetAll(ctx, []*firestore.DocumentRef{doc, c.CarriedNote(doc, field)})
	if err != nil {
		return Carrying{}, nil, fmt.Errorf("shards: carry from %s: %w", doc.Path, err)
	}
	amount, err := numberOf(docs[0], field)
	if err != nil {
		return Carrying{}, nil, err
	}

	note := docs[1]
	var before Total // 0 without a note
	if note.Exists() {
		before, err = numberOf(note, fieldAmount)
		if err != nil {
			return Carrying{}, nil, err
		}
	}
	added, err := beyond(amount, before)
	if err != nil {
		return Carrying{}, nil, fmt.Errorf("%w: field %q of %s is %v, of which %v were carried", err, field, doc.Path, amount, before)
	}

	carried = Carrying{Amount: amount, Added: added}
	if added.Float64() == 0 {
		return carried, nil, nil
	}
	refused = c.transact(ctx, func(tx *firestore.Transaction) error {
		err := c.note(tx, note, amount, doc, field)
		return errors.Join(err, c.add(tx, addition{shard, added}))
	}, firestore.MaxAttempts(1))
	return carried, refused, nil
}

// note notes in a transaction that an amount was carried from a document's field. The commit is
// refused unless the note is as it was read.
func (c *Counter) note(tx *firestore.Transaction, note *firestore.DocumentSnapshot, amount Total, doc *firestore.DocumentRef, field string) error {
	if !note.Exists() {
		return tx.Create(note.Ref, map[string]any{
			fieldField: c.field, fieldAmount: amount.Firestore(), fieldDocument: doc.Path, fieldFrom: field,
		})
	}
	update := []firestore.Update{{Path: fieldAmount, Value: amount.Firestore()}}
	return tx.Update(note.Ref, update, firestore.LastUpdateTime(note.UpdateTime))
}

// beyond returns amount less before. It returns ErrOutOfRange if a shard cannot be incremented by
// that without losing something.
func beyond(amount, before Total) (Total, error) {
	if before == smallest {
		return Total{}, ErrOutOfRange
	}
	return plus(amount, value.Negative(before))
}
