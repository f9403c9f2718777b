package trigger

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// ErrNoEvent is what FromRequest returns for a request that is no CloudEvent at all. Check with
// errors.Is.
var ErrNoEvent = errors.New("not a CloudEvent")

// An Event is what is read of a CloudEvent.
type Event struct {
	ID, Type    string
	Time        time.Time // zero: unknown
	ContentType string
	Data        []byte
}

// FromRequest returns the CloudEvent in r, in HTTP's binary content mode: in which Eventarc sends
// all of Firestore's
// (https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/http-protocol-binding.md).
// Its error is ErrNoEvent, or wraps ErrMalformed, or says that the request was not received whole,
// most likely because the caller went away.
func FromRequest(r *http.Request) (Event, error) {
	// More than any event has: two documents of at most 1 MiB each. Eventarc delivers events of up
	// to 512 KB (https://docs.cloud.google.com/eventarc/quotas).
	const maxBody = 4 << 20
	data, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return Event{}, fmt.Errorf("%w: its data is larger than %d bytes", ErrMalformed, maxBody)
	}
	if err != nil {
		return Event{}, fmt.Errorf("reading the event's data: %w", err)
	}
	if r.Header.Get("Ce-Specversion") != "1.0" {
		return Event{}, ErrNoEvent
	}
	for _, attribute := range []string{"Id", "Source", "Type"} {
		if r.Header.Get("Ce-"+attribute) == "" {
			return Event{}, fmt.Errorf("%w: it has no attribute Ce-%s", ErrMalformed, attribute)
		}
	}
	e := Event{ID: r.Header.Get("Ce-Id"), Type: r.Header.Get("Ce-Type"), ContentType: r.Header.Get("Content-Type"), Data: data}
	if t, err := time.Parse(time.RFC3339Nano, r.Header.Get("Ce-Time")); err == nil { // only metrics need it
		e.Time = t.UTC()
	}
	return e, nil
}
