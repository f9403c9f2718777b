package trigger_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/trigger"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	written  = "google.cloud.firestore.document.v1.written"
	protobuf = "application/protobuf"
	name     = "projects/demo-p/databases/(default)/documents/counters/likes/shards/0"
)

// received returns the event of a type, as it comes in a form.
func received(t testing.TB, form form, eventType, contentType string, data []byte) trigger.Event {
	t.Helper()
	e, err := trigger.FromRequest(form.request(t, event().with("ce-type", eventType).with("ce-datacontenttype", contentType), data))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func marshal(t testing.TB, data *firestoredata.DocumentEventData) []byte {
	t.Helper()
	b, err := proto.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func document(name string) *firestoredata.Document {
	count := &firestoredata.Value{ValueType: &firestoredata.Value_IntegerValue{IntegerValue: 1}}
	return &firestoredata.Document{Name: name, Fields: map[string]*firestoredata.Value{"count": count}}
}

var updated = time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)

// updatedAt returns a document with an update time.
func updatedAt(t time.Time) *firestoredata.Document {
	d := document(name)
	d.UpdateTime = timestamppb.New(t)
	return d
}

// count says that the field count counts.
func count(string) []string { return []string{"count"} }

// TestUnchanged: an event changes no total if it is an update, and its old and new values of all
// fields that count are equal. What it does not tell is taken for a change.
func TestUnchanged(t *testing.T) {
	integer := func(i int64) *firestoredata.Value {
		return &firestoredata.Value{ValueType: &firestoredata.Value_IntegerValue{IntegerValue: i}}
	}
	doc := func(values ...any) *firestoredata.Document {
		d := &firestoredata.Document{Name: name, Fields: make(map[string]*firestoredata.Value)}
		for i := 0; i < len(values); i += 2 {
			d.Fields[values[i].(string)] = values[i+1].(*firestoredata.Value)
		}
		return d
	}
	mask := func(paths ...string) *firestoredata.DocumentMask {
		return &firestoredata.DocumentMask{FieldPaths: paths}
	}
	empty := &firestoredata.Value{}
	type update = firestoredata.DocumentEventData
	other := doc("count", integer(1))
	other.Name += "x"
	for _, test := range []struct {
		name   string
		data   *update
		fields []string
		want   bool
	}{
		{"created", &update{Value: doc()}, nil, false},
		{"deleted", &update{OldValue: doc()}, nil, false},
		{"edited, and counted", &update{Value: doc("text", integer(1)), OldValue: doc(), UpdateMask: mask("text")}, nil, true},
		{"another field", &update{Value: doc("count", integer(1), "text", integer(2)), OldValue: doc("count", integer(1)), UpdateMask: mask("text", "texts.count")}, []string{"count"}, true},
		{"the field", &update{Value: doc("count", integer(2)), OldValue: doc("count", integer(1))}, []string{"count"}, false},
		{"the second field", &update{Value: doc("a", integer(1), "b", integer(2)), OldValue: doc("a", integer(1), "b", integer(1))}, []string{"a", "b"}, false},
		{"neither field", &update{Value: doc("a", integer(1), "b", integer(2)), OldValue: doc("a", integer(1), "b", integer(2))}, []string{"a", "b"}, true},
		{"the field came", &update{Value: doc("count", integer(1)), OldValue: doc()}, []string{"count"}, false},
		{"the field came, of no type", &update{Value: doc("count", empty), OldValue: doc()}, []string{"count"}, false},
		{"the field went", &update{Value: doc(), OldValue: doc("count", integer(1))}, []string{"count"}, false},
		{"no such field", &update{Value: doc(), OldValue: doc()}, []string{"count"}, true},
		{"equal numbers of two types", &update{Value: doc("count", integer(1)), OldValue: doc("count", &firestoredata.Value{ValueType: &firestoredata.Value_DoubleValue{DoubleValue: 1}})}, []string{"count"}, false},
		{"the mask names it", &update{Value: doc("count", integer(1)), OldValue: doc("count", integer(1)), UpdateMask: mask("text", "count")}, []string{"count"}, false},
		{"the mask names what is in it", &update{Value: doc("count", integer(1)), OldValue: doc("count", integer(1)), UpdateMask: mask("count.x")}, []string{"count"}, false},
		{"the mask may name it", &update{Value: doc("count", integer(1)), OldValue: doc("count", integer(1)), UpdateMask: mask("`count`")}, []string{"count"}, false},
		{"the mask names another", &update{Value: doc("count", integer(1)), OldValue: doc("count", integer(1)), UpdateMask: mask("counted")}, []string{"count"}, true},
		{"two documents", &update{Value: doc("count", integer(1)), OldValue: other}, []string{"count"}, false},
	} {
		fields := func(path string) []string {
			if path != "counters/likes/shards/0" {
				t.Errorf("%s: asked for the fields of %s", test.name, path)
			}
			return test.fields
		}
		for _, form := range forms {
			c, err := trigger.Decode(received(t, form, written, protobuf, marshal(t, test.data)), fields)
			if err != nil || c.Unchanged != test.want {
				t.Errorf("%s, %s: unchanged %v, %v; want %v", test.name, form.name, c.Unchanged, err, test.want)
			}
		}
	}
}

func TestDecode(t *testing.T) {
	want := trigger.Change{ID: "e1", Project: "demo-p", Database: "(default)", Path: "counters/likes/shards/0"}
	dated := want
	dated.UpdateTime = updated
	unchanged, datedUnchanged := want, dated
	unchanged.Unchanged, datedUnchanged.Unchanged = true, true
	for _, test := range []struct {
		name      string
		eventType string
		data      *firestoredata.DocumentEventData
		want      trigger.Change
	}{
		{"created", written, &firestoredata.DocumentEventData{Value: document(name)}, want},
		{"updated", written, &firestoredata.DocumentEventData{Value: document(name), OldValue: document(name)}, unchanged},
		{"deleted", written, &firestoredata.DocumentEventData{OldValue: document(name)}, want},
		{"of a trigger of one kind", "google.cloud.firestore.document.v1.deleted", &firestoredata.DocumentEventData{OldValue: document(name)}, want},
		{"with the author", written + ".withAuthContext", &firestoredata.DocumentEventData{Value: document(name)}, want},
		{"of a named database", written, &firestoredata.DocumentEventData{Value: document("projects/p/databases/eu/documents/a/größe: 三")},
			trigger.Change{ID: "e1", Project: "p", Database: "eu", Path: "a/größe: 三"}},
		{"updated at a time", written, &firestoredata.DocumentEventData{Value: updatedAt(updated), OldValue: updatedAt(updated.Add(-time.Hour))}, datedUnchanged},
		{"deleted after an update", written, &firestoredata.DocumentEventData{OldValue: updatedAt(updated)}, dated},
		{"an older value with a later time", written, &firestoredata.DocumentEventData{Value: document(name), OldValue: updatedAt(updated)}, datedUnchanged},
		{"updated at no time", written, &firestoredata.DocumentEventData{Value: updatedAt(time.Unix(1<<60, 0))}, want},
	} {
		for _, form := range forms {
			got, err := trigger.Decode(received(t, form, test.eventType, protobuf, marshal(t, test.data)), count)
			if err != nil || got != test.want {
				t.Errorf("%s, %s: got %+v, %v; want %+v", test.name, form.name, got, err, test.want)
			}
		}
	}
}

// An event without documents names the one that changed by an attribute. It says nothing of the
// document's values and update times.
func TestDecodeWithoutDocuments(t *testing.T) {
	const path = "counters/likes/shards/0"
	mask := marshal(t, &firestoredata.DocumentEventData{UpdateMask: &firestoredata.DocumentMask{FieldPaths: []string{"text"}}})
	committed := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	oversized := event().with("ce-document", path).with("ce-time", committed.Format(time.RFC3339Nano))
	eu := "//firestore.googleapis.com/projects/p/databases/eu"
	want := trigger.Change{ID: "e1", Committed: committed, Project: "demo-p", Database: "(default)", Path: path}
	named := want
	named.Project, named.Database, named.Path = "p", "eu", "a/größe: 三%20"
	for _, test := range []struct {
		name       string
		attributes attributes
		data       []byte
		want       trigger.Change
	}{
		{"no data", oversized, nil, want},
		{"no data of no type", oversized.without("ce-datacontenttype"), nil, want},
		{"a mask alone", oversized, mask, want},
		{"of a named database", oversized.with("ce-source", eu).with("ce-document", named.Path), nil, named},
		{"and with documents, which say more", oversized.with("ce-document", "a/b"), marshal(t, &firestoredata.DocumentEventData{Value: document(name)}), want},
	} {
		for _, form := range forms {
			e, err := trigger.FromRequest(form.request(t, test.attributes, test.data))
			if err != nil {
				t.Errorf("%s, %s: %v", test.name, form.name, err)
				continue
			}
			for _, fields := range [][]string{nil, {"count"}} { // of a route that counts documents, and of one that sums
				got, err := trigger.Decode(e, func(string) []string { return fields })
				if err != nil || got != test.want {
					t.Errorf("%s, %s: got %+v, %v; want %+v", test.name, form.name, got, err, test.want)
				}
			}
		}
	}
}

func TestDecodeGarbage(t *testing.T) {
	good := marshal(t, &firestoredata.DocumentEventData{Value: document(name)})
	of := func(name string) []byte {
		return marshal(t, &firestoredata.DocumentEventData{Value: document(name)})
	}
	large := event().with("ce-document", "a/b")
	for _, test := range []struct {
		name       string
		attributes attributes
		data       []byte
		want       string // part of the message
	}{
		{"another type", event().with("ce-type", "google.cloud.storage.object.v1.finalized"), good, "its type is"},
		{"another content type", event().with("ce-datacontenttype", "application/json"), []byte("{}"), "its content type is"},
		{"no content type", event().without("ce-datacontenttype"), good, "its content type is"},
		{"truncated", event(), good[:len(good)-3], "no protocol buffer"},
		{"a truncated document", event(), []byte("\n\x02\n\x05"), "no protocol buffer"},
		{"a name of other bytes", event(), bytes.ReplaceAll(good, []byte("likes"), []byte("lik\xff\xff")), "invalid UTF-8"},
		{"no document", event(), nil, "names no document"},
		{"no name", event(), of(""), "not the name of a document"},
		{"no name, and another's", large, of(""), "not the name of a document"},
		{"a database's name", event(), of("projects/p/databases/d/documents"), "not the name of a document"},
		{"another resource", event(), of("projects/p/topics/d/documents/a/b"), "not the name of a document"},
		{"no document, of another source", large.with("ce-source", "//pubsub.googleapis.com/projects/p/databases/d"), nil, "not the name of a document"},
		{"no document, of no database", large.with("ce-source", "//firestore.googleapis.com/projects/p"), nil, "not the name of a document"},
	} {
		for _, form := range forms {
			e, err := trigger.FromRequest(form.request(t, test.attributes, test.data))
			if err == nil {
				_, err = trigger.Decode(e, count)
			}
			if !errors.Is(err, trigger.ErrMalformed) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s, %s: got %v, want ErrMalformed with %q", test.name, form.name, err, test.want)
			}
		}
	}

	// No call of Firestore can name such a document, so each would fail, for a day.
	e, err := trigger.FromRequest(binary(t, event().with("ce-document", "counters/gr\xf6\xdfe/shards/0"), nil))
	if err == nil {
		_, err = trigger.Decode(e, count)
	}
	if !errors.Is(err, trigger.ErrMalformed) {
		t.Errorf("a name that is not UTF-8: got %v, want ErrMalformed", err)
	}
}

// FuzzDecode: no bytes crash the decoder, what it accepts names a document, and it takes no update
// for unchanged that is not.
func FuzzDecode(f *testing.F) {
	f.Add(marshal(f, &firestoredata.DocumentEventData{Value: document(name), OldValue: document(name)}))
	f.Add(marshal(f, &firestoredata.DocumentEventData{OldValue: document("projects/p/databases/eu/documents/a/größe: 三")}))
	f.Add(marshal(f, &firestoredata.DocumentEventData{Value: &firestoredata.Document{}}))
	f.Add([]byte{})
	f.Add([]byte{0x0a, 0x00, 0x12, 0x00})       // both documents are there, and empty
	f.Add([]byte{0x0a, 0x05, 'x'})              // shorter than it says
	f.Add([]byte{0x0a, 0xff, 0xff, 0xff, 0x0f}) // much shorter
	f.Add([]byte{0x0b, 0x0b, 0x0b, 0x0c})       // groups that do not end
	twice := marshal(f, &firestoredata.DocumentEventData{Value: document("a")})
	f.Add(append(twice, marshal(f, &firestoredata.DocumentEventData{Value: document(name)})...))
	f.Add(append(twice, marshal(f, &firestoredata.DocumentEventData{Value: &firestoredata.Document{}})...))
	f.Add([]byte("\x08\x01\x10\x01\x1b\x1c\n\x02\x08\x01")) // fields of other types, and a group
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := trigger.Decode(received(t, forms[0], written, protobuf, data), count)
		if err != nil && !errors.Is(err, trigger.ErrMalformed) {
			t.Errorf("got %v, want ErrMalformed", err)
		}
		if same, pushedErr := trigger.Decode(received(t, forms[1], written, protobuf, data), count); same != c || (pushedErr == nil) != (err == nil) {
			t.Errorf("got %+v, %v; and pushed %+v, %v", c, err, same, pushedErr)
		}
		if err == nil && (c.Project == "" || c.Database == "" || c.Path == "") {
			t.Errorf("accepted %+v", c)
		}
		var full firestoredata.DocumentEventData
		if proto.Unmarshal(data, &full) != nil {
			if err == nil {
				t.Errorf("accepted %+v, of no protocol buffer", c)
			}
			return
		}
		if value, old := full.GetValue().GetFields()["count"], full.GetOldValue().GetFields()["count"]; c.Unchanged && !proto.Equal(value, old) {
			t.Errorf("unchanged, although %v became %v", old, value)
		}
		document := full.GetValue()
		if document == nil {
			document = full.GetOldValue()
		}
		parts := strings.SplitN(document.GetName(), "/", 6)
		named := len(parts) == 6 && parts[0] == "projects" && parts[2] == "databases" && parts[4] == "documents" &&
			parts[1] != "" && parts[3] != "" && parts[5] != ""
		if named != (err == nil) || named && (c.Project != parts[1] || c.Database != parts[3] || c.Path != parts[5]) {
			t.Errorf("got %+v, %v; the document's name is %q", c, err, document.GetName())
		}
	})
}

// FuzzDocumentName: a name that is accepted is exactly the parts that are told, and an event
// without the document tells the same.
func FuzzDocumentName(f *testing.F) {
	f.Add(name)
	f.Add("projects/p/databases/eu/documents/a/größe: 三")
	f.Add("projects/p/databases/(default)/documents/projects/p/databases/(default)/documents/a")
	f.Add("projects//databases/d/documents/a/b")
	f.Add("projects/p/databases/d/documents/a//b/")
	f.Fuzz(func(t *testing.T, name string) {
		data, err := proto.Marshal(&firestoredata.DocumentEventData{OldValue: document(name)})
		if err != nil {
			return // not UTF-8
		}
		c, err := trigger.Decode(received(t, forms[0], written, protobuf, data), count)
		if err != nil {
			if !errors.Is(err, trigger.ErrMalformed) {
				t.Errorf("%q: got %v, want ErrMalformed", name, err)
			}
			return
		}
		if strings.Contains(c.Project+c.Database, "/") || c.Path == "" ||
			"projects/"+c.Project+"/databases/"+c.Database+"/documents/"+c.Path != name {
			t.Errorf("%q is taken for %+v", name, c)
		}

		source, path, _ := strings.Cut(name, "/documents/")
		large := event().with("ce-source", "//firestore.googleapis.com/"+source).with("ce-document", path)
		e, err := trigger.FromRequest(pushed(t, large, nil))
		if err != nil {
			t.Fatal(err)
		}
		if same, err := trigger.Decode(e, count); same != c || err != nil {
			t.Errorf("%q without the document is taken for %+v, %v", name, same, err)
		}
	})
}
