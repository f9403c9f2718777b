// Package freeport holds ports of the loopback address for servers that must be told one before
// they start. A server that can listen on port 0, and say which port it got, needs none of this.
package freeport

import "fmt"

// attempts is how many rows Hold tries. A row fails if a port behind its first is taken, which is
// seldom.
const attempts = 100

// Hold returns the first of n ports in a row that nobody uses, and holds them until release is
// called or the process ends. No other call of Hold gets a port that is held, in whatever process,
// and the system gives it neither to a connection nor to a listener that takes any port. A server
// that is told the port can listen on it while it is held, if it allows addresses to be reused.
// Servers in Go, Java and Node.js do.
//
// Only Linux can hold ports in this way. On another system a port can be lost before the server
// listens on it, and whoever starts the server has to try another one then.
func Hold(n int) (first int, release func(), err error) {
	for range attempts {
		if first, release, err = holdRow(n); err == nil {
			return first, release, nil
		}
	}
	return 0, nil, fmt.Errorf("freeport: no %d free ports in a row in %d tries; the last: %w", n, attempts, err)
}

// holdRow holds any port and the n-1 behind it.
func holdRow(n int) (first int, release func(), err error) {
	first, release, err = hold(0)
	for port := first + 1; err == nil && port < first+n; port++ {
		before := release
		var after func()
		if _, after, err = hold(port); err != nil {
			before()
			break
		}
		release = func() { after(); before() }
	}
	return first, release, err
}
