package rollup

// Active returns how many counters the coalescer remembers.
func (c *Coalescer) Active() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.counters)
}

// Absorbs reports whether an event of the counter would be absorbed now.
func (c *Coalescer) Absorbs(counter Counter) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.counters[counter.RollUp]
	return s != nil && s.open != nil
}
