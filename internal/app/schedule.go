package app

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/billing"
	"github.com/firestore-tally/tally/rollup"
)

// A scheduleReport is RollUpOnSchedule's answer.
type scheduleReport struct {
	DryRun    bool                   `json:"dry_run"`
	Databases map[string]auditReport `json:"databases"`
	Seconds   float64                `json:"seconds"`
	Errors    []string               `json:"errors,omitempty"`
}

// An auditReport is what the call did in one database, found and cost.
type auditReport struct {
	rollup.Report

	// Pending says what became of the pending marks. Null in a dry run, which leaves them alone.
	Pending *rollup.DrainReport `json:"pending"`

	Billed billing.Counts `json:"billed"`

	// CycleSeconds is how long it takes at this pace until every counter was audited: the time from the
	// call before to this one, as often as needed. Null while that is unknown: on the first call, and
	// until an audit has come to the last counter.
	CycleSeconds *float64 `json:"cycle_seconds"`

	// DollarsPerDay is the list price of a day of calls like this one, as often as the call before was
	// ago. Null on the first call.
	DollarsPerDay *float64 `json:"dollars_per_day"`
}

// auditConcurrency is how many counters one audit works on at once: enough to hide Firestore's
// latency, few enough for one instance's memory.
const auditConcurrency = 32

// lastWords is how much of the function's timeout is left when an audit stops: for the looks that have
// begun, the cursor and the answer. It is at most a quarter of the timeout.
const lastWords = 20 * time.Second

func (s *service) onSchedule(ctx context.Context, header http.Header, dryRun bool) scheduleReport {
	ctx, span := s.telemetry.StartTick(ctx, header)
	began := time.Now()
	var problems []error
	report := scheduleReport{DryRun: dryRun, Databases: make(map[string]auditReport)}
	for i, name := range s.config.Databases {
		audited, err := s.audit(ctx, databaseName{s.config.Project, name}, s.until(began, len(s.config.Databases)-i), dryRun)
		report.Databases[name] = audited
		if err != nil {
			s.logger.ErrorContext(ctx, "audit failed", "database", name, "error", err)
			err = fmt.Errorf("database %s: %w", name, err)
			problems = append(problems, err)
			report.Errors = append(report.Errors, err.Error())
		}
	}
	report.Seconds = time.Since(began).Seconds()
	s.logger.InfoContext(ctx, "audited", "report", report)
	if !dryRun {
		pending := 0
		for _, r := range report.Databases {
			s.telemetry.Audited(ctx, r.Report)
			if p := r.Pending; p != nil {
				pending += p.Waiting + p.Unrouted + p.Failed
			}
		}
		s.telemetry.Tick(ctx, len(report.Errors) == 0, pending)
	}
	span.End(errors.Join(problems...))
	s.telemetry.FlushNow(ctx)
	return report
}

// until returns when the next of so many databases must stop, which share what is left of the
// function's timeout. Zero: there is no timeout.
func (s *service) until(began time.Time, databases int) time.Time {
	timeout := time.Duration(s.config.FunctionTimeout) * time.Second
	if timeout == 0 {
		return time.Time{}
	}
	left := time.Until(began.Add(timeout - min(lastWords, timeout/4)))
	return time.Now().Add(left / time.Duration(databases))
}

func (s *service) audit(ctx context.Context, name databaseName, until time.Time, dryRun bool) (auditReport, error) {
	if name.project == firestore.DetectProjectID && s.config.EmulatorHost != "" {
		return auditReport{}, errors.New("GOOGLE_CLOUD_PROJECT is not set, and with an emulator there are no credentials to take it from")
	}
	d, err := s.opening(ctx, name).wait(ctx)
	if err != nil {
		return auditReport{}, err
	}
	meter := billing.NewMeter(nil)
	ctx = billing.Context(ctx, meter)
	var pending *rollup.DrainReport
	var drained error
	if !dryRun { // marks are drained at every cadence: they may be left from a longer one
		var report rollup.DrainReport
		report, drained = rollup.Drain(ctx, d.store, s.config.Routes, auditConcurrency, s.drainUntil(until), s.options())
		pending = &report
	}
	before := meter.Counts().Reads
	options := rollup.AuditOptions{
		Options:     s.options(),
		Concurrency: auditConcurrency,
		Grace:       rollup.Grace(s.config.Cadence, s.config.HoldLimit),
		Until:       until,
		MaxReads:    s.config.AuditReads,
		Reads:       func() int64 { return meter.Counts().Reads - before },
		DryRun:      dryRun,
	}
	if s.config.scheduled() {
		// An event leaves a mark within a hold; what then becomes of that is the drain's.
		options.Grace = rollup.Grace(0, s.config.HoldLimit)
		options.Marked = d.store.Marked
	}
	report, err := rollup.Audit(ctx, d.store, s.config.Routes, options)
	audited := newAuditReport(report, meter.Counts())
	audited.Pending = pending
	return audited, errors.Join(drained, err)
}

// drainUntil returns when the drain stops, so that a quarter of the time is the audit's.
func (s *service) drainUntil(until time.Time) time.Time {
	if until.IsZero() {
		return time.Now().Add(24 * time.Hour)
	}
	return time.Now().Add(time.Until(until) * 3 / 4)
}

func newAuditReport(report rollup.Report, billed billing.Counts) auditReport {
	r := auditReport{Report: report, Billed: billed}
	if report.Since <= 0 {
		return r
	}
	const day = 24 * time.Hour
	cost := billed.Cost() * day.Seconds() / report.Since.Seconds()
	r.DollarsPerDay = &cost
	if report.Whole > 0 && report.Walked > 0 {
		ticks := math.Ceil(float64(report.Whole) / float64(report.Walked))
		cycle := ticks * report.Since.Seconds()
		r.CycleSeconds = &cycle
	}
	return r
}
