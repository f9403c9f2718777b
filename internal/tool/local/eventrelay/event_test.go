package eventrelay

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// The events in testdata are about this document.
const shard3 = "projects/demo-tally/databases/(default)/documents/counters/likes/shards/3"

// captured returns a request that the emulator made, and its body.
func captured(t testing.TB, file string) (*http.Request, []byte) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return req, body
}

func shard(name string, count int64, created, updated time.Time) *firestoredata.Document {
	return &firestoredata.Document{
		Name: name,
		Fields: map[string]*firestoredata.Value{
			"count": {ValueType: &firestoredata.Value_IntegerValue{IntegerValue: count}},
		},
		CreateTime: timestamppb.New(created),
		UpdateTime: timestamppb.New(updated),
	}
}

func TestRepair(t *testing.T) {
	created := time.Date(2026, 11, 21, 3, 47, 16, 37_168_000, time.UTC)
	updated := time.Date(2026, 11, 21, 3, 47, 17, 243_067_000, time.UTC)
	one, two := shard(shard3, 1, created, created), shard(shard3, 2, created, updated)

	tests := []struct {
		file     string
		id, time string
		want     *firestoredata.DocumentEventData
	}{
		{"create.http", "dac879e0-55b4-45aa-9e50-d654829d0480", "2026-11-21T03:47:16Z",
			&firestoredata.DocumentEventData{Value: one}},
		{"update.http", "d6faa518-9af4-4676-821d-4a6b88cf7301", "2026-11-21T03:47:17Z",
			&firestoredata.DocumentEventData{Value: two, OldValue: one}},
		{"delete.http", "96bc57ab-f152-4422-8432-7c2d369339e5", "2026-11-21T03:47:18Z",
			&firestoredata.DocumentEventData{OldValue: two}},
	}
	for _, test := range tests {
		t.Run(test.file, func(t *testing.T) {
			req, body := captured(t, test.file)
			e, err := repair(req.Header, body)
			if err != nil {
				t.Fatal(err)
			}
			wantHeader := http.Header{
				"Ce-Specversion": {"1.0"},
				"Ce-Type":        {"google.cloud.firestore.document.v1.written"},
				"Ce-Source":      {"//firestore.googleapis.com/projects/demo-tally/databases/(default)"},
				"Ce-Id":          {test.id},
				"Ce-Subject":     {"documents/counters/likes/shards/3"},
				"Ce-Time":        {test.time},
				"Ce-Dataschema":  {dataSchema},
				"Ce-Location":    {"us-central1"},
				"Ce-Project":     {"demo-tally"},
				"Ce-Database":    {"(default)"},
				"Ce-Namespace":   {"(default)"},
				"Ce-Document":    {"counters/likes/shards/3"},
				"Content-Type":   {"application/protobuf"},
			}
			if diff := cmp.Diff(wantHeader, e.Header); diff != "" {
				t.Errorf("header (-want +got):\n%s", diff)
			}
			test.want.UpdateMask = &firestoredata.DocumentMask{} // present and empty
			got := new(firestoredata.DocumentEventData)
			if err := proto.Unmarshal(e.Body, got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got, protocmp.Transform()); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}

			again, err := repair(e.Header, e.Body)
			if err != nil {
				t.Fatalf("repair of a repaired event: %v", err)
			}
			if diff := cmp.Diff(e, again); diff != "" {
				t.Errorf("repaired twice (-once +twice):\n%s", diff)
			}
		})
	}
}

// A header loses the space that a document's id ends in. The event's data still tells it.
func TestRepairFindsTheDocument(t *testing.T) {
	want, err := NewEvent("id", time.Now(), nil, &firestoredata.Document{Name: shard3 + " "})
	if err != nil {
		t.Fatal(err)
	}
	trimmed := want.Header.Clone()
	for _, name := range []string{"Ce-Document", "Ce-Subject"} {
		trimmed.Set(name, strings.TrimSpace(trimmed.Get(name)))
	}
	got, err := repair(trimmed, want.Body)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestNewEvent(t *testing.T) {
	at := time.Date(2026, 11, 21, 4, 47, 17, 243_067_000, time.FixedZone("", 3600))
	doc := func(name string) *firestoredata.Document { return &firestoredata.Document{Name: name} }

	t.Run("header", func(t *testing.T) {
		e, err := NewEvent("id-1", at, doc(shard3), doc(shard3))
		if err != nil {
			t.Fatal(err)
		}
		// The emulator's own event of an update, without the values that only the emulator knows.
		req, body := captured(t, "update.http")
		want, err := repair(req.Header, body)
		if err != nil {
			t.Fatal(err)
		}
		want.Header.Del("Ce-Location")
		want.Header.Set("Ce-Id", "id-1")
		want.Header.Set("Ce-Time", "2026-11-21T03:47:17.243067Z")
		if diff := cmp.Diff(want.Header, e.Header); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if got := e.ID(); got != "id-1" {
			t.Errorf("ID() = %q, want id-1", got)
		}
	})

	t.Run("body", func(t *testing.T) {
		for _, want := range []*firestoredata.DocumentEventData{
			{Value: shard(shard3, 1, at, at)},
			{Value: shard(shard3, 2, at, at), OldValue: shard(shard3, 1, at, at)},
			{OldValue: shard(shard3, 1, at, at)},
		} {
			e, err := NewEvent("id", at, want.OldValue, want.Value)
			if err != nil {
				t.Fatal(err)
			}
			got := new(firestoredata.DocumentEventData)
			if err := proto.Unmarshal(e.Body, got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
	})

	t.Run("path", func(t *testing.T) {
		const root = "projects/p/databases/d/documents/"
		for _, path := range []string{"c/1", "c/日本 é%", "c/two\nlines\x7f", "c/ann "} {
			e, err := NewEvent("id", at, nil, doc(root+path))
			if err != nil {
				t.Errorf("%q: %v", path, err)
				continue
			}
			if got := e.Header.Get("Ce-Document"); got != path {
				t.Errorf("%q: ce-document = %q", path, got)
			}
			if got, want := e.Header.Get("Ce-Subject"), "documents/"+path; got != want {
				t.Errorf("%q: ce-subject = %q, want %q", path, got, want)
			}
		}
	})

	refused := []struct {
		name, id      string
		before, after *firestoredata.Document
		want          string
	}{
		{"no document", "id", nil, nil, "malformed document name"},
		{"short name", "id", nil, doc("counters/likes"), "malformed document name"},
		{"empty project", "id", nil, doc("projects//databases/d/documents/c/1"), "malformed document name"},
		{"collection of another kind", "id", nil, doc("projects/p/databases/d/indexes/c/1"), "malformed document name"},
		{"not UTF-8", "id", nil, doc("projects/p/databases/d/documents/c/\xff"), "UTF-8"},
	}
	for _, test := range refused {
		t.Run(test.name, func(t *testing.T) {
			_, err := NewEvent(test.id, at, test.before, test.after)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error = %v, want one with %q", err, test.want)
			}
		})
	}
}

// Whatever is posted, repair refuses it or makes an event that needs no further
// repair.
func FuzzRepair(f *testing.F) {
	for _, file := range []string{"create.http", "update.http", "delete.http"} {
		req, body := captured(f, file)
		f.Add(req.Header.Get("Ce-Source"), req.Header.Get("Ce-Document"), body)
	}
	f.Add("s", "d", []byte("\n\x00"))
	f.Fuzz(func(t *testing.T, source, document string, body []byte) {
		header := http.Header{
			"Ce-Id": {"id"}, "Ce-Specversion": {"1.0"}, "Ce-Type": {typeWritten},
			"Ce-Source": {source}, "Ce-Document": {document}, "Ce-Datacontenttype": {contentType},
		}
		e, err := repair(header, body)
		if err != nil {
			return
		}
		if e.Header.Get("Ce-Datacontenttype") != "" || e.Header.Get("Content-Type") != contentType {
			t.Fatalf("header %v", e.Header)
		}
		if err := proto.Unmarshal(e.Body, new(firestoredata.DocumentEventData)); err != nil {
			t.Fatalf("body %q: %v", e.Body, err)
		}
	})
}
