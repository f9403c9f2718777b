package trigger_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/firestore-tally/tally/internal/trigger"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
)

func TestFromRequest(t *testing.T) {
	data := marshal(t, &firestoredata.DocumentEventData{Value: document(name)})
	binary := http.Header{"Ce-Id": {"e1"}, "Ce-Source": {"//firestore"}, "Ce-Specversion": {"1.0"}, "Ce-Type": {written},
		"Content-Type": {protobuf}}
	with := func(key, value string) http.Header {
		h := binary.Clone()
		h.Set(key, value)
		return h
	}
	without := func(key string) http.Header {
		h := binary.Clone()
		h.Del(key)
		return h
	}
	structured := http.Header{"Content-Type": {"application/cloudevents+json"}}
	for _, test := range []struct {
		name   string
		header http.Header
		body   io.Reader
		want   string // the event's data
		err    error
	}{
		{"binary", binary, bytes.NewReader(data), string(data), nil},
		{"binary of unknown length", binary, io.MultiReader(bytes.NewReader(data)), string(data), nil},
		{"binary and large", binary, strings.NewReader(strings.Repeat("x", 1<<20)), strings.Repeat("x", 1<<20), nil},
		{"binary and empty", binary, http.NoBody, "", nil},
		{"an unknown spec's binary", with("Ce-Specversion", "2.0"), bytes.NewReader(data), "", trigger.ErrNoEvent},
		{"with parameters", with("Content-Type", protobuf+"; charset=x"), bytes.NewReader(data), string(data), nil},
		{"structured", structured, strings.NewReader("{}"), "", trigger.ErrNoEvent},
		{"no id", without("Ce-Id"), bytes.NewReader(data), "", trigger.ErrMalformed},
		{"no source", without("Ce-Source"), bytes.NewReader(data), "", trigger.ErrMalformed},
		{"no type", without("Ce-Type"), bytes.NewReader(data), "", trigger.ErrMalformed},
		{"no event", http.Header{}, strings.NewReader("hello"), "", trigger.ErrNoEvent},
		{"cut short", binary, iotest.TimeoutReader(iotest.OneByteReader(bytes.NewReader(data))), "", iotest.ErrTimeout},
	} {
		r := httptest.NewRequest(http.MethodPost, "/", test.body)
		r.Header = test.header
		e, err := trigger.FromRequest(r)
		if !errors.Is(err, test.err) {
			t.Errorf("%s: got %v, want %v", test.name, err, test.err)
		}
		if err != nil || test.err != nil {
			continue
		}
		if e.ID != "e1" || e.Type != written || string(e.Data) != test.want {
			t.Errorf("%s: got %+v", test.name, e)
		}
	}
}

// The time of an event is that of the change's commit. A time that is none does not keep the event
// from its counter.
func TestTimeOfEvent(t *testing.T) {
	for value, want := range map[string]string{
		"2026-11-21T10:00:00.123456Z": "2026-11-21 10:00:00.123456 +0000 UTC",
		"noon":                        "0001-01-01 00:00:00 +0000 UTC",
		"":                            "0001-01-01 00:00:00 +0000 UTC",
	} {
		r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
		r.Header = http.Header{"Ce-Id": {"e1"}, "Ce-Source": {"//firestore"}, "Ce-Specversion": {"1.0"}, "Ce-Type": {written},
			"Ce-Time": {value}, "Content-Type": {protobuf}}
		e, err := trigger.FromRequest(r)
		if got := e.Time.String(); got != want || err != nil {
			t.Errorf("%q: got %s, %v; want %s", value, got, err, want)
		}
	}
}
