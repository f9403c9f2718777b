package trigger

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	"github.com/cloudevents/sdk-go/v2/types"
)

// ErrNoEvent is what FromRequest returns for a request that is no CloudEvent at all. Check with
// errors.Is.
var ErrNoEvent = errors.New("not a CloudEvent")

// FromRequest returns the CloudEvent in r. Its error is ErrNoEvent, or wraps ErrMalformed, or says
// that the request was not received whole, most likely because the caller went away.
//
// Eventarc sends events in HTTP's binary content mode. FromRequest takes from such an event only
// what Decode reads and the log names, and its time, which is that of the change's commit: to parse
// every attribute with the SDK costs more than all else that is done for an absorbed event. It
// leaves other requests that may be CloudEvents to the SDK.
func FromRequest(r *http.Request) (event.Event, error) {
	data, err := body(r)
	if err != nil {
		return event.Event{}, err
	}
	attributes := event.EventContextV1{ID: r.Header.Get("Ce-Id"), Type: r.Header.Get("Ce-Type")}
	contentType, subject := r.Header.Get("Content-Type"), r.Header.Get("Ce-Subject")
	attributes.DataContentType, attributes.Subject = &contentType, &subject
	if t, err := time.Parse(time.RFC3339Nano, r.Header.Get("Ce-Time")); err == nil { // only metrics need it
		attributes.Time = &types.Timestamp{Time: t}
	}
	if r.Header.Get("Ce-Specversion") == "1.0" && r.Header.Get("Ce-Source") != "" && attributes.ID != "" && attributes.Type != "" && contentType == protobuf {
		return event.Event{Context: &attributes, DataEncoded: data}, nil
	}
	message := cehttp.NewMessage(r.Header, io.NopCloser(bytes.NewReader(data)))
	if message.ReadEncoding() == binding.EncodingUnknown {
		return event.Event{}, ErrNoEvent
	}
	e, err := binding.ToEvent(r.Context(), message)
	if err == nil {
		err = e.Validate()
	}
	if err != nil {
		return event.Event{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return *e, nil
}

// maxBody is more than any event has: two documents of at most 1 MiB each. Eventarc delivers events
// of up to 512 KB (https://docs.cloud.google.com/eventarc/quotas).
const maxBody = 4 << 20

func body(r *http.Request) ([]byte, error) {
	data, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, fmt.Errorf("%w: its data is larger than %d bytes", ErrMalformed, maxBody)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the event's data: %w", err)
	}
	return data, nil
}
