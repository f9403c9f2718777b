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

// These fields are in the note of a carried document, in addition to field and amount.
const (
	fieldDocument = "document" // text: the path of the document that the amount is from
	fieldFrom     = "from"     // text: its field
)

// A Carrying is the result of [Counter.Carry].
type Carrying struct {
	// Amount is how much of the counter's total was carried over from the document, by this call
	// and all before it. It is what the document's field holds.
	Amount Total

	// Added is how much this call changed the counter's total. It is 0 if nothing was left to
	// carry. It is also 0 if this call added something, but the answer to its commit was lost.
	Added Total
}

// Carry adds to the counter what a top-level field of a document holds, less what was carried from
// it before. It is for a total that something else has counted until now, such as a trigger or
// Firebase's firestore-counter extension. Clients may already increment the shards. Carry adds each
// change of the field once, however often it is called. So at any time
//
//	total = what was incremented + Amount
//
// When the other counting has ended for certain, call Carry once more, and nothing is left behind.
// Then delete the field. Do not set it to 0: Carry would take that change for a decrease of the
// total. [Counter.Set], [Counter.SetFloat], [Counter.Import] and [Counter.Delete] undo what was
// carried before. Even after them, Carry adds only what the field has changed by since.
//
// Carry returns an error, and changes nothing, if the document or the field is missing, or if the
// field is not a number. If the amount to add is not finite or beyond ±2^62, the error matches
// [ErrOutOfRange].
//
// The shard's increment and the note of what was carried are one commit. Firestore refuses it
// unless the note is still as it was read. So calling again is safe after any error, and concurrent
// calls add once. The note does not expire:
//
//	counters/visitors/increment_tokens/carried-…   field: "count"   document: "pages/hello"   from: "visits"   amount: 1234
//
// [Counter.Delete] leaves the note. If you create the counter again and want to carry everything to
// it, delete the note: without it, Carry adds everything again.
//
// Carry bills two reads, and two writes if there is something to add. Like [Counter.Increment], it
// may also read the number of shards.
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
// is for programs that look at many notes at once. It returns nil if the arguments of [New] were
// wrong.
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

// carry carries to the shard what there is to carry. refused is the error of the commit. If another
// call carries meanwhile, Firestore refuses the commit, because the note has changed.
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

// note writes, in a transaction, that an amount was carried from a document's field. Firestore
// refuses the commit unless the note is still as it was read.
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
// so much without losing something.
func beyond(amount, before Total) (Total, error) {
	if before == smallest {
		return Total{}, ErrOutOfRange
	}
	return plus(amount, value.Negative(before))
}
