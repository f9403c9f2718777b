package rollup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// AuditOptions configure an audit.
type AuditOptions struct {
	Options

	// Concurrency is how many counters are in work at once. It must be positive.
	Concurrency int

	// Grace is how long a difference is left to the event that may be on its way; see Grace. Zero
	// repairs at once, and then nothing is called drift. Routes that say "every" have none.
	Grace time.Duration

	// Until is when to stop. Zero: no bound but the context's. Give the context some seconds more, for
	// what is in work then and for the cursor.
	Until time.Time

	// MaxReads bounds the reads that are billed, as far as Reads tells, but for the counters that are
	// in work when it is reached. Zero: no bound.
	MaxReads int64
	Reads    func() int64 // must not be nil when MaxReads is positive

	// DryRun reports and changes nothing, the cursor included.
	DryRun bool

	// KeepRerouted leaves roll-ups alone that other routes made. Whoever does not know the routes of
	// the deployed functions must not take theirs for wrong.
	KeepRerouted bool

	// Prune takes away totals that earlier routes kept. Routes that are not those of every revision that
	// still runs must not prune: totals would come and go.
	Prune bool

	// FromFirst walks from the first counter, whatever the stored cursor says, and leaves that alone.
	FromFirst bool

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

// FittingGrace returns the grace that an audit keeps which has this much time: all of it if it takes no
// more than half of the time, else none. Without a grace a difference is never called drift.
func FittingGrace(grace, time time.Duration) time.Duration {
	if time < 2*grace {
		return 0
	}
	return grace
}

// A Report says what an audit did and found.
type Report struct {
	Counters  int `json:"counters"`  // compared with their shards
	RolledUp  int `json:"rolled_up"` // written, because they differed
	Unchanged int `json:"unchanged"` // agreed, or were brought up to date by others
	Removed   int `json:"removed"`   // had been at zeros without shards for over an hour
	Differing int `json:"differing"` // differed and were left so, by a dry run or because of KeepRerouted
	Failed    int `json:"failed"`    // could not be compared, repaired or removed

	Drift     int `json:"drift"`     // of the differing, those that differed longer than the grace
	Missing   int `json:"missing"`   // of the differing, those without a roll-up, such as new counters
	Orphaned  int `json:"orphaned"`  // of the differing, those whose roll-up is not zeros and that have no shards
	Rerouted  int `json:"rerouted"`  // of the differing, those whose roll-up other routes made
	Outdated  int `json:"outdated"`  // of the differing, those that are right and hold totals of earlier routes, which Prune takes away
	Malformed int `json:"malformed"` // counters with shards that are left out of their sums

	Complete   bool     `json:"complete"`   // every route's walk has come to its last counter
	Overlapped bool     `json:"overlapped"` // it stopped because another audit was at work
	Cursor     string   `json:"cursor"`     // where the next begins: a route, and a path
	Errors     []string `json:"errors,omitempty"`

	Waiting int           `json:"-"` // differences that are left to the trigger until their grace is over
	Cycle   time.Duration `json:"-"` // how long the last walk of all counters took; 0: unknown
	Since   time.Duration `json:"-"` // time since the audit before began; 0: unknown
}

const (
	// maxWaiting is how many differences an audit remembers while their grace lasts.
	maxWaiting = 1000

	// saveEvery is how often the cursor is saved, at most: what an audit that is killed loses. Firestore
	// sustains about one write a second on one document.
	saveEvery = 5 * time.Second

	// maxTries is how often one counter is tried. A try is lost only to a failure or to another writer,
	// whose roll-up most often covers the counter by the next try.
	maxTries = 5
)

// Audit walks all counters of the routes, each walk from where the last audit stopped, compares each
// roll-up with the shards in one snapshot and repairs what differs. A roll-up that agrees is left
// alone: no event waits for it. A roll-up that has been at zeros without shards for an hour is removed.
//
// A difference may be a change whose event is on its way. So the audit looks again after the grace. If
// the roll-up still does not cover the first look, the event was lost or is late, and the difference is
// drift. When too little time is left to wait, it is repaired at once and not called so.
//
// An audit ends with the last counter, or sooner: with its time, its reads, or when it finds that
// another audit saves its cursor. Audits may overlap with each other, with Keep and with the
// coalescers of any number of instances; they only do work twice then. One that is killed leaves a
// cursor before all that it had not finished. A page that cannot be read keeps its walk's place for
// the next audit, and the other walks go on.
//
// One counter's failure does not keep the audit from the others. The error joins what kept it from
// finding counters, from its cursor and what ended ctx, and says how many counters failed; the report
// is valid beside it.
func Audit(ctx context.Context, store AuditStore, routes Routes, o AuditOptions) (Report, error) {
	a := &audit{roller: newRoller(store, o.Options), o: o, store: store, routes: routes, walks: routes.walks(), slots: make(chan struct{}, o.Concurrency)}
	a.prune = o.Prune
	a.enough = o.Until
	if !a.enough.IsZero() {
		a.o.Grace = FittingGrace(o.Grace, time.Until(o.Until))
		a.enough = o.Until.Add(-a.o.Grace)
	}
	if err := a.load(ctx); err != nil {
		return a.report, err
	}
	for i := range a.walks {
		a.walk(ctx, i)
	}
	a.settle(ctx, 0)
	end := a.resume()
	if a.report.Complete = end.complete(); a.report.Complete {
		a.cursor.completed(time.Now())
	}
	a.save(ctx)
	a.report.Cursor, a.report.Cycle = end.describe(routes), a.cursor.Cycle
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
	walks  []walk
	enough time.Time // no counter is begun later
	slots  chan struct{}

	// of the goroutine that walks
	cursor   Cursor
	saved    time.Time // local
	problems []error

	mu      sync.Mutex
	report  Report
	waiting []doubt // in the order of the pages they were found on
}

// A doubt is a counter that differs and waits for its grace.
type doubt struct {
	counter    Counter
	comparison comparison
	due        time.Time // local
	walk       int       // that it was found on
	before     Place     // of the page it was found on
}

// load takes up the cursor.
func (a *audit) load(ctx context.Context) error {
	began := time.Now()
	if !a.o.FromFirst {
		var err error
		ctx, cancel := context.WithTimeout(ctx, a.Timeout)
		defer cancel()
		if a.cursor, err = a.store.LoadCursor(ctx); err != nil {
			return fmt.Errorf("rollup: loading the audit's cursor: %w", err)
		}
	}
	a.cursor = a.cursor.on(a.routes)
	if !a.cursor.Tick.IsZero() {
		a.report.Since = max(0, began.Sub(a.cursor.Tick))
	}
	a.cursor.Tick, a.saved = began, began
	return nil
}

// save saves where the next audit goes on. When another audit has saved its own cursor, this one
// leaves the rest to it.
func (a *audit) save(ctx context.Context) {
	if a.o.DryRun || a.o.FromFirst || a.report.Overlapped || ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, a.Timeout)
	defer cancel()
	at, err := a.store.SaveCursor(ctx, a.resume())
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

// resume returns the cursor with each walk's place before its first counter that is not done with.
func (a *audit) resume() Cursor {
	c := a.cursor
	c.Places = slices.Clone(c.Places)
	for _, d := range slices.Backward(a.waiting) {
		c.Places[d.walk] = d.before
	}
	return c
}

// over reports whether to begin no more counters.
func (a *audit) over(ctx context.Context) bool {
	return ctx.Err() != nil || a.report.Overlapped || !a.enough.IsZero() && !time.Now().Before(a.enough) ||
		a.o.MaxReads > 0 && a.o.Reads() >= a.o.MaxReads
}

// walk goes from a walk's place to its last counter, or until it is over.
func (a *audit) walk(ctx context.Context, n int) {
	place := &a.cursor.Places[n]
	for !place.Done && !a.over(ctx) {
		page, err := a.page(ctx, a.store, a.walks[n], place.From)
		if err != nil {
			place.Failed = true
			if ctx.Err() == nil {
				a.problems = append(a.problems, err)
			}
			return
		}
		done := a.examineAll(ctx, page.Found, n)
		if ctx.Err() != nil {
			return // what was begun may not be done
		}
		switch {
		case done < len(page.Found):
			if done > 0 {
				place.From = page.Found[done-1].Next
			}
		case page.Next != "":
			place.From = page.Next
		default:
			*place = Place{Done: true}
		}
		a.settle(ctx, maxWaiting)
		if time.Since(a.saved) >= saveEvery {
			a.save(ctx)
		}
	}
}

// examineAll examines counters, and returns how many it has begun: fewer when it is over meanwhile.
func (a *audit) examineAll(ctx context.Context, found []Found, n int) (begun int) {
	var work sync.WaitGroup
	defer work.Wait()
	before, route := a.cursor.Places[n], a.walks[n].route
	for i, f := range found {
		if route == nil && f.RollUp.Tally.AsOf.IsZero() {
			continue // a document that Tally never wrote
		}
		if i > 0 && a.over(ctx) { // one at least: finding them may have used up the reads
			return i
		}
		a.slots <- struct{}{}
		work.Go(func() {
			defer func() { <-a.slots }()
			a.examine(ctx, doubt{counter: f.Counter, walk: n, before: before, comparison: comparison{
				found: route, grace: a.o.Grace > 0 && !f.Template.Scheduled(), dryRun: a.o.DryRun, keepRerouted: a.o.KeepRerouted, prune: a.o.Prune,
			}})
		})
	}
	return len(found)
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
		n := slices.IndexFunc(a.waiting, func(d doubt) bool { return d.due.After(now) })
		if n == 0 {
			return
		}
		if n < 0 {
			n = len(a.waiting)
		}
		var work sync.WaitGroup
		for _, d := range a.waiting[:n] {
			d.comparison.graceOver, d.comparison.found = true, nil
			a.slots <- struct{}{}
			work.Go(func() {
				defer func() { <-a.slots }()
				a.examine(ctx, d)
			})
		}
		work.Wait()
		if ctx.Err() != nil {
			return // they are not done with
		}
		a.waiting = slices.Delete(a.waiting, 0, n)
	}
}

// examine compares a counter, and counts what came of it.
func (a *audit) examine(ctx context.Context, d doubt) {
	did, l, err := a.compare(ctx, d.counter, &d.comparison)
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err != nil:
		a.report.Failed++
		a.report.Errors = appendError(a.report.Errors, err)
		a.Logger.ErrorContext(ctx, "counter not audited", "counter", d.counter.RollUp, "error", err)
	case did == skip:
		return
	case did == wait:
		d.due = time.Now().Add(a.o.Grace)
		a.waiting = append(a.waiting, d)
		return
	case did == repair:
		a.report.RolledUp++
		a.noteDifference(ctx, &d.comparison, &l)
	case did == tell:
		a.report.Differing++
		a.noteDifference(ctx, &d.comparison, &l)
	case did == remove:
		a.report.Removed++
	default:
		a.report.Unchanged++
	}
	a.report.Counters++
	if l.totals.Malformed > 0 {
		a.report.Malformed++
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

// errBusy is why a counter is tried again that may not be rolled up yet.
var errBusy = errors.New("others had rolled it up each time it was looked at")

// compare compares c's roll-up with its shards, and makes it cover everything that was committed before
// the comparison's first look. It returns what it did, and its last look.
func (a *audit) compare(ctx context.Context, c Counter, k *comparison) (action, look, error) {
	for try := 1; ; try++ {
		did, l, due, err := a.try(ctx, c, k)
		if err == nil {
			return did, l, nil
		}
		if try < maxTries {
			if stopped := sleep(ctx, max(due, a.pause(try-1))); stopped != nil {
				err = stopped
			}
		}
		if try == maxTries || ctx.Err() != nil {
			return leave, l, fmt.Errorf("rollup: %s not audited: %w", c.RollUp, err)
		}
	}
}

// try takes one look and does what is to be done. After an error it is to be tried again, when the
// pace allows.
func (a *audit) try(ctx context.Context, c Counter, k *comparison) (did action, l look, due time.Duration, err error) {
	looking, cancel := context.WithTimeout(ctx, a.Timeout)
	defer cancel()
	if l, err = a.look(looking, c, ""); err != nil {
		return did, l, 0, err
	}
	if did = k.before(&l); did != sum {
		return did, l, 0, nil
	}
	if err = a.sum(looking, &l); err != nil {
		return did, l, 0, err
	}
	p := a.paceOf(c.Template)
	switch did = k.after(&l); {
	case did == remove:
		err = a.remove(looking, a.store, &l)
	case did != repair:
	case p.due(&l) <= 0:
		err = a.write(ctx, &l, p)
	default:
		// Most likely the trigger is about to roll up the same change.
		due = p.due(&l) + a.Cadence/10
		if !a.o.Until.IsZero() && time.Now().Add(due).After(a.o.Until) {
			return leave, l, 0, nil
		}
		err = errBusy
	}
	return did, l, due, err
}

// noteDifference counts what a counter that differs is, and logs it. The mutex is held.
func (a *audit) noteDifference(ctx context.Context, k *comparison, l *look) {
	log := a.Logger.With("counter", l.counter.RollUp, "rolled_up", fmt.Sprint(l.rollUp.Sums), "shards_hold", fmt.Sprint(l.totals.Sums),
		"num_shards", l.totals.NumShards(), "as_of", l.asOf, "read_time", l.readTime)
	switch k.difference(l) {
	case orphaned:
		a.report.Orphaned++
		log.WarnContext(ctx, "orphaned: the roll-up of a counter without shards is not zeros")
	case missing:
		a.report.Missing++
		log.InfoContext(ctx, "missing: a counter without a roll-up")
	case rerouted:
		a.report.Rerouted++
		log.InfoContext(ctx, "rerouted: the roll-up was made by other routes", "totals", l.rollUp.Tally.Totals)
	case outdated:
		a.report.Outdated++
		log.InfoContext(ctx, "outdated: the roll-up holds totals of earlier routes", "former", l.rollUp.Tally.Former)
	case drift:
		a.report.Drift++
		log.ErrorContext(ctx, "drift: no event of a change came in time")
	case recent:
	}
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
