package schedule

import (
	"cmp"
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

// AuditOptions configure an audit.
type AuditOptions struct {
	roll.Options

	// Concurrency is how many counters are in work at once. It must be positive.
	Concurrency int

	// Grace is how long the audit leaves a difference to an event that may be on its way; see the
	// function Grace. Zero means that it repairs at once, and calls nothing drift. Routes that say
	// "every" have no grace.
	Grace time.Duration

	// Cycle returns how long a cycle takes at least, if the last one was billed so many reads; 0:
	// unknown. Its reads are spread over audits, which follow each other by Every. Nil or a result
	// of 0: each audit goes on as far as it can, and begins with the first counter again when the
	// last one has come to the end.
	Cycle func(reads int64) time.Duration
	Every time.Duration

	// Revision names the revision of the functions, and Database the database. While either of them
	// or the routes are new, cycles follow each other and are not spread, until one has begun ten
	// minutes after that. Cycles follow from the stored cursor, and so does what is new.
	Revision string
	Database string

	// Queue names the queue of the alarms. Another name than that of the last audit counts as a purge:
	// alarms that stood in the other queue may ring nowhere.
	Queue string

	// Purged is when somebody last deleted all alarms, by a server's clock; zero: never. Stopped
	// reports whether none rings now. Both make a cycle due, like a note about all counters. After a
	// purge the audit makes each alarm again that a roll-up relies on.
	Purged  time.Time
	Stopped bool

	// Until is when to stop. What is in work then is finished, or given up soon enough that the
	// audit has saved its cursor within Options.Timeout. Zero: only the context ends the audit.
	Until time.Time

	// MaxReads bounds the reads that are billed, as Reads counts them. The counters that are in
	// work when it is reached are finished. Zero: no bound.
	MaxReads int64
	Reads    func() int64 // must not be nil when MaxReads is positive

	// DryRun reports, and changes nothing, not even the cursor.
	DryRun bool

	// KeepRerouted leaves alone the roll-ups that other routes made. A caller that does not know
	// the routes of the deployed functions must set it. Otherwise the audit takes their roll-ups
	// for wrong.
	KeepRerouted bool

	// KeepUnwritten leaves alone the documents that hold totals that no roll-up wrote. A caller must
	// set it unless it works by the routes of functions that run: by others it would replace values
	// of the app's that no function replaces.
	KeepUnwritten bool

	// Prune takes away totals that earlier routes kept. It must not be set while a revision that
	// still keeps them runs, because the totals would come and go.
	Prune bool

	// FromFirst walks from the first counter, and leaves the stored cursor alone.
	FromFirst bool

	// Progress, unless nil, is called with the report so far, one call at a time.
	Progress func(Report)
}

// redelivery is how long it takes until an event that failed comes again. Eventarc waits for 10 s
// at least. The rest is for the way.
const redelivery = 15 * time.Second

// Grace returns how long a difference must last to be called drift. By then an event has had the
// time to be held, to fail, to come again and to be held again. Only an event that failed twice
// comes later.
func Grace(cadence, holdLimit time.Duration) time.Duration { return cadence + 2*holdLimit + redelivery }

// sumsTake returns how much later than other events those of a counter are rolled up because its
// sums take long. A change may have to wait for the alarm to which its event was deferred, for a
// sum that had begun before it, and for its own.
func sumsTake(r roll.RollUp) time.Duration { return 3 * r.TookAtMost() }

// FittingGrace returns the grace that an audit with this much time left keeps: the whole grace if
// that is at most half of the time, else none.
func FittingGrace(grace, left time.Duration) time.Duration {
	if left < 2*grace {
		return 0
	}
	return grace
}

// A Report says what an audit did and found.
type Report struct {
	Counters  int `json:"counters"`  // compared with their shards, or failed
	RolledUp  int `json:"rolled_up"` // written, because they differed
	Unchanged int `json:"unchanged"` // agreed, or were brought up to date by others
	Removed   int `json:"removed"`   // had been at zeros without shards for over an hour
	Differing int `json:"differing"` // differed and were left so: by a dry run, because of KeepRerouted or KeepUnwritten, or because of their pace
	Paced     int `json:"paced"`     // differed and were left so, because their pace allowed no roll-up before Until, or for a while; some of Differing
	Failed    int `json:"failed"`    // could not be compared, repaired or removed
	Unkept    int `json:"unkept"`    // cannot be rolled up until someone fixes them; see ErrUnkept

	Drift     int `json:"drift"`     // differed for longer than the grace; like the next six, some of RolledUp and Differing
	Lapsed    int `json:"lapsed"`    // lacked changes that came while they were unkept
	Late      int `json:"late"`      // were right, until documents left a window and no alarm had them rolled up
	Missing   int `json:"missing"`   // had no roll-up, such as new counters
	Orphaned  int `json:"orphaned"`  // had a roll-up that is not zeros, and no shards
	Rerouted  int `json:"rerouted"`  // had a roll-up that other routes made
	Outdated  int `json:"outdated"`  // were right, but held totals of earlier routes, which Prune takes away
	Malformed int `json:"malformed"` // counters with shards that are left out of their sums

	Unwritten   int `json:"unwritten,omitempty"`    // held totals that no roll-up wrote; like drift, some of RolledUp and Differing
	ForeignKind int `json:"foreign_kind,omitempty"` // documents that hold values of the app's in the fields of totals, which are left out

	UnwrittenExample   string `json:"unwritten_example,omitempty"`    // such as "posts/b: likes is 1234"
	ForeignKindExample string `json:"foreign_kind_example,omitempty"` // such as "posts/a: likes is an array"

	Complete   bool     `json:"complete"`   // every walk has come to its last counter, in this audit or since the last one that was complete
	Overlapped bool     `json:"overlapped"` // it stopped because another audit was at work
	Cursor     string   `json:"cursor"`     // where the next begins: walks, and places in them
	Errors     []string `json:"errors,omitempty"`

	UnkeptCounters []string `json:"unkept_counters,omitempty"` // up to ten of them, with the reason

	Waiting int           `json:"-"` // differences that are left to the trigger until their grace is over
	Cycle   time.Duration `json:"-"` // how long the last walk of all counters took; 0: unknown
	Since   time.Duration `json:"-"` // time since the audit before began; 0: unknown
}

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

	// maxTries is how often one counter is tried. A try is lost to a failure, or to another writer.
	// Such a writer has most often covered the counter by the next try.
	maxTries = 5
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
// the coalescers of any number of instances. They then only do some work twice. An audit that is
// killed leaves a cursor from which the next one finds all that it had not finished.
//
// An unkept counter does not count as a failure. The report counts it separately, and each audit
// tries it again.
//
// After a failure of a counter the audit goes on with the others. If a page of counters cannot be
// read, its walk ends; the other walks go on, and the next audit tries that page again. The error
// joins the failures of pages and of the cursor, the reason why ctx ended, and how many counters
// failed. The report is valid even with an error.
func Audit(ctx context.Context, store Store, routes route.Routes, o AuditOptions) (Report, error) {
	a := &audit{
		Roller: roll.New(store, o.Options),
		o:      o,
		store:  store,
		routes: routes,
		began:  time.Now(),
		slots:  make(chan struct{}, o.Concurrency),
	}
	a.Prune, a.Salted = o.Prune, true
	a.enough = o.Until
	if !a.enough.IsZero() {
		a.o.Grace = FittingGrace(o.Grace, time.Until(o.Until))
		a.enough = o.Until.Add(-a.o.Grace)
	}

	err := a.load(ctx)
	if err != nil {
		return a.report, err
	}

	byRollUps, byShards := walksOf(routes, store, a.since)
	a.examineNoted(ctx)
	a.walkAll(ctx, byRollUps, &a.cursor.RollUps, 0, rollUpsShare)
	a.walkAll(ctx, byShards, &a.cursor.Shards, len(byRollUps), 1)
	a.doubts.Wait()

	end := a.resume()
	a.finish(end.Places[:len(byRollUps)], end.Places[len(byRollUps):])
	a.save(ctx)
	a.settleNotes(ctx)
	a.report.Cursor, a.report.Overlapped = end.describe(byRollUps, byShards), a.overlapped

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
	roll.Roller
	o      AuditOptions
	store  Store
	routes route.Routes
	began  time.Time
	enough time.Time // no counter is begun after it; zero: no bound
	slots  chan struct{}

	// these belong to the goroutine that walks
	cursor     Cursor
	takes      time.Duration // how long a cycle takes at least
	rested     [2]bool       // the walks of the roll-ups, and those of the shards, had nothing to do at the beginning
	notes      []note.Note
	noted      time.Time       // when the newest note about all counters was written, by Firestore's clock
	named      []*doubt        // that notes name
	examined   map[string]bool // the roll-ups of those that were begun
	changed    bool            // the cursor needs to be saved
	saved      time.Time       // local
	share      float64         // of the audit's reads and time, that may be used up by now
	problems   []error
	overlapped bool

	mu      sync.Mutex
	report  Report
	waiting []*doubt // in the order of the pages they were found on
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

	a.meet()
	a.loadNotes(ctx)
	a.takes = a.cycleTakes()

	rollUps, shards := a.cursor.Places[:len(a.routes.Templates())], a.cursor.Places[len(a.routes.Templates()):]
	a.begin(&a.cursor.RollUps, rollUps)
	a.begin(&a.cursor.Shards, shards)
	a.rested = [2]bool{complete(rollUps), complete(shards) && len(shards) > 0} // without walks, a lap is over at once

	if !a.cursor.Tick.IsZero() {
		a.report.Since = max(0, a.began.Sub(a.cursor.Tick))
	}
	a.cursor.Tick, a.saved = a.began, a.began
	return nil
}

// finish notes which walks have come to their ends. The places are those where the next audit
// begins.
func (a *audit) finish(rollUps, shards []Place) {
	a.cursor.RollUps.Ended = a.cursor.RollUps.Ended || complete(rollUps) && !a.rested[0]
	a.cursor.Shards.Ended = a.cursor.Shards.Ended || complete(shards) && !a.rested[1]

	a.report.Complete = a.cursor.RollUps.Ended && a.cursor.Shards.Ended
	if a.report.Complete {
		a.cursor.completed(time.Now())
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

// waits returns how many differences wait for their grace.
func (a *audit) waits() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.waiting)
}

// ended reports whether the audit has used up its share of the time.
func (a *audit) ended(ctx context.Context) bool {
	if ctx.Err() != nil || a.overlapped {
		return true
	}
	if a.enough.IsZero() {
		return false
	}
	return time.Since(a.began) >= time.Duration(a.share*float64(a.enough.Sub(a.began)))
}

// spent reports whether the share of the audit's reads is used up.
func (a *audit) spent() bool {
	return a.o.MaxReads > 0 && float64(a.o.Reads()) >= a.share*float64(a.o.MaxReads)
}

// walkAll goes on with the walks of one kind, in turns, until all reads and time up to a share are
// used. The place of the first walk is that with the index first. At least one page is found, so
// that each kind gets further with each audit, however few reads there are.
func (a *audit) walkAll(ctx context.Context, walks []walk, lap *Lap, first int, share float64) {
	a.share = share
	for pages := 0; !a.ended(ctx) && (pages == 0 || !a.spent()); pages++ {
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

	a.countForeign(page.Foreign, page.ForeignExample)
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

	if a.waits() > maxWaiting {
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
		if i > 0 && (a.ended(ctx) || a.spent()) { // one at least: finding them may have used up the reads
			return i
		}
		if a.examined[f.Counter.RollUp] || n < len(a.routes.Templates()) && a.spares(f) {
			continue
		}

		d := a.doubt(f, n)
		d.before = before
		a.slots <- struct{}{}
		work.Go(func() {
			defer func() { <-a.slots }()
			a.examine(ctx, d)
		})
	}
	return len(found)
}

// doubt returns the doubt of a counter that a walk has found, or a note.
func (a *audit) doubt(f FoundCounter, n int) *doubt {
	return &doubt{FoundCounter: f, walk: n, comparison: comparison{
		grace:         a.o.Grace > 0 && !f.Template.Scheduled() && a.canWait(f.RollUp),
		dryRun:        a.o.DryRun,
		keepRerouted:  a.o.KeepRerouted,
		keepUnwritten: a.o.KeepUnwritten,
		prune:         a.o.Prune,
		remake:        a.cursor.RollUps.Remake,
	}}
}

// canWait reports whether a counter's grace is over before the audit must end.
func (a *audit) canWait(r roll.RollUp) bool {
	return a.o.Until.IsZero() || time.Until(a.o.Until) >= a.o.Grace+sumsTake(r)
}

// lookAgain has a counter that differs wait for its grace, and then examines it again. The mutex is
// held.
func (a *audit) lookAgain(ctx context.Context, d *doubt) {
	a.waiting = append(a.waiting, d)
	a.doubts.Go(func() {
		stopped := sleep(ctx, a.o.Grace+sumsTake(d.RollUp))
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

// countForeign counts documents that hold values of the app's in the fields of totals.
func (a *audit) countForeign(n int, example string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.report.countForeign(n, example)
}

// countForeign counts documents that hold values of the app's in the fields of totals, and keeps
// the first example.
func (r *Report) countForeign(n int, example string) {
	r.ForeignKind += n
	r.ForeignKindExample = cmp.Or(r.ForeignKindExample, example)
}

// progress reports how far the audit has come. The mutex is held.
func (a *audit) progress() {
	if a.o.Progress != nil {
		a.report.Waiting = len(a.waiting)
		a.o.Progress(a.report)
	}
}

// appendError adds err to a report's errors, up to ten. The log has every error.
func appendError(errors []string, err error) []string {
	const most = 10
	if len(errors) == most {
		return errors
	}
	return append(errors, err.Error())
}
