package events

import "time"

// A pause keeps one instance from something that has failed for a counter. Each further failure in
// a row makes the next pause twice as long. The zero pause is over.
type pause struct {
	step        time.Duration // how long it is
	until       time.Time     // when it ends, by the local clock
	serverUntil time.Time     // when it ends by the server's, because the clock of a suspended machine stands still
}

// start begins the next pause. It is as long as first, or twice as long as the last one, but no
// longer than longest. server is what time it is at the server, or somewhat later.
func (p *pause) start(first, longest time.Duration, server time.Time) {
	p.step = min(max(2*p.step, first), longest)
	p.until, p.serverUntil = time.Now().Add(p.step), server.Add(p.step)
}

// over reports whether the pause is over, by the local clock or by the server's.
func (p *pause) over(server time.Time) bool {
	return p.step == 0 || !time.Now().Before(p.until) || !server.Before(p.serverUntil)
}
