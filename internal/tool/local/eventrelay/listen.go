package eventrelay

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Listen makes events from the changes to a collection group: all collections of one id, wherever
// they are. It is for an emulator that somebody else started and that posts no events here.
//
// It calls deliver (such as [Relay.Deliver]) with one event after another: a create for each
// document that is there when it starts, or is added or modified later, and a delete for each that
// is removed. If a modification changes one of the fields that keys returns for its path, a delete
// of the document as it was comes first. Arrays, bytes and points are empty arrays in the events.
//
// A listener sees states, not writes. Writes that follow each other closely may make one event, and
// a write that is undone at once may make none. A group to which a document belonged for so short a
// time may get no event either.
//
// To know what a document was, the SDK keeps a copy of each document of the collection group in
// memory.
//
// Listen calls listening once, after the documents that are there when it starts. Wait for that
// before the first write: Google's emulator does not tell a new listener of a commit that falls
// into its beginning (seen in 7 of 2,400 tries).
//
// When the connection breaks, the SDK opens another after a pause of 1 to 60 s and finds what
// changed meanwhile. So Listen waits for an emulator that is down. An emulator that was restarted
// has forgotten its documents; Listen then reports only later writes.
//
// Listen always returns an error: the context's when that ends, Firestore's when it refuses the
// listener for good, or deliver's.
func Listen(
	ctx context.Context, client *firestore.Client, collectionID string, keys func(path string) []document.Field,
	listening func(), deliver func(Event) error,
) error {
	snapshots := client.CollectionGroup(collectionID).Snapshots(ctx)
	defer snapshots.Stop()

	announce := sync.OnceFunc(listening)
	for {
		snapshot, err := snapshots.Next()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("eventrelay: listening to collection group %q: %w", collectionID, err)
		}

		for _, change := range snapshot.Changes {
			err := deliverChange(change, snapshot.ReadTime, keys, deliver)
			if err != nil {
				return err
			}
		}
		announce()
	}
}

// deliverChange delivers the events of a change that was read at a time: at most a delete and a
// create. It delivers no updates: a listener does not see what was written between two states.
func deliverChange(change firestore.DocumentChange, at time.Time, keys func(path string) []document.Field, deliver func(Event) error) error {
	_, path, _ := strings.Cut(change.Doc.Ref.Path, "/documents/")
	removed := change.Kind == firestore.DocumentRemoved
	if !removed {
		at = change.Doc.UpdateTime
	}

	if change.OldDoc != nil && (removed || !sameFields(change.OldDoc, change.Doc, keys(path))) {
		err := deliverEvent(at, documentOf(change.OldDoc), nil, deliver)
		if err != nil {
			return err
		}
	}
	if removed {
		return nil
	}
	return deliverEvent(at, nil, documentOf(change.Doc), deliver)
}

// sameFields reports whether two documents hold the same in the fields.
func sameFields(a, b *firestore.DocumentSnapshot, fields []document.Field) bool {
	return !slices.ContainsFunc(fields, func(f document.Field) bool {
		inA, _ := f.In(a.Data())
		inB, _ := f.In(b.Data())
		return !proto.Equal(valueOf(inA), valueOf(inB))
	})
}

// deliverEvent delivers the event of a write.
func deliverEvent(at time.Time, before, after *firestoredata.Document, deliver func(Event) error) error {
	e, err := NewEvent(rand.Text(), at, before, after)
	if err != nil {
		return err
	}
	return deliver(e)
}

// documentOf returns a document as events hold it.
func documentOf(d *firestore.DocumentSnapshot) *firestoredata.Document {
	return &firestoredata.Document{
		Name:       d.Ref.Path,
		Fields:     fieldsOf(d.Data()),
		CreateTime: timestamppb.New(d.CreateTime),
		UpdateTime: timestamppb.New(d.UpdateTime),
	}
}

// fieldsOf returns the fields of a document or map that the SDK has decoded.
func fieldsOf(decoded map[string]any) map[string]*firestoredata.Value {
	fields := make(map[string]*firestoredata.Value, len(decoded))
	for name, v := range decoded {
		fields[name] = valueOf(v)
	}
	return fields
}

// valueOf returns a value that the SDK has decoded. Routes read nothing of the kinds that are empty
// arrays here.
func valueOf(v any) *firestoredata.Value {
	switch v := v.(type) {
	case nil:
		return &firestoredata.Value{ValueType: &firestoredata.Value_NullValue{}}
	case bool:
		return &firestoredata.Value{ValueType: &firestoredata.Value_BooleanValue{BooleanValue: v}}
	case string:
		return &firestoredata.Value{ValueType: &firestoredata.Value_StringValue{StringValue: v}}
	case int64:
		return &firestoredata.Value{ValueType: &firestoredata.Value_IntegerValue{IntegerValue: v}}
	case float64:
		return &firestoredata.Value{ValueType: &firestoredata.Value_DoubleValue{DoubleValue: v}}
	case time.Time:
		return &firestoredata.Value{ValueType: &firestoredata.Value_TimestampValue{TimestampValue: timestamppb.New(v)}}
	case *firestore.DocumentRef:
		return &firestoredata.Value{ValueType: &firestoredata.Value_ReferenceValue{ReferenceValue: v.Path}}
	case map[string]any:
		return &firestoredata.Value{ValueType: &firestoredata.Value_MapValue{MapValue: &firestoredata.MapValue{Fields: fieldsOf(v)}}}
	default:
		return &firestoredata.Value{ValueType: &firestoredata.Value_ArrayValue{ArrayValue: new(firestoredata.ArrayValue)}}
	}
}
