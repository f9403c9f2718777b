package eventrelay

import (
	"context"
	"crypto/rand"
	"fmt"

	"cloud.google.com/go/firestore"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Listen turns the changes to a collection group into events: the source to use with a Firestore
// emulator that somebody else started and that posts none.
//
// It calls deliver (such as [Relay.Deliver]) with one event after another: a create for each
// document that is there when it starts, or is added or modified later, and a delete for each that
// is removed. The events name the document and its times but leave its fields out. Writes that
// follow each other closely may make one event, and one that is undone at once may make none, so
// these events say that something changed and no more.
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
func Listen(ctx context.Context, client *firestore.Client, collectionID string, listening func(), deliver func(Event) error) error {
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
			var before, after *firestoredata.Document
			at := snapshot.ReadTime
			if change.Kind == firestore.DocumentRemoved {
				before = document(change.OldDoc)
			} else { // without fields an old document would say that nothing changed
				after = document(change.Doc)
				at = change.Doc.UpdateTime
			}
			e, err := NewEvent(rand.Text(), at, before, after)
			if err != nil {
				return err
			}
			if err := deliver(e); err != nil {
				return err
			}
		}
		if first {
			listening()
		}
	}
}

// document returns a document without its fields.
func document(d *firestore.DocumentSnapshot) *firestoredata.Document {
	return &firestoredata.Document{
		Name:       d.Ref.Path,
		CreateTime: timestamppb.New(d.CreateTime),
		UpdateTime: timestamppb.New(d.UpdateTime),
	}
}
