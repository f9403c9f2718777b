// Package billing counts, at the gRPC layer, the document operations that Firestore bills a client
// for.
//
// Firestore bills by these rules (https://cloud.google.com/firestore/pricing):
//
//   - a read for each document that is returned, or looked up and not found;
//   - at least one read for each query;
//   - a read for each 1,000 index entries that an aggregation matches, and at least one;
//   - a write or a delete for each document of a commit that succeeded.
//
// It counts the calls that Tally makes: Commit, BatchGetDocuments, RunQuery, RunAggregationQuery
// and ListDocuments. It does not count:
//
//   - calls that only other clients make: listeners, BatchWrite, partitioned queries;
//   - reads that Firestore itself repeats in a read-write transaction;
//   - the small print of the price list, such as index entries that a query skips.
//
// file.go passes the counts from one process to another. prices.go has the list prices, and
// enterprise.go what the Enterprise edition bills instead.
package billing

import (
	"context"
	"errors"
	"io"
	"sync"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc"
)

// Counts says how many operations were billed.
type Counts struct {
	Reads   int64 `json:"reads"`
	Writes  int64 `json:"writes"`
	Deletes int64 `json:"deletes"`
}

// Add returns the sum of c and d.
func (c Counts) Add(d Counts) Counts {
	return Counts{c.Reads + d.Reads, c.Writes + d.Writes, c.Deletes + d.Deletes}
}

// A Meter counts the operations of the connections that were opened with its DialOptions. It may be
// used by many goroutines at once.
type Meter struct {
	mu       sync.Mutex
	counts   Counts
	observer func(Counts)
}

// NewMeter returns a Meter. Whenever its counts grow, it calls observer with the new ones, one call
// at a time. The observer may be nil.
func NewMeter(observer func(Counts)) *Meter {
	return &Meter{observer: observer}
}

// Counts returns the operations counted so far.
func (m *Meter) Counts() Counts {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.counts
}

// contextKey is the key of a context's own meter.
type contextKey struct{}

// Context returns a context. m also counts the calls that are made with it, if their connection was
// opened with the DialOptions of any Meter.
func Context(ctx context.Context, m *Meter) context.Context {
	return context.WithValue(ctx, contextKey{}, m)
}

// FromContext returns the meter that Context put into a context. It returns nil if there is none.
func FromContext(ctx context.Context) *Meter {
	m, _ := ctx.Value(contextKey{}).(*Meter)
	return m
}

// billCall counts operations of a call that was made with ctx.
func (m *Meter) billCall(ctx context.Context, c Counts) {
	m.bill(c)
	own := FromContext(ctx)
	if own != nil {
		own.bill(c)
	}
}

// bill counts operations.
func (m *Meter) bill(c Counts) {
	if c == (Counts{}) {
		return
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts = m.counts.Add(c)
	if m.observer != nil {
		m.observer(m.counts)
	}
}

// DialOptions returns the options with which to open a gRPC connection so that m counts its calls.
func (m *Meter) DialOptions() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(m.unary), grpc.WithChainStreamInterceptor(m.stream)}
}

// unary makes a call that has one answer, and counts it if it succeeds.
func (m *Meter) unary(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	err := invoke(ctx, method, req, reply, conn, opts...)
	if err != nil {
		return err
	}

	switch req := req.(type) {
	case *firestorepb.CommitRequest:
		m.billCall(ctx, writes(req.Writes))
	case *firestorepb.ListDocumentsRequest:
		found := len(reply.(*firestorepb.ListDocumentsResponse).Documents)
		m.billCall(ctx, Counts{Reads: max(1, int64(found))})
	}
	return nil
}

// writes returns what the writes of a commit bill.
func writes(writes []*firestorepb.Write) Counts {
	var c Counts
	for _, w := range writes {
		switch w.Operation.(type) {
		case *firestorepb.Write_Delete:
			c.Deletes++
		default:
			c.Writes++
		}
	}
	return c
}

// stream opens a stream that is counted.
func (m *Meter) stream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := open(ctx, desc, conn, method, opts...)
	if err != nil {
		return nil, err
	}
	return &stream{ClientStream: s, meter: m}, nil
}

// A stream counts what one server-streaming call returns. Like any gRPC stream it is received from
// by one goroutine at a time.
type stream struct {
	grpc.ClientStream
	meter   *Meter
	query   bool   // the call is a query, which is billed even when it returns nothing
	counter string // the alias of the aggregation COUNT, which tells how many index entries were matched; "": there is none
	billed  bool   // the call has billed something
}

// SendMsg sends a request. It notes whether that is a query, and under which alias the answer will
// have COUNT.
func (s *stream) SendMsg(msg any) error {
	switch req := msg.(type) {
	case *firestorepb.RunQueryRequest:
		s.query = true
	case *firestorepb.RunAggregationQueryRequest:
		s.query = true
		for _, a := range req.GetStructuredAggregationQuery().GetAggregations() {
			_, isCount := a.Operator.(*firestorepb.StructuredAggregationQuery_Aggregation_Count_)
			if isCount {
				s.counter = a.Alias
			}
		}
	}
	return s.ClientStream.SendMsg(msg)
}

// RecvMsg receives an answer or the end of the stream, and counts it.
func (s *stream) RecvMsg(msg any) error {
	err := s.ClientStream.RecvMsg(msg)

	var reads int64
	switch {
	case err == nil:
		reads = s.readsIn(msg)
	case errors.Is(err, io.EOF) && s.query && !s.billed:
		reads = 1 // for a query that found nothing
	}
	s.billed = s.billed || reads > 0
	s.meter.billCall(s.Context(), Counts{Reads: reads})
	return err
}

// entriesPerRead is how many index entries an aggregation may match for one billed read.
const entriesPerRead = 1000

// readsIn returns the reads that an answer bills. An answer that has only the transaction or the
// read time bills none.
func (s *stream) readsIn(msg any) int64 {
	switch res := msg.(type) {
	case *firestorepb.BatchGetDocumentsResponse:
		if res.Result != nil {
			return 1
		}
	case *firestorepb.RunQueryResponse:
		if res.Document != nil {
			return 1
		}
	case *firestorepb.RunAggregationQueryResponse:
		if res.Result != nil {
			entries := res.Result.AggregateFields[s.counter].GetIntegerValue()
			return max(1, (entries+entriesPerRead-1)/entriesPerRead)
		}
	}
	return 0
}
