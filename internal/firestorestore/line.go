package firestorestore

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// silence is for how long nothing must have come over a connection, while a call over it ran into its
// deadline, until it is taken for dead. A call that is given less time proves nothing.
const silence = 2 * time.Second

// A line is the network connections under a gRPC connection, of which there is one at a time. gRPC
// keeps one that a network has forgotten until the system gives it up, which takes a quarter of an
// hour, and all calls over it get lost. A line drops it when a first call got lost, so that the next
// goes over another.
type line struct {
	mu   sync.Mutex
	open map[*wire]struct{}
}

// A wire is one network connection.
type wire struct {
	net.Conn
	line  *line
	heard atomic.Int64 // when something came over it last, in nanoseconds since 1970
}

// options returns the options with which a gRPC connection is on the line.
func (l *line) options() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithContextDialer(l.dial), grpc.WithChainUnaryInterceptor(l.unary), grpc.WithChainStreamInterceptor(l.stream)}
}

func (l *line) dial(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	w := &wire{Conn: conn, line: l}
	w.hear()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[w] = struct{}{}
	return w, nil
}

func (w *wire) hear() { w.heard.Store(time.Now().UnixNano()) }

// Read implements net.Conn.
func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if n > 0 {
		w.hear()
	}
	return n, err
}

// Close implements net.Conn.
func (w *wire) Close() error {
	w.line.mu.Lock()
	delete(w.line.open, w)
	w.line.mu.Unlock()
	return w.Conn.Close()
}

// ended takes the outcome of a call, and drops what is dead.
func (l *line) ended(began time.Time, err error) {
	now := time.Now()
	if status.Code(err) != codes.DeadlineExceeded || now.Sub(began) < silence {
		return
	}
	l.mu.Lock()
	var dead []*wire
	for w := range l.open {
		if now.UnixNano()-w.heard.Load() >= int64(silence) {
			dead = append(dead, w)
		}
	}
	l.mu.Unlock()
	for _, w := range dead {
		_ = w.Close() // gRPC's own reader gets the error, and opens another
	}
}

func (l *line) unary(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	began := time.Now()
	err := invoke(ctx, method, req, reply, conn, opts...)
	l.ended(began, err)
	return err
}

func (l *line) stream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	began := time.Now()
	s, err := open(ctx, desc, conn, method, opts...)
	l.ended(began, err)
	if err != nil {
		return nil, err
	}
	return &lineStream{s, l, began}, nil
}

type lineStream struct {
	grpc.ClientStream
	line  *line
	began time.Time
}

func (s *lineStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	s.line.ended(s.began, err)
	return err
}
