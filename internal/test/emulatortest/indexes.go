package emulatortest

import (
	"context"
	"slices"
	"strings"
	"sync"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup/route"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Indexes stands between a client and the emulator. It derives from each query which indexes
// Firestore needs for it, and refuses queries that need a composite index that is not there. The
// emulator refuses none.
type Indexes struct {
	Has func(route.Index) bool // whether a composite index is there; nil: all are

	mu     sync.Mutex
	needed []route.Index // sorted
}

// DialOption makes a client's queries go through x.
func (x *Indexes) DialOption() grpc.DialOption {
	return grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		stream, err := open(ctx, desc, conn, method, opts...)
		return indexedStream{stream, x}, err
	})
}

// Needed returns the composite indexes that the queries so far needed, and those of one field, each
// once and sorted. The next call begins from nothing.
func (x *Indexes) Needed() (composite, single []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, need := range x.needed {
		if len(need.Fields) > 1 {
			composite = append(composite, need.String())
		} else {
			single = append(single, need.String())
		}
	}
	x.needed = nil
	return composite, single
}

type indexedStream struct {
	grpc.ClientStream
	*Indexes
}

func (s indexedStream) SendMsg(msg any) error {
	for _, need := range neededBy(msg, route.Standard) {
		s.mu.Lock()
		i, known := slices.BinarySearchFunc(s.needed, need, route.Index.Compare)
		if !known {
			s.needed = slices.Insert(s.needed, i, need)
		}
		s.mu.Unlock()

		if len(need.Fields) > 1 && s.Has != nil && !s.Has(need) {
			return status.Error(codes.FailedPrecondition, "The query requires an index.")
		}
	}
	return s.ClientStream.SendMsg(msg)
}

// neededBy returns the indexes that an edition of Firestore needs for a query, by its own rules:
// the fields that must be equal, in any order, then those of the orders, and then those of ranges
// and aggregations. If there are only fields of one collection that must be equal, Standard merges
// the index of each (https://firebase.google.com/docs/firestore/query-data/index-overview). "in" is a way to be equal.
// Ranges that are not in the order follow in that of their names and in the last direction
// (https://cloud.google.com/firestore/docs/reference/rpc/google.firestore.v1#structuredquery).
func neededBy(msg any, edition route.Edition) []route.Index {
	var query *firestorepb.StructuredQuery
	var aggregations []*firestorepb.StructuredAggregationQuery_Aggregation
	switch req := msg.(type) {
	case *firestorepb.RunQueryRequest:
		query = req.GetStructuredQuery()
	case *firestorepb.RunAggregationQueryRequest:
		query = req.GetStructuredAggregationQuery().GetStructuredQuery()
		aggregations = req.GetStructuredAggregationQuery().GetAggregations()
	}
	if query == nil {
		return nil
	}
	of := route.Index{Collection: query.From[0].CollectionId, Group: query.From[0].AllDescendants}

	equal, ranges := tested(query)
	var along []route.IndexField
	then := func(field string, descending bool) {
		same := func(f route.IndexField) bool { return string(f.Field) == field }
		isKnown := field == "" || field == string(route.DocumentName) && edition == route.Standard
		if !isKnown && !slices.Contains(equal, field) && !slices.ContainsFunc(along, same) {
			along = append(along, route.IndexField{Field: document.Field(field), Descending: descending})
		}
	}

	descending := false
	for _, o := range query.GetOrderBy() {
		descending = o.Direction == firestorepb.StructuredQuery_DESCENDING
		then(o.GetField().GetFieldPath(), descending)
	}
	for _, field := range ranges {
		then(field, descending)
	}
	for _, a := range aggregations {
		then(a.GetSum().GetField().GetFieldPath(), false)
		then(a.GetAvg().GetField().GetFieldPath(), false)
	}

	var fields []route.IndexField
	for _, field := range equal {
		fields = append(fields, route.IndexField{Field: document.Field(field)})
	}
	of.Fields = append(fields, along...)
	last := len(of.Fields) - 1
	if last > 0 && of.Fields[last].Field == route.DocumentName { // each index ends in it
		of.Fields = of.Fields[:last]
	}
	if len(of.Fields) == 0 {
		return nil
	}
	if len(along) > 0 || of.Group || edition == route.Enterprise {
		return []route.Index{of}
	}

	var single []route.Index
	for _, f := range fields {
		single = append(single, route.Index{Collection: of.Collection, Fields: []route.IndexField{f}})
	}
	return single
}

// tested returns the fields that a query wants to be equal to something, and those of which it
// wants a range, each sorted.
func tested(query *firestorepb.StructuredQuery) (equal, ranges []string) {
	filters := query.GetWhere().GetCompositeFilter().GetFilters()
	if filters == nil && query.GetWhere() != nil {
		filters = []*firestorepb.StructuredQuery_Filter{query.GetWhere()}
	}
	for _, f := range filters {
		field := f.GetFieldFilter().GetField().GetFieldPath()
		switch f.GetFieldFilter().GetOp() {
		case firestorepb.StructuredQuery_FieldFilter_OPERATOR_UNSPECIFIED: // is null, or is NaN
			equal = append(equal, f.GetUnaryFilter().GetField().GetFieldPath())
		case firestorepb.StructuredQuery_FieldFilter_EQUAL, firestorepb.StructuredQuery_FieldFilter_IN:
			equal = append(equal, field)
		default:
			ranges = append(ranges, field)
		}
	}

	equal = slices.DeleteFunc(equal, func(field string) bool { return strings.HasPrefix(field, "__") })
	slices.Sort(equal)
	slices.Sort(ranges)
	return slices.Compact(equal), slices.Compact(ranges)
}
