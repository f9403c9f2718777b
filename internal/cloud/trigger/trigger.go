// Package trigger decodes the events that Firestore sends through Eventarc when a document is
// written.
//
// An event is a CloudEvent: attributes, such as an id and a type, and data. Firestore's data is a
// protocol buffer with the old document and the new one. If the document was created, there is no
// old one. If it was deleted, there is no new one. Eventarc leaves both out if they make the event
// too large. Then only an attribute names the document.
//
// An event comes once or more often, in any order, perhaps late. Every copy has the same id. The
// data shows the document as this one write left it. The document may have changed since, so an
// event says that something changed, and not what the document holds now.
package trigger

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// The type of every document event begins with typePrefix. "created", "updated", "deleted" or
// "written" follows, and perhaps ".withAuthContext".
const typePrefix = "google.cloud.firestore.document.v1."

// The source of every document event begins with sourcePrefix. The resource name of the database
// follows.
const sourcePrefix = "//firestore.googleapis.com/"

// protobuf is the content type of every document event that has data.
const protobuf = "application/protobuf"

// ErrMalformed is wrapped by every error of Decode. The event can never be decoded, however often
// it is delivered. Check with errors.Is.
var ErrMalformed = errors.New("malformed event")

// A Change says that a document was created, updated or deleted.
type Change struct {
	ID        string    // of the event
	Committed time.Time // as the event says; zero: unknown
	Project   string
	Database  string // such as "(default)"

	// UpdateTime is the latest update time that the event's documents carry. Zero: unknown. It is
	// the commit time of the change. For a deletion it is the commit time of the write before,
	// because the old document carries no other.
	UpdateTime time.Time

	path string
	data *firestoredata.DocumentEventData // nil: the event is too large to hold the documents
}

// Decode returns e's change. Its errors wrap ErrMalformed. If the event was too large for its
// documents, the change is not Known.
func Decode(e Event) (Change, error) {
	if !strings.HasPrefix(e.Type, typePrefix) {
		return Change{}, fmt.Errorf("%w: its type is %q, not %swritten", ErrMalformed, e.Type, typePrefix)
	}

	media, _, _ := strings.Cut(e.ContentType, ";")
	if media != protobuf && len(e.Data) > 0 {
		return Change{}, fmt.Errorf("%w: its content type is %q, not %s", ErrMalformed, e.ContentType, protobuf)
	}

	d := new(firestoredata.DocumentEventData)
	err := proto.Unmarshal(e.Data, d)
	if err != nil {
		return Change{}, fmt.Errorf("%w: its data does not decode as a protocol buffer of a change: %w", ErrMalformed, err)
	}

	value, old := d.GetValue(), d.GetOldValue() // value is nil after a deletion, old after a creation
	known := value != nil || old != nil
	name := cmp.Or(value, old).GetName()
	if !known {
		if e.Document == "" {
			return Change{}, fmt.Errorf("%w: it neither holds nor names a document", ErrMalformed)
		}
		name = strings.TrimPrefix(e.Source, sourcePrefix) + "/documents/" + e.Document
	}

	c, err := parseName(name)
	if err != nil {
		return c, err
	}

	c.ID, c.Committed = e.ID, e.Time
	if known {
		c.data = d
	}
	c.UpdateTime = latest(value.GetUpdateTime(), old.GetUpdateTime())
	return c, nil
}

// latest returns the latest of the times that are valid; zero if none is.
func latest(times ...*timestamppb.Timestamp) time.Time {
	var last time.Time
	for _, t := range times {
		if t.IsValid() && t.AsTime().After(last) {
			last = t.AsTime()
		}
	}
	return last
}

// Path is the document's path, below the database's root.
func (c Change) Path() string { return c.path }

// Known reports whether the event holds the documents.
func (c Change) Known() bool { return c.data != nil }

// WithoutDocuments returns the change without its documents. It is not Known any more.
func (c Change) WithoutDocuments() Change {
	c.data = nil
	return c
}

// Updated reports whether the document existed before and after.
func (c Change) Updated() bool {
	value, old := c.data.GetValue(), c.data.GetOldValue()
	return value != nil && old != nil && value.GetName() == old.GetName()
}

// SinceLastWrite returns how long after the write before the document was written. It returns 0 if
// that is unknown, because the document was not there before or because the event does not tell it.
// A sample of Google's has the same time in both documents
// (https://googleapis.github.io/google-cloudevents/examples/binary/firestore/DocumentEventData-simple.json).
func (c Change) SinceLastWrite() time.Duration {
	now, before := c.data.GetValue().GetUpdateTime(), c.data.GetOldValue().GetUpdateTime()
	if !now.IsValid() || !before.IsValid() {
		return 0
	}
	return max(0, now.AsTime().Sub(before.AsTime()))
}

// Changed reports whether the field may have changed. A field that the update mask names counts as
// changed even if its value is the same. So does a field whose value the event may hide.
func (c Change) Changed(f document.Field) bool {
	for _, path := range c.data.GetUpdateMask().GetFieldPaths() {
		in := document.FieldOf(document.Field(path).Names()...) // in FieldOf's form
		if in.Within(f) || f.Within(in) {
			return true
		}
	}

	now, before := valueOf(c.data.GetValue(), f), valueOf(c.data.GetOldValue(), f)
	return c.MayHideTime(f) || !proto.Equal(now, before)
}

// MayHideTime reports whether the field may hold a time that the event does not show. There is a
// report that events have a null for a time that the server set
// (https://github.com/HugoGresse/open-feedback/issues/1680). A roll-up sets none but tally's, so in
// its event a null is a null. Otherwise roll-ups of comments whose deleted_at is null could cause
// each other. The old document was stored, so it has its times: a null there is a null, or an order
// that is paid would count as one that may have left any day.
func (c Change) MayHideTime(f document.Field) bool { return c.isNull(f) && !c.isRollUp() }

// isRollUp reports whether Tally wrote the document, or somebody who wrote the field tally.
func (c Change) isRollUp() bool {
	now, before := valueOf(c.data.GetValue(), document.TallyField), valueOf(c.data.GetOldValue(), document.TallyField)
	return c.Updated() && now != nil && !proto.Equal(now, before)
}

// Held returns the value that the field held before the write, and the one that it holds after it,
// as route.Change has them.
func (c Change) Held(f document.Field) (before, after any) {
	return c.held(valueOf(c.data.GetOldValue(), f)), c.held(valueOf(c.data.GetValue(), f))
}

func (c Change) held(v *firestoredata.Value) any {
	switch v := v.GetValueType().(type) {
	case *firestoredata.Value_StringValue:
		return v.StringValue
	case *firestoredata.Value_IntegerValue:
		return v.IntegerValue
	case *firestoredata.Value_DoubleValue:
		return v.DoubleValue
	case *firestoredata.Value_TimestampValue:
		return v.TimestampValue.AsTime()
	case *firestoredata.Value_ReferenceValue:
		path, own := strings.CutPrefix(v.ReferenceValue, "projects/"+c.Project+"/databases/"+c.Database+"/documents/")
		if own {
			return document.Reference(path)
		}
	}
	return nil
}

// isNull reports whether the field is null after the write, as far as the event says.
func (c Change) isNull(f document.Field) bool {
	_, null := valueOf(c.data.GetValue(), f).GetValueType().(*firestoredata.Value_NullValue)
	return null
}

// document returns the document as it was before the write, or as it is after it.
func (c Change) document(after bool) *firestoredata.Document {
	if after {
		return c.data.GetValue()
	}
	return c.data.GetOldValue()
}

// Has implements route.Change.
func (c Change) Has(f document.Field, after bool) bool { return valueOf(c.document(after), f) != nil }

// Value implements route.Change.
func (c Change) Value(f document.Field, after bool) (v any, ok bool) {
	held := valueOf(c.document(after), f)
	switch kind := held.GetValueType().(type) {
	case *firestoredata.Value_BooleanValue:
		return kind.BooleanValue, true
	case *firestoredata.Value_NullValue:
		if !c.isRollUp() {
			return document.Hidden{}, true
		}
		return nil, true
	}
	return cmp.Or(c.held(held), any(unknown{})), held != nil
}

// unknown is a value of a kind that no condition compares.
type unknown struct{}

// Deleted reports whether the event tells that there is no document any more.
func (c Change) Deleted() bool { return c.Known() && c.data.GetValue() == nil }

// Holds returns of what kind the field is after the write, such as "a number", and its value as
// Held returns it. The kind is "" if the document lacks the field.
func (c Change) Holds(f document.Field) (kind string, held any) {
	v := valueOf(c.data.GetValue(), f)
	return kindOf(v), c.held(v)
}

func kindOf(v *firestoredata.Value) string {
	switch v.GetValueType().(type) {
	case nil:
		return ""
	case *firestoredata.Value_StringValue:
		return "a string"
	case *firestoredata.Value_NullValue:
		return "null"
	case *firestoredata.Value_BooleanValue:
		return "a boolean"
	case *firestoredata.Value_IntegerValue, *firestoredata.Value_DoubleValue:
		return "a number"
	case *firestoredata.Value_TimestampValue:
		return "a timestamp"
	case *firestoredata.Value_MapValue:
		return "a map"
	case *firestoredata.Value_ArrayValue:
		return "an array"
	case *firestoredata.Value_BytesValue:
		return "bytes"
	case *firestoredata.Value_ReferenceValue:
		return "a reference"
	default:
		return "a place"
	}
}

// valueOf returns the value of a document's field; nil if the document lacks it.
func valueOf(d *firestoredata.Document, f document.Field) *firestoredata.Value {
	fields := d.GetFields()
	if f.Simple() {
		return fields[string(f)]
	}

	names := f.Names()
	for i, name := range names {
		value := fields[name]
		if value == nil || i == len(names)-1 {
			return value
		}
		fields = value.GetMapValue().GetFields()
	}
	return nil
}

// parseName parses a document's resource name,
// projects/{project}/databases/{database}/documents/{path}.
func parseName(name string) (Change, error) {
	rest, named := strings.CutPrefix(name, "projects/")
	project, rest, _ := strings.Cut(rest, "/databases/")
	database, path, _ := strings.Cut(rest, "/documents/")

	whole := named && project != "" && database != "" && path != ""
	flat := !strings.Contains(project, "/") && !strings.Contains(database, "/")
	if !whole || !flat || !utf8.ValidString(name) {
		return Change{}, fmt.Errorf("%w: %q is not the name of a document", ErrMalformed, name)
	}
	if len(path) > document.LongestPath {
		return Change{}, fmt.Errorf("%w: its document's path has %d bytes; Firestore's limit is %d", ErrMalformed, len(path), document.LongestPath)
	}
	for id := range strings.SplitSeq(path, "/") {
		err := document.CheckID(id)
		if err != nil {
			return Change{}, fmt.Errorf("%w: an id in %q %w", ErrMalformed, path, err)
		}
	}
	return Change{Project: project, Database: database, path: path}, nil
}
