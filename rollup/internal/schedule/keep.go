package schedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/firestore-tally/tally/rollup/internal/roll"
	"github.com/firestore-tally/tally/rollup/route"
)

// KeepOptions configure Keep.
type KeepOptions struct {
	roll.Options

	// Concurrency is how many counters are in work at once. It must be positive.
	Concurrency int

	// Until is when to stop. Zero: Keep visits each counter once. The context should last some
	// seconds longer, to finish what is in work and to save the cursor.
	Until time.Time

	// MaxReads bounds the reads that are billed, as Reads counts them. When it is reached, Keep
	// finishes what is in work. It spreads the reads over its time, so that the last counters are
	// as fresh as the first. Zero: no bound.
	MaxReads int64
	Reads    func() int64 // must not be nil when MaxReads is positive
}

// A KeepReport says what Keep did.
type KeepReport struct {
	Counters  int `json:"counters"`  // visited
	RolledUp  int `json:"rolled_up"` // roll-ups written
	Unchanged int `json:"unchanged"` // visits that found nothing to write
	Removed   int `json:"removed"`   // roll-ups that had been at zeros without shards for over an hour
	Failed    int `json:"failed"`    // counters whose last visit failed
	Unkept    int `json:"unkept"`    // counters that cannot be rolled up until someone fixes them; see ErrUnkept
	Malformed int `json:"malformed"` // counters with shards that are left out of their sums
	Left      int `json:"left"`      // counters that were due when the time or the reads were over; the next call goes on with them

	// GreatestAge is the age in seconds of the oldest roll-up, and Oldest is its path. The age is
	// measured from as_of to a visit, or to the end of the call if the counter was due then. Ages
	// are compared as multiples of the routes' "every". A visit that finds nothing to write makes a
	// roll-up young again for the rest of the call, although its as_of stays.
	GreatestAge float64 `json:"greatest_age_seconds"`
	Oldest      string  `json:"oldest"`

	Errors []string `json:"errors,omitempty"`

	UnkeptCounters []string `json:"unkept_counters,omitempty"` // up to ten of them, with the reason

	// Unfound names walks that no call has begun yet, or that are under way for longer than
	// lateAfter allows. Their counters have no GreatestAge.
	Unfound []string `json:"unfound,omitempty"`
}

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
// keeper.again.
//
// Calls may overlap with each other and with coalescers. After a failure of a counter, a call goes
// on with the others. If a page of counters cannot be read, the next call tries it again. A call
// that is killed leaves a cursor from which the next one finds all that it had not visited. The
// report is valid even with an error.
func Keep(ctx context.Context, store Store, routes route.Routes, o KeepOptions) (KeepReport, error) {
	routes = routes.Scheduled()
	k := &keeper{
		Roller: roll.New(store, o.Options),
		o:      o,
		store:  store,
		routes: routes,
		began:  time.Now(),
		wake:   make(chan struct{}, 1),
		known:  make(map[string]*keptCounter),
	}
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

	k.goRound(ctx)
	done()
	saves.Wait()
	k.save(ctx)

	k.sumUp(ctx)
	return k.report, errors.Join(k.problems...)
}

const (
	// keepSaveEvery is the least time between two saves of the cursor. A call that is killed has
	// about that much work to do again. A cursor that has not changed is not saved, and visits to
	// one hot counter do not change it.
	keepSaveEvery = 30 * time.Second

	// maxPaths bounds the cursor's Changed and its Quiet, each in bytes. There is room for some
	// thousand paths, and the document must stay below 1 MiB. A counter that has no room there is
	// found again by its roll-up.
	maxPaths = 200_000
)

// A keeper is one call of Keep.
type keeper struct {
	roll.Roller
	o       KeepOptions
	store   Store
	routes  route.Routes
	began   time.Time
	loaded  time.Time // when the cursor was loaded, by the local clock
	read    time.Time // the same by Firestore's; zero: unknown
	finders []*finder
	wake    chan struct{} // something ended
	work    sync.WaitGroup

	// these fields belong to the goroutine that saves
	cursor  Cursor
	unsaved bool // the cursor must not be saved: none could be loaded, or another call is at work

	mu       sync.Mutex
	report   KeepReport
	problems []error
	known    map[string]*keptCounter // by path of the roll-up
	queues   [classes]queue
	busy     [classes]int // visits in work
	turn     int
	pushed   int
	newest   time.Time // read time of the newest snapshot
	heard    time.Time // when it was received, by the local clock
	late     float64   // the age of the report's Oldest, as a multiple of its every
}

// A keptCounter is a counter that this call of Keep knows.
type keptCounter struct {
	route.Counter
	class     class
	due       time.Time     // when to visit it, by the local clock
	pushed    int           // breaks ties
	young     time.Time     // when its roll-up was last known to be right, by Firestore's clock; zero: unknown, or there is nothing to sum
	failures  int           // visits that failed in a row
	failure   error         // the last of them
	missing   time.Duration // how long the pause is that follows because its document is missing; 0: the document exists
	visited   bool
	malformed bool
	finder    *finder // that found it, until it is visited
	walk      *keepWalk

	contention roll.Contention
}

// load loads the cursor that the last call left. If that fails, all counters are found again from
// the first, so none is left out.
func (k *keeper) load(ctx context.Context) {
	loading, cancel := context.WithTimeout(ctx, k.Options.Timeout)
	defer cancel()
	cursor, err := k.store.LoadCursor(loading, Keeping)
	if err != nil {
		k.unsaved = true
		k.problems = append(k.problems, fmt.Errorf("rollup: loading the cursor: %w", err))
	}

	k.cursor = cursor.on(k.routes)
	k.loaded, k.read = time.Now(), k.cursor.ReadTime

	byRollUps, byShards := walksOf(k.routes, k.store, func(*route.Route) time.Time { return time.Time{} })
	found := &finder{class: classUnchanged, most: maxKept, share: rollUpsToFind}
	for i, w := range byRollUps {
		found.walks = append(found.walks, k.goOn(w, k.cursor.Places[i]))
	}
	missing := &finder{class: classWithout, most: maxKept / 2, share: shardsToFind}
	for i, w := range byShards {
		missing.walks = append(missing.walks, k.goOn(w, k.cursor.Places[len(byRollUps)+i]))
	}
	k.finders = []*finder{found, missing}
	for _, f := range k.finders {
		f.turn = int(k.Options.Random() * float64(len(f.walks))) // a call may find only one page
	}

	k.remember(k.cursor.Changed, classChanged)
	k.remember(k.cursor.Quiet, classUnchanged)
}

// remember has the call know the counters whose roll-ups have these paths. They are due at once. If
// the walk of their roll-ups is not due in this call, they are not due either.
func (k *keeper) remember(paths []string, of class) {
	for _, path := range paths {
		for _, w := range k.finders[0].walks {
			c, ok := w.template.Counter(path)
			if !ok || k.known[path] != nil {
				continue
			}
			due := k.began
			if !k.o.Until.IsZero() && w.due.After(k.o.Until) {
				due = w.due
			}
			k.push(&keptCounter{Counter: c, class: of, due: due})
		}
	}
}

// save saves where the next call goes on, if that has changed. If another call has saved its own
// place meanwhile, this one leaves saving to that one.
func (k *keeper) save(ctx context.Context) {
	c := k.cursor
	c.Places, c.Changed, c.Quiet = k.places(), k.paths(classChanged), k.quiet()
	news := !slices.Equal(c.Places, k.cursor.Places) ||
		!sameElements(c.Changed, k.cursor.Changed) || !sameElements(c.Quiet, k.cursor.Quiet)
	if k.unsaved || !news || ctx.Err() != nil {
		return
	}

	saving, cancel := context.WithTimeout(ctx, k.Options.Timeout)
	defer cancel()
	at, err := k.store.SaveCursor(saving, Keeping, c)
	switch {
	case errors.Is(err, roll.ErrConflict):
		k.unsaved = true
	case err != nil: // perhaps it was saved, and the next attempt will be refused
		k.mu.Lock()
		k.problems = append(k.problems, fmt.Errorf("rollup: saving the cursor: %w", err))
		k.mu.Unlock()
	default:
		c.UpdateTime = at
		k.cursor = c
	}
}

// sameElements reports whether two lists hold the same elements, in whatever order.
func sameElements(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// places returns where each walk goes on.
func (k *keeper) places() []Place {
	k.mu.Lock()
	defer k.mu.Unlock()

	var places []Place
	for _, f := range k.finders {
		for _, w := range f.walks {
			places = append(places, w.place)
		}
	}
	return places
}

// quiet returns the paths for the cursor's Quiet. There are none while counters wait for their
// first visit by this call. If the next call began with the counters that this call has visited,
// the others might wait forever.
func (k *keeper) quiet() []string {
	k.mu.Lock()
	now := time.Now()
	waits := false
	for _, e := range k.known {
		waits = waits || e.class == classUnchanged && !e.visited && !e.due.After(now)
	}
	k.mu.Unlock()

	if waits {
		return nil
	}
	return k.paths(classUnchanged)
}

// paths returns the paths of the roll-ups of the counters of a class, in the order in which they
// are due. It returns as many as the cursor has room for.
func (k *keeper) paths(of class) []string {
	k.mu.Lock()
	defer k.mu.Unlock()

	var all []*keptCounter
	for _, e := range k.known {
		if e.class == of {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b *keptCounter) int {
		return cmp.Or(a.due.Compare(b.due), strings.Compare(a.RollUp, b.RollUp))
	})

	var paths []string
	size := 0
	for _, e := range all {
		size += len(e.RollUp)
		if size > maxPaths {
			break
		}
		paths = append(paths, e.RollUp)
	}
	return paths
}

// goRound visits counters and finds more, until the time is over or nothing is left to do.
func (k *keeper) goRound(ctx context.Context) {
	finding, cancel := k.untilEnd(ctx)
	defer k.work.Wait()
	defer cancel() // a page that is being found is not waited for

	for ctx.Err() == nil && !k.over() {
		k.mu.Lock()
		finds, more := k.findMore(finding)
		e, at := k.next()
		at = sooner(at, more)
		idle := !finds && k.inWork() == 0
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

// ended notes that something in work has ended. The mutex is held.
func (k *keeper) ended() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// visit rolls a counter up if that is due, and plans its next visit.
func (k *keeper) visit(ctx context.Context, e *keptCounter) {
	v := k.rollUp(ctx, e)

	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.ended()

	k.busy[e.class]--
	e.visited = true
	e.failure = v.err
	k.observe(e, &v)
	if e.walk != nil {
		e.walk.pass(e)
	}

	switch {
	case errors.Is(v.err, roll.ErrUnkept): // waiting does not help, so only the next call tries again
		k.TellUnkept(ctx, e.Counter, "", v.err)
		e.class = classUnchanged
		return
	case v.err != nil:
		k.fail(e)
		return
	}

	e.failures = 0
	e.class, e.due = v.class(e.class), v.nextDue
	e.pause(&v)
	if !k.o.Until.IsZero() {
		k.push(e)
	}
}

// longestMissing is the longest pause between two visits to a document of the app's own that is
// missing. A client that may write sources can make up counters of such documents.
const longestMissing = time.Minute

// pause puts off the next visit to a counter whose document is missing. The first pause is as long
// as its route's "every". Each further one in a row is twice as long.
func (e *keptCounter) pause(v *visit) {
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

// A visit is one visit to a counter: what it saw and did.
type visit struct {
	roll.Look
	err       error
	action    action
	nextDue   time.Time // when the counter is due next, by the local clock
	hasShards bool      // the counter has shards
}

// rollUp rolls a counter up if that is due.
func (k *keeper) rollUp(ctx context.Context, e *keptCounter) (v visit) {
	looking, cancel := context.WithTimeout(ctx, k.Options.Timeout)
	defer cancel()

	v.Look, v.err = k.Look(looking, e.Counter, "")
	if v.err != nil {
		return v
	}

	p := k.PaceOf(&v.Look)
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

	v.hasShards = !v.Totals.Empty()
	v.action = keep(&v.Look)
	switch v.action {
	case actionRepair:
		v.err = k.Write(ctx, &v.Look, p, &e.contention)
	case actionRemove:
		v.err = k.Remove(looking, &v.Look)
	}
	return v
}

// observe counts what a visit did, and how old it found the roll-up. The mutex is held.
func (k *keeper) observe(e *keptCounter, v *visit) {
	if v.ReadTime.After(k.newest) {
		k.newest, k.heard = v.ReadTime, v.Received
	}
	if v.hasShards {
		k.age(e, roll.Later(e.young, v.AsOf), v.ReadTime)
	}
	if v.err != nil {
		return
	}

	switch v.action {
	case actionRepair:
		k.report.RolledUp++
	case actionRemove:
		k.report.Removed++
	case actionLeave:
		k.report.Unchanged++
	}
	if v.Totals.Malformed > 0 {
		e.malformed = true
	}

	e.young = time.Time{}
	switch {
	case v.action == actionSkip:
		e.young = v.AsOf
	case v.hasShards:
		e.young = v.ReadTime
	}
}

// age notes in the report how old a roll-up was. The mutex is held.
func (k *keeper) age(e *keptCounter, young, now time.Time) {
	if young.IsZero() {
		return
	}

	age := now.Sub(young)
	late := age.Seconds() / e.Template.Every.Seconds()
	if late > k.late {
		k.late, k.report.GreatestAge, k.report.Oldest = late, age.Seconds(), e.RollUp
	}
}

// lateAfter bounds the age of a roll-up, as a multiple of its route's "every". If one is older, the
// log says so. A roll-up that is kept in time can be as old as staleAfter says. The time of a visit
// and the pause between two calls come on top.
const lateAfter = 2 * staleAfter

// countKept counts a counter in the report, and if its last visit failed, how.
func (k *keeper) countKept(ctx context.Context, e *keptCounter) {
	if e.visited {
		k.report.Counters++
	}
	if e.malformed {
		k.report.Malformed++
	}

	switch {
	case errors.Is(e.failure, roll.ErrUnkept):
		k.report.Unkept++
		k.report.UnkeptCounters = appendError(k.report.UnkeptCounters, fmt.Errorf("%s: %w", e.RollUp, e.failure))
	case e.failure != nil:
		k.report.Failed++
		k.report.Errors = appendError(k.report.Errors, fmt.Errorf("rollup: %s not kept: %w", e.RollUp, e.failure))
		k.Options.Logger.ErrorContext(ctx, "counter not kept", "counter", e.RollUp, "error", e.failure)
	}
}

// sumUp completes the report.
func (k *keeper) sumUp(ctx context.Context) {
	now := time.Now()
	end := now // a counter that was due later is not late
	if !k.o.Until.IsZero() && k.o.Until.Before(now) {
		end = k.o.Until
	}

	for _, e := range k.known {
		k.countKept(ctx, e)
		if errors.Is(e.failure, roll.ErrUnkept) || e.due.After(end) {
			continue
		}

		if !e.visited || !k.o.Until.IsZero() && e.failure == nil {
			k.report.Left++
		}
		if !k.heard.IsZero() {
			k.age(e, e.young, k.newest.Add(now.Sub(k.heard)))
		}
	}

	for _, f := range k.finders {
		for _, w := range f.walks {
			lately := !w.began.IsZero() && end.Sub(w.began) <= lateAfter*w.template.Every
			if !w.over && !lately {
				k.report.Unfound = append(k.report.Unfound, w.what)
			}
		}
	}

	slices.Sort(k.report.Errors)
	slices.Sort(k.report.UnkeptCounters)
	if k.late > lateAfter || len(k.report.Unfound) > 0 {
		k.Options.Logger.WarnContext(ctx, "kept late", "counter", k.report.Oldest, "age_seconds", k.report.GreatestAge,
			"left", k.report.Left, "unfound", k.report.Unfound)
	}

	if ctx.Err() != nil {
		k.problems = append(k.problems, context.Cause(ctx))
	}
	if k.report.Failed > 0 {
		k.problems = append(k.problems, fmt.Errorf("rollup: %d of %d counters failed", k.report.Failed, k.report.Counters))
	}
}
