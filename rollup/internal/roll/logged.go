package roll

import (
	"hash/maphash"
	"sync"
	"time"
)

// A Logged remembers what was logged lately about counters that wait for someone to fix them. So
// each kind of line is logged at most once in ten minutes for each counter. All work of one process
// on one database should share a Logged. It may be used by many goroutines at once.
//
// It remembers 100,000 lines, which take some megabytes. If there are more, it forgets the oldest,
// whose counter may then be logged again sooner. So lines about other counters never keep a counter
// out of the log, however many counters somebody makes up.
type Logged struct {
	seed  maphash.Seed
	cause func(error) string

	mu    sync.Mutex
	known map[uint64]bool // the keys of lines
	lines []loggedLine    // the oldest first
}

// A loggedLine is one line of the log.
type loggedLine struct {
	key uint64 // a hash of the kind and the counter: paths may have kilobytes each
	at  time.Time
}

const (
	logAgain  = 10 * time.Minute // how long a line is remembered, and not logged again
	maxLogged = 100_000          // lines that are remembered
)

// NewLogged returns a Logged that remembers nothing yet. cause names what caused an error, such as
// a gRPC code; nil: nothing is known of causes.
func NewLogged(cause func(error) string) *Logged {
	if cause == nil {
		cause = func(error) string { return "" }
	}
	return &Logged{seed: maphash.MakeSeed(), cause: cause, known: make(map[uint64]bool)}
}

// First reports whether no line of the kind was logged about the counter lately, with an error of
// the same cause. If so, it notes that one is logged now. A line without an error has nil.
func (l *Logged) First(kind, rollUp string, err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for len(l.lines) > 0 && now.Sub(l.lines[0].at) >= logAgain {
		l.forgetOldest()
	}

	key := maphash.Comparable(l.seed, [3]string{kind, rollUp, l.cause(err)})
	if l.known[key] {
		return false
	}

	if len(l.lines) == maxLogged {
		l.forgetOldest()
	}
	l.known[key] = true
	l.lines = append(l.lines, loggedLine{key, now})
	return true
}

// forgetOldest forgets the oldest line. The mutex is held.
func (l *Logged) forgetOldest() {
	delete(l.known, l.lines[0].key)
	l.lines = l.lines[1:]
}
