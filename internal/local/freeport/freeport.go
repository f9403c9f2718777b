// Package freeport holds ports of the loopback address for servers that must be told one before
// they start. A server that can listen on port 0, and say which port it got, needs none of this.
//
// No other call of [Hold] gets a port that is held, in whatever process, and the system gives it
// neither to a connection nor to a listener that takes any port. A server that is told the port can
// listen on it while it is held, if it allows addresses to be reused. Servers in Go, Java and
// Node.js do.
//
// Only Linux can hold ports in this way. On another system another program can take a port before
// the server listens on it.
package freeport
