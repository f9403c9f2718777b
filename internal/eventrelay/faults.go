package eventrelay

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// Faults is what the network may do to events. The zero value does nothing.
//
// Each decision depends on the seed, the event's id and the question, not on the order in which
// things happen: one seed treats the same ids in the same way whenever they come. (The effect of a
// decision still depends on time: a redelivery that the seed asks for is spared if another copy is
// acknowledged first.)
type Faults struct {
	Seed uint64

	// Duplicates is the chance, from 0 to 1, that an event is published twice. Half of the second
	// copies leave together with the first, the others up to [Options.Max] later. A second copy is
	// delivered even if the first has been acknowledged by then.
	Duplicates float64

	// LostAcks is the chance, from 0 to 1, that a 2xx answer is lost: the function has done its
	// work, and the event is delivered again. With 1 no event is ever acknowledged.
	LostAcks float64

	// Delay holds each delivery back for a uniform time from 0 to Delay, which also reorders events.
	Delay time.Duration
}

// In the methods c is the copy of the event (0 is the first) and n counts from 0.

// copies returns how many copies of the event are published.
func (f Faults) copies(id string) int {
	if f.draw(id, "duplicate", 0, 0) < f.Duplicates {
		return 2
	}
	return 1
}

// lag returns how long after the event copy c of it leaves: at most longest.
func (f Faults) lag(id string, c int, longest time.Duration) time.Duration {
	if c == 0 || f.draw(id, "together", c, 0) < 0.5 {
		return 0
	}
	return scale(longest, f.draw(id, "lag", c, 0))
}

// delay returns how long the nth delivery of a copy is held back.
func (f Faults) delay(id string, c, n int) time.Duration {
	return scale(f.Delay, f.draw(id, "delay", c, n))
}

// loses reports whether the nth 2xx answer to a copy is lost.
func (f Faults) loses(id string, c, n int) bool {
	return f.draw(id, "ack", c, n) < f.LostAcks
}

// jitter spreads the nth backoff of a copy evenly over its upper half, so that events that failed
// together do not return together.
func (f Faults) jitter(id string, c, n int, backoff time.Duration) time.Duration {
	return backoff/2 + scale(backoff/2, f.draw(id, "backoff", c, n))
}

// draw returns a number in [0, 1) for the nth question of its kind about a copy of an event.
// Different questions get independent numbers.
func (f Faults) draw(id, question string, c, n int) float64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s\x00%s\x00%d\x00%d", id, question, c, n)
	return rand.New(rand.NewPCG(f.Seed, h.Sum64())).Float64()
}

func scale(d time.Duration, x float64) time.Duration {
	return time.Duration(x * float64(d))
}
