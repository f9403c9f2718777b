package shards

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cloud.google.com/go/firestore"
)

// ErrNoRollUp is returned by [Counter.RollUp] when there is no roll-up document:
// nothing was counted yet, the counter is gone, or no route of Tally serves it.
var ErrNoRollUp = errors.New("shards: no roll-up document")

// fieldAsOf is the roll-up document's field of that name.
const fieldAsOf = "as_of"

// A RollUp is what a counter's roll-up document says.
type RollUp struct {
	// Total is the sum of the shards at AsOf.
	Total Total

	// NumShards is how many shards Total adds up. 0 means that there was no counter
	// at AsOf. It is not the number of shards that the counter document declares:
	// shards that were never created are not in it.
	NumShards int

	// AsOf says how old Total is: every shard write committed at or before AsOf is
	// in it, and none after. It is a time of Firestore's own clock, to the
	// microsecond, comparable with the commit times that [Counter.Increment] returns.
	AsOf time.Time

	// ReadTime is when Firestore read the document, by the same clock: ReadTime less
	// AsOf is how old Total was then.
	ReadTime time.Time
}

// RollUp reads the counter's roll-up document, which Tally's functions keep about one
// second behind the shards (their cadence). It bills one read, whatever the number of
// shards.
//
// If there is no such document it returns an error that matches [ErrNoRollUp]. A
// document that lacks a field, or has it in another type, was not written by Tally for
// this counter and is reported by any other error; so is a counter whose roll-up is
// unknown because New was not told by [RollUpAt].
//
// RollUp changes nothing, so the SDK's retries and the caller's are harmless.
func (c *Counter) RollUp(ctx context.Context) (RollUp, error) {
	if err := c.rollUpKnown(); err != nil {
		return RollUp{}, err
	}
	docs, err := c.client.GetAll(ctx, []*firestore.DocumentRef{c.rollUp})
	if err != nil {
		return RollUp{}, fmt.Errorf("shards: read roll-up %s: %w", c.rollUp.Path, err)
	}
	return RollUpIn(docs[0], c.field)
}

// rollUpKnown reports whether the counter has a roll-up document to read.
func (c *Counter) rollUpKnown() error {
	if c.err == nil && c.rollUp == nil {
		return fmt.Errorf("shards: no roll-up is known for %s: use RollUpAt", c.doc.Path)
	}
	return c.err
}

// RollUpIn returns what a roll-up document says of the field of that name, for programs
// that read many of them at once, or query them. Its errors are those of [Counter.RollUp].
func RollUpIn(doc *firestore.DocumentSnapshot, field string) (RollUp, error) {
	if !doc.Exists() {
		return RollUp{}, fmt.Errorf("%w: %s", ErrNoRollUp, doc.Ref.Path)
	}

	value := func(field string) any {
		v, _ := doc.DataAtPath(firestore.FieldPath{field}) // nil if there is none
		return v
	}
	mistyped := func(field, want string) (RollUp, error) {
		return RollUp{}, fmt.Errorf("shards: roll-up %s: field %q is %#v, want %s", doc.Ref.Path, field, value(field), want)
	}
	total, ok := totalOf(value(field))
	if !ok {
		return mistyped(field, "a number")
	}
	numShards, ok := value(fieldNumShards).(int64)
	if !ok {
		return mistyped(fieldNumShards, "an integer")
	}
	asOf, ok := value(fieldAsOf).(time.Time)
	if !ok {
		return mistyped(fieldAsOf, "a timestamp")
	}
	return RollUp{Total: total, NumShards: int(numShards), AsOf: asOf, ReadTime: doc.ReadTime}, nil
}
