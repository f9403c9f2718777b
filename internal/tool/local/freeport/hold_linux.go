package freeport

import (
	"fmt"
	"syscall"
)

// Hold holds an unused port: the given one, or any if it is 0. It binds a socket to the
// port and does not listen. The port is held until release is called or the process ends.
func Hold(port int) (held int, release func(), err error) {
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, nil, fmt.Errorf("socket: %w", err)
	}
	release = func() { _ = syscall.Close(socket) }

	held, err = bind(socket, port)
	if err != nil {
		release()
		return 0, nil, fmt.Errorf("hold port %d: %w", port, err)
	}
	return held, release, nil
}

// bind binds the socket and returns its port.
func bind(socket, port int) (bound int, err error) {
	err = syscall.Bind(socket, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
	if err != nil {
		return 0, err
	}

	// Reuse is allowed only now. Bind has failed if another socket has the port, even one that
	// allows reuse. From here on a server that allows it too can bind to the port.
	err = syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	if err != nil {
		return 0, err
	}

	address, err := syscall.Getsockname(socket)
	if err != nil {
		return 0, err
	}
	return address.(*syscall.SockaddrInet4).Port, nil
}
