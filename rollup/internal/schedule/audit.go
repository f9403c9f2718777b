package schedule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/firestore-tally/tally/rollup/internal/note"
	"github.com/firestore-tally/tally/rollup/internal/roll"
	"github.com/firestore-tally/tally/rollup/route"
)

const (
	// maxWaiting is how many differences an audit remembers while their grace lasts. If there are
	// more, the audit waits until they are done.
	maxWaiting = 1000

	// saveEvery is the least time between two saves of the cursor. An audit that is killed has
	// about that much work to do again. Firestore sustains about one write a second on one
	// document.
	saveEvery = 5 * time.Second

	// rollUpsShare is the part of an audit's reads and time that the walks of the roll-ups may use.
	// The walks of the shards have the rest. They only find counters whose very first event was
	// lost, or that are older than Tally.
	rollUpsShare = 0.75
)

// Audit first compares the counters that notes name. It then walks all counters of the routes, as
// far as the cycle allows by now. It begins each walk where the last audit stopped. It
// compares each roll-up with its shards, and repairs those that differ. It leaves a roll-up alone
// if it agrees, because no event waits for it. It removes a roll-up that has been at zeros without
// shards for an hour.
//
// There are walks of two kinds, because neither finds all counters. The walks of the roll-ups find
// each counter that has one. The walks of the shards find the others. The walks of the roll-ups end
// when they have used their share of the audit's reads and time, and the walks of the shards have
// the rest. Each kind begins again from the first counter when all its walks have come to their
// ends. So a large database may need more audits for the shards than for the roll-ups.
//
// A difference may be a change whose event is on its way. So the audit looks again after the grace.
// If the roll-up still does not cover the first look, the event was lost or is late, and the
// difference is called drift. If too little time is left to wait, the difference is repaired at
// once, and not called drift.
//
// The audit first compares the roll-up that its walk has read with a sum that is taken a moment
// later. If they do not agree, it reads and sums again in one snapshot, and decides by that.
//
// An audit ends with the last counter. It ends sooner when its time or its reads are used up, or
// when another audit has saved its cursor. Audits may overlap with each other, with Keep and with
// the coalescers of any number of instances. They then only do some work twice. If an audit is
// killed, the next one starts from its last saved cursor.
//
// An unkept counter does not count as a failure. The report counts it separately, and each audit
// tries it again.
//
// After a failure of a counter the audit goes on with the others. If a page of counters cannot be
// read, its walk ends; the other walks go on, and the next audit tries that page again. The error
// joins the failures of pages and of the cursor, the reason why ctx ended, and how many counters
// failed. The report is valid even with an error.
func Audit(ctx context.Context, store Store, routes route.Routes, o AuditOptions) (Report, error) {
	a := &audit{o: o, began: time.Now(), lastStart: o.Until, slots: make(chan struct{}, o.Concurrency)}
	a.cycle = cycle{o: &a.o, routes: routes}
	a.examiner = examiner{Roller: roll.New(store, o.Options), o: &a.o, store: store}
	a.Prune, a.Salted = o.Prune, true
	a.findings.roller = &a.Roller
	if !a.lastStart.IsZero() {
		a.o.Grace = FittingGrace(o.Grace, time.Until(o.Until))
		a.lastStart = o.Until.Add(-a.o.Grace)
	}

	err := a.load(ctx)
	if err != nil {
		return a.report, err
	}

	byRollUps, byShards := walksOf(routes, store, a.since, a.recent)
	a.examineNoted(ctx)
	a.walkAll(ctx, byRollUps, &a.cursor.RollUps, 0, rollUpsShare)
	a.walkAll(ctx, byShards, &a.cursor.Shards, len(byRollUps), 1)
	a.doubts.Wait()

	end := a.resume()
	a.finish(end.Places[:len(byRollUps)], end.Places[len(byRollUps):])
	a.save(ctx)
	a.settleNotes(ctx)
	a.report.Cursor, a.report.Overlapped = end.describe(byRollUps, byShards), a.overlapped

	return a.report, joinProblems(ctx, a.problems, a.report.Failed, a.report.Counters)
}

// An audit is one run of Audit.
type audit struct {
	examiner
	cycle
	findings
	o         AuditOptions
	began     time.Time
	lastStart time.Time // no counter is begun after it; zero: no bound
	slots     chan struct{}

	// these belong to the goroutine that walks
	wasComplete [2]bool // the walks of the roll-ups, and those of the shards, had nothing to do at the beginning
	notes       []note.Note
	named       []*doubt        // that notes name
	examined    map[string]bool // the roll-ups of those that were begun
	saved       time.Time       // local
	share       float64         // of the audit's reads and time, that may be used up by now
	problems    []error
	overlapped  bool

	waiting []*doubt // in the order of the pages they were found on; the mutex of the findings guards it
	doubts  sync.WaitGroup
}

// A doubt is a counter that the audit examines. If it differs, it waits until its grace is over,
// and is examined again.
type doubt struct {
	FoundCounter
	comparison comparison
	walk       int   // the index of the walk that found it; -1: a note names it
	before     Place // where the page began on which it was found
	left       bool  // the audit is not done with it; the audit's mutex guards it
}

// load loads the cursor that the last audit left, and the notes, and begins the laps that are due.
func (a *audit) load(ctx context.Context) error {
	if !a.o.FromFirst || !a.o.DryRun {
		loading, cancel := context.WithTimeout(ctx, a.Options.Timeout)
		defer cancel()

		var err error
		a.cursor, err = a.store.LoadCursor(loading, Auditing)
		if err != nil {
			return fmt.Errorf("rollup: loading the audit's cursor: %w", err)
		}
	}
	if a.o.FromFirst {
		a.cursor = Cursor{ReadTime: a.cursor.ReadTime} // which notes are older than the audit
	}

	a.adapt()
	a.loadNotes(ctx)
	a.takes = a.cycleTakes()

	rollUps, shards := a.cursor.Places[:len(a.routes.Templates())], a.cursor.Places[len(a.routes.Templates()):]
	a.beginLap(&a.cursor.RollUps, rollUps)
	a.beginLap(&a.cursor.Shards, shards)
	a.wasComplete = [2]bool{complete(rollUps), complete(shards) && len(shards) > 0} // without walks, a lap is over at once

	if !a.cursor.Tick.IsZero() {
		a.report.Since = max(0, a.began.Sub(a.cursor.Tick))
	}
	a.cursor.Tick, a.saved = a.began, a.began
	return nil
}

// finish notes which walks have come to their ends. The places are those where the next audit
// begins.
func (a *audit) finish(rollUps, shards []Place) {
	a.cursor.RollUps.Ended = a.cursor.RollUps.Ended || complete(rollUps) && !a.wasComplete[0]
	a.cursor.Shards.Ended = a.cursor.Shards.Ended || complete(shards) && !a.wasComplete[1]

	a.report.Complete = a.cursor.RollUps.Ended && a.cursor.Shards.Ended
	if a.report.Complete {
		a.cursor.recordComplete(time.Now())
	}
	a.report.Cycle = a.cursor.Cycle
}

// save saves where the next audit goes on. If another audit has saved its own cursor meanwhile,
// this audit leaves the rest to that one.
func (a *audit) save(ctx context.Context) {
	if !a.changed || a.o.DryRun || a.o.FromFirst || a.overlapped || ctx.Err() != nil {
		return
	}

	ctx, cancel := context.WithTimeout(ctx, a.Options.Timeout)
	defer cancel()
	at, err := a.store.SaveCursor(ctx, Auditing, a.resume())
	switch {
	case errors.Is(err, roll.ErrConflict):
		a.overlapped = true
	case err != nil: // perhaps it was saved, and the next attempt will be refused
		a.problems = append(a.problems, fmt.Errorf("rollup: saving the audit's cursor: %w", err))
	default:
		a.cursor.UpdateTime = at
	}
	a.saved = time.Now()
}

// resume returns the cursor from which the next audit should go on. Each walk's place is before its
// first counter with which this audit is not done.
func (a *audit) resume() Cursor {
	c := a.cursor
	c.Places = slices.Clone(c.Places)

	a.mu.Lock()
	defer a.mu.Unlock()
	for _, d := range slices.Backward(a.waiting) {
		if d.walk >= 0 {
			c.Places[d.walk] = d.before
		}
	}
	return c
}

// numWaiting returns how many differences wait for their grace.
func (a *audit) numWaiting() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.waiting)
}

// timeIsUp reports whether the audit has used up its share of the time.
func (a *audit) timeIsUp(ctx context.Context) bool {
	if ctx.Err() != nil || a.overlapped {
		return true
	}
	if a.lastStart.IsZero() {
		return false
	}
	return time.Since(a.began) >= time.Duration(a.share*float64(a.lastStart.Sub(a.began)))
}

// readsUsedUp reports whether the share of the audit's reads is used up.
func (a *audit) readsUsedUp() bool {
	return a.o.MaxReads > 0 && float64(a.o.Reads()) >= a.share*float64(a.o.MaxReads)
}

// walkAll goes on with the walks of one kind, in turns, until all reads and time up to a share are
// used. The place of the first walk is that with the index first. At least one page is found, so
// that each kind gets further with each audit, however few reads there are.
func (a *audit) walkAll(ctx context.Context, walks []walk, lap *Lap, first int, share float64) {
	a.share = share
	for pages := 0; !a.timeIsUp(ctx) && (pages == 0 || !a.readsUsedUp()); pages++ {
		n, ok := a.next(lap, first, len(walks))
		if !ok {
			return
		}

		before := a.reads()
		more := a.examinePage(ctx, walks[n-first], n)
		a.cursor.Places[n].Reads += a.reads() - before
		if more && a.cursor.Places[n].Done {
			a.cursor.Places[n] = Place{Done: true, Last: a.cursor.Places[n].Reads}
		}
	}
}

// reads returns what the audit was billed so far; 0 if nothing counts it.
func (a *audit) reads() int64 {
	if a.o.Reads == nil {
		return 0
	}
	return a.o.Reads()
}

// examinePage examines the counters of a walk's next page. It reports whether the walk can go on.
func (a *audit) examinePage(ctx context.Context, w walk, n int) bool {
	a.changed = true
	place := &a.cursor.Places[n]
	page, err := w.page(ctx, place.From, walkPage, a.Options.Timeout)
	if err != nil {
		place.Failed = true
		if ctx.Err() == nil {
			a.problems = append(a.problems, err)
		}
		return false
	}

	a.countLeftOut(page.Foreign, page.ForeignExample)
	done := a.examineAll(ctx, page.Found, n)
	if ctx.Err() != nil {
		return false // what was begun may not be done
	}

	switch {
	case done < len(page.Found):
		place.From = page.Found[done-1].Next
	case page.Next != "":
		place.From = page.Next
	default:
		place.From, place.Done = "", true
	}

	if a.numWaiting() > maxWaiting {
		a.doubts.Wait()
	}
	if time.Since(a.saved) >= saveEvery {
		a.save(ctx)
	}
	return true
}

// examineAll examines counters, and returns how many it has begun, at least one. These are fewer
// than all if the audit's time or reads are used up meanwhile.
func (a *audit) examineAll(ctx context.Context, found []FoundCounter, n int) (begun int) {
	var work sync.WaitGroup
	defer work.Wait()

	before := a.cursor.Places[n]
	for i, f := range found {
		if i > 0 && (a.timeIsUp(ctx) || a.readsUsedUp()) { // one at least: finding them may have used up the reads
			return i
		}
		if a.examined[f.Counter.RollUp] {
			continue
		}

		d := a.newDoubt(f, n)
		d.before = before
		a.slots <- struct{}{}
		work.Go(func() {
			defer func() { <-a.slots }()
			a.examine(ctx, d)
		})
	}
	return len(found)
}

// newDoubt returns the doubt of a counter that a walk has found, or a note.
func (a *audit) newDoubt(f FoundCounter, n int) *doubt {
	return &doubt{FoundCounter: f, walk: n, comparison: comparison{
		o:      &a.o,
		grace:  a.o.Grace > 0 && !f.Template.Scheduled() && a.canWait(f.RollUp),
		remake: a.cursor.RollUps.Remake,
	}}
}

// canWait reports whether a counter's grace is over before the audit must end.
func (a *audit) canWait(r roll.RollUp) bool {
	return a.o.Until.IsZero() || time.Until(a.o.Until) >= a.o.Grace+sumDelay(r)
}

// lookAgain has a counter that differs wait for its grace, and then examines it again. The mutex is
// held.
func (a *audit) lookAgain(ctx context.Context, d *doubt) {
	a.waiting = append(a.waiting, d)
	a.doubts.Go(func() {
		stopped := sleep(ctx, a.o.Grace+sumDelay(d.RollUp))
		if stopped != nil {
			return
		}

		a.slots <- struct{}{}
		defer func() { <-a.slots }()
		d.comparison.graceOver = true
		a.examine(ctx, d)

		a.mu.Lock()
		defer a.mu.Unlock()
		if ctx.Err() == nil { // else it is not done with
			a.waiting = slices.DeleteFunc(a.waiting, func(w *doubt) bool { return w == d })
		}
	})
}

// progress reports how far the audit has come. The mutex is held.
func (a *audit) progress() {
	if a.o.Progress != nil {
		a.report.Waiting = len(a.waiting)
		a.o.Progress(a.report)
	}
}

// examine compares a counter with its shards, acts on that, and counts the outcome in the report.
func (a *audit) examine(ctx context.Context, d *doubt) {
	gone := d.walk >= 0 && d.Template.Existing && !d.RollUp.Exists()
	if gone {
		return
	}

	did, l, err := a.compare(ctx, d.FoundCounter, &d.comparison)
	if did == actionSkip {
		return
	}

	d.comparison.deferred = l.ReadTime.Sub(l.AsOf) < a.Cadence(&l)+redelivery+sumDelay(l.RollUp) // by then an alarm has rung
	differs := err == nil && (did == actionRepair || did == actionTell)
	if differs && d.comparison.difference(&l) == differenceDrift {
		d.comparison.untold = a.untold(ctx, d.Counter, l.AsOf)
		d.comparison.unkept = a.wasUnkept(ctx, d.Counter, l.AsOf)
	}

	a.mu.Lock()
	defer a.mu.Unlock()
	d.left = err != nil || did == actionWait || did == actionTell
	switch {
	case errors.Is(err, roll.ErrUnkept):
		a.report.Unkept++
		a.report.UnkeptCounters = appendError(a.report.UnkeptCounters, err)
		a.LogUnkept(ctx, d.Counter, "", err)
	case err != nil:
		a.report.Failed++
		a.report.Errors = appendError(a.report.Errors, err)
		a.Options.Logger.ErrorContext(ctx, "counter not audited", "counter", d.Counter.RollUp, "error", err)
		a.countAudited(&l)
	case did == actionWait:
		a.lookAgain(ctx, d)
	default:
		a.countAction(ctx, did, &d.comparison, &l)
		a.countAudited(&l)
	}
	a.progress()
}
