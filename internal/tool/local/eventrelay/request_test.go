package eventrelay

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
)

// newEventAt returns the event of a document with that path.
func newEventAt(t testing.TB, path string) Event {
	t.Helper()
	name := "projects/demo-p/databases/(default)/documents/" + path
	e, err := NewEvent("e", time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC), nil, &firestoredata.Document{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Over a real connection: a target gets the event as headers and data or, if a header cannot carry
// what the event says, as Pub/Sub pushes it.
func TestRequest(t *testing.T) {
	var got *http.Request
	var body []byte
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
	}))
	defer target.Close()
	for _, test := range []struct {
		id     string
		pushed bool
	}{
		{"ann", false},
		{"größe 三", false},
		{" ann", false}, // amid the path
		{`"ann"`, false},
		{"%20", false},
		{"ann ", true},
		{"ann\t", true},
		{"a\tb", true},
		{"a\nb", true},
		{"a\r\nCe-Id: other", true},
		{"\x00", true},
		{"\x7f", true},
		{"a\u2028<&>", false},
		{"\u2028<&> ", true},
	} {
		e := newEventAt(t, "counters/c/shards/"+test.id)
		r, err := e.Request(t.Context(), target.URL+"/f?project=p")
		if err != nil {
			t.Errorf("%q: %v", test.id, err)
			continue
		}
		res, err := target.Client().Do(r)
		if err != nil {
			t.Errorf("%q: %v", test.id, err)
			continue
		}
		res.Body.Close()

		if query := got.URL.RawQuery; query != "__GCP_CloudEventsMode=CE_PUBSUB_BINDING&project=p" {
			t.Errorf("%q: query %q", test.id, query)
		}
		if !test.pushed {
			for name := range e.Header {
				if got.Header.Get(name) != e.Header.Get(name) {
					t.Errorf("%q: %s is %q, want %q", test.id, name, got.Header.Get(name), e.Header.Get(name))
				}
			}
			if d := cmp.Diff(e.Body, body); d != "" {
				t.Errorf("%q: body (-want +got):\n%s", test.id, d)
			}
			continue
		}

		for name := range got.Header {
			if strings.HasPrefix(name, "Ce-") {
				t.Errorf("%q: pushed with the header %s", test.id, name)
			}
		}
		if got.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%q: Content-Type %q", test.id, got.Header.Get("Content-Type"))
		}
		var document any
		if err := json.Unmarshal(body, &document); err != nil {
			t.Errorf("%q: %v", test.id, err)
		}
		if d := cmp.Diff(wantPush(t, e), document); d != "" {
			t.Errorf("%q: body (-want +got):\n%s", test.id, d)
		}
	}
}

// wantPush returns the push that tells what an event's headers and data do.
func wantPush(t *testing.T, e Event) any {
	t.Helper()
	data, err := json.Marshal(e.Body)
	if err != nil {
		t.Fatal(err)
	}
	const at = "2026-11-21T10:00:00Z"
	return map[string]any{
		"message": map[string]any{
			"attributes": map[string]any{
				"ce-specversion": "1.0", "ce-type": typeWritten, "ce-id": "e", "ce-time": at, "ce-dataschema": dataSchema,
				"ce-source":  "//firestore.googleapis.com/projects/demo-p/databases/(default)",
				"ce-project": "demo-p", "ce-database": "(default)", "ce-namespace": "(default)",
				"ce-document": e.Header.Get("Ce-Document"), "ce-subject": "documents/" + e.Header.Get("Ce-Document"),
				"ce-datacontenttype": contentType,
			},
			"data":      strings.Trim(string(data), `"`),
			"messageId": "e", "message_id": "e", "publishTime": at, "publish_time": at,
		},
		"subscription": "projects/demo-p/subscriptions/eventarc-tally",
	}
}

// Eventarc's limit leaves the documents out, in both forms.
func TestLargeEventHasNoDocuments(t *testing.T) {
	for _, id := range []string{"ann", "ann "} {
		for _, size := range []int{maxData, maxData + 1} {
			e := newEventAt(t, "counters/c/shards/"+id)
			e.Body = make([]byte, size)
			r, err := e.Request(t.Context(), "http://a")
			if err != nil {
				t.Fatal(err)
			}
			if sent := r.ContentLength > maxData/2; sent != (size <= maxData) {
				t.Errorf("%q, %d bytes of data: a request of %d bytes", id, size, r.ContentLength)
			}
		}
	}
}

func TestRequestToNoAddress(t *testing.T) {
	for _, target := range []string{"http://a b", "http://%zz"} {
		if _, err := newEventAt(t, "a/b").Request(t.Context(), target); err == nil || !strings.Contains(err.Error(), "eventrelay: target") {
			t.Errorf("%s: got %v", target, err)
		}
	}
}
