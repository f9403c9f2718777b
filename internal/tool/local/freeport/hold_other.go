//go:build !linux

package freeport

import "net"

// Hold finds a port, or takes the given one if nothing listens on it, and cannot hold it.
func Hold(port int) (held int, release func(), err error) {
	l, err := net.Listen("tcp", HostPort(port))
	if err != nil {
		return 0, nil, err
	}

	held = l.Addr().(*net.TCPAddr).Port
	return held, func() {}, l.Close()
}
