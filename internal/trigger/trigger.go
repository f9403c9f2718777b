// Package trigger decodes the events that Firestore sends through Eventarc when a document is
// written.
package trigger

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
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
// fields that count.
func Decode(e event.Event, fields func(path string) []string) (Change, error) {
	if !strings.HasPrefix(e.Type(), typePrefix) {
		return Change{}, fmt.Errorf("%w: its type is %q, not %swritten", ErrMalformed, e.Type(), typePrefix)
	}
	// Parsing the media type costs more than decoding the rest, and without parameters is not
	// needed.
	if e.DataContentType() != protobuf && e.DataMediaType() != protobuf {
		return Change{}, fmt.Errorf("%w: its content type is %q, not %s", ErrMalformed, e.DataContentType(), protobuf)
	}
	d, err := parse(e.Data())
	if err != nil {
		return Change{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	c, err := parseName(d.name())
	if err != nil {
		return c, err
	}
	c.ID, c.Committed, c.UpdateTime = e.ID(), e.Time(), d.updateTime
	c.Unchanged = d.value.present && d.oldValue.present && bytes.Equal(d.value.name, d.oldValue.name) && !d.changed(fields(c.Path))
	return c, nil
}

// Numbers of the fields that are read of an event's data.
var (
	valueField    = fieldNumber(&firestoredata.DocumentEventData{}, "value")     // absent when the document was deleted
	oldValueField = fieldNumber(&firestoredata.DocumentEventData{}, "old_value") // absent when it was created
	maskField     = fieldNumber(&firestoredata.DocumentEventData{}, "update_mask")
	nameField     = fieldNumber(&firestoredata.Document{}, "name")
	fieldsField   = fieldNumber(&firestoredata.Document{}, "fields")
	updateField   = fieldNumber(&firestoredata.Document{}, "update_time")
	pathsField    = fieldNumber(&firestoredata.DocumentMask{}, "field_paths")
)

const ( // of an entry of a map field
	keyField   = protowire.Number(1)
	entryField = protowire.Number(2)
)

func fieldNumber(m proto.Message, name protoreflect.Name) protowire.Number {
	return m.ProtoReflect().Descriptor().Fields().ByName(name).Number()
}

// A data is a DocumentEventData. Fields that it holds twice are merged, as in protocol buffers. The
// documents' fields are not decoded: whatever they are, the document was written.
type data struct {
	value, oldValue document
	mask            []byte
	updateTime      time.Time
}

type document struct {
	present bool
	message []byte
	name    []byte
}

// parse parses a DocumentEventData.
func parse(message []byte) (data, error) {
	var d data
	err := eachField(message, func(number protowire.Number, content []byte) error {
		switch number {
		case valueField:
			return d.add(&d.value, content)
		case oldValueField:
			return d.add(&d.oldValue, content)
		case maskField:
			d.mask = merged(d.mask, content)
		}
		return nil
	})
	switch name := d.name(); {
	case err != nil:
		return d, err
	case !d.value.present && !d.oldValue.present:
		return d, errors.New("it holds no document")
	case !utf8.ValidString(name):
		return d, fmt.Errorf("the document's name %q is not valid UTF-8", name)
	}
	return d, nil
}

// add adds a message to one of the event's documents.
func (d *data) add(to *document, message []byte) error {
	to.present, to.message = true, merged(to.message, message)
	return eachField(message, func(number protowire.Number, content []byte) error {
		switch number {
		case nameField:
			to.name = content
		case updateField:
			var t timestamppb.Timestamp
			if err := proto.Unmarshal(content, &t); err == nil && t.IsValid() && t.AsTime().After(d.updateTime) {
				d.updateTime = t.AsTime()
			}
		}
		return nil
	})
}

// name is the document's.
func (d *data) name() string {
	if d.value.present {
		return string(d.value.name)
	}
	return string(d.oldValue.name)
}

// changed reports whether any of the fields may be another than before. A field that cannot be read
// may be.
func (d *data) changed(fields []string) bool {
	for _, field := range fields {
		old, oldErr := d.oldValue.field(field)
		value, err := d.value.field(field)
		if oldErr != nil || err != nil || !bytes.Equal(old, value) || (old == nil) != (value == nil) || d.masks(field) {
			return true
		}
	}
	return false
}

// field returns the encoded value of a field; nil: the document does not have it.
func (d *document) field(name string) (value []byte, err error) {
	err = eachField(d.message, func(number protowire.Number, entry []byte) error {
		if number != fieldsField {
			return nil
		}
		key, content := []byte{}, []byte{}
		err := eachField(entry, func(number protowire.Number, c []byte) error {
			switch number {
			case keyField:
				key = c
			case entryField:
				content = merged(content, c)
			}
			return nil
		})
		if string(key) == name { // of several entries of one key, the last counts
			value = content
		}
		return err
	})
	return value, err
}

// masks reports whether the update mask may name the field, or what is in it. A path that begins
// with a quoted name may name any field.
func (d *data) masks(field string) bool {
	found := false
	err := eachField(d.mask, func(number protowire.Number, path []byte) error {
		first, _, _ := strings.Cut(string(path), ".")
		found = found || number == pathsField && (first == field || strings.HasPrefix(first, "`"))
		return nil
	})
	return found || err != nil
}

// merged returns what two messages of one field are together.
func merged(first, second []byte) []byte {
	if len(first) == 0 {
		return second
	}
	return slices.Concat(first, second)
}

// eachField calls f for each field of a message that holds a message or text.
func eachField(message []byte, f func(number protowire.Number, content []byte) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n >= 0 {
			message = message[n:]
			n = protowire.ConsumeFieldValue(number, kind, message)
		}
		if n < 0 {
			return fmt.Errorf("its data is no protocol buffer: %w", protowire.ParseError(n))
		}
		if kind == protowire.BytesType {
			content, _ := protowire.ConsumeBytes(message)
			if err := f(number, content); err != nil {
				return err
			}
		}
		message = message[n:]
	}
	return nil
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
