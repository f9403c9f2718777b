package app

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/firestore-tally/tally/internal/cloud/alarm"
	"github.com/firestore-tally/tally/internal/cloud/billing"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

// A scheduleReport is RollUpOnSchedule's answer.
type scheduleReport struct {
	DryRun    bool                       `json:"dry_run"`
	Databases map[string]*databaseReport `json:"databases"`
	Seconds   float64                    `json:"seconds"`
	Errors    []string                   `json:"errors,omitempty"`
}

// A databaseReport says what the call did and found in one database, and what that cost.
type databaseReport struct {
	rollup.Report

	// Every says what became of the routes that say "every". Null if there are none. It is null in
	// a dry run, too, because its audit compares their counters like all others.
	Every *rollup.KeepReport `json:"every"`

	Billed billing.Counts `json:"billed"`
	used   billing.Usage

	// CycleSeconds is how long the last walk of all counters took, over all the calls that it
	// needed. Null until audits have come to the last counter twice.
	CycleSeconds *float64 `json:"cycle_seconds"`

	// DollarsPerDay is what a day of calls like this one costs at list price, if they follow each
	// other as closely as this call followed the one before. Null on the first call.
	DollarsPerDay *float64 `json:"dollars_per_day"`
}

// A tick is one call of RollUpOnSchedule.
type tick struct {
	*service
	end     time.Time     // nothing begins after it
	queue   alarm.State   // of the alarms; zero: it is not known, or there are none
	reserve time.Duration // how long what has begun may go on; see config.Config.TickTime

	mu     sync.Mutex
	report scheduleReport
}

// onSchedule keeps the counters whose routes say "every", audits the others, and reports both. A
// dry run audits all, and writes nothing.
func (s *service) onSchedule(ctx context.Context, dryRun bool) scheduleReport {
	began := time.Now()

	t := s.newTick(began, dryRun)
	t.askQueue(ctx)

	var keeping sync.WaitGroup
	scheduled := s.config.Routes.Scheduled()
	if len(scheduled) > 0 && !dryRun {
		for _, id := range s.config.Databases {
			keeping.Go(func() { t.keep(ctx, id, scheduled) })
		}
	}
	t.auditAll(ctx)
	keeping.Wait()

	for _, r := range t.report.Databases {
		r.price(s.config.Edition)
	}
	t.report.Seconds = time.Since(began).Seconds()
	s.logger.InfoContext(ctx, "audited", "report", t.report)

	return t.report
}

// newTick returns a tick that began at a time.
func (s *service) newTick(began time.Time, dryRun bool) *tick {
	work, reserve := s.config.TickTime()
	t := &tick{
		service: s,
		end:     began.Add(work),
		reserve: reserve,
		report:  scheduleReport{DryRun: dryRun, Databases: make(map[string]*databaseReport)},
	}
	for _, id := range s.config.Databases {
		t.report.Databases[id] = new(databaseReport)
	}
	return t
}

// askQueue asks for the state of the queue, whose alarms somebody may have deleted. If it does not
// answer, a later tick learns it.
func (t *tick) askQueue(ctx context.Context) {
	t.queue.Running = true
	if t.service.queue == nil || t.report.DryRun {
		return
	}

	state, err := t.service.queue.State(ctx)
	if err != nil {
		t.logger.WarnContext(ctx, "could not read the state of the queue", "error", err)
		return
	}
	t.queue = state
}

// auditAll audits the databases one after the other. The time that is left is shared equally among
// the databases that are left.
func (t *tick) auditAll(ctx context.Context) {
	for i, id := range t.config.Databases {
		left := len(t.config.Databases) - i
		until := time.Now().Add(time.Until(t.end) / time.Duration(left))
		t.forDatabase(ctx, id, func(ctx context.Context, d *database, r *databaseReport) error { return t.audit(ctx, d, r, until) })
	}
}

// keep keeps a database's counters of the scheduled routes until the tick's end.
func (t *tick) keep(ctx context.Context, id string, scheduled route.Routes) {
	t.forDatabase(ctx, id, func(ctx context.Context, d *database, r *databaseReport) error {
		report, err := rollup.Keep(ctx, d.store, scheduled, t.keepOptions(ctx, d))
		r.Every = &report
		return err
	})
}

// forDatabase has a function work in one database, and reports what it cost. After a failure the
// tick goes on with the other databases.
func (t *tick) forDatabase(ctx context.Context, id string, work func(context.Context, *database, *databaseReport) error) {
	r := t.report.Databases[id]
	meter := billing.NewMeter(nil)

	d, err := t.database(ctx, id)
	if err == nil {
		err = work(billing.Context(ctx, meter), d, r)
	}

	t.mu.Lock()
	defer t.mu.Unlock()
	r.used = r.used.Add(meter.Usage())
	r.Billed = r.used.Counts
	if err != nil {
		t.logger.ErrorContext(ctx, "tick failed", "database", id, "error", err)
		err = fmt.Errorf("database %s: %w", id, err)
		t.report.Errors = append(t.report.Errors, err.Error())
	}
}

// options returns the options of the tick's work, for which no event waits.
func (t *tick) options(d *database) rollup.AuditOptions {
	o := t.config.AuditOptions(d.logger)
	o.Logged, o.Alarms = d.logged, d.alarms
	o.Timeout = t.reserve
	return o
}

// keepOptions returns the options of keeping the routes that say "every".
func (t *tick) keepOptions(ctx context.Context, d *database) rollup.KeepOptions {
	meter := billing.FromContext(ctx)
	o := t.options(d)
	return rollup.KeepOptions{
		Options:     o.Options,
		Concurrency: o.Concurrency,
		Until:       t.end,
		MaxReads:    t.config.KeepReads,
		Reads:       func() int64 { return meter.Counts().Reads },
	}
}

// audit audits a database until a time. It audits the routes that events keep, and in a dry run all
// routes.
func (t *tick) audit(ctx context.Context, d *database, r *databaseReport, until time.Time) (err error) {
	meter := billing.FromContext(ctx)
	routes := t.config.Routes
	if !t.report.DryRun {
		routes = routes.Live()
	}

	o := t.options(d)
	o.Until = until
	o.Cycle, o.Every = t.config.Takes, t.config.SchedulePeriod
	o.Revision, o.Database = t.config.Revision, d.name
	o.Queue = t.config.Queue
	o.Purged, o.Stopped = t.queue.Purged, !t.queue.Running
	o.MaxReads, o.Reads = t.config.AuditReads, func() int64 { return meter.Counts().Reads }
	o.DryRun = t.report.DryRun

	r.Report, err = rollup.Audit(ctx, d.store, routes, o)
	return err
}

// price fills in the cycle, and the price on an edition, which follow from the other fields.
func (r *databaseReport) price(on route.Edition) {
	if r.Cycle > 0 {
		r.CycleSeconds = new(r.Cycle.Seconds())
	}

	if r.Since > 0 {
		const day = 24 * time.Hour
		r.DollarsPerDay = new(r.used.On(on).CostIn(billing.PriceRegion) * day.Seconds() / r.Since.Seconds())
	}
}
