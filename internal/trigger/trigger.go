// Package trigger decodes the events that Firestore sends through Eventarc when a document is
// written.
package trigger

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// typePrefix begins the type of every document event: created, updated, deleted, written, each also
// ending in ".withAuthContext".
const typePrefix = "google.cloud.firestore.document.v1."

// protobuf is the content type of every document event.
const protobuf = "application/protobuf"

// ErrMalformed is wrapped by every error of Decode. The event can never be decoded, however often
// it is delivered. Check with errors.Is.
var ErrMalformed = errors.New("malformed event")

// A Change says that a document was created, updated or deleted. It is all that is kept of an event: a
// roll-up reads the rest.
type Change struct {
	ID        string    // of the event
	Committed time.Time // as the event says; zero: unknown
	Project   string
	Database  string // such as "(default)"
	Path      string // of the document, below the database's root

	// UpdateTime is the latest update time that the event's documents carry: of the change itself, but
	// for a deletion. Zero: unknown.
	UpdateTime time.Time
}

// Decode returns the change that e tells.
func Decode(e event.Event) (Change, error) {
	if !strings.HasPrefix(e.Type(), typePrefix) {
		return Change{}, fmt.Errorf("%w: its type is %q, not %swritten", ErrMalformed, e.Type(), typePrefix)
	}
	// Parsing the media type costs more than decoding the rest, and without parameters is not needed.
	if e.DataContentType() != protobuf && e.DataMediaType() != protobuf {
		return Change{}, fmt.Errorf("%w: its content type is %q, not %s", ErrMalformed, e.DataContentType(), protobuf)
	}
	name, updateTime, err := documentIn(e.Data())
	if err != nil {
		return Change{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	c, err := parseName(name)
	c.ID, c.Committed, c.UpdateTime = e.ID(), e.Time(), updateTime
	return c, err
}

// Numbers of the fields that are read of an event's data.
var (
	valueField    = fieldNumber(&firestoredata.DocumentEventData{}, "value")     // absent when the document was deleted
	oldValueField = fieldNumber(&firestoredata.DocumentEventData{}, "old_value") // absent when it was created
	nameField     = fieldNumber(&firestoredata.Document{}, "name")
	updateField   = fieldNumber(&firestoredata.Document{}, "update_time")
)

func fieldNumber(m proto.Message, name protoreflect.Name) protowire.Number {
	return m.ProtoReflect().Descriptor().Fields().ByName(name).Number()
}

// documentIn returns the name of the document in a DocumentEventData, and the latest update time. It
// passes over the document's fields without decoding or checking them: whatever they are, the document
// changed.
func documentIn(data []byte) (name string, updateTime time.Time, err error) {
	type document struct {
		present bool
		name    []byte
	}
	var value, oldValue document
	for len(data) > 0 {
		number, content, rest, err := nextField(data)
		if err != nil {
			return "", updateTime, err
		}
		data = rest
		d := &value
		switch number {
		case valueField:
		case oldValueField:
			d = &oldValue
		default:
			continue
		}
		d.present = true
		for len(content) > 0 {
			number, text, rest, err := nextField(content)
			if err != nil {
				return "", updateTime, err
			}
			content = rest
			switch number {
			case nameField:
				d.name = text // of several, protocol buffers take the last
			case updateField:
				var t timestamppb.Timestamp
				if err := proto.Unmarshal(text, &t); err == nil && t.IsValid() && t.AsTime().After(updateTime) {
					updateTime = t.AsTime()
				}
			}
		}
	}
	if !value.present {
		value = oldValue
	}
	switch {
	case !value.present:
		return "", updateTime, errors.New("it holds no document")
	case !utf8.Valid(value.name):
		return "", updateTime, fmt.Errorf("the document's name %q is not valid UTF-8", value.name)
	}
	return string(value.name), updateTime, nil
}

// nextField splits the first field off a message. It returns number 0 for a field that holds neither
// a message nor text.
func nextField(message []byte) (number protowire.Number, content, rest []byte, err error) {
	number, kind, n := protowire.ConsumeTag(message)
	if n < 0 {
		return 0, nil, nil, fmt.Errorf("its data is no protocol buffer: %w", protowire.ParseError(n))
	}
	rest = message[n:]
	if n = protowire.ConsumeFieldValue(number, kind, rest); n < 0 {
		return 0, nil, nil, fmt.Errorf("its data is no protocol buffer: %w", protowire.ParseError(n))
	}
	if kind != protowire.BytesType {
		return 0, nil, rest[n:], nil
	}
	content, _ = protowire.ConsumeBytes(rest)
	return number, content, rest[n:], nil
}

// parseName parses a document's resource name,
// projects/{project}/databases/{database}/documents/{path}.
func parseName(name string) (Change, error) {
	rest, named := strings.CutPrefix(name, "projects/")
	project, rest, _ := strings.Cut(rest, "/databases/")
	database, path, _ := strings.Cut(rest, "/documents/")
	if !named || project == "" || database == "" || path == "" || strings.Contains(project, "/") || strings.Contains(database, "/") {
		return Change{}, fmt.Errorf("%w: %q is not the name of a document", ErrMalformed, name)
	}
	return Change{Project: project, Database: database, Path: path}, nil
}
