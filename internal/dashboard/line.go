package dashboard

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// A line is what is known of the connection to Firestore, seen from the answers' streams: whether
// it works, which the SDK does not tell while it tries again by itself, and what time it is at the
// other end.
type line struct {
	mu     sync.Mutex
	err    error         // of the last answer; nil: it was one
	since  time.Time     // when err began, by the local clock
	offset time.Duration // of Firestore's clock from the local one; 0: not known
}

// DialOptions returns the options to open the clients of the databases with. By them the board
// knows Firestore's time, and whether it answers.
func (b *Board) DialOptions() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		s, err := open(ctx, desc, conn, method, opts...)
		if err != nil {
			b.line.heard(err)
			return nil, err
		}
		return &lineStream{s, &b.line}, nil
	})}
}

// A lineStream is a stream whose answers are noted.
type lineStream struct {
	grpc.ClientStream
	line *line
}

func (s *lineStream) RecvMsg(msg any) error {
	err := s.ClientStream.RecvMsg(msg)
	s.line.heard(err)
	if err != nil {
		return err
	}
	var read *timestamppb.Timestamp
	switch res := msg.(type) {
	case *firestorepb.ListenResponse:
		read = res.GetTargetChange().GetReadTime()
	case *firestorepb.RunQueryResponse:
		read = res.GetReadTime()
	}
	if read != nil {
		s.line.tell(read.AsTime(), time.Now())
	}
	return nil
}

// heard notes an answer, or an error that passes. Other errors end a feed, which tells them, or are
// how streams end.
func (l *line) heard(err error) {
	if err != nil && (errors.Is(err, io.EOF) || !passes(err)) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.since = time.Now()
	}
	l.err = err
}

// patience is how long a broken connection is not worth a word: Firestore ends a listener's stream
// now and then, and the SDK opens another within about a second.
const patience = 3 * time.Second

// broken returns why Firestore has not answered for longer than patience, or nil.
func (l *line) broken(now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil || now.Sub(l.since) < patience {
		return nil
	}
	return l.err
}

// jitter is by how much an answer may be later than others of the same clock.
const jitter = 2 * time.Second

// tell notes that Firestore's clock was at server when the local one was at local, or a little
// earlier, by the time that the answer took. So the highest difference is the best one, unless
// a clock was set.
func (l *line) tell(server, local time.Time) {
	offset := server.Sub(local.Round(0)) // without the monotonic clock, which stands still while the machine sleeps
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.offset == 0 || offset > l.offset || offset < l.offset-jitter {
		l.offset = offset
	}
}

// serverTime returns what Firestore's clock says when the local one says local. Until Firestore has
// told its time they count as equal.
func (l *line) serverTime(local time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return local.Round(0).Add(l.offset)
}
