package firestorestore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/document"
)

// Fields returns some fields of the document at a path, as Data returns them, in maps that are
// nested as in the document. It also returns when the document was created. If the document does
// not exist, there are none. It costs one read.
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
	return Data(found[0]), found[0].CreateTime, nil
}

// Data returns the fields of a document as the SDK decodes them, with one exception: references to
// documents of the same database are of type document.Reference.
func Data(doc *firestore.DocumentSnapshot) map[string]any {
	database, _, _ := strings.Cut(doc.Ref.Path, "/documents/")
	fields := doc.Data()
	resolve(fields, database+"/documents/")
	return fields
}

// resolve replaces the references in fields to documents whose names begin with the database's.
func resolve(fields map[string]any, database string) {
	for name, v := range fields {
		switch v := v.(type) {
		case map[string]any:
			resolve(v, database)
		case *firestore.DocumentRef:
			path, own := strings.CutPrefix(v.Path, database)
			if own {
				fields[name] = document.Reference(path)
			}
		}
	}
}
