package events

import (
	"slices"
	"time"

	"github.com/firestore-tally/tally/rollup/internal/note"
)

// forget has a counter without a prober dropped, as soon as it need not be remembered any more.
func (c *Coalescer) forget(s *counterState) {
	time.AfterFunc(time.Until(s.rememberedUntil()), func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !s.probing && !s.long.summing && c.counters[s.counter.RollUp] == s && !time.Now().Before(s.rememberedUntil()) {
			delete(c.counters, s.counter.RollUp)
		}
	})
}

// rememberedUntil returns until when the counter is remembered after its prober has ended. That is
// as long as this instance goes first because of its own last roll-up, knows an alarm, or knows
// that sums are long. A pause is remembered beyond its end, so that the next can be longer.
func (s *counterState) rememberedUntil() time.Time {
	return slices.MaxFunc([]time.Time{
		s.ownUntil,
		s.knownAlarm.until,
		s.long.until,
		s.alarmless.until,
		s.unkept.until.Add(note.LongestUnkept),
		s.handedOn.until.Add(longestHandOn),
		s.long.rest.until.Add(longestRest),
	}, time.Time.Compare)
}
