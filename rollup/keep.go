package rollup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// A KeepReport says what Keep did.
type KeepReport struct {
	Counters  int      `json:"counters"`  // kept
	RolledUp  int      `json:"rolled_up"` // roll-ups written
	Unchanged int      `json:"unchanged"` // visits that found nothing to write
	Removed   int      `json:"removed"`   // roll-ups that had been at zeros without shards for over an hour
	Failed    int      `json:"failed"`    // counters whose last visit failed
	Unkept    int      `json:"unkept"`    // counters that cannot be rolled up until somebody mends them; see ErrUnkept
	Malformed int      `json:"malformed"` // counters with shards that are left out of their sums
	Errors    []string `json:"errors,omitempty"`

	UnkeptCounters []string `json:"unkept_counters,omitempty"` // up to ten of them, with the reason
}

// Keep rolls up the counters of the routes that say "every", each as often as its route says, until
// the time given; until zero, each once. It lists the counters once, and begins with those whose
// roll-ups are oldest. A roll-up that would change nothing is written only when its as_of is old.
//
// At most concurrency counters, at least 1, are in work at once. Calls may overlap with each other
// and with coalescers. One counter's failure does not keep it from the others. The report is valid
// beside an error.
func Keep(ctx context.Context, store AuditStore, routes Routes, concurrency int, until time.Time, o Options) (KeepReport, error) {
	k := &keeper{roller: newRoller(store, o), store: store, until: until, slots: make(chan struct{}, concurrency), malformed: make(map[Counter]bool)}
	found, problems := k.list(ctx, routes.Scheduled())
	k.report.Counters = len(found)
	var work sync.WaitGroup
	for i, c := range found {
		k.slots <- struct{}{} // the oldest begin
		if !until.IsZero() && time.Now().After(until) {
			<-k.slots
			problems = append(problems, fmt.Errorf("rollup: there was time for %d of %d counters", i, len(found)))
			break
		}
		work.Go(func() { k.goRound(ctx, c) })
	}
	work.Wait()
	k.report.Malformed = len(k.malformed)
	if k.report.Failed > 0 {
		problems = append(problems, fmt.Errorf("rollup: %d of %d counters failed", k.report.Failed, k.report.Counters))
	}
	return k.report, errors.Join(problems...)
}

// A keeper is one call of Keep.
type keeper struct {
	roller
	store AuditStore
	until time.Time
	slots chan struct{}

	mu        sync.Mutex
	report    KeepReport
	malformed map[Counter]bool // those of which a sum left shards out
}

// list returns the counters of the routes, those with the oldest roll-ups first.
func (k *keeper) list(ctx context.Context, routes Routes) ([]Counter, []error) {
	var problems []error
	asOf := make(map[Counter]time.Time)
	for _, w := range routes.walks() {
		for from, more := "", true; more; more = from != "" {
			page, err := k.page(ctx, k.store, w, from)
			if err != nil {
				problems = append(problems, err)
				break
			}
			for _, f := range page.Found {
				if _, ok := asOf[f.Counter]; !ok && (w.route != nil || !f.RollUp.Tally.AsOf.IsZero()) {
					asOf[f.Counter] = f.RollUp.Tally.AsOf
				}
			}
			from = page.Next
		}
	}
	found := slices.SortedFunc(maps.Keys(asOf), func(a, b Counter) int {
		return cmp.Or(asOf[a].Compare(asOf[b]), cmp.Compare(a.RollUp, b.RollUp))
	})
	return found, problems
}

// goRound visits a counter at once, for which it has a slot, and whenever it is due.
func (k *keeper) goRound(ctx context.Context, c Counter) {
	failures := 0
	for first := true; ; first = false {
		if !first {
			k.slots <- struct{}{}
		}
		next, err := k.visit(ctx, c)
		<-k.slots
		if errors.Is(err, ErrUnkept) { // waiting does not mend it: the next tick tries again
			k.unkept(ctx, c, err)
			return
		}
		if failures++; err == nil {
			failures = 0
		} else {
			next = time.Now().Add(k.pause(failures - 1))
		}
		// The last visit of a counter that failed is tried again, even past the time, a few times.
		over := next.After(k.until)
		if over && (err == nil || failures >= maxTries) || ctx.Err() != nil || sleep(ctx, time.Until(next)) != nil {
			k.failed(ctx, c, err)
			return
		}
	}
}

// failed notes how the last visit of a counter ended.
func (k *keeper) failed(ctx context.Context, c Counter, err error) {
	if err == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.report.Failed++
	k.report.Errors = appendError(k.report.Errors, fmt.Errorf("rollup: %s not kept: %w", c.RollUp, err))
	k.Logger.ErrorContext(ctx, "counter not kept", "counter", c.RollUp, "error", err)
}

// unkept notes that a counter cannot be rolled up, which is no failure of the tick.
func (k *keeper) unkept(ctx context.Context, c Counter, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.report.Unkept++
	k.report.UnkeptCounters = appendError(k.report.UnkeptCounters, fmt.Errorf("%s: %w", c.RollUp, err))
	k.tellUnkept(ctx, c, "", err)
}

// visit rolls a counter up if that is due, and returns when it is due next, by the local clock.
func (k *keeper) visit(ctx context.Context, c Counter) (next time.Time, err error) {
	looking, cancel := context.WithTimeout(ctx, k.Timeout)
	defer cancel()
	l, err := k.look(looking, c, "")
	if err != nil {
		return next, err
	}
	p := k.paceOf(c.Template)
	if due := p.due(&l); due > 0 {
		return l.received.Add(due), nil
	}
	if l.missing() {
		return l.received.Add(p.cadence), nil
	}
	if err := k.sum(looking, &l); err != nil {
		return next, err
	}
	did := &k.report.Unchanged
	switch keep(&l) {
	case repair:
		did, err = &k.report.RolledUp, k.write(ctx, &l, p)
	case remove:
		did, err = &k.report.Removed, k.remove(looking, k.store, &l)
	}
	if err != nil {
		return next, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	*did++
	if l.totals.Malformed > 0 {
		k.malformed[c] = true
	}
	return l.received.Add(p.cadence), nil
}
