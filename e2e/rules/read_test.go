package rules

import (
	"context"
	"errors"
	"io"
	"testing"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// readParts are the softenings of which TestReads needs one each.
var readParts = map[string]bool{
	"no collection groups":        true,
	"lists of counters are short": true, "lists of roll-ups are short": true, "lists skip nothing": true,
}

// Each read that is refused is allowed once the part of the rules is softened.
func TestReads(t *testing.T) {
	t.Parallel()
	rules := firestoreRules(t)
	strict := newDatabase(t, seed)
	for _, test := range []struct {
		name string
		user user
		read func(*database, user) error
		part string // that refuses it; "" if it is allowed
	}{
		{"a roll-up", signedOut, get("rollups/free"), ""},
		{"a roll-up that is missing", signedOut, get("rollups/new"), ""},
		{"100 roll-ups", ann, query("", "rollups", 100), ""},
		{"how many roll-ups, up to 100", ann, sum("", "rollups", 100, false), ""},
		{"a counter", signedOut, get("counters/free"), ""},
		{"a counter that is missing", signedOut, get("counters/new"), ""},
		{"100 counters", ann, query("", "counters", 100), ""},
		{"20 counters, with an offset of 0", signedOut, list{collection: "counters", limit: 20, offset: 0}.query, ""},
		{"a shard", signedOut, get(free + "0"), ""},
		{"a shard of a counter without a document", signedOut, get("counters/new/shards/0"), ""},
		{"all shards of a counter", signedOut, query("counters/free", "shards", 0), ""},
		{"the sum of a counter's shards", signedOut, sum("counters/free", "shards", 0, false), ""},
		{"the sum of the shards of a counter without a document", signedOut, sum("counters/new", "shards", 0, false), ""},
		{"all shards of a frozen counter", signedOut, query("counters/frozen", "shards", 0), ""},

		{"101 roll-ups", ann, query("", "rollups", 101), "lists of roll-ups are short"},
		{"all roll-ups", ann, query("", "rollups", 0), "lists of roll-ups are short"},
		{"how many roll-ups", ann, sum("", "rollups", 0, false), "lists of roll-ups are short"},
		{"101 counters", ann, query("", "counters", 101), "lists of counters are short"},
		{"all counters", ann, query("", "counters", 0), "lists of counters are short"},
		{"a billion counters skipped", signedOut, list{collection: "counters", limit: 1, offset: 1 << 30}.query, "lists skip nothing"},
		{"roll-ups and all that is named so", ann, sum("", "rollups", 100, true), "nothing else"},
		{"the shards of all counters", ann, sum("", "shards", 0, true), "no collection groups"},
		{"the audit's cursor", ann, get("rollup_audit/cursor"), "nothing else"},
		{"a claim", ann, get("rollup_claims/5f0c"), "nothing else"},
		{"a token", ann, get("counters/free/increment_tokens/x"), "nothing else"},
		{"all tokens", ann, query("counters/free", "increment_tokens", 1), "nothing else"},
		{"elsewhere", ann, get("private/x"), "nothing else"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			err := test.read(strict, test.user)
			if test.part == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if status.Code(err) != codes.PermissionDenied {
				t.Errorf("answer %v, want PermissionDenied", err)
			}
			soft := newDatabaseUnder(t, soften(t, rules, test.part), seed)
			if err := test.read(soft, test.user); err != nil {
				t.Errorf("refused without %q too: %v", test.part, err)
			}
		})
	}
}

// get reads a document, which need not be there.
func get(path string) func(*database, user) error {
	return func(d *database, u user) error {
		_, err := d.api.GetDocument(u.context(d.t.Context()), &firestorepb.GetDocumentRequest{Name: d.path(path)})
		if status.Code(err) == codes.NotFound {
			return nil
		}
		return err
	}
}

// A list is what a client asks for of a collection.
type list struct {
	parent, collection string
	limit              int32 // 0: none
	offset             int32
	group              bool   // all collections of that name
	where              string // a field that is true; "": any documents
	own                string // a field that names the user; "": any documents
	user               user   // who may list
}

func (l list) structured() *firestorepb.StructuredQuery {
	q := &firestorepb.StructuredQuery{
		From:   []*firestorepb.StructuredQuery_CollectionSelector{{CollectionId: l.collection, AllDescendants: l.group}},
		Offset: l.offset,
	}
	if l.where != "" {
		q.Where = equal(l.where, true)
	}
	if l.own != "" {
		q.Where = equal(l.own, string(l.user))
	}
	if l.limit > 0 {
		q.Limit = wrapperspb.Int32(l.limit)
	}
	return q
}

// equal is the filter of documents whose field holds a value.
func equal(field string, holds any) *firestorepb.StructuredQuery_Filter {
	return &firestorepb.StructuredQuery_Filter{FilterType: &firestorepb.StructuredQuery_Filter_FieldFilter{
		FieldFilter: &firestorepb.StructuredQuery_FieldFilter{
			Field: &firestorepb.StructuredQuery_FieldReference{FieldPath: field},
			Op:    firestorepb.StructuredQuery_FieldFilter_EQUAL, Value: value(holds),
		},
	}}
}

// query reads the documents.
func (l list) query(d *database, u user) error {
	stream, err := d.api.RunQuery(u.context(d.t.Context()), &firestorepb.RunQueryRequest{
		Parent:    d.parent(l.parent),
		QueryType: &firestorepb.RunQueryRequest_StructuredQuery{StructuredQuery: l.structured()},
	})
	for err == nil {
		_, err = stream.Recv()
	}
	return unlessEnd(err)
}

// sum has Firestore count the documents, and add up their field count.
func (l list) sum(d *database, u user) error {
	aggregation := func(alias string) *firestorepb.StructuredAggregationQuery_Aggregation {
		return &firestorepb.StructuredAggregationQuery_Aggregation{Alias: alias}
	}
	count, total := aggregation("n"), aggregation("total")
	count.Operator = &firestorepb.StructuredAggregationQuery_Aggregation_Count_{
		Count: &firestorepb.StructuredAggregationQuery_Aggregation_Count{UpTo: wrapperspb.Int64(1000)},
	}
	total.Operator = &firestorepb.StructuredAggregationQuery_Aggregation_Sum_{
		Sum: &firestorepb.StructuredAggregationQuery_Aggregation_Sum{Field: &firestorepb.StructuredQuery_FieldReference{FieldPath: "count"}},
	}
	stream, err := d.api.RunAggregationQuery(u.context(d.t.Context()), &firestorepb.RunAggregationQueryRequest{
		Parent: d.parent(l.parent),
		QueryType: &firestorepb.RunAggregationQueryRequest_StructuredAggregationQuery{
			StructuredAggregationQuery: &firestorepb.StructuredAggregationQuery{
				QueryType:    &firestorepb.StructuredAggregationQuery_StructuredQuery{StructuredQuery: l.structured()},
				Aggregations: []*firestorepb.StructuredAggregationQuery_Aggregation{count, total},
			},
		},
	})
	for err == nil {
		_, err = stream.Recv()
	}
	return unlessEnd(err)
}

// listen listens until the first snapshot is there.
func (l list) listen(d *database, u user) error {
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(u.context(d.t.Context()), "google-cloud-resource-prefix", d.name))
	defer cancel()
	stream, err := d.api.Listen(ctx)
	if err != nil {
		return err
	}
	query := &firestorepb.Target_QueryTarget{Parent: d.parent(l.parent), QueryType: &firestorepb.Target_QueryTarget_StructuredQuery{StructuredQuery: l.structured()}}
	target := &firestorepb.Target{TargetId: 1, TargetType: &firestorepb.Target_Query{Query: query}}
	if err := stream.Send(&firestorepb.ListenRequest{Database: d.name, TargetChange: &firestorepb.ListenRequest_AddTarget{AddTarget: target}}); err != nil {
		return err
	}
	for {
		answer, err := stream.Recv()
		if err != nil {
			return err
		}
		change := answer.GetTargetChange()
		if cause := change.GetCause(); cause != nil {
			return status.FromProto(cause).Err()
		}
		if change.GetTargetChangeType() == firestorepb.TargetChange_CURRENT {
			return nil
		}
	}
}

func unlessEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// query reads a collection's documents, up to the limit if that is not 0.
func query(parent, collection string, limit int32) func(*database, user) error {
	return list{parent: parent, collection: collection, limit: limit}.query
}

// sum has Firestore count and add up a collection's documents, up to the limit if that is not 0; of
// all collections of that name, if the whole group is asked for.
func sum(parent, collection string, limit int32, group bool) func(*database, user) error {
	return list{parent: parent, collection: collection, limit: limit, group: group}.sum
}
