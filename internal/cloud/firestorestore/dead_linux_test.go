package firestorestore_test

import (
	"context"
	"log/slog"
	"net"
	"syscall"
	"testing"

	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/rollup/route"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
)

// Linux takes a connection for dead once nothing that was sent has been acknowledged for 3 s, which
// leaves an event time for a second call within the hold limit of 8 s. Else that takes minutes.
func TestDeadConnectionIsNoticedInTime(t *testing.T) {
	dialed := make(chan syscall.RawConn, 10)
	dialer := grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		raw, err := conn.(*net.TCPConn).SyscallConn()
		dialed <- raw
		return conn, err
	})
	store, err := firestorestore.Open(t.Context(), emulatortest.Addr(t), emulatortest.Project(t), "(default)", slog.New(slog.DiscardHandler), dialer)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	view(t, store, counter(t, route.Default))

	var milliseconds int
	var optionErr error
	err = (<-dialed).Control(func(fd uintptr) {
		milliseconds, optionErr = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
	})
	if err != nil || optionErr != nil || milliseconds != 3000 {
		t.Errorf("TCP_USER_TIMEOUT is %d ms, %v, %v; want 3000", milliseconds, err, optionErr)
	}
}
