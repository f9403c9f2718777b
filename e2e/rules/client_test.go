package rules

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/tool/local/emulator"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// rulesFile holds the rules that apps deploy.
const rulesFile = "../../firestore.rules"

func TestMain(m *testing.M) { emulatortest.Main(m) }

func firestoreRules(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// A user is the id of a signed-in user, or one of the constants below.
type user string

const (
	signedOut user = ""       // not signed in
	server    user = "server" // not bound by rules

	ann, bob, cid, dan user = "ann", "bob", "cid", "dan"

	anonymous user = "anonymous" // signed in, with an account that anybody gets
)

// context returns what the user's requests run in.
func (u user) context(ctx context.Context) context.Context {
	switch u {
	case signedOut:
		return ctx
	case server:
		return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer owner")
	}
	// The emulator takes an unsigned token.
	part := base64.RawURLEncoding.EncodeToString
	provider := "password"
	if u == anonymous {
		provider = "anonymous"
	}
	claims := fmt.Appendf(nil, `{"sub":%q,"number":42,"firebase":{"sign_in_provider":%q}}`, u, provider)
	token := part([]byte(`{"alg":"none"}`)) + "." + part(claims) + "."
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
}

// GetRequestMetadata has a connection's requests be the user's.
func (u user) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	sent, _ := metadata.FromOutgoingContext(u.context(ctx))
	return map[string]string{"authorization": sent.Get("authorization")[0]}, nil
}

// RequireTransportSecurity says that the emulator has none.
func (u user) RequireTransportSecurity() bool { return false }

// connect returns the emulator's API, one connection for all tests.
var connect = sync.OnceValues(func() (firestorepb.FirestoreClient, error) {
	conn, err := grpc.NewClient("passthrough:///"+os.Getenv("FIRESTORE_EMULATOR_HOST"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	return firestorepb.NewFirestoreClient(conn), err
})

// A database is the default one of a project of its own. Paths of its documents are relative:
// "counters/likes".
type database struct {
	t       *testing.T
	api     firestorepb.FirestoreClient
	project string
	name    string
}

// newDatabase returns a database with these documents, and the rules that apps deploy.
func newDatabase(t *testing.T, documents map[string]fields) *database {
	t.Helper()
	return newDatabaseUnder(t, firestoreRules(t), documents)
}

// newDatabaseUnder returns a database with rules and documents.
func newDatabaseUnder(t *testing.T, rules string, documents map[string]fields) *database {
	t.Helper()
	project := emulatortest.Project(t)
	api, err := connect()
	if err != nil {
		t.Fatal(err)
	}
	d := &database{t, api, project, "projects/" + project + "/databases/" + emulator.DefaultDatabase}
	d.setRules(rules)
	d.seed(documents)
	return d
}

// seed writes documents.
func (d *database) seed(documents map[string]fields) {
	d.t.Helper()
	var writes []*firestorepb.Write
	for path, f := range documents {
		writes = append(writes, set(path, f))
	}
	if err := d.commit(server, writes...); err != nil {
		d.t.Fatal(err)
	}
}

// setRules gives the database other rules.
func (d *database) setRules(rules string) {
	d.t.Helper()
	if err := emulator.SetRules(d.t.Context(), emulatortest.Addr(d.t), d.project, emulator.DefaultDatabase, rules); err != nil {
		d.t.Fatal(err)
	}
}

// restore undoes writes: their documents are as in the seed again.
func (d *database) restore(writes []*firestorepb.Write, seed map[string]fields) {
	d.t.Helper()
	var back []*firestorepb.Write
	for _, w := range writes {
		path := target(w)
		if f, ok := seed[path]; ok {
			back = append(back, set(path, f))
		} else {
			back = append(back, remove(path))
		}
	}
	if err := d.commit(server, back...); err != nil {
		d.t.Fatal(err)
	}
}

// target returns the path of the document that is written.
func target(w *firestorepb.Write) string {
	switch op := w.Operation.(type) {
	case *firestorepb.Write_Update:
		return op.Update.Name
	case *firestorepb.Write_Delete:
		return op.Delete
	case *firestorepb.Write_Transform:
		return op.Transform.Document
	}
	panic(fmt.Sprintf("write of type %T", w.Operation))
}

func (d *database) path(relative string) string { return d.name + "/documents/" + relative }

// parent returns what the collections of a document are below, or those at the top if path is "".
func (d *database) parent(path string) string { return strings.TrimSuffix(d.path(path), "/") }

// commit sends writes as one commit, which is done whole or not at all. As SDKs do, it sends them
// again if another request had one of the documents for too long. Now and then the emulator also
// answers with UNKNOWN and no text, while others write.
func (d *database) commit(u user, writes ...*firestorepb.Write) error {
	d.t.Helper()
	req := &firestorepb.CommitRequest{Database: d.name}
	for _, w := range writes {
		w = proto.Clone(w).(*firestorepb.Write)
		switch op := w.Operation.(type) {
		case *firestorepb.Write_Update:
			op.Update.Name = d.path(op.Update.Name)
		case *firestorepb.Write_Delete:
			op.Delete = d.path(op.Delete)
		case *firestorepb.Write_Transform:
			op.Transform.Document = d.path(op.Transform.Document)
		default:
			d.t.Fatalf("write of type %T", op)
		}
		req.Writes = append(req.Writes, w)
	}

	ctx, cancel := context.WithTimeout(u.context(d.t.Context()), emulatortest.Eventually())
	defer cancel()
	for unknown := 0; ; {
		_, err := d.api.Commit(ctx, req)
		switch status.Code(err) {
		case codes.Aborted:
		case codes.Unknown:
			unknown++
			if unknown == 5 {
				return err
			}
		default:
			return err
		}
	}
}

// fields are a document's fields: int, float64, string, bool, nil, time.Time, fields, or a
// Firestore value.
type fields map[string]any

func value(v any) *firestorepb.Value {
	switch v := v.(type) {
	case int:
		return &firestorepb.Value{ValueType: &firestorepb.Value_IntegerValue{IntegerValue: int64(v)}}
	case float64:
		return &firestorepb.Value{ValueType: &firestorepb.Value_DoubleValue{DoubleValue: v}}
	case string:
		return &firestorepb.Value{ValueType: &firestorepb.Value_StringValue{StringValue: v}}
	case bool:
		return &firestorepb.Value{ValueType: &firestorepb.Value_BooleanValue{BooleanValue: v}}
	case nil:
		return &firestorepb.Value{ValueType: &firestorepb.Value_NullValue{NullValue: structpb.NullValue_NULL_VALUE}}
	case time.Time:
		return &firestorepb.Value{ValueType: &firestorepb.Value_TimestampValue{TimestampValue: timestamppb.New(v)}}
	case fields:
		return &firestorepb.Value{ValueType: &firestorepb.Value_MapValue{MapValue: &firestorepb.MapValue{Fields: v.proto()}}}
	case *firestorepb.Value:
		return v
	}
	panic(fmt.Sprintf("no Firestore value: %T", v))
}

// plain is the reverse of value, for numbers, text and booleans; any other value stays what it is.
func plain(v *firestorepb.Value) any {
	switch t := v.ValueType.(type) {
	case *firestorepb.Value_IntegerValue:
		return int(t.IntegerValue)
	case *firestorepb.Value_DoubleValue:
		return t.DoubleValue
	case *firestorepb.Value_StringValue:
		return t.StringValue
	case *firestorepb.Value_BooleanValue:
		return t.BooleanValue
	}
	return v
}

func (f fields) proto() map[string]*firestorepb.Value {
	m := map[string]*firestorepb.Value{}
	for name, v := range f {
		m[name] = value(v)
	}
	return m
}

// set replaces a document, or creates it.
func set(path string, f fields) *firestorepb.Write {
	return &firestorepb.Write{Operation: &firestorepb.Write_Update{Update: &firestorepb.Document{Name: path, Fields: f.proto()}}}
}

// merge writes the named fields, deletes the named fields that have no value, and leaves all
// others.
func merge(path string, f fields, names ...string) *firestorepb.Write {
	w := set(path, f)
	w.UpdateMask = &firestorepb.DocumentMask{FieldPaths: names}
	return w
}

// remove deletes a document.
func remove(path string) *firestorepb.Write {
	return &firestorepb.Write{Operation: &firestorepb.Write_Delete{Delete: path}}
}

// add is what SDKs make of setDoc(shard, {count: increment(amount)}, {merge: true}).
func add(path string, amount any) *firestorepb.Write {
	return transform(merge(path, nil), increment("count", amount))
}

// update has a write ask for a document that exists, as SDKs do for updateDoc.
func update(w *firestorepb.Write) *firestorepb.Write {
	w.CurrentDocument = &firestorepb.Precondition{ConditionType: &firestorepb.Precondition_Exists{Exists: true}}
	return w
}

// A transformation changes a field by what it holds.
type transformation = *firestorepb.DocumentTransform_FieldTransform

func transform(w *firestorepb.Write, ts ...transformation) *firestorepb.Write {
	w.UpdateTransforms = ts
	return w
}

func increment(field string, amount any) transformation {
	return &firestorepb.DocumentTransform_FieldTransform{
		FieldPath: field, TransformType: &firestorepb.DocumentTransform_FieldTransform_Increment{Increment: value(amount)},
	}
}

func maximum(field string, v any) transformation {
	return &firestorepb.DocumentTransform_FieldTransform{
		FieldPath: field, TransformType: &firestorepb.DocumentTransform_FieldTransform_Maximum{Maximum: value(v)},
	}
}

func minimum(field string, v any) transformation {
	return &firestorepb.DocumentTransform_FieldTransform{
		FieldPath: field, TransformType: &firestorepb.DocumentTransform_FieldTransform_Minimum{Minimum: value(v)},
	}
}

func appendTo(field string, v any) transformation {
	return &firestorepb.DocumentTransform_FieldTransform{
		FieldPath:     field,
		TransformType: &firestorepb.DocumentTransform_FieldTransform_AppendMissingElements{AppendMissingElements: array(v).GetArrayValue()},
	}
}

func serverTime(field string) transformation {
	return &firestorepb.DocumentTransform_FieldTransform{
		FieldPath: field,
		TransformType: &firestorepb.DocumentTransform_FieldTransform_SetToServerValue{
			SetToServerValue: firestorepb.DocumentTransform_FieldTransform_REQUEST_TIME,
		},
	}
}

// transformOnly is how older SDKs send transforms.
func transformOnly(path string, ts ...transformation) *firestorepb.Write {
	return &firestorepb.Write{Operation: &firestorepb.Write_Transform{
		Transform: &firestorepb.DocumentTransform{Document: path, FieldTransforms: ts},
	}}
}

func array(vs ...any) *firestorepb.Value {
	a := &firestorepb.ArrayValue{}
	for _, v := range vs {
		a.Values = append(a.Values, value(v))
	}
	return &firestorepb.Value{ValueType: &firestorepb.Value_ArrayValue{ArrayValue: a}}
}
