// Package design_test is Tally's idea as one small program. Clients increment shards, and a
// function keeps the sum of all shards in one document, exactly, although events come twice and
// processes die. Package rollup is the same idea with time, costs and failures of every call.
//
// The idea: an event does not say what to add. It says that something changed, and a sum that
// begins later than the event has the change, however often the event comes. So an instance that
// gets an event sums all shards, and acknowledges the event only when that sum is written.
//
// The invariant: at every instant, each change is in the roll-up, or in a sum that an event will
// have made which is not acknowledged yet. An event that is not acknowledged comes again, so no
// death of a process can end that.
package design_test

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// A store is Firestore. Its clock counts commits, so each instant has one state.
type store struct {
	clock  int
	shards [3]int // what clients increment: several documents, so that no client waits for another
	rollUp rollUp // what clients read: one document
	queue  []*event
}

// A rollUp promises: total has every commit up to asOf, and none after it.
type rollUp struct{ total, asOf int }

// An event says that a shard changed. Firestore calls a cloud function with it some time after the
// commit, in any order, perhaps twice, and again until the function acknowledges it.
type event struct{ _ int } // of a size, so that each has an address of its own

// increment is a client's write: one commit, and one event. Sometimes the event is sent twice.
func (s *store) increment(shard, delta int, twice bool) {
	s.clock++
	s.shards[shard] += delta
	s.queue = append(s.queue, new(event))
	if twice {
		s.queue = append(s.queue, new(event))
	}
}

// snapshot sums all shards at one instant. seen is the roll-up at the same instant.
func (s *store) snapshot() (next, seen rollUp) {
	next.asOf = s.clock
	for _, n := range s.shards {
		next.total += n
	}
	return next, s.rollUp
}

// write replaces the roll-up if it is still as it was seen in the snapshot of the sum. If another
// instance has written since, it refuses. So an older sum never replaces a newer.
func (s *store) write(next, seen rollUp) bool {
	if s.rollUp != seen {
		return false
	}
	s.rollUp = next
	return true
}

// An instance is one process of the function. Its steps are receive, close, look and publish. It
// may die between any two of them. Then all that it knows is gone, and the events that it held come
// again.
//
// Of many events it holds one, the anchor, and acknowledges the others at once. The anchor and
// those others are a generation. If the process dies, the anchor comes again, to any instance, and
// has the sum made that all of them need. It may even join a generation there and be acknowledged:
// then that generation's anchor takes over the duty.
type instance struct {
	anchor     *event // of the generation that events still join; nil: the next event begins one
	closed     *event // anchor of the generation that no event joins any more, and whose sum is on its way
	looked     bool   // the sum for the closed generation is made, and not written yet
	next, seen rollUp // of that look: the sum, and the roll-up that it is to replace
}

// receive reports whether the event is acknowledged at once. The first one is not: it becomes the
// anchor. Those that follow are, because the snapshot that the anchor waits for is taken after they
// came, and has their changes.
func (i *instance) receive(e *event) bool {
	if i.anchor == nil {
		i.anchor = e
		return false
	}
	return true
}

// close closes the generation before its snapshot is taken. An event that comes from now on finds
// no anchor, and begins another generation, because the snapshot may lack its change.
func (i *instance) close() {
	if i.closed == nil {
		i.closed, i.anchor = i.anchor, nil
	}
}

// look takes the snapshot for the closed generation. It has the changes of all events that joined.
func (i *instance) look(s *store) {
	if i.closed != nil {
		i.next, i.seen = s.snapshot()
		i.looked = true
	}
}

// publish writes the sum of the last look. Only then is the anchor acknowledged. If another
// instance was faster, the write is refused, and the generation needs another look: the other's sum
// may be from before this generation's changes. A process that dies right after the write does no
// harm: the anchor comes again, and has one sum more made.
func (i *instance) publish(s *store) (acknowledged *event, ok bool) {
	if !i.looked {
		return nil, false
	}
	i.looked = false
	if !s.write(i.next, i.seen) {
		return nil, false
	}
	acknowledged, i.closed = i.closed, nil
	return acknowledged, true
}

// Whatever the order of steps, duplicates and crashes, the roll-up keeps its promise at every
// instant, and is exact whenever all events are acknowledged. Each seed is a history of two
// instances. After 200 steps clients write no more, no process dies, and the history ends when all
// events are acknowledged.
//
// A naive function adds each event's change to the total. Its total is wrong as soon as one event
// is sent twice, even if no process dies.
func TestProtocol(t *testing.T) {
	wrongDeltas := 0
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 0))
		var s store
		truth, deltas := []int{0}, 0 // truth has the right total at each instant
		instances, newest := []*instance{{}, {}}, 0

		for step := 0; step < 200 || len(s.queue) > 0; step++ {
			if step == 10_000 {
				t.Fatalf("seed %d: %d events are never acknowledged", seed, len(s.queue))
			}

			at := random.IntN(len(instances))
			switch choice := random.IntN(9); {
			case choice == 0 && step < 200: // a client writes
				delta, twice := random.IntN(5)-1, random.IntN(20) == 0
				s.increment(random.IntN(3), delta, twice)
				truth = append(truth, truth[len(truth)-1]+delta)
				deltas += delta
				if twice {
					deltas += delta
				}

			case choice < 5 && len(s.queue) > 0: // an event comes, in any order
				e := s.queue[random.IntN(len(s.queue))]
				// Firestore waits for the answer while an instance holds the event. If the wait ended too
				// early, the event would come to a second instance, which could only sum once more.
				isHeld := slices.ContainsFunc(instances, func(i *instance) bool { return i.anchor == e || i.closed == e })
				if !isHeld && instances[at].receive(e) {
					s.acknowledge(e)
				}

			case choice == 5:
				instances[at].close()

			case choice == 6:
				instances[at].look(&s)

			case choice == 7:
				if e, ok := instances[at].publish(&s); ok {
					s.acknowledge(e)
				}

			case choice == 8 && step < 200 && random.IntN(4) == 0: // a process dies, and another starts
				instances[at] = new(instance)
			}

			if s.rollUp.total != truth[s.rollUp.asOf] {
				t.Fatalf("seed %d: the roll-up is %+v, but the total was %d then", seed, s.rollUp, truth[s.rollUp.asOf])
			}
			if s.rollUp.asOf < newest {
				t.Fatalf("seed %d: asOf went back from %d to %d", seed, newest, s.rollUp.asOf)
			}
			newest = s.rollUp.asOf
			if want := truth[len(truth)-1]; len(s.queue) == 0 && s.rollUp.total != want {
				t.Fatalf("seed %d: all events are acknowledged, and the roll-up is %d, want %d", seed, s.rollUp.total, want)
			}
		}
		if deltas != truth[len(truth)-1] {
			wrongDeltas++
		}
	}
	if wrongDeltas == 0 {
		t.Error("the sum of deltas was never wrong: these histories prove nothing")
	}
	t.Logf("the sum of deltas was wrong in %d of 2000 histories", wrongDeltas)
}

func (s *store) acknowledge(e *event) {
	s.queue = slices.DeleteFunc(s.queue, func(waiting *event) bool { return waiting == e })
}
