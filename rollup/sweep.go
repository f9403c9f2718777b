package rollup

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// A Report says what a sweep did.
type Report struct {
	Counters  int      `json:"counters"`  // counters found
	RolledUp  int      `json:"rolled_up"` // roll-ups written, because they differed from their shards
	Unchanged int      `json:"unchanged"` // roll-ups that agreed with their shards, or that the trigger brought up to date meanwhile
	Failed    int      `json:"failed"`
	Errors    []string `json:"errors,omitempty"` // the first maxReportedErrors
}

// maxReportedErrors bounds a report's size; every error is in the log.
const maxReportedErrors = 10

// Sweep compares the roll-up of every counter that has shards with them, each in one snapshot, and
// writes those that differ. A roll-up that agrees is left alone: no event waits for it. At most
// concurrency counters, at least 1, are in work at once. Sweeps may overlap with each other and with
// the coalescers of any number of instances.
//
// One counter's failure does not keep the sweep from the others. The error joins what kept it from
// finding counters and what ended ctx, and says how many counters failed; the report is valid beside
// it.
func Sweep(ctx context.Context, store Store, routes Routes, concurrency int, o Options) (Report, error) {
	var (
		r      = newRoller(store, o)
		slots  = make(chan struct{}, concurrency)
		work   sync.WaitGroup
		mu     sync.Mutex
		report Report
	)
	repair := func(c Counter) {
		changed, err := r.repair(ctx, c)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err != nil:
			report.Failed++
			if len(report.Errors) < maxReportedErrors {
				report.Errors = append(report.Errors, err.Error())
			}
			r.Logger.ErrorContext(ctx, "counter not swept", "counter", c.RollUp, "error", err)
		case changed:
			report.RolledUp++
		default:
			report.Unchanged++
		}
	}
	var problems []error
	for _, route := range routes {
		err := store.Counters(ctx, route, func(c Counter) error {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			report.Counters++ // only this goroutine counts them
			work.Go(func() {
				defer func() { <-slots }()
				repair(c)
			})
			return nil
		})
		if err != nil {
			problems = append(problems, fmt.Errorf("rollup: listing the counters of route %q: %w", route, err))
		}
	}
	work.Wait()
	if ctx.Err() != nil {
		problems = append(problems, context.Cause(ctx))
	}
	if report.Failed > 0 {
		problems = append(problems, fmt.Errorf("rollup: %d of %d counters failed", report.Failed, report.Counters))
	}
	return report, errors.Join(problems...)
}

// maxRepairs is how often a sweep tries one counter. A try is lost only to a failure or to another
// writer, whose roll-up most often covers the counter by the next try.
const maxRepairs = 5

// errBusy is why a counter is tried again that was rolled up less than a cadence ago.
var errBusy = errors.New("rolled up by others less than a cadence ago, each time it was looked at")

// repair makes c's roll-up cover everything that was committed before the call. It reports whether it
// wrote.
func (r *roller) repair(ctx context.Context, c Counter) (changed bool, err error) {
	var mark time.Time // the first look's instant: a roll-up as of then or later covers all that was committed before the call
	for try := 1; ; try++ {
		var covered bool
		l, err := r.look(ctx, c, "", func(l *look) bool {
			if mark.IsZero() {
				mark = l.readTime
			}
			covered = !l.asOf.Before(mark)
			return !covered
		})
		wait := r.pause(try)
		switch {
		case err != nil:
		case covered || agrees(&l):
			return false, nil
		case r.untilDue(&l) > 0:
			// Most likely the trigger is about to roll up the same change.
			wait = time.Until(l.received.Add(r.untilDue(&l) + r.backOff()))
			err = errBusy
		default:
			if err = r.write(ctx, c, &l); err == nil {
				return true, nil
			}
		}
		if try < maxRepairs {
			if stopped := sleep(ctx, wait); stopped != nil {
				err = stopped
			}
		}
		if try == maxRepairs || ctx.Err() != nil {
			return false, fmt.Errorf("rollup: %s not rolled up: %w", c.RollUp, err)
		}
	}
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
