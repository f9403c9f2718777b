package trigger

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// ErrNoEvent is returned by FromRequest for a request that is not a CloudEvent of version 1.0.
// Check with errors.Is.
var ErrNoEvent = errors.New("not a CloudEvent")

// An Event holds what Tally reads of a CloudEvent.
type Event struct {
	ID, Type, Source, Subject string

	// Document is the path of the document that changed, below the database's root. An event may be
	// too large to hold the document itself.
	Document string

	Time        time.Time // zero: unknown
	ContentType string
	Data        []byte
}

const specVersion = "1.0"

// FromRequest returns the CloudEvent in r. Eventarc sends events in two forms:
//
//   - HTTP's binary content mode, with the event's attributes as headers;
//   - a message as Pub/Sub pushes it, which is JSON with the attributes and the data in base64.
//     Eventarc uses it if a header cannot carry an attribute, because a document's id may end in a
//     space or hold control characters
//     (https://github.com/firebase/firebase-functions/issues/1922).
//
// Its error is ErrNoEvent, or wraps ErrMalformed. Any other error means that the request was not
// received whole, most likely because the caller went away. Even after an error, the event holds
// what could be read of it, for the log.
func FromRequest(r *http.Request) (Event, error) {
	version := r.Header.Get("Ce-Specversion")
	if version == "" && fromEventarc(r) {
		return fromPush(r.Body)
	}

	e := newEvent(r.Header.Get)
	if version != specVersion {
		return e, ErrNoEvent
	}

	data, err := readAll(r.Body)
	if err != nil {
		return e, err
	}

	e.ContentType, e.Data = r.Header.Get("Content-Type"), data
	return e, e.check()
}

// fromEventarc reports whether the request came to the address that Eventarc gives to Pub/Sub. That
// is the function's address with a parameter that only Eventarc adds. Every request there is an
// event, even if it cannot be read. If it were refused, Pub/Sub would send it again for a day, and
// delay the other events.
func fromEventarc(r *http.Request) bool {
	return r.URL.Query().Get("__GCP_CloudEventsMode") == "CE_PUBSUB_BINDING"
}

// fromPush returns the event in the body of a push
// (https://cloud.google.com/pubsub/docs/push#receive_push,
// https://github.com/googleapis/google-cloudevents/blob/main/docs/spec/pubsub.md).
func fromPush(body io.ReadCloser) (Event, error) {
	text, err := readAll(body)
	if err != nil {
		return Event{}, err
	}

	var push struct {
		Message struct {
			Attributes map[string]string
			Data       []byte
		}
	}
	err = json.Unmarshal(text, &push)
	if err != nil {
		return Event{}, fmt.Errorf("%w: it is not a push from Pub/Sub: %w", ErrMalformed, err)
	}

	attributes := push.Message.Attributes
	e := newEvent(func(name string) string { return attributes[name] })
	version := attributes["ce-specversion"]
	if version != specVersion {
		return e, fmt.Errorf("%w: its version is %q, not %s", ErrMalformed, version, specVersion)
	}

	e.ContentType, e.Data = cmp.Or(attributes["content-type"], attributes["ce-datacontenttype"]), push.Message.Data
	return e, e.check()
}

// newEvent returns the event with the attributes, without its data.
func newEvent(attribute func(name string) string) Event {
	e := Event{
		ID:       attribute("ce-id"),
		Type:     attribute("ce-type"),
		Source:   attribute("ce-source"),
		Subject:  attribute("ce-subject"),
		Document: attribute("ce-document"),
	}

	t, err := time.Parse(time.RFC3339Nano, attribute("ce-time"))
	if err == nil { // only metrics need it
		e.Time = t.UTC()
	}
	return e
}

// check returns an error if the event lacks an attribute that every one has.
func (e Event) check() error {
	for _, attribute := range []struct{ name, value string }{{"id", e.ID}, {"source", e.Source}, {"type", e.Type}} {
		if attribute.value == "" {
			return fmt.Errorf("%w: it has no attribute ce-%s", ErrMalformed, attribute.name)
		}
	}
	return nil
}

// MaxBody is how many bytes of a request FromRequest reads. An event holds two documents of at most
// 1 MiB each, and a third more in base64. Eventarc delivers events of up to 512 KB
// (https://cloud.google.com/eventarc/docs/quotas).
const MaxBody = 4 << 20

// readAll reads a body. It returns ErrMalformed if the body is larger than any event can be.
func readAll(body io.ReadCloser) ([]byte, error) {
	data, err := io.ReadAll(http.MaxBytesReader(nil, body, MaxBody))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, fmt.Errorf("%w: its data is larger than %d bytes", ErrMalformed, MaxBody)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the event's data: %w", err)
	}
	return data, nil
}
