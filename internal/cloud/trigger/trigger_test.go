package trigger_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/firestore-tally/tally/internal/cloud/trigger"
	"github.com/firestore-tally/tally/internal/document"
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

func documentOf(name string) *firestoredata.Document {
	count := &firestoredata.Value{ValueType: &firestoredata.Value_IntegerValue{IntegerValue: 1}}
	return &firestoredata.Document{Name: name, Fields: map[string]*firestoredata.Value{"count": count}}
}

var updated = time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)

// updatedAt returns a document with an update time.
func updatedAt(t time.Time) *firestoredata.Document {
	d := documentOf(name)
	d.UpdateTime = timestamppb.New(t)
	return d
}

// told is what a change says, without its documents' fields.
type told struct {
	id                      string
	committed               time.Time
	project, database, path string
	updateTime              time.Time
	known, updated          bool
}

func tell(c trigger.Change) told {
	return told{c.ID, c.Committed, c.Project, c.Database, c.Path(), c.UpdateTime, c.Known(), c.Updated()}
}

// doc returns a document with fields, names and values in turn.
func doc(values ...any) *firestoredata.Document {
	return &firestoredata.Document{Name: name, Fields: mapOf(values...).GetMapValue().GetFields()}
}

// mapOf returns a map with fields likewise.
func mapOf(values ...any) *firestoredata.Value {
	fields := make(map[string]*firestoredata.Value)
	for i := 0; i < len(values); i += 2 {
		fields[values[i].(string)] = values[i+1].(*firestoredata.Value)
	}
	return &firestoredata.Value{ValueType: &firestoredata.Value_MapValue{MapValue: &firestoredata.MapValue{Fields: fields}}}
}

func integer(i int64) *firestoredata.Value {
	return &firestoredata.Value{ValueType: &firestoredata.Value_IntegerValue{IntegerValue: i}}
}

func double(f float64) *firestoredata.Value {
	return &firestoredata.Value{ValueType: &firestoredata.Value_DoubleValue{DoubleValue: f}}
}

func text(s string) *firestoredata.Value {
	return &firestoredata.Value{ValueType: &firestoredata.Value_StringValue{StringValue: s}}
}

func mask(paths ...string) *firestoredata.DocumentMask {
	return &firestoredata.DocumentMask{FieldPaths: paths}
}

type update = firestoredata.DocumentEventData

// decode decodes an event with documents, in a form.
func decode(t *testing.T, form form, data *update) trigger.Change {
	t.Helper()
	c, err := trigger.Decode(received(t, form, written, protobuf, marshal(t, data)))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// An update leaves a field unchanged if the field's old and new values are equal, and the event's
// mask does not name it. If the event does not show a field, it counts as changed.
func TestChanged(t *testing.T) {
	ann, bob := mapOf("id", text("ann")), mapOf("id", text("bob"))
	longer := mapOf("id", text("ann"), "city", text("x"))
	for _, test := range []struct {
		name  string
		data  *update
		field document.Field
		want  bool
	}{
		{"another field", &update{Value: doc("count", integer(1), "text", integer(2)), OldValue: doc("count", integer(1)), UpdateMask: mask("text", "texts.count")}, "count", false},
		{"the field", &update{Value: doc("count", integer(2)), OldValue: doc("count", integer(1))}, "count", true},
		{"the field came", &update{Value: doc("count", integer(1)), OldValue: doc()}, "count", true},
		{"the field came, of no type", &update{Value: doc("count", &firestoredata.Value{}), OldValue: doc()}, "count", true},
		{"the field went", &update{Value: doc(), OldValue: doc("count", integer(1))}, "count", true},
		{"no such field", &update{Value: doc(), OldValue: doc()}, "count", false},
		{"equal numbers of two types", &update{Value: doc("count", integer(1)), OldValue: doc("count", double(1))}, "count", true},
		{"the mask names it", &update{Value: doc("count", integer(1)), OldValue: doc("count", integer(1)), UpdateMask: mask("text", "count")}, "count", true},
		{"the mask names what is in it", &update{Value: doc("count", integer(1)), OldValue: doc("count", integer(1)), UpdateMask: mask("count.x")}, "count", true},
		{"the mask quotes it", &update{Value: doc("count", integer(1)), OldValue: doc("count", integer(1)), UpdateMask: mask("`count`")}, "count", true},
		{"the mask names another", &update{Value: doc("count", integer(1)), OldValue: doc("count", integer(1)), UpdateMask: mask("counted")}, "count", false},
		{"the mask names one with a dot", &update{Value: doc("a", integer(1)), OldValue: doc("a", integer(1)), UpdateMask: mask("`a.b`")}, "a", false},

		{"in a map", &update{Value: doc("customer", bob), OldValue: doc("customer", ann)}, "customer.id", true},
		{"next to it in the map", &update{Value: doc("customer", longer), OldValue: doc("customer", ann), UpdateMask: mask("customer.city")}, "customer.id", false},
		{"the map came", &update{Value: doc("customer", ann), OldValue: doc()}, "customer.id", true},
		{"the map came, without it", &update{Value: doc("customer", mapOf()), OldValue: doc()}, "customer.id", false},
		{"the map is not a map now", &update{Value: doc("customer", text("ann")), OldValue: doc("customer", ann)}, "customer.id", true},
		{"it never was a map", &update{Value: doc("customer", text("ann")), OldValue: doc("customer", text("bob"))}, "customer.id", false},
		{"the mask names the map", &update{Value: doc("customer", ann), OldValue: doc("customer", ann), UpdateMask: mask("customer")}, "customer.id", true},
		{"the mask names it in the map", &update{Value: doc("customer", ann), OldValue: doc("customer", ann), UpdateMask: mask("customer.id")}, "customer.id", true},
		{"a name that is the path", &update{Value: doc("customer", ann, "customer.id", text("a")), OldValue: doc("customer", ann, "customer.id", text("b")), UpdateMask: mask("`customer.id`")}, "customer.id", false},

		{"a quoted name", &update{Value: doc("unit price", integer(2)), OldValue: doc("unit price", integer(1))}, "`unit price`", true},
		{"next to a quoted name", &update{Value: doc("unit price", integer(1), "x", integer(1)), OldValue: doc("unit price", integer(1)), UpdateMask: mask("x", "unit")}, "`unit price`", false},
		{"the mask names a quoted one", &update{Value: doc("unit price", integer(1)), OldValue: doc("unit price", integer(1)), UpdateMask: mask("`unit price`")}, "`unit price`", true},
		{"the mask does not quote it", &update{Value: doc("größe", integer(1)), OldValue: doc("größe", integer(1)), UpdateMask: mask("größe")}, "`größe`", true},
		{"in a quoted map", &update{Value: doc("a.b", mapOf("`", integer(2))), OldValue: doc("a.b", mapOf("`", integer(1)))}, "`a.b`.`\\``", true},
		{"the mask names the quoted map", &update{Value: doc("a.b", mapOf("c", integer(1))), OldValue: doc("a.b", mapOf("c", integer(1))), UpdateMask: mask("`a.b`")}, "`a.b`.c", true},
	} {
		for _, form := range forms {
			c := decode(t, form, test.data)
			if got := c.Changed(test.field); !c.Known() || !c.Updated() || got != test.want {
				t.Errorf("%s, %s: known %v, updated %v, changed %v; want %v", test.name, form.name, c.Known(), c.Updated(), got, test.want)
			}
		}
	}
}

// An update is of one document that was there before and is there after.
func TestUpdated(t *testing.T) {
	other := doc()
	other.Name += "x"
	for _, test := range []struct {
		name string
		data *update
		want bool
	}{
		{"created", &update{Value: doc()}, false},
		{"deleted", &update{OldValue: doc()}, false},
		{"edited", &update{Value: doc("text", integer(1)), OldValue: doc(), UpdateMask: mask("text")}, true},
		{"two documents", &update{Value: doc(), OldValue: other}, false},
	} {
		if c := decode(t, forms[0], test.data); c.Updated() != test.want {
			t.Errorf("%s: got %v", test.name, c.Updated())
		}
	}
}

// Held are the values before and after, of the kinds that keys may have.
func TestHeld(t *testing.T) {
	const documents = "projects/demo-p/databases/(default)/documents/"
	at := time.Date(2026, 11, 27, 12, 0, 0, 5000, time.UTC)
	ref := func(name string) *firestoredata.Value {
		return &firestoredata.Value{ValueType: &firestoredata.Value_ReferenceValue{ReferenceValue: name}}
	}
	for _, test := range []struct {
		name          string
		data          *update
		field         document.Field
		before, after any
	}{
		{"moved", &update{OldValue: doc("shop", text("a")), Value: doc("shop", text("b"))}, "shop", "a", "b"},
		{"created", &update{Value: doc("shop", text("b"))}, "shop", nil, "b"},
		{"deleted", &update{OldValue: doc("shop", text("a"))}, "shop", "a", nil},
		{"a number before", &update{OldValue: doc("shop", integer(7)), Value: doc("shop", text("7"))}, "shop", int64(7), "7"},
		{"no field", &update{OldValue: doc(), Value: doc("x", text("b"))}, "shop", nil, nil},
		{"in a map", &update{OldValue: doc("customer", mapOf("id", text("ann"))), Value: doc("customer", text("bob"))}, "customer.id", "ann", nil},
		{"a quoted name", &update{OldValue: doc("the shop", text("a/b")), Value: doc("the.shop", text("c"))}, "`the shop`", "a/b", nil},
		{"a double and a time", &update{OldValue: doc("x", &firestoredata.Value{ValueType: &firestoredata.Value_DoubleValue{DoubleValue: 0.5}}),
			Value: doc("x", &firestoredata.Value{ValueType: &firestoredata.Value_TimestampValue{TimestampValue: timestamppb.New(at)}})}, "x", 0.5, at},
		{"references", &update{OldValue: doc("x", ref(documents+"users/ann")), Value: doc("x", ref("projects/demo-p/databases/other/documents/users/ann"))}, "x", document.Reference("users/ann"), nil},
		{"a reference of another project", &update{Value: doc("x", ref("projects/demo-q/databases/(default)/documents/users/ann"))}, "x", nil, nil},
		{"kinds that no key has", &update{OldValue: doc("x", mapOf("id", text("ann"))), Value: doc("x", &firestoredata.Value{ValueType: &firestoredata.Value_BooleanValue{BooleanValue: true}})}, "x", nil, nil},
	} {
		before, after := decode(t, forms[1], test.data).Held(test.field)
		if before != test.before || after != test.after {
			t.Errorf("%s: got %v and %v, want %v and %v", test.name, before, after, test.before, test.after)
		}
	}
}

// A field's values are as the SDK decodes them, as far as conditions compare them. A null may hide
// a time, unless Tally wrote it.
func TestValue(t *testing.T) {
	null := &firestoredata.Value{ValueType: &firestoredata.Value_NullValue{}}
	yes := &firestoredata.Value{ValueType: &firestoredata.Value_BooleanValue{BooleanValue: true}}
	for _, test := range []struct {
		value *firestoredata.Value
		want  any
		ok    bool
	}{
		{nil, nil, false},
		{yes, true, true},
		{&firestoredata.Value{ValueType: &firestoredata.Value_BooleanValue{}}, false, true},
		{null, document.Hidden{}, true},
		{text("x"), "x", true},
		{text(""), "", true},
		{integer(0), int64(0), true},
		{mapOf("x", yes), nil, true},
	} {
		with, without := doc(), doc()
		if test.value != nil {
			with = doc("x", test.value)
		}
		for _, after := range []bool{false, true} {
			data := &update{OldValue: with, Value: without}
			if after {
				data = &update{OldValue: without, Value: with}
			}
			got, ok := decode(t, forms[0], data).Value("x", after)
			if _, unknown := got.(struct{}); ok != test.ok || decode(t, forms[0], data).Has("x", after) != ok || test.want != nil && got != test.want || unknown {
				t.Errorf("%v, after %v: got %#v, %v", test.value, after, got, ok)
			}
			if got, ok := decode(t, forms[0], data).Value("x", !after); ok {
				t.Errorf("%v, after %v: got %#v of the other document", test.value, !after, got)
			}
		}
	}

	rolledUp := &update{OldValue: doc("x", null), Value: doc("x", null, "tally", mapOf("num_shards", integer(1)))}
	if got, ok := decode(t, forms[0], rolledUp).Value("x", true); got != nil || !ok {
		t.Errorf("a roll-up's null is %#v, %v", got, ok)
	}
	if got, ok := decode(t, forms[0], &update{OldValue: doc("x", yes)}).Value("x", true); ok {
		t.Errorf("a deleted document has %v", got)
	}
}

// A null may hide a time that the server set, but not if the write was Tally's own: then it changed
// the field tally.
func TestMayHide(t *testing.T) {
	null := &firestoredata.Value{ValueType: &firestoredata.Value_NullValue{}}
	for _, test := range []struct {
		data *update
		want bool
	}{
		{&update{Value: doc("at", null)}, true},
		{&update{OldValue: doc("at", null), Value: doc("at", text("x"))}, false},
		{&update{OldValue: doc("at", null), Value: doc()}, false},
		{&update{OldValue: doc("at", null)}, false},
		{&update{OldValue: doc("at", null), Value: doc("at", null, "tally", mapOf("num_shards", integer(1)))}, false},
		{&update{OldValue: doc("at", null, "tally", mapOf("num_shards", integer(1))), Value: doc("at", null, "tally", mapOf("num_shards", integer(2)))}, false},
		{&update{OldValue: doc("at", null, "tally", mapOf("num_shards", integer(1))), Value: doc("at", null, "tally", mapOf("num_shards", integer(1)))}, true},
		{&update{OldValue: doc("at", null, "tally", mapOf("num_shards", integer(1))), Value: doc("at", null)}, true}, // set without merge
		{&update{Value: doc("at", null, "tally", mapOf("num_shards", integer(1)))}, true},
	} {
		if got := decode(t, forms[0], test.data).MayHideTime("at"); got != test.want {
			t.Errorf("%v: got %v", test.data, got)
		}
	}
}

// Holds names kinds as package value does.
func TestHolds(t *testing.T) {
	for want, v := range map[string]*firestoredata.Value{
		"a string":    text("a"),
		"a number":    integer(7),
		"a map":       mapOf("id", text("ann")),
		"null":        {ValueType: &firestoredata.Value_NullValue{}},
		"a boolean":   {ValueType: &firestoredata.Value_BooleanValue{}},
		"a timestamp": {ValueType: &firestoredata.Value_TimestampValue{}},
		"an array":    {ValueType: &firestoredata.Value_ArrayValue{}},
		"bytes":       {ValueType: &firestoredata.Value_BytesValue{}},
		"a reference": {ValueType: &firestoredata.Value_ReferenceValue{}},
		"a place":     {ValueType: &firestoredata.Value_GeoPointValue{}},
	} {
		kind, held := decode(t, forms[0], &update{Value: doc("shop", v)}).Holds("shop")
		text, _ := held.(string)
		if kind != want || text != v.GetStringValue() {
			t.Errorf("%v: got %s and %v, want %s", v, kind, held, want)
		}
	}
	if kind, held := decode(t, forms[0], &update{Value: doc()}).Holds("shop"); kind != "" || held != nil {
		t.Errorf("without the field: got %s and %v", kind, held)
	}
}

// A change that forgets its documents is as one that never had them.
func TestForget(t *testing.T) {
	at := event().with("ce-time", updated.Format(time.RFC3339Nano))
	e, err := trigger.FromRequest(binary(t, at, marshal(t, &update{OldValue: doc("shop", text("a")), Value: updatedAt(updated), UpdateMask: mask("shop")})))
	if err != nil {
		t.Fatal(err)
	}
	c, err := trigger.Decode(e)
	if err != nil {
		t.Fatal(err)
	}

	want := told{"e1", updated, "demo-p", "(default)", "counters/likes/shards/0", updated, true, true}
	if got := tell(c); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	want.known, want.updated = false, false
	if got := tell(c.WithoutDocuments()); got != want {
		t.Errorf("forgot: got %+v, want %+v", got, want)
	}
	if before, after := c.WithoutDocuments().Held("shop"); before != nil || after != nil {
		t.Errorf("it still knows %v and %v", before, after)
	}
	if before, _ := c.Held("shop"); before != "a" {
		t.Error("the change that it was made of forgot, too")
	}
}

func TestDecode(t *testing.T) {
	want := told{id: "e1", project: "demo-p", database: "(default)", path: "counters/likes/shards/0", known: true}
	dated := want
	dated.updateTime = updated
	edited, datedEdited := want, dated
	edited.updated, datedEdited.updated = true, true
	for _, test := range []struct {
		name      string
		eventType string
		data      *firestoredata.DocumentEventData
		want      told
	}{
		{"created", written, &firestoredata.DocumentEventData{Value: documentOf(name)}, want},
		{"updated", written, &firestoredata.DocumentEventData{Value: documentOf(name), OldValue: documentOf(name)}, edited},
		{"deleted", written, &firestoredata.DocumentEventData{OldValue: documentOf(name)}, want},
		{"of a trigger of one kind", "google.cloud.firestore.document.v1.deleted", &firestoredata.DocumentEventData{OldValue: documentOf(name)}, want},
		{"with the author", written + ".withAuthContext", &firestoredata.DocumentEventData{Value: documentOf(name)}, want},
		{"of a named database", written, &firestoredata.DocumentEventData{Value: documentOf("projects/p/databases/eu/documents/a/größe: 三")},
			told{id: "e1", project: "p", database: "eu", path: "a/größe: 三", known: true}},
		{"updated at a time", written, &firestoredata.DocumentEventData{Value: updatedAt(updated), OldValue: updatedAt(updated.Add(-time.Hour))}, datedEdited},
		{"deleted after an update", written, &firestoredata.DocumentEventData{OldValue: updatedAt(updated)}, dated},
		{"an older value with a later time", written, &firestoredata.DocumentEventData{Value: documentOf(name), OldValue: updatedAt(updated)}, datedEdited},
		{"updated at no time", written, &firestoredata.DocumentEventData{Value: updatedAt(time.Unix(1<<60, 0))}, want},
	} {
		for _, form := range forms {
			got, err := trigger.Decode(received(t, form, test.eventType, protobuf, marshal(t, test.data)))
			if err != nil || tell(got) != test.want {
				t.Errorf("%s, %s: got %+v, %v; want %+v", test.name, form.name, tell(got), err, test.want)
			}
		}
	}
}

// An event without documents names the one that changed by an attribute. It says nothing of the
// document's values and update times.
func TestDecodeWithoutDocuments(t *testing.T) {
	const path = "counters/likes/shards/0"
	masked := marshal(t, &firestoredata.DocumentEventData{UpdateMask: mask("text")})
	committed := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	oversized := event().with("ce-document", path).with("ce-time", committed.Format(time.RFC3339Nano))
	eu := "//firestore.googleapis.com/projects/p/databases/eu"
	want := told{id: "e1", committed: committed, project: "demo-p", database: "(default)", path: path}
	named, known := want, want
	named.project, named.database, named.path = "p", "eu", "a/größe: 三%20"
	known.known = true
	for _, test := range []struct {
		name       string
		attributes attributes
		data       []byte
		want       told
	}{
		{"no data", oversized, nil, want},
		{"no data of no type", oversized.without("ce-datacontenttype"), nil, want},
		{"a mask alone", oversized, masked, want},
		{"of a named database", oversized.with("ce-source", eu).with("ce-document", named.path), nil, named},
		{"and with documents, which say more", oversized.with("ce-document", "a/b"), marshal(t, &firestoredata.DocumentEventData{Value: documentOf(name)}), known},
	} {
		for _, form := range forms {
			e, err := trigger.FromRequest(form.request(t, test.attributes, test.data))
			if err != nil {
				t.Errorf("%s, %s: %v", test.name, form.name, err)
				continue
			}
			got, err := trigger.Decode(e)
			if err != nil || tell(got) != test.want {
				t.Errorf("%s, %s: got %+v, %v; want %+v", test.name, form.name, tell(got), err, test.want)
			}
		}
	}
}

func TestDecodeGarbage(t *testing.T) {
	good := marshal(t, &firestoredata.DocumentEventData{Value: documentOf(name)})
	of := func(name string) []byte {
		return marshal(t, &firestoredata.DocumentEventData{Value: documentOf(name)})
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
		{"truncated", event(), good[:len(good)-3], "does not decode as a protocol buffer"},
		{"a truncated document", event(), []byte("\n\x02\n\x05"), "does not decode as a protocol buffer"},
		{"a name of other bytes", event(), bytes.ReplaceAll(good, []byte("likes"), []byte("lik\xff\xff")), "invalid UTF-8"},
		{"no document", event(), nil, "neither holds nor names a document"},
		{"no name", event(), of(""), "not the name of a document"},
		{"no name, and another's", large, of(""), "not the name of a document"},
		{"a database's name", event(), of("projects/p/databases/d/documents"), "not the name of a document"},
		{"a path that no document has", event(), of("projects/p/databases/d/documents/a/" + strings.Repeat("b", document.LongestPath-1)), "its document's path has 6145 bytes"},
		{"another resource", event(), of("projects/p/topics/d/documents/a/b"), "not the name of a document"},
		{"no document, of another source", large.with("ce-source", "//pubsub.googleapis.com/projects/p/databases/d"), nil, "not the name of a document"},
		{"no document, of no database", large.with("ce-source", "//firestore.googleapis.com/projects/p"), nil, "not the name of a document"},
	} {
		for _, form := range forms {
			e, err := trigger.FromRequest(form.request(t, test.attributes, test.data))
			if err == nil {
				_, err = trigger.Decode(e)
			}
			if !errors.Is(err, trigger.ErrMalformed) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s, %s: got %v, want ErrMalformed with %q", test.name, form.name, err, test.want)
			}
		}
	}

	// No call of Firestore can name such a document, so each would fail, for a day.
	e, err := trigger.FromRequest(binary(t, event().with("ce-document", "counters/gr\xf6\xdfe/shards/0"), nil))
	if err == nil {
		_, err = trigger.Decode(e)
	}
	if !errors.Is(err, trigger.ErrMalformed) {
		t.Errorf("a name that is not UTF-8: got %v, want ErrMalformed", err)
	}
}

// FuzzDecode: no bytes crash the decoder, what it accepts names a document, and it takes no field
// for unchanged that is not.
func FuzzDecode(f *testing.F) {
	f.Add(marshal(f, &firestoredata.DocumentEventData{Value: documentOf(name), OldValue: documentOf(name)}))
	f.Add(marshal(f, &firestoredata.DocumentEventData{OldValue: documentOf("projects/p/databases/eu/documents/a/größe: 三")}))
	f.Add(marshal(f, &firestoredata.DocumentEventData{Value: &firestoredata.Document{}}))
	shop := func(id string) *firestoredata.Document { return doc("shop", mapOf("id", text(id))) }
	f.Add(marshal(f, &firestoredata.DocumentEventData{Value: shop("a"), OldValue: shop("b"), UpdateMask: mask("shop.id")}))
	f.Add([]byte{})
	f.Add([]byte{0x0a, 0x00, 0x12, 0x00})       // both documents are there, and empty
	f.Add([]byte{0x0a, 0x05, 'x'})              // shorter than it says
	f.Add([]byte{0x0a, 0xff, 0xff, 0xff, 0x0f}) // much shorter
	f.Add([]byte{0x0b, 0x0b, 0x0b, 0x0c})       // groups that do not end
	twice := marshal(f, &firestoredata.DocumentEventData{Value: documentOf("a")})
	f.Add(append(twice, marshal(f, &firestoredata.DocumentEventData{Value: documentOf(name)})...))
	f.Add(append(twice, marshal(f, &firestoredata.DocumentEventData{Value: &firestoredata.Document{}})...))
	f.Add([]byte("\x08\x01\x10\x01\x1b\x1c\n\x02\x08\x01")) // fields of other types, and a group
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := trigger.Decode(received(t, forms[0], written, protobuf, data))
		if err != nil && !errors.Is(err, trigger.ErrMalformed) {
			t.Errorf("got %v, want ErrMalformed", err)
		}
		if same, pushedErr := trigger.Decode(received(t, forms[1], written, protobuf, data)); tell(same) != tell(c) || (pushedErr == nil) != (err == nil) {
			t.Errorf("got %+v, %v; and pushed %+v, %v", tell(c), err, tell(same), pushedErr)
		}
		if err == nil && (c.Project == "" || c.Database == "" || c.Path() == "") {
			t.Errorf("accepted %+v", tell(c))
		}
		var full firestoredata.DocumentEventData
		if proto.Unmarshal(data, &full) != nil {
			if err == nil {
				t.Errorf("accepted %+v, from data that is not a protocol buffer", tell(c))
			}
			return
		}
		for field, in := range map[document.Field]func(map[string]*firestoredata.Value) *firestoredata.Value{
			"count": func(fields map[string]*firestoredata.Value) *firestoredata.Value { return fields["count"] },
			"shop.id": func(fields map[string]*firestoredata.Value) *firestoredata.Value {
				return fields["shop"].GetMapValue().GetFields()["id"]
			},
		} {
			now, old := in(full.GetValue().GetFields()), in(full.GetOldValue().GetFields())
			if err == nil && !c.Changed(field) && !proto.Equal(now, old) {
				t.Errorf("%s is unchanged, although %v became %v", field, old, now)
			}
			before, after := c.Held(field)
			was, _ := before.(string)
			is, _ := after.(string)
			if err == nil && (was != old.GetStringValue() || is != now.GetStringValue()) {
				t.Errorf("%s: held %v and %v of %v and %v", field, before, after, old, now)
			}
		}
		document := full.GetValue()
		if document == nil {
			document = full.GetOldValue()
		}
		parts := strings.SplitN(document.GetName(), "/", 6)
		named := len(parts) == 6 && parts[0] == "projects" && parts[2] == "databases" && parts[4] == "documents" &&
			parts[1] != "" && parts[3] != "" && parts[5] != ""
		if named != (err == nil) || named && (c.Project != parts[1] || c.Database != parts[3] || c.Path() != parts[5]) {
			t.Errorf("got %+v, %v; the document's name is %q", tell(c), err, document.GetName())
		}
	})
}

// No document has such an id, so no retry helps: Firestore refuses each read of it.
func TestIDsOfNoDocument(t *testing.T) {
	for _, path := range []string{"posts/..", "posts/.", "posts/__x__", "posts//likes/x", "posts/p/likes/.."} {
		data, err := proto.Marshal(&firestoredata.DocumentEventData{Value: documentOf("projects/p/databases/(default)/documents/" + path)})
		if err != nil {
			t.Fatal(err)
		}
		_, err = trigger.Decode(received(t, forms[0], written, protobuf, data))
		if !errors.Is(err, trigger.ErrMalformed) {
			t.Errorf("%s: got %v, want ErrMalformed", path, err)
		}
	}
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
		data, err := proto.Marshal(&firestoredata.DocumentEventData{OldValue: documentOf(name)})
		if err != nil {
			return // not UTF-8
		}
		c, err := trigger.Decode(received(t, forms[0], written, protobuf, data))
		if err != nil {
			if !errors.Is(err, trigger.ErrMalformed) {
				t.Errorf("%q: got %v, want ErrMalformed", name, err)
			}
			return
		}
		if strings.Contains(c.Project+c.Database, "/") || c.Path() == "" ||
			"projects/"+c.Project+"/databases/"+c.Database+"/documents/"+c.Path() != name {
			t.Errorf("%q is taken for %+v", name, tell(c))
		}

		source, path, _ := strings.Cut(name, "/documents/")
		large := event().with("ce-source", "//firestore.googleapis.com/"+source).with("ce-document", path)
		e, err := trigger.FromRequest(pushed(t, large, nil))
		if err != nil {
			t.Fatal(err)
		}
		if same, err := trigger.Decode(e); tell(same) != tell(c.WithoutDocuments()) || err != nil {
			t.Errorf("%q without the document is taken for %+v, %v", name, tell(same), err)
		}
	})
}

// FuzzMask: no mask crashes the decoder, and a mask that names a field, or what it lies in, tells
// that the field changed.
func FuzzMask(f *testing.F) {
	f.Add("count", "a", "b")
	f.Add("`", "unit price", "größe")
	f.Add("a.`b\\", "`", "\\")
	f.Add("..", ".", "a.b")
	f.Fuzz(func(t *testing.T, path, outer, inner string) {
		if outer == "" || inner == "" || !utf8.ValidString(path) || !utf8.ValidString(outer) || !utf8.ValidString(inner) {
			return
		}
		d := doc(outer, mapOf(inner, integer(1)))
		field := document.FieldOf(outer, inner)
		for _, named := range []document.Field{document.FieldOf(outer), field} {
			c := decode(t, forms[0], &update{Value: d, OldValue: d, UpdateMask: mask(path, string(named))})
			if !c.Changed(field) {
				t.Errorf("the mask names %s, and %s is unchanged", named, field)
			}
		}
	})
}
