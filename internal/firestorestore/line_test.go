package firestorestore

import (
	"context"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A connection is dropped only when a call over it took long and got lost, and nothing else came over
// it meanwhile.
func TestLineDropsWhatIsDead(t *testing.T) {
	lost := status.Error(codes.DeadlineExceeded, "lost")
	for _, test := range []struct {
		name          string
		called, heard time.Duration // ago
		err           error
		dropped       bool
	}{
		{"a call that got lost", 4 * time.Second, time.Minute, lost, true},
		{"others are answered", 4 * time.Second, time.Second, lost, false},
		{"a call that had little time", time.Second, time.Minute, lost, false},
		{"another error", 4 * time.Second, time.Minute, status.Error(codes.Unavailable, "full"), false},
		{"an answer", 4 * time.Second, time.Minute, nil, false},
	} {
		server, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l := &line{open: make(map[*wire]struct{})}
		conn, err := l.dial(context.Background(), server.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		conn.(*wire).heard.Store(now.Add(-test.heard).UnixNano())
		l.ended(now.Add(-test.called), test.err)
		if dropped := len(l.open) == 0; dropped != test.dropped {
			t.Errorf("%s: dropped: %v, want %v", test.name, dropped, test.dropped)
		}
		_ = conn.Close() // perhaps it is closed
		server.Close()
	}
}
