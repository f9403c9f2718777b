package rules

import (
	"context"
	"errors"
	"io"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

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
