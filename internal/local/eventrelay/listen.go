package eventrelay

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Listen turns the changes to a collection group into events: the source to use with a Firestore
// emulator that somebody else started and that posts none.
//
// It calls deliver (such as [Relay.Deliver]) with one event after another: a create for each
// document that is there when it starts, or is added or modified later, and a delete for each that
// is removed. Of the document's fields the events hold those that groups returns for its path, as
// far as they are strings; when a modification changes one of them, a delete of the document as it
// was comes first. Writes that follow each other closely may make one event, and one that is undone
// at once may make none, so these events say that something changed and no more: a document that
// was in a group for that short a time concerns that group no more.
//
// To know what a document was, the SDK keeps a copy of each one of the collection group in memory.
//
// It calls listening once, after the documents that are there when it starts. Wait for that before
// the first write: Google's emulator tells a listener nothing of a commit that falls into its
// beginning (seen in 7 of 2,400 tries).
//
// When the connection breaks, the SDK opens another after a pause of 1 to 60 s and finds what
// changed meanwhile; so an emulator that is down is waited for. An emulator that was restarted has
// forgotten its documents: only later writes are reported.
//
// Listen always returns an error: the context's when that ends, Firestore's when it refuses the
// listener for good, or deliver's.
func Listen(
	ctx context.Context, client *firestore.Client, collectionID string, groups func(path string) []document.Field,
	listening func(), deliver func(Event) error,
) error {
	snapshots := client.CollectionGroup(collectionID).Snapshots(ctx)
	defer snapshots.Stop()
	for first := true; ; first = false {
		snapshot, err := snapshots.Next()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("eventrelay: listening to collection group %q: %w", collectionID, err)
		}
		for _, change := range snapshot.Changes {
			if err := deliverChange(change, snapshot.ReadTime, groups, deliver); err != nil {
				return err
			}
		}
		if first {
			listening()
		}
	}
}

// deliverChange delivers the events of a change that was read at a time.
func deliverChange(change firestore.DocumentChange, at time.Time, groups func(path string) []document.Field, deliver func(Event) error) error {
	_, path, _ := strings.Cut(change.Doc.Ref.Path, "/documents/")
	fields := groups(path)
	var before, after *firestoredata.Document
	if change.OldDoc != nil {
		before = documentOf(change.OldDoc, fields)
	}
	if change.Kind != firestore.DocumentRemoved {
		after = documentOf(change.Doc, fields)
		at = change.Doc.UpdateTime
	}

	// An update would say that whatever it does not hold is as before.
	moved := after != nil && !proto.Equal(&firestoredata.Document{Fields: before.GetFields()}, &firestoredata.Document{Fields: after.GetFields()})
	if before != nil && (after == nil || moved) {
		if err := deliverEvent(at, before, nil, deliver); err != nil {
			return err
		}
	}
	if after == nil {
		return nil
	}
	return deliverEvent(at, nil, after, deliver)
}

func deliverEvent(at time.Time, before, after *firestoredata.Document, deliver func(Event) error) error {
	e, err := NewEvent(rand.Text(), at, before, after)
	if err != nil {
		return err
	}
	return deliver(e)
}

// documentOf returns a document with those of the fields that are strings.
func documentOf(d *firestore.DocumentSnapshot, fields []document.Field) *firestoredata.Document {
	held := make(map[string]*firestoredata.Value)
	for _, f := range fields {
		v, _ := f.In(d.Data())
		if text, ok := v.(string); ok {
			put(held, f.Names(), text)
		}
	}
	return &firestoredata.Document{
		Name:       d.Ref.Path,
		Fields:     held,
		CreateTime: timestamppb.New(d.CreateTime),
		UpdateTime: timestamppb.New(d.UpdateTime),
	}
}

// put sets the field of these names, in maps within each other.
func put(fields map[string]*firestoredata.Value, names []string, text string) {
	for ; len(names) > 1; names = names[1:] {
		if fields[names[0]] == nil {
			m := &firestoredata.MapValue{Fields: make(map[string]*firestoredata.Value)}
			fields[names[0]] = &firestoredata.Value{ValueType: &firestoredata.Value_MapValue{MapValue: m}}
		}
		fields = fields[names[0]].GetMapValue().GetFields()
	}
	fields[names[0]] = &firestoredata.Value{ValueType: &firestoredata.Value_StringValue{StringValue: text}}
}
