package firestorestore

import (
	"context"
	"fmt"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/document"
)

// Fields returns some fields of the document at a path, as the SDK decodes them. They are in maps
// that are nested as in the document, and when the document was created. If the document does not
// exist, there are none. It bills one read.
func (s *Store) Fields(ctx context.Context, path string, fields []document.Field) (map[string]any, time.Time, error) {
	doc := s.client.Doc(path)
	var paths []firestore.FieldPath
	for _, f := range fields {
		paths = append(paths, f.Names())
	}

	found, err := doc.Parent.Where(firestore.DocumentID, "==", doc).SelectPaths(paths...).Documents(ctx).GetAll()
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("firestore: reading %s: %w", path, err)
	}
	if len(found) == 0 {
		return nil, time.Time{}, nil
	}
	return found[0].Data(), found[0].CreateTime, nil
}
