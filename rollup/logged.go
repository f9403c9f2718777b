package rollup

import (
	"hash/maphash"
	"sync"
	"time"
)

// A Logged remembers what was logged lately of counters that wait for somebody to mend them, so that
// each kind is logged at most once in ten minutes for each counter. All work of one process on one
// database should share one. It may be used by many goroutines at once.
//
// It remembers 100,000 lines, in some megabytes. With more, it forgets the oldest, whose counter may
// then be logged again sooner. So only its own line keeps a counter from being logged, never
// another's, however many counters somebody makes up.
type Logged struct {
	seed maphash.Seed

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
	logAgain  = 10 * time.Minute // what lasts is logged at most once in it, for each counter
	maxLogged = 100_000          // lines that are remembered
)

// NewLogged returns a Logged that remembers nothing yet.
func NewLogged() *Logged {
	return &Logged{seed: maphash.MakeSeed(), known: make(map[uint64]bool)}
}

// first reports whether nothing of the kind was logged of the counter lately, and notes that it is
// logged now.
func (l *Logged) first(kind, rollUp string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for len(l.lines) > 0 && now.Sub(l.lines[0].at) >= logAgain {
		l.forgetOldest()
	}

	key := maphash.Comparable(l.seed, [2]string{kind, rollUp})
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
