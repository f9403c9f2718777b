// Package trigger decodes the events that Firestore sends through Eventarc when a document is
// written.
package trigger

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
	"google.golang.org/protobuf/proto"
)

// typePrefix begins the type of every document event: created, updated, deleted, written, each also
// ending in ".withAuthContext".
const typePrefix = "google.cloud.firestore.document.v1."

// ErrMalformed is wrapped by every error of Decode. The event can never be decoded, however often
// it is delivered. Check with errors.Is.
var ErrMalformed = errors.New("malformed event")

// A Change says that a document was created, updated or deleted. It carries no more: a roll-up
// reads the rest.
type Change struct {
	Project  string
	Database string // such as "(default)"
	Path     string // of the document, below the database's root
}

// Decode returns the change that e tells.
func Decode(e event.Event) (Change, error) {
	if !strings.HasPrefix(e.Type(), typePrefix) {
		return Change{}, fmt.Errorf("%w: its type is %q, not %swritten", ErrMalformed, e.Type(), typePrefix)
	}
	if mediaType := e.DataMediaType(); mediaType != "application/protobuf" {
		return Change{}, fmt.Errorf("%w: its content type is %q, not application/protobuf", ErrMalformed, mediaType)
	}
	var data firestoredata.DocumentEventData
	if err := proto.Unmarshal(e.Data(), &data); err != nil {
		return Change{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	document := data.GetValue() // nil when the document was deleted
	if document == nil {
		document = data.GetOldValue() // nil when it was created
	}
	if document == nil {
		return Change{}, fmt.Errorf("%w: it holds no document", ErrMalformed)
	}
	return parseName(document.GetName())
}

// parseName parses a document's resource name,
// projects/{project}/databases/{database}/documents/{path}.
func parseName(name string) (Change, error) {
	parts := strings.SplitN(name, "/", 6)
	if len(parts) != 6 || parts[0] != "projects" || parts[2] != "databases" || parts[4] != "documents" ||
		parts[1] == "" || parts[3] == "" || parts[5] == "" {
		return Change{}, fmt.Errorf("%w: %q is not the name of a document", ErrMalformed, name)
	}
	return Change{Project: parts[1], Database: parts[3], Path: parts[5]}, nil
}
