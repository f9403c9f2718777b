package rollup_test

import (
	"time"

	"github.com/firestore-tally/tally/rollup/route"
)

// unkeptTime is when a simulated counter cannot be rolled up, by the database's clock.
type unkeptTime struct {
	from, until time.Time
	write       bool // its document refuses writes; else its shards cannot be summed
}

func (u unkeptTime) at(t time.Time) bool { return !t.Before(u.from) && t.Before(u.until) }

// lately reports whether a counter was unkept at some time from a pause before since until now. It
// is what an instance may still have seen that has held something since then. (Its machine may have
// been suspended between the call that failed and the answer, or during the pause: then the pause
// is as much longer.) The mutex is held.
func (s *simulation) lately(c *simulatedCounter, since time.Time) bool {
	pause := time.Minute + s.suspended
	return !s.store.Now().Before(c.unkept.from) && since.Before(c.unkept.until.Add(pause))
}

// startUnkept makes a counter one that cannot be rolled up for a time of up to hours.
func (s *simulation) startUnkept(c *simulatedCounter) {
	lasts := s.chanceOf(0.15, c.RollUp+" is unkept for", time.Millisecond, 5*time.Hour)
	if lasts == 0 {
		return
	}
	c.unkept.from = s.store.Now().Add(s.chanceOf(0.8, c.RollUp+" is unkept after", time.Millisecond, s.weather.span+time.Second))
	c.unkept.until = c.unkept.from.Add(lasts)
	c.unkept.write = s.chance(0.5, c.RollUp+" has no room", upTo(1)) == 1
	s.actors.Go(func() { time.Sleep(c.unkept.until.Sub(s.store.Now())) })
}

// unsummed reports whether a counter's shards cannot be summed now.
func (s *simulation) unsummed(c route.Counter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	counter := s.counter(c)
	return counter.unkept.at(s.store.Now()) && !counter.unkept.write
}
