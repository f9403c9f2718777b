package rollup

// Active returns how many counters the coalescer remembers.
func (c *Coalescer) Active() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.counters)
}
