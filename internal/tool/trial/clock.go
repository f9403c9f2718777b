package trial

import (
	"sync"
	"time"
)

// A clock tells how far Firestore's clock is ahead of this machine's. It learns that from writes,
// each of which was committed between its sending and its answer. It may be used by many
// goroutines.
type clock struct {
	mu          sync.Mutex
	least, most time.Duration
	known       bool
}

// saw notes a write: when it was sent and answered by this machine's clock, and committed by
// Firestore's.
func (c *clock) saw(sent, committed, answered time.Time) {
	least, most := committed.Sub(answered), committed.Sub(sent)

	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known {
		c.least, c.most, c.known = least, most, true
		return
	}
	c.least, c.most = max(c.least, least), min(c.most, most)
}

// ahead returns how far Firestore's clock is ahead, and by how much that may be wrong either way.
func (c *clock) ahead() (by, doubt time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return (c.least + c.most) / 2, (c.most - c.least).Abs() / 2
}
