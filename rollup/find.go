package rollup

import (
	"context"
	"time"
)

// maxKept is the most counters that a call of Keep finds by their roll-ups. It finds half as many
// by their shards. Each takes some 250 bytes of memory. A call that has found so many finds no
// more, and the next call goes on behind those that were visited.
const maxKept = 100_000

// A finder finds the counters of a class. The templates take turns, a page each. It finds the next
// page only when few of the counters that it has found still wait for their visits.
type finder struct {
	class   class
	most    int // counters that it may find in a call
	find    func(context.Context, *Template, string, int) (Page, error)
	cost    int64 // in reads for each counter
	walks   []*keepWalk
	turn    int // the index of the walk that is next
	busy    bool
	waiting int // counters that it found and that are due, but not visited yet
	found   int // counters, in this call
}

// A keepWalk goes through all counters of a template once. It begins at the place up to which the
// last call had visited them, goes on to the last counter, and then from the first counter to where
// it began.
type keepWalk struct {
	template *Template
	from     string // where it goes on
	begun    string // where it began in this call
	first    string // path of the roll-up of the first counter that was found from there
	round    bool   // it has come to the last counter, and goes on from the first
	over     bool

	place  string // everything before it was visited
	passes []pass // what was found behind it, in order
}

// A pass is a step of a walk: a counter, or the end of a page.
type pass struct {
	waits  *kept  // the counter, while it waits for its visit; else nil
	behind string // the place behind the step
}

func (f *finder) add(t *Template, from string) {
	f.walks = append(f.walks, &keepWalk{template: t, from: from, begun: from, place: from})
}

// pass notes that a counter was visited.
func (w *keepWalk) pass(e *kept) {
	for i := range w.passes {
		if w.passes[i].waits == e {
			w.passes[i].waits = nil
			break
		}
	}
	e.walk = nil
	w.move()
}

// move moves the walk's place on, up to the first counter that still waits for its visit.
func (w *keepWalk) move() {
	for len(w.passes) > 0 && w.passes[0].waits == nil {
		w.place = w.passes[0].behind
		w.passes = w.passes[1:]
	}
}

// wrap is called when a walk can go no further. The walk then goes on from the first counter to
// where it began, or is over if it has done that.
func (w *keepWalk) wrap() {
	if w.round || w.begun == "" {
		w.over = true
	}
	w.round, w.from = true, ""
}

// findMore begins to find pages if counters are needed. It reports whether any page is being found.
// If a page waits only for reads, it also returns when to ask again. Otherwise that time is zero.
// The mutex is held.
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
		w := f.next()
		if w == nil {
			continue
		}
		if !k.mayFind(now) {
			at = now.Add(k.readsWait())
			continue
		}

		f.turn++
		f.busy, finds = true, true
		k.work.Go(func() { k.findPage(ctx, f, w) })
	}
	return finds, at
}

// next returns the walk whose turn it is. It returns nil when all walks are over.
func (f *finder) next() *keepWalk {
	for range f.walks {
		w := f.walks[f.turn%len(f.walks)]
		if !w.over {
			return w
		}
		f.turn++
	}
	return nil
}

// findPage finds the next page of a walk.
func (k *keeper) findPage(ctx context.Context, f *finder, w *keepWalk) {
	page, err := k.page(ctx, w.template, w.from, f.find)
	received := time.Now()

	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.ended()

	f.busy = false
	k.walked += f.cost*int64(len(page.Found)) + 1
	if err != nil {
		if ctx.Err() == nil {
			k.problems = append(k.problems, err)
		}
		w.wrap() // the next call tries again
		return
	}

	if page.ReadTime.After(k.newest) {
		k.newest, k.heard = page.ReadTime, received
	}

	for _, found := range page.Found {
		path := found.Counter.RollUp
		if w.round && path == w.first {
			w.over = true
			break
		}
		if w.first == "" && !w.round {
			w.first = path
		}

		e := k.meet(f, found, page.ReadTime, received)
		if e != nil {
			e.finder, e.walk = f, w
			f.waiting++
		}
		w.passes = append(w.passes, pass{e, found.Next})
	}
	if !w.over {
		w.passes = append(w.passes, pass{behind: page.Next})
	}

	w.from = page.Next
	if w.from == "" {
		w.wrap()
	}
	w.move()
}

// meet takes a counter that a walk has found. If it is new, meet has it wait for its visit. If the
// visit is due now, meet returns it. The mutex is held.
//
// Counters that are due are visited in the order of the walk, and not by the ages of their
// roll-ups. A visit that changes nothing leaves a roll-up as old as it was. If the oldest went
// first, a call without the time for a whole page would visit the same counters as the call before.
func (k *keeper) meet(f *finder, found Found, read, received time.Time) *kept {
	tally := found.RollUp.Tally
	if e := k.known[found.Counter.RollUp]; e != nil {
		if !e.visited && tally.NumShards > 0 {
			e.young = later(e.young, tally.AsOf)
		}
		return nil
	}
	if tally.AsOf.IsZero() != (f.class == classWithout) {
		return nil
	}

	f.found++
	e := &kept{Counter: found.Counter, class: f.class, due: k.began} // before all that this call has visited
	if tally.NumShards > 0 {
		e.young = tally.AsOf
	}

	l := look{counter: found.Counter, readTime: read, rollUp: found.RollUp, asOf: tally.AsOf}
	due := k.paceOf(found.Template).due(&l)
	if due > 0 && !tally.AsOf.After(read) {
		e.due = received.Add(due)
		k.push(e)
		return nil
	}

	k.push(e)
	return e
}
