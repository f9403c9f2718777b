package schedule

import (
	"context"
	"time"

	"github.com/firestore-tally/tally/rollup/internal/roll"
)

// maxKept is the most counters that a call of Keep finds by their roll-ups. It finds half as many
// by their shards. Each takes some 250 bytes of memory. A call that has found so many finds no
// more, and the next call goes on behind those that were visited.
const maxKept = 100_000

// A finder finds the counters of a class. The walks take turns, a page each. It finds the next page
// only when few of the counters that it has found still wait for their visits.
type finder struct {
	class   class
	most    int     // counters that it may find in a call
	share   float64 // of the call's reads, that it may use
	walks   []*keepWalk
	turn    int // the index of the walk that is next
	busy    bool
	waiting int   // counters that it found and that are due, but not visited yet
	found   int   // counters, in this call
	reads   int64 // that its pages were billed
}

// A keepWalk goes through a walk's counters once in a call. It begins at the place up to which the
// last call had visited them, goes on to the last counter, and then from the first counter to where
// it began.
type keepWalk struct {
	walk
	from        string    // where it goes on
	due         time.Time // when, by the local clock; zero: now
	began       time.Time // when it last began with the first counter, by the local clock; zero: unknown
	startedFrom string    // where it began in this call
	first       string    // path of the roll-up of the first counter that was found from there
	wrapped     bool      // it has come to the last counter, and goes on from the first
	over        bool

	place Place  // everything before it was visited
	steps []step // what was found behind it, in order
}

// A step is what a walk has found and gone past: a counter, or the end of a page.
type step struct {
	waits  *keptCounter // the counter, while it waits for its visit; else nil
	behind Place        // the place behind the step
}

// resume returns the walk that goes on from a place of the cursor.
func (k *keeper) resume(w walk, place Place) *keepWalk {
	on := &keepWalk{walk: w, from: place.From, startedFrom: place.From, place: place}
	known := !k.loadReadTime.IsZero() && !place.Began.IsZero() && !place.Began.After(k.loadReadTime)
	if known {
		on.began = k.loadTime.Add(-k.loadReadTime.Sub(place.Began))
	}
	if place.Done {
		on.due = k.restartTime(on)
	}
	return on
}

// longestVisited is how long it may take until a counter that was found is visited, at most, if
// there is time for all.
const longestVisited = 10 * time.Second

// restartTime returns when a walk may begin with the first counter again, by the local clock. That
// is once in its route's "every", and a little more. A counter is visited a little later than it is
// found. If the walk came back sooner, it would find the counter not yet due, and the call could
// end before it is. A call without an end begins at once.
func (k *keeper) restartTime(w *keepWalk) time.Time {
	if w.began.IsZero() || k.o.Until.IsZero() {
		return time.Time{}
	}
	every := w.template.Every
	return w.began.Add(every + min(every/10, longestVisited))
}

// placeFrom returns the place where a walk goes on, for the cursor. At its end, from is "".
func (k *keeper) placeFrom(w *keepWalk, from string) Place {
	place := Place{From: from, Done: from == ""}
	if !k.loadReadTime.IsZero() && !w.began.IsZero() {
		place.Began = k.loadReadTime.Add(w.began.Sub(k.loadTime))
	}
	return place
}

// visited notes that a counter was visited.
func (w *keepWalk) visited(e *keptCounter) {
	for i := range w.steps {
		if w.steps[i].waits == e {
			w.steps[i].waits = nil
			break
		}
	}
	e.walk = nil
	w.advance()
}

// advance moves the walk's place on, up to the first counter that still waits for its visit.
func (w *keepWalk) advance() {
	for len(w.steps) > 0 && w.steps[0].waits == nil {
		w.place = w.steps[0].behind
		w.steps = w.steps[1:]
	}
}

// restart is called when a walk can go no further. The walk then goes on from the first counter to
// where it began, when that is due. If it has done that, it is over.
func (k *keeper) restart(w *keepWalk) {
	if w.wrapped || w.startedFrom == "" {
		w.over = true
	}
	w.wrapped, w.from, w.due = true, "", k.restartTime(w)
}

// findMore begins to find pages if counters are needed. It reports whether any page is being found.
// If a page waits only for reads, or for its time, it also returns when to ask again. Otherwise
// that time is zero. The mutex is held.
func (k *keeper) findMore(ctx context.Context) (finds bool, at time.Time) {
	now := time.Now()
	for _, f := range k.finders {
		if f.busy {
			finds = true
			continue
		}

		if ctx.Err() != nil || f.waiting >= walkPage || f.found >= f.most {
			continue
		}
		w, due := f.next(now)
		if w == nil {
			at = roll.Sooner(at, due)
			continue
		}
		if !k.mayFind(f, now) {
			at = roll.Sooner(at, now.Add(k.readsWait()))
			continue
		}

		if w.from == "" {
			w.began = now
		}
		f.turn++
		f.busy, finds = true, true
		k.work.Go(func() { k.findPage(ctx, f, w) })
	}
	return finds, at
}

// next returns the walk whose turn it is. If none may go on now, it returns nil, and when the next
// one may. If all are over, that time is zero.
func (f *finder) next(now time.Time) (w *keepWalk, at time.Time) {
	for i := range f.walks {
		turn := (f.turn + i) % len(f.walks)
		w := f.walks[turn]
		switch {
		case w.over:
		case w.due.After(now):
			at = roll.Sooner(at, w.due)
		default:
			f.turn = turn
			return w, time.Time{}
		}
	}
	return nil, at
}

// findPage finds the next page of a walk.
func (k *keeper) findPage(ctx context.Context, f *finder, w *keepWalk) {
	page, err := w.page(ctx, w.from, k.pageSize(), k.Options.Timeout)
	received := time.Now()

	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.wakeUp()

	f.busy = false
	f.reads += max(1, page.Reads)
	if err != nil {
		if ctx.Err() == nil {
			k.problems = append(k.problems, err)
		}
		k.restart(w) // the next call tries again
		return
	}

	if page.ReadTime.After(k.newest) {
		k.newest, k.newestReceived = page.ReadTime, received
	}

	for _, found := range page.Found {
		path := found.Counter.RollUp
		if w.wrapped && path == w.first {
			w.over = true
			break
		}
		if w.first == "" && !w.wrapped {
			w.first = path
		}

		e := k.enlist(f, found, page.ReadTime, received)
		if e != nil {
			e.finder, e.walk = f, w
			f.waiting++
		}
		w.steps = append(w.steps, step{e, k.placeFrom(w, found.Next)})
	}
	if !w.over {
		w.steps = append(w.steps, step{behind: k.placeFrom(w, page.Next)})
	}

	w.from = page.Next
	if w.from == "" {
		k.restart(w)
	}
	w.advance()
}

// enlist has a counter that a walk has found wait for its visit, unless the call knows the counter
// already. It returns the counter if the walk must wait for the visit: the counter is new, and due
// now. Otherwise it returns nil. The mutex is held.
//
// Counters that are due are visited in the order of the walk, and not by the ages of their
// roll-ups. A visit that changes nothing leaves a roll-up as old as it was. If the oldest went
// first, a call without the time for a whole page would visit the same counters as the call before.
func (k *keeper) enlist(f *finder, found FoundCounter, read, received time.Time) *keptCounter {
	tally := found.RollUp.Tally
	if e := k.known[found.Counter.RollUp]; e != nil {
		if !e.visited && tally.NumShards > 0 {
			e.rightAt = roll.Later(e.rightAt, tally.AsOf)
		}
		return nil
	}
	f.found++
	e := &keptCounter{Counter: found.Counter, class: f.class, due: k.began} // before all that this call has visited
	if tally.NumShards > 0 {
		e.rightAt = tally.AsOf
	}

	l := roll.Look{Counter: found.Counter, ReadTime: read, RollUp: found.RollUp, AsOf: tally.AsOf}
	due := k.SchedulePace(&l).Due(&l)
	if due > 0 && !tally.AsOf.After(read) {
		e.due = received.Add(due)
		k.push(e)
		return nil
	}

	k.push(e)
	return e
}
