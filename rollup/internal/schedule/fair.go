package schedule

import (
	"cmp"
	"container/heap"
	"time"
)

// A class is one of three kinds of the counters that Keep keeps. Each class has a fixed share of
// the visits, and within a class the counter that is due longest goes first:
// docs/design/rules.md#shares.
type class int

const (
	classChanged   class = iota // it differed at the last visit, or had its first roll-up then
	classWithout                // it has no roll-up yet
	classUnchanged              // the rest
	classes
)

// classTurns is the order in which the classes have their turns. After the last turn it begins
// again. If a class has nothing to do, the next one has its turn.
//
// A visit to a counter of another class may bring it into classChanged, where it is visited at
// least once more. So classChanged has more turns than the two others together. The turns by which
// it has more are for counters that keep changing, however many others come.
var classTurns = [...]class{classChanged, classWithout, classChanged, classUnchanged, classChanged}

// Each class has a part of the slots for itself, one divided by spare, so that visits of other
// classes cannot take all slots when they hang. Of 32 slots these are 4.
const spare = 8

// next returns the counter to visit now, and counts its visit as in work. If no counter may be
// visited now, it returns nil and the time to ask again. That time is zero if only the end of a
// visit or of a page can change anything. The mutex is held.
func (k *keeper) next() (e *keptCounter, at time.Time) {
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
		e := heap.Pop(q).(*keptCounter)
		k.busy[e.class]++
		if e.finder != nil {
			e.finder.waiting--
			e.finder = nil
		}
		return e, now
	}
	return nil, at
}

// hasSlot reports whether a slot is free for one more visit of a class. The mutex is held.
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

// push puts a counter into the queue of its class. The mutex is held.
func (k *keeper) push(e *keptCounter) {
	k.known[e.RollUp] = e
	k.pushed++
	e.pushed = k.pushed
	heap.Push(&k.queues[e.class], e)
}

// class returns the class of a counter after a visit that went well.
func (v *visit) class(before class) class {
	rolledUp := !v.AsOf.IsZero()
	switch {
	case v.action == actionRepair && !(rolledUp && v.Agrees()):
		return classChanged
	case v.action == actionRemove, !rolledUp && v.action != actionRepair:
		return classWithout
	case v.action == actionSkip && before != classWithout:
		return before
	default:
		return classUnchanged
	}
}

const (
	// A call may use one read in readsAtOnce as soon as it begins, to find its counters and to
	// visit each. The other reads are spread over its time.
	readsAtOnce = 10

	// These are the parts of the reads that may be used to find counters by their roll-ups and by
	// their shards: a quarter together. To find and to visit a counter takes three or four reads.
	// Finding by shards has less, because it only finds new counters.
	rollUpsToFind = 3.0 / 16
	shardsToFind  = 1.0 / 16
)

// mayUse returns how many reads the call may have used by now.
func (k *keeper) mayUse(now time.Time) int64 {
	if k.o.Until.IsZero() {
		return k.o.MaxReads
	}
	atOnce := k.o.MaxReads / readsAtOnce
	passed := float64(now.Sub(k.began)) / float64(max(1, k.o.Until.Sub(k.began)))
	return atOnce + int64(float64(k.o.MaxReads-atOnce)*min(passed, 1))
}

// mayRead reports whether reads are left for a visit now.
func (k *keeper) mayRead(now time.Time) bool {
	return k.o.MaxReads == 0 || k.o.Reads() < k.mayUse(now)
}

// mayFind reports whether reads are left for a finder's next page now.
func (k *keeper) mayFind(f *finder, now time.Time) bool {
	return k.o.MaxReads == 0 || k.mayRead(now) && float64(f.reads) < f.share*float64(k.mayUse(now))
}

// pageSize returns how many counters a page looks at, at most. Finding one by its shards takes two
// reads, so a page takes a quarter of a call's reads at most. A call without an end takes no turns.
func (k *keeper) pageSize() int {
	if k.o.MaxReads == 0 || k.o.Until.IsZero() {
		return walkPage
	}
	return int(max(1, min(walkPage, k.o.MaxReads/8)))
}

// readsWait returns how long to wait when no reads are left now. By then a thousandth of all reads
// has been added.
func (k *keeper) readsWait() time.Duration { return k.o.Until.Sub(k.began)/1000 + 1 }

// A queue is a heap of counters. The one that is due first is on top.
type queue []*keptCounter

func (q queue) Len() int      { return len(q) }
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q queue) Less(i, j int) bool {
	return cmp.Or(q[i].due.Compare(q[j].due), cmp.Compare(q[i].pushed, q[j].pushed)) < 0
}

func (q *queue) Push(e any) { *q = append(*q, e.(*keptCounter)) }

func (q *queue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return e
}
