// Package trigger decodes the events that Firestore sends through Eventarc when a document is
// written.
package trigger

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
	"google.golang.org/protobuf/proto"
)

// typePrefix begins the type of every document event: created, updated, deleted, written, each also
// ending in ".withAuthContext".
const typePrefix = "google.cloud.firestore.document.v1."

// sourcePrefix begins the source of every document event. A database's resource name follows.
const sourcePrefix = "//firestore.googleapis.com/"

// protobuf is the content type of every document event that has data.
const protobuf = "application/protobuf"

// ErrMalformed is wrapped by every error of Decode. The event can never be decoded, however often
// it is delivered. Check with errors.Is.
var ErrMalformed = errors.New("malformed event")

// A Change says that a document was created, updated or deleted. It is all that is kept of an
// event: a roll-up reads the rest.
type Change struct {
	ID        string    // of the event
	Committed time.Time // as the event says; zero: unknown
	Project   string
	Database  string // such as "(default)"
	Path      string // of the document, below the database's root

	// UpdateTime is the latest update time that the event's documents carry: of the change itself,
	// but for a deletion. Zero: unknown.
	UpdateTime time.Time

	// Unchanged says that the document existed before and after, and that none of the fields that
	// count was changed, by the event's own old and new values.
	Unchanged bool
}

// Decode returns the change that e tells. For a document at a path, fields returns the names of the
// fields that count. Eventarc leaves out the documents of an event that would be too large; then
// nothing is known of their values and update times.
func Decode(e Event, fields func(path string) []string) (Change, error) {
	if !strings.HasPrefix(e.Type, typePrefix) {
		return Change{}, fmt.Errorf("%w: its type is %q, not %swritten", ErrMalformed, e.Type, typePrefix)
	}
	media, _, _ := strings.Cut(e.ContentType, ";")
	if media != protobuf && len(e.Data) > 0 {
		return Change{}, fmt.Errorf("%w: its content type is %q, not %s", ErrMalformed, e.ContentType, protobuf)
	}
	var d firestoredata.DocumentEventData
	if err := proto.Unmarshal(e.Data, &d); err != nil {
		return Change{}, fmt.Errorf("%w: its data is no protocol buffer of a change: %w", ErrMalformed, err)
	}

	value, old := d.GetValue(), d.GetOldValue() // nil: the document was deleted; it was created
	name := cmp.Or(value, old).GetName()
	if value == nil && old == nil {
		if e.Document == "" {
			return Change{}, fmt.Errorf("%w: it holds and names no document", ErrMalformed)
		}
		name = strings.TrimPrefix(e.Source, sourcePrefix) + "/documents/" + e.Document
	}
	c, err := parseName(name)
	if err != nil {
		return c, err
	}

	c.ID, c.Committed = e.ID, e.Time
	for _, document := range []*firestoredata.Document{value, old} {
		if t := document.GetUpdateTime(); t.IsValid() && t.AsTime().After(c.UpdateTime) {
			c.UpdateTime = t.AsTime()
		}
	}
	updated := value.GetName() == name && old.GetName() == name
	c.Unchanged = updated && !slices.ContainsFunc(fields(c.Path), func(field string) bool { return changed(&d, field) })
	return c, nil
}

// changed reports whether the field may be another than before. The update mask tells even of a
// change that leaves the value as it was; a path of it that begins with a quoted name may name any
// field.
func changed(d *firestoredata.DocumentEventData, field string) bool {
	for _, path := range d.GetUpdateMask().GetFieldPaths() {
		if first, _, _ := strings.Cut(path, "."); first == field || strings.HasPrefix(first, "`") {
			return true
		}
	}
	return !proto.Equal(d.GetValue().GetFields()[field], d.GetOldValue().GetFields()[field])
}

// parseName parses a document's resource name,
// projects/{project}/databases/{database}/documents/{path}.
func parseName(name string) (Change, error) {
	rest, named := strings.CutPrefix(name, "projects/")
	project, rest, _ := strings.Cut(rest, "/databases/")
	database, path, _ := strings.Cut(rest, "/documents/")
	if !named || project == "" || database == "" || path == "" || strings.Contains(project, "/") || strings.Contains(database, "/") ||
		!utf8.ValidString(name) {
		return Change{}, fmt.Errorf("%w: %q is not the name of a document", ErrMalformed, name)
	}
	return Change{Project: project, Database: database, Path: path}, nil
}
