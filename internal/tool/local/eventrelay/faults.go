package eventrelay

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// Faults says how the network treats events. The zero value delivers each once and at once.
//
// A fault depends on the seed, the event's id, the copy, and how often that copy was delivered. It
// does not depend on the order in which events come. So one seed treats the same ids in the same
// way. Only the end still depends on time: once a copy is acknowledged, the other copies are not
// redelivered.
type Faults struct {
	Seed uint64

	// Duplicates is the chance, from 0 to 1, that an event is published twice. Half of the second
	// copies leave together with the first, the others up to [Options.Max] later. A second copy is
	// delivered even if the first has been acknowledged by then.
	Duplicates float64

	// LostAcks is the chance, from 0 to 1, that a 2xx answer is lost: the function has done its
	// work, and the event is delivered again. With 1 no event is ever acknowledged.
	LostAcks float64

	// Delay holds each delivery back for a uniform time from 0 to Delay, which also reorders
	// events.
	Delay time.Duration
}

// copies returns how many copies of the event are published.
func (f Faults) copies(id string) int {
	if f.draws(id, -1).Float64() < f.Duplicates { // -1 is no copy's number
		return 2
	}
	return 1
}

// lag returns how long after the event its copy c leaves, at most longest. Copies are numbered from
// 0.
func (f Faults) lag(draws *rand.Rand, c int, longest time.Duration) time.Duration {
	together := draws.IntN(2) == 0
	if c == 0 || together {
		return 0
	}
	return scale(longest, draws.Float64())
}

// delivery returns how long a delivery is held back, whether its 2xx answer is lost, and how long
// to wait before the next one: between half of backoff and all of it, so that events that failed
// together do not return together.
func (f Faults) delivery(draws *rand.Rand, backoff time.Duration) (delay time.Duration, lost bool, wait time.Duration) {
	delay = scale(f.Delay, draws.Float64())
	lost = draws.Float64() < f.LostAcks
	return delay, lost, backoff/2 + scale(backoff/2, draws.Float64())
}

// draws returns the random numbers for copy c of an event.
func (f Faults) draws(id string, c int) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s\x00%d", id, c)
	return rand.New(rand.NewPCG(f.Seed, h.Sum64()))
}

func scale(d time.Duration, x float64) time.Duration {
	return time.Duration(x * float64(d))
}
