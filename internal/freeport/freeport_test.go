package freeport

import (
	"net"
	"strconv"
	"testing"
)

func TestRow(t *testing.T) {
	given := make(map[int]bool)
	for n := range 20 {
		first, err := Row(n%3 + 1)
		if err != nil {
			t.Fatal(err)
		}
		for port := first; port <= first+n%3; port++ {
			if given[port] || port < lowest || port >= highest {
				t.Errorf("Row gave port %d; given before: %v", port, given[port])
			}
			given[port] = true
			l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
		}
	}
	// The next port is taken: a row goes past it.
	taken := lowest + int(next.Load()%(highest-lowest-1))
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(taken)))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if first, err := Row(1); err != nil || first == taken {
		t.Errorf("Row gave %d, which is taken, and error %v", first, err)
	}
}
