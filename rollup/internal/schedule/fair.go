package schedule

import (
	"cmp"
	"container/heap"
	"time"

	"github.com/firestore-tally/tally/rollup/internal/roll"
	"github.com/firestore-tally/tally/rollup/route"
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

// A line has the counters that wait for their visits, and says which is next.
type line struct {
	slots  int // how many visits may be in work at once
	queues [classes]queue
	busy   [classes]int // visits in work
	turn   int
	pushed int
}

// next returns the counter to visit now, and counts its visit as in work. If no counter may be
// visited now, it returns nil and the time to ask again. That time is zero if only the end of a
// visit or of a page can change anything.
func (l *line) next(now time.Time) (e *keptCounter, at time.Time) {
	for i := range classTurns {
		turn := (l.turn + i) % len(classTurns)
		q := &l.queues[classTurns[turn]]
		if len(*q) == 0 {
			continue
		}

		due := (*q)[0].due
		if due.After(now) {
			at = roll.Sooner(at, due)
			continue
		}

		if !l.hasSlot(classTurns[turn]) {
			continue
		}

		l.turn = turn + 1
		e := heap.Pop(q).(*keptCounter)
		l.busy[e.class]++
		return e, now
	}
	return nil, at
}

// hasSlot reports whether a slot is free for one more visit of a class.
func (l *line) hasSlot(of class) bool {
	free := l.slots - l.inWork()
	for c, busy := range l.busy {
		if class(c) != of {
			free -= max(0, l.slots/spare-busy)
		}
	}
	return free > 0
}

// inWork returns how many visits are in work.
func (l *line) inWork() (n int) {
	for _, busy := range l.busy {
		n += busy
	}
	return n
}

// push puts a counter into the queue of its class.
func (l *line) push(e *keptCounter) {
	l.pushed++
	e.pushed = l.pushed
	heap.Push(&l.queues[e.class], e)
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

// An allowance says how many reads a call may have used by now.
type allowance struct {
	most         int64 // 0: no bound
	reads        func() int64
	began, until time.Time // until: zero if the call has no end
}

// mayUse returns how many reads the call may have used by now.
func (a *allowance) mayUse(now time.Time) int64 {
	if a.until.IsZero() {
		return a.most
	}
	atOnce := a.most / readsAtOnce
	passed := float64(now.Sub(a.began)) / float64(max(1, a.until.Sub(a.began)))
	return atOnce + int64(float64(a.most-atOnce)*min(passed, 1))
}

// mayRead reports whether reads are left for a visit now.
func (a *allowance) mayRead(now time.Time) bool {
	return a.most == 0 || a.reads() < a.mayUse(now)
}

// mayFind reports whether reads are left for a finder's next page now.
func (a *allowance) mayFind(f *finder, now time.Time) bool {
	return a.most == 0 || a.mayRead(now) && float64(f.reads) < f.share*float64(a.mayUse(now))
}

// pageSize returns how many counters a page looks at, at most. Finding one by its shards takes two
// reads, so a page takes a quarter of a call's reads at most. A call without an end takes no turns.
func (a *allowance) pageSize() int {
	if a.most == 0 || a.until.IsZero() {
		return walkPage
	}
	return int(max(1, min(walkPage, a.most/8)))
}

// readsWait returns how long to wait when no reads are left now. By then a thousandth of all reads
// has been added.
func (a *allowance) readsWait() time.Duration { return a.until.Sub(a.began)/1000 + 1 }

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

// A keptCounter is a counter that this call of Keep knows.
type keptCounter struct {
	route.Counter
	class     class
	due       time.Time     // when to visit it, by the local clock
	pushed    int           // breaks ties
	rightAt   time.Time     // when its roll-up was last known to be right, by Firestore's clock; zero: unknown, or there is nothing to sum
	failures  int           // visits that failed in a row
	failure   error         // the last of them
	missing   time.Duration // how long the pause is that follows because its document is missing; 0: the document exists
	visited   bool
	malformed bool
	finder    *finder // that found it, until it is visited
	walk      *keepWalk

	contention roll.Contention
}
