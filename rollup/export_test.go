package rollup

import "github.com/firestore-tally/tally/rollup/route"

// Active returns how many counters the coalescer remembers.
func (c *Coalescer) Active() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.counters)
}

// Absorbs reports whether an event of the counter would be absorbed now.
func (c *Coalescer) Absorbs(counter route.Counter) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.counters[counter.RollUp]
	return s != nil && s.open != nil
}

// Room returns how many lines there is room for in memory.
func (l *Logged) Room() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(len(l.known), cap(l.lines))
}
