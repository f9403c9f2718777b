package trigger_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/firestore-tally/tally/internal/cloud/trigger"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
)

// endpoint is what Eventarc posts to, in both forms.
const endpoint = "/?__GCP_CloudEventsMode=CE_PUBSUB_BINDING"

// attributes are an event's attributes, by the names that a Pub/Sub message has for them.
type attributes map[string]string

// event returns the attributes of an event.
func event() attributes {
	return attributes{
		"ce-id":              "e1",
		"ce-source":          "//firestore.googleapis.com/projects/demo-p/databases/(default)",
		"ce-specversion":     "1.0",
		"ce-type":            written,
		"ce-datacontenttype": protobuf,
	}
}

func (a attributes) with(name, value string) attributes {
	a = maps.Clone(a)
	a[name] = value
	return a
}

func (a attributes) without(name string) attributes {
	a = maps.Clone(a)
	delete(a, name)
	return a
}

// A form is one of the two in which Eventarc sends an event.
type form struct {
	name    string
	request func(t testing.TB, a attributes, data []byte) *http.Request
}

// forms are HTTP's binary content mode, and the message as Pub/Sub pushes it.
var forms = []form{{"binary", binary}, {"pushed", pushed}}

func binary(_ testing.TB, a attributes, data []byte) *http.Request {
	r := httptest.NewRequest(http.MethodPost, endpoint, bytes.NewReader(data))
	for name, value := range a {
		if name == "ce-datacontenttype" {
			name = "Content-Type"
		}
		r.Header.Set(name, value)
	}
	return r
}

func pushed(t testing.TB, a attributes, data []byte) *http.Request {
	t.Helper()
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	// As it was reported: https://github.com/firebase/firebase-functions/issues/1922.
	return push(fmt.Sprintf(`{"message":{"attributes":%s,"data":%q,"messageId":"13","message_id":"13",`+
		`"publishTime":"2026-11-21T10:00:00.5Z","publish_time":"2026-11-21T10:00:00.5Z"},`+
		`"subscription":"projects/demo-p/subscriptions/eventarc-nam5-tally-sub-1"}`, text, base64.StdEncoding.EncodeToString(data)))
}

// push returns a request with the body of a push.
func push(body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, endpoint, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return r
}

// Both forms tell the same event.
func TestFromRequest(t *testing.T) {
	data := marshal(t, &firestoredata.DocumentEventData{Value: documentOf(name)})
	large := bytes.Repeat([]byte("x"), 2<<20)
	tooLarge := bytes.Repeat([]byte("x"), 5<<20)
	for _, test := range []struct {
		name       string
		attributes attributes
		data       []byte
		err        error
	}{
		{"an event", event(), data, nil},
		{"as large as two documents", event(), large, nil},
		{"empty", event(), nil, nil},
		{"with parameters", event().with("ce-datacontenttype", protobuf+"; charset=x"), data, nil},
		{"with what no event has", event().with("ce-other", "x"), data, nil},
		{"no id", event().without("ce-id"), data, trigger.ErrMalformed},
		{"no source", event().without("ce-source"), data, trigger.ErrMalformed},
		{"no type", event().without("ce-type"), data, trigger.ErrMalformed},
		{"no version", event().without("ce-specversion"), data, trigger.ErrMalformed},
		{"too large", event(), tooLarge, trigger.ErrMalformed},
	} {
		for _, form := range forms {
			e, err := trigger.FromRequest(form.request(t, test.attributes, test.data))
			if !errors.Is(err, test.err) || (err == nil) != (test.err == nil) {
				t.Errorf("%s, %s: got %v, want %v", test.name, form.name, err, test.err)
			}
			if err != nil || test.err != nil {
				continue
			}
			want := test.attributes
			if e.ID != want["ce-id"] || e.Type != want["ce-type"] || e.Source != want["ce-source"] ||
				e.ContentType != want["ce-datacontenttype"] || !bytes.Equal(e.Data, test.data) {
				t.Errorf("%s, %s: got %.200v", test.name, form.name, e)
			}
		}
	}
}

// A malformed event says whose it is, as far as that can be read: the log names it.
func TestMalformedEventHasItsID(t *testing.T) {
	for _, form := range forms {
		e, err := trigger.FromRequest(form.request(t, event().without("ce-type").with("ce-subject", "documents/a/b "), nil))
		if !errors.Is(err, trigger.ErrMalformed) || e.ID != "e1" || e.Subject != "documents/a/b " && form.name == "pushed" {
			t.Errorf("%s: got %+v, %v", form.name, e, err)
		}
	}
}

// The attributes of a pushed event may hold what no header can.
func TestPushedAttributes(t *testing.T) {
	for _, id := range []string{"ann ", " ann", "a\nb", "a\r\nCe-Id: x", "a\x00b", "\x7f", `"quoted"`, "größe 三", "\u2028", "%41", "\t"} {
		e, err := trigger.FromRequest(pushed(t, event().with("ce-document", "counters/c/shards/"+id), nil))
		if err != nil || e.Document != "counters/c/shards/"+id {
			t.Errorf("%q: got %q, %v", id, e.Document, err)
		}
	}
}

// Google's binding names the content type in either of two ways.
func TestPushedContentType(t *testing.T) {
	e, err := trigger.FromRequest(pushed(t, event().without("ce-datacontenttype").with("content-type", protobuf), []byte("data")))
	if err != nil || e.ContentType != protobuf {
		t.Errorf("got %+v, %v", e, err)
	}
}

// Whatever comes to the address that only Eventarc knows is an event, malformed if it cannot be
// read: to refuse it would have it sent for a day, and slow down all others of the trigger.
func TestMalformedPush(t *testing.T) {
	var many strings.Builder // attributes, as many as there is room for
	many.WriteString(`{"message":{"attributes":{`)
	for i := range 300_000 {
		fmt.Fprintf(&many, `"%x":"",`, i)
	}
	many.WriteString(`"ce-id":"e1"}}}`)

	for _, body := range []string{
		"", "hello", "null", "[]", "null null", "{}", `{"message":null}`, `{"message":"x"}`, `{"message":{}}`, `{"message":{"data":"aGVsbG8="}}`,
		`{"message":{"attributes":["ce-id"]}}`, `{"message":{"attributes":{"ce-id":1}}}`,
		`{"message":{"attributes":{"ce-id":"e1","ce-source":"s","ce-specversion":"1.0","ce-type":"t"},"data":"?"}}`,
		`{"message":{"attributes":{"ce-id":"e1","ce-source":"s","ce-specversion":"1.0","ce-type":"t"},"data":"aGVsbG8"}}`,
		`{"message":{"attributes":{"ce-id":"e1","ce-source":"s","ce-specversion":"1.0","ce-type":"t"}}} and more`,
		`{"message":{"attributes":{"ce-id":"e1","ce-source":"s","ce-specversion":"2.0","ce-type":"t"}}}`,
		strings.Repeat("[", 1<<20),
		many.String(),
	} {
		_, err := trigger.FromRequest(push(body))
		if !errors.Is(err, trigger.ErrMalformed) {
			t.Errorf("%.80s: got %v, want ErrMalformed", body, err)
		}
	}
}

// What is neither an event in binary mode nor posted to Eventarc's address comes from somebody
// else. Its body is not read.
func TestNoEvent(t *testing.T) {
	data := marshal(t, &firestoredata.DocumentEventData{Value: documentOf(name)})
	elsewhere := func(r *http.Request, target string) *http.Request {
		r.URL = httptest.NewRequest(http.MethodPost, target, nil).URL
		r.Body = io.NopCloser(iotest.ErrReader(errors.New("read")))
		return r
	}
	for what, r := range map[string]*http.Request{
		"pushed elsewhere":        elsewhere(pushed(t, event(), data), "/"),
		"pushed in another mode":  elsewhere(pushed(t, event(), data), "/?__GCP_CloudEventsMode=OTHER"),
		"of no version":           elsewhere(binary(t, event().without("ce-specversion"), data), "/"),
		"of an unknown version":   elsewhere(binary(t, event().with("ce-specversion", "2.0"), data), endpoint),
		"structured":              elsewhere(binary(t, attributes{"ce-datacontenttype": "application/cloudevents+json"}, nil), "/"),
		"a query that is garbage": elsewhere(binary(t, attributes{}, nil), "/?%zz;&&="),
	} {
		if _, err := trigger.FromRequest(r); !errors.Is(err, trigger.ErrNoEvent) {
			t.Errorf("%s: got %v, want ErrNoEvent", what, err)
		}
	}
}

// A request that is cut short is not an event yet: it is delivered again.
func TestCutShort(t *testing.T) {
	for _, form := range forms {
		r := form.request(t, event(), []byte("data"))
		r.Body = io.NopCloser(iotest.TimeoutReader(iotest.OneByteReader(r.Body)))
		e, err := trigger.FromRequest(r)
		if !errors.Is(err, iotest.ErrTimeout) || errors.Is(err, trigger.ErrMalformed) || errors.Is(err, trigger.ErrNoEvent) {
			t.Errorf("%s: got %+v, %v; want the reader's error", form.name, e, err)
		}
	}
}

// The time of an event is the change's commit time. An invalid time does not keep the event from
// its counter.
func TestTimeOfEvent(t *testing.T) {
	for value, want := range map[string]string{
		"2026-11-21T10:00:00.123456Z": "2026-11-21 10:00:00.123456 +0000 UTC",
		"noon":                        "0001-01-01 00:00:00 +0000 UTC",
		"":                            "0001-01-01 00:00:00 +0000 UTC",
	} {
		for _, form := range forms {
			e, err := trigger.FromRequest(form.request(t, event().with("ce-time", value), nil))
			if got := e.Time.String(); got != want || err != nil {
				t.Errorf("%q, %s: got %s, %v; want %s", value, form.name, got, err, want)
			}
		}
	}
}

// FuzzPush: no body crashes the decoder. It is an event or malformed.
func FuzzPush(f *testing.F) {
	for _, data := range [][]byte{nil, marshal(f, &firestoredata.DocumentEventData{Value: documentOf(name)})} {
		body, err := io.ReadAll(pushed(f, event().with("ce-document", "counters/likes/shards/ann "), data).Body)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(body))
	}
	f.Add(`{"Message":{"Attributes":{"ce-id":null},"data":null}}`)
	f.Add(`{"message":{"attributes":{"ce-id":"\ud800"},"data":"AA\n=="}}`)
	f.Fuzz(func(t *testing.T, body string) {
		e, err := trigger.FromRequest(push(body))
		if err == nil && (e.ID == "" || e.Source == "" || e.Type == "") {
			t.Errorf("accepted %+v", e)
		}
		if err == nil {
			_, err = trigger.Decode(e)
		}
		if err != nil && !errors.Is(err, trigger.ErrMalformed) {
			t.Errorf("got %v, want ErrMalformed", err)
		}
	})
}
