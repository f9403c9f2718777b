package events

import (
	"time"

	"github.com/firestore-tally/tally/rollup/internal/roll"
)

const (
	// longKnownFor is how long an instance remembers that a sum was cut off. The roll-up does not
	// say so, because none was written.
	longKnownFor = 10 * time.Minute

	// An instance does not sum a counter for firstRest after a long sum has failed. That doubles
	// with each further failure in a row, up to longestRest. Such a sum may have read for as long as
	// Options.LongTimeout.
	firstRest   = time.Minute
	longestRest = 10 * time.Minute
)

// takesLong reports whether a sum that took so long is long.
func (c *Coalescer) takesLong(took time.Duration) bool { return took > c.options.Hold/4 }

// noteLong notes that the look's sum was cut off because it is long.
func (c *Coalescer) noteLong(s *counterState, l *roll.Look) {
	if c.options.Alarms == nil || !c.takesLong(l.Took) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.long.until = time.Now().Add(longKnownFor)
}

// longTimeout returns how long a look may take together with a long sum.
func (c *Coalescer) longTimeout() time.Duration {
	return max(c.options.LongTimeout, c.options.Timeout)
}

// lastSumTook returns how long the last sum took, but at most as long as a sum may take.
func (c *Coalescer) lastSumTook(l *roll.Look) time.Duration {
	if l.Long {
		return min(l.RollUp.Tally.Took, c.longTimeout())
	}
	return min(l.RollUp.Tally.Took, c.options.Timeout)
}
