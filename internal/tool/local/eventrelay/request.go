package eventrelay

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// maxData is the size in bytes of the largest data that Eventarc sends
// (https://cloud.google.com/eventarc/docs/quotas).
const maxData = 512 << 10

// Request returns the request that delivers the event to a target, as Eventarc has Pub/Sub make it:
//
//   - The target's address gets one more parameter, which names the form of events.
//   - Data that is too large is left out. The attribute document still names the document.
//   - Attributes are sent as headers. An attribute may hold characters that no header can, because
//     the document's id ends in a space or holds control characters. Then the message is sent in
//     Pub/Sub's usual form: JSON, with the attributes and base64 data
//     (https://github.com/firebase/firebase-functions/issues/1922).
func (e Event) Request(ctx context.Context, target string) (*http.Request, error) {
	address, err := url.Parse(target)
	if err != nil {
		return nil, fmt.Errorf("eventrelay: target: %w", err)
	}
	query := address.Query()
	query.Set("__GCP_CloudEventsMode", "CE_PUBSUB_BINDING")
	address.RawQuery = query.Encode()

	header, body := e.Header.Clone(), e.Body
	if len(body) > maxData {
		body = nil
	}
	if !sendable(header) {
		body, err = json.Marshal(newPush(header, body))
		if err != nil {
			return nil, fmt.Errorf("eventrelay: pushing event %s: %w", e.ID(), err)
		}
		header = http.Header{"Content-Type": {"application/json"}}
	}

	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address.String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("eventrelay: event %s: %w", e.ID(), err)
	}
	req.Header = header
	return req, nil
}

// control matches a control character, which a document's id may hold and a header may not.
var control = regexp.MustCompile(`[\x00-\x1f\x7f]`)

// sendable reports whether Google's front end sends all values as headers. In HTTP, spaces at
// either end are no part of a header's value.
func sendable(header http.Header) bool {
	for name := range header {
		value := header.Get(name)
		if control.MatchString(value) || strings.Trim(value, " ") != value {
			return false
		}
	}
	return true
}

// A push is the body of the request by which Pub/Sub pushes a message
// (https://cloud.google.com/pubsub/docs/push#receive_push).
type push struct {
	Message      pushMessage `json:"message"`
	Subscription string      `json:"subscription"`
}

// A pushMessage is the message in a push. Pub/Sub gives some of its fields under two names.
type pushMessage struct {
	Attributes   map[string]string `json:"attributes"`
	Data         []byte            `json:"data,omitempty"`
	MessageID    string            `json:"messageId"`
	MessageID2   string            `json:"message_id"`
	PublishTime  string            `json:"publishTime"`
	PublishTime2 string            `json:"publish_time"`
}

// newPush returns the push of an event.
func newPush(header http.Header, data []byte) push {
	attributes := make(map[string]string, len(header))
	for name := range header {
		attributes[strings.ToLower(name)] = header.Get(name)
	}
	attributes["ce-datacontenttype"] = header.Get("Content-Type")
	delete(attributes, "content-type")

	id, at := header.Get("Ce-Id"), header.Get("Ce-Time")
	return push{
		Message: pushMessage{
			Attributes:   attributes,
			Data:         data,
			MessageID:    id,
			MessageID2:   id,
			PublishTime:  at,
			PublishTime2: at,
		},
		Subscription: "projects/" + header.Get("Ce-Project") + "/subscriptions/eventarc-tally",
	}
}
