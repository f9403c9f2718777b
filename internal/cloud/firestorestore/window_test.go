package firestorestore_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/firestore-tally/tally/rollup"
	"google.golang.org/grpc"
)

// bounds notes the times with which queries compare, and the read times that they ask for.
type bounds struct {
	mu        sync.Mutex
	times     []time.Time
	readTimes []time.Time
}

func (b *bounds) dialOption() grpc.DialOption {
	return grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		stream, err := open(ctx, desc, conn, method, opts...)
		return boundsStream{stream, b}, err
	})
}

type boundsStream struct {
	grpc.ClientStream
	*bounds
}

func (s boundsStream) SendMsg(msg any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch req := msg.(type) {
	case *firestorepb.RunQueryRequest:
		s.note(req.GetStructuredQuery().GetWhere())
		s.readTimes = append(s.readTimes, req.GetReadTime().AsTime())
	case *firestorepb.RunAggregationQueryRequest:
		s.note(req.GetStructuredAggregationQuery().GetStructuredQuery().GetWhere())
	}
	return s.ClientStream.SendMsg(msg)
}

func (b *bounds) note(f *firestorepb.StructuredQuery_Filter) {
	for _, part := range f.GetCompositeFilter().GetFilters() {
		b.note(part)
	}
	if t := f.GetFieldFilter().GetValue().GetTimestampValue(); t != nil {
		b.times = append(b.times, t.AsTime())
	}
}

// The bound of a window is the snapshot's own read time, less the window's length. The first
// document to leave is read at that same time. An audit's snapshot is opened before it is summed.
func TestWindowsBoundIsTheReadTime(t *testing.T) {
	client := dial(t)
	bulkCommit(t, client, 3, func(i int) string { return "posts/a/likes/" + string(rune('a'+i)) }, map[string]any{"at": time.Now(), "amount": 1})
	var asked bounds
	store := open(t, client, asked.dialOption())
	likes, _ := template(t, `posts/{post}/likes/{user} -> posts/{post} : count() where at > now - 24h as n, sum(amount) where at >= now - 24h as m : existing`)
	c, _ := likes.Counter("posts/a")

	viewed := view(t, store, c)
	for name, s := range map[string]rollup.Snapshot{"a look": viewed, "an audit": store.Sources(t.Context(), c)} {
		asked.times, asked.readTimes = nil, nil
		bulkCommit(t, client, 1, func(int) string { return "posts/" + name }, map[string]any{}) // time goes on
		totals, err := s.Sum(t.Context())
		if err != nil || len(totals.Leaving) != 2 {
			t.Fatalf("%s: %+v, %v", name, totals, err)
		}
		if len(asked.times) != 4 || len(asked.readTimes) != 2 {
			t.Fatalf("%s: bounds %v, read times %v", name, asked.times, asked.readTimes)
		}
		for _, bound := range asked.times {
			if !bound.Equal(s.ReadTime().Add(-24 * time.Hour)) {
				t.Errorf("%s: a bound of %v, want a day before %v", name, bound, s.ReadTime())
			}
		}
		for _, at := range asked.readTimes {
			if !at.Equal(s.ReadTime()) {
				t.Errorf("%s: what leaves first is read at %v, want %v", name, at, s.ReadTime())
			}
		}
	}
}
