package firestorestore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/firestore-tally/tally/internal/document"
)

// Fields returns some fields of the document at a path, as Data returns them, in maps that are
// nested as in the document. It also returns when the document was created. If the document does
// not exist, there are none. It costs one read.
func (s *Store) Fields(ctx context.Context, path string, fields []document.Field) (map[string]any, time.Time, error) {
	req := &firestorepb.BatchGetDocumentsRequest{
		Documents: []string{s.database + "/documents/" + path},
		Mask:      new(firestorepb.DocumentMask),
	}
	for _, f := range fields {
		req.Mask.FieldPaths = append(req.Mask.FieldPaths, string(f))
	}

	var found *firestorepb.Document
	err := s.batchGet(ctx, req, func(answer *firestorepb.BatchGetDocumentsResponse) {
		if answer.GetFound() != nil {
			found = answer.GetFound()
		}
	})
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("firestore: reading %s: %w", path, err)
	}
	if found == nil {
		return nil, time.Time{}, nil
	}
	held := decodeFields(found.Fields)
	resolve(held, s.database+"/documents/")
	return held, found.CreateTime.AsTime(), nil
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
		case *firestorepb.Value_ReferenceValue:
			path, own := strings.CutPrefix(v.ReferenceValue, database)
			if own {
				fields[name] = document.Reference(path)
			}
		}
	}
}
