package roll

import (
	"errors"
	"time"
)

// A Contention is what one instance knows of others who write a roll-up's document. If they write
// it very often, its roll-up is written in a lock: docs/design/rules.md#contended. The zero
// contention knows of none.
type Contention struct {
	asOf    time.Time // of the roll-up that the refused writes were to replace
	refused int       // writes that were refused while that roll-up stood still
	locked  time.Time // when this instance last locked the document, by the local clock
}

// maxRefused is how many writes are refused in a row before the next one locks the document. One or
// two may be refused by chance.
const maxRefused = 3

// mustLock reports whether the look's roll-up must be written in a lock. Others wait for a lock, so
// an instance takes one at most every so often.
func (c *Contention) mustLock(l *Look, every time.Duration) bool {
	contended := c.refused >= maxRefused && c.asOf.Equal(l.AsOf)
	return contended && l.RollUp.Exists() && time.Since(c.locked) >= every
}

// record notes how the write of the look's roll-up ended. After a write in a lock the document most
// likely is still contended. So one more refusal is enough for the next lock.
func (c *Contention) record(l *Look, locked bool, err error) {
	if locked {
		c.locked = time.Now()
	}

	switch {
	case errors.Is(err, ErrConflict) && c.asOf.Equal(l.AsOf):
		c.refused++
	case errors.Is(err, ErrConflict):
		c.asOf, c.refused = l.AsOf, 1
	case err == nil && locked:
		c.asOf, c.refused = l.ReadTime, maxRefused-1
	}
}
