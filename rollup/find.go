package rollup

import (
	"context"
	"time"
)

// maxKept is how many counters a call of Keep holds at most that it has found by their roll-ups,
// some 250 bytes each; by their shards it is half of that. A call that holds so many finds no more,
// and the next goes on behind those that were visited.
const maxKept = 100_000

// A finder finds the counters of a class, a page of one template after a page of the next. It finds
// no more than are visited: a page more is found when few are waiting.
type finder struct {
	class   class
	most    int // counters that it may find in a call
	find    func(context.Context, *Template, string, int) (Page, error)
	cost    int64 // in reads for each counter
	walks   []*keepWalk
	turn    int // of the walks
	busy    bool
	waiting int // counters that it found, that are due and that were not visited yet
	found   int // counters
}

// A keepWalk goes through the counters of a template, once round: from the place up to which the
// last call had visited them to the last counter, and then from the first counter to that place.
type keepWalk struct {
	template *Template
	from     string // where it goes on
	begun    string // where it began in this call
	first    string // the first roll-up that was found from there
	round    bool   // it has come to the last counter, and gone on from the first
	over     bool

	place  string // everything before it was visited
	passes []pass // what was found behind it, in order
}

// A pass is a counter that a walk has come by.
type pass struct {
	waits  *kept  // nil: there is no need to visit it, or it was visited
	behind string // the place behind it
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

// move moves the place on, over what was visited and up to the first counter that was not.
func (w *keepWalk) move() {
	for len(w.passes) > 0 && w.passes[0].waits == nil {
		w.place = w.passes[0].behind
		w.passes = w.passes[1:]
	}
}

// wrap has a walk that can go no further go on from the first counter, to where it began.
func (w *keepWalk) wrap() {
	if w.round || w.begun == "" {
		w.over = true
	}
	w.round, w.from = true, ""
}

// findMore begins to find pages if counters are needed. It reports whether any page is on its way.
// If a page waits only for reads, it also returns when to ask again, else zero. The mutex is held.
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

// next returns the walk whose turn it is, nil when all are over.
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

// meet takes up a counter that a walk has found, if it is new, and returns it if its visit is due.
// The mutex is held.
//
// Counters that are due are visited in the order of the walk, and not by the ages of their
// roll-ups. A visit that changes nothing leaves a roll-up as old as it was. So by age, a call
// without the time for a whole page would visit the same counters as the last call.
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
