package rollup

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// A PendingStore is a Store that also keeps pending marks: for each counter at most one, which says
// that the counter changed and is to be rolled up by the schedule.
type PendingStore interface {
	Store

	// Mark leaves a mark for c, in the place of the one that is there. The mark is of a new version,
	// whatever was there.
	Mark(ctx context.Context, c Counter) error

	// Marks calls f for each mark that was left before the call, older ones about before younger ones,
	// and stops at f's first error. A mark that is made anew meanwhile may come again.
	Marks(ctx context.Context, f func(Mark) error) error

	// Marked reports whether c has a mark.
	Marked(ctx context.Context, c Counter) (bool, error)

	// Unmark takes m away if it is still of the same version. It returns ErrConflict when Firestore
	// refuses.
	Unmark(ctx context.Context, m Mark) error
}

// A Mark is a pending mark as it was read.
type Mark struct {
	ID      string    // the store's own
	Shards  string    // path of the counter's shards' collection
	Version time.Time // when the mark was left, as Firestore says
}

// NewMarker returns a Coalescer for a cadence that is too long to hold an event through; see
// LongestCadence. It leaves a pending mark for each counter that changed, for Drain to roll up: an
// event is acknowledged when a mark is durable that was begun after the event arrived, or when an
// event that is not acknowledged yet stands for it. Each instance marks a counter at most once in
// half of Options.Hold, which must be positive.
func NewMarker(store PendingStore, o Options) *Coalescer {
	o.Cadence = o.Hold / 2 // the other half is for the mark
	c := NewCoalescer(store, o)
	c.pending = store
	return c
}

// markOnce leaves a mark, which covers every generation that is closed.
func (c *Coalescer) markOnce(ctx context.Context, s *counterState, oldest string) {
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	if err := c.pending.Mark(limited, s.counter); err != nil {
		c.failed(ctx, s, oldest, err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.failures = 0
	for _, g := range s.closed {
		close(g.done)
	}
	s.closed = nil
	s.wake = began.Add(c.Cadence)
}

// A DrainReport says what Drain did.
type DrainReport struct {
	RolledUp int      `json:"rolled_up"` // marked counters that were rolled up
	Waiting  int      `json:"waiting"`   // marked counters whose roll-up is younger than the cadence
	Unrouted int      `json:"unrouted"`  // marks of shards that no route matches; they stay
	Failed   int      `json:"failed"`
	Left     bool     `json:"left"` // time ran out, and the next drain goes on
	Errors   []string `json:"errors,omitempty"`
}

// errLeft stops a drain whose time has run out.
var errLeft = errors.New("rollup: no time left")

// Drain rolls up the counters that have pending marks, the oldest first, at most concurrency, at least
// 1, at once, and takes the marks away. A mark that is made anew meanwhile stays; so does one whose
// counter was rolled up less than a cadence ago, but for a tenth, because schedules are not to the
// second. Drains may overlap with each other, with audits and with the coalescers of any number of
// instances.
//
// It begins no counter after until, and then leaves the rest; not to have read a single mark by then is
// an error. One counter's failure does not keep it from the others. The report is valid beside an error.
func Drain(ctx context.Context, store PendingStore, routes Routes, concurrency int, until time.Time, o Options) (DrainReport, error) {
	d := drain{roller: newRoller(store, o), store: store, routes: routes}
	var work sync.WaitGroup
	slots := make(chan struct{}, concurrency)
	reading, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	err := store.Marks(reading, func(m Mark) error {
		slots <- struct{}{}
		if !time.Now().Before(until) {
			return errLeft
		}
		work.Go(func() {
			defer func() { <-slots }()
			d.rollUp(ctx, m)
		})
		return nil
	})
	work.Wait()
	drained := d.report.RolledUp + d.report.Waiting + d.report.Unrouted + d.report.Failed
	switch {
	case errors.Is(err, errLeft), err != nil && drained > 0 && reading.Err() != nil && ctx.Err() == nil:
		d.report.Left, err = true, nil
	case err != nil:
		d.report.Left, err = true, fmt.Errorf("rollup: reading the pending marks: %w", err)
	}
	if d.report.Failed > 0 {
		err = errors.Join(err, fmt.Errorf("rollup: %d marked counters failed", d.report.Failed))
	}
	return d.report, err
}

// A drain is one call of Drain.
type drain struct {
	roller
	store  PendingStore
	routes Routes

	mu     sync.Mutex
	report DrainReport
}

// rollUp rolls up the counter of a mark and takes the mark away.
func (d *drain) rollUp(ctx context.Context, m Mark) {
	c, routed := d.routes.Match(m.Shards + "/0")
	var rolledUp bool
	var err error
	if !routed {
		d.Logger.WarnContext(ctx, "pending mark left: no route matches its shards", "shards", m.Shards, "mark", m.ID)
	} else if rolledUp, err = d.cover(ctx, c, m); err == nil && rolledUp {
		limited, cancel := context.WithTimeout(ctx, d.Timeout)
		defer cancel()
		if err = d.store.Unmark(limited, m); errors.Is(err, ErrConflict) {
			err = nil // made anew meanwhile: it stays
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case err != nil:
		d.report.Failed++
		d.report.Errors = appendError(d.report.Errors, err)
		d.Logger.ErrorContext(ctx, "marked counter not rolled up", "counter", c.RollUp, "error", err)
	case !routed:
		d.report.Unrouted++
	case rolledUp:
		d.report.RolledUp++
	default:
		d.report.Waiting++
	}
}

// cover makes c's roll-up cover everything that was committed before m was left, by a write even where
// the totals are equal: another's older sum may be in flight. It reports false when the roll-up is too
// young for that. What m stands for was committed before m: a roll-up as of then or later covers it.
func (d *drain) cover(ctx context.Context, c Counter, m Mark) (covered bool, err error) {
	for try := 1; ; try++ {
		l, err := d.look(ctx, c, "", func(l *look) bool {
			covered = !l.asOf.Before(m.Version)
			return !covered && d.untilDue(l) <= d.Cadence/10
		})
		switch {
		case err != nil:
		case covered:
			return true, nil
		case !l.summed:
			return false, nil
		default:
			l.marked = m.Version
			if err = d.write(ctx, c, &l); err == nil {
				return true, nil
			}
		}
		if try == maxRepairs {
			return false, fmt.Errorf("rollup: %s not rolled up: %w", c.RollUp, err)
		}
		if stopped := sleep(ctx, d.pause(try)); stopped != nil {
			return false, fmt.Errorf("rollup: %s not rolled up: %w", c.RollUp, stopped)
		}
	}
}
