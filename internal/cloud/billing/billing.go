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
// The Enterprise edition bills units instead, which enterprise.go counts of the same calls.
//
// file.go passes what was used from one process to another. prices.go has the list prices.
package billing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/firestore-tally/tally/rollup/route"
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

// String returns the counts in words, such as "3 reads, 1 write".
func (c Counts) String() string {
	return phrase(noun{c.Reads, "read"}, noun{c.Writes, "write"}, noun{c.Deletes, "delete"})
}

// On returns what an edition bills for operations that are not aggregations, on documents of up to
// 1 KiB without indexes.
func (c Counts) On(edition route.Edition) Bill {
	return Usage{c, Units{Reads: c.Reads, Writes: c.Writes + c.Deletes}}.On(edition)
}

// Usage is what was used of Firestore, as each edition measures it.
type Usage struct {
	Counts Counts
	Units  Units
}

// Add returns the sum of u and v.
func (u Usage) Add(v Usage) Usage { return Usage{u.Counts.Add(v.Counts), u.Units.Add(v.Units)} }

// Times returns n times as much.
func (u Usage) Times(n int64) Usage {
	return Usage{Counts{n * u.Counts.Reads, n * u.Counts.Writes, n * u.Counts.Deletes}, u.Units.Times(n)}
}

// Sum returns what a sum of n documents uses.
func Sum(n int64) Usage { return Usage{Counts{Reads: units(n, entriesPerRead)}, Scan(n, SumEntry)} }

// On returns what an edition bills for it.
func (u Usage) On(edition route.Edition) Bill {
	if edition == route.Enterprise {
		return u.Units
	}
	return u.Counts
}

// A Bill is what an edition bills: Counts on Standard, Units on Enterprise.
type Bill interface {
	CostIn(location string) float64 // at list price, in US dollars
	String() string                 // such as "3 reads, 1 write"
}

// A noun is a number of things.
type noun struct {
	n   int64
	one string
}

// phrase returns numbers with their nouns, such as "12,000 reads, 1 write". All but the first are
// left out if they are 0.
func phrase(nouns ...noun) string {
	var all []string
	for i, of := range nouns {
		if i > 0 && of.n == 0 {
			continue
		}
		all = append(all, Number(of.n, of.one))
	}
	return strings.Join(all, ", ")
}

// Number returns a number with its noun, and with a comma before each three digits: 52,000
// documents. one is the noun for a single thing.
func Number(n int64, one string) string {
	text := fmt.Sprint(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	if n == 1 {
		return text + " " + one
	}
	return text + " " + one + "s"
}

// A Meter counts the operations of the connections that were opened with its DialOptions. It may be
// used by many goroutines at once.
type Meter struct {
	mu       sync.Mutex
	usage    Usage
	observer func(Usage)
}

// NewMeter returns a Meter. Whenever its usage grows, it calls observer with the new one, one call
// at a time. The observer may be nil.
func NewMeter(observer func(Usage)) *Meter {
	return &Meter{observer: observer}
}

// Counts returns the operations counted so far.
func (m *Meter) Counts() Counts { return m.Usage().Counts }

// Usage returns what was used so far.
func (m *Meter) Usage() Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.usage
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

// billCall counts what a call used that was made with ctx.
func (m *Meter) billCall(ctx context.Context, u Usage) {
	m.bill(u)
	own := FromContext(ctx)
	if own != nil {
		own.bill(u)
	}
}

// bill counts what was used.
func (m *Meter) bill(u Usage) {
	if u == (Usage{}) {
		return
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	m.usage = m.usage.Add(u)
	if m.observer != nil {
		m.observer(m.usage)
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
		m.billCall(ctx, Usage{writes(req.Writes), unitsOfWrites(req.Writes)})
	case *firestorepb.ListDocumentsRequest:
		found := reply.(*firestorepb.ListDocumentsResponse).Documents
		m.billCall(ctx, Usage{Counts{Reads: max(1, int64(len(found)))}, unitsOfList(found)})
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
	entry   int64  // bytes of each of these entries on Enterprise
	found   int64  // documents that the query has returned
	billed  bool   // the call has billed something
}

// SendMsg sends a request. It notes whether that is a query, and under which alias the answer will
// have COUNT.
func (s *stream) SendMsg(msg any) error {
	switch req := msg.(type) {
	case *firestorepb.RunQueryRequest:
		s.query = true
	case *firestorepb.RunAggregationQueryRequest:
		s.query, s.entry = true, entryOf(req.GetStructuredAggregationQuery())
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

	var used Usage
	ended := errors.Is(err, io.EOF) && s.query
	switch {
	case err == nil:
		used = s.readsIn(msg)
	case ended && s.found > 0:
		used.Units = Scan(s.found, SumEntry)
	case ended && !s.billed:
		used = Usage{Counts{Reads: 1}, Units{Reads: 1}} // for a query that found nothing
	}
	s.billed = s.billed || used.Counts.Reads > 0
	s.meter.billCall(s.Context(), used)
	return err
}

// entriesPerRead is how many index entries an aggregation may match for one billed read.
const entriesPerRead = 1000

// readsIn returns what an answer bills. An answer that has only the transaction or the
// read time bills none.
func (s *stream) readsIn(msg any) Usage {
	switch res := msg.(type) {
	case *firestorepb.BatchGetDocumentsResponse:
		if res.Result != nil {
			return Usage{Counts{Reads: 1}, unitsOfRead(res.GetFound())}
		}
	case *firestorepb.RunQueryResponse:
		if res.Document != nil {
			s.found++
			return Usage{Counts{Reads: 1}, unitsOfRead(res.Document)}
		}
	case *firestorepb.RunAggregationQueryResponse:
		if res.Result != nil {
			entries := res.Result.AggregateFields[s.counter].GetIntegerValue()
			return Usage{Counts{Reads: units(entries, entriesPerRead)}, Scan(entries, s.entry)}
		}
	}
	return Usage{}
}
