//go:build !linux

package freeport

import (
	"net"
	"strconv"
)

// Hold finds a port, or takes the given one if nothing listens on it, and cannot hold it.
func Hold(port int) (held int, release func(), err error) {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return 0, nil, err
	}
	return l.Addr().(*net.TCPAddr).Port, func() {}, l.Close()
}
