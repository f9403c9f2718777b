package eventrelay

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
	"google.golang.org/protobuf/proto"
)

const (
	// typeWritten is the type of every event here: one trigger on it sees all kinds of writes.
	typeWritten = "google.cloud.firestore.document.v1.written"

	contentType = "application/protobuf"
	dataSchema  = "https://github.com/googleapis/google-cloudevents/blob/main/proto/google/events/cloud/firestore/v1/data.proto"
)

// documentName matches a document's full resource name.
var documentName = regexp.MustCompile(`(?s)^projects/([^/]+)/databases/([^/]+)/documents/(.+)$`)

// An Event is one CloudEvent in HTTP's binary content mode, as it is posted to a function.
// Deliveries share its header and body, so neither may change once a [Relay] has it.
type Event struct {
	Header http.Header // the ce-* attributes and Content-Type, in canonical form
	Body   []byte      // a google.events.cloud.firestore.v1.DocumentEventData
}

// ID returns the event's ce-id. Every copy of one event has the same.
func (e Event) ID() string { return e.Header.Get("Ce-Id") }

// NewEvent returns the event for one write to a document: a create if before is nil, a delete if
// after is nil, else an update. The document's name is taken from them; their fields may be left
// out by callers whose functions do not read them. The id must belong to this event alone. The time
// is that of the commit.
//
// It returns an error if the name is not of the form "projects/P/databases/D/documents/PATH", or if
// a document cannot be encoded.
func NewEvent(id string, at time.Time, before, after *firestoredata.Document) (Event, error) {
	name := cmp.Or(after, before).GetName()
	parts := documentName.FindStringSubmatch(name)
	if parts == nil {
		return Event{}, fmt.Errorf("eventrelay: malformed document name %q", name)
	}
	project, database, path := parts[1], parts[2], control.ReplaceAllStringFunc(parts[3], url.PathEscape)
	body, err := proto.Marshal(&firestoredata.DocumentEventData{OldValue: before, Value: after})
	if err != nil {
		return Event{}, fmt.Errorf("eventrelay: event for %q: %w", name, err)
	}
	header := http.Header{
		"Ce-Specversion": {"1.0"},
		"Ce-Type":        {typeWritten},
		"Ce-Source":      {"//firestore.googleapis.com/projects/" + project + "/databases/" + database},
		"Ce-Id":          {id},
		"Ce-Subject":     {"documents/" + path},
		"Ce-Time":        {at.UTC().Format(time.RFC3339Nano)},
		"Ce-Dataschema":  {dataSchema},
		"Ce-Project":     {project},
		"Ce-Database":    {database},
		"Ce-Namespace":   {"(default)"},
		"Ce-Document":    {path},
		"Content-Type":   {contentType},
	}
	return Event{Header: header, Body: body}, nil
}

// control matches a control character, which a document's id may hold and a header may not.
var control = regexp.MustCompile(`[\x00-\x08\x0a-\x1f\x7f]`)

// repair makes the event that Eventarc would have sent from a request of the emulator. It also
// takes a request that needs no repair. testdata/README.md lists what is wrong.
func repair(header http.Header, body []byte) (Event, error) {
	repaired := make(http.Header)
	for key, values := range header {
		if strings.HasPrefix(key, "Ce-") && key != "Ce-Datacontenttype" {
			repaired[key] = values
		}
	}
	repaired.Set("Content-Type", contentType)

	const source = "//firestore.googleapis.com/projects/"
	if project, ok := strings.CutPrefix(repaired.Get("Ce-Source"), source+"projects/"); ok {
		repaired.Set("Ce-Source", source+project)
	}

	// A protobuf body is never taken for base64 text: it holds a document's name, and so the
	// parentheses of "(default)" or the control bytes that frame it.
	if decoded, err := base64.StdEncoding.DecodeString(string(body)); err == nil {
		body = decoded
	}
	var data firestoredata.DocumentEventData
	if err := proto.Unmarshal(body, &data); err != nil {
		return Event{}, fmt.Errorf("eventrelay: event body: %w", err)
	}
	if data.Value == nil && data.OldValue == nil {
		return Event{}, errors.New("eventrelay: event body holds no document")
	}
	return Event{Header: repaired, Body: body}, nil
}
