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

// A line observes the connection to Firestore, by the answers in all streams. It knows whether
// Firestore answers, and what time Firestore's clock shows. While the SDK tries again by itself, it
// does not say that Firestore does not answer.
type line struct {
	mu     sync.Mutex
	err    error         // instead of the last answer; nil: there was an answer
	since  time.Time     // when the first of these errors came, by the local clock
	offset time.Duration // of Firestore's clock from the local one; 0: not known
}

// DialOptions returns the options with which the clients of the databases are opened. By them the
// board knows Firestore's time, and whether it answers.
func (b *Board) DialOptions() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainStreamInterceptor(b.line.stream)}
}

// stream opens a stream whose answers the line notes.
func (l *line) stream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := open(ctx, desc, conn, method, opts...)
	if err != nil {
		l.noteAnswer(err)
		return nil, err
	}
	return &lineStream{s, l}, nil
}

// A lineStream is a stream whose answers are noted.
type lineStream struct {
	grpc.ClientStream
	line *line
}

func (s *lineStream) RecvMsg(msg any) error {
	err := s.ClientStream.RecvMsg(msg)
	s.line.noteAnswer(err)
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
		s.line.noteServerTime(read.AsTime(), time.Now())
	}
	return nil
}

// noteAnswer notes an answer, or an error that passes. Any other error is the usual end of a
// stream, or ends a feed, which reports it.
func (l *line) noteAnswer(err error) {
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

// patience is how long a connection may be broken without a message. Firestore ends a listener's
// stream now and then, and the SDK opens another within about a second.
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

// jitter is how much longer one answer may be on the way than another.
const jitter = 2 * time.Second

// noteServerTime notes an answer: Firestore's clock was at server when it was sent, and the local
// one was at local when it came. The time on the way makes the difference smaller than it is, so
// the greatest difference is the most exact one. If it is smaller by more than jitter, a clock was
// set.
func (l *line) noteServerTime(server, local time.Time) {
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
