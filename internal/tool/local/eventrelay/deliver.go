package eventrelay

import (
	"context"
	"io"
	"time"
)

// An acceptedMessage is a message with all its copies. One acknowledgement ends it.
type acceptedMessage struct {
	Message
	until time.Time // when it is given up; zero: never
	end   func()    // called once it is acknowledged or given up
	ended chan struct{}
}

// over reports whether the message has had its time.
func (m *acceptedMessage) over() bool { return !m.until.IsZero() && !time.Now().Before(m.until) }

// deliver brings copy c of the message to one target after another until the message is
// acknowledged, or given up. It makes at least one delivery, even if another copy is acknowledged
// first: a copy that has left cannot be recalled.
func (r *Relay) deliver(ctx context.Context, m *acceptedMessage, c int) {
	defer r.end()

	faults := r.options.Faults
	draws := faults.draws(m.ID(), c)
	var (
		target  string
		done    <-chan struct{} // nil until the first delivery, so that nothing ends the copy before
		wait    = faults.lag(draws, c, r.options.Max)
		backoff = min(r.options.Initial, r.options.Max)
	)
	for n := 0; ; n++ {
		delay, lost, next := faults.delivery(draws, backoff)
		select {
		case <-time.After(wait + delay):
		case <-done:
			return
		case <-ctx.Done():
			return
		}

		target = r.begin(target, n)
		answered := r.post(ctx, target, m)
		r.finish(m, answered, lost)
		if answered && !lost || ctx.Err() != nil {
			return
		}

		done = m.ended
		wait, backoff = next, min(2*backoff, r.options.Max)
	}
}

// begin counts the nth delivery of a copy, from 0 on, and returns the target whose turn it is: not
// the one that has just failed, if there is another. It returns "" if there is no target.
func (r *Relay) begin(failed string, n int) (target string) {
	r.mu.Lock()
	defer r.mu.Unlock()

	r.stats.Deliveries++
	if n > 0 {
		r.stats.Redelivered++
	}

	for range min(2, len(r.targets)) {
		target = r.targets[r.turn%len(r.targets)]
		r.turn++
		if target != failed {
			break
		}
	}
	return target
}

// post sends the message to the target, and reports whether the answer is 2xx and comes in time.
func (r *Relay) post(ctx context.Context, target string, m Message) bool {
	if target == "" {
		return false
	}

	ctx, cancel := context.WithTimeout(ctx, r.options.Timeout)
	defer cancel()
	req, err := m.Request(ctx, target)
	if err != nil {
		return false
	}

	resp, err := r.client.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // so that the connection can be used again
	return resp.StatusCode/100 == 2
}

// finish counts the end of a delivery. It acknowledges the message if the delivery was answered 2xx
// and that answer was not lost. If it was not, and the message has had its time, finish gives the
// message up.
func (r *Relay) finish(m *acceptedMessage, answered, lost bool) {
	r.mu.Lock()
	defer r.mu.Unlock()

	if answered && lost {
		r.stats.LostAcks++
	}
	acknowledged := answered && !lost
	if !acknowledged && !m.over() {
		return
	}

	select {
	case <-m.ended: // by the other copy
		return
	default:
	}
	m.end()
	close(m.ended)
	if acknowledged {
		r.stats.Acknowledged++
	} else {
		r.stats.GivenUp++
	}
}

// end counts the end of a copy.
func (r *Relay) end() {
	r.mu.Lock()
	defer r.mu.Unlock()

	r.copies--
	if r.copies == 0 {
		close(r.idle)
	}
}
