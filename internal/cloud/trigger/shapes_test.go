package trigger_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/cloud/trigger"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
	"google.golang.org/genproto/googleapis/type/latlng"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// of returns the attributes that Eventarc gives to an event of a kind, about a document of a
// database in the project shop.
func of(kind, database, path string, at time.Time) attributes {
	return attributes{
		"ce-id":              "0a1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4d",
		"ce-source":          "//firestore.googleapis.com/projects/shop/databases/" + database,
		"ce-specversion":     "1.0",
		"ce-type":            "google.cloud.firestore.document.v1." + kind,
		"ce-subject":         "documents/" + path,
		"ce-time":            at.Format(time.RFC3339Nano),
		"ce-datacontenttype": protobuf,
		"ce-dataschema":      "https://github.com/googleapis/google-cloudevents/blob/main/proto/google/events/cloud/firestore/v1/data.proto",
		"ce-project":         "shop",
		"ce-location":        "nam5",
		"ce-database":        database,
		"ce-namespace":       "(default)",
		"ce-document":        path,
		"traceparent":        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}
}

// version returns a version of a document of the project shop, which was created and written at
// some times.
func version(database, path string, created, written time.Time, fields map[string]*firestoredata.Value) *firestoredata.Document {
	return &firestoredata.Document{
		Name:       "projects/shop/databases/" + database + "/documents/" + path,
		Fields:     fields,
		CreateTime: timestamppb.New(created),
		UpdateTime: timestamppb.New(written),
	}
}

// Events have the shapes that recordings of real ones have: of every kind, from the default
// database and a named one, with all attributes that Eventarc adds, in both forms. An old and a new
// version have one create time. The mask of an update names the fields that differ. A creation and
// a deletion have no mask.
func TestShapes(t *testing.T) {
	first := time.Date(2026, 3, 1, 9, 30, 0, 123456000, time.UTC)
	second := first.Add(90 * time.Minute)
	one := map[string]*firestoredata.Value{"count": integer(1), "name": text("a")}
	two := map[string]*firestoredata.Value{"name": text("a"), "count": integer(2)}

	for _, test := range []struct {
		kind, database, path string
		committed            time.Time
		more                 attributes
		data                 func(version func(written time.Time, fields map[string]*firestoredata.Value) *firestoredata.Document) *update
		updated              bool
		updateTime           time.Time
	}{
		{kind: "created", database: "(default)", path: "counters/likes/shards/0", committed: first, updateTime: first,
			data: func(v func(time.Time, map[string]*firestoredata.Value) *firestoredata.Document) *update {
				return &update{Value: v(first, one)}
			}},
		{kind: "updated", database: "(default)", path: "counters/likes/shards/0", committed: second, updateTime: second, updated: true,
			data: func(v func(time.Time, map[string]*firestoredata.Value) *firestoredata.Document) *update {
				return &update{Value: v(second, two), OldValue: v(first, one), UpdateMask: mask("count")}
			}},
		{kind: "deleted", database: "(default)", path: "counters/likes/shards/0", committed: second, updateTime: first,
			data: func(v func(time.Time, map[string]*firestoredata.Value) *firestoredata.Document) *update {
				return &update{OldValue: v(first, one)}
			}},
		{kind: "written", database: "eu-west", path: "posts/Zk3v/likes/7f Ä", committed: second, updateTime: second, updated: true,
			data: func(v func(time.Time, map[string]*firestoredata.Value) *firestoredata.Document) *update {
				return &update{Value: v(second, two), OldValue: v(first, one), UpdateMask: mask("count")}
			}},
		{kind: "written", database: "eu-west", path: "posts/Zk3v/likes/ann", committed: first, updateTime: first,
			data: func(v func(time.Time, map[string]*firestoredata.Value) *firestoredata.Document) *update {
				return &update{Value: v(first, nil)} // a document without fields
			}},
		{kind: "written.withAuthContext", database: "(default)", path: "posts/Zk3v", committed: first, updateTime: first,
			more: attributes{"ce-authtype": "api_key", "ce-authid": "ann@example.com"},
			data: func(v func(time.Time, map[string]*firestoredata.Value) *firestoredata.Document) *update {
				return &update{Value: v(first, one)}
			}},
		{kind: "deleted.withAuthContext", database: "eu-west", path: "posts/Zk3v", committed: second, updateTime: first,
			more: attributes{"ce-authtype": "unauthenticated"},
			data: func(v func(time.Time, map[string]*firestoredata.Value) *firestoredata.Document) *update {
				return &update{OldValue: v(first, one)}
			}},
	} {
		data := test.data(func(written time.Time, fields map[string]*firestoredata.Value) *firestoredata.Document {
			return version(test.database, test.path, first, written, fields)
		})
		sent := of(test.kind, test.database, test.path, test.committed)
		maps.Copy(sent, test.more)
		want := told{sent["ce-id"], test.committed, "shop", test.database, test.path, test.updateTime, true, test.updated}

		for _, form := range forms {
			e, err := trigger.FromRequest(form.request(t, sent, marshal(t, data)))
			if err != nil {
				t.Errorf("%s %s, %s: %v", test.kind, test.path, form.name, err)
				continue
			}
			c, err := trigger.Decode(e)
			if err != nil || tell(c) != want || e.Subject != "documents/"+test.path {
				t.Errorf("%s %s, %s: got %+v of %q, %v; want %+v", test.kind, test.path, form.name, tell(c), e.Subject, err, want)
			}
			if test.updated && (!c.Changed("count") || c.Changed("name")) {
				t.Errorf("%s %s, %s: count changed %v, name changed %v; want the first alone", test.kind, test.path, form.name, c.Changed("count"), c.Changed("name"))
			}
		}
	}
}

// Of every type of Firestore's values, one that is as it was is unchanged, and another one is not.
func TestShapesOfValues(t *testing.T) {
	list := func(values ...*firestoredata.Value) *firestoredata.Value {
		return &firestoredata.Value{ValueType: &firestoredata.Value_ArrayValue{ArrayValue: &firestoredata.ArrayValue{Values: values}}}
	}
	boolean := func(b bool) *firestoredata.Value {
		return &firestoredata.Value{ValueType: &firestoredata.Value_BooleanValue{BooleanValue: b}}
	}
	at := func(seconds int64) *firestoredata.Value {
		return &firestoredata.Value{ValueType: &firestoredata.Value_TimestampValue{TimestampValue: &timestamppb.Timestamp{Seconds: seconds, Nanos: 607000}}}
	}
	data := func(s string) *firestoredata.Value {
		return &firestoredata.Value{ValueType: &firestoredata.Value_BytesValue{BytesValue: []byte(s)}}
	}
	reference := func(path string) *firestoredata.Value {
		return &firestoredata.Value{ValueType: &firestoredata.Value_ReferenceValue{ReferenceValue: "projects/shop/databases/(default)/documents/" + path}}
	}
	place := func(latitude float64) *firestoredata.Value {
		return &firestoredata.Value{ValueType: &firestoredata.Value_GeoPointValue{GeoPointValue: &latlng.LatLng{Latitude: latitude, Longitude: 13.4}}}
	}
	vector := func(x float64) *firestoredata.Value {
		return mapOf("__type__", text("__vector__"), "value", list(double(x), double(-1)))
	}

	kinds := map[string]func(n int) *firestoredata.Value{ // n: 0 or 1, two values
		"boolean":   func(n int) *firestoredata.Value { return boolean(n == 0) },
		"integer":   func(n int) *firestoredata.Value { return integer(int64(n)) }, // 0 is sent as no bytes
		"double":    func(n int) *firestoredata.Value { return double(float64(n) / 3) },
		"time":      func(n int) *firestoredata.Value { return at(1772357400 + int64(n)) },
		"text":      func(n int) *firestoredata.Value { return text(strings.Repeat("x", n)) },
		"bytes":     func(n int) *firestoredata.Value { return data(string(rune(n))) },
		"reference": func(n int) *firestoredata.Value { return reference([]string{"a/b", "a/c"}[n]) },
		"place":     func(n int) *firestoredata.Value { return place(float64(n)) },
		"array": func(n int) *firestoredata.Value {
			return list(at(1), place(0), reference("a/b"), mapOf("n", integer(int64(n))))
		},
		"map":    func(n int) *firestoredata.Value { return mapOf("in", mapOf("list", list(boolean(n == 0), text("x")))) },
		"vector": func(n int) *firestoredata.Value { return vector(float64(n)) },
	}
	for _, changed := range slices.Sorted(maps.Keys(kinds)) {
		old, value := doc(), doc()
		old.Fields, value.Fields = make(map[string]*firestoredata.Value), make(map[string]*firestoredata.Value)
		for name, of := range kinds {
			old.Fields[name], value.Fields[name] = of(0), of(0)
		}
		value.Fields[changed] = kinds[changed](1)

		for _, form := range forms {
			c := decode(t, form, &update{Value: value, OldValue: old, UpdateMask: mask(changed)})
			unmasked := decode(t, form, &update{Value: value, OldValue: old})
			for name := range kinds {
				field := document.FieldOf(name)
				if c.Changed(field) != (name == changed) || unmasked.Changed(field) != (name == changed) {
					t.Errorf("%s, %s changed: %s changed %v, without a mask %v", form.name, changed, name, c.Changed(field), unmasked.Changed(field))
				}
			}
		}
	}
}

// A null may stand for a time that the server sets: it may be another one than before, whatever the
// mask says.
func TestNullMayHaveChanged(t *testing.T) {
	null := &firestoredata.Value{ValueType: &firestoredata.Value_NullValue{NullValue: structpb.NullValue_NULL_VALUE}}
	for _, test := range []struct {
		name  string
		data  *update
		field document.Field
		want  bool
	}{
		{"a null", &update{Value: doc("at", null), OldValue: doc("at", null)}, "at", true},
		{"a null, and the mask names another", &update{Value: doc("at", null, "text", integer(2)), OldValue: doc("at", null), UpdateMask: mask("text")}, "at", true},
		{"a null, by a roll-up", &update{Value: doc("at", null, "tally", mapOf("num_shards", integer(2))), OldValue: doc("at", null)}, "at", false},
		{"a null in a map", &update{Value: doc("paid", mapOf("at", null)), OldValue: doc("paid", mapOf("at", null))}, "paid.at", true},
		{"a null elsewhere", &update{Value: doc("at", null, "count", integer(1)), OldValue: doc("at", null, "count", integer(1))}, "count", false},
		{"a null elsewhere in the map", &update{Value: doc("paid", mapOf("at", null, "by", text("ann"))), OldValue: doc("paid", mapOf("at", null, "by", text("ann")))}, "paid.by", false},
	} {
		for _, form := range forms {
			if got := decode(t, form, test.data).Changed(test.field); got != test.want {
				t.Errorf("%s, %s: changed %v, want %v", test.name, form.name, got, test.want)
			}
		}
	}
}

// Each request that tally demo --record kept is an event, and its headers tell what its document
// tells. The file emulator.json is of an event of the emulator.
func TestRecorded(t *testing.T) {
	files, err := filepath.Glob("testdata/recorded/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var recorded struct {
			Query     string
			Headers   map[string]string
			Committed time.Time
		}
		if err := json.Unmarshal(text, &recorded); err != nil {
			t.Fatalf("%s: %v", file, err)
		}

		r := httptest.NewRequest(http.MethodPost, "/?"+recorded.Query, nil)
		for name, value := range recorded.Headers {
			r.Header.Set(name, value)
		}
		e, err := trigger.FromRequest(r)
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
		c, err := trigger.Decode(e)
		_, path, _ := strings.Cut(recorded.Headers["Ce-Subject"], "/")
		if err != nil || c.Path() != path || c.Project != recorded.Headers["Ce-Project"] || c.Database != recorded.Headers["Ce-Database"] || !c.Committed.Equal(recorded.Committed) {
			t.Errorf("%s: got %+v, %v", file, tell(c), err)
		}
	}
}
