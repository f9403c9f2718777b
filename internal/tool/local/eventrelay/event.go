package eventrelay

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
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

// An Event is one CloudEvent in HTTP's binary content mode: attributes are headers, and the body is
// the data. An attribute may hold characters that no header can; see [Event.Request]. Deliveries
// share the header and the body, so neither may change once a [Relay] has the event.
type Event struct {
	Header http.Header // the ce-* attributes and Content-Type, in canonical form
	Body   []byte      // a google.events.cloud.firestore.v1.DocumentEventData
}

// ID returns the event's ce-id. Every copy of one event has the same.
func (e Event) ID() string { return e.Header.Get("Ce-Id") }

// NewEvent returns the event for one write to a document: a create if before is nil, a delete if
// after is nil, else an update. The document's name is taken from them. They need the fields that
// routes read: a document without them changes no total. The id must belong to this event alone.
// The time is that of the commit.
//
// It returns an error if the name is not of the form "projects/P/databases/D/documents/PATH", or if
// a document cannot be encoded.
func NewEvent(id string, at time.Time, before, after *firestoredata.Document) (Event, error) {
	data := &firestoredata.DocumentEventData{OldValue: before, Value: after}
	project, database, path, err := parseName(data)
	if err != nil {
		return Event{}, err
	}
	body, err := proto.Marshal(data)
	if err != nil {
		return Event{}, fmt.Errorf("eventrelay: could not make an event for %q: %w", path, err)
	}

	header := http.Header{
		"Ce-Specversion": {"1.0"},
		"Ce-Type":        {typeWritten},
		"Ce-Source":      {"//firestore.googleapis.com/projects/" + project + "/databases/" + database},
		"Ce-Id":          {id},
		"Ce-Time":        {at.UTC().Format(time.RFC3339Nano)},
		"Ce-Dataschema":  {dataSchema},
		"Ce-Project":     {project},
		"Ce-Database":    {database},
		"Ce-Namespace":   {"(default)"},
		"Content-Type":   {contentType},
	}
	setDocument(header, path)
	return Event{Header: header, Body: body}, nil
}

// parseName returns the parts of the name of the document that changed.
func parseName(data *firestoredata.DocumentEventData) (project, database, path string, err error) {
	name := cmp.Or(data.GetValue(), data.GetOldValue()).GetName()
	parts := documentName.FindStringSubmatch(name)
	if parts == nil {
		return "", "", "", fmt.Errorf("eventrelay: malformed document name %q", name)
	}
	return parts[1], parts[2], parts[3], nil
}

// setDocument has the header name the document at the path.
func setDocument(header http.Header, path string) {
	header.Set("Ce-Subject", "documents/"+path)
	header.Set("Ce-Document", path)
}

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
	project, doubled := strings.CutPrefix(repaired.Get("Ce-Source"), source+"projects/")
	if doubled {
		repaired.Set("Ce-Source", source+project)
	}

	// The body may be base64 text of the protobuf. A plain protobuf is never mistaken for such
	// text. It holds a document's name, and so characters that base64 does not have: the
	// parentheses of "(default)", or the control bytes that frame the name.
	decoded, err := base64.StdEncoding.DecodeString(string(body))
	if err == nil {
		body = decoded
	}

	var data firestoredata.DocumentEventData
	err = proto.Unmarshal(body, &data)
	if err != nil {
		return Event{}, fmt.Errorf("eventrelay: could not decode an event: %w", err)
	}
	if data.Value == nil && data.OldValue == nil {
		return Event{}, errors.New("eventrelay: event body holds no document")
	}

	_, _, path, err := parseName(&data)
	if err != nil {
		return Event{}, err
	}
	setDocument(repaired, path)
	return Event{Header: repaired, Body: body}, nil
}
