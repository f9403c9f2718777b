// Package freeport finds ports for the servers of tests.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync/atomic"
)

// The system gives ports from 32,768 (Linux) or 49,152 (macOS, Windows) on to listeners that ask for
// none, and to connections. One of those could be taken between its choice and its use, and whoever
// took it would be taken for the server. So ports come from below, each once; processes begin at
// random, so that two seldom meet.
const (
	lowest  = 20_000
	highest = 30_000
)

var next atomic.Int64

func init() { next.Store(rand.Int64N(highest - lowest)) }

// Row returns the first of n ports in a row on which nothing listens on the loopback address, and which
// no other call of this process gets. Few calls of few ports: it does not come round for a while.
func Row(n int) (first int, err error) {
	for range (highest - lowest) / n {
		first = lowest + int((next.Add(int64(n))-int64(n))%(highest-lowest-int64(n)))
		if err = free(first, n); err == nil {
			return first, nil
		}
	}
	return 0, fmt.Errorf("freeport: no %d free ports in a row from %d to %d; the last try: %w", n, lowest, highest, err)
}

// free returns an error if a port from first on is in use.
func free(first, n int) error {
	for port := first; port < first+n; port++ {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			return err
		}
		if err := l.Close(); err != nil {
			return err
		}
	}
	return nil
}
