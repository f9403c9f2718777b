package rollup

import (
	"cmp"
	"container/heap"
	"time"
)

// A class is one of three kinds of the counters that Keep keeps. Each class has a fixed share of
// the visits, and within a class the counter that is due longest goes first. So a counter waits at
// most as long as the counters of its class take at that share, however many others there are.
type class int

const (
	classChanged   class = iota // it differed at the last visit, or had its first roll-up then
	classWithout                // it has no roll-up yet
	classUnchanged              // the rest
	classes
)

// classTurns says whose turn it is, round and round. If a class has nothing to do, the next one has
// its turn.
//
// A visit to a counter of the two other classes may bring it among those that changed, where it is
// visited once more at least. So classChanged has more turns than the two together. The turns that
// it has beyond theirs are for counters that keep changing, however many others come.
var classTurns = [...]class{classChanged, classWithout, classChanged, classUnchanged, classChanged}

// spare is what part of the slots each class has for itself, so that the visits of another class
// that hang do not take them all. Of 32 slots it has 4.
const spare = 8

// next returns the counter to visit now, and counts it as in work. If there is none, it returns nil
// and the time to ask again. That is zero if only the end of a visit or of a page can change
// anything. The mutex is held.
func (k *keeper) next() (e *kept, at time.Time) {
	now := time.Now()
	if !k.mayRead(now) {
		return nil, now.Add(k.readsWait())
	}

	for i := range classTurns {
		turn := (k.turn + i) % len(classTurns)
		q := &k.queues[classTurns[turn]]
		if len(*q) == 0 {
			continue
		}

		due := (*q)[0].due
		if due.After(now) {
			if at.IsZero() || due.Before(at) {
				at = due
			}
			continue
		}

		if !k.hasSlot(classTurns[turn]) {
			continue
		}

		k.turn = turn + 1
		e := heap.Pop(q).(*kept)
		k.busy[e.class]++
		if e.finder != nil {
			e.finder.waiting--
			e.finder = nil
		}
		return e, now
	}
	return nil, at
}

// hasSlot reports whether one more visit may be in work of a class. The mutex is held.
func (k *keeper) hasSlot(of class) bool {
	free := k.o.Concurrency - k.inWork()
	for c, busy := range k.busy {
		if class(c) != of {
			free -= max(0, k.o.Concurrency/spare-busy)
		}
	}
	return free > 0
}

// inWork returns how many visits are in work. The mutex is held.
func (k *keeper) inWork() (n int) {
	for _, busy := range k.busy {
		n += busy
	}
	return n
}

// push has a counter wait for its visit. The mutex is held.
func (k *keeper) push(e *kept) {
	k.known[e.RollUp] = e
	k.pushed++
	e.pushed = k.pushed
	heap.Push(&k.queues[e.class], e)
}

// class returns the class of a counter after a visit that went well.
func (v *visited) class(before class) class {
	rolledUp := !v.asOf.IsZero()
	switch {
	case v.did == actionRepair && !(rolledUp && v.agrees()):
		return classChanged
	case v.did == actionRemove, !rolledUp && v.did != actionRepair:
		return classWithout
	case v.did == actionSkip && before != classWithout:
		return before
	default:
		return classUnchanged
	}
}

const (
	// readsAtOnce is what part of the reads a call may use as soon as it begins, to find its
	// counters and to visit each. The other reads are spread over its time.
	readsAtOnce = 10

	// readsToFind is what part of the reads that may be used by now goes to finding counters. To
	// find and to visit a counter takes three or four, so a quarter is enough.
	readsToFind = 4
)

// mayUse returns how many reads may be used by now.
func (k *keeper) mayUse(now time.Time) int64 {
	if k.o.Until.IsZero() {
		return k.o.MaxReads
	}
	atOnce := k.o.MaxReads / readsAtOnce
	passed := float64(now.Sub(k.began)) / float64(max(1, k.o.Until.Sub(k.began)))
	return atOnce + int64(float64(k.o.MaxReads-atOnce)*min(passed, 1))
}

// mayRead reports whether there are reads for a visit.
func (k *keeper) mayRead(now time.Time) bool {
	return k.o.MaxReads == 0 || k.o.Reads() < k.mayUse(now)
}

// mayFind reports whether there are reads for finding a page. The first may always be found.
func (k *keeper) mayFind(now time.Time) bool {
	return k.walked == 0 || k.o.MaxReads == 0 || k.mayRead(now) && k.walked < k.mayUse(now)/readsToFind
}

// readsWait is how long to wait when there are no reads: until there are a thousandth more.
func (k *keeper) readsWait() time.Duration { return k.o.Until.Sub(k.began)/1000 + 1 }

// A queue is a heap of counters, the one on top that is due first.
type queue []*kept

func (q queue) Len() int      { return len(q) }
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q queue) Less(i, j int) bool {
	return cmp.Or(q[i].due.Compare(q[j].due), cmp.Compare(q[i].pushed, q[j].pushed)) < 0
}

func (q *queue) Push(e any) { *q = append(*q, e.(*kept)) }

func (q *queue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return e
}
