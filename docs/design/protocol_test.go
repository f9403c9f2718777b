// Package design_test is Tally's idea as one small program. Many clients change one number, and one
// document holds it, exactly, although events come twice and processes die. Package rollup is the
// same idea with time, costs and failures of every call.
//
// The idea: an event does not say what to add. It says that something changed, and a sum that
// begins later than the event has the change, however often the event comes. So an instance that
// gets an event sums all shards, and acknowledges the event only when that sum is written.
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

// An event says that a shard changed. Firestore sends it some time after the commit, in any order,
// perhaps twice, and again until it is acknowledged. delta is what a naive function would add to
// the total. It would add it once more whenever the event comes again.
type event struct{ delta int }

// increment is a client's write: one commit, and one event. Sometimes the event is sent twice.
func (s *store) increment(shard, delta int, twice bool) {
	s.clock++
	s.shards[shard] += delta
	s.queue = append(s.queue, &event{delta})
	if twice {
		s.queue = append(s.queue, &event{delta})
	}
}

// snapshot sums all shards at one instant. It costs one read for 1,000 shards. seen is the roll-up
// at the same instant.
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

// An instance is one process of the function. Its steps are receive, look and publish. It may die
// between any two of them. Then all that it knows is gone, and the events that it held come again.
//
// Of many events it holds one, the anchor, and acknowledges the others at once. The anchor and
// those others are a generation. If the process dies, the anchor comes again, to any instance, and
// has the sum made that all of them need. So nothing is lost with the process.
type instance struct {
	anchor     *event // of the generation that events still join; nil: the next event begins one
	closed     *event // anchor of the generation that no event joins any more, and whose sum is on its way
	next, seen rollUp // of the last look: the sum, and the roll-up that it is to replace
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

// look first closes the generation, and then takes the snapshot. So the snapshot has the changes of
// all events that joined. An event that comes from now on finds no anchor, and begins a generation,
// because the snapshot may lack its change. If the sum before was refused, look sums again for the
// generation that is closed already.
func (i *instance) look(s *store) {
	if i.closed == nil {
		i.closed, i.anchor = i.anchor, nil
	}
	if i.closed != nil {
		i.next, i.seen = s.snapshot()
	}
}

// publish writes the sum of the last look. Only then is the anchor acknowledged. If another
// instance was faster, the write is refused, and the anchor stays: the other's sum may be from
// before this generation's changes.
func (i *instance) publish(s *store) (acknowledged *event) {
	looked := i.closed != nil && i.next.asOf > 0 // there is no event before the first commit
	if !looked || !s.write(i.next, i.seen) {
		return nil
	}
	acknowledged = i.closed
	i.closed, i.next = nil, rollUp{}
	return acknowledged
}

// Whatever the order of steps, duplicates and crashes, the roll-up keeps its promise at every
// instant and is exact in the end. The sum of deltas is not. Each seed is a history of two
// instances. After 200 steps clients write no more, no process dies, and the history ends when all
// events are acknowledged.
func TestProtocol(t *testing.T) {
	wrongDeltas := 0
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 0))
		var s store
		truth, deltas := []int{0}, 0 // truth has the right total at each instant
		instances, newest := []*instance{{}, {}}, 0

		for step := 0; step < 200 || len(s.queue) > 0; step++ {
			i := random.IntN(len(instances))
			switch choice := random.IntN(10); {
			case choice < 3 && step < 200:
				delta := random.IntN(5) - 1
				s.increment(random.IntN(3), delta, random.IntN(20) == 0)
				truth = append(truth, truth[len(truth)-1]+delta)
			case choice < 7 && len(s.queue) > 0: // an event comes, in any order; it stays in the queue until it is acknowledged
				e := s.queue[random.IntN(len(s.queue))]
				// While an instance holds an event, Firestore waits for the answer.
				isHeld := slices.ContainsFunc(instances, func(i *instance) bool { return i.anchor == e || i.closed == e })
				if isHeld {
					continue
				}
				deltas += e.delta
				if instances[i].receive(e) {
					s.acknowledge(e)
				}
			case choice == 7:
				instances[i].look(&s)
			case choice == 8:
				s.acknowledge(instances[i].publish(&s))
			case random.IntN(4) == 0 && step < 200:
				instances[i] = &instance{} // it dies
			}

			if s.rollUp.total != truth[s.rollUp.asOf] {
				t.Fatalf("seed %d: the roll-up is %+v, but the total was %d then", seed, s.rollUp, truth[s.rollUp.asOf])
			}
			if s.rollUp.asOf < newest {
				t.Fatalf("seed %d: as_of went back from %d to %d", seed, newest, s.rollUp.asOf)
			}
			newest = s.rollUp.asOf
		}

		if want := truth[len(truth)-1]; s.rollUp.total != want {
			t.Fatalf("seed %d: the roll-up is %d in the end, want %d", seed, s.rollUp.total, want)
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
