package schedule

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/firestore-tally/tally/rollup/internal/roll"
	"github.com/firestore-tally/tally/rollup/route"
)

// Keep rolls up the counters of the routes that say "every", each as often as its route says, until
// a time. A roll-up that would change no total is written only when its as_of is old.
//
// When there is more to do than the time or the reads allow, Keep is fair: see class. It begins
// with the counters that had changed when the last call visited them, and with the unchanged ones
// if the last call could visit all that were due. Meanwhile it finds the others, from where the
// last call stopped. So however many counters somebody makes up, none is left out forever, and each
// waits only for the counters of its class.
//
// A call finds each counter at most once, and then knows when to visit it. If a route's "every" is
// longer than a call, the next calls find its counters only when they are due again: see
// keeper.restartTime.
//
// Calls may overlap with each other and with coalescers. After a failure of a counter, a call goes
// on with the others. If a page of counters cannot be read, the next call tries it again. If a call
// is killed, the next one starts from its last saved cursor. The report is valid even with an
// error.
func Keep(ctx context.Context, store Store, routes route.Routes, o KeepOptions) (KeepReport, error) {
	routes = routes.Scheduled()
	k := &keeper{
		Roller: roll.New(store, o.Options),
		o:      o,
		store:  store,
		routes: routes,
		wake:   make(chan struct{}, 1),
		known:  make(map[string]*keptCounter),
		line:   line{slots: o.Concurrency},
	}
	k.allowance = allowance{most: o.MaxReads, reads: o.Reads, began: time.Now(), until: o.Until}
	k.load(ctx)

	saving, done := context.WithCancel(ctx)
	var saves sync.WaitGroup
	saves.Go(func() {
		for {
			stopped := sleep(saving, keepSaveEvery)
			if stopped != nil {
				return
			}
			k.save(ctx)
		}
	})

	k.visitAll(ctx)
	done()
	saves.Wait()
	k.save(ctx)

	k.sumUp(ctx)
	return k.report, joinProblems(ctx, k.problems, k.report.Failed, k.report.Counters)
}

// visitAll visits counters and finds more, until the time is over or nothing is left to do.
func (k *keeper) visitAll(ctx context.Context) {
	finding, cancel := k.untilEnd(ctx)
	defer k.work.Wait()
	defer cancel() // a page that is being found is not waited for

	for ctx.Err() == nil && !k.over() {
		k.mu.Lock()
		finds, more := k.findMore(finding)
		e, at := k.next()
		at = roll.Sooner(at, more)
		idle := !finds && k.line.inWork() == 0
		k.mu.Unlock()

		switch {
		case e != nil:
			k.work.Go(func() { k.visit(ctx, e) })
		case idle && (at.IsZero() || !k.o.Until.IsZero() && at.After(k.o.Until)):
			return
		default:
			k.await(ctx, at)
		}
	}
}

// untilEnd returns the context of finding counters. It ends with the time of the call. A page makes
// no further query well before that, so that a short call does not lose what it has found.
func (k *keeper) untilEnd(ctx context.Context) (context.Context, context.CancelFunc) {
	if k.o.Until.IsZero() {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, k.o.Until.Add(1)) // what is due at the end is begun
}

// over reports whether the call must begin nothing more.
func (k *keeper) over() bool {
	if k.o.Until.IsZero() {
		return k.o.MaxReads > 0 && k.o.Reads() >= k.o.MaxReads
	}
	return time.Now().After(k.o.Until)
}

// await waits until the time at, unless that is zero. It returns sooner when something in work
// ends, or when the time of the call is over.
func (k *keeper) await(ctx context.Context, at time.Time) {
	if !k.o.Until.IsZero() && (at.IsZero() || at.After(k.o.Until)) {
		at = k.o.Until.Add(1)
	}

	var due <-chan time.Time
	if !at.IsZero() {
		timer := time.NewTimer(time.Until(at))
		defer timer.Stop()
		due = timer.C
	}

	select {
	case <-due:
	case <-k.wake:
	case <-ctx.Done():
	}
}

// visit rolls a counter up if that is due, and plans its next visit.
func (k *keeper) visit(ctx context.Context, e *keptCounter) {
	v := k.rollUp(ctx, e)

	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.wakeUp()

	k.line.busy[e.class]--
	e.visited = true
	e.failure = v.err
	k.countVisit(e, &v)
	if e.walk != nil {
		e.walk.visited(e)
	}

	switch {
	case errors.Is(v.err, roll.ErrUnkept): // waiting does not help, so only the next call tries again
		k.LogUnkept(ctx, e.Counter, "", v.err)
		e.class = classUnchanged
		return
	case v.err != nil:
		k.fail(e)
		return
	}

	e.failures = 0
	e.class, e.due = v.class(e.class), v.nextDue
	e.delayMissing(&v)
	if !k.o.Until.IsZero() {
		k.push(e)
	}
}

// longestMissing is the longest pause between two visits to a document of the app's own that is
// missing. A client that may write sources can make up counters of such documents.
const longestMissing = time.Minute

// delayMissing puts off the next visit to a counter whose document is missing. The first pause is
// as long as its route's "every". Each further one in a row is twice as long.
func (e *keptCounter) delayMissing(v *visit) {
	if !v.Missing() {
		e.missing = 0
		return
	}
	every := e.Template.Every
	e.missing = min(max(2*e.missing, every), max(longestMissing, every))
	e.due = v.Received.Add(e.missing)
}

// fail plans the next visit to a counter whose last visit failed. It is soon, and later after each
// further failure. After some failures, the counter is visited no more often than others. The mutex
// is held.
func (k *keeper) fail(e *keptCounter) {
	e.failures++
	if e.failures >= maxTries && e.class == classChanged {
		e.class = classUnchanged
	}
	if k.o.Until.IsZero() && e.failures >= maxTries {
		return
	}

	e.due = time.Now().Add(k.PauseAfter(e.failures, e.Template.Every))
	k.push(e)
}

// rollUp rolls a counter up if that is due.
func (k *keeper) rollUp(ctx context.Context, e *keptCounter) (v visit) {
	looking, cancel := context.WithTimeout(ctx, k.Options.Timeout)
	defer cancel()

	v.Look, v.err = k.Look(looking, e.Counter, "")
	if v.err != nil {
		return v
	}

	p := k.SchedulePace(&v.Look)
	due := p.Due(&v.Look)
	if due > 0 {
		v.action, v.nextDue = actionSkip, v.Received.Add(due)
		return v
	}

	v.nextDue = v.Received.Add(p.Cadence)
	if v.Missing() {
		v.action = actionSkip
		return v
	}

	v.err = k.Sum(looking, &v.Look)
	if v.err != nil {
		return v
	}

	v.action = decideScheduled(&v.Look)
	switch v.action {
	case actionRepair:
		v.err = k.Write(ctx, &v.Look, p, &e.contention)
	case actionRemove:
		v.err = k.Remove(looking, &v.Look)
	}
	return v
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
