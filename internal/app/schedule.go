package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/firestore-tally/tally/internal/billing"
	"github.com/firestore-tally/tally/rollup"
)

// A scheduleReport is RollUpOnSchedule's answer.
type scheduleReport struct {
	DryRun    bool                       `json:"dry_run"`
	Databases map[string]*databaseReport `json:"databases"`
	Seconds   float64                    `json:"seconds"`
	Errors    []string                   `json:"errors,omitempty"`
}

// A databaseReport is what the call did in one database, found and cost.
type databaseReport struct {
	rollup.Report

	// Every says what became of the routes that say "every". Null if there are none, and in a dry run,
	// whose audit compares their counters too.
	Every *rollup.KeepReport `json:"every"`

	Billed billing.Counts `json:"billed"`

	// CycleSeconds is how long the last walk of all counters took, in as many calls as it needed. Null
	// until audits have come to the last counter twice.
	CycleSeconds *float64 `json:"cycle_seconds"`

	// DollarsPerDay is the list price of a day of calls like this one, as often as the call before was
	// ago. Null on the first call.
	DollarsPerDay *float64 `json:"dollars_per_day"`
}

const (
	// concurrency is how many counters an audit, or what keeps "every" routes, works on at once in each
	// database: enough to hide Firestore's latency, few enough for one instance's memory.
	concurrency = 32

	// longestCall bounds a look and a write where no event is held. A write must follow its snapshot
	// within 60 s, and Firestore gives a query as much.
	longestCall = 45 * time.Second
)

// A tick is one call of RollUpOnSchedule.
type tick struct {
	*service
	dryRun  bool
	end     time.Time     // when to begin nothing more; zero: no bound
	reserve time.Duration // what is left then for what has begun, the cursor and the answer

	mu       sync.Mutex
	report   scheduleReport
	problems []error
}

func (s *service) onSchedule(ctx context.Context, header http.Header, dryRun bool) scheduleReport {
	ctx, span := s.telemetry.StartTick(ctx, header)
	began := time.Now()
	t := &tick{service: s, dryRun: dryRun, reserve: longestCall, report: scheduleReport{DryRun: dryRun, Databases: make(map[string]*databaseReport)}}
	if timeout := time.Duration(s.config.FunctionTimeout) * time.Second; timeout > 0 {
		t.reserve = min(longestCall, timeout/4)
		t.end = began.Add(timeout - t.reserve)
	}
	for _, id := range s.config.Databases {
		t.report.Databases[id] = new(databaseReport)
	}
	var keeping sync.WaitGroup
	if scheduled := s.config.Routes.Scheduled(); len(scheduled) > 0 && !dryRun {
		// Until the next call is due, the audit beside it too.
		if next := began.Add(s.config.SchedulePeriod); t.end.IsZero() || next.Before(t.end) {
			t.end = next
		}
		for _, id := range s.config.Databases {
			keeping.Go(func() {
				t.inDatabase(ctx, id, func(ctx context.Context, d *database, r *databaseReport) error {
					return t.keep(ctx, d, r, scheduled, t.end)
				})
			})
		}
	}
	for i, id := range s.config.Databases {
		until := t.end
		if !until.IsZero() { // the databases share what is left
			until = time.Now().Add(time.Until(until) / time.Duration(len(s.config.Databases)-i))
		}
		t.inDatabase(ctx, id, func(ctx context.Context, d *database, r *databaseReport) error { return t.audit(ctx, d, r, until) })
	}
	keeping.Wait()
	for _, r := range t.report.Databases {
		r.price()
		if !dryRun {
			s.telemetry.Audited(ctx, r.Report)
		}
	}
	t.report.Seconds = time.Since(began).Seconds()
	s.logger.InfoContext(ctx, "audited", "report", t.report)
	if !dryRun {
		s.telemetry.Tick(ctx, len(t.problems) == 0)
	}
	span.End(errors.Join(t.problems...))
	s.telemetry.FlushNow(ctx)
	return t.report
}

// inDatabase works in one database. What fails there does not keep the tick from the others.
func (t *tick) inDatabase(ctx context.Context, id string, work func(context.Context, *database, *databaseReport) error) {
	r := t.report.Databases[id]
	meter := billing.NewMeter(nil)
	d, err := t.database(ctx, id)
	if err == nil {
		err = work(billing.Context(ctx, meter), d, r)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	r.Billed = r.Billed.Add(meter.Counts())
	if err != nil {
		t.logger.ErrorContext(ctx, "tick failed", "database", id, "error", err)
		err = fmt.Errorf("database %s: %w", id, err)
		t.problems = append(t.problems, err)
		t.report.Errors = append(t.report.Errors, err.Error())
	}
}

// options are those of work for which no event waits.
func (t *tick) options(d *database) rollup.Options {
	o := t.service.options(d.logger)
	o.Timeout = t.reserve
	return o
}

func (t *tick) keep(ctx context.Context, d *database, r *databaseReport, routes rollup.Routes, until time.Time) error {
	report, err := rollup.Keep(ctx, d.store, routes, concurrency, until, t.options(d))
	r.Every = &report
	return err
}

func (t *tick) audit(ctx context.Context, d *database, r *databaseReport, until time.Time) (err error) {
	meter := billing.FromContext(ctx)
	routes := t.config.Routes
	if !t.dryRun {
		routes = routes.Live()
	}
	r.Report, err = rollup.Audit(ctx, d.store, routes, rollup.AuditOptions{
		Options:     t.options(d),
		Concurrency: concurrency,
		Grace:       rollup.Grace(t.config.Cadence, t.config.HoldLimit),
		Until:       until,
		MaxReads:    t.config.AuditReads,
		Reads:       func() int64 { return meter.Counts().Reads },
		DryRun:      t.dryRun,
	})
	return err
}

// price fills in what follows from the rest.
func (r *databaseReport) price() {
	if r.Cycle > 0 {
		cycle := r.Cycle.Seconds()
		r.CycleSeconds = &cycle
	}
	if r.Since > 0 {
		const day = 24 * time.Hour
		cost := r.Billed.Cost() * day.Seconds() / r.Since.Seconds()
		r.DollarsPerDay = &cost
	}
}
