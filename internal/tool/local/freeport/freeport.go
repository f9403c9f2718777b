// Package freeport gives servers ports of the loopback address, which only this machine reaches,
// and keeps web pages away from them ([Guard]).
//
// [Hold] is for servers that must be told a port before they start: the Firestore emulator and
// Google's functions framework. A server that can listen on port 0, and say which port it got,
// needs no Hold.
//
// No other call of Hold gets a port that is held, in whatever process. The system gives such a port
// neither to a connection nor to a listener that takes any port. The server that was told the port
// can listen on it while it is held, if the server allows addresses to be reused. Servers in Go,
// Java and Node.js do.
//
// Only Linux can hold ports in this way. On another system another program can take a port before
// the server listens on it.
//
// The package is small because it stands below all that start servers: the emulator, the framework,
// the stack, and tests that start one of them alone.
package freeport

import (
	"net"
	"strconv"
)

// Loopback is the address whose ports Hold holds. Whatever Tally starts on this machine listens on
// it.
const Loopback = "127.0.0.1"

// HostPort returns the loopback address with a port, such as 127.0.0.1:8080.
func HostPort(port int) string { return net.JoinHostPort(Loopback, strconv.Itoa(port)) }
