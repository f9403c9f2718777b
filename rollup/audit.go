package rollup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// An AuditStore is a Store that an audit can walk.
type AuditStore interface {
	Store

	// Counters returns up to limit counters of the route that have shards, whether or not their
	// parent documents exist, those that follow the counter whose shards' collection is after; "":
	// from the first. The order is the store's own and does not change. last reports that none is
	// left behind them. Counters that come or go meanwhile may be missed.
	Counters(ctx context.Context, route *Route, after string, limit int) (found []Counter, last bool, err error)

	// RollUps returns likewise up to limit documents at paths that the route's template gives, those
	// that follow the document after. They need not be roll-ups.
	RollUps(ctx context.Context, route *Route, after string, limit int) (found []FoundRollUp, last bool, err error)

	// Remove takes r, which c's roll-up document held, away: the totals, num_shards and as_of, and
	// the document if it holds nothing else. The precondition is that the document's update time is
	// still r.UpdateTime. It returns ErrConflict when Firestore refuses.
	Remove(ctx context.Context, c Counter, r RollUp) error

	// LoadCursor returns what SaveCursor saved last; the zero Cursor when there is nothing.
	LoadCursor(ctx context.Context) (Cursor, error)

	// SaveCursor saves c on the precondition that what was saved last is still what c.UpdateTime
	// says. It returns the new update time, or ErrConflict when Firestore refuses.
	SaveCursor(ctx context.Context, c Cursor) (time.Time, error)
}

// A FoundRollUp is a document where a counter's roll-up would be.
type FoundRollUp struct {
	Counter
	RollUp RollUp
}

// A Place is how far an audit has come. The zero Place is the beginning.
type Place struct {
	Route int    // index of the route
	Found Found  // what is being walked
	After string // path of the last that was walked; "": none yet
}

// Found is how an audit found a counter.
type Found int

const (
	ByRollUp Found = iota // by its roll-up document
	ByShards              // by its shards, which finds counters without a roll-up
)

// A Cursor is what one audit leaves to the next, in the database.
type Cursor struct {
	Place
	Routes string // those that Place was found on; on others an audit begins anew

	Walked int64     // documents and counters that were found since the beginning
	Whole  int64     // the same of the last audit that came to the end; 0: none did
	Tick   time.Time // when the audit that saved this began, by its local clock; it serves estimates only

	UpdateTime time.Time // when it was saved, as Firestore says; zero: never
}

// AuditOptions configure an audit.
type AuditOptions struct {
	Options

	// Concurrency is how many counters are in work at once. It must be positive.
	Concurrency int

	// Grace is how long a difference is left to the event that may be on its way; see Grace. Zero
	// repairs at once, and then nothing is called drift.
	Grace time.Duration

	// Marked, unless nil, reports whether a counter has a pending mark; see NewMarker. A difference of
	// one that has, or whose roll-up is younger than the cadence, is left to Drain and is not drift.
	Marked func(ctx context.Context, c Counter) (bool, error)

	// Until is when to stop. Zero: no bound but the context's. Give the context some seconds more, for
	// what is in work then and for the cursor.
	Until time.Time

	// MaxReads bounds the reads that are billed, as far as Reads tells, but for the counters that are
	// in work when it is reached. Zero: no bound.
	MaxReads int64
	Reads    func() int64 // must not be nil when MaxReads is positive

	// DryRun reports and changes nothing, the cursor included.
	DryRun bool

	// Whole walks from the first counter, whatever the stored cursor says, and leaves that alone.
	Whole bool

	// Progress, unless nil, is called with the report so far, one call at a time.
	Progress func(Report)
}

// redelivery is how long it takes at least until an event that failed is back: Eventarc waits for 10 s
// before it delivers again, and the rest is for the way.
const redelivery = 15 * time.Second

// Grace returns how long a difference must last to be called drift, when a counter is rolled up once a
// cadence and its events are held for up to holdLimit: an event may be held, fail, come again and be
// held again. Later than that only an event that failed twice can still be on its way.
func Grace(cadence, holdLimit time.Duration) time.Duration { return cadence + 2*holdLimit + redelivery }

// A Report says what an audit did and found.
type Report struct {
	Counters  int `json:"counters"`  // compared with their shards
	RolledUp  int `json:"rolled_up"` // written, because they differed
	Unchanged int `json:"unchanged"` // agreed, were brought up to date by the trigger within the grace, or are left to Drain
	Removed   int `json:"removed"`   // had been at zeros without shards for over an hour
	Differing int `json:"differing"` // differed and were left so, by a dry run
	Failed    int `json:"failed"`    // could not be compared, repaired or removed

	Drift     int `json:"drift"`     // of the differing, those that differed longer than the grace
	Missing   int `json:"missing"`   // of the differing, those without a roll-up, such as new counters
	Orphaned  int `json:"orphaned"`  // of the differing, those whose roll-up is not zeros and that have no shards
	Malformed int `json:"malformed"` // shards whose field is not a number; see Snapshot.Sum for which are known

	Complete   bool     `json:"complete"`   // it came to the last counter
	Overlapped bool     `json:"overlapped"` // it stopped because another audit was at work
	Cursor     string   `json:"cursor"`     // where the next begins: a route, and the last path that was walked
	Errors     []string `json:"errors,omitempty"`

	Waiting int `json:"-"` // differences that are left to the trigger until their grace is over

	Walked int64         `json:"-"` // documents and counters that were found
	Whole  int64         `json:"-"` // the same of the last audit that came to the end; 0: unknown
	Since  time.Duration `json:"-"` // time since the audit before began; 0: unknown
}

const (
	// auditPage is how many counters or documents are found at a time, which bounds an audit's memory.
	auditPage = 100

	// maxWaiting is how many differences an audit remembers while their grace lasts.
	maxWaiting = 1000

	// saveEvery is how often the cursor is saved, at most: what an audit that is killed loses. Firestore
	// sustains about one write a second on one document.
	saveEvery = 5 * time.Second

	// removeAfter is how long a roll-up has been at zeros when it is removed. No write may be on its way
	// then that was meant for the document while it did not exist; see maxWriteAge.
	removeAfter = time.Hour

	// maxRepairs is how often an audit tries one counter. A try is lost only to a failure or to another
	// writer, whose roll-up most often covers the counter by the next try.
	maxRepairs = 5
)

// Audit walks all counters of the routes, from where the last audit stopped, compares each roll-up
// with the shards in one snapshot and repairs what differs. A roll-up that agrees is left alone: no
// event waits for it. A roll-up that has been at zeros without shards for an hour is removed.
//
// A difference may be a change whose event is on its way. So the audit looks again after the grace. If
// the roll-up still does not cover the first look, the event was lost or is late, and the difference is
// drift. When too little time is left to wait, it is repaired at once and not called so.
//
// An audit ends with the last counter, or sooner: with its time, its reads, or when it finds that
// another audit saves its cursor. Audits may overlap with each other and with the coalescers of any
// number of instances; they only do work twice then. One that is killed leaves a cursor before all
// that it had not finished.
//
// One counter's failure does not keep the audit from the others. The error joins what kept it from
// finding counters, from its cursor and what ended ctx, and says how many counters failed; the report
// is valid beside it.
func Audit(ctx context.Context, store AuditStore, routes Routes, o AuditOptions) (Report, error) {
	a := &audit{roller: newRoller(store, o.Options), o: o, store: store, routes: routes, slots: make(chan struct{}, o.Concurrency)}
	a.enough = o.Until
	if !a.enough.IsZero() {
		if time.Until(o.Until) < 2*o.Grace {
			a.o.Grace = 0
		}
		a.enough = o.Until.Add(-a.o.Grace)
	}
	began := time.Now()
	if err := a.load(ctx, began); err != nil {
		return a.report, err
	}
	a.walk(ctx)
	a.settle(ctx, 0)
	a.save(ctx)
	a.report.Complete = a.cursor.Place == Place{Route: len(routes)}
	a.report.Cursor = a.place().describe(routes)
	if ctx.Err() != nil {
		a.problems = append(a.problems, context.Cause(ctx))
	}
	if a.report.Failed > 0 {
		a.problems = append(a.problems, fmt.Errorf("rollup: %d of %d counters failed", a.report.Failed, a.report.Counters))
	}
	return a.report, errors.Join(a.problems...)
}

// An audit is one run of Audit.
type audit struct {
	roller
	o      AuditOptions
	store  AuditStore
	routes Routes
	enough time.Time // no counter is begun later
	slots  chan struct{}

	// of the goroutine that walks
	cursor   Cursor
	saved    time.Time // local
	problems []error

	mu      sync.Mutex
	report  Report
	waiting []difference // in the order of the pages they were found on
}

// A difference waits for its grace.
type difference struct {
	counter Counter
	mark    time.Time // of the snapshot that showed it
	due     time.Time // local
	before  Place     // of the page it was found on
}

// load takes up the cursor.
func (a *audit) load(ctx context.Context, began time.Time) error {
	var names []string
	for _, r := range a.routes {
		names = append(names, r.String())
	}
	routes := strings.Join(names, "\n")
	if !a.o.Whole {
		var err error
		if a.cursor, err = a.store.LoadCursor(ctx); err != nil {
			return fmt.Errorf("rollup: loading the audit's cursor: %w", err)
		}
	}
	c := &a.cursor
	if c.Routes != routes || c.Route < 0 {
		*c = Cursor{Tick: c.Tick, UpdateTime: c.UpdateTime}
	}
	if c.Route >= len(a.routes) { // the last audit came to the end
		c.Place, c.Walked = Place{}, 0
	}
	if !c.Tick.IsZero() {
		a.report.Since = max(0, began.Sub(c.Tick))
	}
	c.Routes, c.Tick, a.report.Whole = routes, began, c.Whole
	a.saved = began
	return nil
}

// save saves the cursor, before the first counter that is not done with. When another audit has saved
// its own, this one leaves the rest to it.
func (a *audit) save(ctx context.Context) {
	if a.o.DryRun || a.o.Whole || a.report.Overlapped || ctx.Err() != nil {
		return
	}
	c := a.cursor
	c.Place = a.place()
	if c.Route == len(a.routes) {
		c.Whole = c.Walked
		a.report.Whole = c.Whole
	}
	at, err := a.store.SaveCursor(ctx, c)
	switch {
	case errors.Is(err, ErrConflict):
		a.report.Overlapped = true
	case err != nil: // perhaps it was saved, and the next attempt will be refused
		a.problems = append(a.problems, fmt.Errorf("rollup: saving the audit's cursor: %w", err))
	default:
		a.cursor.UpdateTime = at
	}
	a.saved = time.Now()
}

// place returns the place before the first counter that is not done with.
func (a *audit) place() Place {
	if len(a.waiting) > 0 {
		return a.waiting[0].before
	}
	return a.cursor.Place
}

// over reports whether to begin no more counters.
func (a *audit) over(ctx context.Context) bool {
	return ctx.Err() != nil || a.report.Overlapped || !a.enough.IsZero() && !time.Now().Before(a.enough) ||
		a.o.MaxReads > 0 && a.o.Reads() >= a.o.MaxReads
}

// walk goes from the cursor to the last counter, or until it is over.
func (a *audit) walk(ctx context.Context) {
	for a.cursor.Route < len(a.routes) && !a.over(ctx) {
		counters, places, last, err := a.page(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return
		case err != nil:
			a.problems = append(a.problems, fmt.Errorf("rollup: finding the counters of route %q: %w", a.routes[a.cursor.Route], err))
			last = true // the other routes must not wait for this one
		}
		done := a.examineAll(ctx, counters)
		if ctx.Err() != nil {
			return // what was begun may not be done
		}
		a.cursor.Walked += int64(done)
		a.report.Walked += int64(done)
		switch {
		case done == len(counters) && last && a.cursor.Found == ByRollUp:
			a.cursor.Place = Place{Route: a.cursor.Route, Found: ByShards}
		case done == len(counters) && last:
			a.cursor.Place = Place{Route: a.cursor.Route + 1}
		case done > 0:
			a.cursor.After = places[done-1]
		}
		a.settle(ctx, maxWaiting)
		if time.Since(a.saved) >= saveEvery {
			a.save(ctx)
		}
	}
}

// page finds the next counters. Those that need no look are nil.
func (a *audit) page(ctx context.Context) (counters []*Counter, places []string, last bool, err error) {
	route := a.routes[a.cursor.Route]
	ctx, cancel := context.WithTimeout(ctx, a.pageTimeout())
	defer cancel()
	if a.cursor.Found == ByShards {
		found, last, err := a.store.Counters(ctx, route, a.cursor.After, auditPage)
		for _, c := range found {
			counters, places = append(counters, &c), append(places, c.Shards)
		}
		return counters, places, last, err
	}
	found, last, err := a.store.RollUps(ctx, route, a.cursor.After, auditPage)
	for _, f := range found {
		c := &f.Counter
		if f.RollUp.AsOf.IsZero() { // a document that Tally never wrote
			c = nil
		}
		counters, places = append(counters, c), append(places, f.Counter.RollUp)
	}
	return counters, places, last, err
}

// pageTimeout bounds the finding of a page, which takes up to one query for each counter of it.
func (a *audit) pageTimeout() time.Duration { return 10 * a.Timeout }

// examineAll examines counters, and returns how many it has begun: fewer when it is over meanwhile.
func (a *audit) examineAll(ctx context.Context, counters []*Counter) (begun int) {
	var work sync.WaitGroup
	defer work.Wait()
	before := a.cursor.Place
	for i, c := range counters {
		if c == nil {
			continue
		}
		if a.over(ctx) {
			return i
		}
		a.slots <- struct{}{}
		work.Go(func() {
			defer func() { <-a.slots }()
			a.examine(ctx, *c, before)
		})
	}
	return len(counters)
}

// settle looks again at the differences whose grace is over, and waits until at most keep are left.
func (a *audit) settle(ctx context.Context, keep int) {
	for len(a.waiting) > 0 {
		if len(a.waiting) > keep {
			a.progress()
			if sleep(ctx, time.Until(a.waiting[0].due)) != nil {
				return
			}
		}
		now := time.Now()
		n := slices.IndexFunc(a.waiting, func(d difference) bool { return d.due.After(now) })
		if n == 0 {
			return
		}
		if n < 0 {
			n = len(a.waiting)
		}
		var work sync.WaitGroup
		for _, d := range a.waiting[:n] {
			a.slots <- struct{}{}
			work.Go(func() {
				defer func() { <-a.slots }()
				a.lookAgain(ctx, d)
			})
		}
		work.Wait()
		if ctx.Err() != nil {
			return // they are not done with
		}
		a.waiting = slices.Delete(a.waiting, 0, n)
	}
}

// A verdict is what came of a counter.
type verdict int

const (
	unchanged verdict = iota
	rolledUp
	removed
	differing
	unsettled // it differs, and is to be looked at again after the grace
	skipped   // found by its shards, and it has a roll-up, by which it was or will be found
)

// examine compares a counter for the first time.
func (a *audit) examine(ctx context.Context, c Counter, before Place) {
	v, l, err := a.compare(ctx, c, time.Time{}, before.Found)
	if v == unsettled && err == nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.waiting = append(a.waiting, difference{c, l.readTime, time.Now().Add(a.o.Grace), before})
		return
	}
	a.note(ctx, c, v, l, err)
}

// lookAgain compares a counter that differed a grace ago.
func (a *audit) lookAgain(ctx context.Context, d difference) {
	v, l, err := a.compare(ctx, d.counter, d.mark, ByRollUp)
	a.note(ctx, d.counter, v, l, err)
}

// note counts what came of a counter.
func (a *audit) note(ctx context.Context, c Counter, v verdict, l look, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if v == skipped && err == nil {
		return
	}
	a.report.Counters++
	a.report.Malformed += l.malformed
	switch {
	case err != nil:
		a.report.Failed++
		a.report.Errors = appendError(a.report.Errors, err)
		a.Logger.ErrorContext(ctx, "counter not audited", "counter", c.RollUp, "error", err)
	case v == rolledUp:
		a.report.RolledUp++
	case v == removed:
		a.report.Removed++
	case v == differing:
		a.report.Differing++
	default:
		a.report.Unchanged++
	}
	a.progress()
}

// progress tells how far the audit has come. The mutex is held, or nothing is in work.
func (a *audit) progress() {
	if a.o.Progress != nil {
		a.report.Waiting = len(a.waiting)
		a.o.Progress(a.report)
	}
}

// errBusy is why a counter is tried again that was rolled up less than a cadence ago.
var errBusy = errors.New("rolled up by others less than a cadence ago, each time it was looked at")

// compare compares c's roll-up with its shards, and makes it cover everything that was committed before
// the call, or before the snapshot at mark unless that is zero: then c differed a grace ago, and still
// does unless a roll-up is as of mark or later. It returns the last look.
func (a *audit) compare(ctx context.Context, c Counter, mark time.Time, found Found) (verdict, look, error) {
	graceOver := !mark.IsZero()
	noted := false // what the difference is
	for try := 1; ; try++ {
		var covered bool
		l, err := a.look(ctx, c, "", func(l *look) bool {
			if mark.IsZero() {
				mark = l.readTime // a roll-up as of then or later covers all that was committed before the call
			}
			covered = !l.asOf.Before(mark)
			return !covered && (found == ByRollUp || l.asOf.IsZero())
		})
		wait := a.pause(try)
		switch {
		case err != nil:
		case found == ByShards && !l.summed:
			return skipped, l, nil
		case covered:
			return unchanged, l, nil
		case agrees(&l):
			if a.o.DryRun || !removable(&l) {
				return unchanged, l, nil
			}
			if err = a.remove(ctx, c, &l); err == nil {
				return removed, l, nil
			}
		case a.o.Grace > 0 && !graceOver && !l.asOf.IsZero():
			return unsettled, l, nil
		case a.o.Marked != nil && a.untilDue(&l) > 0:
			return unchanged, l, nil
		case !a.o.DryRun && a.untilDue(&l) > 0:
			// Most likely the trigger is about to roll up the same change.
			due := l.received.Add(a.untilDue(&l) + a.backOff())
			if !a.o.Until.IsZero() && due.After(a.o.Until) {
				return unchanged, l, nil
			}
			wait, err = time.Until(due), errBusy
		default:
			var marked bool
			if marked, err = a.marked(ctx, c); err != nil {
				break
			}
			if marked {
				return unchanged, l, nil
			}
			if !noted {
				a.noteDifference(ctx, c, &l, graceOver)
				noted, found = true, ByRollUp
			}
			if a.o.DryRun {
				return differing, l, nil
			}
			if err = a.write(ctx, c, &l); err == nil {
				return rolledUp, l, nil
			}
		}
		if try < maxRepairs {
			if stopped := sleep(ctx, wait); stopped != nil {
				err = stopped
			}
		}
		if try == maxRepairs || ctx.Err() != nil {
			return unchanged, l, fmt.Errorf("rollup: %s not audited: %w", c.RollUp, err)
		}
	}
}

// marked reports whether c has a pending mark.
func (a *audit) marked(ctx context.Context, c Counter) (bool, error) {
	if a.o.Marked == nil {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, a.Timeout)
	defer cancel()
	return a.o.Marked(ctx, c)
}

// noteDifference counts what a counter that differs is, and logs it.
func (a *audit) noteDifference(ctx context.Context, c Counter, l *look, graceOver bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	log := a.Logger.With("counter", c.RollUp, "rolled_up", fmt.Sprint(l.rollUp.Sums), "shards_hold", fmt.Sprint(l.totals.Sums),
		"num_shards", l.totals.NumShards, "as_of", l.rollUp.AsOf, "read_time", l.readTime)
	switch {
	case l.totals.NumShards == 0:
		a.report.Orphaned++
		log.WarnContext(ctx, "orphaned: the roll-up of a counter without shards is not zeros")
	case l.asOf.IsZero():
		a.report.Missing++
		log.InfoContext(ctx, "missing: a counter without a roll-up")
	case graceOver:
		a.report.Drift++
		log.ErrorContext(ctx, "drift: no event of a change came in time")
	}
}

// removable reports whether a roll-up that agrees with its shards has been at zeros for so long that it
// may be removed. It has not been written since as_of.
func removable(l *look) bool {
	return l.totals.NumShards == 0 && !l.asOf.IsZero() && l.readTime.Sub(l.asOf) > removeAfter
}

// remove removes the roll-up that was looked at.
func (a *audit) remove(ctx context.Context, c Counter, l *look) error {
	ctx, cancel := context.WithTimeout(ctx, a.Timeout)
	defer cancel()
	return a.store.Remove(ctx, c, l.rollUp)
}

// agrees reports whether the roll-up says what the shards add up to. Without shards, a document
// that Tally never wrote is none of its business.
func agrees(l *look) bool {
	if l.totals.NumShards == 0 && l.rollUp.AsOf.IsZero() {
		return true
	}
	if l.asOf.IsZero() || l.rollUp.NumShards != l.totals.NumShards {
		return false
	}
	for field, sum := range l.totals.Sums {
		if seen, ok := l.rollUp.Sums[field]; !ok || !sameTotal(seen, sum) {
			return false
		}
	}
	return true
}

// describe names the place in a report.
func (p Place) describe(routes Routes) string {
	if p.Route >= len(routes) {
		return "at the beginning"
	}
	text := map[Found]string{ByRollUp: "roll-ups", ByShards: "shards"}[p.Found] + " of " + routes[p.Route].String()
	if p.After != "" {
		text += ", after " + p.After
	}
	return text
}

// appendError adds err to a report's errors, as long as they are few: it bounds a report's size, and
// every error is in the log.
func appendError(errors []string, err error) []string {
	const most = 10
	if len(errors) == most {
		return errors
	}
	return append(errors, err.Error())
}

// sleep waits for d or until ctx ends, whose error it then returns.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
