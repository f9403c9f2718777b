package firestorestore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// notePath returns the path of a note's document.
func notePath(id string) string { return document.AuditCollection + "/" + id }

// noteField is the field of a note's document that names counters. It is a list of maps, because
// paths are no names of fields:
//
//	rollup_audit/note-counters      {counters: [{path: "posts/7", at: …}, …]}
//	rollup_audit/note-unkept-{hash} {counters: [{path: "posts/8", at: …}]}
//	rollup_audit/note-all           {counters: null}
const noteField = "counters"

// noteOf returns the note that a document holds. What has other names or types names no counter.
func noteOf(doc *firestore.DocumentSnapshot) rollup.Note {
	n := rollup.Note{ID: doc.Ref.ID, UpdateTime: doc.UpdateTime}
	named, _ := doc.Data()[noteField].([]any)
	for _, one := range named {
		fields, _ := one.(map[string]any)
		path, isPath := fields["path"].(string)
		at, isTime := fields["at"].(time.Time)
		if !isPath || !isTime {
			continue
		}
		if n.Counters == nil {
			n.Counters = make(map[string]time.Time)
		}
		n.Counters[path] = at
	}
	return n
}

// LoadNote implements rollup.Store.
func (s *Store) LoadNote(ctx context.Context, id string) (rollup.Note, error) {
	path := notePath(id)
	doc, err := s.client.Doc(path).Get(ctx)
	if status.Code(err) == codes.NotFound {
		return rollup.Note{ID: id}, nil
	}
	if err != nil {
		return rollup.Note{}, fmt.Errorf("firestore: reading %s: %w", path, err)
	}
	return noteOf(doc), nil
}

// SaveNote implements rollup.Store.
func (s *Store) SaveNote(ctx context.Context, n rollup.Note) error {
	var named []map[string]any
	for path, at := range n.Counters {
		named = append(named, map[string]any{"path": path, "at": at})
	}
	_, err := s.setFields(ctx, notePath(n.ID), map[string]any{noteField: named}, n.UpdateTime)
	return err
}

// DeleteNote implements rollup.Store.
func (s *Store) DeleteNote(ctx context.Context, n rollup.Note) error {
	path := notePath(n.ID)
	_, err := s.client.Doc(path).Delete(ctx, firestore.LastUpdateTime(n.UpdateTime))
	return outcome(err, "deleting", path)
}

// Notes implements rollup.AuditStore. It costs a read for each note, and one if there is none.
func (s *Store) Notes(ctx context.Context, after string, limit int) ([]rollup.Note, error) {
	notes := s.client.Collection(document.AuditCollection)
	behind := notes.Doc(strings.TrimSuffix(document.NotePrefix, "-") + ".") // "." comes right after "-"
	query := notes.OrderBy(firestore.DocumentID, firestore.Asc).EndBefore(behind).Limit(limit)
	if after == "" {
		query = query.StartAt(notes.Doc(document.NotePrefix))
	} else {
		query = query.StartAfter(notes.Doc(after))
	}

	docs, err := query.Documents(ctx).GetAll()
	if err != nil {
		return nil, fmt.Errorf("firestore: reading the notes in %s: %w", document.AuditCollection, err)
	}
	var found []rollup.Note
	for _, doc := range docs {
		found = append(found, noteOf(doc))
	}
	return found, nil
}
