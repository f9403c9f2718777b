package emulatortest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"cloud.google.com/go/firestore/apiv1/admin/adminpb"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup/route"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Enterprise stands between a client and the emulator. It has the emulator behave as the Enterprise
// edition of Firestore is known to, as far as Tally depends on it. Each behavior can be had by
// itself.
type Enterprise struct {
	// Optimistic: a transaction that may write takes no locks, unless it asks for them. Its commit is
	// aborted if a document that it read has changed since.
	Optimistic bool

	// Unordered: a query has no order but the one that it asks for. An aggregation of a field counts
	// documents without the field, unless the query asks for the field.
	Unordered bool

	// Unindexed: a query without its index is answered all the same, and scans. The indexes are listed
	// as Has says.
	Unindexed bool

	mu      sync.Mutex
	has     []*adminpb.Index
	listed  int
	failing error // answers lists instead
	scans   []string
	reads   map[string]map[string]*timestamppb.Timestamp // of a transaction: update times by document; nil: there was none
	begun   int
}

// NewEnterprise returns an Enterprise with all behaviors, and with these indexes.
func NewEnterprise(indexes []route.Index) *Enterprise {
	e := &Enterprise{Optimistic: true, Unordered: true, Unindexed: true}
	e.SetIndexes(indexes)
	return e
}

// SetIndexes has the database have these indexes, all of them READY.
func (e *Enterprise) SetIndexes(indexes []route.Index) {
	var all []*adminpb.Index
	for _, x := range indexes {
		all = append(all, AdminIndex(x, adminpb.Index_READY))
	}
	e.SetAdminIndexes(all, nil)
}

// SetAdminIndexes has lists of the indexes answered so, or with an error.
func (e *Enterprise) SetAdminIndexes(indexes []*adminpb.Index, failing error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.has, e.failing = indexes, failing
}

// AdminIndex returns an index as Firestore lists it.
func AdminIndex(x route.Index, state adminpb.Index_State) *adminpb.Index {
	listed := &adminpb.Index{
		Name:       "projects/p/databases/d/collectionGroups/" + x.Collection + "/indexes/CICAgOi3",
		QueryScope: adminpb.Index_COLLECTION,
		State:      state,
	}
	if x.Group {
		listed.QueryScope = adminpb.Index_COLLECTION_GROUP
	}
	for _, f := range x.Fields {
		order := adminpb.Index_IndexField_ASCENDING
		if f.Descending {
			order = adminpb.Index_IndexField_DESCENDING
		}
		listed.Fields = append(listed.Fields, &adminpb.Index_IndexField{
			FieldPath: string(f.Field),
			ValueMode: &adminpb.Index_IndexField_Order_{Order: order},
		})
	}
	return listed
}

// Lists returns how often the indexes were listed.
func (e *Enterprise) Lists() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.listed
}

// Scans returns the queries that scanned for want of an index. The next call begins from nothing.
func (e *Enterprise) Scans() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	scans := e.scans
	e.scans = nil
	return scans
}

// DialOptions make a client's calls go through e.
func (e *Enterprise) DialOptions() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(e.unary), grpc.WithChainStreamInterceptor(e.stream)}
}

func (e *Enterprise) unary(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	switch r := req.(type) {
	case *adminpb.ListIndexesRequest:
		return e.list(reply.(*adminpb.ListIndexesResponse))
	case *firestorepb.BeginTransactionRequest:
		mode := r.Options.GetReadWrite()
		if e.Optimistic && mode != nil && mode.ConcurrencyMode != firestorepb.TransactionOptions_PESSIMISTIC {
			reply.(*firestorepb.BeginTransactionResponse).Transaction = e.begin()
			return nil
		}
	case *firestorepb.RollbackRequest:
		_, own := e.end(r.Transaction)
		if own {
			return nil
		}
	case *firestorepb.CommitRequest:
		reads, own := e.end(r.Transaction)
		if own {
			err := invoke(ctx, method, optimistic(r, reads), reply, conn, opts...)
			return aborted(err)
		}
	}
	return invoke(ctx, method, req, reply, conn, opts...)
}

// list answers a list of the indexes.
func (e *Enterprise) list(reply *adminpb.ListIndexesResponse) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.listed++
	reply.Indexes = e.has
	return e.failing
}

// optimisticID begins the ids of transactions that take no locks.
const optimisticID = "optimistic-"

// IsOptimistic reports whether a transaction takes no locks.
func IsOptimistic(transaction []byte) bool {
	return strings.HasPrefix(string(transaction), optimisticID)
}

// begin returns the id of a new transaction without locks.
func (e *Enterprise) begin() []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.begun++
	id := fmt.Sprint(optimisticID, e.begun)
	if e.reads == nil {
		e.reads = make(map[string]map[string]*timestamppb.Timestamp)
	}
	e.reads[id] = make(map[string]*timestamppb.Timestamp)
	return []byte(id)
}

// end ends a transaction without locks, and returns what it has read. It reports false if the
// transaction is none of these.
func (e *Enterprise) end(transaction []byte) (map[string]*timestamppb.Timestamp, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	reads, own := e.reads[string(transaction)]
	delete(e.reads, string(transaction))
	return reads, own
}

// optimistic returns a commit that writes only if the documents are still as they were read.
func optimistic(req *firestorepb.CommitRequest, reads map[string]*timestamppb.Timestamp) *firestorepb.CommitRequest {
	req = proto.Clone(req).(*firestorepb.CommitRequest)
	req.Transaction = nil
	for _, w := range req.Writes {
		at := reads[w.GetUpdate().GetName()+w.GetDelete()]
		if at != nil {
			w.CurrentDocument = &firestorepb.Precondition{ConditionType: &firestorepb.Precondition_UpdateTime{UpdateTime: at}}
		}
	}
	return req
}

// aborted returns the answer to a commit whose documents have changed.
func aborted(err error) error {
	switch status.Code(err) {
	case codes.FailedPrecondition, codes.AlreadyExists, codes.NotFound:
		return status.Error(codes.Aborted, "a document that the transaction read has changed: "+err.Error())
	default:
		return err
	}
}

func (e *Enterprise) stream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := open(ctx, desc, conn, method, opts...)
	if err != nil {
		return nil, err
	}
	return &enterpriseStream{ClientStream: s, e: e}, nil
}

// An enterpriseStream is a call that may be a query, or read in a transaction.
type enterpriseStream struct {
	grpc.ClientStream
	e *Enterprise

	transaction string // without locks; "": none
	query       *firestorepb.StructuredQuery
	answers     []*firestorepb.RunQueryResponse // of the query, once they are mixed
	mixed       bool
}

func (s *enterpriseStream) SendMsg(msg any) error {
	s.e.noteScan(msg)
	switch r := msg.(type) {
	case *firestorepb.RunQueryRequest:
		if s.e.Unordered {
			r = proto.Clone(r).(*firestorepb.RunQueryRequest)
			s.query = proto.Clone(r.GetStructuredQuery()).(*firestorepb.StructuredQuery)
			r.GetStructuredQuery().Limit = nil // it is applied after mixing
			msg = r
		}
	case *firestorepb.RunAggregationQueryRequest:
		if s.e.Unordered && countsOthers(r.GetStructuredAggregationQuery()) {
			return status.Error(codes.InvalidArgument, "the aggregation also counts documents without the field")
		}
	case *firestorepb.BatchGetDocumentsRequest:
		if IsOptimistic(r.GetTransaction()) {
			s.transaction = string(r.GetTransaction())
			r = proto.Clone(r).(*firestorepb.BatchGetDocumentsRequest)
			r.ConsistencySelector = nil
			msg = r
		}
	}
	return s.ClientStream.SendMsg(msg)
}

// noteScan notes a query that has no index.
func (e *Enterprise) noteScan(msg any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.Unindexed {
		return
	}
	for _, need := range neededBy(msg, route.Enterprise) {
		served := false
		for _, has := range e.has {
			served = served || has.State == adminpb.Index_READY && listed(has).Compare(need) == 0
		}
		if !served {
			e.scans = append(e.scans, need.String())
		}
	}
}

// listed returns an index that AdminIndex made.
func listed(has *adminpb.Index) route.Index {
	_, group, _ := strings.Cut(has.Name, "/collectionGroups/")
	collection, _, _ := strings.Cut(group, "/")
	x := route.Index{Collection: collection, Group: has.QueryScope == adminpb.Index_COLLECTION_GROUP}
	for _, f := range has.Fields {
		x.Fields = append(x.Fields, route.IndexField{
			Field:      document.Field(f.FieldPath),
			Descending: f.GetOrder() == adminpb.Index_IndexField_DESCENDING,
		})
	}
	return x
}

// countsOthers reports whether an aggregation counts documents that lack a field which it adds up.
func countsOthers(query *firestorepb.StructuredAggregationQuery) bool {
	equal, ranges := tested(query.GetStructuredQuery())
	asked := make(map[string]bool)
	for _, field := range append(equal, ranges...) {
		asked[field] = true
	}
	for _, o := range query.GetStructuredQuery().GetOrderBy() {
		asked[o.GetField().GetFieldPath()] = true
	}
	for _, a := range query.GetAggregations() {
		field := a.GetSum().GetField().GetFieldPath() + a.GetAvg().GetField().GetFieldPath()
		if field != "" && !asked[field] {
			return true
		}
	}
	return false
}

func (s *enterpriseStream) RecvMsg(msg any) error {
	if s.query == nil {
		err := s.ClientStream.RecvMsg(msg)
		if err == nil && s.transaction != "" {
			s.noteRead(msg.(*firestorepb.BatchGetDocumentsResponse))
		}
		return err
	}

	if !s.mixed {
		err := s.mix()
		if err != nil {
			return err
		}
	}
	if len(s.answers) == 0 {
		return io.EOF
	}
	proto.Reset(msg.(*firestorepb.RunQueryResponse))
	proto.Merge(msg.(*firestorepb.RunQueryResponse), s.answers[0])
	s.answers = s.answers[1:]
	return nil
}

// noteRead notes when a document was last written that a transaction without locks has read.
func (s *enterpriseStream) noteRead(answer *firestorepb.BatchGetDocumentsResponse) {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	reads, found := s.e.reads[s.transaction], answer.GetFound()
	if reads != nil && found != nil {
		reads[found.Name] = found.UpdateTime
	}
}

// mix receives all answers to a query, turns around those whose order the query does not say, and
// applies the limit.
func (s *enterpriseStream) mix() error {
	s.mixed = true
	var others []*firestorepb.RunQueryResponse // without documents
	for {
		answer := new(firestorepb.RunQueryResponse)
		err := s.ClientStream.RecvMsg(answer)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if answer.Document == nil {
			others = append(others, answer)
		} else {
			s.answers = append(s.answers, answer)
		}
	}

	for from := 0; from < len(s.answers); {
		to := from + 1
		for to < len(s.answers) && s.place(s.answers[to]) == s.place(s.answers[from]) {
			to++
		}
		slices.Reverse(s.answers[from:to])
		from = to
	}
	limit := s.query.GetLimit()
	if limit != nil && len(s.answers) > int(limit.Value) {
		s.answers = s.answers[:limit.Value]
	}
	s.answers = append(s.answers, others...)
	return nil
}

// place returns where the order of the query puts a document: a text that is the same for documents
// whose order the query does not say.
func (s *enterpriseStream) place(of *firestorepb.RunQueryResponse) string {
	var place strings.Builder
	for _, o := range s.query.OrderBy {
		path := o.GetField().GetFieldPath()
		if path == string(route.DocumentName) {
			place.WriteString(of.Document.Name)
			continue
		}
		value, err := proto.MarshalOptions{Deterministic: true}.Marshal(&firestorepb.Document{Fields: map[string]*firestorepb.Value{"v": of.Document.Fields[path]}})
		if err != nil {
			panic(err) // not reached: the emulator sent it
		}
		place.Write(value)
		place.WriteByte('|')
	}
	return place.String()
}
