package eventrelay

import (
	"context"
	"crypto/rand"
	"fmt"
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
// is removed. The events hold few of the document's fields: those that keys returns for its path,
// if they are of a kind that a key uses. If a modification changes one of these, a delete of the
// document as it was comes first.
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
// create. It delivers no updates: in an update, functions take each field that is missing for one
// that has not changed, and these events hold few fields.
func deliverChange(change firestore.DocumentChange, at time.Time, keys func(path string) []document.Field, deliver func(Event) error) error {
	_, path, _ := strings.Cut(change.Doc.Ref.Path, "/documents/")
	fields := keys(path)
	var before, after *firestoredata.Document
	if change.OldDoc != nil {
		before = documentOf(change.OldDoc, fields)
	}
	if change.Kind != firestore.DocumentRemoved {
		after = documentOf(change.Doc, fields)
		at = change.Doc.UpdateTime
	}

	removed := after == nil
	if before != nil && (removed || !sameFields(before, after)) {
		err := deliverEvent(at, before, nil, deliver)
		if err != nil {
			return err
		}
	}
	if removed {
		return nil
	}
	return deliverEvent(at, nil, after, deliver)
}

// sameFields reports whether two documents hold the same fields.
func sameFields(a, b *firestoredata.Document) bool {
	return proto.Equal(&firestoredata.Document{Fields: a.GetFields()}, &firestoredata.Document{Fields: b.GetFields()})
}

// deliverEvent delivers the event of a write.
func deliverEvent(at time.Time, before, after *firestoredata.Document, deliver func(Event) error) error {
	e, err := NewEvent(rand.Text(), at, before, after)
	if err != nil {
		return err
	}
	return deliver(e)
}

// documentOf returns a document with those of the fields that a key of a route may use.
func documentOf(d *firestore.DocumentSnapshot, fields []document.Field) *firestoredata.Document {
	held := make(map[string]*firestoredata.Value)
	for _, f := range fields {
		v, _ := f.In(d.Data())
		value := valueOf(v)
		if value != nil {
			put(held, f.Names(), value)
		}
	}

	return &firestoredata.Document{
		Name:       d.Ref.Path,
		Fields:     held,
		CreateTime: timestamppb.New(d.CreateTime),
		UpdateTime: timestamppb.New(d.UpdateTime),
	}
}

// valueOf returns a value that the SDK has decoded. It returns nil for kinds that no key uses.
func valueOf(v any) *firestoredata.Value {
	switch v := v.(type) {
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
	default:
		return nil
	}
}

// put sets the field that the last of the names names, in maps that the others name.
func put(fields map[string]*firestoredata.Value, names []string, value *firestoredata.Value) {
	last := len(names) - 1
	for _, name := range names[:last] {
		if fields[name] == nil {
			m := &firestoredata.MapValue{Fields: make(map[string]*firestoredata.Value)}
			fields[name] = &firestoredata.Value{ValueType: &firestoredata.Value_MapValue{MapValue: m}}
		}
		fields = fields[name].GetMapValue().GetFields()
	}
	fields[names[last]] = value
}
