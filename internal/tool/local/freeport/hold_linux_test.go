package freeport

import (
	"errors"
	"net"
	"syscall"
	"testing"
)

func listen(port int) (net.Listener, error) { return net.Listen("tcp", HostPort(port)) }

// Only the server for which a port is held gets that port.
func TestHold(t *testing.T) {
	given := make(map[int]bool)
	for range 600 {
		port, release, err := Hold(0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(release)
		if given[port] {
			t.Errorf("Hold gave port %d twice", port)
		}
		given[port] = true
	}
	// Every listener that takes any port, and each end of its connection, gets another one.
	for range 1000 {
		l, err := listen(0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		for _, a := range []net.Addr{l.Addr(), c.LocalAddr()} {
			if port := a.(*net.TCPAddr).Port; given[port] {
				t.Errorf("the system gave away port %d, which is held", port)
			}
		}
	}
	taken := 0 // by tests of other packages, whose servers are told a port that was free before
	for port := range given {
		l, err := listen(port)
		if errors.Is(err, syscall.EADDRINUSE) {
			taken++
			continue
		}
		if err != nil {
			t.Fatalf("the server that the port is for: %v", err)
		}
		if another, err := listen(port); err == nil {
			another.Close()
			t.Errorf("two servers listen on port %d", port)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if taken > 1 {
		t.Errorf("%d of %d ports that are held are taken", taken, len(given))
	}
}

// A port that is in use, or held, cannot be held.
func TestHoldTaken(t *testing.T) {
	l, err := listen(0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	if _, _, err := Hold(port); err == nil {
		t.Errorf("held port %d, which is in use", port)
	}
	first, release, err := Hold(0)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if _, _, err := Hold(first); err == nil {
		t.Errorf("held port %d twice", first)
	}
}
